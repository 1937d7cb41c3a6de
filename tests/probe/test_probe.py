"""Peers that are no simulator: broken TLS, other protocols, endless answers, echoes of the key."""

import asyncio
import ssl

import pytest

from dragoman.probe.probe import Peer
from dragoman.probe.run import Report, chosen, run
from dragoman.transport import TLS, Connector
from tests.support.certificates import certificate
from tests.support.peers import Talk, http
from tests.support.peers import peer as serve

OK = http(length=None)


def probe(answer: bytes, *, endless: bool = False, server_tls: bool = False, **asks) -> Report:
    """Probe a server that gives every request the same bytes, and then goes."""
    context = None
    if server_tls:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate("server.pem"))

    async def script(talk: Talk) -> None:
        await talk.say(answer)
        while endless:
            await talk.say(b": nothing new\n\n" * 4096)

    async def work() -> Report:
        connector = Connector()
        async with serve(script, tls=context) as server:
            try:
                url = server.url.replace("http:", "https:" if server_tls else "http:")
                asked = Peer(url=url, dialect="chat", model="m", timeout=30.0, pause=0.0, **asks)
                return await run(asked, chosen((), "chat"), connector)
            finally:
                await connector.close()

    return asyncio.run(work())


def reached(report: Report) -> str:
    assert "reach" == report.checks[0].name
    assert "fails" == report.checks[0].verdict
    assert {"not asked"} == {row.found for row in report.checks[1:]}
    return report.checks[0].found


def test_a_certificate_that_nobody_trusts_is_unreachable():
    report = probe(b"", server_tls=True)

    assert reached(report).startswith("TLS to 127.0.0.1:")
    assert ("unreachable", 1) == (report.outcome, report.requests)


def test_a_trusted_one_is_not_the_problem():
    tls = TLS(ca=certificate("authority.pem")).context()

    report = probe(http(b"no", status="404 Not Found"), server_tls=True, tls=tls)

    assert "404: no" == reached(report)
    assert "bad" == report.outcome


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"\0" * 100])
def test_what_is_no_http_is_unreachable(answer):
    assert "unreachable" == probe(answer).outcome


@pytest.mark.parametrize(
    "body", [b"<html>hello</html>", b"{}", b"[]", b"data: {}\n\n", b"\xff\xfe"]
)
def test_what_is_not_the_dialect_is_bad(body):
    report = probe(OK + body)

    reached(report)
    assert "bad" == report.outcome


def test_an_answer_without_an_end_is_left():
    report = probe(OK, endless=True)

    assert reached(report).startswith(("the answer has more than", "no end of the answer"))


def test_an_upstream_that_repeats_the_key_does_not_make_us_reveal_it():
    body = b'{"error":{"message":"Incorrect API key provided: sk-top-secret"}}'

    report = probe(http(body, status="401 Unauthorized"), secrets=("sk-top-secret",))

    assert "401: Incorrect API key provided: [redacted]" == reached(report)
    assert "unreachable" == report.outcome
