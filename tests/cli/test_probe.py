"""`dragoman probe` as people use it."""

import json
import tomllib

import pytest
from click.testing import CliRunner

from dragoman.cli.main import main
from dragoman.gateway.config.load import load
from tests.support.forward_proxy import forward_proxy
from tests.support.gateway import stand

TEXT = {"messages": [{"role": "user", "content": "Hello"}], "max_tokens": 100}


pytestmark = pytest.mark.usefixtures("elsewhere")


def run(*arguments: str):
    return CliRunner().invoke(main, ["probe", *arguments])


def test_it_prints_a_table_without_colours_where_there_is_no_terminal(simulator):
    result = run(f"{simulator.url}/v1", "--model", "sim/plain", "--only", "stop,images", "--yes")

    assert 0 == result.exit_code, result.output
    assert "\x1b" not in result.output
    assert "stop     ok" in result.stdout
    assert "3 ok" in result.stdout
    assert "no differences from the profile `generic`" in result.stdout
    assert result.stderr.startswith("dragoman: about ")


def test_what_differs_is_summed_up(simulator):
    model = "sim/kimi-k2+refuses:images"
    result = run(f"{simulator.url}/v1", "--model", model, "--only", "images,native", "--yes")

    assert (
        "differs from the profile `generic` (save with --write): images = none, "
        "tool_images = placeholder; the model writes calls as text: format = kimi_k2\n"
    ) in result.stdout


def test_json_holds_all_that_was_found(simulator):
    model = "sim/plain+refuses:images"
    result = run(f"{simulator.url}/v1", "--model", model, "--only", "images", "--yes", "--json")

    found = json.loads(result.stdout)
    assert ("good", model, "chat") == (found["outcome"], found["model"], found["dialect"])
    assert {"images": "none", "tool_images": "placeholder"} == found["profile"]
    assert ["reach", "images"] == [one["name"] for one in found["checks"]]


def test_nothing_is_asked_before_confirmation(simulator):
    before = len(simulator.exchanges)

    result = run(f"{simulator.url}/v1", "--model", "sim/plain")

    assert 2 == result.exit_code
    assert (
        "dragoman: there is no terminal to ask for confirmation; pass --yes to start\n"
        in result.stderr
    )
    assert before == len(simulator.exchanges)


def test_without_a_file_the_simulator_is_asked():
    result = run("--yes", "--only", "models,tools-auto")

    assert 0 == result.exit_code, result.output
    assert "the built-in simulator" in result.stderr


def test_without_a_model_the_first_of_the_list_is_asked(simulator):
    result = run(f"{simulator.url}/v1", "--only", "models", "--yes", "--json")

    assert "sim/plain" == json.loads(result.stdout)["model"]


@pytest.mark.parametrize(
    ("model", "code"),
    [
        ("sim/plain+refuses:images", 0),
        ("sim/plain+refuses:tools", 1),
        ("sim/plain+error-200", 1),
        ("sim/plain+error:401", 3),
    ],
)
def test_the_exit_code_shows_how_bad_it_is(simulator, model, code):
    result = run(f"{simulator.url}/v1", "--model", model, "--only", "images,tools-auto", "-y")

    assert code == result.exit_code, result.output


def test_nobody_there_is_exit_3():
    result = run("http://127.0.0.1:9/v1", "--yes", "--json")

    assert 3 == result.exit_code
    found = json.loads(result.stdout)
    assert "unreachable" == found["outcome"]
    assert "nothing accepts connections at 127.0.0.1:9" == found["checks"][0]["found"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("nobody",), "there is no upstream `nobody`"),
        (("http://h/v1/chat/completions",), "URL: `/chat/completions` is appended"),
        (("http://h/v1", "--key-env", "NOT_SET_AT_ALL"), "the key `env:NOT_SET_AT_ALL` is not set"),
        (("http://h/v1", "--header", "no colon"), "--header needs the form 'NAME: VALUE'"),
        (("http://h/v1", "--only", "tool"), "no check `tool`"),
        (("--write", "http://h/v1"), "--write took the URL as the profile's name"),
        (("http://h/v1", "--json", "--write", "-"), "both print to standard output"),
    ],
)
def test_wrong_usage_is_reported_and_exit_2(arguments, says):
    result = run(*arguments, "--yes")

    assert 2 == result.exit_code
    assert says in result.stderr


def test_credentials_go_to_the_upstream_and_nowhere_else(simulator, monkeypatch):
    monkeypatch.setenv("PROBE_KEY", "sk-very-secret-key")
    arguments = ("--key-env", "PROBE_KEY", "--header", "X-Extra: also-a-secret")

    result = run(
        f"{simulator.url}/v1", *arguments, "--only", "reach", "--model", "m", "-y", "--json"
    )

    last = list(simulator.exchanges)[-1]
    assert 0 == result.exit_code
    assert last.headers["authorization"].startswith("Bearer sk")
    assert "also-a-secret" == last.headers["x-extra"]
    assert "close" == last.headers["connection"]  # servers close kept ones without a word
    assert "secret" not in result.output


def test_the_list_of_checks_needs_nobody():
    result = run("--list")

    assert 0 == result.exit_code
    assert "tools-named" in result.stdout


# --- what is written ---


def test_a_profile_is_printed_for_pipes(simulator):
    model = "sim/plain+refuses:max_tokens+search:none"
    result = run(f"{simulator.url}/v1", "--model", model, "--yes", "--write", "-")

    found = tomllib.loads(result.stdout)
    assert {
        "probed": {"base": "generic", "midturn_system": True}
        | {"max_tokens_field": "max_completion_tokens"}
    } == {"probed": {"midturn_system": True, **found["profiles"]["probed"]}}
    assert "verdict" in result.stderr


def test_a_new_file_has_the_upstream_and_its_profile(simulator, tmp_path):
    model = "sim/plain+refuses:max_tokens"

    result = run(
        f"{simulator.url}/v1", "--model", model, "--only", "output-limit", "-y", "--write", "mine"
    )

    assert 0 == result.exit_code, result.output
    settings = load(None, environ={}, cwd=tmp_path).settings
    assert "mine" == settings.upstreams["mine"].profile
    assert "max_completion_tokens" == settings.profiles["mine"].max_tokens_field


@pytest.mark.parametrize(
    ("dialect", "model", "written"),
    [
        ("chat", "sim/plain+search:zai", {"chat_search": "zai"}),
        ("anthropic", "sim/plain", {"server_tools": ["web_search"]}),
        ("responses", "sim/plain+search:none", {}),
    ],
)
def test_a_web_search_that_was_found_is_written(simulator, tmp_path, dialect, model, written):
    where = (f"{simulator.url}/v1", "--dialect", dialect, "--model", model)

    result = run(*where, "--only", "search", "-y", "--write", "mine")

    assert 0 == result.exit_code, result.output
    found = tomllib.loads((tmp_path / "dragoman.toml").read_text())["profiles"]["mine"]
    assert written == {name: one for name, one in found.items() if name != "base"}
    assert "mine" in load(None, environ={}, cwd=tmp_path).settings.profiles


def test_a_named_upstream_uses_what_was_written(simulator, tmp_path):
    file = tmp_path / "dragoman.toml"
    file.write_text(
        f'# mine\n[upstreams.lab]\nbase_url = "{simulator.url}/v1"\n\n'
        '[[routes]]\nto = "lab/sim/plain+refuses:images"\n'
    )

    result = run("lab", "--only", "images", "--yes", "--write")
    again = run("lab", "--only", "images", "--yes", "--write")

    assert 0 == result.exit_code, result.output
    settings = load(None, environ={}, cwd=tmp_path).settings
    assert ("lab", "none") == (settings.upstreams["lab"].profile, settings.profiles["lab"].images)
    assert file.read_text().startswith('# mine\n[upstreams.lab]\nprofile = "lab"\n')
    assert 2 == again.exit_code
    assert "has a profile `lab` already" in again.stderr


def test_the_gateway_serves_with_the_profile_what_it_could_not_without(simulator, tmp_path):
    """An Anthropic client through an upstream that refuses the usual field for its limit."""
    import urllib.error
    import urllib.request

    from msgspec import structs

    model = "sim/plain+refuses:max_tokens"
    run(f"{simulator.url}/v1", "--model", model, "--only", "output-limit", "-y", "--write", "mine")
    settings = load(None, environ={}, cwd=tmp_path).settings

    def status(profile: str) -> int:
        upstream = structs.replace(settings.upstreams["mine"], profile=profile, retries=0)
        server = structs.replace(settings.server, port=0)
        changed = structs.replace(settings, server=server, upstreams={"mine": upstream})
        with stand(lambda _url: changed) as gateway:
            body = json.dumps({**TEXT, "model": model}).encode()
            request = urllib.request.Request(f"{gateway.url}/v1/messages", body)
            try:
                with urllib.request.urlopen(request, timeout=10) as response:
                    return response.status
            except urllib.error.HTTPError as error:
                return error.code

    assert 400 == status("generic")
    assert 200 == status("mine")


@pytest.mark.parametrize("where", ["http://models.invalid/v1", "local"])
def test_upstream_that_only_a_proxy_reaches_is_probed_through_it(
    simulator, where: str, tmp_path
) -> None:
    (tmp_path / "dragoman.toml").write_text(
        '[upstreams.local]\nbase_url = "http://models.invalid/v1"\n'
    )
    with forward_proxy(hosts={"models.invalid": simulator.port}) as proxy:
        options = ("--model", "plain", "--only", "reach", "--yes", "--proxy", proxy.url)
        result = run(where, *options)
        targets = proxy.targets

    assert 0 == result.exit_code, result.output
    assert any(one.startswith("POST http://models.invalid/v1/") for one in targets)
