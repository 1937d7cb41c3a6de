"""Turns that are rare but legal, for every writer to survive."""

from typing import Any

from msgspec import Raw

from dragoman.turn.events import (
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Channel,
    Citation,
    Event,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    Flavor,
    InputDelta,
    Opaque,
    OpaqueKind,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.losses import Loss

START = Start("some-model", "the-id", 1700000000)
USAGE = Usage(input_tokens=3, output_tokens=2, final=True)
FAULT = Fault(FaultKind.UPSTREAM_BAD, "the upstream left")


def block(
    index: int, kind: str, *deltas: Event, end: BlockEnd | None = None, **more: Any
) -> list[Event]:
    return [BlockStart(index, BlockKind(kind), **more), *deltas, end or BlockEnd(index)]


def text(index: int) -> list[Event]:
    return block(index, "text", TextDelta(index, "Hm."))


def call(index: int, call_id: str = "", arguments: str = "{}") -> list[Event]:
    call_id = call_id or f"functions.f:{index}"
    return block(index, "tool_call", ArgsDelta(index, arguments), call_id=call_id, name="f")


def cut(index: int) -> list[Event]:
    end = BlockEnd(index, complete=False)
    half = ArgsDelta(index, '{"a":"b')
    return block(index, "tool_call", half, call_id=f"cut{index}", name="f", end=end)


def tool(name: str, flavor: Flavor, arguments: str) -> list[Event]:
    return block(0, "tool_call", ArgsDelta(0, arguments), call_id="c", name=name, flavor=flavor)


def whole(kind: str, vendor: str, raw: bytes, index: int = 0) -> list[Event]:
    return block(index, kind, vendor=vendor, raw=Raw(raw))


def done(*blocks: list[Event], reason: str = "stop", **more: Any) -> list[Event]:
    body = [event for one in blocks for event in one]
    return [START, *body, USAGE, Finish(FinishReason(reason), **more)]


_THOUGHT = ReasoningDelta(0, "a")
_SIGNED = Opaque(0, OpaqueKind.SIGNATURE, "sig", "anthropic")
_SUMMARY = [ReasoningDelta(0, part, Channel.SUMMARY, at) for at, part in enumerate("ab")]
_LOCATION = (
    b'{"type":"web_search_result_location","url":"http://x","title":"t","cited_text":"Hm.",'
    b'"encrypted_index":"e"}'
)
_SEARCH = b'{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{"query":"x"}}'
_FOUND = b'{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}'
_PATCH = '{"operation":{"type":"create_file","path":"a","diff":"+x"}}'

TURNS: dict[str, list[Event]] = {
    "nothing but a fault": [FAULT],
    "ping and fault": [Ping(), FAULT],
    "fault after the start": [START, FAULT],
    "fault inside text": [START, *text(0)[:-1], FAULT],
    "fault inside reasoning": [START, BlockStart(0, BlockKind.REASONING), _THOUGHT, FAULT],
    "fault inside a call": [START, *call(0, arguments='{"a":')[:-1], FAULT],
    "fault after a cut call": [START, *cut(0), FAULT],
    "pings everywhere": [
        Ping(),
        START,
        Ping(),
        text(0)[0],
        Ping(),
        *text(0)[1:],
        Ping(),
        *done()[1:],
    ],
    "nothing said": done(),
    "no counts": [START, *text(0), Finish(FinishReason.STOP)],
    "counts on the way": [START, Usage(input_tokens=5, output_tokens=1), *text(0), *done()[1:]],
    "no name, no id": [Start(), *done(text(0))[1:]],
    "losses": [START, Loss("args_repaired"), *done(text(0))[1:], Loss("usage_missing")],
    "empty text": done(block(0, "text")),
    "two texts": done(text(0), text(1)),
    "odd characters": done(block(0, "text", TextDelta(0, "\u2028\u0085\x00\U0001f600"))),
    "empty reasoning": done(block(0, "reasoning"), text(1)),
    "reasoning that is not shown": done(
        block(0, "reasoning", Opaque(0, OpaqueKind.REDACTED, "x", "anthropic")), text(1)
    ),
    "summary in parts": done(block(0, "reasoning", *_SUMMARY, _SIGNED), text(1)),
    "summary, then reasoning": done(block(0, "reasoning", *_SUMMARY, _THOUGHT), text(1)),
    "reasoning, then summary": done(block(0, "reasoning", _THOUGHT, *_SUMMARY), text(1)),
    "state inside reasoning": done(block(0, "reasoning", _THOUGHT, _SIGNED, _THOUGHT), text(1)),
    "two states": done(
        block(0, "reasoning", _THOUGHT, _SIGNED, Opaque(0, OpaqueKind.DETAILS, "[]", "or")), text(1)
    ),
    "two calls": done(call(0), call(1), reason="tool_calls"),
    "one id twice": done(call(0, "same"), call(1, "same"), reason="tool_calls"),
    "a long id": done(call(0, "x" * 90), reason="tool_calls"),
    "calls at the limit": done(call(0), reason="length"),
    "a cut call": done(cut(0), reason="length"),
    "a cut call after another": done(call(0), cut(1), reason="content_filter"),
    "a cut call before text": done(cut(0), text(1), reason="length"),
    "a cut call before another": done(cut(0), call(1), reason="context_full"),
    "a signed call": done(
        block(
            0,
            "tool_call",
            Opaque(0, OpaqueKind.TOOL_SIGNATURE, "sig", "gemini"),
            ArgsDelta(0, "{}"),
            call_id="c",
            name="f",
        ),
        reason="tool_calls",
    ),
    "a custom call": done(
        block(0, "custom_call", InputDelta(0, '"\n'), InputDelta(0, "é\\"), call_id="c", name="p"),
        reason="tool_calls",
    ),
    "a custom call without input": done(
        block(0, "custom_call", call_id="c", name="p"), reason="tool_calls"
    ),
    "a cut custom call": done(
        block(0, "custom_call", InputDelta(0, "a"), call_id="c", name="p", end=BlockEnd(0, False)),
        reason="length",
    ),
    "a tool of a namespace": done(
        block(0, "tool_call", ArgsDelta(0, "{}"), call_id="c", name="f", namespace="n"),
        reason="tool_calls",
    ),
    "local shell": done(
        tool("local_shell", Flavor.LOCAL_SHELL, '{"command":["ls"]}'), reason="tool_calls"
    ),
    "shell": done(tool("shell", Flavor.SHELL, '{"commands":["ls"]}'), reason="tool_calls"),
    "patch": done(tool("apply_patch", Flavor.APPLY_PATCH, _PATCH), reason="tool_calls"),
    "refusal": done(block(0, "refusal", RefusalDelta(0, "No.")), reason="refusal"),
    "text and refusal": done(
        text(0), block(1, "refusal", RefusalDelta(1, "No.")), reason="refusal"
    ),
    "filtered": done(text(0), reason="content_filter", category="bio", explanation="why"),
    "stop sequence": done(text(0), reason="stop_sequence", stop_sequence="X"),
    "pause": done(text(0), reason="pause"),
    "compaction": done(text(0), reason="compaction"),
    "citation": done(
        block(0, "text", TextDelta(0, "Hm."), Citation(0, "http://x", "t", "Hm.", 0, 3))
    ),
    "citation of a vendor": done(
        block(
            0,
            "text",
            TextDelta(0, "Hm."),
            Citation(0, "http://x", "t", "Hm.", vendor="anthropic", raw=Raw(_LOCATION)),
        )
    ),
    "citation before its text": done(
        block(0, "text", Citation(0, "http://x", "t", "Hm.", 0, 3), TextDelta(0, "Hm."))
    ),
    "probabilities": done(
        block(0, "text", TextDelta(0, "Hm.", Raw(b'[{"token":"Hm.","logprob":-1}]')))
    ),
    "a search of Messages": done(
        whole("server_call", "anthropic", _SEARCH),
        whole("server_result", "anthropic", _FOUND, 1),
        text(2),
    ),
    "a search of Responses": done(
        whole(
            "server_call", "openai", b'{"type":"web_search_call","id":"ws_1","status":"completed"}'
        ),
        text(1),
    ),
    "compaction of Messages": done(
        whole("opaque", "anthropic", b'{"type":"compaction","content":"x"}'), text(1)
    ),
    "compaction of Responses": done(
        whole("opaque", "openai", b'{"type":"compaction","id":"cmp_1","encrypted_content":"x"}'),
        text(1),
    ),
}
