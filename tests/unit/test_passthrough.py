"""A stream from a dialect into itself: when our writer takes over, it goes on where the upstream was."""

import json
import re
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from dragoman import Translator, decode_tools, translate_body
from dragoman.checker.checker import check
from dragoman.dialects import DIALECT_NAMES, dialect
from tests.support.chat import DONE, USAGE, call, chunk, payloads
from tests.support.corpus import Case, corpus
from tests.support.sdks import accumulate

# Rules that say no more than that the stream stopped, and where an upstream's own last frame was wrong.
STOPPED = {"truncated", "done-marker", "arguments-whole"}
# A call without arguments gets its `{}` only when the next frame shows that none will come.
LATE = {"b4_call_without_arguments"}


@pytest.mark.parametrize("name", DIALECT_NAMES)
def test_a_relay_whose_upstream_stops_anywhere_goes_on_legally(name: str) -> None:
    for case in corpus(name):
        if check(name, case.stream).violations or case.name in LATE:
            continue
        end = b"\r\n\r\n" if b"\r\n\r\n" in case.stream else b"\n\n"
        frames = case.stream.split(end)
        for count in range(1, len(frames) - 1):
            translator = Translator(source=name, target=name, seed="s")
            out = translator.feed(end.join([*frames[:count], b""])) + translator.close()
            rules = {violation.rule for violation in check(name, out).violations}
            assert rules <= STOPPED, (case.name, count)


@pytest.mark.parametrize("case", corpus("gemini"), ids=str)
def test_a_stream_with_line_ends_of_cr_and_lf_passes_unchanged_however_it_is_cut(
    case: Case,
) -> None:
    whole = relay_of(case, [case.stream])

    for size in (1, 7, 500):
        pieces = [case.stream[at : at + size] for at in range(0, len(case.stream), size)]
        assert whole == relay_of(case, pieces)
    frames = re.split(rb"(?<=\n\r\n)", case.stream)
    assert whole == relay_of(case, frames)
    if case.name in FORWARDED:
        assert case.stream == whole


# Cases in which nothing has to be repaired.
FORWARDED = {
    "text_only",
    "thought_text_two_calls",
    "usage_in_every_chunk",
    "partial_arguments_live",
}


def relay_of(case: Case, pieces: list[bytes]) -> bytes:
    translator = Translator(source="gemini", target="gemini", seed="s")
    return b"".join(map(translator.feed, pieces)) + translator.close()


def test_reads_of_one_frame_that_ends_with_cr_and_lf_are_recognized() -> None:
    frame = b'data: {"candidates":[{"content":{"parts":[{"text":"%b"}],"role":"model"}}]}\r\n\r\n'
    translator = Translator(source="gemini", target="gemini", seed="s")
    frames = [frame % word for word in (b"It", b" ", b"rains", b" a", b" lot.")]

    assert frames == [translator.feed(one) for one in frames]
    assert translator._reader._repeats is not None
    assert 4 == translator._reader._repeats.count


def said_by_gemini(text: str, **more: Any) -> bytes:
    candidate = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0, **more}
    return json.dumps({"candidates": [candidate], "own": 1}, ensure_ascii=False).encode()


GEMINI_CHUNKS = [
    *map(said_by_gemini, ("It ", "rains\u2028and\x85", "rains", ".")),
    said_by_gemini("", finishReason="STOP"),
]
# How servers that imitate Google write a chunk.
IMITATIONS: dict[str, Callable[[bytes], bytes]] = {
    "separators inside": lambda one: b"data: %b\r\n\r\n" % one,
    "comment before": lambda one: b": hi\n\ndata: %b\n\n" % one,
    "comment inside": lambda one: b": hi\ndata: %b\n\n" % one,
    "name": lambda one: b"event: chunk\ndata: %b\n\n" % one,
    "id": lambda one: b"id: 1\r\ndata: %b\r\n\r\n" % one,
    "no blank": lambda one: b"data:%b\n\n" % one,
    "several lines": lambda one: b"data: %b\n\n" % one.replace(b", ", b",\ndata:  "),
    "carriage returns": lambda one: b"data: %b\r\r" % one,
    "nothing": lambda one: b"data: {}\n\ndata: %b\n\n" % one,
    "another end": lambda one: b"data: %b\n\ndata: [DONE]\n\n" % one,
    "list": lambda one: b"data: [%b]\n\n" % one,
}


@pytest.mark.parametrize("imitation", IMITATIONS)
def test_a_gemini_stream_is_forwarded_as_googles_sdks_read_it(imitation: str) -> None:
    stream = b"".join(map(IMITATIONS[imitation], GEMINI_CHUNKS))

    for size in (1, 7, 300, len(stream)):
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        translator = Translator(source="gemini", target="gemini", seed="s")
        out = b"".join(map(translator.feed, pieces)) + translator.close()

        assert {b"", b"data: {"} == {line[:7] for line in re.split(rb"\r?\n", out)}
        assert GEMINI_CHUNKS[0] in out  # its bytes, with a field that the dialect does not have
        assert len(GEMINI_CHUNKS) == out.count(b"data: ")
        (candidate,) = accumulate("gemini", out)["candidates"]
        assert [{"text": "It rains\u2028and\x85rains."}] == candidate["content"]["parts"]
        assert "STOP" == candidate["finishReason"]


ROLE = chunk({"role": "assistant", "content": ""})
TEXT_THEN_CALL = [
    ROLE,
    chunk({"reasoning_content": "Hm."}),
    chunk({"content": "So: "}),
    chunk({"content": "this."}),
    chunk(call(0, '{"a": 1}', id="call_1", name="bash")),
    chunk({}, "tool_calls"),
    USAGE,
    DONE,
]


def written(name: str) -> bytes:
    translator = Translator(source="chat", target=name, seed="upstream")
    return translator.feed(b"".join(TEXT_THEN_CALL)) + translator.close()


@pytest.mark.parametrize("name", DIALECT_NAMES)
def test_after_an_id_that_had_to_change_the_stream_is_still_legal(name: str) -> None:
    stream = written(name).replace(b"call_1", b"gx-1")  # looks like an escaped one

    translator = Translator(source=name, target=name, seed="s")
    out = b"".join(translator.feed(stream[at : at + 50]) for at in range(0, len(stream), 50))
    out += translator.close()

    assert b"gx-gx-2d1" in out
    assert () == check(name, out).violations


@pytest.mark.parametrize("name", ["chat", "responses"])
def test_ids_as_models_write_them_are_forwarded_unchanged(name: str) -> None:
    stream = written(name).replace(b"call_1", b"functions.bash:15")

    translator = Translator(source=name, target=name, seed="s")

    assert stream == translator.feed(stream) + translator.close()
    assert () == check(name, stream).violations


def test_items_and_numbers_of_a_responses_upstream_go_on_where_they_were() -> None:
    stream = written("responses").replace(b"call_1", b"gx-1")
    before = payloads(stream)

    translator = Translator(source="responses", target="responses", seed="s")
    after = payloads(translator.feed(stream) + translator.close())

    assert [one["sequence_number"] for one in before] == [one["sequence_number"] for one in after]
    items = before[-1]["response"]["output"]
    assert [one["id"] for one in items] == [one["id"] for one in after[-1]["response"]["output"]]


def test_frames_behind_a_delta_in_the_same_read_are_counted() -> None:
    stream = written("responses")
    frames = [frame + b"\n\n" for frame in stream.split(b"\n\n") if frame]
    last = next(at for at, one in enumerate(frames) if b"response.output_text.done" in one)
    translator = Translator(source="responses", target="responses", seed="s")

    out = b"".join(map(translator.feed, frames[: last - 1]))
    out += translator.feed(b"".join(frames[last - 1 : last + 1])) + translator.close()

    numbers = [one["sequence_number"] for one in payloads(out)]
    assert [*range(len(numbers))] == numbers


def test_an_item_without_events_keeps_its_place() -> None:
    silent = (
        b'event: response.output_item.added\ndata: {"type":"response.output_item.added",'
        b'"sequence_number":2,"output_index":0,"item":{"id":"rs_0","type":"reasoning","summary":[]}}\n\n'
        b'event: response.output_item.done\ndata: {"type":"response.output_item.done",'
        b'"sequence_number":3,"output_index":0,"item":{"id":"rs_0","type":"reasoning","summary":[]}}\n\n'
    )
    spoken = (
        b'event: response.output_item.added\ndata: {"type":"response.output_item.added",'
        b'"sequence_number":4,"output_index":1,"item":{"id":"msg_1","type":"message",'
        b'"role":"assistant","status":"in_progress","content":[]}}\n\n'
        b'event: response.content_part.added\ndata: {"type":"response.content_part.added",'
        b'"sequence_number":5,"item_id":"msg_1","output_index":1,"content_index":0,'
        b'"part":{"type":"output_text","text":"","annotations":[]}}\n\n'
        b'event: response.output_text.delta\ndata: {"type":"response.output_text.delta",'
        b'"sequence_number":6,"item_id":"msg_1","output_index":1,"content_index":0,"delta":"Hi",'
        b'"logprobs":[]}\n\n'
    )
    head = b"".join(written("responses").partition(b"event: response.output_item.added")[:1])

    translator = Translator(source="responses", target="responses", seed="s")
    out = translator.feed(head + silent + spoken) + translator.close()

    assert head + silent + spoken == out[: len(head + silent + spoken)]
    assert 7 == payloads(out)[-1]["sequence_number"]
    assert () == check("responses", out).violations


def test_c1_reasoning_of_a_chat_upstream_stays_in_its_own_fields() -> None:
    leaked = (
        "<|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>{}<|tool_call_end|>",
        " So.",
    )
    for field in ("reasoning", "reasoning_content"):
        pieces = [chunk({field: text}) for text in ("Hm. ", *leaked)]
        translator = Translator(
            source="chat",
            target="chat",
            model="kimi-k2",
            tools=decode_tools(b'[{"name":"bash","input_schema":{}}]'),
        )
        stream = b"".join([ROLE, *pieces, chunk({}, "stop"), USAGE, DONE])
        chunks = payloads(translator.feed(stream) + translator.close())

        deltas = [one["choices"][0]["delta"] for one in chunks[:-1] if one["choices"]]
        names = {key for delta in deltas for key in delta if "reasoning" in key}
        assert {field} == names
        assert "Hm.  So." == "".join(delta.get(field, "") for delta in deltas)


@pytest.mark.parametrize("name", [name for name in DIALECT_NAMES if dialect(name).last_word])
@pytest.mark.parametrize("tail", [b"\n\n", b"\n", b""])
def test_last_event_that_the_upstream_leaves_out_is_written(name: str, tail: bytes) -> None:
    whole = written(name)
    frames = whole.strip().split(b"\n\n")
    kept = frames if name == "responses" else frames[:-1]

    translator = Translator(source=name, target=name, seed="s")
    out = translator.feed(b"\n\n".join(kept) + tail) + translator.close()

    assert whole.strip() == out.strip()
    assert () == check(name, out.rstrip() + b"\n\n").violations


def test_answer_that_ends_with_the_reason_error_is_reported_as_a_failure() -> None:
    stream = b"".join((ROLE, chunk({"content": "So"}), chunk({}, "error"), USAGE, DONE))

    translator = Translator(source="chat", target="chat", seed="s")
    out = payloads(translator.feed(stream) + translator.close())

    assert ["upstream_error"] == [one["error"]["code"] for one in out[:-1] if "error" in one]
    assert {None} == {one["choices"][0]["finish_reason"] for one in out[:-1] if one.get("choices")}


def test_b2_calls_under_one_index_are_renumbered() -> None:
    stream = b"".join(
        (
            ROLE,
            chunk(call(0, '{"a": 1}', id="call_1", name="bash")),
            chunk(call(0, '{"a": 2}', id="call_2", name="bash")),
            chunk({}, "tool_calls"),
            USAGE,
            DONE,
        )
    )

    translator = Translator(source="chat", target="chat", seed="s")
    out = translator.feed(stream) + translator.close()

    assert () == check("chat", out).violations
    assert ["block_index_fixed"] == [loss.code for loss in translator.losses]


@pytest.mark.parametrize(
    ("name", "upstream"),
    [
        (
            "anthropic",
            (
                b'data: {"type":"message_start","message":{"id":"m1","type":"message","role":"assistant",'
                b'"model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":1,"output_tokens":1}}}\n\n'
                b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
                b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}\n\n'
                b'data: {"type":"content_block_stop","index":0}\n\n'
                b'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}\n\n'
                b'data: {"type":"message_stop"}\n\n'
            ),
        ),
        (
            "chat",
            (
                b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,'
                b'"delta":{"role":"assistant","tool_calls":[{"index":0,"id":"a","type":"function","function":'
                b'{"name":"f","arguments":{"x":1}}}]},"finish_reason":null}]}\n\n'
                b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,'
                b'"delta":{},"finish_reason":"tool_calls"}]}\n\ndata: [DONE]\n\n'
            ),
        ),
    ],
)
def test_what_clients_of_the_dialect_cannot_read_is_rewritten(name: str, upstream: bytes) -> None:
    translator = Translator(source=name, target=name)
    out = translator.feed(upstream) + translator.close()

    assert check(name, out).legal
    assert not check(name, upstream).legal


def test_s1_role_that_no_chunk_names_is_put_before_the_first_word() -> None:
    text = b"".join([chunk({"content": "a"}), chunk({"content": "b"}), chunk({}, "stop"), DONE])
    late = b"".join([chunk({}), ROLE, chunk({"content": "a"}), chunk({}, "stop"), DONE])
    tagged = text.replace(b'{"content":', b'{"role":"assistant","content":', 1)
    out = {}
    for stream in (text, late, tagged):
        translator = Translator(source="chat", target="chat", seed="s")
        out[stream] = translator.feed(stream) + translator.close()

    assert 1 == out[text].count(b'"role":"assistant"')
    assert out[text].index(b'"role"') < out[text].index(b'"a"')
    assert () == check("chat", out[text]).violations
    assert late == out[late]
    assert tagged == out[tagged]
    other = Translator(source="chat", target="anthropic", seed="s")
    other.feed(text)
    assert "event_incomplete" not in {loss.code for loss in other.losses}


# --- what a read forwards -----------------------------------------------------------------------------


def test_arguments_before_a_piece_that_is_held_back_are_forwarded_at_once() -> None:
    begin = chunk(call(0, "", id="call_1", name="bash"))
    pieces = [chunk(call(0, one)) for one in ('{"a":', " 1", ",")]
    translator = Translator(source="chat", target="chat", seed="s")

    first = translator.feed(b"".join([ROLE, begin, *pieces]))
    second = translator.feed(chunk(call(0, ' "b": 2}')) + chunk({}, "tool_calls") + DONE)

    assert b"".join([ROLE, begin, *pieces[:2]]) == first
    assert second.startswith(pieces[2])
    assert () == check("chat", first + second).violations


def test_frames_around_a_call_that_was_found_in_text_are_forwarded_unchanged() -> None:
    marked = '<tool_call>\n{"name": "bash", "arguments": {}}\n</tool_call>'
    words = [chunk({"content": one, "own": 1}) for one in ("I ", "look", ".")]
    more = [chunk({"content": one, "own": 2}) for one in (" And ", "then", ".")]
    stream = b"".join([ROLE, *words, chunk({"content": marked}), *more])
    translator = Translator(
        source="chat",
        target="chat",
        model="qwen3-32b",
        tools=decode_tools(b'[{"name":"bash","input_schema":{}}]'),
        seed="s",
    )

    out = translator.feed(stream + chunk({}, "stop") + DONE) + translator.close()

    assert out.startswith(b"".join([ROLE, *words]))
    assert ["bash"] == translator.calls
    assert () == check("chat", out).violations


KINDS = {
    "text": [{"content": f"word {at} "} for at in range(60)],
    "reasoning": [{"reasoning_content": f"word {at} "} for at in range(60)] + [{"content": "So."}],
    "call": [
        call(0, "", id="call_1", name="bash"),
        *(call(0, one) for one in ('{"a": "', *("more " for _ in range(60)), '"}')),
    ],
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ["chat", "anthropic", "responses"])
def test_forwarding_a_stream_takes_fewer_steps_than_translating_it(name: str, kind: str) -> None:
    reason = "tool_calls" if kind == "call" else "stop"
    chunks = [ROLE, *map(chunk, KINDS[kind]), chunk({}, reason), USAGE, DONE]
    translator = Translator(source="chat", target=name, seed="s")
    stream = translator.feed(b"".join(chunks)) + translator.close()
    steps = {}
    for target in ("chat", "anthropic", "responses"):
        steps[target] = 0
        counted = Translator(source=name, target=target, seed="s")

        def count(frame: FrameType, event: str, _: object, to: str = target) -> Any:
            frame.f_trace_opcodes, frame.f_trace_lines = True, False
            steps[to] += event == "opcode"
            return count

        before = sys.gettrace()
        sys.settrace(count)
        try:
            counted.feed(stream)
        finally:
            sys.settrace(before)

    assert min(steps.values()) == steps[name], steps


# --- after the end ----------------------------------------------------------------------------------

ENDED = {
    "chat": (
        (
            b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":'
            b'[{"index":0,"delta":{"role":"assistant","content":"So"},"finish_reason":null}]}\n\n'
            b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":'
            b'[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
            b"data: [DONE]\n\n"
        ),
        (
            b'data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":'
            b'[{"index":0,"delta":{"content":"EVIL"},"finish_reason":null}]}\n\n'
        ),
    ),
    "anthropic": (
        (
            b'data: {"type":"message_start","message":{"id":"m","type":"message","role":"assistant",'
            b'"content":[],"model":"m","stop_reason":null,"usage":{"input_tokens":1}}}\n\n'
            b'event: content_block_start\ndata: {"type":"content_block_start","index":0,'
            b'"content_block":{"type":"text","text":""}}\n\n'
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
            b'"delta":{"type":"text_delta","text":"So"}}\n\n'
            b'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
            b'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"end_turn"},'
            b'"usage":{"output_tokens":2}}\n\n'
            b'event: message_stop\ndata: {"type":"message_stop"}\n\n'
        ),
        (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":0,'
            b'"delta":{"type":"text_delta","text":"EVIL"}}\n\n'
        ),
    ),
    "responses": (
        (
            b'data: {"type":"response.created","sequence_number":0,"response":{"id":"resp_1",'
            b'"object":"response","status":"in_progress","output":[]}}\n\n'
            b'data: {"type":"response.completed","sequence_number":1,"response":{"id":"resp_1",'
            b'"object":"response","status":"completed","output":[{"id":"msg_1","type":"message",'
            b'"role":"assistant","status":"completed","content":[{"type":"output_text","text":"So",'
            b'"annotations":[]}]}]}}\n\n'
        ),
        (
            b'data: {"type":"response.output_text.delta","sequence_number":2,"item_id":"msg_1",'
            b'"output_index":0,"content_index":0,"delta":"EVIL"}\n\n'
        ),
    ),
}
BEHIND = (b"EVIL\n\n", b": EVIL\n\n", b"data: EVIL\n\n", b"data: [DONE]\n\n", b"EVIL")


@pytest.mark.parametrize("size", [1, 7, 100_000])
@pytest.mark.parametrize("name", ENDED)
def test_nothing_is_relayed_behind_the_end_of_an_answer(name: str, size: int) -> None:
    answer, more = ENDED[name]
    alone = relayed(name, answer, size)
    for behind in (more, *BEHIND, more + answer):
        assert alone == relayed(name, answer + behind, size)
    assert b"So" in alone


def relayed(name: str, stream: bytes, size: int) -> bytes:
    translator = Translator(source=name, target=name)
    parts = [translator.feed(stream[at : at + size]) for at in range(0, len(stream), size)]
    return b"".join(parts) + translator.close()


def test_last_word_behind_a_failure_that_the_peer_reported_is_relayed_once() -> None:
    begun = ENDED["chat"][0].partition(b"\n\n")[0] + b"\n\n"
    failed = begun + b'data: {"error":{"message":"no"}}\n\n'
    done = b"data: [DONE]\n\n"

    assert failed + done == relayed("chat", failed + done + done + ENDED["chat"][1], 100_000)


# --- fields that the dialect does not define ----------------------------------------------------------

KIMI = (
    "Sure.<|tool_calls_section_begin|><|tool_call_begin|>functions.ls:0<|tool_call_argument_begin|>"
    '{"path": "a"}<|tool_call_end|><|tool_calls_section_end|>'
)
HEAD = {
    "id": "gen-1",
    "provider": "Moonshot",
    "model": "moonshotai/kimi-k2",
    "created": 7,
    "system_fingerprint": "fp_1",
}
COUNTS = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "cost": 0.01}


def openrouter(text: str, **first: object) -> bytes:
    """Return a stream as OpenRouter writes it; `first` are more fields of the first chunk."""
    chunks: list[dict] = []
    for at in range(0, len(text), 7):
        choice = {"index": 0, "delta": {"content": text[at : at + 7]}, "finish_reason": None}
        chunks.append({**HEAD, "choices": [{**choice, "native_finish_reason": None}]})
    chunks[0] |= {"object": "chat.completion.chunk", **first}
    end = {"index": 0, "delta": {}, "finish_reason": "stop", "native_finish_reason": "eos"}
    last = {"choices": [end], "service_tier": "default", "timings": {"ms": 3}}
    chunks += [{**HEAD, **last}, {**HEAD, "choices": [], "usage": COUNTS}]
    for one in chunks:
        one["object"] = "chat.completion.chunk"
    frames = [b"data: %b\n\n" % json.dumps(one).encode() for one in chunks]
    return b"".join([*frames, b"data: [DONE]\n\n"])


def extracted(stream: bytes, size: int = 4096) -> list[dict]:
    translator = Translator(source="chat", target="chat", model="kimi-k2")
    pieces = (stream[at : at + size] for at in range(0, len(stream), size))
    out = b"".join(map(translator.feed, pieces)) + translator.close()

    assert () == check("chat", out).violations
    assert ["ls"] == translator.calls
    return payloads(out)[:-1]  # without `[DONE]`


@pytest.mark.parametrize("size", [4096, 300, 1])
def test_fields_of_the_upstream_survive_where_a_call_was_found_in_text(size: int) -> None:
    *chunks, last, counts = extracted(openrouter(KIMI), size)

    for one in (*chunks, last, counts):
        assert HEAD == {name: one[name] for name in HEAD}
    assert {None} == {one["choices"][0]["native_finish_reason"] for one in chunks}
    assert "eos" == last["choices"][0]["native_finish_reason"]
    assert "tool_calls" == last["choices"][0]["finish_reason"]
    assert ("default", {"ms": 3}) == (last["service_tier"], last["timings"])
    assert 0.01 == counts["usage"]["cost"]
    assert "functions.ls:0" in [
        call["id"]
        for one in chunks
        for call in one["choices"][0]["delta"].get("tool_calls", ())
        if "id" in call
    ]


def test_lists_of_the_upstream_are_written_once() -> None:
    filtered = [{"prompt_index": 0}]
    chunks = extracted(openrouter(KIMI.removeprefix("Sure."), prompt_filter_results=filtered))

    assert [filtered] == [
        one["prompt_filter_results"] for one in chunks if "prompt_filter_results" in one
    ]


def test_fields_of_the_upstream_are_bounded() -> None:
    chunks = extracted(openrouter(KIMI.removeprefix("Sure."), notes="x" * 10_000))

    assert all("notes" not in one and one["provider"] == "Moonshot" for one in chunks)


def test_fields_of_the_upstream_survive_in_a_body_where_a_call_was_found_in_text() -> None:
    message = {"role": "assistant", "content": KIMI}
    choice = {
        "index": 0,
        "message": message,
        "finish_reason": "stop",
        "native_finish_reason": "eos",
    }
    body = {**HEAD, "object": "chat.completion", "choices": [choice], "usage": COUNTS}
    translated = translate_body(
        json.dumps(body).encode(), source="chat", target="chat", model="kimi-k2"
    )
    body = json.loads(translated.body)

    assert HEAD == {name: body[name] for name in HEAD}
    assert ("tool_calls", "eos") == (
        body["choices"][0]["finish_reason"],
        body["choices"][0]["native_finish_reason"],
    )
    assert 0.01 == body["usage"]["cost"]
    assert "functions.ls:0" == body["choices"][0]["message"]["tool_calls"][0]["id"]


@pytest.mark.parametrize("name", DIALECT_NAMES)
def test_what_follows_the_end_is_dropped_also_if_it_comes_in_the_same_read(name: str) -> None:
    ended = 0
    for case in corpus(name):
        apart, together = (Translator(source=name, target=name) for _ in range(2))
        out = apart.feed(case.stream)
        if not apart.done:
            continue
        ended += 1
        out += apart.feed(case.stream) + apart.close()

        assert out == together.feed(case.stream * 2) + together.close(), case.name
    assert ended
