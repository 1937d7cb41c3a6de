"""What a request held is free once it has ended, however it ended, without a run of the collector.

The collector is off in these tests: what survives here is held by somebody, or by a reference cycle.
"""

import gc
import gzip
import http.client
import itertools
import json
import socket
import time
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

import pytest
from msgspec import structs

from dragoman.gateway import inspection, upstream_call
from dragoman.gateway.config.settings import Server, Settings, Store, Timeouts
from dragoman.gateway.responses.store import ResponsesStore
from dragoman.limits import Limits
from tests.support.gateway import FIXED_PATHS, PATHS, Stand, settings_for, stand
from tests.support.odd_upstream import SSE, Asked, Gate, OddUpstream, Reply, odd_upstream
from tests.support.raw_http import RawClient
from tests.support.simulator import WEATHER, question, wire
from tests.support.waiting import until

SIZE = 1 << 18  # characters of a request's and of an answer's text
SPARE = SIZE // 4  # what may be different afterwards for other reasons
REPEATS = 2
TEXT = "a word " * (SIZE // 7)


# --- what an upstream says --------------------------------------------------------------------------


def chat_body(text: str) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage,
    }


def messages_body(text: str) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 5, "output_tokens": 7},
    }


def responses_body(text: str) -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    item = {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed"}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "completed",
        "model": "m",
        "output": [{**item, "content": [part]}],
        "usage": {"input_tokens": 5, "output_tokens": 7, "total_tokens": 12},
    }


def gemini_body(text: str, finish: str | None = "STOP") -> dict[str, Any]:
    candidate = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}
    return {
        "candidates": [candidate | ({"finishReason": finish} if finish else {})],
        "usageMetadata": {"promptTokenCount": 5, "candidatesTokenCount": 7, "totalTokenCount": 12},
        "modelVersion": "m",
        "responseId": "r",
    }


BODIES = {
    "chat": chat_body,
    "anthropic": messages_body,
    "responses": responses_body,
    "gemini": gemini_body,
}


def stream_of(dialect: str, text: str) -> list[bytes]:
    """Return a stream that says a text, in a few frames."""
    pieces = [text[at : at + SIZE // 4] for at in range(0, len(text), SIZE // 4)]
    match dialect:
        case "chat":
            same = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
            deltas: list[Any] = [
                {"delta": {"content": one}, "finish_reason": None} for one in pieces
            ]
            deltas.append({"delta": {}, "finish_reason": "stop"})
            events = [{**same, "choices": [{"index": 0, **one}]} for one in deltas]
            return [b"data: %b\n\n" % json.dumps(one).encode() for one in events] + [
                b"data: [DONE]\n\n"
            ]
        case "anthropic":
            start = {**messages_body(""), "content": [], "stop_reason": None}
            block = {"type": "text", "text": ""}
            events = [
                {"type": "message_start", "message": start},
                {"type": "content_block_start", "index": 0, "content_block": block},
                *(
                    {
                        "type": "content_block_delta",
                        "index": 0,
                        "delta": {"type": "text_delta", "text": one},
                    }
                    for one in pieces
                ),
                {"type": "content_block_stop", "index": 0},
                {
                    "type": "message_delta",
                    "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                    "usage": {"output_tokens": 7},
                },
                {"type": "message_stop"},
            ]
        case "gemini":
            chunks = [gemini_body(one, None) for one in pieces] + [gemini_body("")]
            return [b"data: %b\r\n\r\n" % json.dumps(one).encode() for one in chunks]
        case _:
            whole = responses_body(text)
            begun = {**whole, "status": "in_progress", "output": [], "usage": None}
            item = whole["output"][0]
            part = item["content"][0]
            at = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
            events = [
                {"type": "response.created", "response": begun},
                {
                    "type": "response.output_item.added",
                    "output_index": 0,
                    "item": {**item, "status": "in_progress", "content": []},
                },
                {"type": "response.content_part.added", **at, "part": {**part, "text": ""}},
                *({"type": "response.output_text.delta", **at, "delta": one} for one in pieces),
                {"type": "response.output_text.done", **at, "text": text},
                {"type": "response.content_part.done", **at, "part": part},
                {"type": "response.output_item.done", "output_index": 0, "item": item},
                {"type": "response.completed", "response": whole},
            ]
            events = [{**one, "sequence_number": n} for n, one in enumerate(events)]
    return [
        b"event: %b\ndata: %b\n\n" % (one["type"].encode(), json.dumps(one).encode())
        for one in events
    ]


def dialect_of(asked: Asked) -> str:
    if "enerateContent" in asked.path:
        return "gemini"
    return next((name for name, path in PATHS.items() if asked.path == path), "")


def good(asked: Asked) -> Reply:
    """Answer at length, as it was asked: streamed or complete."""
    dialect = dialect_of(asked)
    if not dialect:  # what is kept, compacted or counted
        return Reply(200, json.dumps({**responses_body(TEXT), "input_tokens": 7}).encode())
    streams = b'"stream": true' in asked.body[:SIZE] or b'"stream":true' in asked.body
    if streams or "streamGenerateContent" in asked.path:
        return Reply(200, stream_of(dialect, TEXT), SSE)
    return Reply(200, json.dumps(BODIES[dialect](TEXT)).encode())


# --- the place --------------------------------------------------------------------------------------


class Place(NamedTuple):
    gateway: Stand
    odd: OddUpstream


def settings(odd: OddUpstream, **changes: Any) -> Settings:
    plain = settings_for(odd.url)
    upstreams = {
        name: structs.replace(one, count_tokens="upstream", profile="openai")
        if name == "responses"
        else structs.replace(one, count_tokens="upstream")
        for name, one in plain.upstreams.items()
    }
    server = Server(port=0, limits=Limits(max_request_bytes=4 * SIZE))
    return structs.replace(plain, upstreams=upstreams, server=server, **changes)


@contextmanager
def place(**changes: Any) -> Iterator[Place]:
    with odd_upstream() as odd, stand(lambda _url: settings(odd, **changes)) as gateway:
        odd.answer = good
        yield Place(gateway, odd)


@pytest.fixture(scope="module", autouse=True)
def no_rows() -> Iterator[None]:
    """Keep no rows for the inspector: their number is bounded, and they are not what is looked for here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(inspection, "_MOST_ENDED", 0)
        yield


@pytest.fixture(scope="module")
def shared(no_rows: None) -> Iterator[Place]:
    with place(store=Store(responses="off")) as found:
        yield found


class Client:
    """One connection, kept open: an idle connection holds nothing of what it was asked."""

    def __init__(self, url: str) -> None:
        self._http = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._http.close()

    def ask(self, path: str, body: Any, method: str = "POST", **headers: str) -> int:
        """Send a request, read all of its answer, and return its status."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self._http.request(method, path, data, {"content-type": "application/json", **named})
        response = self._http.getresponse()
        response.read()
        return response.status


def survivors(place: Place, work: Callable[[], object]) -> str:
    """Do something several times, and tell what is left of it; nothing, if nothing is."""
    requests = place.gateway.running.gateway

    def once() -> None:
        work()
        until(lambda: not requests._requests)  # the end of an answer that the client left
        place.odd.asked.clear()
        place.gateway.log.seek(0)
        place.gateway.log.truncate()  # the test's own copy of the log grows with each request

    once()  # what is made once, and kept, is made here
    gc.collect()
    gc.disable()
    tracemalloc.start(3)
    try:
        for _ in range(REPEATS):
            once()
        end = time.monotonic() + 2.0  # threads and tasks that only just end
        while tracemalloc.get_traced_memory()[0] > SPARE and time.monotonic() < end:
            time.sleep(0.02)
        left = tracemalloc.get_traced_memory()[0]
        if left <= SPARE:
            return ""
        after = tracemalloc.take_snapshot()
    finally:
        tracemalloc.stop()
        gc.enable()
        gc.collect()
    lines = [f"{left} bytes are left"]
    for one in after.statistics("traceback")[:5]:
        lines += [f"{one.size} bytes from", *one.traceback.format(most_recent_first=True)]
    return "\n".join(lines)


# --- endings ----------------------------------------------------------------------------------------


def large(dialect: str, to: str, **more: Any) -> dict[str, Any]:
    return question(dialect, f"{to}/m", TEXT, **more)


@pytest.mark.parametrize("stream", [False, True], ids=["complete", "stream"])
@pytest.mark.parametrize(
    ("dialect", "to"),
    [
        *itertools.product(FIXED_PATHS, FIXED_PATHS),
        ("gemini", "gemini"),
        ("gemini", "chat"),
        ("anthropic", "gemini"),
    ],
)
def test_good_answer_leaves_nothing(shared, dialect: str, to: str, stream: bool) -> None:
    shared.odd.answer = good
    with Client(shared.gateway.url) as client:

        def work() -> None:
            asked = large(dialect, to, stream=stream, tools=[WEATHER])
            assert 200 == client.ask(*wire(dialect, asked))

        assert not survivors(shared, work)


def failing(asked: Asked) -> Reply:
    return Reply(500, json.dumps({"error": {"message": TEXT}}).encode())


def refusing(asked: Asked) -> Reply:
    return Reply(400, json.dumps({"error": {"message": TEXT, "type": "x"}}).encode())


def raging(asked: Asked) -> Reply:
    return Reply(200, b"{" * SIZE)


def cutting(asked: Asked) -> Reply:
    reply = good(asked)
    if isinstance(reply.body, bytes):
        headers = {**reply.headers, "content-length": str(len(reply.body))}
        return Reply(200, reply.body[: SIZE // 2], headers)
    return Reply(200, reply.body[:3], SSE)


@pytest.mark.parametrize("stream", [False, True], ids=["complete", "stream"])
@pytest.mark.parametrize("dialect", FIXED_PATHS)
@pytest.mark.parametrize(
    "answer", [failing, refusing, raging, cutting], ids=lambda one: one.__name__
)
def test_failure_of_an_upstream_leaves_nothing(
    shared, answer: Callable[[Asked], Reply], dialect: str, stream: bool
) -> None:
    shared.odd.answer = answer
    with Client(shared.gateway.url) as client:
        assert not survivors(
            shared, lambda: client.ask(PATHS[dialect], large(dialect, "chat", stream=stream))
        )


def malformed(dialect: str) -> bytes:
    return json.dumps(large(dialect, "chat")).encode()[:-1]


def wrong_type(dialect: str) -> bytes:
    return json.dumps({**large(dialect, "chat"), "stream": "yes"}).encode()


def too_large(dialect: str) -> bytes:
    return json.dumps(question(dialect, "chat/m", TEXT * 5)).encode()


def orphan_result(dialect: str) -> bytes:
    result: dict[str, Any]
    match dialect:
        case "chat":
            result = {"role": "tool", "tool_call_id": "none", "content": TEXT}
            return json.dumps({"model": "anthropic/m", "messages": [result]}).encode()
        case "anthropic":
            block = {"type": "tool_result", "tool_use_id": "none", "content": TEXT}
            result = {"role": "user", "content": [block]}
            body = {"model": "chat/m", "max_tokens": 9, "messages": [result]}
            return json.dumps(body).encode()
        case _:
            result = {"type": "function_call_output", "call_id": "none", "output": TEXT}
            return json.dumps({"model": "chat/m", "input": [result]}).encode()


@pytest.mark.parametrize("dialect", FIXED_PATHS)
@pytest.mark.parametrize(
    ("make", "status"),
    [(malformed, 400), (wrong_type, 400), (too_large, 413), (orphan_result, 400)],
    ids=lambda one: getattr(one, "__name__", str(one)),
)
def test_refused_request_leaves_nothing(
    shared, make: Callable[[str], bytes], status: int, dialect: str
) -> None:
    with Client(shared.gateway.url) as client:

        def work() -> None:
            assert status == client.ask(PATHS[dialect], make(dialect), connection="close")

        assert not survivors(shared, work)


@pytest.mark.parametrize("dialect", FIXED_PATHS)
@pytest.mark.parametrize("bad", [False, True], ids=["good", "bad"])
def test_packed_request_leaves_nothing(shared, dialect: str, bad: bool) -> None:
    shared.odd.answer = good
    packed = gzip.compress(json.dumps(large(dialect, "chat", stream=False)).encode())
    with Client(shared.gateway.url) as client:

        def work() -> None:
            body = packed[:-9] if bad else packed
            status = client.ask(PATHS[dialect], body, content_encoding="gzip")
            assert (400 if bad else 200) == status

        assert not survivors(shared, work)


@pytest.mark.parametrize("stream", [False, True], ids=["complete", "stream"])
@pytest.mark.parametrize("dialect", FIXED_PATHS)
def test_client_that_leaves_leaves_nothing(shared, dialect: str, stream: bool) -> None:
    gates: list[Gate] = []

    def waiting(asked: Asked) -> Reply:
        gate = Gate()
        gates.append(gate)
        reply = good(asked)
        parts = [reply.body] if isinstance(reply.body, bytes) else list(reply.body)
        return Reply(200, gate.each([parts[0][:10], *parts]), reply.headers)

    shared.odd.answer = waiting

    def work() -> None:
        with RawClient(shared.gateway.url, PATHS[dialect], large(dialect, "chat", stream=stream)):
            until(lambda: gates)
        until(lambda: not shared.gateway.running.gateway._requests)
        gates.pop().open(100)

    assert not survivors(shared, work)


def test_client_that_leaves_while_it_asks_leaves_nothing(shared) -> None:
    def work() -> None:
        with socket.create_connection(urlsplit(shared.gateway.url).netloc.split(":")) as link:
            link.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\n")
            link.sendall(b"content-length: %d\r\n\r\n" % (2 * SIZE))
            link.sendall(b"x" * SIZE)
            until(lambda: shared.gateway.running.gateway._requests)

    assert not survivors(shared, work)


@pytest.mark.parametrize("stream", [False, True], ids=["complete", "stream"])
@pytest.mark.parametrize("begun", [False, True], ids=["silent", "begun"])
@pytest.mark.parametrize("dialect", FIXED_PATHS)
def test_upstream_that_is_late_leaves_nothing(dialect: str, begun: bool, stream: bool) -> None:
    gate = Gate()

    def waiting(asked: Asked) -> Reply:
        reply = good(asked)
        parts = [reply.body] if isinstance(reply.body, bytes) else list(reply.body)
        return Reply(200, gate.each([parts[0][:-10], parts[0][-10:], *parts[1:]]), reply.headers)

    with odd_upstream() as odd:
        odd.answer = waiting

        def make(_url: str) -> Settings:
            plain = settings(odd, store=Store(responses="off"))
            slow = Timeouts(first_byte=0.15, idle=0.15)
            upstreams = {
                name: structs.replace(one, timeouts=slow, failures=99)
                for name, one in plain.upstreams.items()
            }
            return structs.replace(plain, upstreams=upstreams)

        with stand(make) as gateway, Client(gateway.url) as client:

            def work() -> None:
                # Made before the request: on a busy machine the gateway may give up before the upstream answers.
                nonlocal gate
                gate = Gate()
                if begun:
                    gate.open(2)
                client.ask(PATHS[dialect], large(dialect, "chat", stream=stream))
                gate.open(100)

            assert not survivors(Place(gateway, odd), work)


@pytest.mark.parametrize("stream", [False, True], ids=["complete", "stream"])
@pytest.mark.parametrize("dialect", FIXED_PATHS)
def test_failure_of_our_own_leaves_nothing(shared, monkeypatch, dialect: str, stream: bool) -> None:
    def broken(*_args: object, **_more: object) -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setattr(upstream_call, "translate_body", broken)
    monkeypatch.setattr(upstream_call.Translator, "feed", broken)
    shared.odd.answer = good
    with Client(shared.gateway.url) as client:

        def work() -> None:
            body = large(dialect, "chat", stream=stream)
            assert 500 == client.ask(PATHS[dialect], body)

        assert not survivors(shared, work)


@pytest.mark.parametrize(
    ("path", "dialect", "to"),
    [
        ("/v1/messages/count_tokens", "anthropic", "anthropic"),
        ("/v1/messages/count_tokens", "anthropic", "chat"),
        ("/v1/responses/input_tokens", "responses", "responses"),
        ("/v1/responses/compact", "responses", "responses"),
        ("/v1/responses/compact", "responses", "chat"),
        ("/api/event_logging/batch", "anthropic", "chat"),
    ],
)
@pytest.mark.parametrize("answer", [good, failing, cutting], ids=lambda one: one.__name__)
def test_smaller_endpoints_leave_nothing(shared, answer, path, dialect: str, to: str) -> None:
    shared.odd.answer = answer
    with Client(shared.gateway.url) as client:
        assert not survivors(shared, lambda: client.ask(path, large(dialect, to, stream=False)))


@pytest.mark.parametrize("answer", [good, failing, cutting], ids=lambda one: one.__name__)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/resp_1"),
        ("GET", "/v1/responses/resp_1/input_items"),
        ("DELETE", "/v1/responses/resp_1"),
        ("GET", "/v1/models"),
    ],
)
def test_what_an_upstream_keeps_leaves_nothing_here(shared, answer, method, path) -> None:
    shared.odd.answer = answer
    with Client(shared.gateway.url) as client:
        assert not survivors(shared, lambda: client.ask(path, b"", method))


@pytest.mark.parametrize("stream", [False, True], ids=["complete", "stream"])
@pytest.mark.parametrize("kept", [True, False], ids=["kept", "not-kept"])
def test_kept_response_is_not_held_twice(monkeypatch, kept: bool, stream: bool) -> None:
    """What SQLite holds is its own; nothing of it stays in Python's memory."""
    with place(store=Store(responses="memory", max_bytes=64 * SIZE)) as found:
        if not kept:

            async def broken(*_args: object) -> bool:
                raise RuntimeError("a mistake of ours")

            monkeypatch.setattr(ResponsesStore, "keep", broken)
        with Client(found.gateway.url) as client:

            def work() -> None:
                body = large("responses", "chat", stream=stream)
                assert 200 == client.ask(PATHS["responses"], body)

            assert not survivors(found, work)
