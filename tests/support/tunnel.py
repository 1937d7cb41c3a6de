"""An upstream over TLS that a gateway reaches through a proxy's tunnel, and a stream that is under way in it."""

import itertools
from collections.abc import Iterator
from contextlib import contextmanager

import httpx2

from dragoman.checker.checker import check
from dragoman.gateway.config.settings import Tls, Upstream
from dragoman.transport import fixed_rule
from tests.support.certificates import certificate
from tests.support.gateway import Stand
from tests.support.odd_upstream import SSE, Gate, OddUpstream, Reply, chat_stream
from tests.support.simulator import question, wire

FRAMES = chat_stream("It ", "rains.")
MODEL = "tunnel/m"  # the gateway's upstream `tunnel`


def tunnelled(upstream: OddUpstream, proxy: str, *, retries: int = 2) -> Upstream:
    """Return the settings of an upstream with a certificate, behind the proxy at an address."""
    return Upstream(
        base_url=f"{upstream.url}/v1",
        tls=Tls(ca=certificate("authority.pem")),
        proxy=fixed_rule(proxy),
        cooldown=0,
        retries=retries,
    )


class StreamUnderWay:
    """A stream of which the client has the first word; the upstream sends the others when the gate opens."""

    def __init__(self, response: httpx2.Response, gate: Gate) -> None:
        self.headers = response.headers
        self.leave = response.close
        self.gate = gate
        self._parts = response.iter_bytes()
        self.text = b""
        while b"It " not in self.text:
            self.text += next(self._parts)

    def read_rest(self) -> bytes:
        self.text += b"".join(self._parts)
        return self.text


@contextmanager
def stream_under_way(
    gateway: Stand, upstream: OddUpstream, dialect: str
) -> Iterator[StreamUnderWay]:
    """Ask for a stream through the tunnel, and read its first word."""
    gate = Gate()
    upstream.answer = lambda _asked: Reply(
        200, itertools.chain(FRAMES[:1], gate.each(FRAMES[1:])), SSE
    )
    path, body = wire(dialect, question(dialect, MODEL))
    with httpx2.stream("POST", gateway.url + path, json=body, timeout=60, verify=False) as response:
        yield StreamUnderWay(response, gate)
    gate.open(len(FRAMES))


def check_that_a_stream_is_not_held_back(
    gateway: Stand, upstream: OddUpstream, dialect: str
) -> None:
    with stream_under_way(gateway, upstream, dialect) as stream:
        assert b"rains." not in stream.text
        stream.gate.open(len(FRAMES))
        text = stream.read_rest()

    assert b"rains." in text
    assert () == check(dialect, text).violations
