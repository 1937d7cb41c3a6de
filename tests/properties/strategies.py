"""Random turns.  `streams(dialect)` gives legal streams of events that the dialect can say in full."""

import msgspec
from hypothesis import settings
from hypothesis import strategies as st

from dragoman.turn.events import (
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Channel,
    Event,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    Flavor,
    InputDelta,
    Opaque,
    OpaqueKind,
    ReasoningDelta,
    RefusalDelta,
    Start,
    TextDelta,
    Usage,
)

# Any text but halves of surrogate pairs, which no peer can send alone.
texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,20}", fullmatch=True)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
objects = st.dictionaries(texts, json_values, max_size=4)
counts = st.integers(0, 1_000_000)


def scaled(examples: int) -> int:
    """Return how many examples to try of a costly property; `examples` where others try a hundred."""
    return max(1, examples * settings.default.max_examples // 100)


@st.composite
def pieces(draw: st.DrawFn, text: str) -> list[str]:
    """Cut a text into non-empty pieces."""
    if len(text) < 2:
        return [text] if text else []
    cuts = sorted(draw(st.sets(st.integers(1, len(text) - 1), max_size=4)))
    return [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def _reasoning(draw: st.DrawFn, dialect: str, index: int) -> list[Event]:
    channel = Channel.FULL if dialect == "chat" else Channel.SUMMARY
    parts = draw(st.integers(1, 3)) if dialect == "responses" else 1
    events: list[Event] = [BlockStart(index, BlockKind.REASONING)]
    for part in range(parts):
        text = draw(texts)
        events += [ReasoningDelta(index, piece, channel, part) for piece in draw(pieces(text))]
    opaque = {
        "chat": Opaque(index, OpaqueKind.PLAIN, "", "generic"),
        "anthropic": Opaque(index, OpaqueKind.SIGNATURE, draw(names), "anthropic"),
        "responses": Opaque(index, OpaqueKind.ENCRYPTED, draw(names), "openai"),
        "gemini": Opaque(index, OpaqueKind.SIGNATURE, draw(names), "gemini-api"),
    }[dialect]
    return [*events, opaque, BlockEnd(index)]


def _call(draw: st.DrawFn, index: int, call_id: str, *, cut: bool) -> list[Event]:
    text = msgspec.json.encode(draw(objects)).decode()
    end = BlockEnd(index)
    if cut:
        text, end = '{"path":"half', BlockEnd(index, complete=False)
    return [
        BlockStart(index, BlockKind.TOOL_CALL, call_id, draw(names)),
        *(ArgsDelta(index, piece) for piece in draw(pieces(text))),
        end,
    ]


def _custom(draw: st.DrawFn, index: int, call_id: str) -> list[Event]:
    return [
        BlockStart(index, BlockKind.CUSTOM_CALL, call_id, draw(names), flavor=Flavor.CUSTOM),
        *(InputDelta(index, piece) for piece in draw(pieces(draw(texts)))),
        BlockEnd(index),
    ]


@st.composite
def streams(draw: st.DrawFn, dialect: str) -> list[Event]:
    """Draw a whole turn."""
    kinds = ["text", "reasoning", "call", "refusal"]
    if dialect == "responses":
        kinds.append("custom")
    events: list[Event] = [Start("some-model", "the-id", 1700000000)]
    last = ""
    calls = 0
    index = 0
    # A cut call is closed for a Messages client, which cannot tell it from a whole one.
    whole_calls = dialect in ("anthropic", "gemini")  # nor does a Gemini client get half of a call
    cut = draw(st.booleans()) and draw(st.booleans()) and not whole_calls
    for kind in draw(st.lists(st.sampled_from(kinds), max_size=6)):
        # Chat and Gemini have no borders between blocks of one kind, Messages and Gemini no refusal blocks.
        if (kind == last and kind != "call" and dialect in ("chat", "gemini")) or (
            kind == "refusal" and dialect in ("anthropic", "gemini")
        ):
            continue
        last = kind
        match kind:
            case "text":
                body = [TextDelta(index, piece) for piece in draw(pieces(draw(texts)))]
                events += [BlockStart(index, BlockKind.TEXT), *body, BlockEnd(index)]
            case "refusal":
                body = [RefusalDelta(index, piece) for piece in draw(pieces(draw(texts)))]
                events += [BlockStart(index, BlockKind.REFUSAL), *body, BlockEnd(index)]
            case "reasoning":
                events += _reasoning(draw, dialect, index)
            case "custom":
                events += _custom(draw, index, f"call_{index}")
                calls += 1
            case _:
                events += _call(draw, index, f"call_{index}", cut=False)
                calls += 1
        index += 1
    if cut:
        events += _call(draw, index, f"call_{index}", cut=True)
    # A Gemini reader takes the last call before a failure, or before a limit, for one that may be truncated.
    doubted = last == "call" and dialect == "gemini"
    if draw(st.booleans()) and draw(st.booleans()) and not doubted:
        events.append(Fault(FaultKind.OVERLOADED, "too much to do", code="server_is_overloaded"))
        return events
    usage = draw(
        st.builds(Usage, input_tokens=counts, output_tokens=counts, cache_read_tokens=counts)
    )
    events.append(
        Usage(
            usage.input_tokens,
            usage.output_tokens + 1,
            usage.cache_read_tokens,
            reasoning_tokens=usage.output_tokens // 2,
            final=True,
        )
    )
    reason = FinishReason.TOOL_CALLS if doubted else _reason(draw, last, calls, cut=cut)
    events.append(Finish(reason))
    return events


def _reason(draw: st.DrawFn, last: str, calls: int, *, cut: bool) -> FinishReason:
    if cut:
        return FinishReason.LENGTH
    if calls:
        return draw(st.sampled_from([FinishReason.TOOL_CALLS, FinishReason.LENGTH]))
    if last == "refusal":
        return FinishReason.LENGTH
    return draw(st.sampled_from([FinishReason.STOP, FinishReason.LENGTH]))


# --- Chat deltas in any order -----------------------------------------------------------------------

_fragments = st.sampled_from(
    [
        "",
        "{",
        "}",
        '{"a":',
        '"b"',
        "1",
        '{"a":1}',
        "{}",
        ",",
        " ",
        '{"a":"',
        "x",
        '"',
        "null",
        "\\",
        "[",
    ]
)
_tool_delta = st.fixed_dictionaries(
    {},
    optional={
        "index": st.integers(0, 2),
        "id": st.sampled_from(["", "c1", "c2", "functions.f:0"]),
        "function": st.fixed_dictionaries(
            {}, optional={"name": st.sampled_from(["", "f", "g"]), "arguments": _fragments}
        ),
    },
)
_delta = st.fixed_dictionaries(
    {},
    optional={
        "role": st.just("assistant"),
        "content": st.none() | st.sampled_from(["", "a", "<b>", "\n"]),
        "reasoning_content": st.none() | st.sampled_from(["", "hm"]),
        "reasoning": st.none() | st.sampled_from(["", "hm"]),
        "refusal": st.none() | st.sampled_from(["", "no"]),
        "tool_calls": st.none() | st.lists(_tool_delta, max_size=2),
        "function_call": st.fixed_dictionaries(
            {}, optional={"name": st.just("f"), "arguments": _fragments}
        ),
    },
)
_chunk = st.fixed_dictionaries(
    {
        "choices": st.lists(
            st.fixed_dictionaries(
                {"index": st.just(0), "delta": _delta},
                optional={
                    "finish_reason": st.none()
                    | st.sampled_from(
                        ["stop", "tool_calls", "length", "content_filter", "weird", ""]
                    )
                },
            ),
            max_size=1,
        )
    },
    optional={
        "usage": st.none()
        | st.fixed_dictionaries({"prompt_tokens": counts, "completion_tokens": counts}),
        "id": st.just("x"),
        "model": st.just("m"),
    },
)


@st.composite
def chat_streams(draw: st.DrawFn) -> bytes:
    """Draw Chat chunks in any order, ended or not."""
    lines = [
        b"data: " + msgspec.json.encode(chunk) for chunk in draw(st.lists(_chunk, max_size=12))
    ]
    if draw(st.booleans()):
        lines.append(b"data: [DONE]")
    return b"".join(line + b"\n\n" for line in lines)
