"""What the corpus does not show of the reader: complete bodies, odd peers, the end."""

from typing import Any

import msgspec
import pytest

from dragoman.context import Exchange
from dragoman.dialects.framing import StreamReader, read_answer
from dragoman.dialects.responses import DIALECT
from dragoman.errors import MalformedError
from dragoman.profiles.profile import Profile
from dragoman.turn.answer import Answer, Block, fold, merged
from dragoman.turn.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    TextDelta,
)
from dragoman.turn.losses import Loss
from dragoman.turn.server_tools import MadeImage, ServerResult
from tests.support.corpus import corpus, drive

OPENAI = Profile(name="openai")
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hi.", "annotations": []}],
}
CALL = {"id": "fc_1", "type": "function_call", "call_id": "c", "name": "f", "arguments": '{"a":1}'}


def read_body(value: Any, exchange: Exchange | None = None) -> Answer:
    frames = DIALECT.frame_reader(exchange or Exchange(profile=OPENAI))
    data = value if isinstance(value, bytes) else msgspec.json.encode(value)
    read_answer(frames, data)
    return fold(frames.assembler.take())


def read(*events: dict[str, Any], exchange: Exchange | None = None) -> list[Event]:
    exchange = exchange or Exchange(profile=OPENAI)
    stream = b"".join(b"data: " + msgspec.json.encode(event) + b"\n\n" for event in events)
    return merged(drive(StreamReader(DIALECT.frame_reader(exchange), exchange), [stream]))


@pytest.mark.parametrize(
    ("status", "reason", "expected"),
    [
        ("completed", None, FinishReason.TOOL_CALLS),
        (None, None, FinishReason.TOOL_CALLS),
        ("incomplete", "max_output_tokens", FinishReason.LENGTH),
        ("incomplete", "content_filter", FinishReason.CONTENT_FILTER),
        ("incomplete", None, FinishReason.LENGTH),
    ],
)
def test_a_complete_body_is_read(
    status: str | None, reason: str | None, expected: FinishReason
) -> None:
    details = {"reason": reason} if reason else None
    body = {
        "id": "r",
        "model": "m",
        "status": status,
        "output": [MESSAGE, CALL],
        "incomplete_details": details,
    }

    answer = read_body(body)

    assert [BlockKind.TEXT, BlockKind.TOOL_CALL] == [block.kind for block in answer.blocks]
    assert answer.finish is not None
    assert expected == answer.finish.reason


@pytest.mark.parametrize(
    "case",
    [case for case in corpus("responses") if b'"response.completed"' in case.stream],
    ids=str,
)
def test_a_complete_body_gives_what_its_stream_gives(case: Any) -> None:
    last = [
        line
        for line in case.stream.split(b"\n")
        if b"response.completed" in line and b"data:" in line
    ][-1]
    body = msgspec.json.decode(last.removeprefix(b"data: ").removeprefix(b"data:"))["response"]
    streamed = fold(drive(case.reader(), [case.stream]))
    if not body.get("output") or "interleaved_messages" in case.name:
        return  # the end does not repeat what was streamed, or the stream cut it differently

    whole = read_body(msgspec.json.encode(body), case.exchange())

    same = [(b.kind, b.text, b.segments, b.call_id, b.name, b.complete) for b in streamed.blocks]
    assert sorted(same, key=str) == sorted(
        ((b.kind, b.text, b.segments, b.call_id, b.name, b.complete) for b in whole.blocks), key=str
    )
    assert streamed.finish == whole.finish


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (
            {
                "status": "failed",
                "output": [],
                "error": {"code": "rate_limit_exceeded", "message": "m"},
            },
            FaultKind.RATE_LIMIT,
        ),
        ({"status": "failed", "output": [], "error": "just words"}, FaultKind.UPSTREAM_BAD),
        ({"status": "cancelled", "output": []}, FaultKind.SERVER),
        ({"status": "in_progress", "output": []}, FaultKind.UPSTREAM_BAD),
        ({"error": {"message": "m", "code": "invalid_api_key"}}, FaultKind.AUTH),
        ([{"error": {"message": "m", "code": 503}}], FaultKind.OVERLOADED),
        ({"hello": 1}, FaultKind.UPSTREAM_BAD),
        (b"<html>", FaultKind.UPSTREAM_UNUSABLE),
    ],
)
def test_a_body_that_is_no_answer_is_a_fault(body: Any, kind: FaultKind) -> None:
    answer = read_body(body)

    assert answer.fault is not None
    assert kind == answer.fault.kind


def test_p_9_arguments_that_are_not_json_leave_as_they_came() -> None:
    events = read(
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**CALL, "arguments": ""},
        },
        {"type": "response.function_call_arguments.delta", "output_index": 0, "delta": '{"a": @@'},
        {"type": "response.completed", "response": {"id": "r"}},
    )

    assert [('{"a": @@', False)] == [(one.text, one.complete) for one in fold(events).call_blocks]
    assert Finish(FinishReason.TOOL_CALLS) == events[-1]


def test_peers_that_change_the_id_with_each_event_are_understood_by_index() -> None:
    events = read(
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**CALL, "id": "x1", "arguments": ""},
        },
        {
            "type": "response.function_call_arguments.delta",
            "output_index": 0,
            "item_id": "x2",
            "delta": '{"a":1}',
        },
        {"type": "response.output_item.done", "output_index": 0, "item": {**CALL, "id": "x3"}},
        {"type": "response.completed", "response": {"id": "r", "output": [{**CALL, "id": "x4"}]}},
    )

    assert 1 == sum(isinstance(event, BlockStart) for event in events)


def test_peers_without_ids_and_indexes_are_not_read_twice() -> None:
    message = {key: value for key, value in MESSAGE.items() if key != "id"}
    events = read(
        {"type": "response.output_text.delta", "delta": "Hi."},
        {"type": "response.output_item.done", "item": message},
        {"type": "response.completed", "response": {"id": "r", "output": [message]}},
    )

    assert ["Hi."] == [event.text for event in events if isinstance(event, TextDelta)]


def test_an_empty_delta_emits_nothing() -> None:
    events = read(
        {"type": "response.output_text.delta", "output_index": 0, "delta": ""},
        {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE},
        {"type": "response.completed", "response": {"id": "r", "output": [MESSAGE]}},
    )

    assert ["Hi."] == [event.text for event in events if isinstance(event, TextDelta)]


def test_annotations_that_were_not_streamed_are_taken_from_the_part() -> None:
    note = {
        "type": "url_citation",
        "url": "https://example.com",
        "title": "t",
        "start_index": 0,
        "end_index": 2,
    }
    part = {"type": "output_text", "text": "Hi.", "annotations": [note]}
    events = read(
        {"type": "response.output_text.delta", "output_index": 0, "delta": "Hi."},
        {"type": "response.content_part.done", "output_index": 0, "content_index": 0, "part": part},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**MESSAGE, "content": [part]},
        },
        {"type": "response.completed", "response": {"id": "r"}},
    )

    answer = fold(events)
    assert ["https://example.com"] == [one.url for one in answer.blocks[0].citations]


def test_a_shell_in_a_container_was_run_by_the_vendor() -> None:
    item = {
        "id": "sh_1",
        "type": "shell_call",
        "call_id": "c",
        "action": {"commands": ["ls"]},
        "environment": {"type": "container_reference", "container_id": "x"},
    }

    answer = read_body(
        {"status": "completed", "output": [item, {"id": "o", "type": "shell_call_output"}]}
    )

    assert [BlockKind.SERVER_CALL, BlockKind.SERVER_RESULT] == [
        block.kind for block in answer.blocks
    ]
    assert answer.finish is not None
    assert FinishReason.STOP == answer.finish.reason


def test_one_bad_item_does_not_cost_the_turn() -> None:
    answer = read_body({"status": "completed", "output": [{"type": 5}, MESSAGE]})

    assert ["Hi."] == [block.text for block in answer.blocks]
    assert ["chunk_malformed"] == [
        loss.code for loss in answer.losses if loss.code != "usage_missing"
    ]


def test_a_strict_reader_refuses_a_malformed_event() -> None:
    with pytest.raises(MalformedError):
        read(
            {"type": "response.output_text.delta", "delta": 5},
            exchange=Exchange(profile=OPENAI, strict=True),
        )


def test_calls_that_are_whole_may_end_the_stream_if_the_profile_allows_it() -> None:
    profile = Profile(name="cut", lenient_eof=True)
    events = read(
        {"type": "response.output_item.done", "output_index": 0, "item": CALL},
        exchange=Exchange(profile=profile),
    )

    assert isinstance(events[-1], Finish)
    assert FinishReason.TOOL_CALLS == events[-1].reason


def test_done_marker_without_an_end_is_a_cut_stream() -> None:
    exchange = Exchange(profile=OPENAI)
    reader = StreamReader(DIALECT.frame_reader(exchange), exchange)

    *_, event = reader.feed(b'data: {"type":"response.created","response":{}}\n\ndata: [DONE]\n\n')

    assert isinstance(event, Fault)
    assert "upstream_truncated" == event.code


def test_reasoning_counted_beside_the_output_is_added() -> None:
    usage = {
        "input_tokens": 10,
        "output_tokens": 5,
        "output_tokens_details": {"reasoning_tokens": 7},
        "total_tokens": 22,
    }

    answer = read_body({"status": "completed", "output": [MESSAGE], "usage": usage})

    assert answer.usage is not None
    assert (12, 7) == (answer.usage.output_tokens, answer.usage.reasoning_tokens)


def test_logprobs_stay_with_their_delta() -> None:
    tokens = [{"token": "Hi", "logprob": -0.1, "bytes": [72], "top_logprobs": []}]
    events = read(
        {
            "type": "response.output_text.delta",
            "output_index": 0,
            "delta": "Hi",
            "logprobs": tokens,
        },
        {"type": "response.completed", "response": {"id": "r"}},
    )

    (delta,) = [event for event in events if isinstance(event, TextDelta)]
    assert delta.logprobs is not None
    assert tokens == msgspec.json.decode(delta.logprobs)


def test_a_cut_call_ends_as_cut_at_once() -> None:
    events = read(
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**CALL, "arguments": '{"a', "status": "incomplete"},
        },
        {
            "type": "response.failed",
            "response": {"id": "r", "error": {"code": "server_error", "message": "m"}},
        },
    )

    assert [False] == [event.complete for event in events if isinstance(event, BlockEnd)]


def test_calls_of_one_id_are_as_many_as_their_items() -> None:
    other = {**CALL, "id": "fc_2", "arguments": '{"a":2}'}
    output = [CALL, other]
    end = {"type": "response.completed", "response": {"id": "r", "model": "m", "output": output}}
    frames = [
        {"type": f"response.output_item.{word}", "output_index": at, "item": item}
        for at, item in enumerate(output)
        for word in ("added", "done")
    ]

    whole = read_body({"id": "r", "model": "m", "status": "completed", "output": output})
    streamed = fold(read(*frames, end))
    ended = fold(read(end))

    expected = [("c", '{"a":1}'), ("c", '{"a":2}')]
    for answer in (whole, streamed, ended):
        assert expected == [(block.call_id, block.text) for block in answer.blocks]


def test_a_call_whose_item_has_another_id_in_each_event_is_one_call() -> None:
    events = [
        {"type": "response.output_item.added", "item": {**CALL, "id": "a", "arguments": ""}},
        {"type": "response.output_item.done", "item": {**CALL, "id": "b"}},
        {
            "type": "response.completed",
            "response": {"id": "r", "model": "m", "output": [{**CALL, "id": "c"}]},
        },
    ]

    answer = fold(read(*events))

    assert [("c", '{"a":1}')] == [(block.call_id, block.text) for block in answer.blocks]


def test_a_shell_call_whose_end_does_not_say_its_type_keeps_its_name() -> None:
    item = {"id": "l", "call_id": "c", "action": {"type": "exec", "command": ["ls"]}}
    events = read(
        {"type": "response.created", "response": {"id": "r", "model": "m", "output": []}},
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": {**item, "type": "local_shell_call"},
        },
        {"type": "response.output_item.done", "output_index": 0, "item": item},
    )

    assert ["local_shell"] == [event.name for event in events if isinstance(event, BlockStart)]


def test_citations_that_only_the_finished_response_lists_are_a_loss() -> None:
    cited = {"type": "url_citation", "url": "https://a.example", "title": "A"}
    part = {"type": "output_text", "text": "Hi.", "annotations": [cited]}
    events = read(
        {
            "type": "response.output_item.added",
            "output_index": 0,
            "item": MESSAGE | {"content": []},
        },
        {"type": "response.output_item.done", "output_index": 0, "item": MESSAGE},
        {
            "type": "response.completed",
            "response": {"id": "r", "output": [MESSAGE | {"content": [part]}]},
        },
    )

    lost = [one for one in events if isinstance(one, Loss)]
    assert ("citations_dropped", "item msg_1") in [(one.code, one.path) for one in lost]
    assert isinstance(events[-1], Finish)


@pytest.mark.parametrize(
    ("first", "last", "sources", "lost"),
    [
        (None, ["a"], ["a"], 0),
        (["a"], ["a"], ["a"], 0),
        (["a"], ["a", "b"], ["a"], 1),
        ([], ["a"], [], 1),
        (None, None, [], 0),
    ],
)
def test_sources_at_the_end_are_those_of_a_search_that_had_none_yet(
    first: list[str] | None, last: list[str] | None, sources: list[str], lost: int
) -> None:
    def search(urls: list[str] | None) -> dict[str, Any]:
        action: dict[str, Any] = {"type": "search", "query": "q"}
        if urls is not None:
            action["sources"] = [{"type": "url", "url": url} for url in urls]
        return {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": action}

    events = read(
        {"type": "response.output_item.done", "output_index": 0, "item": search(first)},
        {"type": "response.completed", "response": {"id": "r", "output": [search(last)]}},
    )

    found = [one.server for one in events if isinstance(one, BlockStart)]
    (result,) = (one for one in found if isinstance(one, ServerResult))
    assert sources == [one.url for one in result.sources]
    late = [one for one in events if isinstance(one, Loss) and one.code == "late_delta_dropped"]
    assert lost == len(late)


# --- vendor-run tools and odd pieces ------------------------------------------------------------------


def results(item: dict[str, Any]) -> list[ServerResult]:
    blocks = read_body({"id": "r", "status": "completed", "output": [item, MESSAGE]}).blocks
    return [block.server for block in blocks if isinstance(block.server, ServerResult)]


@pytest.mark.parametrize(("status", "code"), [("completed", 0), ("failed", 1)])
def test_code_that_the_vendor_ran_has_its_logs(status: str, code: int) -> None:
    outputs = [{"type": "logs", "logs": "4"}, {"type": "logs", "logs": "2"}]
    item = {"type": "code_interpreter_call", "code": "x", "outputs": outputs, "status": status}

    (found,) = results(item)
    assert ("42", code) == (found.output, found.return_code)


@pytest.mark.parametrize(("error", "failed"), [(None, False), ("down", True)])
def test_mcp_call_has_its_output_or_fails(error: str | None, failed: bool) -> None:
    item = {"type": "mcp_call", "name": "t", "arguments": '{"a":1}', "output": "o", "error": error}

    (found,) = results(item)
    assert ("o", failed) == (found.output, bool(found.error))


def test_item_that_only_the_vendor_can_read_has_no_result() -> None:
    assert [] == results({"type": "file_search_call", "queries": ["a"]})


@pytest.mark.parametrize(
    ("item", "image", "failed"),
    [
        ({"result": "AA"}, MadeImage("AA"), False),
        ({"result": "AA", "output_format": "webp"}, MadeImage("AA", "image/webp"), False),
        ({"result": "https://i.example/1"}, MadeImage(url="https://i.example/1"), False),
        ({"result": None, "status": "failed"}, None, True),
    ],
)
def test_image_generation_has_its_image_or_fails(
    item: dict[str, Any], image: MadeImage | None, failed: bool
) -> None:
    (found,) = results({"type": "image_generation_call", **item})
    assert (image, failed) == (found.image, bool(found.error))


def item_added(kind: str, **fields: Any) -> dict[str, Any]:
    item = {"id": "i", "type": kind, "role": "assistant", "content": [], **fields}
    return {"type": "response.output_item.added", "output_index": 0, "item": item}


@pytest.mark.parametrize(
    ("event", "field"), [("output_text", "text"), ("refusal", "text")], ids=["text", "refusal"]
)
def test_half_of_a_character_whose_other_half_never_comes_is_replaced(
    event: str, field: str
) -> None:
    delta = b'{"type":"response.%b.delta","output_index":0,"content_index":0,"delta":"a\\ud83d"}'
    added = msgspec.json.encode(item_added("message"))
    exchange = Exchange(profile=OPENAI)
    stream = b"".join(
        b"data: %b\n\n" % one
        for one in (added, delta % event.encode(), b'{"type":"response.completed","response":{}}')
    )
    events = merged(drive(StreamReader(DIALECT.frame_reader(exchange), exchange), [stream]))

    texts = [getattr(one, field) for one in events if hasattr(one, field)]
    assert "a\ufffd" == "".join(texts)


def test_arguments_that_are_an_object_are_written_as_text() -> None:
    answer = read_body(
        {"id": "r", "status": "completed", "output": [CALL | {"arguments": {"a": 1}}]}
    )

    assert ['{"a":1}'] == [call.arguments for call in answer.tool_calls]


def test_annotation_of_an_unknown_shape_is_reported_and_the_text_kept() -> None:
    part = {"type": "output_text", "text": "Hi.", "annotations": [{"url": 5}]}
    answer = read_body(
        {"id": "r", "status": "completed", "output": [MESSAGE | {"content": [part]}]}
    )

    assert "Hi." == answer.text
    assert [("citations_dropped", "of unknown shape")] == [
        (one.code, one.detail) for one in answer.losses if one.code == "citations_dropped"
    ]


@pytest.mark.parametrize(
    ("item", "done", "expected"),
    [
        ("message", {"type": "response.output_text.done", "text": "Hm."}, (BlockKind.TEXT, "Hm.")),
        (
            "message",
            {"type": "response.content_part.done", "part": {"type": "output_text", "text": "Hm."}},
            (BlockKind.TEXT, "Hm."),
        ),
        (
            "message",
            {"type": "response.refusal.done", "refusal": "No."},
            (BlockKind.REFUSAL, "No."),
        ),
        (
            "reasoning",
            {"type": "response.reasoning_summary_text.done", "summary_index": 0, "text": "Hm."},
            (BlockKind.REASONING, "Hm."),
        ),
        (
            "reasoning",
            {"type": "response.reasoning_text.done", "text": "Hm."},
            (BlockKind.REASONING, "Hm."),
        ),
        (
            "reasoning",
            {
                "type": "response.content_part.done",
                "part": {"type": "reasoning_text", "text": "Hm."},
            },
            (BlockKind.REASONING, "Hm."),
        ),
        (
            "function_call",
            {"type": "response.function_call_arguments.done", "name": "f", "arguments": "{}"},
            (BlockKind.TOOL_CALL, "{}"),
        ),
    ],
)
def test_what_only_its_end_shows_is_in_the_answer(
    item: str, done: dict[str, Any], expected: tuple[BlockKind, str]
) -> None:
    place = {"output_index": 0, "item_id": "i", "content_index": 0}
    opened = {"type": item, "id": "i", "call_id": "c"}
    answer = fold(
        read(
            {"type": "response.created", "response": {"id": "r", "model": "m"}},
            {"type": "response.output_item.added", "output_index": 0, "item": opened},
            {**done, **place},
            {"type": "response.completed", "response": {"id": "r", "status": "completed"}},
        )
    )

    assert [expected] == [(block.kind, block.text or _thought(block)) for block in answer.blocks]


def _thought(block: Block) -> str:
    return "".join(segment.text for segment in block.segments)
