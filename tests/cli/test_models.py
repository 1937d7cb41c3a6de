"""`dragoman models`, with upstreams that are there and one that is not."""

import json

import pytest
from click.testing import CliRunner

from dragoman.cli.main import main
from tests.support.forward_proxy import forward_proxy
from tests.support.odd_upstream import odd_upstream

pytestmark = pytest.mark.usefixtures("elsewhere")


def run(*arguments: str):
    return CliRunner().invoke(main, ["models", *arguments])


def test_an_upstream_is_asked_for_its_models(simulator) -> None:
    result = run("--upstream", f"{simulator.url}/v1")

    assert 0 == result.exit_code, result.output
    assert "default" in result.stdout.splitlines()[0]
    assert any(line.startswith("sim/kimi-k2 ") for line in result.stdout.splitlines())


def test_each_model_is_a_json_object(simulator) -> None:
    result = run("--upstream", f"{simulator.url}/v1", "--json")

    first = json.loads(result.stdout.splitlines()[0])
    assert {"id", "upstream", "context", "output"} == first.keys()


def test_without_settings_the_simulators_models_are_listed() -> None:
    result = run()

    assert 0 == result.exit_code
    assert "sim/qwen3-coder" in result.stdout


def test_an_upstream_that_is_not_there_is_one_line_and_exit_3() -> None:
    result = run("--upstream", "http://127.0.0.1:9/v1")

    assert 3 == result.exit_code
    expected = "dragoman: default: nothing accepts connections at 127.0.0.1:9\n"
    assert (expected, "") == (result.stderr, result.stdout)


def test_an_upstream_is_shown_the_key_as_its_dialect_wants_it(simulator, monkeypatch) -> None:
    monkeypatch.setenv("K", "very-secret-key")
    for dialect, header in (("anthropic", "x-api-key"), ("chat", "authorization")):
        with odd_upstream() as odd:
            odd.answer_with(200, {"data": [{"id": "one"}]})
            url = f"{odd.url}/v1"
            result = run(
                "--upstream", url, "--upstream-dialect", dialect, "--upstream-key-env", "K"
            )

        assert 0 == result.exit_code, result.output
        assert result.stdout.startswith("one ")
        assert odd.asked[0].headers[header].endswith("very-secret-key")


def test_models_of_google_are_listed_by_their_bare_names(monkeypatch) -> None:
    monkeypatch.setenv("K", "very-secret-key")
    with odd_upstream() as odd:
        listed = [{"name": "models/gemini-3-pro", "inputTokenLimit": 5}, {"name": "models/b"}]
        odd.answer_with(200, {"models": listed})
        url = f"{odd.url}/v1beta"
        result = run("--upstream", url, "--upstream-dialect", "gemini", "--upstream-key-env", "K")

    assert 0 == result.exit_code, result.output
    assert ["gemini-3-pro", "b"] == [line.split()[0] for line in result.stdout.splitlines()]
    assert "/v1beta/models" == odd.asked[0].path.partition("?")[0]
    assert "very-secret-key" == odd.asked[0].headers["x-goog-api-key"]
    assert "very-secret-key" not in odd.asked[0].path


def test_upstream_that_only_a_proxy_reaches_is_asked_through_it(simulator) -> None:
    with forward_proxy(hosts={"models.invalid": simulator.port}) as proxy:
        result = run("--upstream", "http://models.invalid/v1", "--proxy", proxy.url)
        targets = proxy.targets

    assert 0 == result.exit_code, result.output
    assert ["GET http://models.invalid/v1/models"] == targets


def test_proxy_that_wants_a_password_is_one_line_and_exit_3(monkeypatch) -> None:
    with forward_proxy(credentials="ann:right") as proxy:
        monkeypatch.setenv("CORP", proxy.url_for("ann", "wrong-one"))
        result = run("--upstream", "https://models.invalid/v1", "--proxy", "env:CORP")

    assert 3 == result.exit_code
    assert "rejects the user and password of its address (407)" in result.stderr
    assert "wrong-one" not in result.output
