"""Another attempt, another upstream: only before the first content has left, and as the upstream asks."""

import itertools
import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec import structs

from dragoman.checker.checker import check
from dragoman.dialects import dialect as find_dialect
from dragoman.gateway.config.settings import Match, Route, Server, Settings, Upstream
from tests.support.asking import post
from tests.support.endings import WEATHER
from tests.support.gateway import DIALECTS, Stand, settings_for, stand
from tests.support.odd_upstream import SSE, OddUpstream, Reply, odd_upstream
from tests.support.simulator import question
from tests.support.waiting import logged

NUMBERS = itertools.count()
CALL = 'sim: call weather {"city": "Paris"}'


def make(url: str) -> Settings:
    with socket.create_server(("127.0.0.1", 0)) as free:
        dead = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    base = Upstream(base_url=f"{url}/v1", retries=0, cooldown=0)
    upstreams = {
        "again": structs.replace(base, retries=1, max_retry_after=5.0),
        **dict.fromkeys(("a", "b", "c"), base),
        "dead": structs.replace(base, base_url=dead),
        "tired": structs.replace(base, failures=2, cooldown=2.0),
        "fine": structs.replace(base, failures=1, cooldown=60),
        "asks": structs.replace(base, failures=9, cooldown=0.6),
    }

    def route(name: str, *targets: str) -> Route:
        return Route(name=name, match=Match(model=name), to=targets)

    routes = (
        Route(name="again", match=Match(model="again/*"), to=("again/*",)),
        route("order", "a/one+error:500", "b/two+cut:10", "dead/x", "c/three"),
        route("refused", "a/one+error:401", "b/two+error:404", "c/three"),
        route("mine", "a/one+error:400", "b/two"),
        route("nobody", "a/one+error:500", "b/two+error:429+retry-after:3"),
        route("begun", "a/one+cut:900", "b/two"),
        route("tired", "tired/one+error:500", "b/two"),
        route("clumsy", "fine/one+bad-json-args", "b/two"),
        route("resting", "asks/one+error:429+retry-after:9", "b/two"),
    )
    server = Server(port=0, hold_headers=0.3, keep_alive=0.3)
    return settings_for(url, server=server, upstreams=upstreams, routes=routes)


@pytest.fixture(scope="module")
def gateway() -> Stand:
    with stand(make) as found:
        yield found


class Tried:
    """One request, what came of it, and which models the upstreams were asked for."""

    def __init__(
        self, gateway: Stand, dialect: str, model: str, *, stream: bool = True, call: str = ""
    ) -> None:
        mark = f"question {next(NUMBERS)}."  # what the simulator counts is the same body again
        tools = [WEATHER] if call else None
        body = question(dialect, model, f"{mark}\n{call}", stream=stream, tools=tools)
        began = time.monotonic()
        self.got = post(gateway, dialect, body)
        self.seconds = time.monotonic() - began
        self.body = self.got.text
        self.asked = [
            one.json["model"] for one in gateway.simulator.exchanges if mark.encode() in one.body
        ]
        self.logged = logged(gateway, self.got.headers["request-id"])


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_g9_failure_before_content_is_tried_again(gateway, dialect: str, stream: bool) -> None:
    tried = Tried(gateway, dialect, "again/plain+fail:1+error:503+retry-after:0", stream=stream)

    assert 200 == tried.got.status_code
    assert 2 == len(tried.asked)
    assert 1 == tried.logged["retries"]
    if stream:
        assert () == check(dialect, tried.got.content).violations


@pytest.mark.parametrize(
    "fault", ["cut:10", "reset:0", "error-200", "error-first", "empty", "error:429+retry-after:0"]
)
def test_g9_every_failure_without_content_may_pass(gateway, fault: str) -> None:
    tried = Tried(gateway, "anthropic", f"again/plain+fail:1+{fault}")

    assert 200 == tried.got.status_code
    assert 2 == len(tried.asked)
    assert "message_stop" in tried.body


def response_of(dialect: str, text: str, *, stream: bool, reason: str = "stop") -> Reply:
    """Return an upstream's response that says a text, or nothing."""
    if dialect == "chat":
        shape = "delta" if stream else "message"
        choice = {
            "index": 0,
            shape: {"role": "assistant", "content": text},
            "finish_reason": reason,
        }
        body = {"id": "c", "created": 1, "model": "m", "choices": [choice]}
        frames = [b"data: %b\n\n" % json.dumps(body).encode(), b"data: [DONE]\n\n"]
        return (
            Reply(200, b"".join(frames), SSE) if stream else Reply(200, json.dumps(body).encode())
        )
    if dialect == "gemini":
        content = {"parts": [{"text": text}], "role": "model"}
        body = json.dumps({"candidates": [{"content": content, "finishReason": "STOP"}]}).encode()
        return Reply(200, b"data: %b\r\n\r\n" % body, SSE) if stream else Reply(200, body)
    if dialect == "anthropic":
        usage = {"input_tokens": 1, "output_tokens": 1}
        block = {"type": "text", "text": text}
        ended = {"stop_reason": "end_turn", "stop_sequence": None}
        message = {"id": "m", "type": "message", "role": "assistant", "model": "m", "usage": usage}
        if not stream:
            whole = {**message, **ended, "content": [block] if text else []}
            return Reply(200, json.dumps(whole).encode())
        said = [
            {"type": "content_block_start", "index": 0, "content_block": {**block, "text": ""}},
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": text},
            },
            {"type": "content_block_stop", "index": 0},
        ]
        events = [
            {"type": "message_start", "message": {**message, "content": []}},
            *(said if text else []),
            {"type": "message_delta", "delta": ended, "usage": usage},
            {"type": "message_stop"},
        ]
    else:
        content = [{"type": "output_text", "text": text, "annotations": []}]
        item = {
            "type": "message",
            "id": "i",
            "role": "assistant",
            "status": "completed",
            "content": content,
        }
        response = {"id": "r", "object": "response", "created_at": 1, "model": "m"}
        done = {**response, "status": "completed", "output": [item] if text else []}
        if not stream:
            return Reply(200, json.dumps(done).encode())
        events = [
            {
                "type": "response.created",
                "response": {**response, "status": "in_progress", "output": []},
            },
            *(
                [{"type": "response.output_item.done", "output_index": 0, "item": item}]
                if text
                else []
            ),
            {"type": "response.completed", "response": done},
        ]
    frames = [f"event: {one['type']}\ndata: {json.dumps(one)}\n\n".encode() for one in events]
    return Reply(200, b"".join(frames), SSE)


@contextmanager
def answering(
    *replies: Reply, dialect: str, retries: int = 2
) -> Iterator[tuple[Stand, OddUpstream]]:
    """Run a gateway whose upstream gives these responses in turn, and the last one for ever."""
    with odd_upstream() as odd:
        rest = list(replies)
        odd.answer = lambda _asked: rest.pop(0) if len(rest) > 1 else rest[0]
        upstream = Upstream(base_url=f"{odd.url}/v1", dialect=dialect, retries=retries)
        with stand(lambda url: settings_for(url, upstreams={"odd": upstream}, routes=())) as found:
            yield found, odd


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("dialect", "client"),
    [
        *((one, "anthropic") for one in DIALECTS),
        *(("chat", one) for one in DIALECTS if one != "anthropic"),
    ],
)
def test_g9_empty_response_is_asked_for_again_once(
    dialect: str, client: str, *, stream: bool
) -> None:
    empty, full = (response_of(dialect, text, stream=stream) for text in ("", "It rains."))
    with answering(empty, full, dialect=dialect) as (found, odd):
        got = post(found, client, question(client, "m", stream=stream))
        line = logged(found, got.headers["request-id"])
        notices = list(map(json.loads, found.log.getvalue().splitlines()))

    assert (200, 2, 1) == (got.status_code, len(odd.asked), line["retries"])
    assert "It rains." in got.text
    assert ["empty response, retrying"] == [
        one["event"] for one in notices if one["event"].startswith("empty")
    ]


@pytest.mark.parametrize("stream", [True, False])
def test_g9_second_empty_response_is_passed_on(stream: bool) -> None:
    empty = response_of("chat", "", stream=stream)
    with answering(empty, dialect="chat") as (found, odd):
        got = post(found, "anthropic", question("anthropic", "m", stream=stream))
        line = logged(found, got.headers["request-id"])

    assert (200, 2, "stop") == (got.status_code, len(odd.asked), line["ended"])
    assert "end_turn" in got.text


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("retries", "reason", "more"),
    [(0, "stop", {}), (2, "length", {}), (2, "content_filter", {}), (2, "stop", {"stop": ["."]})],
    ids=["no retries", "length", "filter", "stop sequence"],
)
def test_g9_empty_response_with_a_reason_is_not_asked_for_again(
    retries: int, reason: str, more: dict[str, object], *, stream: bool
) -> None:
    empty = response_of("chat", "", stream=stream, reason=reason)
    with answering(empty, dialect="chat", retries=retries) as (found, odd):
        got = post(found, "chat", question("chat", "m", stream=stream) | more)

    assert (200, 1) == (got.status_code, len(odd.asked))


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413])
def test_g9_failure_that_will_not_pass_is_reported_at_once(gateway, status: int) -> None:
    tried = Tried(gateway, "chat", f"again/plain+error:{status}")

    assert 400 <= tried.got.status_code
    assert 1 == len(tried.asked)


def test_g9_attempts_are_counted(gateway) -> None:
    tried = Tried(gateway, "chat", "again/plain+fail:9+error:503+retry-after:0")

    assert 503 == tried.got.status_code
    assert 2 == len(tried.asked)


def test_g9_retry_after_is_waited_for(gateway) -> None:
    tried = Tried(gateway, "chat", "again/plain+fail:1+error:429+retry-after:1", stream=False)

    assert 200 == tried.got.status_code
    assert 1.0 <= tried.seconds


def test_g9_longer_wait_is_the_clients_to_decide(gateway) -> None:
    tried = Tried(gateway, "chat", "again/plain+fail:1+error:429+retry-after:60", stream=False)

    assert 429 == tried.got.status_code
    assert "60" == tried.got.headers["retry-after"]
    assert 1 == len(tried.asked)


@pytest.mark.parametrize(
    ("status", "said", "asked"), [(503, "false", 1), (503, "maybe", 2), (409, "true", 2)]
)
def test_g9_upstream_may_say_whether_another_attempt_helps(
    status: int, said: str, asked: int
) -> None:
    with odd_upstream() as odd:
        odd.answer_with(status, {"error": {"message": "no"}}, x_should_retry=said, retry_after="0")
        upstream = Upstream(base_url=f"{odd.url}/v1", retries=1)
        with stand(lambda url: settings_for(url, upstreams={"odd": upstream}, routes=())) as found:
            got = post(found, "chat", question("chat", "m", stream=False))

    assert status == got.status_code
    assert asked == len(odd.asked)


@pytest.mark.parametrize("fault", ["cut", "reset", "error-in", "no-finish"])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_g9_nothing_is_tried_again_once_content_has_left(gateway, dialect: str, fault: str) -> None:
    tried = Tried(gateway, dialect, f"again/plain+fail:1+{fault}")

    assert 200 == tried.got.status_code
    assert 1 == len(tried.asked)
    assert "fault" == tried.logged["ended"]
    assert "again: " in tried.body  # the failure, and whose it is


@pytest.mark.parametrize("dialect", DIALECTS)
def test_g9_signs_of_life_are_no_content(gateway, dialect: str) -> None:
    tried = Tried(gateway, dialect, "again/plain+fail:1+error:503+slow:700+retry-after:0")

    assert 200 == tried.got.status_code
    assert 2 == len(tried.asked)
    assert tried.got.content.startswith(find_dialect(dialect).keep_alive)
    assert () == check(dialect, tried.got.content).violations
    assert "fault" != tried.logged["ended"]


@pytest.mark.parametrize("stream", [True, False])
def test_g9_upstreams_are_asked_in_order_until_one_answers(gateway, stream: bool) -> None:
    tried = Tried(gateway, "anthropic", "order", stream=stream)

    assert 200 == tried.got.status_code
    assert ["one+error:500", "two+cut:10", "three"] == tried.asked
    assert "three" == tried.got.headers["x-upstream-model"]
    assert ("c", "three") == (tried.logged["upstream"], tried.logged["upstream_model"])


def test_another_upstream_may_know_what_one_refuses(gateway) -> None:
    tried = Tried(gateway, "responses", "refused")

    assert 200 == tried.got.status_code
    assert ["one+error:401", "two+error:404", "three"] == tried.asked


def test_mistake_of_the_client_is_reported_at_once(gateway) -> None:
    tried = Tried(gateway, "chat", "mine")

    assert 400 == tried.got.status_code
    assert ["one+error:400"] == tried.asked


@pytest.mark.parametrize("dialect", DIALECTS)
def test_if_no_upstream_answers_every_reason_is_reported(gateway, dialect: str) -> None:
    tried = Tried(gateway, dialect, "nobody")
    message = tried.got.json()["error"]["message"]

    assert 429 == tried.got.status_code
    assert "3" == tried.got.headers["retry-after"]
    assert message.startswith("a: the simulator failed; then b: ")


def test_g9_no_other_upstream_goes_on_with_an_answer(gateway) -> None:
    tried = Tried(gateway, "chat", "begun")

    assert ["one+cut:900"] == tried.asked
    assert "upstream_truncated" in tried.body


def test_upstream_that_fails_again_and_again_is_left_alone_for_a_while(gateway) -> None:
    asked = [Tried(gateway, "chat", "tired").asked for _ in range(3)]
    began = time.monotonic()
    while Tried(gateway, "chat", "tired").asked == ["two"]:
        assert time.monotonic() - began < 60
        time.sleep(0.05)
    rested = time.monotonic() - began

    assert [["one+error:500", "two"], ["one+error:500", "two"], ["two"]] == asked
    assert 0.3 < rested


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("fault", ["bad-json-args", "cut-args"])
def test_call_that_the_clients_dialect_cannot_show_is_asked_for_again(
    gateway, fault: str, stream: bool
) -> None:
    model = f"again/plain+fail:1+{fault}"
    tried = Tried(gateway, "gemini", model, stream=stream, call=CALL)
    shown = Tried(gateway, "chat", model, stream=stream, call=CALL)

    assert [200, 200] == [tried.got.status_code, shown.got.status_code]
    assert [2, 1] == [len(tried.asked), len(shown.asked)]
    assert '"args":{"city":"Paris"}' in tried.body
    assert 1 == tried.logged["retries"]


def test_what_a_model_writes_does_not_cool_its_upstream_down(gateway) -> None:
    asked = [Tried(gateway, "gemini", "clumsy", call=CALL).asked for _ in range(3)]

    assert [["one+bad-json-args", "two"]] * 3 == asked


def test_upstream_that_asks_for_rest_gets_it(gateway) -> None:
    first = Tried(gateway, "chat", "resting")
    second = Tried(gateway, "chat", "resting")

    assert ["one+error:429+retry-after:9", "two"] == first.asked
    assert ["two"] == second.asked
