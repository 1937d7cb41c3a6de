"""What the corpus cannot show: endings that differ by where they are cut, profiles, bodies."""

import msgspec
import pytest

from dragoman.dialects.chat import DIALECT
from dragoman.dialects.chat.answer_reader import read_marks
from dragoman.profiles import profile
from dragoman.profiles.profile import Profile
from dragoman.turn.events import (
    ArgsDelta,
    BlockKind,
    BlockStart,
    Citation,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    ReasoningDelta,
    TextDelta,
    Usage,
)
from dragoman.turn.losses import Loss
from dragoman.turn.server_tools import SourceRef
from dragoman.wire.sse import Frame
from tests.unit.dialects.chat.support import (
    call,
    calls,
    chunk,
    codes,
    exchange,
    of_type,
    read,
    read_body,
)


def test_s6_content_after_the_finish_reason_is_added_and_reported() -> None:
    events = read(chunk({"content": "a"}), chunk({}, "stop"), chunk({"content": "b"}), "[DONE]")

    assert [TextDelta(0, "ab")] == of_type(events, TextDelta) or ["a", "b"] == [
        event.text for event in of_type(events, TextDelta)
    ]
    assert "content_after_finish" in codes(of_type(events, Loss))
    assert FinishReason.STOP == events[-1].reason


def test_s15_cumulative_deltas_give_only_what_is_new() -> None:
    peer = exchange(Profile(name="x", cumulative=True))

    events = read(
        chunk({"reasoning_content": "h"}),
        chunk({"reasoning_content": "hm"}),
        chunk({"content": "A"}),
        chunk({"content": "An"}),
        chunk({"content": "An a"}, "stop"),
        "[DONE]",
        exchange=peer,
    )

    assert ["hm"] == [event.text for event in of_type(events, ReasoningDelta)]
    assert ["An a"] == [event.text for event in of_type(events, TextDelta)]


def test_lenient_peer_may_end_after_whole_calls() -> None:
    peer = exchange(Profile(name="x", lenient_eof=True))

    whole = read(calls(call("f", '{"a":1}', index=0, id="a")), exchange=peer)
    cut = read(calls(call("f", '{"a":', index=0, id="a")), exchange=peer)
    text = read(chunk({"content": "a"}), exchange=peer)

    assert FinishReason.TOOL_CALLS == whole[-1].reason
    assert "upstream_truncated" == cut[-1].code
    assert "upstream_truncated" == text[-1].code


def test_done_alone_is_no_answer() -> None:
    assert "upstream_empty" == read("[DONE]")[-1].code
    assert "upstream_truncated" == read(chunk({"role": "assistant"}), "[DONE]")[-1].code


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("STOP", FinishReason.STOP),
        ("eos", FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("insufficient_system_resource", FinishReason.LENGTH),
        ("safety", FinishReason.CONTENT_FILTER),
        ("model_context_window_exceeded", FinishReason.CONTEXT_FULL),
    ],
)
def test_words_of_vendors_for_the_finish_reason(word: str, reason: FinishReason) -> None:
    assert Finish(reason, raw=word) == read(chunk({"content": "a"}, word), "[DONE]")[-1]


def test_pending_holds_what_has_led_to_no_event() -> None:
    reader = DIALECT.frame_reader(exchange())
    states = []
    for data in (
        chunk({"content": "a"}),
        calls(call("get_", "", index=0, id="a")),
        calls(call("it", "{}", index=0)),
        chunk({}, "tool_calls"),
    ):
        reader.read(Frame(msgspec.json.encode(data)))
        states.append(reader.pending)

    assert [False, True, False, True] == states


def test_s16_half_a_character_is_pending() -> None:
    reader = DIALECT.frame_reader(exchange())
    reader.read(Frame(rb'{"choices":[{"delta":{"content":"a\ud83d"}}]}'))

    assert reader.pending


def test_a10_counts_beside_text_hold_nothing_back() -> None:
    reader = DIALECT.frame_reader(exchange())
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    reader.read(Frame(msgspec.json.encode(chunk({"content": "a"}, usage=usage))))

    assert not reader.pending


def test_counts_that_are_none_cost_only_themselves() -> None:
    events = read(chunk({"content": "a"}, "stop", usage={"prompt_tokens": "many"}), "[DONE]")

    assert of_type(events, Usage)[0].estimated
    assert "chunk_malformed" in codes(of_type(events, Loss))


def test_odd_side_fields_cost_only_themselves() -> None:
    delta = {
        "content": "a",
        "reasoning_details": [1],
        "annotations": {"x": 1},
        "audio": {"id": "x"},
    }

    events = read(chunk(delta, "stop", x_groq=[1], citations=["u", 1]), "[DONE]")

    assert ["a"] == [event.text for event in of_type(events, TextDelta)]
    assert FinishReason.STOP == events[-1].reason


def test_error_in_an_unreadable_chunk_is_still_an_error() -> None:
    events = read(
        {"error": {"message": "gone", "code": 503}, "choices": [{"delta": {"content": 5}}]}
    )

    assert Fault(FaultKind.OVERLOADED, "gone", 503) == events[-1]


def test_success_code_without_choices_is_no_error() -> None:
    events = read({"code": 0, "message": "ok"}, chunk({"content": "a"}, "stop"), "[DONE]")

    assert FinishReason.STOP == events[-1].reason


def test_plain_road_is_left_and_found_again() -> None:
    payloads: list[object] = []
    for at in range(40):
        payloads += [chunk({"content": "t"}), chunk({"reasoning_content": f"{at}"})]

    events = read(*payloads, chunk({"content": "."}, "stop"), "[DONE]")

    assert "t" * 40 + "." == "".join(event.text for event in of_type(events, TextDelta))


# --- complete answers -----------------------------------------------------------------------------


def answer(message: dict, finish: str | None = "stop", **more: object) -> dict:
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": "x", "model": "m", "created": 5, "choices": [choice], **more}


def test_body_is_read_like_a_stream() -> None:
    message = {
        "role": "assistant",
        "content": "Hi",
        "reasoning": "hm",
        "function_call": {"name": "f", "arguments": {"a": 1}},
    }

    events = read_body(answer(message, "function_call", usage={"prompt_tokens": 3}))

    kinds = [event.kind for event in of_type(events, BlockStart)]
    assert [BlockKind.REASONING, BlockKind.TEXT, BlockKind.TOOL_CALL] == kinds
    assert ['{"a":1}'] == [event.json for event in of_type(events, ArgsDelta)]
    assert Finish(FinishReason.TOOL_CALLS) == events[-1]


def test_body_without_a_finish_reason_has_ended_all_the_same() -> None:
    assert FinishReason.STOP == read_body(answer({"content": "Hi"}, None))[-1].reason


@pytest.mark.parametrize(
    ("body", "kind", "code"),
    [
        (b'{"error":{"message":"x","code":429}}', FaultKind.RATE_LIMIT, ""),
        (b'[{"error":{"message":"x","code":404}}]', FaultKind.NOT_FOUND, ""),
        (b'{"object":"error","message":"x","code":400}', FaultKind.BAD_REQUEST, ""),
        (b'{"detail":"Not Found"}', FaultKind.UPSTREAM_BAD, ""),
        (b'{"choices":[]}', FaultKind.UPSTREAM_BAD, "upstream_malformed"),
        (b"<html>", FaultKind.UPSTREAM_UNUSABLE, "upstream_html"),
        (b'"hi"', FaultKind.UPSTREAM_BAD, "upstream_malformed"),
    ],
)
def test_s12_s13_bodies_that_are_no_answers(body: bytes, kind: FaultKind, code: str) -> None:
    fault = read_body(body)[-1]

    assert (kind, code) == (fault.kind, fault.code)


def test_s16_body_with_half_a_character() -> None:
    events = read_body(rb'{"choices":[{"message":{"content":"a\ud83d"},"finish_reason":"stop"}]}')

    assert "a�" == "".join(event.text for event in of_type(events, TextDelta))


# --- marks of sources in the text ---------------------------------------------------------------------

YR, MET = "https://yr.example/oslo", "https://met.example/oslo"
LISTED = {"1": SourceRef(YR), "ref_1": SourceRef(YR), "2": SourceRef(MET), YR: SourceRef(YR)}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Cold[1], wet[2].", [("[1]", YR), ("[2]", MET)]),
        ("Cold[1][1]", [("[1]", YR), ("[1]", YR)]),
        ("☃ \U0001f976 [ref_1]", [("[ref_1]", YR)]),
        (f"Cold [[1]]({YR}).", [(f"[[1]]({YR})", YR)]),
        ("Cold [[1]](https://other.example/).", []),  # the answer does not list it
        ("Cold[3], [0], [ref_9], [a], [1, []", []),
        ("", []),
    ],
)
def test_a_mark_cites_the_source_that_the_answer_lists(
    text: str, found: list[tuple[str, str]]
) -> None:
    marks = read_marks(text, 100, LISTED)

    assert found == [(text[one.start : one.end], one.url) for one in marks]
    for one in marks:
        place = msgspec.json.decode(one.raw)["url_citation"]
        assert (100 + (one.start or 0), 100 + (one.end or 0)) == (
            place["start_index"],
            place["end_index"],
        )


def test_an_answer_has_a_limit_of_marks() -> None:
    assert 500 == len(read_marks("[1]" * 10_000, 0, LISTED))


def test_marks_behind_reasoning_count_from_their_own_text() -> None:
    listed = {"citations": [YR, MET]}
    frames = [
        chunk({"content": "Before[2]. "}),
        chunk({"reasoning_content": "Hm."}),
        chunk({"content": "Cold"}),
        chunk({"content": "[1"}),
        chunk({"content": "]."}),
        chunk({}, "stop", **listed),
    ]
    events = read(*frames, exchange=exchange(profile("perplexity")))

    cited = [(one.url, one.start, one.end) for one in of_type(events, Citation)]
    assert [(YR, 4, 7), (MET, None, None)] == cited


@pytest.mark.parametrize(
    ("odd", "detail"),
    [
        (chunk({"images": "a picture"}), "images"),
        (chunk({"executed_tools": [5]}), "executed_tools"),
        (chunk({"content": [{"type": "thinking", "thinking": [5]}]}), "thinking"),
        (chunk(search_results=[5]), "search results"),
    ],
)
def test_a_field_of_a_host_that_has_another_form_is_reported_and_the_answer_goes_on(
    odd: dict, detail: str
) -> None:
    events = read(odd, chunk({"content": "Hi."}), odd, chunk({}, "stop"), "[DONE]")

    assert ["Hi."] == [event.text for event in of_type(events, TextDelta)]
    assert [("part_unknown", detail)] == [
        (loss.code, loss.detail) for loss in of_type(events, Loss) if loss.code == "part_unknown"
    ]
    assert FinishReason.STOP == events[-1].reason


def test_a_refusal_among_the_content_parts_of_a_stream_is_a_refusal() -> None:
    part = {"type": "refusal", "refusal": "I will not."}
    events = read(chunk({"content": [part]}), chunk({}, "stop"), "[DONE]")

    assert [BlockKind.REFUSAL] == [event.kind for event in of_type(events, BlockStart)]
    assert FinishReason.REFUSAL == events[-1].reason


def test_an_empty_body_is_a_failure_with_a_name() -> None:
    (fault,) = of_type(read_body(b" \n"), Fault)

    assert "upstream_empty" == fault.code


@pytest.mark.parametrize(
    ("sent", "again"),
    [
        ('{"a": 1', '{"a": 1, "b": 2}'),
        (r'{"a": "x\"y\\"', r'{"a":"x\"y\\", "b": 2}'),
        ('{ "a b" : [1, 2]', '{"a b":[1,2],"b":2}'),
    ],
)
def test_arguments_that_are_sent_again_from_their_beginning_are_used_once(
    sent: str, again: str
) -> None:
    events = read(
        calls(call("f", sent, index=0, id="a")),
        calls(call(None, again, index=0)),
        chunk({}, "tool_calls"),
        "[DONE]",
    )

    written = "".join(event.json for event in of_type(events, ArgsDelta))
    assert msgspec.json.decode(again) == msgspec.json.decode(written)
    assert "args_repeated" in codes(of_type(events, Loss))
