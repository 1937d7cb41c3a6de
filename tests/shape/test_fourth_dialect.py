"""A dialect from outside the package is translated, checked, served and spoken without a change to any of them."""

import json
from collections.abc import Iterator

import pytest

from dragoman.checker.checker import check, rules
from dragoman.client.messages import request, tool, user
from dragoman.client.sync_client import SyncClient
from dragoman.dialects import DIALECT_NAMES, dialect, dialect_names, register
from dragoman.errors import ConfigError
from dragoman.gateway.config.settings import Route, Settings, Upstream
from dragoman.translate import Translator, translate_body
from dragoman.translate_requests import read_request, translate_request
from tests.support.asking import post
from tests.support.gateway import settings_for, stand
from tests.support.odd_upstream import SSE, OddUpstream, Reply, odd_upstream
from tests.support.toy_dialect import DIALECT, registered

FORM = {"type": "object", "properties": {"city": {"type": "string"}}}
ASKED = {
    "engine": "plain",
    "lines": [
        ["me", "What is the weather?"],
        ["did", {"id": "d0", "name": "look", "with": '{"city":"Rome"}'}],
        ["result", {"id": "d0", "gave": "sunny"}],
    ],
    "devices": [{"name": "look", "form": FORM}],
}
STREAM = (
    b'data: {"say":"Hel"}\n\ndata: {"say":"lo"}\n\n'
    b'data: {"do":{"id":"d1","name":"look","with":"{\\"city\\":\\"Rome\\"}"}}\n\n'
    b'data: {"over":"waiting"}\n\n'
)
BODY = b'{"said":"Hello","done":[{"id":"d1","name":"look","with":"{}"}],"over":"waiting"}'
LOOK = tool("look", description="Look.", schema=FORM)


@pytest.fixture(autouse=True)
def _toy() -> Iterator[None]:
    with registered():
        yield


def body(**changes: object) -> bytes:
    return json.dumps({**ASKED, **changes}).encode()


def test_it_is_in_the_registry_once() -> None:
    assert (*DIALECT_NAMES, "toy") == dialect_names()
    assert DIALECT is dialect("toy")
    with pytest.raises(ConfigError, match="already"):
        register(DIALECT)


@pytest.mark.parametrize("other", DIALECT_NAMES)
def test_requests_are_translated_both_ways(other: str) -> None:
    out = translate_request(body(), source="toy", target=other)
    back = translate_request(out.body, source=other, target="toy")

    assert {**ASKED, "live": False} == json.loads(back.body)


@pytest.mark.parametrize("other", DIALECT_NAMES)
def test_streams_are_translated_both_ways_and_checked(other: str) -> None:
    asked = read_request(body(live=True), source="toy").request
    there = Translator(source="toy", target=other, request=asked, seed="s")
    middle = there.feed(STREAM) + there.close()
    here = Translator(source=other, target="toy", request=asked, seed="s")
    out = here.feed(middle) + here.close()

    assert check(other, middle).legal
    assert check("toy", out).legal
    assert ["look"] == here.calls
    assert b'"with":"{\\"city\\":\\"Rome\\"}"' in out
    assert b'{"over":"waiting"}' in out


def test_a_stream_within_the_dialect_is_forwarded_unchanged() -> None:
    relay = Translator(source="toy", target="toy")

    assert STREAM == b"".join(relay.feed(STREAM[at : at + 7]) for at in range(0, len(STREAM), 7))


@pytest.mark.parametrize("other", DIALECT_NAMES)
def test_bodies_are_translated_both_ways(other: str) -> None:
    asked = read_request(body(), source="toy").request
    middle = translate_body(BODY, source="toy", target=other, request=asked).body
    out = translate_body(middle, source=other, target="toy", request=asked).body

    assert json.loads(BODY) == json.loads(out)


def test_the_checker_has_its_rules() -> None:
    assert "one-word" in rules("toy")
    assert ["one-word"] == [
        one.rule for one in check("toy", STREAM.replace(b"say", b"sing", 1)).violations
    ]
    assert "truncated" == check("toy", STREAM[:40]).ended


def test_the_gateway_serves_it_on_its_path() -> None:
    with stand() as served:
        whole = post(served, "chat", body(engine="chat/plain"), path="/v1/telegrams")
        live = post(served, "chat", body(engine="chat/plain", live=True), path="/v1/telegrams")
        wrong = post(served, "chat", b"{}", path="/v1/telegrams")

    assert "done" == whole.json()["over"], whole.text
    assert whole.json()["said"]
    assert check("toy", live.content).legal
    assert "engine" in wrong.json()["broke"]


def through(upstream: OddUpstream):
    def make(_simulator: str) -> Settings:
        settings = settings_for(_simulator)
        toy = Upstream(base_url=upstream.url, dialect="toy", retries=0)
        return Settings(
            server=settings.server, upstreams={"toy": toy}, routes=(Route(to=("toy/*",)),)
        )

    return make


def test_the_gateway_asks_upstreams_that_speak_it() -> None:
    asking = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
    with odd_upstream() as upstream:
        upstream.answer = lambda _asked: Reply(200, STREAM, SSE)
        with stand(through(upstream)) as served:
            got = post(served, "chat", asking)
    (asked,) = upstream.asked

    assert check("chat", got.content).legal
    assert asked.path.endswith("/telegrams")
    assert "1" == asked.headers["telegram-office"]
    assert [["me", "Hi"]] == json.loads(asked.body)["lines"]


def test_the_client_speaks_it() -> None:
    with odd_upstream() as upstream:
        upstream.answer = lambda _asked: Reply(200, STREAM, SSE)
        with SyncClient(upstream.url, dialect="toy", model="m", api_key="k") as client:
            with client.stream(request(user("Hi"), tools=[LOOK])) as stream:
                for _ in stream:
                    pass
                answer = stream.answer()
            upstream.answer = lambda _asked: Reply(200, BODY)
            whole = client.create(request(user("Hi"), tools=[LOOK]))
    asked, _ = upstream.asked

    assert "Hello" == answer.text == whole.text
    assert ["look"] == [call.name for call in answer.tool_calls]
    assert "k" == asked.headers["x-api-key"]
