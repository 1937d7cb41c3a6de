"""Pages in a browser on the same machine are kept out."""

from typing import Any

import pytest

from dragoman.gateway.config.settings import Key, Secret, Server
from dragoman.gateway.origins import cors_headers, is_loopback, refuse_page
from dragoman.turn.events import Fault, FaultKind
from tests.support.tables import in_one_test

KEYS = (Key(key=Secret("env:K", "k")),)


def refused(
    host: str = "127.0.0.1:8484",
    origin: str = "",
    fetch_site: str = "",
    method: str = "POST",
    **server: Any,
) -> str:
    """The code of the refusal, empty if there is none."""
    fault = refuse_page(
        host=host, origin=origin, fetch_site=fetch_site, method=method, server=Server(**server)
    )
    if fault is None:
        return ""
    assert (FaultKind.PERMISSION, 403) == (fault.kind, fault.status)
    return fault.code


@in_one_test
@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "localhost:8484",
        "LOCALHOST:1",
        "localhost.",
        "127.0.0.1",
        "127.0.0.1:8484",
        "127.8.9.1:8484",
        "[::1]",
        "[::1]:8484",
        "[::ffff:127.0.0.1]:8484",
        "",
    ],
)
@pytest.mark.parametrize("bind", ["127.0.0.1", "localhost", "::1", "[::1]", "127.0.0.2"])
def test_names_of_this_machine_are_ours(bind: str, host: str) -> None:
    fault = refuse_page(
        host=host, origin="", fetch_site="", method="POST", server=Server(host=bind)
    )

    assert fault is None


@in_one_test
@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:8484",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "evil.example:127.0.0.1",
        "192.168.1.5:8484",
        "0.0.0.0:8484",
        "[::2]:8484",
        "localhost@evil.example",
        "2130706433",
        "dragoman",
        "x" * 100_000,
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "HEAD", "DELETE"])
def test_dns_rebinding_meets_a_refusal_whatever_the_method(host: str, method: str) -> None:
    assert "host_refused" == refused(host, method=method)
    assert "host_refused" == refused(host, method=method, keys=KEYS)
    assert "host_refused" == refused(host, f"http://{host}", "same-origin", method)


@pytest.mark.parametrize(
    ("allowed", "host", "code"),
    [
        ("gateway.example", "gateway.example", ""),
        ("gateway.example", "GATEWAY.example:443", ""),
        ("gateway.example:8484", "gateway.example:8484", ""),
        ("gateway.example:8484", "gateway.example:1", "host_refused"),
        ("*.example", "a.b.example:1", ""),
        ("*.example", "a.example.evil", "host_refused"),
        ("gateway.example", "xgateway.example", "host_refused"),
        ("192.168.1.5", "192.168.1.5:8484", ""),
        ("[fe80::1]", "[fe80::1]:8484", ""),
        ("*", "anything.at.all", ""),
    ],
)
def test_further_names_are_allowed_by_the_settings(allowed: str, host: str, code: str) -> None:
    assert code == refused(host, allowed_hosts=(allowed,))


@pytest.mark.parametrize(
    ("host", "options", "code"),
    [
        ("192.168.1.5:8484", {"keys": KEYS}, ""),
        ("[fe80::1]:8484", {"insecure": True}, ""),
        ("dragoman:8484", {"insecure": True}, ""),  # a service's name in a container network
        ("localhost:8484", {"insecure": True}, ""),
        ("gateway.example", {"keys": KEYS}, ""),
        ("evil.example", {"insecure": True}, "host_refused"),
        ("evil.example", {"keys": KEYS, "allowed_hosts": ("gateway.example",)}, "host_refused"),
        ("gateway.example", {"keys": KEYS, "allowed_hosts": ("gateway.example",)}, ""),
    ],
)
@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "192.168.1.9"])
def test_a_gateway_for_others_is_known_by_more_names(
    bind: str, host: str, options: dict[str, Any], code: str
) -> None:
    fault = refuse_page(
        host=host, origin="", fetch_site="", method="POST", server=Server(host=bind, **options)
    )

    assert code == (fault.code if fault else "")


def test_a_name_to_bind_to_is_ours() -> None:
    server = Server(host="gateway.internal.example", insecure=True)

    fault = refuse_page(
        host="gateway.internal.example:8484", origin="", fetch_site="", method="GET", server=server
    )

    assert fault is None


@in_one_test
@pytest.mark.parametrize(
    "origin",
    [
        "https://evil.example",
        "http://127.0.0.1:3000",
        "http://localhost:8484",  # another name is another origin
        "https://127.0.0.1",
        "http://127.0.0.1:8484.evil.example",
        "chrome-extension://abcdef",
        "file://",
        "null",
        "garbage",
        "http://evil.example/http://127.0.0.1:8484",
    ],
)
@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT", "PATCH", "post", "BREW"])
def test_a_page_of_another_origin_changes_nothing(origin: str, method: str) -> None:
    assert "origin_refused" == refused(origin=origin, method=method)
    assert "origin_refused" == refused(origin=origin, method=method, fetch_site="same-origin")
    assert "origin_refused" == refused(origin=origin, method=method, keys=KEYS)


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS", "get"])
def test_a_page_may_read_what_its_browser_will_not_show_it(method: str) -> None:
    assert "" == refused(origin="https://evil.example", fetch_site="cross-site", method=method)
    assert {} == cors_headers("https://evil.example", Server())


@pytest.mark.parametrize(
    ("host", "origin"),
    [
        ("127.0.0.1:8484", "http://127.0.0.1:8484"),
        ("localhost:8484", "http://LOCALHOST:8484"),
        ("[::1]:8484", "http://[::1]:8484"),
        ("localhost", "http://localhost"),
        ("localhost:80", "http://localhost"),
        ("localhost", "https://localhost:443"),
    ],
)
def test_our_own_page_may_do_everything(host: str, origin: str) -> None:
    assert "" == refused(host, origin, "same-origin")


@pytest.mark.parametrize(
    ("allowed", "origin", "code"),
    [
        ("https://ide.example", "https://ide.example", ""),
        ("https://ide.example/", "https://ide.example", ""),
        ("https://ide.example", "HTTPS://IDE.EXAMPLE", ""),
        ("https://ide.example", "http://ide.example", "origin_refused"),
        ("https://ide.example", "https://ide.example:8443", "origin_refused"),
        ("https://ide.example", "https://ide.example.evil", "origin_refused"),
        ("vscode-webview://*", "vscode-webview://1a2b", ""),
        ("null", "null", ""),
        ("*", "https://anything.example", ""),
    ],
)
def test_pages_are_allowed_by_the_settings(allowed: str, origin: str, code: str) -> None:
    assert code == refused(origin=origin, fetch_site="cross-site", allowed_origins=(allowed,))


def test_an_allowed_page_may_read_the_answer() -> None:
    server = Server(allowed_origins=("https://ide.example",))

    headers = cors_headers("https://ide.example", server)

    assert "https://ide.example" == headers["access-control-allow-origin"]
    assert "Origin" == headers["vary"]
    assert {} == cors_headers("https://evil.example", server)
    assert {} == cors_headers("", server)


@pytest.mark.parametrize(
    ("fetch_site", "code"),
    [
        ("", ""),
        ("none", ""),
        ("same-origin", ""),
        ("same-site", "origin_refused"),  # another port of this machine
        ("cross-site", "origin_refused"),
        ("CROSS-SITE", "origin_refused"),
    ],
)
def test_a_browser_that_hides_the_origin_still_names_the_site(fetch_site: str, code: str) -> None:
    assert code == refused(fetch_site=fetch_site)


def test_clients_of_the_command_line_pass() -> None:
    assert "" == refused("127.0.0.1:8484")
    assert "" == refused("127.0.0.1:8484", method="HEAD")


def test_a_refusal_explains_what_to_do_and_stays_short() -> None:
    def said(host: str, origin: str) -> str:
        fault = refuse_page(host=host, origin=origin, fetch_site="", method="POST", server=Server())
        assert isinstance(fault, Fault)
        assert len(fault.message) < 300
        return fault.message

    assert "`allowed_hosts`" in said("x" * 10_000 + ".example", "")
    assert "`allowed_origins`" in said("localhost", "https://" + "x" * 10_000)


@pytest.mark.parametrize(
    ("name", "expected"),
    [("0.0.0.0", False), ("::", False), ("", False), ("127.1", False), ("localhost.x", False)],
)
def test_other_names_are_not_this_machine(name: str, expected: bool) -> None:
    assert expected == is_loopback(name)


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.1.2.3", True),
        ("::1", True),
        ("[::1]", True),
        ("LocalHost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example", False),
        ("", False),
    ],
)
def test_loopback_is_known(host, expected):
    assert expected is is_loopback(host)
