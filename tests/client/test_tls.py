"""TLS and mutual TLS against a real server: whom a client trusts, and how it says whom it does not."""

import asyncio
import ssl
import warnings
from pathlib import Path

import pytest

from dragoman import TLS, Client, ClientError, ConfigError, SyncClient, Timeouts
from tests.support.certificates import certificate as file
from tests.support.client import REQUEST
from tests.support.peers import HELLO, Peer, Script, Talk, nothing_left, peer

TRUST = TLS(ca=file("authority.pem"))


def server_context(certificate: str = "server.pem", *, asks: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file(certificate))
    if asks:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(file("authority.pem"))
    return context


def url(server: Peer, host: str = "127.0.0.1") -> str:
    return f"https://{host}:{server.port}/v1"


def text_from(context: ssl.SSLContext, tls: TLS, *, host: str = "127.0.0.1") -> str:
    """Return the answer of a server; nothing else is left of it."""

    async def run() -> str:
        async with (
            peer(HELLO, tls=context) as server,
            nothing_left(),
            Client(url(server, host), tls=tls) as client,
        ):
            async with client.stream(REQUEST) as turn:
                async for _ in turn:
                    pass
            return turn.answer().text

    return asyncio.run(run())


def refusal(context: ssl.SSLContext, tls: TLS) -> ClientError:
    with pytest.raises(ClientError) as caught:
        text_from(context, tls)
    return caught.value


def refuse_with(context: ssl.SSLContext) -> Script:
    """Return a server that agrees on TLS by hand, and records why it does not, as asyncio's never does."""

    async def script(talk: Talk) -> None:
        received, sent = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(received, sent, server_side=True)
        while True:
            try:
                tls.do_handshake()
            except ssl.SSLWantReadError:
                await talk.say(sent.read())
                received.write(await talk.reader.read(65536))
            except ssl.SSLError:
                break
        await talk.say(sent.read())
        await talk.gone()

    return script


def stated_refusal(context: ssl.SSLContext, tls: TLS) -> ClientError:
    """Return the error that a client gets from a server that states why it refuses."""

    async def run() -> ClientError:
        async with (
            peer(refuse_with(context), reads=False) as server,
            nothing_left(),
            Client(url(server), tls=tls) as client,
        ):
            with pytest.raises(ClientError) as caught:
                await client.create(REQUEST)
        return caught.value

    return asyncio.run(run())


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_s_6_a_server_of_a_private_authority_is_trusted_when_the_caller_names_it(host: str) -> None:
    assert "Hello" == text_from(server_context(), TRUST, host=host)


@pytest.mark.parametrize(
    ("certificate", "tls", "why"),
    [
        ("expired.pem", TRUST, "certificate has expired"),
        ("wrong-host.pem", TRUST, "IP address mismatch"),
        ("server.pem", TLS(), "unable to get local issuer certificate"),
        ("server.pem", TLS(ca=file("stranger.pem")), "unable to get local issuer certificate"),
    ],
    ids=["expired", "wrong host", "unknown authority", "another authority"],
)
def test_s_6_a_server_that_cannot_show_who_it_is_is_refused(
    certificate: str, tls: TLS, why: str
) -> None:
    error = refusal(server_context(certificate), tls)

    assert ("tls", "upstream_tls") == (error.stage, error.code)
    assert why in error.message


def test_s_6_a_caller_may_switch_verification_off_and_nobody_else() -> None:
    assert "Hello" == text_from(server_context("expired.pem"), TLS(verify=False))


@pytest.mark.parametrize("version", ["1.2", "1.3"])
@pytest.mark.parametrize(
    "shown",
    [{"cert": "client.pem"}, {"cert": "client.crt", "key": "client.key"}],
    ids=["one file", "two files"],
)
def test_s_6_a_client_shows_its_certificate_to_a_server_that_asks(
    shown: dict[str, str], version: str
) -> None:
    context = server_context(asks=True)
    context.minimum_version = context.maximum_version = ssl.TLSVersion[
        f"TLSv{version.replace('.', '_')}"
    ]
    files = {name: file(one) for name, one in shown.items()}

    assert "Hello" == text_from(context, TLS(ca=file("authority.pem"), **files))


@pytest.mark.parametrize(
    ("cert", "version", "why"),
    [
        ("", "1.2", "handshake failure"),
        ("", "1.3", "certificate required"),
        ("strange-client.pem", "1.2", "unknown ca"),
        ("strange-client.pem", "1.3", "unknown ca"),
    ],
)
def test_s_6_a_server_that_does_not_know_the_client_refuses_it(
    cert: str, version: str, why: str
) -> None:
    context = server_context(asks=True)
    context.minimum_version = context.maximum_version = ssl.TLSVersion[
        f"TLSv{version.replace('.', '_')}"
    ]
    tls = TLS(ca=file("authority.pem"), cert=file(cert) if cert else "")

    error = stated_refusal(context, tls)

    assert ("tls", "upstream_tls") == (error.stage, error.code)
    assert why in error.message.lower().replace("_", " ")


@pytest.mark.parametrize(
    ("oldest", "spoken"), [("1.2", "TLSv1_1"), ("1.3", "TLSv1_2")], ids=["1.2", "1.3"]
)
def test_s_6_a_version_of_tls_that_is_too_old_is_refused(oldest: str, spoken: str) -> None:
    context = server_context()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # old on purpose
        context.minimum_version = context.maximum_version = ssl.TLSVersion[spoken]
    context.set_ciphers("ALL:@SECLEVEL=0")
    error = stated_refusal(context, TLS(ca=file("authority.pem"), minimum=oldest))

    assert ("tls", "upstream_tls") == (error.stage, error.code)
    assert "protocol version" in error.message.lower().replace("_", " ")


def test_s_6_the_oldest_version_by_default_is_1_2() -> None:
    context = server_context()
    context.maximum_version = ssl.TLSVersion.TLSv1_2

    assert "Hello" == text_from(context, TRUST)
    assert ssl.TLSVersion.TLSv1_2 is TRUST.context().minimum_version


def test_a_server_without_tls_is_an_error_of_tls() -> None:
    async def run() -> ClientError:
        answer = b"HTTP/1.1 400 Bad Request\r\n\r\n"
        async with (
            peer(answer, reads=False) as server,
            nothing_left(),
            Client(url(server), tls=TRUST) as client,
        ):
            with pytest.raises(ClientError) as caught:
                await client.create(REQUEST)
        return caught.value

    error = asyncio.run(run())

    assert ("tls", "upstream_tls") == (error.stage, error.code)


def test_a_server_that_never_agrees_on_tls_is_given_up_in_time() -> None:
    async def silent(talk: Talk) -> None:
        await talk.gone()

    async def run() -> ClientError:
        async with peer(silent, reads=False) as server, nothing_left():
            timeouts = Timeouts(connect=0.3)
            async with Client(url(server), tls=TRUST, timeouts=timeouts) as client:
                with pytest.raises(ClientError) as caught:
                    await client.create(REQUEST)
        return caught.value

    error = asyncio.run(run())

    assert ("timeout", "connect_timeout") == (error.stage, error.code)


def test_the_environment_is_not_asked_whom_to_trust(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", file("authority.pem"))
    monkeypatch.setenv("SSL_CERT_DIR", str(Path(file("authority.pem")).parent))
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys.log"))
    error = refusal(server_context(), TLS())

    assert "tls" == error.stage
    assert not (tmp_path / "keys.log").exists()


@pytest.mark.parametrize(
    "tls",
    [
        TLS(ca="missing.pem"),
        TLS(ca=file("no-certificate.pem")),
        TLS(cert="missing.pem"),
        TLS(cert=file("authority.pem")),
        TLS(cert=file("client.pem"), key=file("locked.key")),
    ],
    ids=["no file", "no certificate", "no certificate of ours", "no key", "a key under a password"],
)
def test_a_file_that_cannot_be_used_is_reported_before_anything_is_sent(tls: TLS) -> None:
    with pytest.raises(ConfigError, match="TLS: "):
        Client("https://127.0.0.1:1", tls=tls)


def test_the_synchronous_client_speaks_mutual_tls_too() -> None:
    tls = TLS(ca=file("authority.pem"), cert=file("client.pem"))

    def ask_it(address: str) -> str:
        with SyncClient(address, tls=tls) as client, client.stream(REQUEST) as turn:
            for _ in turn:
                pass
            return turn.answer().text

    async def run() -> str:
        async with peer(HELLO, tls=server_context(asks=True)) as server, nothing_left():
            return await asyncio.to_thread(ask_it, url(server))

    assert "Hello" == asyncio.run(run())
