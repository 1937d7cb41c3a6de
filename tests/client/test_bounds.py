"""Each limit, reached and passed by one, through a client."""

import asyncio
import json
from typing import Any, NamedTuple

import msgspec
import pytest

from dragoman import Client, ClientError, Limits, request, user
from dragoman.client.encode import prepare
from dragoman.client.settings import Settings
from dragoman.envelopes import Envelope, Sealer
from dragoman.limits import MEASURES
from dragoman.turn.events import OpaqueKind
from dragoman.turn.request import Tool
from tests.support.client import failure
from tests.support.peers import CHAT, body, http, nothing_left, peer, sse

JSON = "application/json"
TOOLS = [Tool(name="f", description="does")]
# Bounds on what a gateway's clients send: `tests/unit/test_limits_of_requests.py`.
OF_REQUESTS = {"max_messages", "max_parts", "max_tools", "max_name_chars", "max_id_chars"}
# Bounds that are no error of theirs to pass: what is beyond them is not recognised, or not made.
QUIET = {"resend_window_bytes", "max_envelope_bytes"}


def call(index: int, arguments: str, *, name: str = "f", call_id: str = "") -> dict[str, Any]:
    function = {"name": name, "arguments": arguments}
    one = {"index": index, "id": call_id or f"c{index}", "function": function}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [one]}}]}


def more(index: int, arguments: str) -> dict[str, Any]:
    one = {"index": index, "function": {"arguments": arguments}}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [one]}}]}


def named(index: int, part: str) -> dict[str, Any]:
    one = {"index": index, "function": {"name": part}}
    return {"choices": [{"index": 0, "delta": {"tool_calls": [one]}}]}


END = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
NATIVE = (
    "<|tool_calls_section_begin|>"
    "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>"
    '{"a": 1}<|tool_call_end|>'
    "<|tool_call_begin|>functions.f:1<|tool_call_argument_begin|>"
    '{"a": 2}<|tool_call_end|>'
    "<|tool_calls_section_end|>"
)
# Cut where a call's arguments end: what else comes with them is looked at, and counted, too.
TEXT = b"".join(
    sse({"choices": [{"index": 0, "delta": {"content": piece}}]}, done=False)
    for piece in NATIVE.replace("}", "}\n").splitlines()
)
STOP = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


class Case(NamedTuple):
    """An answer, and the limit that it just reaches."""

    limit: str
    size: int
    answer: bytes
    stream: bool = True
    model: str = "m"


STREAM = sse(*CHAT)
LONGEST = max(map(len, STREAM.split(b"\n\n")))


def parallel(*arguments: str) -> bytes:
    return http(sse(*(call(at, one) for at, one in enumerate(arguments)), END))


CASES = {
    "the stream": Case("max_response_bytes", len(STREAM), http(STREAM)),
    "the body": Case("max_response_bytes", len(body()), http(body(), kind=JSON), stream=False),
    "a complete body": Case(
        "max_complete_bytes", len(body()), http(body(), kind=JSON), stream=False
    ),
    "values of a body": Case(
        "max_json_items", body().count(b","), http(body(), kind=JSON), stream=False
    ),
    "values of an event": Case(
        "max_json_items", max(one.count(b",") for one in STREAM.split(b"\n\n")), http(STREAM)
    ),
    "escapes of an event": Case("max_json_escapes", 2, parallel('{"a": 1}')),
    "an event": Case("max_sse_event_bytes", LONGEST, http(STREAM)),
    "an event that waits for its end": Case(
        "max_sse_buffer_bytes", 100, http(sse(*CHAT, b"data: [DONE]\n\n" + b":" * 100, done=False))
    ),
    "events": Case("max_events", 5, http(sse(b": hello\n\n", *CHAT))),
    "arguments of a call": Case("max_tool_args_bytes", 8, parallel('{"a": 1}')),
    "arguments of a call in a body": Case(
        "max_tool_args_bytes",
        8,
        http(
            body(
                None,
                tool_calls=[
                    {
                        "id": "c",
                        "type": "function",
                        "function": {"name": "f", "arguments": '{"a": 1}'},
                    }
                ],
            ),
            kind=JSON,
        ),
        stream=False,
    ),
    "arguments of a call in text": Case(
        "max_tool_args_bytes", 8, http(sse(TEXT, STOP)), model="kimi-k2"
    ),
    "arguments of all calls": Case("max_turn_args_bytes", 16, parallel('{"a": 1}', '{"a": 2}')),
    "arguments of all calls in text": Case(
        "max_turn_args_bytes", 16, http(sse(TEXT, STOP)), model="kimi-k2"
    ),
    "calls": Case("max_calls", 2, parallel("{}", "{}")),
    "calls in text": Case("max_calls", 2, http(sse(TEXT, STOP)), model="kimi-k2"),
    "calls in the text of a body": Case(
        "max_calls", 2, http(body(NATIVE), kind=JSON), stream=False, model="kimi-k2"
    ),
    "what waits for the call before it": Case(
        "max_waiting_bytes",
        len("fc1") + len('{"b"'),
        http(sse(call(0, '{"a"'), call(1, '{"b"'), more(0, ":1}"), more(1, ":1}"), END)),
    ),
    "a name in pieces": Case(
        "max_tool_name_chars",
        8,
        http(sse(named(0, "long"), named(0, "name"), call(0, "{}", name=""), END)),
    ),
    "blocks": Case("max_blocks", 2, parallel("{}", "{}")),
    "the depth of arguments": Case("max_json_depth", 2, parallel('{"a":[]}')),
    "the value of a header": Case(
        "max_header_bytes", 1000, http(STREAM, headers=f"x-long: {'a' * 1000}\r\n")
    ),
    "the status line": Case("max_header_bytes", 1000, http(STREAM, status=f"200 {'a' * 1000}")),
    "headers": Case("max_headers", 4, http(STREAM, headers="x-one: 1\r\n")),
}


HALF = "a call that is not complete"


def ask_it(case: Case, size: int) -> str:
    limits = Limits(**{case.limit: size})
    asked = request(user("hello"), model=case.model, tools=TOOLS)

    async def run() -> str:
        async with (
            peer(case.answer) as server,
            nothing_left(),
            Client(server.url, limits=limits) as client,
        ):
            if not case.stream:
                answer = await client.create(asked)
            else:
                async with client.stream(asked) as turn:
                    async for _ in turn:
                        pass
                answer = turn.answer()
            assert answer.finish is not None
            whole = all(call.complete for call in answer.call_blocks)
            return answer.finish.reason if whole else HALF

    return asyncio.run(run())


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_s_11_a_limit_that_is_reached_is_none_that_is_passed(case: Case) -> None:
    assert ask_it(case, case.size) in ("stop", "tool_calls")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_s_11_a_limit_that_is_passed_by_one_is_an_error_that_names_it(case: Case) -> None:
    with pytest.raises(ClientError) as caught:
        ask_it(case, case.size - 1)

    assert ("limit", case.limit) == (caught.value.stage, caught.value.code)
    assert (
        f" more than {case.size - 1} {MEASURES[case.limit][1]}; raise the limit `{case.limit}` in "
        in str(caught.value)
    )


def test_s_11_a_request_past_its_limit_is_not_sent() -> None:
    asked = request(user("hello"), model="m")
    settings = Settings("http://127.0.0.1:1")
    size = len(prepare(asked, settings, stream=False).body)
    exact = Settings("http://127.0.0.1:1", limits=Limits(max_request_bytes=size))

    async def run() -> ClientError:
        async with peer(http(body(), kind=JSON)) as server:
            limits = Limits(max_request_bytes=size - 1)
            async with Client(server.url, limits=limits) as client:
                with pytest.raises(ClientError) as caught:
                    await client.create(asked)
                with pytest.raises(ClientError):
                    client.stream(asked)
        assert not server.requests
        return caught.value

    error = asyncio.run(run())

    assert size == len(prepare(asked, exact, stream=False).body)
    assert ("limit", "max_request_bytes", "too_large") == (error.stage, error.code, error.kind)


@pytest.mark.parametrize(("size", "known"), [(7, True), (6, False)], ids=["reached", "passed"])
def test_s_11_arguments_that_come_twice_are_known_within_their_window(
    size: int, known: bool
) -> None:
    answer = http(sse(call(0, '{"a":1 '), more(0, '{"a":1}'), END))
    case = Case("resend_window_bytes", size, answer)

    assert ("tool_calls" if known else HALF) == ask_it(case, size)


def test_s_11_an_envelope_past_its_limit_by_one_is_not_made() -> None:
    envelope = Envelope("server", OpaqueKind.PLAIN, data="state")
    sealed = Sealer(b"key").seal(envelope)
    assert sealed is not None
    exact, small = (
        Sealer(b"key", limits=Limits(max_envelope_bytes=size))
        for size in (len(sealed), len(sealed) - 1)
    )

    assert sealed == exact.seal(envelope)
    assert envelope == exact.open(sealed)
    assert None is small.seal(envelope)
    assert None is small.open(sealed)


def test_every_limit_is_passed_here() -> None:
    passed = {case.limit for case in CASES.values()} | {"max_request_bytes"}

    assert set(Limits.__struct_fields__) == passed | QUIET | OF_REQUESTS


@pytest.mark.parametrize(
    "limits", [Limits(max_header_bytes=4), Limits(max_headers=0)], ids=["bytes", "number"]
)
def test_bounds_of_headers_hold_for_errors_too(limits: Limits) -> None:
    assert "limit" == failure(http(b"", status="500 Oh"), limits=limits).stage


def test_what_came_before_a_limit_is_kept() -> None:
    case = Case("max_calls", 1, parallel('{"a": 1}', "{}"))

    with pytest.raises(ClientError) as caught:
        ask_it(case, 1)

    received = caught.value.received
    assert received is not None
    assert ['{"a": 1}'] == [one.text for one in received.call_blocks]
    assert json.loads(msgspec.json.encode(received.fault))["code"] == "max_calls"
