"""From a file, the environment and flags to settings."""

from pathlib import Path

import pytest

from dragoman.errors import ConfigError
from dragoman.gateway.config.load import (
    VARIABLES,
    Flags,
    find_file,
    from_flags,
    load,
    parse,
)
from dragoman.gateway.config.problems import ConfigMistakesError
from dragoman.gateway.config.settings import (
    Match,
    Route,
    Secret,
    Settings,
    Upstream,
)
from tests.support.settings_file import ENVIRON, EXAMPLE, write


def lines(error) -> list[str]:
    return [str(one) for one in error.value.mistakes]


@pytest.mark.parametrize(
    ("places", "environ", "found"),
    [
        (["here", "xdg", "home"], {"XDG_CONFIG_HOME": "xdg", "HOME": "home"}, "here"),
        (["xdg", "home"], {"XDG_CONFIG_HOME": "xdg", "HOME": "home"}, "xdg"),
        (["home"], {"HOME": "home"}, "home"),
        (["home"], {"USERPROFILE": "home"}, "home"),
        (["home"], {"XDG_CONFIG_HOME": "", "HOME": "home"}, "home"),
        (["home"], {"XDG_CONFIG_HOME": "xdg", "HOME": "home"}, None),
        ([], {"HOME": "home"}, None),
        ([], {}, None),
    ],
)
def test_the_file_is_looked_for_here_then_in_the_folder_for_settings(
    tmp_path, places, environ, found
):
    where = {
        "here": tmp_path / "here" / "dragoman.toml",
        "xdg": tmp_path / "xdg" / "dragoman" / "dragoman.toml",
        "home": tmp_path / "home" / ".config" / "dragoman" / "dragoman.toml",
    }
    (tmp_path / "here").mkdir()
    for place in places:
        write(where[place].parent, "")
    environ = {name: value and str(tmp_path / value) for name, value in environ.items()}

    assert (None if found is None else where[found]) == find_file(environ, tmp_path / "here")


def test_a_variable_names_the_file_before_this_folder(tmp_path):
    write(tmp_path, '[upstreams.here]\nbase_url = "http://h/v1"')
    named = write(tmp_path, '[upstreams.named]\nbase_url = "http://h/v1"', "other.toml")
    flagged = write(tmp_path, '[upstreams.flagged]\nbase_url = "http://h/v1"', "flag.toml")
    environ = {"DRAGOMAN_CONFIG": "other.toml"}

    found = load(None, environ=environ, cwd=tmp_path)

    assert (named, ["named"]) == (found.path, list(found.settings.upstreams))
    assert ["flagged"] == list(load(flagged, environ=environ, cwd=tmp_path).settings.upstreams)


def test_a_file_that_the_variable_names_must_be_there(tmp_path):
    write(tmp_path, '[upstreams.here]\nbase_url = "http://h/v1"')

    with pytest.raises(ConfigError) as error:
        load(None, environ={"DRAGOMAN_CONFIG": "none.toml"}, cwd=tmp_path)

    missing = tmp_path / "none.toml"
    assert f"DRAGOMAN_CONFIG: cannot read {missing}: no such file or directory" == str(error.value)


def test_without_a_file_the_defaults_hold(tmp_path):
    loaded = load(None, environ={}, cwd=tmp_path)

    assert (None, Settings(), ()) == (loaded.path, loaded.settings, loaded.warnings)


def test_a_file_without_upstreams_is_warned_about(tmp_path):
    write(tmp_path, "")

    (warning,) = load(None, environ={}, cwd=tmp_path).warnings

    assert str(warning) == "upstreams: no upstream is set: the built-in simulator answers"


def test_a_named_file_must_be_there(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot read .*none.toml: no such file or directory"):
        load(Path("none.toml"), environ={}, cwd=tmp_path)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a = \n", r"line 1, column 5: not TOML: invalid value"),
        (b"[server]\nport 5\n", r"line 2, column 6: not TOML: expected '=' after a key"),
        (b"a = 1\na = 2\n", r"line 2, column 6: not TOML: cannot overwrite a value"),
        (b"a = " + b"[" * 100_000, r"nested too deep|not TOML"),
        (b"a = " + b"1" * 5000, r"not TOML"),
        (b"a = '\xff'", r"is not UTF-8 \(byte 5\)"),
        (b"#" * (1 << 21), r"larger than 1048576 bytes"),
    ],
)
def test_invalid_toml_is_reported_with_its_place(tmp_path, data, reason):
    (tmp_path / "dragoman.toml").write_bytes(data)

    with pytest.raises(ConfigError, match=reason):
        load(None, environ={}, cwd=tmp_path)


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(ConfigError, match=r"is a directory"):
        parse(tmp_path, tmp_path)


def test_variables_stand_over_the_file(tmp_path):
    write(tmp_path, '[server]\nport = 1\n[log]\nlevel = "debug"')
    environ = {
        "DRAGOMAN_HOST": "localhost",
        "DRAGOMAN_PORT": " 9000 ",
        "DRAGOMAN_WORKERS": "2",
        "DRAGOMAN_LOG_FORMAT": "json",
        "DRAGOMAN_LOG_LEVEL": "",
    }

    found = load(None, environ=environ, cwd=tmp_path).settings

    assert set(environ) == set(VARIABLES)
    assert (found.server.host, found.server.port, found.server.workers) == ("localhost", 9000, 2)
    assert (found.log.format, found.log.level) == ("json", "debug")


@pytest.mark.parametrize(
    ("variable", "value", "reason"),
    [
        ("DRAGOMAN_PORT", "many", 'DRAGOMAN_PORT: expected a whole number, got the string "many"'),
        ("DRAGOMAN_PORT", "70000", "DRAGOMAN_PORT: must be at most 65535, not 70000"),
        ("DRAGOMAN_PORT", "-1", 'DRAGOMAN_PORT: expected a whole number, got the string "-1"'),
        ("DRAGOMAN_LOG_LEVEL", "loud", "DRAGOMAN_LOG_LEVEL: expected one of `debug`"),
        ("DRAGOMAN_HOST", "0.0.0.0", "DRAGOMAN_HOST: `0.0.0.0` can be reached from the network"),
    ],
)
def test_a_mistake_in_a_variable_names_it(tmp_path, variable, value, reason):
    with pytest.raises(ConfigMistakesError) as error:
        load(None, environ={variable: value}, cwd=tmp_path)

    assert lines(error)[0].startswith(reason)


def test_the_address_that_kubernetes_puts_into_the_port_is_passed_over(tmp_path):
    environ = {"DRAGOMAN_PORT": "tcp://10.0.0.1:8484"}

    assert load(None, environ=environ, cwd=tmp_path).settings.server.port == 8484


def test_variables_over_a_table_that_is_none_leave_the_mistake_to_be_reported(tmp_path):
    write(tmp_path, "server = 5")

    with pytest.raises(ConfigMistakesError, match=r"server: expected a table, got the number 5"):
        load(None, environ={"DRAGOMAN_PORT": "1"}, cwd=tmp_path)


def test_flags_alone_make_a_gateway(tmp_path):
    flags = Flags(
        upstream="http://127.0.0.1:8000/v1/",
        upstream_dialect="anthropic",
        upstream_key_env="K",
        model="qwen/qwen3",
        format="hermes",
        host="localhost",
        port=0,
        workers=2,
        insecure=True,
    )

    found = from_flags(flags, environ={"K": "v"}, cwd=tmp_path)

    assert found.upstreams == {
        "default": Upstream(
            base_url="http://127.0.0.1:8000/v1",
            dialect="anthropic",
            key=Secret("env:K", "v"),
            format="hermes",
        )
    }
    assert found.routes == (Route(match=Match(model="*"), to=("default/qwen/qwen3",)),)
    server = found.server
    assert (server.host, server.port, server.workers, server.insecure) == ("localhost", 0, 2, True)


def test_without_a_model_the_clients_name_is_kept(tmp_path):
    found = from_flags(Flags(upstream="http://h/v1"), environ={}, cwd=tmp_path)

    assert found.routes[0].to == ("default/*",)


def test_a_known_vendors_key_is_taken_from_its_usual_variable(tmp_path):
    environ = {"OPENROUTER_API_KEY": "o"}

    def key_for(address):
        flags = Flags(upstream=address)
        return from_flags(flags, environ=environ, cwd=tmp_path).upstreams["default"].key

    assert key_for("https://openrouter.ai/api/v1") == Secret("env:OPENROUTER_API_KEY", "o")
    assert key_for("https://openrouter.example/api/v1") is None
    assert key_for("http://127.0.0.1:11434/v1") is None


@pytest.mark.parametrize(
    ("address", "mistake"),
    [
        (
            "https://api.openai.com/v1",
            (
                "--upstream: OpenAI needs a key, and OPENAI_API_KEY is not set; export OPENAI_API_KEY=…, "
                "name another variable with --upstream-key-env, or pass --no-key if it needs none"
            ),
        ),
        # The usual variable is never sent unencrypted or to another port.
        (
            "http://openrouter.ai/api/v1",
            (
                "--upstream: OpenRouter needs a key; name the variable that holds it with --upstream-key-env, "
                "or pass --no-key if it needs none"
            ),
        ),
        (
            "https://openrouter.ai:8443/api/v1",
            (
                "--upstream: OpenRouter needs a key; name the variable that holds it with --upstream-key-env, "
                "or pass --no-key if it needs none"
            ),
        ),
    ],
)
def test_a_known_vendor_without_its_key_is_a_mistake_of_the_flags(tmp_path, address, mistake):
    environ = {"OPENROUTER_API_KEY": "o"}

    with pytest.raises(ConfigMistakesError) as error:
        from_flags(Flags(upstream=address), environ=environ, cwd=tmp_path)
    keyless = from_flags(Flags(upstream=address, no_key=True), environ=environ, cwd=tmp_path)

    assert [mistake] == lines(error)
    assert (keyless.upstreams["default"].key, keyless.upstreams["default"].auth) == (None, "none")


def test_no_key_removes_the_key_of_the_only_upstream(tmp_path):
    write(tmp_path, '[upstreams.a]\nbase_url = "http://h/v1"\nkey = "env:NOT_SET"')

    found = load(None, environ={}, cwd=tmp_path, flags=Flags(no_key=True)).settings

    assert found.upstreams["a"].key is None


def test_no_key_contradicts_a_variable_for_the_key(tmp_path):
    flags = Flags(upstream="http://h/v1", no_key=True, upstream_key_env="K")

    with pytest.raises(ConfigMistakesError) as error:
        from_flags(flags, environ={"K": "k"}, cwd=tmp_path)

    assert "--no-key: contradicts --upstream-key-env; remove one of them" in lines(error)


def test_flags_win_over_environment_and_file(tmp_path):
    write(tmp_path, EXAMPLE + '\n[tiers]\nopus = "local/x"\n[aliases]\na = "b"')
    flags = Flags(upstream="http://127.0.0.1:1/v1", port=7)

    loaded = load(None, environ={**ENVIRON, "DRAGOMAN_PORT": "8"}, cwd=tmp_path, flags=flags)

    assert loaded.settings.server.port == 7
    assert loaded.settings.server.keys
    assert list(loaded.settings.upstreams) == ["default"]
    assert [route.to for route in loaded.settings.routes] == [("default/*",)]
    assert (loaded.settings.tiers, loaded.settings.aliases) == ({}, {"a": "b"})
    assert loaded.warnings == ()


def test_variables_of_upstreams_that_flags_replace_need_not_be_set(tmp_path):
    write(tmp_path, '[upstreams.up]\nbase_url = "https://h/v1"\nkey = "env:MISSING"')

    found = load(None, environ={}, cwd=tmp_path, flags=Flags(upstream="http://127.0.0.1:1/v1"))

    assert list(found.settings.upstreams) == ["default"]


def test_flags_about_an_upstream_change_the_only_one_of_the_file(tmp_path):
    write(
        tmp_path,
        '[upstreams.up]\nbase_url = "https://h/v1"\n[[routes]]\nto = "up/a"\nformat = "hermes"\n'
        '[tiers]\nopus = "up/b"\n',
    )
    flags = Flags(upstream_dialect="responses", upstream_key_env="K", format="none")

    kept = load(None, environ={"K": "v"}, cwd=tmp_path, flags=flags).settings
    moved = load(None, environ={}, cwd=tmp_path, flags=Flags(model="m")).settings

    assert kept.upstreams["up"] == Upstream(
        base_url="https://h/v1", dialect="responses", key=Secret("env:K", "v"), format="none"
    )
    assert kept.routes == (Route(to=("up/a",)),)
    assert moved.routes == (Route(match=Match(model="*"), to=("up/m",)),)
    assert moved.tiers == {}


def test_flags_about_no_or_several_upstreams_are_mistakes(tmp_path):
    flags = Flags(model="m", upstream_dialect="chat")
    with pytest.raises(ConfigMistakesError) as none:
        from_flags(flags, environ={}, cwd=tmp_path)
    write(tmp_path, EXAMPLE)
    with pytest.raises(ConfigMistakesError) as several:
        load(None, environ=ENVIRON, cwd=tmp_path, flags=flags)

    assert lines(none) == [
        "--upstream-dialect: there is no upstream, only the built-in simulator; add --upstream URL",
        "--model: there is no upstream, only the built-in simulator; add --upstream URL",
    ]
    assert lines(several) == [
        "--upstream-dialect: the file has 2 upstreams, and it is not clear which one is meant; add --upstream URL",
        "--model: the file has 2 upstreams, and it is not clear which one is meant; add --upstream URL",
    ]


def test_mistakes_in_flags_name_the_flags(tmp_path):
    flags = Flags(
        upstream="openrouter.ai/api/v1",
        upstream_dialect="chatt",
        upstream_key_env="NOPE",
        model="a*b*",
        format="kimmi_k2",
        host="0.0.0.0",
        port=-1,
        workers=0,
    )

    with pytest.raises(ConfigMistakesError) as error:
        from_flags(flags, environ={}, cwd=tmp_path)

    assert {
        "--upstream",
        "--upstream-dialect",
        "--upstream-key-env",
        "--model",
        "--format",
        "--host",
        "--port",
        "--workers",
    } == {one.path for one in error.value.mistakes}


def test_flags_over_tables_that_are_none_leave_the_mistake_to_be_reported(tmp_path):
    write(tmp_path, "upstreams = { up = 5 }\nroutes = 5")

    with pytest.raises(ConfigMistakesError) as error:
        load(None, environ={}, cwd=tmp_path, flags=Flags(format="none"))

    assert lines(error)[0] == "upstreams.up: expected a table, got the number 5"
