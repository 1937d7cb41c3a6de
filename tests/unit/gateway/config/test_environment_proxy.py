"""`proxy` of an upstream: from the file, the environment and flags."""

import tomllib
from pathlib import Path

import pytest
from yarl import URL

from dragoman.errors import ConfigError
from dragoman.gateway.config.environment import ConfigEnvironment
from dragoman.gateway.config.load import Flags, Loaded, make_settings
from dragoman.gateway.config.problems import ConfigMistakesError
from dragoman.gateway.config.render import plain, toml_text
from dragoman.gateway.config.settings import Upstream
from dragoman.gateway.plan import secrets_of

UP = '[upstreams.up]\nbase_url = "https://api.models.example/v1"\n'
LOCAL = '[upstreams.local]\nbase_url = "http://127.0.0.1:8000/v1"\n'
WITH_PASSWORD = "http://ann:s3cret-word@proxy.example:3128"
ENVIRON = {"CORP": WITH_PASSWORD, "SOCKS": "socks5://a:1", "EMPTY": ""}


def made(text: str, environ: dict[str, str] = ENVIRON, **options) -> Loaded:
    environment = ConfigEnvironment(environ=environ, folder=Path("/nowhere"))
    return make_settings(tomllib.loads(text), environment, **options)


def mistakes(text: str, environ: dict[str, str] = ENVIRON, **options) -> list[str]:
    with pytest.raises(ConfigMistakesError) as found:
        made(text, environ, **options)
    return [str(one) for one in found.value.mistakes]


def where(upstream: Upstream) -> str:
    proxy = None if upstream.proxy is None else upstream.proxy.find(URL(upstream.base_url))
    return "" if proxy is None else proxy.where


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("http://proxy.example:3128", "proxy.example:3128"),
        ("https://proxy.example", "proxy.example:443"),
        ("env:CORP", "proxy.example:3128"),
        ("env", "secure.example:1"),
        ("none", ""),
    ],
)
def test_proxy_of_an_upstream(value: str, expected: str) -> None:
    environ = {**ENVIRON, "HTTPS_PROXY": "http://secure.example:1", "HTTP_PROXY": "other:2"}
    settings = made(f'{UP}proxy = "{value}"', environ).settings

    assert expected == where(settings.upstreams["up"])


def test_proxy_of_the_server_is_that_of_upstreams_without_one() -> None:
    server = '[server]\nproxy = "http://all.example:1"\n'
    found = made(f'{server}{LOCAL}proxy = "none"\n{UP}').settings.upstreams

    assert where(found["up"]) == "all.example:1"
    assert where(found["local"]) == ""
    assert "server.proxy" in mistakes('[server]\nproxy = "socks5://a:1"\n' + UP)[0]


def test_variables_may_be_in_a_file_beside(tmp_path: Path) -> None:
    (tmp_path / "proxy.txt").write_text(WITH_PASSWORD + "\n")
    environment = ConfigEnvironment(environ={}, folder=tmp_path)
    loaded = make_settings(tomllib.loads(UP + 'proxy = "file:proxy.txt"'), environment)

    assert "proxy.example:3128" == where(loaded.settings.upstreams["up"])


FORM = "or `env`, `env:NAME`, `file:PATH`, `none`"
MISTAKES = {
    'proxy = "socks5://proxy:1"': "SOCKS proxies are not supported; name an HTTP proxy: "
    f"`http://HOST:PORT`; {FORM}",
    'proxy = "environment"': f"the proxy's address must have the form `http://HOST:PORT`; {FORM}",
    f'proxy = "{WITH_PASSWORD}"': "a password must not be in the file or on the command line; "
    "put the whole address into an environment variable and write `env:NAME`",
    'proxy = "ftp://proxy"': f"the proxy's address must have the form `http://HOST:PORT`; {FORM}",
    'proxy = "env:MISSING"': "environment variable MISSING is not set; "
    "export MISSING=… or write that line into /nowhere/.env",
    'proxy = "env:EMPTY"': "`env:EMPTY` is empty",
    'proxy = "env:SOCKS"': "SOCKS proxies are not supported; name an HTTP proxy: "
    f"`http://HOST:PORT`; {FORM}",
    "proxy = 3128": "expected a string, got the number 3128",
}


@pytest.mark.parametrize("line", MISTAKES)
def test_proxy_that_cannot_be_used_is_a_mistake(line: str) -> None:
    assert [f"upstreams.up.proxy: {MISTAKES[line]}"] == mistakes(UP + line)


def test_proxy_of_the_environment_that_cannot_be_used_is_a_mistake() -> None:
    environ = {"ALL_PROXY": "socks5://ann:s3cret-word@proxy.example"}
    (found,) = mistakes(UP + 'proxy = "env"', environ)

    assert found.startswith("upstreams.up.proxy: SOCKS proxies are not supported")
    # An upstream on this machine does not need it.
    assert made(LOCAL + 'proxy = "env"', environ)


def test_flag_is_for_every_upstream() -> None:
    loaded = made(UP + 'proxy = "env:MISSING"\n' + LOCAL, flags=Flags(proxy="http://proxy:1"))

    assert ["proxy:1"] * 2 == [where(one) for one in loaded.settings.upstreams.values()]


def test_mistake_in_a_flag_names_the_flag() -> None:
    one = Flags(upstream="https://api.models.example/v1", proxy="socks5://x:1", tls_ca="no.pem")
    found = mistakes("", flags=one)

    assert any(line.startswith("--proxy: SOCKS proxies are not supported") for line in found)
    assert any(line.startswith("--tls-ca: there is no file ") for line in found)


def test_flags_without_an_upstream_are_a_mistake() -> None:
    missing = "there is no upstream, only the built-in simulator; add --upstream URL"

    assert [f"--proxy: {missing}"] == mistakes("", flags=Flags(proxy="env"))
    assert [f"--tls-ca: {missing}"] == mistakes("", flags=Flags(tls_ca="ca.pem"))


def test_settings_are_shown_without_the_password() -> None:
    settings = made(UP + 'proxy = "env:CORP"').settings
    shown = (toml_text(settings), str(plain(settings)), repr(settings))

    assert 'proxy = "env:CORP"  # through proxy.example:3128' in shown[0]
    assert not any("s3cret" in text for text in shown)
    assert "s3cret-word" in secrets_of(settings)


def test_settings_without_their_secrets_can_be_shown_and_not_used() -> None:
    settings = made(UP + 'proxy = "env:MISSING"', need_secrets=False).settings

    assert 'proxy = "env:MISSING"  # not set' in toml_text(settings)
    assert () == secrets_of(settings)
    with pytest.raises(ConfigError, match="the proxy's address `env:MISSING` is not set"):
        where(settings.upstreams["up"])


def test_settings_show_which_way_the_environment_means() -> None:
    environ = {"ALL_PROXY": "http://proxy:1"}
    shown = toml_text(made(f'{UP}proxy = "env"\n{LOCAL}proxy = "env"', environ).settings)

    assert 'proxy = "env"  # through proxy:1' in shown
    assert 'proxy = "env"  # a direct connection' in shown


@pytest.mark.parametrize(
    ("text", "environ", "warned"),
    [
        (UP, {"https_proxy": "http://proxy:1"}, ["upstreams.up.proxy: HTTPS_PROXY is set and not used"]),
        (UP, {"HTTPS_PROXY": "http://proxy:1", "NO_PROXY": "models.example"}, []),
        (UP, {"HTTP_PROXY": "http://proxy:1"}, []),
        (UP + 'proxy = "none"', {"HTTPS_PROXY": "http://proxy:1"}, []),
        (UP + 'proxy = "env"', {"HTTPS_PROXY": "http://proxy:1"}, []),
        (LOCAL, {"HTTP_PROXY": "http://proxy:1"}, []),
    ],
)  # fmt: skip
def test_proxy_of_the_environment_that_is_not_used_is_a_warning(
    text: str, environ: dict[str, str], warned: list[str]
) -> None:
    assert warned == [str(one).partition(";")[0] for one in made(text, environ).warnings]
