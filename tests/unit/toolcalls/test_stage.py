"""Native calls within a stream of events."""

import string
from itertools import pairwise

import pytest
from msgspec import Raw

from dragoman.limits import Limits
from dragoman.toolcalls.format_names import find_format
from dragoman.toolcalls.formats import AUTO, FORMATS
from dragoman.toolcalls.stage import NativeCalls
from dragoman.turn.answer import Answer, fold, merged
from dragoman.turn.events import (
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    Flavor,
    InputDelta,
    Ping,
    ReasoningDelta,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.losses import Loss
from dragoman.turn.request import Tool
from dragoman.turn.state import Legality
from dragoman.turn.tools import ToolTable

SB = "<|tool_calls_section_begin|>"
SE = "<|tool_calls_section_end|>"
CB = "<|tool_call_begin|>"
AB = "<|tool_call_argument_begin|>"
CE = "<|tool_call_end|>"
TOOLS = [Tool(name="bash"), Tool(name="task"), Tool(name="patch", flavor=Flavor.CUSTOM)]
START = Start("kimi", "chatcmpl-1", 1)
USAGE = Usage(7, 9, final=True)
STOP = Finish(FinishReason.STOP)


def stage(family: str = "kimi_k2", **options) -> NativeCalls:
    options.setdefault("tools", TOOLS)
    return NativeCalls(
        format=find_format(family), table=ToolTable(options["tools"]), seed="seed", **options
    )


def block(index: int, kind: BlockKind, *pieces: str) -> list[Event]:
    delta = TextDelta if kind is BlockKind.TEXT else ReasoningDelta
    return [BlockStart(index, kind), *(delta(index, piece) for piece in pieces), BlockEnd(index)]


def text(index: int, *pieces: str) -> list[Event]:
    return block(index, BlockKind.TEXT, *pieces)


def reasoning(index: int, *pieces: str) -> list[Event]:
    return block(index, BlockKind.REASONING, *pieces)


def turn(*events: Event | list[Event], end: Event = STOP) -> list[Event]:
    flat: list[Event] = [START]
    for event in events:
        flat += event if isinstance(event, list) else [event]
    return [*flat, USAGE, end]


def run(events: list[Event], one: NativeCalls | None = None) -> list[Event]:
    """Feed events one by one and check that what leaves is legal."""
    one = one or stage()
    out = [event for each in events for event in one.feed([each])]
    legality = Legality()
    for event in out:
        legality.check(event)
    assert not one.pending
    return out


def shape(answer: Answer) -> list[tuple[str, str, str]]:
    return [
        (str(one.kind), one.name, one.text or "".join(part.text for part in one.segments))
        for one in answer.blocks
    ]


FIELD_LOG = (
    "Let me look.",
    " " + SB,
    " " + CB,
    " functions",
    ".b",
    "ash",
    ":",
    "15",
    " " + AB,
    ' {"',
    "command",
    '":',
    ' "ls"}',
    " " + CE,
    " " + SE,
)


def test_c1_k2_1_the_field_log_becomes_one_call() -> None:
    answer = fold(run(turn(reasoning(0, *FIELD_LOG))))

    assert shape(answer) == [
        ("reasoning", "", "Let me look. "),
        ("tool_call", "bash", '{"command": "ls"}'),
    ]
    assert answer.blocks[1].call_id == "functions.bash:15"
    assert answer.finish is not None
    assert answer.finish.reason is FinishReason.TOOL_CALLS


def test_arguments_stream_while_they_come() -> None:
    one = stage()
    one.feed([START, BlockStart(0, BlockKind.TEXT)])
    one.feed([TextDelta(0, CB + "functions.bash:0" + AB)])

    assert one.feed([TextDelta(0, '{"command": "ec')]) == [ArgsDelta(0, '{"command": "ec')]
    assert one.feed([TextDelta(0, "ho 1")]) == [ArgsDelta(0, "ho 1")]


def test_k1_9_calls_of_both_channels_count_in_the_order_of_their_arrival() -> None:
    first = SB + CB + "functions.bash:0" + AB + "{}" + CE + SE
    second = SB + CB + "functions.task:1" + AB + "{}" + CE + SE

    answer = fold(run(turn(reasoning(0, "hm", first), text(1, "so", second, "then"))))

    assert shape(answer) == [
        ("reasoning", "", "hm"),
        ("tool_call", "bash", "{}"),
        ("text", "", "so"),
        ("tool_call", "task", "{}"),
        ("text", "", "then"),
    ]


def test_k1_4_events_without_markers_leave_as_the_same_objects() -> None:
    events = turn(reasoning(0, "a", "b"), text(1, "x", "y <b> z", " ", "end"), Ping())

    out = stage().feed(events)

    assert len(events) == len(out)
    assert all(one is other for one, other in zip(events, out, strict=True))


def test_a_held_delta_that_is_no_marker_leaves_as_the_same_object() -> None:
    logprobs = Raw(b"[1]")
    events = turn(
        [BlockStart(0, BlockKind.TEXT), TextDelta(0, "a"), TextDelta(0, "<", logprobs)],
        [TextDelta(0, "= b", logprobs), BlockEnd(0)],
    )
    one = stage()

    out = [event for each in events for event in one.feed([each])]

    assert [id(event) for event in events] == [id(event) for event in out]


def test_blocks_after_a_call_are_renumbered() -> None:
    call = SB + CB + "functions.bash:0" + AB + "{}" + CE + SE
    real = [
        BlockStart(1, BlockKind.TOOL_CALL, "call_1", "task"),
        ArgsDelta(1, '{"a":1}'),
        BlockEnd(1),
    ]
    end = Finish(FinishReason.TOOL_CALLS)

    answer = fold(run(turn(text(0, "hi", call), real, end=end)))

    assert shape(answer) == [
        ("text", "", "hi"),
        ("tool_call", "bash", "{}"),
        ("tool_call", "task", '{"a":1}'),
    ]


def test_b10_length_is_never_masked_and_a_cut_call_is_reported() -> None:
    cut = SB + CB + "functions.bash:0" + AB + '{"command": "rm -r'
    end = Finish(FinishReason.LENGTH)

    answer = fold(run(turn(text(0, "hi", cut), end=end)))

    assert answer.finish == end
    assert not answer.blocks[1].complete
    assert answer.blocks[1].text == '{"command": "rm -r'
    assert "call_cut" in [loss.code for loss in answer.losses]


def test_b10_a_call_cut_although_the_answer_stopped_ends_as_a_call_that_is_not_complete() -> None:
    cut = SB + CB + "functions.bash:0" + AB + '{"command": "rm -r'

    answer = fold(run(turn(text(0, cut))))

    assert answer.finish is not None
    assert answer.finish.reason is FinishReason.TOOL_CALLS
    assert [('{"command": "rm -r', False)] == [
        (one.text, one.complete) for one in answer.call_blocks
    ]


def test_a_fault_lets_text_go_and_leaves_a_half_call_open() -> None:
    fault = Fault(FaultKind.UPSTREAM_BAD, "cut")
    one = stage()
    one.feed([START, BlockStart(0, BlockKind.TEXT)])

    assert [TextDelta(0, "a ")] == [
        event for event in one.feed([TextDelta(0, "a <|")]) if isinstance(event, TextDelta)
    ]
    assert one.pending
    assert [TextDelta(0, "<|"), fault] == one.feed([fault])

    two = stage()
    two.feed([START, BlockStart(0, BlockKind.TEXT)])
    two.feed([TextDelta(0, CB + "functions.bash:0" + AB + '{"a')])
    assert [fault] == two.feed([fault])


def test_custom_tools_get_their_input_as_text() -> None:
    call = SB + CB + "functions.patch:0" + AB + '{"input": "*** Begin\\n+x"}' + CE + SE

    out = run(turn(text(0, call[:90], call[90:])))

    assert (
        BlockStart(0, BlockKind.CUSTOM_CALL, "functions.patch:0", "patch", "", Flavor.CUSTOM) in out
    )
    inputs = [event.text for event in out if isinstance(event, InputDelta)]
    assert "".join(inputs) == "*** Begin\n+x"


def test_p_3_a_section_gives_the_same_however_it_is_cut() -> None:
    section = "Hm. " + SB + CB + "functions.bash:0" + AB + '{"a":"<|"}' + CE + CE + SE + " ok"
    expected = merged(run(turn(text(0, section)), stage()))

    for at in range(1, len(section)):
        events = turn(text(0, section[:at], section[at:]))
        assert expected == merged(run(events, stage()))
    assert expected == merged(run(turn(text(0, *section)), stage()))


def test_a_call_without_native_id_gets_one_derived_from_the_seed() -> None:
    call = CB + AB + "{}" + CE

    answer = fold(run(turn(text(0, call)), stage(tools=[Tool(name="bash")])))

    assert answer.blocks[0].call_id.startswith("call_")
    assert len(answer.blocks[0].call_id) == 29


def test_problems_become_losses() -> None:
    section = SB + "junk" + CB + "functions.bash:0" + AB + "{}" + CE + SE

    out = run(turn(text(0, section)))

    assert Loss("native_noise_dropped", excerpt="junk") in out


def test_an_empty_block_of_the_upstream_passes() -> None:
    events = turn(text(0), text(1, "a"))

    assert events == run(events)


def test_opaque_state_stays_with_its_reasoning() -> None:
    from dragoman.turn.events import Opaque, OpaqueKind

    signature = Opaque(0, OpaqueKind.SIGNATURE, "sig", "x")
    call = SB + CB + "functions.bash:0" + AB + "{}" + CE + SE
    events = turn(
        [BlockStart(0, BlockKind.REASONING), ReasoningDelta(0, "hm"), signature, BlockEnd(0)]
    )
    split = turn(
        [BlockStart(0, BlockKind.REASONING), ReasoningDelta(0, "hm" + call + "so"), BlockEnd(0)]
    )

    assert events == run(events)
    sealed = fold(run(split, stage(seal_plain=True, origin="kimi")))
    assert [len(one.opaque) for one in sealed.blocks] == [1, 0, 1]


def test_a_quiet_delta_costs_next_to_nothing_more_than_its_check() -> None:
    one = stage()
    one.feed([START, BlockStart(0, BlockKind.TEXT), TextDelta(0, "a")])

    deltas: list[Event] = [TextDelta(0, "plain text") for _ in range(100)]
    out = one.feed(deltas)

    assert all(one is other for one, other in zip(deltas, out, strict=True))
    assert not any(one is other for one, other in pairwise(out))


UNCLOSED = "<tool_call>\n<function=bash>\n<parameter=command>\nls\n</parameter>\n"


def test_a_call_without_its_closer_is_whole_if_the_model_stopped_by_itself() -> None:
    answer = fold(run(turn(text(0, UNCLOSED)), stage("qwen3_coder")))

    assert [("tool_call", "bash", '{"command": "ls"}')] == shape(answer)
    assert answer.blocks[0].complete
    assert "native_closer_missing" in [loss.code for loss in answer.losses]


def test_a_call_without_its_closer_is_cut_if_the_model_was_stopped() -> None:
    end = Finish(FinishReason.LENGTH)
    answer = fold(run(turn(text(0, UNCLOSED), end=end), stage("qwen3_coder")))

    assert not answer.blocks[0].complete
    assert answer.finish == end
    assert answer.blocks[0].text == '{"command": "ls'


def test_c13_a_string_parameter_streams_while_it_comes() -> None:
    one = stage("qwen3_coder")
    one.feed([START, BlockStart(0, BlockKind.TEXT)])
    one.feed([TextDelta(0, "<tool_call>\n<function=bash>\n<parameter=command>\n")])

    assert one.feed([TextDelta(0, 'echo "a')]) == [ArgsDelta(0, 'echo \\"a')]
    assert one.feed([TextDelta(0, "\nb")]) == [ArgsDelta(0, "\\nb")]
    assert not one.pending


def test_c17_an_example_in_a_code_fence_is_no_call_however_quietly_the_fence_came() -> None:
    example = '<tool_call>{"name": "bash", "arguments": {}}</tool_call>'
    events = turn(text(0, "So:\n", "``", "`xml\n", "like ", example, "\n``", "`\n", example))

    answer = fold(run(events, stage("hermes")))

    assert [
        ("text", "", f"So:\n```xml\nlike {example}\n```\n"),
        ("tool_call", "bash", "{}"),
    ] == shape(answer)


@pytest.mark.parametrize("limit", ["max_tool_args_bytes", "max_turn_args_bytes"])
def test_arguments_beyond_a_limit_end_the_answer_before_more_of_them_leaves(limit: str) -> None:
    limits = Limits(**{limit: 100})
    long = "x" * 200
    for family, head, tail in (
        ("qwen3_coder", "<function=bash><parameter=command>", "</parameter></function>"),
        ("kimi_k2", CB + "functions.bash:0" + AB + '{"command": "', '"}' + CE),
    ):
        events = run(turn(text(0, head, *long, tail)), stage(family, limits=limits))
        assert isinstance(events[-1], Fault)
        assert limit == events[-1].code
        assert "`bash`" in events[-1].message
        assert sum(len(one.json) for one in events if isinstance(one, ArgsDelta)) <= 100
        assert not [one for one in events if isinstance(one, BlockEnd)]
        assert "native_call_invalid" in [one.code for one in events if isinstance(one, Loss)]


def test_p_9_arguments_that_are_no_json_leave_as_they_came_and_are_not_complete() -> None:
    wrong = CB + "functions.bash:0" + AB + '{"command": "ls" oops}' + CE + " And on."
    events = run(turn(text(0, *wrong)), stage("kimi_k2"))
    cut = run(turn(text(0, *wrong), end=Finish(FinishReason.LENGTH)), stage("kimi_k2"))

    for found, reason in ((events, FinishReason.TOOL_CALLS), (cut, FinishReason.LENGTH)):
        answer = fold(found)
        assert reason is answer.finish_reason
        assert [('{"command": "ls" oops}', False)] == [
            (one.text, one.complete) for one in answer.call_blocks
        ]
        assert "native_call_invalid" in [loss.code for loss in answer.losses]
        assert "And on." in answer.text


def test_arguments_that_were_cut_and_are_no_json_are_reported_as_cut() -> None:
    wrong = CB + "functions.bash:0" + AB + '{"command": "ls" oops'
    answer = fold(run(turn(text(0, wrong), end=Finish(FinishReason.LENGTH)), stage("kimi_k2")))

    assert FinishReason.LENGTH is answer.finish.reason
    assert not answer.blocks[0].complete


@pytest.mark.parametrize("family", [*FORMATS, AUTO.key])
def test_whole_answer_that_is_fed_at_once_gives_the_same_as_event_by_event(family: str) -> None:
    characters = f"a{string.punctuation}"
    contents = [*(f"{one}a {one} b" for one in characters), " ", "\n\nWell.", "x" * 9000, SB + CB]
    call = [
        BlockStart(2, BlockKind.TOOL_CALL, "call_1", "bash"),
        ArgsDelta(2, '{"command": "<tool_call>"}'),
        BlockEnd(2),
    ]
    for content in contents:
        for end in (FinishReason.TOOL_CALLS, FinishReason.LENGTH):
            events = turn(reasoning(0, content), text(1, content), call, end=Finish(end))

            assert merged(run(events, stage(family))) == merged(stage(family).feed(events))


def test_answer_that_begins_inside_reasoning_is_split_even_without_a_marker() -> None:
    events = turn(text(0, "I will look."))

    one = stage(think_tags="implicit_open")
    assert [("reasoning", "", "I will look.")] == shape(fold(one.feed(events)))
