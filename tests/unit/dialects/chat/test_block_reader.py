"""Which call a delta belongs to, where the evidence is thin."""

import pytest

from dragoman.errors import TooLargeError
from dragoman.ids import derived_id
from dragoman.limits import Limits
from dragoman.turn.answer import fold
from dragoman.turn.events import ArgsDelta, BlockStart, Finish, FinishReason
from dragoman.turn.losses import Loss
from dragoman.turn.request import Tool
from dragoman.turn.tools import ToolTable
from tests.unit.dialects.chat.support import call, calls, chunk, codes, exchange, of_type, read


def read_calls(*payloads: object, **known: object) -> list[tuple[str, str, str]]:
    """Return id, name and arguments of each call."""
    events = read(*payloads, chunk({}, "tool_calls"), "[DONE]", exchange=exchange(**known))
    starts = of_type(events, BlockStart)
    arguments = {start.index: "" for start in starts}
    for event in of_type(events, ArgsDelta):  # a loss between them keeps two of them apart
        arguments[event.index] += event.json
    return [(start.call_id, start.name, arguments[start.index]) for start in starts]


def test_b2_name_alone_and_again_after_whole_arguments_is_a_second_call() -> None:
    found = read_calls(
        calls(call("f", '{"a":1}', index=0)),
        calls(call("f", "", index=0)),
        calls(call(None, '{"a":2}', index=0)),
    )

    assert [("f", '{"a":1}'), ("f", '{"a":2}')] == [one[1:] for one in found]


def test_t4_name_alone_and_again_at_the_end_is_a_repeat() -> None:
    found = read_calls(calls(call("f", '{"a":1}', index=0)), calls(call("f", "", index=0)))

    assert [("f", '{"a":1}')] == [one[1:] for one in found]


def test_id_that_comes_late_is_taken() -> None:
    found = read_calls(
        calls(call("f", "", index=0)), calls(call(None, '{"a":1}', index=0, id="late"))
    )

    assert [("late", "f", '{"a":1}')] == found


def test_b1_another_name_inside_arguments_is_another_call() -> None:
    events = read(
        calls(call("f", '{"a":', index=0)),
        calls(call("g", '{"b":2}', index=0)),
        chunk({}, "length"),
        "[DONE]",
    )

    assert ["f", "g"] == [start.name for start in of_type(events, BlockStart)]
    assert FinishReason.LENGTH == events[-1].reason


def test_ids_decide_where_the_index_is_always_zero() -> None:
    found = read_calls(
        calls(call("f", '{"a":', index=0, id="a")),
        calls(call("g", '{"b":', index=0, id="b")),
        calls(call(None, "1}", index=0, id="a")),
        calls(call(None, "2}", index=0, id="b")),
    )

    assert [("a", "f", '{"a":1}'), ("b", "g", '{"b":2}')] == found


def test_b1_tail_that_repeats_id_and_name_under_another_index() -> None:
    found = read_calls(
        calls(call("g", '{"b":', index=0, id="b")), calls(call("g", "2}", index=1, id="b"))
    )

    assert [("b", "g", '{"b":2}')] == found


def test_t7_known_id_with_another_name_after_whole_arguments() -> None:
    found = read_calls(
        calls(call("f", "{}", index=0, id="x")), calls(call("g", '{"b":2}', index=0, id="x"))
    )

    assert [("x", "f", "{}"), ("x", "g", '{"b":2}')] == found


def test_t5_two_declared_names_in_a_row_are_two_calls() -> None:
    tools = ToolTable([Tool(name="now"), Tool(name="today"), Tool(name="nowhere")])

    found = read_calls(
        calls(call("now", "", index=0)), calls(call("today", "", index=0)), tools=tools
    )

    assert ["now", "today"] == [name for _, name, _ in found]


def test_t5_declared_name_is_emitted_at_once() -> None:
    tools = ToolTable([Tool(name="bash")])

    events = read(calls(call("bash", "", index=0, id="a")), exchange=exchange(tools=tools))

    assert ["bash"] == [start.name for start in of_type(events, BlockStart)]


def test_t6_derived_ids_depend_on_the_answer_where_there_is_no_seed() -> None:
    found = read_calls(calls(call("f", "{}", index=0)) | {"id": "answer-7"}, seed="")

    assert derived_id("call_", "answer-7", "call 0") == found[0][0]


def test_ids_may_be_numbers() -> None:
    assert [("7", "f", "{}")] == read_calls(calls(call("f", "{}", index=0, id=7)))


def test_a7_unnamed_call_of_a_cut_answer_is_a_loss() -> None:
    events = read(calls(call(None, '{"a"', index=0, id="a")), chunk({}, "length"), "[DONE]")

    assert "call_without_name" in codes(of_type(events, Loss))
    assert FinishReason.LENGTH == events[-1].reason


def test_r8_signature_that_comes_before_the_name_waits_for_it() -> None:
    signature = {"google": {"thought_signature": "S"}}
    events = read(
        calls({"index": 0, "id": "a", "extra_content": signature}),
        calls(call("f", "{}", index=0, extra_content=signature)),
        chunk({}, "tool_calls"),
        "[DONE]",
    )

    signatures = [event.data for event in events if getattr(event, "kind", "") == "tool_sig"]
    assert ['{"google":{"thought_signature":"S"}}'] == signatures


@pytest.mark.parametrize(
    ("limits", "payloads"),
    [
        (
            Limits(max_tool_name_chars=5),
            [calls(call("abc", "", index=0))] * 1 + [calls(call("defg", "", index=0))],
        ),
        (Limits(max_waiting_bytes=5), [calls(call(None, "123456", index=0, id="a"))]),
    ],
)
def test_what_waits_for_a_name_is_bounded(limits: Limits, payloads: list) -> None:
    with pytest.raises(TooLargeError):
        read(*payloads, exchange=exchange(limits=limits))


def test_arguments_beyond_mending_leave_as_they_came() -> None:
    events = read(
        calls(call("f", '{"a":1 nonsense', index=0, id="a")), chunk({}, "tool_calls"), "[DONE]"
    )

    assert [('{"a":1 nonsense', False)] == [
        (one.text, one.complete) for one in fold(events).call_blocks
    ]
    assert Finish(FinishReason.TOOL_CALLS) == events[-1]
