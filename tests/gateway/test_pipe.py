"""Streams that flow from the upstream to the client without their task."""

import gzip

import pytest
from msgspec import structs

from dragoman.checker.checker import check
from dragoman.gateway.config.settings import Match, Route, Settings, Upstream
from tests.support.asking import post
from tests.support.gateway import DIALECTS, Stand, settings_for, stand
from tests.support.odd_upstream import SSE, OddUpstream, Reply, chat_stream
from tests.support.raw_http import RawClient
from tests.support.simulator import question, wire

WORDS = ("One ", "two ", "three ", "four.")


def make(url: str, odd: str) -> Settings:
    settings = settings_for(url)
    settings.upstreams["odd"] = Upstream(base_url=f"{odd}/v1", retries=0)
    odd_route = Route(match=Match(model="odd"), to=("odd/m",))
    return structs.replace(settings, routes=(odd_route, *settings.routes))


@pytest.fixture(scope="module")
def gateway(odd: OddUpstream) -> Stand:
    with stand(lambda url: make(url, odd.url)) as found:
        yield found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_client_of_http_1_0_gets_its_stream_without_chunks(gateway, odd, dialect: str) -> None:
    odd.answer = lambda _asked: Reply(200, chat_stream(*WORDS), SSE)
    body = question(dialect, "odd")
    usual = post(gateway, dialect, body)
    with RawClient(gateway.url, *wire(dialect, body), version="1.0") as client:
        client.head()
        stream = client.until_closed()

    assert () == check(dialect, stream).violations
    assert usual.text.count("data: ") == stream.count(b"data: ")
    assert "transfer-encoding" not in client.headers


@pytest.mark.parametrize("dialect", DIALECTS)
def test_all_of_one_compressed_read_reaches_the_client(gateway, odd, dialect: str) -> None:
    """One arrival leads to many reads, the last of which is the end of the response."""
    frames = chat_stream(WORDS[0], *["much " * 20_000] * 20)
    packed = gzip.compress(b"".join(frames))
    odd.answer = lambda _asked: Reply(200, packed, {**SSE, "content-encoding": "gzip"})
    got = post(gateway, dialect, question(dialect, "odd"))

    assert "finish" == check(dialect, got.content).ended
    assert got.content.count(b"much much ") >= 20
