"""Which URL goes through which proxy."""

import pytest
from yarl import URL

from dragoman.errors import ConfigError
from dragoman.transport import Proxy, ProxyRule, environment_rule, fixed_rule
from dragoman.transport.proxy import parse_proxy

HTTPS = "https://api.models.example/v1"
HTTP = "http://api.models.example/v1"


def chosen(environ: dict[str, str], url: str) -> str:
    """Return where the proxy is; empty if there is none."""
    proxy = environment_rule(environ).find(URL(url))
    return "" if proxy is None else proxy.where


@pytest.mark.parametrize(
    ("text", "host", "port", "secure"),
    [
        ("http://proxy.example:3128", "proxy.example", 3128, False),
        ("http://proxy.example:3128/", "proxy.example", 3128, False),
        ("http://proxy.example", "proxy.example", 80, False),
        ("https://proxy.example", "proxy.example", 443, True),
        ("http://[::1]:3128", "::1", 3128, False),
    ],
)
def test_address_of_a_proxy(text: str, host: str, port: int, *, secure: bool) -> None:
    assert Proxy(host, port, secure) == parse_proxy(text)


@pytest.mark.parametrize(
    ("text", "user_and_password"),
    [
        ("http://ann:secret@proxy.example", "YW5uOnNlY3JldA=="),  # ann:secret
        ("http://ann:p%40ss%3A%2F@proxy.example", "YW5uOnBAc3M6Lw=="),  # ann:p@ss:/
        ("http://ann@proxy.example", "YW5uOg=="),  # ann:
    ],
)
def test_credentials_of_an_address(text: str, user_and_password: str) -> None:
    proxy = parse_proxy(text)

    assert f"Basic {user_and_password}" == proxy.authorization
    assert user_and_password in proxy.secrets
    assert "Proxy('proxy.example:" in repr(proxy)
    assert "YW5u" not in repr(proxy)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("socks5://ann:s3cret@proxy.example:1080", "SOCKS proxies are not supported"),
        ("socks5h://proxy.example", "SOCKS proxies are not supported"),
        ("ftp://ann:s3cret@proxy.example", "must have the form `http://HOST:PORT`"),
        ("http://ann:s3cret@proxy.example:x", "is not a URL; write `http://HOST:PORT`"),
        ("http://ann:s3cret@", "must have the form `http://HOST:PORT`"),
        ("http://proxy.example/pac?s3cret", "must have the form `http://HOST:PORT`"),
        ("http://[::1", "is not a URL; write `http://HOST:PORT`"),
        ("http://pro\u0445y.example", "contains a character that a host cannot contain"),
        ("", "must have the form `http://HOST:PORT`"),
        ("system", "must have the form `http://HOST:PORT`"),
        ("proxy.example:3128", "must have the form `http://HOST:PORT`"),
        ("ann:s3cret@proxy.example:3128", "must have the form `http://HOST:PORT`"),
    ],
)
def test_address_that_cannot_be_used_is_refused_without_its_password(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says) as refused:
        parse_proxy(text)

    assert "s3cret" not in str(refused.value)
    assert refused.value.__cause__ is None  # nor in a traceback


def test_fixed_proxy_is_for_every_url() -> None:
    rule = fixed_rule("http://ann:s3cret@proxy.example:3128")

    for url in (HTTP, HTTPS, "http://127.0.0.1:8000/v1"):
        assert "proxy.example:3128" == rule.find(URL(url)).where
    assert "ProxyRule('http://proxy.example:3128')" == repr(rule)


def test_rule_without_its_address_finds_nothing() -> None:
    with pytest.raises(ConfigError, match="the proxy's address `env:CORP` is not set"):
        ProxyRule(source="env:CORP", found=False).find(URL(HTTPS))


@pytest.mark.parametrize(
    ("environ", "http", "https"),
    [
        ({}, "", ""),
        ({"HTTPS_PROXY": "http://a:1"}, "", "a:1"),
        ({"HTTP_PROXY": "http://a:1"}, "a:1", ""),
        ({"HTTPS_PROXY": "http://a:1", "https_proxy": "b:2"}, "", "b:2"),
        ({"HTTPS_PROXY": "http://a:1", "https_proxy": ""}, "", "a:1"),
        ({"ALL_PROXY": "http://a:1"}, "a:1", "a:1"),
        ({"all_proxy": "http://a:1", "HTTP_PROXY": "b:2"}, "b:2", "a:1"),
        ({"HTTP_PROXY": "  http://a:1 "}, "a:1", ""),
    ],
)
def test_variables_name_the_proxy_of_a_scheme(
    environ: dict[str, str], http: str, https: str
) -> None:
    assert (http, https) == (chosen(environ, HTTP), chosen(environ, HTTPS))


BYPASSED = [
    ("*", HTTPS),
    ("api.models.example", HTTPS),
    ("models.example", HTTPS),
    (".models.example", HTTPS),
    ("*.models.example", HTTPS),
    (".models.example", "https://models.example/v1"),
    ("API.Models.Example", HTTPS),
    ("other.example, models.example", HTTPS),
    ("other.example models.example", HTTPS),
    ("models.example:443", HTTPS),
    ("models.example:8443", "https://models.example:8443/v1"),
    ("10.1.2.3", "http://10.1.2.3/v1"),
    ("10.0.0.0/8", "http://10.1.2.3:8000/v1"),
    ("fd00::/8", "http://[fd00::1]/v1"),
    ("fd00::1", "http://[fd00:0::1]/v1"),
    ("[fd00::1]:8000", "http://[fd00::1]:8000/v1"),
    ("models.example.", HTTPS),
    # This machine, without being named.
    ("", "http://localhost:8000/v1"),
    ("", "http://127.0.0.1:8000/v1"),
    ("", "http://[::1]:8000/v1"),
]
PROXIED = [
    ("", HTTPS),
    ("odels.example", HTTPS),
    ("www.api.models.example", HTTPS),
    ("models.example:80", HTTPS),
    ("10.1.2.4", "http://10.1.2.3/v1"),
    ("11.0.0.0/8", "http://10.1.2.3/v1"),
    ("10.0.0.0/8", HTTPS),
    ("10.0.0.0/99", "http://10.1.2.3/v1"),
    (".", HTTPS),
    ("[::", HTTPS),
    ("models.example:port", HTTPS),
]


@pytest.mark.parametrize(("no_proxy", "url"), BYPASSED)
def test_no_proxy_covers(no_proxy: str, url: str) -> None:
    assert "" == chosen({"ALL_PROXY": "http://a:1", "NO_PROXY": no_proxy}, url)


@pytest.mark.parametrize(("no_proxy", "url"), PROXIED)
def test_no_proxy_does_not_cover(no_proxy: str, url: str) -> None:
    assert "a:1" == chosen({"ALL_PROXY": "http://a:1", "NO_PROXY": no_proxy}, url)
