"""Requests through a forward proxy, which is a process: forwarded, tunnelled, refused, cut."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from yarl import URL

from dragoman.transport import TLS, Connector, Proxy, Reply, TransportError
from dragoman.transport.proxy import parse_proxy
from tests.support.certificates import certificate
from tests.support.event_loops import OnLoop
from tests.support.forward_proxy import ForwardProxy, forward_proxy
from tests.support.peers import Peer, Script, Talk, http, nothing_left, peer
from tests.support.waiting import until

HELLO = http(b"hello", keep=True)
BEGUN = http(b"", length=None, headers="transfer-encoding: chunked\r\n", keep=True)
MIB = 1024 * 1024
TRUSTED = TLS(ca=certificate("authority.pem")).context()


@pytest.fixture(scope="module")
def plain_proxy() -> ForwardProxy:
    with forward_proxy() as found:
        yield found


@pytest.fixture(scope="module")
def asking_proxy() -> ForwardProxy:
    with forward_proxy(credentials="ann:p@ss word") as found:
        yield found


def repeating(answer: bytes) -> Script:
    async def script(talk: Talk) -> None:
        await talk.say(answer)
        while await talk.next_request():
            await talk.say(answer)

    return script


@asynccontextmanager
async def asking(
    script: Script | bytes, *, secure: bool
) -> AsyncIterator[tuple[Peer, str, Connector]]:
    """Give a server, its address, and a connector; nothing of them is left afterwards."""
    tls = None
    if secure:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(certificate("server.pem"))
    async with peer(script, tls=tls) as server, nothing_left():
        connector = Connector()
        try:
            async with asyncio.timeout(60):
                url = server.url.replace("http:", "https:") if secure else server.url
                yield server, url, connector
        finally:
            await connector.close()


async def opened(connector: Connector, url: str, proxy: Proxy | None, **more: Any) -> Reply:
    given: dict[str, Any] = {"connect_seconds": 30, "tls": TRUSTED, **more}
    return await connector.open(
        "POST", URL(url), headers={"x-own": "1"}, body=b"{}", proxy=proxy, **given
    )


async def exchanged(connector: Connector, url: str, proxy: Proxy | None) -> bytes:
    with await opened(connector, url, proxy) as reply:
        said = await reply.read_all(MIB, lambda: None)
        await reply.drain()
    return said or b""


async def failure(connector: Connector, url: str, proxy: Proxy, **more: Any) -> TransportError:
    with pytest.raises(TransportError) as failed:
        await opened(connector, url, proxy, **more)
    return failed.value


# --- what is sent -----------------------------------------------------------------------------------


def test_plain_request_is_sent_to_the_proxy_in_absolute_form(
    plain_proxy: ForwardProxy, on_loop: OnLoop
) -> None:
    async def run() -> None:
        async with asking(HELLO, secure=False) as (server, url, connector):
            assert b"hello" == await exchanged(connector, url, parse_proxy(plain_proxy.url))
            assert f"POST {url}" == plain_proxy.targets[-1]
            assert b"POST /v1 HTTP/1.1" in server.requests[0]
            assert f"\r\nHost: 127.0.0.1:{server.port}\r\n".encode() in server.requests[0]
            assert b"\r\nContent-Length: 2\r\n" in server.requests[0]

    on_loop(run())


def test_request_over_tls_goes_through_a_tunnel(plain_proxy: ForwardProxy, on_loop: OnLoop) -> None:
    async def run() -> None:
        async with asking(HELLO, secure=True) as (server, url, connector):
            assert b"hello" == await exchanged(connector, url, parse_proxy(plain_proxy.url))
            assert f"CONNECT 127.0.0.1:{server.port}" == plain_proxy.targets[-1]
            assert b"POST /v1 HTTP/1.1" in server.requests[0]
            assert "x-own" not in plain_proxy.requests[-1]["headers"]  # it is for the server alone

    on_loop(run())


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_credentials_go_to_the_proxy_and_not_to_the_server(
    asking_proxy: ForwardProxy, on_loop: OnLoop, *, secure: bool
) -> None:
    proxy = parse_proxy(asking_proxy.url_for("ann", "p%40ss%20word"))

    async def run() -> None:
        async with asking(HELLO, secure=secure) as (server, url, connector):
            assert b"hello" == await exchanged(connector, url, proxy)
            shown = asking_proxy.requests[-1]["headers"]["proxy-authorization"]
            assert "Basic YW5uOnBAc3Mgd29yZA==" == shown
            assert b"proxy-authorization" not in server.requests[0].lower()

    on_loop(run())


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_proxy_may_speak_tls_itself(on_loop: OnLoop, *, secure: bool) -> None:
    async def run(proxy: ForwardProxy) -> None:
        async with asking(HELLO, secure=secure) as (server, url, connector):
            assert b"hello" == await exchanged(connector, url, parse_proxy(proxy.url))
            assert 1 == len(server.requests)

    with forward_proxy(certificate=certificate("server.pem")) as proxy:
        on_loop(run(proxy))
        assert 1 == len(proxy.requests)


def test_host_is_looked_up_by_the_proxy_alone() -> None:
    async def run() -> None:
        async with asking(HELLO, secure=False) as (server, _, connector):
            with forward_proxy(hosts={"models.invalid": server.port}) as proxy:
                url = "http://models.invalid/v1"
                assert b"hello" == await exchanged(connector, url, parse_proxy(proxy.url))
                assert ["POST http://models.invalid/v1"] == proxy.targets

    asyncio.run(run())


# --- connections -------------------------------------------------------------------------------------


def test_tunnel_is_used_again(plain_proxy: ForwardProxy, on_loop: OnLoop) -> None:
    before = len(plain_proxy.requests)

    async def run() -> None:
        async with asking(repeating(HELLO), secure=True) as (server, url, connector):
            for _ in range(3):
                assert b"hello" == await exchanged(connector, url, parse_proxy(plain_proxy.url))
            assert 1 == len(server.requests)

    on_loop(run())
    assert before + 1 == len(plain_proxy.requests)


def test_connections_with_and_without_a_proxy_or_other_credentials_are_not_mixed(
    plain_proxy: ForwardProxy,
) -> None:
    ways = [None, parse_proxy(plain_proxy.url), parse_proxy(plain_proxy.url_for("a", "b"))]

    async def run() -> None:
        async with asking(repeating(HELLO), secure=True) as (server, url, connector):
            for _ in range(2):
                for way in ways:
                    assert b"hello" == await exchanged(connector, url, way)
            assert len(ways) == len(server.requests)

    asyncio.run(run())


# --- streams -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_each_chunk_arrives_before_the_next_is_sent(
    plain_proxy: ForwardProxy, on_loop: OnLoop, *, secure: bool
) -> None:
    async def run() -> None:
        read = asyncio.Event()

        async def script(talk: Talk) -> None:
            await talk.say(BEGUN + b"3\r\none\r\n")
            await read.wait()
            await talk.say(b"3\r\ntwo\r\n0\r\n\r\n")

        async with asking(script, secure=secure) as (_, url, connector):
            with await opened(connector, url, parse_proxy(plain_proxy.url)) as reply:
                assert b"one" == await reply.read()
                read.set()
                assert b"two" == await reply.read()
                assert b"" == await reply.read()

    on_loop(run())


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_cut_in_the_middle_of_a_stream_is_an_error(on_loop: OnLoop, *, secure: bool) -> None:
    async def script(talk: Talk) -> None:
        await talk.say(BEGUN + b"3\r\none\r\n")
        await talk.gone()

    async def run(proxy: ForwardProxy) -> None:
        async with asking(script, secure=secure) as (_, url, connector):
            with await opened(connector, url, parse_proxy(proxy.url)) as reply:
                assert b"one" == await reply.read()
                proxy.cut()
                with pytest.raises(TransportError) as failed:
                    await reply.read()
        assert "upstream_truncated" == failed.value.code

    with forward_proxy() as proxy:
        on_loop(run(proxy))


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_reader_that_leaves_closes_the_way_to_the_server(on_loop: OnLoop, *, secure: bool) -> None:
    async def run(proxy: ForwardProxy) -> None:
        gone = asyncio.Event()

        async def script(talk: Talk) -> None:
            await talk.say(BEGUN + b"3\r\none\r\n")
            await talk.gone()
            gone.set()

        async with asking(script, secure=secure) as (_, url, connector):
            with await opened(connector, url, parse_proxy(proxy.url)) as reply:
                assert b"one" == await reply.read()
            await gone.wait()

    with forward_proxy() as proxy:
        on_loop(run(proxy))
        assert until(lambda: proxy.closed)


# --- failures ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize(
    ("user", "says"),
    [
        ("", "wants a user and a password (407); put `USER:PASSWORD@` before"),
        ("ann", "rejects the user and password of its address (407)"),
    ],
)
def test_proxy_that_wants_credentials_is_named(
    asking_proxy: ForwardProxy, on_loop: OnLoop, user: str, says: str, *, secure: bool
) -> None:
    url_of_proxy = asking_proxy.url_for(user, "wrong-one") if user else asking_proxy.url

    async def run() -> None:
        async with asking(HELLO, secure=secure) as (server, url, connector):
            failed = await failure(connector, url, parse_proxy(url_of_proxy))
            assert ("connect", "proxy_auth") == (failed.stage, failed.code)
            assert f"the proxy 127.0.0.1:{asking_proxy.port} {says}" in failed.reason
            assert "wrong-one" not in failed.reason
            assert not server.requests

    on_loop(run())


def test_proxy_that_accepts_no_passwords_is_named() -> None:
    async def run(proxy: ForwardProxy) -> None:
        async with asking(HELLO, secure=True) as (_, url, connector):
            failed = await failure(connector, url, parse_proxy(proxy.url))
            assert "wants NTLM authentication (407), and only Basic is supported" in failed.reason

    with forward_proxy(credentials="a:b", scheme="NTLM") as proxy:
        asyncio.run(run(proxy))


@pytest.mark.parametrize(
    ("status", "code", "says"),
    [
        (403, "proxy_refused", "does not allow a connection to 127.0.0.1:{} (403 Forbidden)"),
        (405, "proxy_refused", "does not allow a connection to 127.0.0.1:{} (405 Method Not"),
        (502, "proxy_cannot_connect", "cannot connect to 127.0.0.1:{} (502 Bad Gateway)"),
        (599, "proxy_cannot_connect", "cannot connect to 127.0.0.1:{} (599)"),
    ],
)
def test_refused_tunnel_names_proxy_and_server(status: int, code: str, says: str) -> None:
    async def run(proxy: ForwardProxy) -> None:
        async with asking(HELLO, secure=True) as (server, url, connector):
            failed = await failure(connector, url, parse_proxy(proxy.url))
            assert ("connect", code) == (failed.stage, failed.code)
            named = f"the proxy 127.0.0.1:{proxy.port} "
            assert failed.reason.startswith(named + says.format(server.port))

    with forward_proxy(status=status) as proxy:
        asyncio.run(run(proxy))


def test_proxy_that_is_not_there_is_named(on_loop: OnLoop) -> None:
    async def run() -> None:
        async with asking(HELLO, secure=True) as (_, url, connector):
            failed = await failure(connector, url, Proxy("127.0.0.1", 1))
            assert "proxy_unreachable" == failed.code
            assert "nothing accepts connections at the proxy 127.0.0.1:1" == failed.reason

    on_loop(run())


def test_proxy_that_never_answers_is_a_timeout(on_loop: OnLoop) -> None:
    async def run(proxy: ForwardProxy) -> None:
        async with asking(HELLO, secure=True) as (server, url, connector):
            failed = await failure(connector, url, parse_proxy(proxy.url), connect_seconds=0.2)
            assert "connect_timeout" == failed.code
            named = f"127.0.0.1:{server.port} through the proxy 127.0.0.1:{proxy.port}"
            assert f"no connection to {named} in time" == failed.reason

    with forward_proxy(silent=True) as proxy:
        on_loop(run(proxy))


ODD = {
    "closes at once": (b"", "proxy_closed", "the proxy {} closed the connection without an answer"),
    "speaks something else": (b"SSH-2.0-x\r\n", "proxy_malformed", "the proxy {} did not answer in HTTP"),
    "speaks before the server": (
        b"HTTP/1.1 200 OK\r\n\r\nhello",
        "proxy_malformed",
        "the proxy {} did not answer in HTTP: it sent more than one response",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("said", "code", "says"), ODD.values(), ids=ODD.keys())
def test_proxy_that_is_none_is_named(said: bytes, code: str, says: str, on_loop: OnLoop) -> None:
    async def run() -> None:
        async with asking(said, secure=False) as (server, _, connector):
            proxy = Proxy("127.0.0.1", server.port)
            failed = await failure(connector, "https://models.invalid/v1", proxy)
            assert code == failed.code
            assert failed.reason.startswith(says.format(f"127.0.0.1:{server.port}"))

    on_loop(run())


@pytest.mark.parametrize("file", ["wrong-host.pem", "expired.pem"])
def test_certificate_of_the_server_is_verified_through_the_tunnel(
    plain_proxy: ForwardProxy, on_loop: OnLoop, file: str
) -> None:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(certificate(file))

    async def run() -> None:
        async with peer(HELLO, tls=tls) as server, nothing_left():
            connector = Connector()
            url = server.url.replace("http:", "https:")
            failed = await failure(connector, url, parse_proxy(plain_proxy.url))
            await connector.close()
            assert ("tls", "upstream_tls") == (failed.stage, failed.code)
            assert f"through the proxy 127.0.0.1:{plain_proxy.port} failed" in failed.reason

    on_loop(run())


def test_request_that_is_given_up_while_the_proxy_connects_leaves_nothing(on_loop: OnLoop) -> None:
    async def run(proxy: ForwardProxy) -> None:
        async with asking(HELLO, secure=True) as (_, url, connector):
            asked = asyncio.create_task(opened(connector, url, parse_proxy(proxy.url)))
            await asyncio.to_thread(until, lambda: proxy.requests)
            asked.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asked

    with forward_proxy(silent=True) as proxy:
        on_loop(run(proxy))
