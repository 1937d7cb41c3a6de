"""What the corpus does not show of the writer: echoes, envelopes, ids, and what it must leave out."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dragoman.context import Exchange, Rendering
from dragoman.dialects.responses import DIALECT
from dragoman.dialects.responses.request_reader import decode_request
from dragoman.envelopes import Sealer
from dragoman.errors import IllegalOrderError
from dragoman.limits import DEFAULT_LIMITS
from dragoman.profiles.profile import Profile
from dragoman.turn.answer import fold
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
from dragoman.turn.request import Request

SEALER = Sealer(b"key")
START = Start("up", "resp_up", 5)
TEXT = [BlockStart(0, BlockKind.TEXT), TextDelta(0, "Hi"), BlockEnd(0)]
CALL = [
    BlockStart(0, BlockKind.TOOL_CALL, "functions.f:0", "f"),
    ArgsDelta(0, "{}"),
    BlockEnd(0),
]
END = [Usage(10, 2, final=True), Finish(FinishReason.STOP)]
CALLED = [Usage(10, 2, final=True), Finish(FinishReason.TOOL_CALLS)]


def client(**fields: Any) -> Request:
    body = msgspec.json.encode({"model": "m", "input": "x", **fields})
    return decode_request(body, sealer=None, limits=DEFAULT_LIMITS)


def exchange(**known: Any) -> Exchange:
    return Exchange(
        **{
            "profile": Profile(name="up", signs_calls=True),
            "seed": "s",
            "created": 7,
            "sealer": SEALER,
            **known,
        }
    )


def written(events: list[Event], **known: Any) -> tuple[list[dict[str, Any]], Any]:
    writer = DIALECT.writer(exchange(**known))
    out = b"".join(writer.send(event) for event in events)
    frames = [frame for frame in out.decode().split("\n\n") if frame]
    read = []
    for frame in frames:
        name, data = frame.split("\n", 1)
        event = msgspec.json.decode(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        read.append(event)
    return read, writer


def output(events: list[Event], **known: Any) -> list[dict[str, Any]]:
    read, _ = written(events, **known)
    return read[-1]["response"]["output"]  # type: ignore[no-any-return]


def test_b7_every_event_is_there_and_numbered_from_0() -> None:
    events, _ = written([START, *TEXT, *END])

    assert list(range(len(events))) == [event["sequence_number"] for event in events]
    assert [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.completed",
    ] == [event["type"] for event in events]


def test_text_and_refusal_blocks_share_one_message() -> None:
    more = [BlockStart(1, BlockKind.REFUSAL), RefusalDelta(1, "no"), BlockEnd(1)]

    (item,) = output([START, *TEXT, *more, *END])

    assert ["output_text", "refusal"] == [part["type"] for part in item["content"]]


def test_refusal_can_be_shown_as_text() -> None:
    refusal = [BlockStart(0, BlockKind.REFUSAL), RefusalDelta(0, "no"), BlockEnd(0)]
    events, writer = written([START, *refusal, *END], rendering=Rendering(responses_refusal="text"))

    (part,) = events[-1]["response"]["output"][0]["content"]
    assert {"type": "output_text", "text": "no", "annotations": []} == part
    assert ["refusal_as_text"] == [loss.code for loss in writer.losses]


def test_settings_of_the_request_are_repeated_as_written() -> None:
    tools = [
        {
            "type": "namespace",
            "name": "n",
            "description": "d",
            "tools": [{"type": "function", "name": "f"}],
        }
    ]
    request = client(
        instructions="Be brief.",
        tools=tools,
        tool_choice="required",
        parallel_tool_calls=False,
        temperature=0.5,
        max_output_tokens=99,
        reasoning={"effort": "low"},
        metadata={"a": "b"},
        store=False,
        user=None,
        text=None,
    )
    events, _ = written([START, *TEXT, *END], request=request, model="client-name")

    response = events[0]["response"]
    assert tools == response["tools"]
    assert ("Be brief.", "required", False, 0.5, 99) == tuple(
        response[name]
        for name in (
            "instructions",
            "tool_choice",
            "parallel_tool_calls",
            "temperature",
            "max_output_tokens",
        )
    )
    assert ({"effort": "low"}, {"a": "b"}, False) == tuple(
        response[name] for name in ("reasoning", "metadata", "store")
    )
    assert {"format": {"type": "text"}} == response["text"]
    assert "client-name" == response["model"]


def test_a_request_over_several_lines_does_not_break_the_framing() -> None:
    body = b'{"model": "m", "input": "x",\n"tools": [\n{"type": "function",\r\n"name": "f"}\n]}'
    request = decode_request(body, sealer=None, limits=DEFAULT_LIMITS)

    events, _ = written([START, *END], request=request)

    assert [{"type": "function", "name": "f"}] == events[0]["response"]["tools"]


def test_a_relay_keeps_the_identity_of_the_answer() -> None:
    events, _ = written([START, *END], keep_identity=True, model="alias")

    response = events[-1]["response"]
    assert ("resp_up", "up", 5) == (response["id"], response["model"], response["created_at"])


def test_d2_ids_are_legal_and_not_used_before() -> None:
    history = [
        {
            "type": "function_call",
            "call_id": "gx-functions-2ef-3a0",
            "name": "f",
            "arguments": "{}",
        },
        {"type": "function_call_output", "call_id": "gx-functions-2ef-3a0", "output": ""},
    ]

    (item,) = output([START, *CALL, *CALLED], request=client(input=history))

    assert "gx1-functions-2ef-3a0" == item["call_id"]


def test_f6_namespace_and_name_are_kept_apart() -> None:
    call = [
        BlockStart(0, BlockKind.TOOL_CALL, "c", "spawn", "agents"),
        ArgsDelta(0, "{}"),
        BlockEnd(0),
    ]

    (item,) = output([START, *call, *CALLED])

    assert ("agents", "spawn") == (item["namespace"], item["name"])


def test_f7_custom_call_has_its_raw_input() -> None:
    call = [
        BlockStart(0, BlockKind.CUSTOM_CALL, "c", "apply_patch", flavor=Flavor.CUSTOM),
        InputDelta(0, "*** Begin\n"),
        InputDelta(0, '"x"'),
        BlockEnd(0),
    ]
    events, _ = written([START, *call, *CALLED])

    deltas = [
        event["delta"]
        for event in events
        if event["type"] == "response.custom_tool_call_input.delta"
    ]
    assert ["*** Begin\n", '"x"'] == deltas
    assert '*** Begin\n"x"' == events[-1]["response"]["output"][0]["input"]


@pytest.mark.parametrize(
    ("flavor", "arguments", "expected"),
    [
        (
            Flavor.LOCAL_SHELL,
            '{"command":["ls"],"workdir":"/w"}',
            {
                "type": "local_shell_call",
                "action": {"type": "exec", "command": ["ls"], "working_directory": "/w", "env": {}},
            },
        ),
        (
            Flavor.SHELL,
            '{"commands":["ls"]}',
            {"type": "shell_call", "action": {"commands": ["ls"]}},
        ),
        (
            Flavor.APPLY_PATCH,
            '{"operation":{"type":"delete_file","path":"a"}}',
            {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}},
        ),
        (
            Flavor.APPLY_PATCH,
            '{"type":"delete_file","path":"a"}',
            {"type": "apply_patch_call", "operation": {"type": "delete_file", "path": "a"}},
        ),
        (
            Flavor.SHELL,
            '{"command":"ls"}',
            {"type": "function_call", "name": "t", "arguments": '{"command":"ls"}'},
        ),
    ],
)
def test_built_in_tools_get_their_own_items(
    flavor: Flavor, arguments: str, expected: dict[str, Any]
) -> None:
    call = [
        BlockStart(0, BlockKind.TOOL_CALL, "c", "t", flavor=flavor),
        ArgsDelta(0, arguments),
        BlockEnd(0),
    ]

    (item,) = output([START, *call, *CALLED])

    assert ("c", "completed") == (item.pop("call_id"), item.pop("status"))
    del item["id"]
    assert expected == item


@pytest.mark.parametrize(
    ("reason", "status", "details"),
    [
        (FinishReason.LENGTH, "incomplete", {"reason": "max_output_tokens"}),
        (FinishReason.TOOL_CALLS, "completed", None),
    ],
)
def test_b10_a_cut_call_keeps_its_arguments_and_has_the_status_of_its_response(
    reason: FinishReason, status: str, details: dict[str, str] | None
) -> None:
    call = [
        BlockStart(0, BlockKind.TOOL_CALL, "c", "f"),
        ArgsDelta(0, '{"a":"b'),
        BlockEnd(0, complete=False),
    ]
    events, _ = written([START, *call, Usage(1, 1, final=True), Finish(reason)])

    response = events[-1]["response"]
    assert f"response.{status}" == events[-1]["type"]
    assert details == response["incomplete_details"]
    (done,) = [one["item"] for one in events if one["type"] == "response.output_item.done"]
    assert [done] == response["output"]
    assert ('{"a":"b', status) == (done["arguments"], done["status"])


def test_b10_a_call_with_broken_arguments_is_done_before_the_next_item_is_added() -> None:
    calls = [
        event
        for at, complete in enumerate((False, True))
        for event in (
            BlockStart(at, BlockKind.TOOL_CALL, f"c{at}", "f"),
            ArgsDelta(at, "{}" if complete else "{oops}"),
            BlockEnd(at, complete=complete),
        )
    ]

    events, _ = written([START, *calls, *CALLED])

    items = [one for one in events if one["type"].startswith("response.output_item.")]
    assert ["added", "done"] * 2 == [one["type"].rpartition(".")[2] for one in items]
    assert [0, 0, 1, 1] == [one["output_index"] for one in items]
    assert ["completed"] * 2 == [one["item"]["status"] for one in items[1::2]]


def test_b10_free_form_input_that_was_cut_is_never_done_but_is_in_the_output() -> None:
    call = [
        BlockStart(0, BlockKind.CUSTOM_CALL, "c", "patch", flavor=Flavor.CUSTOM),
        InputDelta(0, "*** Begin Pa"),
        BlockEnd(0, complete=False),
    ]
    events, _ = written([START, *call, Usage(1, 1, final=True), Finish(FinishReason.LENGTH)])

    assert not [one["type"] for one in events if one["type"].endswith(".done")]
    (item,) = events[-1]["response"]["output"]
    assert ("*** Begin Pa", "incomplete") == (item["input"], item["status"])


# --- reasoning ----------------------------------------------------------------------------------


def reasoning(*opaque: Opaque, channel: Channel = Channel.FULL) -> list[Event]:
    return [
        BlockStart(0, BlockKind.REASONING),
        ReasoningDelta(0, "one", channel, 0),
        ReasoningDelta(0, "two", channel, 1),
        *opaque,
        BlockEnd(0),
    ]


PLAIN = Opaque(0, OpaqueKind.PLAIN, "", "up")


def test_reasoning_is_shown_as_parts_of_a_summary() -> None:
    (item,) = output([START, *reasoning(PLAIN), *END])

    assert ["one", "two"] == [part["text"] for part in item["summary"]]
    envelope = SEALER.open(item["encrypted_content"])
    assert envelope is not None
    assert ("one\n\ntwo", OpaqueKind.PLAIN) == (envelope.text, envelope.kind)


def test_reasoning_can_be_shown_as_its_content() -> None:
    events, _ = written(
        [START, *reasoning(), *END], rendering=Rendering(responses_reasoning="content")
    )

    (item,) = events[-1]["response"]["output"]
    assert ([], ["one", "two"]) == (item["summary"], [part["text"] for part in item["content"]])
    assert "response.reasoning_text.delta" in [event["type"] for event in events]


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [({"store": False}, True), ({"include": ["reasoning.encrypted_content"]}, True), ({}, False)],
)
def test_state_goes_to_clients_that_asked_for_it(fields: dict[str, Any], wanted: bool) -> None:
    state = Opaque(0, OpaqueKind.ENCRYPTED, "gAAA", "openai")
    events, writer = written([START, *reasoning(state), *END], request=client(**fields))

    (item,) = events[-1]["response"]["output"]
    assert ("gAAA" if wanted else None) == item.get("encrypted_content")
    assert ([] if wanted else ["opaque_dropped"]) == [loss.code for loss in writer.losses]


def test_state_without_a_key_is_lost_and_reported() -> None:
    events, writer = written([START, *reasoning(PLAIN), *END], sealer=None)

    assert "encrypted_content" not in events[-1]["response"]["output"][0]
    assert ["opaque_dropped"] == [loss.code for loss in writer.losses]


def test_a_call_that_nobody_signs_starts_at_once() -> None:
    read, _ = written([START, CALL[0]], profile=Profile(name="up"))

    assert "response.output_item.added" == read[-1]["type"]


def test_d4_what_signs_a_call_is_before_it_and_not_in_its_id() -> None:
    signature = Opaque(0, OpaqueKind.TOOL_SIGNATURE, "s" * 2000, "gemini")
    call = [CALL[0], signature, *CALL[1:]]

    reasoning_item, call_item = output([START, *call, *CALLED])

    assert ("reasoning", [], "function_call") == (
        reasoning_item["type"],
        reasoning_item["summary"],
        call_item["type"],
    )
    envelope = SEALER.open(reasoning_item["encrypted_content"])
    assert envelope is not None
    assert call_item["call_id"] == envelope.call_id
    assert len(call_item["call_id"]) <= 40


# --- the rest -----------------------------------------------------------------------------------


def test_citations_become_annotations() -> None:
    cited = [
        BlockStart(0, BlockKind.TEXT),
        Citation(0, "https://example.com", "t", start=0, end=1, vendor="openai"),
        Citation(0, "https://example.com/2", vendor="anthropic"),
        TextDelta(0, "Hi there"),
        Citation(0, vendor="anthropic", raw=Raw(b'{"type":"char_location"}')),
        BlockEnd(0),
    ]
    events, writer = written([START, *cited, *END])

    notes = events[-1]["response"]["output"][0]["content"][0]["annotations"]
    assert [(0, 1), (0, 8)] == [(note["start_index"], note["end_index"]) for note in notes]
    added = [event for event in events if event["type"] == "response.output_text.annotation.added"]
    assert [0, 1] == [event["annotation_index"] for event in added]
    assert ["citations_dropped"] == [loss.code for loss in writer.losses]


def test_blocks_of_its_own_vendor_pass_and_others_are_reported() -> None:
    own = BlockStart(
        0,
        BlockKind.SERVER_CALL,
        vendor="openai",
        raw=Raw(b'{"type":"web_search_call",\n"id":"ws_1"}'),
    )
    other = BlockStart(1, BlockKind.SERVER_CALL, vendor="anthropic", raw=Raw(b"{}"))
    events, writer = written([START, own, BlockEnd(0), other, BlockEnd(1), *END])

    assert [{"type": "web_search_call", "id": "ws_1"}] == events[-1]["response"]["output"]
    assert ["server_block_dropped"] == [loss.code for loss in writer.losses]


def test_p_10_a_failure_leaves_the_open_item_open() -> None:
    fault = Fault(FaultKind.OVERLOADED, "busy")
    events, _ = written([START, *TEXT[:2], fault])

    assert "response.failed" == events[-1]["type"]
    assert "response.output_item.done" not in [event["type"] for event in events]
    response = events[-1]["response"]
    assert ("failed", [], {"code": "server_error", "message": "busy"}) == (
        response["status"],
        response["output"],
        response["error"],
    )


def test_a_failure_after_a_finished_text_keeps_it() -> None:
    events, _ = written([START, *TEXT, Fault(FaultKind.SERVER, "m")])

    assert 1 == len(events[-1]["response"]["output"])


def test_a_failure_before_anything_else_is_a_stream_of_its_own() -> None:
    events, _ = written([Fault(FaultKind.TIMEOUT, "slow")])

    assert ["response.created", "response.in_progress", "response.failed"] == [
        event["type"] for event in events
    ]


def test_g5_a_ping_is_a_comment_of_one_line() -> None:
    writer = DIALECT.writer(exchange())

    assert b": keep-alive\n" == writer.send(Ping())


def test_an_illegal_order_is_refused() -> None:
    writer = DIALECT.writer(exchange())

    with pytest.raises(IllegalOrderError):
        writer.send(TextDelta(0, "x"))


def test_h5_counts_are_reported_with_their_details() -> None:
    usage = Usage(100, 9, 700, 150, 50, 4, final=True)
    events, _ = written([START, *TEXT, usage, Finish(FinishReason.STOP)])

    assert {
        "input_tokens": 1000,
        "input_tokens_details": {"cached_tokens": 700, "cache_write_tokens": 200},
        "output_tokens": 9,
        "output_tokens_details": {"reasoning_tokens": 4},
        "total_tokens": 1009,
    } == events[-1]["response"]["usage"]


def test_the_body_is_the_response_of_the_last_event() -> None:
    turn = [
        START,
        *reasoning(PLAIN),
        BlockStart(1, BlockKind.TEXT),
        TextDelta(1, "x"),
        BlockEnd(1),
        *END,
    ]
    events, _ = written(turn)

    body = DIALECT.encode_body(fold(turn), exchange(), [])

    assert events[-1]["response"] == msgspec.json.decode(body)


def test_h2_the_same_answer_gives_the_same_bytes() -> None:
    turn = [START, *reasoning(PLAIN), *END]
    one, other = (b"".join(map(DIALECT.writer(exchange()).send, turn)) for _ in range(2))

    assert one == other


def test_logprobs_are_reported_with_their_text() -> None:
    tokens = Raw(b'[{"token":"Hi"}]')
    text = [
        BlockStart(0, BlockKind.TEXT),
        TextDelta(0, "Hi", tokens),
        TextDelta(0, "!"),
        BlockEnd(0),
    ]
    events, _ = written([START, *text, *END])

    deltas = [
        event["logprobs"] for event in events if event["type"] == "response.output_text.delta"
    ]
    assert [[{"token": "Hi"}], []] == deltas
    assert [{"token": "Hi"}] == events[-1]["response"]["output"][0]["content"][0]["logprobs"]
