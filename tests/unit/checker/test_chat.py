"""The strict grammar of Chat Completions: legal streams, and every small way to spoil them."""

from typing import Any

import pytest

from dragoman.checker.checker import Ending
from tests.support.checker import (
    LEGAL,
    GrammarTests,
    changed,
    judge,
    outcome,
    render,
)

D = "chat"
DONE = "[DONE]"


def chunk(*choices: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-7",
        "object": "chat.completion.chunk",
        "created": 1700000000,
        "model": "kimi",
        "choices": list(choices),
        **more,
    }


def choice(finish: str | None = None, index: int = 0, **delta: Any) -> dict[str, Any]:
    return {"index": index, "delta": delta, "finish_reason": finish}


def said(**delta: Any) -> dict[str, Any]:
    return chunk(choice(**delta))


def finish(reason: str) -> dict[str, Any]:
    return chunk(choice(reason))


def head(index: int, call_id: str, arguments: str = "") -> dict[str, Any]:
    function = {"name": "weather", "arguments": arguments}
    one = {"index": index, "id": call_id, "type": "function", "function": function}
    return said(tool_calls=[one])


def tail(index: int, arguments: str) -> dict[str, Any]:
    return said(tool_calls=[{"index": index, "function": {"arguments": arguments}}])


ROLE = said(role="assistant", content="")
USAGE = chunk(usage={"prompt_tokens": 30, "completion_tokens": 9, "total_tokens": 39})
ERROR = {
    "error": {"message": "too many askers", "type": "server_error", "param": None, "code": "x"}
}

TEXT = [ROLE, said(content="Good "), said(content="day."), finish("stop"), USAGE, DONE]
CALLS = [
    ROLE,
    said(reasoning_content="Two "),
    said(reasoning_content="towns."),
    head(0, "call_1"),
    tail(0, '{"town":"Bergen"}'),
    head(1, "call_2"),
    tail(1, '{"town":'),
    tail(1, '"Siena"}'),
    finish("tool_calls"),
    USAGE,
    DONE,
]
FAILED = [ROLE, said(content="Half"), ERROR, DONE]

LEGAL_STREAMS = {
    "text": TEXT,
    "calls": CALLS,
    "failed": FAILED,
    "no usage": [*TEXT[:4], DONE],
    "usage on the finish chunk": [*TEXT[:3], chunk(choice("stop"), usage=USAGE["usage"]), DONE],
    "usage null until it is known": [{**one, "usage": None} for one in TEXT[:4]] + TEXT[4:],
    "empty": [ROLE, finish("stop"), DONE],
    "a1 call in one chunk": [ROLE, head(0, "c", '{"a":1}'), finish("tool_calls"), DONE],
    "a9 all in one chunk": [chunk(choice("stop", role="assistant", content="Hi.")), DONE],
    "call cut by the limit": [ROLE, head(0, "c", '{"a":"b'), finish("length"), DONE],
    "a6 calls that alternate": [
        ROLE,
        head(0, "a"),
        head(1, "b"),
        tail(0, '{"x":'),
        tail(1, '{"y":'),
        tail(0, "1}"),
        tail(1, "2}"),
        finish("tool_calls"),
        DONE,
    ],
    "custom call": [
        ROLE,
        said(
            tool_calls=[
                {"index": 0, "id": "c", "type": "custom", "custom": {"name": "p", "input": "*"}}
            ]
        ),
        said(tool_calls=[{"index": 0, "custom": {"input": "{ not json"}}]),
        finish("tool_calls"),
        DONE,
    ],
    "two choices": [
        ROLE,
        chunk(choice(index=1, role="assistant", content="")),
        said(content="One."),
        chunk(choice(index=1, content="Other.")),
        finish("stop"),
        chunk(choice("stop", index=1)),
        DONE,
    ],
    "refusal": [ROLE, said(refusal="No."), finish("stop"), DONE],
    "refusal after a call": [
        ROLE,
        head(0, "c", "{}"),
        said(refusal="No."),
        finish("stop"),
        DONE,
    ],
    "failure without the marker": FAILED[:-1],
    "failure before anything": [ERROR],
    "ids of later parts null": [
        ROLE,
        head(0, "c", "{"),
        said(tool_calls=[{"index": 0, "id": None, "function": {"name": None, "arguments": "}"}}]),
        finish("tool_calls"),
        DONE,
    ],
}

SPOILED = [TEXT, CALLS, FAILED]  # the streams that are mutated


def kind(event: Any) -> str:
    """Name a chunk by what it carries."""
    if isinstance(event, str) or "error" in event:
        return event if isinstance(event, str) else "error"
    if not event["choices"]:
        return "usage"
    delta = event["choices"][0]["delta"]
    if "tool_calls" in delta:
        return "call head" if "id" in delta["tool_calls"][0] else "call tail"
    if event["choices"][0]["finish_reason"]:
        return "finish"
    return "role" if "role" in delta else next(iter(delta))


# What the judge says when a chunk of this kind is removed, doubled, or changes places with the next.
# `LEGAL` is a mutation that no client can notice: text is text, a failure may end without the marker.
REMOVED = {
    "role": {"role-once"},
    "content": {LEGAL},
    "reasoning_content": {LEGAL},
    "call head": {"call-head"},
    "call tail": {"arguments-whole", "partial-json-prefix"},
    "finish": {"event-order"},
    "usage": {LEGAL},
    "error": {"done-marker"},
    DONE: {"done-marker", LEGAL},
}
DOUBLED = {
    "role": {"role-once"},
    "content": {LEGAL},
    "reasoning_content": {LEGAL},
    "call head": {"id-once"},
    "call tail": {"partial-json-prefix", "arguments-whole"},
    "finish": {"event-order"},
    "usage": {"usage-last"},
    "error": {"nothing-after-end"},
    DONE: {"nothing-after-end"},
}
SWAPPED = {
    "role | content": {"role-once"},
    "role | reasoning_content": {"role-once"},
    "content | content": {LEGAL},
    "content | finish": {"event-order"},
    "content | error": {"nothing-after-end"},
    "reasoning_content | reasoning_content": {LEGAL},
    "reasoning_content | call head": {LEGAL},
    "call head | call tail": {"call-head"},
    "call tail | call head": {LEGAL},
    "call tail | call tail": {"partial-json-prefix"},
    "call tail | finish": {"arguments-whole"},
    "finish | usage": {"event-order"},
    "usage | [DONE]": {"nothing-after-end"},
    "error | [DONE]": {"done-marker"},
}
# Fields whose absence breaks another rule than `required-field`.
_ARGUMENTS_LOST = {"partial-json-prefix", "arguments-whole"}
FIELDS: dict[str, set[str]] = {
    "role: choices.delta.role": {"role-once"},
    "role: choices.delta.content": {LEGAL},  # a delta may say nothing
    "content: choices.delta.content": {LEGAL},
    "reasoning_content: choices.delta.reasoning_content": {LEGAL},
    "call head: choices.delta.tool_calls": {"call-head"},  # the next part has no head
    "call head: choices.delta.tool_calls.id": {"call-head"},
    "call head: choices.delta.tool_calls.type": {"call-head"},
    "call head: choices.delta.tool_calls.function": {"call-head"},
    "call head: choices.delta.tool_calls.function.name": {"call-head"},
    "call tail: choices.delta.tool_calls": _ARGUMENTS_LOST,
    "call tail: choices.delta.tool_calls.function": _ARGUMENTS_LOST,
    "call tail: choices.delta.tool_calls.function.arguments": _ARGUMENTS_LOST,
    "usage: usage": {"empty-choices-carry-usage"},
    "usage: usage.prompt_tokens": {"usage-counts"},
    "usage: usage.completion_tokens": {"usage-counts"},
    "usage: usage.total_tokens": {"usage-counts"},
    "error: error.type": {LEGAL},  # SDKs need the message and take the rest if it is there
    "error: error.param": {LEGAL},
    "error: error.code": {LEGAL},
}

# One stream for each rule, which breaks it first.
TRIGGERS = {
    "no-event-name": b"event: chunk\n" + render(D, TEXT),
    "event-order": [*TEXT[:4], said(content="late"), *TEXT[4:]],
    "required-field": changed(TEXT, 1, "object", "chat.completion"),
    "same-id": changed(TEXT, 1, "id", "chatcmpl-8"),
    "role-once": changed(TEXT, 1, "choices.0.delta.role", "assistant"),
    "empty-choices-carry-usage": [chunk(), *TEXT],
    "usage-last": [*TEXT[:5], chunk(), DONE],
    "usage-counts": changed(TEXT, 4, "usage", {"prompt_tokens": 1, "completion_tokens": 1}),
    "tool-index-contiguous": [ROLE, head(1, "c", "{}"), finish("tool_calls"), DONE],
    "call-head": [ROLE, head(0, "", "{}"), finish("tool_calls"), DONE],
    "id-once": changed(CALLS, 4, "choices.0.delta.tool_calls.0.id", "call_1"),
    "name-once": changed(CALLS, 4, "choices.0.delta.tool_calls.0.function.name", "weather"),
    "call-id-unique": [ROLE, head(0, "c", "{}"), head(1, "c", "{}"), finish("tool_calls"), DONE],
    "partial-json-prefix": [ROLE, head(0, "c", "{'a'"), finish("tool_calls"), DONE],
    "arguments-whole": [ROLE, head(0, "c", '{"a"'), finish("tool_calls"), DONE],
    "finish-reason-known": [ROLE, finish("eos"), DONE],
    "finish-reason-fits-calls": [ROLE, finish("tool_calls"), DONE],
    "done-marker": TEXT[:-1],
}
# How legal streams end: blocks and calls among them.
ENDINGS = (
    ("text", Ending.FINISH, 1, 0),
    ("calls", Ending.FINISH, 3, 2),
    ("failed", Ending.FAILURE, 1, 0),
    ("two choices", Ending.FINISH, 2, 0),
)


class TestChat(GrammarTests):
    dialect = D
    plain = TEXT
    legal = LEGAL_STREAMS
    spoiled = SPOILED
    removed = REMOVED
    doubled = DOUBLED
    swapped = SWAPPED
    fields = FIELDS
    triggers = TRIGGERS
    endings = ENDINGS
    name = staticmethod(kind)


def test_marker_without_a_finish_reason_does_not_hide_the_cut():
    verdict = judge(D, [ROLE, said(content="Half"), DONE])

    assert [one.rule for one in verdict.violations] == ["done-marker"]
    assert verdict.ended == Ending.TRUNCATED


def test_finish_without_the_marker_is_illegal_but_no_cut():
    verdict = judge(D, TEXT[:-1])

    assert [one.rule for one in verdict.violations] == ["done-marker"]
    assert verdict.ended == Ending.FINISH


def test_b9_stop_although_calls_were_made_is_illegal():
    assert outcome(D, [*CALLS[:8], finish("stop"), DONE]) == "finish-reason-fits-calls"


def test_b2_second_call_under_the_index_of_the_first_is_illegal():
    events = [ROLE, head(0, "a", "{}"), head(0, "b", "{}"), finish("tool_calls"), DONE]

    assert outcome(D, events) == "id-once"


def test_b4_call_without_arguments_is_illegal():
    assert outcome(D, [ROLE, head(0, "a"), finish("tool_calls"), DONE]) == "arguments-whole"


def test_b10_cut_call_reported_as_tool_calls_is_illegal():
    events = [ROLE, head(0, "a", '{"a":"b'), finish("tool_calls"), DONE]

    assert outcome(D, events) == "arguments-whole"


def test_a10_usage_in_every_chunk_is_illegal():
    events = [{**one, "usage": USAGE["usage"]} for one in TEXT[:4]]

    assert "usage-last" in {one.rule for one in judge(D, [*events, DONE]).violations}


def test_g1_error_beside_choices_is_a_failure():
    verdict = judge(D, [ROLE, {**finish("error"), **ERROR}])

    assert verdict.legal
    assert verdict.ended == Ending.FAILURE


@pytest.mark.parametrize("path", ["choices.0", "choices.0.delta.tool_calls.0"])
def test_choice_or_call_that_is_no_object_is_illegal(path):
    assert outcome(D, changed(CALLS, 4, path, 1)) == "required-field"
