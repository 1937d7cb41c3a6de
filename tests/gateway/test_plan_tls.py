"""Whom the gateway trusts: the file that is named, else what the environment or the system names."""

import asyncio
import ssl

import pytest
from yarl import URL

from dragoman.gateway.config.settings import Tls
from dragoman.gateway.plan import tls_context
from dragoman.transport import Connector, TransportError
from tests.support.certificates import certificate
from tests.support.peers import http, peer

ANYTHING = {
    "nothing is set": Tls(),
    "a certificate of ours is set": Tls(cert=certificate("client.pem")),
}


async def status(tls: Tls) -> int:
    """Return what a server of a private authority answers."""
    shown = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    shown.load_cert_chain(certificate("old-server.pem"))
    async with peer(http(b"hello"), tls=shown) as server:
        connector = Connector()
        url = URL(server.url.replace("http:", "https:"))
        try:
            with await connector.open(
                "GET", url, headers={}, body=None, connect_seconds=30, tls=tls_context(tls, "up")
            ) as reply:
                return reply.status
        finally:
            await connector.close()


@pytest.mark.parametrize("tls", ANYTHING.values(), ids=ANYTHING.keys())
def test_environment_may_name_whom_to_trust(monkeypatch: pytest.MonkeyPatch, tls: Tls) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certificate("authority.pem"))

    assert 200 == asyncio.run(status(tls))


@pytest.mark.parametrize("tls", ANYTHING.values(), ids=ANYTHING.keys())
def test_private_authority_is_not_trusted_by_itself(
    monkeypatch: pytest.MonkeyPatch, tls: Tls
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certificate("stranger.pem"))

    with pytest.raises(TransportError, match="unable to get local issuer certificate"):
        asyncio.run(status(tls))


def test_file_that_is_named_replaces_what_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", certificate("stranger.pem"))

    assert 200 == asyncio.run(status(Tls(ca=certificate("authority.pem"))))
