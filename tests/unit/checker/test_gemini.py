"""The strict grammar of `streamGenerateContent`: legal streams, and every small way to spoil them."""

from typing import Any

import msgspec
import pytest
from msgspec import structs

from dragoman.checker.checker import Checker, Ending, check, takes_lists
from dragoman.dialects import DIALECT_NAMES
from dragoman.errors import TooLargeError
from dragoman.limits import Limits
from tests.support.checker import (
    LEGAL,
    GrammarTests,
    changed,
    judge,
    outcome,
    render,
)
from tests.support.corpus import splits
from tests.support.tables import in_one_test

D = "gemini"
COUNTS = {"promptTokenCount": 30, "candidatesTokenCount": 9, "totalTokenCount": 39}


def chunk(*parts: dict[str, Any], finish: str = "", **more: Any) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}}
    if finish:
        candidate["finishReason"] = finish
    return {
        "candidates": [{**candidate, "index": 0}],
        "modelVersion": "gemini-3-flash",
        "responseId": "r7",
        **more,
    }


def said(text: str) -> dict[str, Any]:
    return chunk({"text": text})


def call(call_id: str, town: str, **more: Any) -> dict[str, Any]:
    return {"functionCall": {"name": "weather", "args": {"town": town}, "id": call_id}, **more}


def finish(reason: str) -> dict[str, Any]:
    return chunk({"text": ""}, finish=reason, usageMetadata=COUNTS)


ERROR = {"error": {"code": 503, "message": "too many askers", "status": "UNAVAILABLE"}}
TEXT = [said("Good "), said("day."), finish("STOP")]
CALLS = [
    chunk({"text": "Two towns.", "thought": True}),
    chunk(call("k1", "Bergen", thoughtSignature="U0lH")),
    chunk(call("k2", "Siena")),
    finish("STOP"),
]
FAILED = [said("Half"), ERROR]

LEGAL_STREAMS = {
    "text": TEXT,
    "calls": CALLS,
    "failed": FAILED,
    "empty": [finish("STOP")],
    "two calls in one chunk": [chunk(call("a", "x"), call("b", "y")), finish("STOP")],
    "call without an id": [
        chunk({"functionCall": {"name": "now", "args": {}}}),
        finish("STOP"),
    ],
    "all in one chunk": [chunk({"text": "Hi."}, finish="STOP", usageMetadata=COUNTS)],
    "counts after the finish": [
        *TEXT[:2],
        chunk({"text": ""}, finish="STOP"),
        {"usageMetadata": COUNTS},
    ],
    "counts in every chunk": [{**one, "usageMetadata": COUNTS} for one in TEXT],
    "signature alone": [said("Hi."), chunk({"thoughtSignature": "U0lH"}), finish("STOP")],
    "call and the limit": [chunk(call("a", "x")), finish("MAX_TOKENS")],
    "filtered": [said("Hm"), finish("SAFETY")],
    "failure before anything": [ERROR],
}
SPOILED = [TEXT, CALLS, FAILED]


def kind(event: Any) -> str:
    """Name a chunk by what it carries."""
    if isinstance(event, str) or "error" in event:
        return event if isinstance(event, str) else "error"
    candidate = event["candidates"][0]
    if "finishReason" in candidate:
        return "finish"
    part = candidate["content"]["parts"][0]
    if "functionCall" in part:
        return "signed call" if "thoughtSignature" in part else "call"
    return "thought" if part.get("thought") else "text"


# What the judge says when a chunk of this kind is removed, doubled, or changes places with the next.
# `LEGAL` is a mutation that no client can notice.
REMOVED = {
    "text": {LEGAL},
    "thought": {LEGAL},
    "signed call": {LEGAL},
    "call": {LEGAL},
    "finish": {"truncated"},
    "error": {"truncated"},
}
DOUBLED = {
    "text": {LEGAL},
    "thought": {LEGAL},
    "signed call": {"call-id-unique"},
    "call": {"call-id-unique"},
    "finish": {"nothing-after-end"},
    "error": {"nothing-after-end"},
}
SWAPPED = {
    "text | text": {LEGAL},
    "text | finish": {"nothing-after-end"},
    "text | error": {"nothing-after-end"},
    "thought | signed call": {LEGAL},
    "signed call | call": {LEGAL},
    "call | finish": {"nothing-after-end"},
}
# Fields whose absence breaks another rule than `required-field`, or none.
FIELDS: dict[str, set[str]] = {
    **{
        f"{one}: {field}": {LEGAL}
        for one in ("text", "thought", "signed call", "call", "finish")
        for field in ("candidates.index", "modelVersion", "responseId")
    },
    "text: candidates.content.parts.text": {"one-payload"},
    "thought: candidates.content.parts.text": {"one-payload"},
    "thought: candidates.content.parts.thought": {LEGAL},
    "finish: candidates.content.parts.text": {"one-payload"},
    "finish: candidates.finishReason": {"truncated"},
    "finish: usageMetadata": {"usage-counts"},
    "finish: usageMetadata.promptTokenCount": {"usage-counts"},
    "finish: usageMetadata.candidatesTokenCount": {"usage-counts"},
    "finish: usageMetadata.totalTokenCount": {"usage-counts"},
    "signed call: candidates.content.parts.functionCall": {LEGAL},  # a signature alone
    "call: candidates.content.parts.functionCall": {"one-payload"},
    **{
        f"{one}: candidates.content.parts.functionCall.{field}": {"whole-call"}
        for one in ("signed call", "call")
        for field in ("name", "args")
    },
    **{
        f"{one}: candidates.content.parts.functionCall.{field}": {LEGAL}
        for one in ("signed call", "call")
        for field in ("args.town", "id")
    },
    "signed call: candidates.content.parts.thoughtSignature": {LEGAL},
}


def listed(events: list[Any]) -> bytes:
    """Write chunks as a list, like a stream without `alt=sse`."""
    return b"[%b\r\n]\r\n" % b",\r\n".join(map(msgspec.json.encode, events))


# One stream for each rule, which breaks it first.
TRIGGERS = {
    "no-event-name": b"event: chunk\n" + render(D, TEXT),
    "no-comment": b": hi\n\n" + render(D, TEXT),
    "data-only": b"id: 1\n" + render(D, TEXT),
    "blank-after-data": render(D, TEXT).replace(b"data: ", b"data:"),
    "one-line": render(D, TEXT).replace(b'"index"', b'\ndata: "index"'),
    "line-ends": render(D, TEXT).replace(b"\n", b"\r"),
    "separators-escaped": render(D, TEXT).replace(b"day", "day\u2028".encode()),
    "one-list": listed(TEXT).replace(b",\r\n", b"\r\n"),
    "required-field": changed(TEXT, 1, "candidates.0.content.role", "user"),
    "one-payload": changed(TEXT, 1, "candidates.0.content.parts.0", {}),
    "same-id": changed(TEXT, 1, "responseId", "r8"),
    "whole-call": changed(CALLS, 1, "candidates.0.content.parts.0.functionCall.willContinue", True),
    "call-id-unique": [chunk(call("a", "x"), call("a", "y")), finish("STOP")],
    "signature-base64": changed(
        CALLS, 1, "candidates.0.content.parts.0.thoughtSignature", "dgm1.abc.def"
    ),
    "finish-reason-known": [*TEXT[:2], finish("DONE")],
    "finish-reason-fits-calls": [*CALLS[:3], finish("OTHER")],
    "usage-counts": changed(TEXT, 2, "usageMetadata.totalTokenCount", 7),
    "done-marker": [*TEXT, "[DONE]"],
}
# How legal streams end: blocks and calls among them.
ENDINGS = (
    ("text", Ending.FINISH, 1, 0),
    ("calls", Ending.FINISH, 3, 2),
    ("failed", Ending.FAILURE, 1, 0),
    ("empty", Ending.FINISH, 0, 0),
)


class TestGemini(GrammarTests):
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


def test_end_without_a_finish_reason_is_a_truncation():
    verdict = judge(D, TEXT[:2])

    assert [one.rule for one in verdict.violations] == ["truncated"]
    assert verdict.ended == Ending.TRUNCATED


@pytest.mark.parametrize("path", ["candidates.0", "candidates.0.content.parts.0"])
def test_candidate_or_part_that_is_not_an_object_is_illegal(path):
    assert outcome(D, changed(TEXT, 1, path, 1)) == "required-field"


@pytest.mark.parametrize("empty", [[], None])
def test_chunk_without_parts_is_illegal(empty):
    assert outcome(D, changed(TEXT, 1, "candidates.0.content.parts", empty)) == "required-field"


BAD_BYTES = [
    "no-comment",
    "no-event-name",
    "data-only",
    "blank-after-data",
    "required-field",
    "truncated",
]

# --- bytes ------------------------------------------------------------------------------------------


@in_one_test
@pytest.mark.parametrize(
    ("stream", "rules"),
    [
        (b"\r\n\r\n" + render(D, TEXT).replace(b"\n\n", b"\n\n\r\n"), []),
        (render(D, TEXT).replace(b"\n", b"\r\n"), []),
        (render(D, TEXT).replace(b"data: ", b": hi\ndata: "), ["no-comment"] * 3),
        (render(D, TEXT).replace(b"\n\n", b"\n\n:\n\n"), ["no-comment"] * 3),
        (b"retry: 7\n" + render(D, TEXT), ["data-only"]),
        (b"event: a\nid: 1\n: hi\ndata:{}\n\n", BAD_BYTES),
        (render(D, TEXT).replace(b"day", "\x85 and \u2029".encode()), ["separators-escaped"]),
        (render(D, TEXT).replace(b"day", "天 “\xa0”".encode()), []),
        (render(D, TEXT) + b"data: {}\n\n", ["nothing-after-end"]),
        (b"data: {}\n\n" + render(D, TEXT), ["required-field"]),
    ],
)
def test_bytes_at_which_a_client_fails_are_illegal(stream, rules):
    assert rules == [one.rule for one in check(D, stream).violations]


# --- lists ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", LEGAL_STREAMS)
def test_list_is_judged_like_the_stream_of_its_chunks(name):
    events = LEGAL_STREAMS[name]

    assert structs.asdict(judge(D, events)) == structs.asdict(check(D, b"\r\n" + listed(events)))


LIST = listed(TEXT)


@in_one_test
@pytest.mark.parametrize(
    ("body", "rules", "ended"),
    [
        (LIST.rstrip()[:-1], ["truncated"], Ending.TRUNCATED),
        (LIST.rstrip()[:-9], ["truncated"], Ending.TRUNCATED),
        (listed(TEXT[:2]), ["truncated"], Ending.TRUNCATED),
        (b"[", ["truncated"], Ending.TRUNCATED),
        (b"[]", ["truncated"], Ending.TRUNCATED),
        (b"[12", ["json", "truncated"], Ending.TRUNCATED),
        (LIST.replace(b"\r\n]", b",]"), ["one-list"], Ending.TRUNCATED),
        (LIST.replace(b"\r\n]", b"}"), ["one-list"], Ending.TRUNCATED),
        (LIST + b"[]", ["nothing-after-end"], Ending.FINISH),
        (listed([*TEXT, said("More.")]), ["nothing-after-end"], Ending.FINISH),
        (LIST.replace(b"day", b"\xff"), ["utf-8"], Ending.FINISH),
        (LIST.replace(b'"model"', b"7", 1), ["required-field"], Ending.FINISH),
        (listed([TEXT[0], [ERROR]]), ["json", "truncated"], Ending.TRUNCATED),
        (b"[" * 100_000, ["one-list", "truncated"], Ending.TRUNCATED),
    ],
)
def test_list_that_no_client_reads_is_illegal(body, rules, ended):
    verdict = check(D, body)

    assert rules == [one.rule for one in verdict.violations]
    assert ended == verdict.ended


def test_violation_in_a_list_names_the_element_and_its_byte():
    body = b" \r\n" + listed(changed(TEXT, 1, "responseId", "r8"))
    (violation,) = [one for one in check(D, body).violations if one.frame == 2]

    assert "same-id" == violation.rule
    assert body[violation.offset :].startswith(msgspec.json.encode(said("day."))[:30])


@pytest.mark.parametrize("body", [LIST, LIST[:-9], TRIGGERS["one-list"], b" \n\r\n" + LIST + b"x"])
def test_list_gives_the_same_verdict_however_the_bytes_arrive(body):
    whole = check(D, body)

    for pieces in splits(body, most=50):
        checker = Checker(D)
        for piece in pieces:
            checker.feed(piece)
        checker.close()
        assert whole == checker.verdict


def test_list_past_a_limit_is_not_kept():
    checker = Checker(D, limits=Limits(max_response_bytes=100))

    with pytest.raises(TooLargeError, match="max_response_bytes"):
        checker.feed(b"[" + b" " * 100)


def test_other_dialects_have_no_lists():
    assert [D] == [name for name in DIALECT_NAMES if takes_lists(name)]
    assert "truncated" in [one.rule for one in check("chat", LIST).violations]
