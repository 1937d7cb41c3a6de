"""Native calls on the way through a `Translator`: from each dialect, into each dialect."""

import json
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from dragoman import Limits, Translator, decode_tools, translate_body, translate_request
from dragoman.answer_reader import AnswerReader, read_body
from dragoman.checker.checker import check
from dragoman.dialects import DIALECT_NAMES, dialect
from dragoman.profiles import profile
from dragoman.turn.answer import fold
from dragoman.turn.events import Fault
from tests.support import views
from tests.support.chat import DONE, META, USAGE, call, chunk, payloads
from tests.support.tables import in_one_test
from tests.support.views import Seen

SB, SE = "<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"
CB, AB, CE = "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
TOOLS = decode_tools(
    b'[{"name":"bash","input_schema":{"type":"object","properties":{"command":{"type":"string"}}}},'
    b'{"name":"task","input_schema":{"type":"object","properties":{"n":{"type":"integer"}}}}]'
)
ROLE = chunk({"role": "assistant", "content": ""})
END = [chunk({}, "stop"), USAGE, DONE]


def respelled(target: str, found: Seen) -> Seen:
    """Write the arguments of Gemini, which are objects, as the models of these tests write them."""
    if target != "gemini":
        return found
    calls = [(one, name, json.dumps(json.loads(text))) for one, name, text in found.calls]
    return found._replace(calls=calls)


def seen(target: str, stream: bytes, *, half_call: bool = False) -> Seen:
    return respelled(target, views.seen(target, stream, half_call=half_call))


def seen_body(target: str, body: bytes) -> Seen:
    return respelled(target, views.seen_body(target, body))


into_each_dialect = pytest.mark.parametrize("target", DIALECT_NAMES)
from_each_dialect = pytest.mark.parametrize("source", DIALECT_NAMES)


def kimi_call(name: str, number: int, arguments: str) -> str:
    return f"{CB}functions.{name}:{number}{AB}{arguments}{CE}"


def translator(target: str, source: str = "chat", **options: Any) -> Translator:
    given = {"model": META["model"], "tools": TOOLS, "seed": "s"} | options
    return Translator(source=source, target=target, **given)


def run(one: Translator, *pieces: bytes) -> bytes:
    return b"".join(one.feed(piece) for piece in pieces) + one.close()


def contents(*texts: str, field: str = "content") -> list[bytes]:
    return [chunk({field: text}) for text in texts]


def upstream(source: str, *chunks: bytes) -> bytes:
    """Return a stream of another dialect that says what a Chat stream says, native text and all."""
    if source == "chat":
        return b"".join(chunks)
    return run(Translator(source="chat", target=source, native_format="none"), *chunks)


# --- where calls leak -------------------------------------------------------------------------------

# Each marker alone in its chunk, after a blank, and the name in pieces.
FIELD_LOG = (
    "Let me look.",
    f" {SB}",
    f" {CB}",
    " functions",
    ".b",
    "ash",
    ":",
    "15",
    f" {AB}",
    ' {"',
    "command",
    '":',
    ' "ls"}',
    f" {CE}",
    f" {SE}",
)


@into_each_dialect
@pytest.mark.parametrize(
    "fields", [("reasoning", "reasoning_content"), ("reasoning",), ("reasoning_content",)], ids=str
)
def test_c1_k1_9_k2_1_the_field_log_is_one_call(target: str, fields: tuple[str, ...]) -> None:
    leaked = [chunk(dict.fromkeys(fields, text)) for text in FIELD_LOG]

    found = seen(target, run(translator(target), ROLE, *leaked, *END))

    call_ = ("functions.bash:15", "bash", '{"command": "ls"}')
    assert Seen("", "Let me look. ", [call_], "calls") == found


@into_each_dialect
def test_k1_9_a_call_in_the_content_is_one_too(target: str) -> None:
    found = seen(target, run(translator(target), ROLE, *contents(*FIELD_LOG), *END))

    call_ = ("functions.bash:15", "bash", '{"command": "ls"}')
    assert Seen("Let me look. ", "", [call_], "calls") == found


@into_each_dialect
def test_k1_7_k1_9_calls_of_both_channels_count_as_they_arrive_and_text_stays(target: str) -> None:
    thought = contents(
        "Hm. ",
        SB + kimi_call("bash", 0, '{"command": "ls"}') + kimi_call("task", 1, "{}") + SE,
        " So.",
        field="reasoning",
    )
    said = contents("I look", SB + kimi_call("bash", 2, '{"command": "pwd"}') + SE, " now.")

    found = seen(target, run(translator(target), ROLE, *thought, *said, *END))

    assert [
        ("functions.bash:0", "bash", '{"command": "ls"}'),
        ("functions.task:1", "task", "{}"),
        ("functions.bash:2", "bash", '{"command": "pwd"}'),
    ] == found.calls
    assert ("I look now.", "Hm.  So.") == (found.text, found.reasoning)
    assert "calls" == found.finish


def test_calls_are_numbered_in_the_order_of_their_arrival() -> None:
    thought = contents(SB + kimi_call("bash", 7, "{}") + SE, field="reasoning")
    said = contents(SB + kimi_call("task", 8, "{}") + kimi_call("bash", 9, "{}") + SE)

    chunks = payloads(run(translator("chat"), ROLE, *thought, *said, *END))

    headers = [
        (one["index"], one["function"]["name"])
        for piece in chunks[:-1]
        for choice in piece["choices"]
        for one in choice["delta"].get("tool_calls", ())
        if "id" in one
    ]
    assert [(0, "bash"), (1, "task"), (2, "bash")] == headers


@into_each_dialect
def test_a_structured_call_after_native_ones_is_the_next(target: str) -> None:
    native = contents("a", SB + kimi_call("bash", 0, "{}") + SE)
    real = [
        chunk(call(0, "", id="call_1", name="task")),
        chunk(call(0, '{"n": 1}')),
        chunk({}, "tool_calls"),
    ]

    found = seen(target, run(translator(target), ROLE, *native, *real, USAGE, DONE))

    assert [("functions.bash:0", "bash", "{}"), ("call_1", "task", '{"n": 1}')] == found.calls


# --- K1: shapes of a section ------------------------------------------------------------------------

BASH = ("functions.bash:0", "bash", '{"command": "ls"}')
ONE = SB + kimi_call("bash", 0, '{"command": "ls"}') + SE
SHAPES = {
    "in one chunk": ([ONE], [BASH]),
    "over many chunks": ([ONE[at : at + 3] for at in range(0, len(ONE), 3)], [BASH]),
    "several calls": (
        [SB + kimi_call("bash", 0, '{"command": "ls"}'), kimi_call("task", 1, '{"n": 1}') + SE],
        [BASH, ("functions.task:1", "task", '{"n": 1}')],
    ),
    "empty arguments": (
        [SB + kimi_call("task", 0, "") + SE],
        [("functions.task:0", "task", "{}")],
    ),
}


@into_each_dialect
@pytest.mark.parametrize(("pieces", "calls"), SHAPES.values(), ids=SHAPES)
def test_k1_6_k2_3_a_section_in_every_shape(
    target: str, pieces: list[str], calls: list[tuple[str, str, str]]
) -> None:
    found = seen(target, run(translator(target), ROLE, *contents(*pieces), *END))

    assert Seen("", "", calls, "calls") == found


@into_each_dialect
@pytest.mark.parametrize("field", ["content", "reasoning"])
def test_k1_7_text_before_and_after_a_section_stays_in_its_channel(target: str, field: str) -> None:
    pieces = contents("Before. ", ONE, " After.", field=field)

    found = seen(target, run(translator(target), ROLE, *pieces, *END))

    texts = {"content": found.text, "reasoning": found.reasoning}
    assert "Before.  After." == texts.pop(field)
    assert [""] == list(texts.values())
    assert [BASH] == found.calls


@into_each_dialect
@pytest.mark.parametrize("field", ["content", "reasoning"])
def test_k1_8_a_token_is_recognised_at_every_border(target: str, field: str) -> None:
    text = f"a{ONE}b"
    expected = seen(target, run(translator(target), ROLE, *contents(text, field=field), *END))

    assert [BASH] == expected.calls
    for at in range(1, len(text)):
        pieces = contents(text[:at], text[at:], field=field)
        assert expected == seen(target, run(translator(target), ROLE, *pieces, *END))


@into_each_dialect
@pytest.mark.parametrize(
    ("written", "arguments", "expected"),
    [
        ("functions.bash:15", '{"command": "ls"}', ("bash", '{"command": "ls"}')),
        ("bash:3", '{"command": "ls"}', ("bash", '{"command": "ls"}')),
        # The name stands among the arguments.
        ("call_abc123", '{"name": "bash", "command": "ls"}', ("bash", '{"command":"ls"}')),
        # Only one tool has these parameters, and demands nothing else.
        ("call_abc123", '{"command": "ls"}', ("bash", '{"command": "ls"}')),
    ],
)
def test_k1_10_c5_the_id_is_kept_and_the_name_follows_from_it_or_from_the_arguments(
    target: str, written: str, arguments: str, expected: tuple[str, str]
) -> None:
    text = SB + CB + written + AB + arguments + CE + SE

    found = seen(target, run(translator(target), ROLE, *contents(text), *END))

    name, spelled = expected
    if target == "gemini":
        spelled = json.dumps(json.loads(spelled))
    assert [(written, name, spelled)] == found.calls


@into_each_dialect
def test_k1_10_c5_a_call_that_nothing_names_is_text_and_reported(target: str) -> None:
    text = SB + CB + "call_abc123" + AB + '{"who": "knows"}' + CE + SE
    one = translator(target)

    found = seen(target, run(one, ROLE, *contents(text), *END))

    assert [] == found.calls
    assert text == found.text
    assert "stop" == found.finish
    assert "native_call_invalid" in [loss.code for loss in one.losses]


@into_each_dialect
def test_k2_7_an_unknown_token_is_ordinary_content(target: str) -> None:
    text = "<|im_end|> and <|tool_calls_section_middle|> and <|tool_call_box|>"

    found = seen(target, run(translator(target), ROLE, *contents(*text), *END))

    assert Seen(text, "", [], "stop") == found


@into_each_dialect
def test_k2_7_arguments_beyond_their_limit_are_reported_and_never_complete(target: str) -> None:
    text = SB + CB + "functions.bash:0" + AB + '{"command": "' + "x" * 500
    one = translator(target, limits=Limits(max_tool_args_bytes=100))

    out = run(one, ROLE, *contents(*text), *END)
    verdict = check(target, out)

    assert ("failure", ()) == (verdict.ended, verdict.violations)
    assert isinstance(one.outcome, Fault)
    assert "max_tool_args_bytes" == one.outcome.code
    assert b"x" * 101 not in out
    assert any("max_tool_args_bytes" in loss.detail for loss in one.losses)


# --- other upstreams --------------------------------------------------------------------------------

MINIMAX = (
    '<minimax:tool_call>\n<invoke name="bash">\n<parameter name="command">ls -l</parameter>\n</invoke>\n'
    '<invoke name="task">\n<parameter name="n">1</parameter>\n</invoke>\n</minimax:tool_call>'
)
LEAKS = {
    "kimi": (
        "kimi-k2-thinking",
        SB + kimi_call("bash", 0, '{"command": "ls -l"}') + kimi_call("task", 1, '{"n": 1}') + SE,
    ),
    "minimax": ("MiniMax-M2.5", MINIMAX),
}
each_leak = pytest.mark.parametrize(("model", "leak"), LEAKS.values(), ids=LEAKS)


@into_each_dialect
@from_each_dialect
@each_leak
def test_b9_c14_t18_native_text_of_every_upstream_becomes_calls(
    source: str, target: str, model: str, leak: str
) -> None:
    for size in (len(leak), 5):
        pieces = [leak[at : at + size] for at in range(0, len(leak), size)]
        stream = upstream(source, ROLE, *contents("I will check. ", *pieces), *END)

        found = seen(target, run(translator(target, source, model=model), stream))

        assert "I will check. " == found.text
        assert [("bash", '{"command": "ls -l"}'), ("task", '{"n": 1}')] == [
            (name, arguments) for _, name, arguments in found.calls
        ]
        assert "calls" == found.finish


@into_each_dialect
@from_each_dialect
@each_leak
def test_c14_calls_in_the_reasoning_of_every_upstream_are_calls(
    source: str, target: str, model: str, leak: str
) -> None:
    stream = upstream(
        source, ROLE, *contents("Hm. ", leak, field="reasoning"), *contents("Well."), *END
    )

    found = seen(target, run(translator(target, source, model=model), stream))

    assert ["bash", "task"] == [name for _, name, _ in found.calls]
    assert ("Well.", "calls") == (found.text, found.finish)
    if source != target:  # a relay keeps what its own client may read
        assert "Hm. " == found.reasoning


@into_each_dialect
@from_each_dialect
@each_leak
def test_b10_a_call_that_the_limit_cut_is_never_a_whole_one(
    source: str, target: str, model: str, leak: str
) -> None:
    cut = leak[: leak.index("ls -l") + 2]
    stream = upstream(source, ROLE, *contents("So. ", cut), chunk({}, "length"), USAGE, DONE)

    out = run(translator(target, source, model=model), stream)

    found = seen(target, out)
    assert "length" == found.finish
    if target == "gemini":  # whose arguments cannot show that something is missing: they are text
        assert [] == found.calls
        assert "ls" in found.text
        return
    assert ["bash"] == [name for _, name, _ in found.calls]
    if target == "responses":
        (item,) = [
            one for one in payloads(out)[-1]["response"]["output"] if one["type"] == "function_call"
        ]
        assert "incomplete" == item["status"]


@into_each_dialect
@from_each_dialect
def test_b9_length_and_filters_are_not_masked_by_native_calls(source: str, target: str) -> None:
    stream = upstream(source, ROLE, *contents(ONE), chunk({}, "length"), USAGE, DONE)

    found = seen(target, run(translator(target, source), stream))

    assert [BASH] == found.calls
    assert "length" == found.finish


# --- when nothing is looked for ---------------------------------------------------------------------


def request(dialect: str, **fields: Any) -> Any:
    bodies = {
        "chat": {"model": "m", "messages": [{"role": "user", "content": "Hi"}]},
        "anthropic": {
            "model": "m",
            "max_tokens": 10,
            "messages": [{"role": "user", "content": "Hi"}],
        },
        "responses": {"model": "m", "input": "Hi"},
    }
    body = msgspec.json.encode(bodies[dialect] | fields)
    return translate_request(body, source=dialect, target="chat").request


CHAT_TOOL = {"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}
QUIET: dict[str, dict[str, Any]] = {
    "no tools": {"tools": ()},
    "tool choice none": {
        "request": request("chat", tools=[CHAT_TOOL], tool_choice="none"),
    },
    "a request without tools": {"request": request("chat")},
    "format none": {"native_format": "none"},
    "no list, format none": {"tools": None, "native_format": "none"},
    "no list, and no family by name": {"tools": None, "model": "any"},
    "standard model": {"model": "gpt-4"},
}


@pytest.mark.parametrize("options", QUIET.values(), ids=QUIET)
@from_each_dialect
def test_c17_without_tools_to_call_a_relay_passes_every_byte(
    source: str, options: dict[str, Any]
) -> None:
    stream = upstream(
        source,
        ROLE,
        *contents("thinking " + ONE, field="reasoning"),
        *contents("Like ", *ONE, " this."),
        *END,
    )

    for size in (1, 40, len(stream)):
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert stream == run(translator(source, source, **options), *pieces)


@in_one_test
@pytest.mark.parametrize("options", QUIET.values(), ids=QUIET)
@into_each_dialect
@from_each_dialect
def test_c17_without_tools_to_call_markers_are_text(
    source: str, target: str, options: dict[str, Any]
) -> None:
    stream = upstream(source, ROLE, *contents("Like ", ONE, " this."), *END)

    found = seen(target, run(translator(target, source, **options), stream))

    assert Seen(f"Like {ONE} this.", "", [], "stop") == found


BY_NAME: dict[str, dict[str, Any]] = {
    "model": {"model": "kimi-k2"},
    "format": {"native_format": "kimi_k2"},
}


@pytest.mark.parametrize("options", BY_NAME.values(), ids=BY_NAME)
@into_each_dialect
@from_each_dialect
def test_without_a_list_of_tools_whatever_looks_like_a_call_of_the_named_family_is_one(
    source: str, target: str, options: dict[str, Any]
) -> None:
    stream = upstream(source, ROLE, *contents("Like ", ONE, " this."), *END)
    one = Translator(source=source, target=target, seed="s", **options)
    chat_body = completion({"content": f"Like {ONE} this."}, "stop")
    body = translate_body(chat_body, source="chat", target=source, native_format="none").body
    events = AnswerReader(source=source, seed="s", **options)

    found = seen(target, run(one, stream))
    whole = translate_body(body, source=source, target=target, seed="s", **options)
    read = fold([*events.feed(stream), *events.close()])

    assert ([BASH], "calls") == (found.calls, found.finish)
    assert ["bash"] == [name for _, name, _ in seen_body(target, whole.body).calls]
    assert ["bash"] == [call.name for call in read.tool_calls]
    assert ["bash"] == [call.name for call in read_body(body, source=source, **options).tool_calls]


PROSE = (
    "In C, a<b and b>c; use `<|` or ``` [TOOL ```; ",
    "<tool",
    "box> {",
    '"name": 1} [1, 2] functools',
    " <|tool_call",
    "> end <",
)


@from_each_dialect
@pytest.mark.parametrize("model", ["kimi-k2", "qwen3-32b", "mistral-large", "llama-3.1-8b", "any"])
def test_k1_4_a_relay_passes_text_that_holds_no_call_byte_for_byte(source: str, model: str) -> None:
    stream = upstream(source, ROLE, *contents(*PROSE), *END)

    for size in (1, 40, len(stream)):
        pieces = [stream[at : at + size] for at in range(0, len(stream), size)]
        assert stream == run(translator(source, source, model=model), *pieces)


@pytest.mark.parametrize(
    ("family", "leak"),
    [
        ("mistral", '[TOOL_CALLS]bash[ARGS]{"command": "ls"}'),
        ("hermes", '<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>'),
        ("phi4_mini", 'functools[{"name": "bash", "arguments": {"command": "ls"}}]'),
        ("auto", "<|tool_call_begin|>functions.bash:0" + AB + '{"command": "ls"}' + CE),
    ],
)
@from_each_dialect
def test_a_relay_looks_for_calls_after_any_text(source: str, family: str, leak: str) -> None:
    stream = upstream(source, ROLE, *contents("First", " this, ", "then: ", leak), *END)
    one = translator(source, source, model="", native_format=family)

    found = seen(source, run(one, stream))

    assert "First this, then: " == found.text
    assert [("bash", '{"command": "ls"}')] == [(name, text) for _, name, text in found.calls]
    assert "calls" == found.finish


@from_each_dialect
def test_c17_a_relay_follows_code_fences(source: str) -> None:
    example = '<tool_call>{"name": "bash", "arguments": {}}</tool_call>'
    stream = upstream(
        source, ROLE, *contents("So:\n", "``", "`xml\n", "like ", example, "\n``", "`\n"), *END
    )

    assert stream == run(translator(source, source, native_format="hermes"), stream)


# --- calls that must be whole -----------------------------------------------------------------------

WHOLE = replace(profile("generic"), tool_calls="whole")


@into_each_dialect
def test_k2_2_a_native_call_is_held_until_it_is_complete_and_then_leaves_at_once(
    target: str,
) -> None:
    one = translator(target, profile=WHOLE)
    one.feed(ROLE)
    before = one.feed(chunk({"content": "Hi. "}))
    held = one.feed(chunk({"content": SB + CB + "functions.bash:0" + AB + '{"command": '}))
    held += one.feed(chunk({"content": '"ls"'}))
    out = one.feed(chunk({"content": "}" + CE + SE}))

    assert b"Hi. " in before
    if not dialect(target).half_calls:  # calls leave with the end of the answer
        assert b"" == out
        out = one.feed(chunk({}, "stop") + USAGE + DONE)
    assert b"bash" not in held
    assert b"ls" not in held
    assert b"bash" in out
    assert b"ls" in out


@into_each_dialect
def test_k2_2_a_structured_call_is_held_too(target: str) -> None:
    one = translator(target, profile=WHOLE)
    one.feed(ROLE)
    held = one.feed(chunk(call(0, "", id="call_1", name="bash")))
    held += one.feed(chunk(call(0, '{"command":')))
    out = one.feed(chunk(call(0, ' "ls"}')) + chunk({}, "tool_calls") + USAGE + DONE)
    out += one.close()

    assert b"bash" not in held
    assert b"bash" in out


@into_each_dialect
@from_each_dialect
def test_k2_2_whole_calls_are_the_same_calls(source: str, target: str) -> None:
    two = SB + kimi_call("bash", 0, '{"command": "ls"}') + kimi_call("task", 1, "{}") + SE
    stream = upstream(source, ROLE, *contents("a ", *two, " b"), *END)

    streamed = seen(target, run(translator(target, source), stream))
    whole = seen(target, run(translator(target, source, profile=WHOLE), stream))

    assert streamed == whole
    assert 2 == len(whole.calls)


@into_each_dialect
@pytest.mark.parametrize("finish", ["stop", "length"])
def test_k2_2_b10_a_cut_call_is_never_reported_as_complete(target: str, finish: str) -> None:
    cut = SB + CB + "functions.bash:0" + AB + '{"command": "rm -r'
    one = translator(target, profile=WHOLE)

    out = run(one, ROLE, *contents(cut), chunk({}, finish), USAGE, DONE)

    assert "call_cut" in [loss.code for loss in one.losses]
    if finish == "stop" and not dialect(target).half_calls:
        assert isinstance(one.outcome, Fault)
        assert "invalid_arguments" == one.outcome.code
        assert b"rm -r" not in out
        return
    found = seen(target, out, half_call=True)
    assert {"stop": "calls", "length": "length"}[finish] == found.finish
    for *_, arguments in found.calls:
        with pytest.raises(msgspec.DecodeError):
            msgspec.json.decode(arguments)


@into_each_dialect
def test_k2_2_a_held_call_of_a_stream_that_broke_off_is_never_sent_and_that_is_reported(
    target: str,
) -> None:
    cut = SB + CB + "functions.bash:0" + AB + '{"command": "rm -r'
    one = translator(target, profile=WHOLE)

    out = run(one, ROLE, *contents("Hi. ", cut))

    assert isinstance(one.outcome, Fault)
    assert b"rm -r" not in out
    assert b"functions" not in out
    assert "held_content_lost" in [loss.code for loss in one.losses]


# --- complete bodies --------------------------------------------------------------------------------


def completion(message: dict[str, Any], finish: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish}
    body = {**META, "object": "chat.completion", "choices": [choice]}
    return msgspec.json.encode({**body, "usage": {"prompt_tokens": 12, "completion_tokens": 3}})


ANSWERS = {
    "content": {"content": f"Hm. {ONE} ok"},
    "reasoning": {"content": "Done.", "reasoning_content": f"So {ONE}"},
    "both fields": {"content": "", "reasoning": f"So {ONE}", "reasoning_content": f"So {ONE}"},
    "both channels": {"content": f"a{ONE}b", "reasoning_content": f"c{ONE}d"},
    "text": {"content": "a <|tool_calls"},
    "cut": {"content": ONE[: -len(CE + SE) - 3]},
}


@into_each_dialect
@pytest.mark.parametrize("finish", ["stop", "length"])
@pytest.mark.parametrize("message", ANSWERS.values(), ids=ANSWERS)
def test_p_2_a_complete_answer_gives_what_its_stream_gives(
    target: str, message: dict[str, str], finish: str
) -> None:
    options: dict[str, Any] = {"model": META["model"], "tools": TOOLS, "seed": "s"}
    reasoning = {key: text for key, text in message.items() if key != "content"}
    deltas = [chunk(dict.fromkeys(reasoning, char)) for char in next(iter(reasoning.values()), "")]
    stream = [ROLE, *deltas, *contents(*message["content"]), chunk({}, finish), USAGE, DONE]

    cut = message is ANSWERS["cut"]
    one = translator(target)
    out = run(one, *stream)
    body = translate_body(completion(message, finish), source="chat", target=target, **options)
    if cut and finish == "stop" and not dialect(target).half_calls:
        assert isinstance(one.outcome, Fault)
        assert one.outcome == body.answer.fault
        return
    streamed = seen(target, out, half_call=cut)
    whole = seen_body(target, body.body)

    assert (streamed.reasoning, streamed.finish) == (whole.reasoning, whole.finish)
    if target == "anthropic" and cut:
        # Its input would have to be an object: the call becomes text.
        assert [] == whole.calls
        assert streamed.calls[0][2] in whole.text
        return
    assert streamed.text == whole.text
    assert [(one[0], one[1]) for one in streamed.calls] == [(one[0], one[1]) for one in whole.calls]
    if not cut:
        for one, other in zip(streamed.calls, whole.calls, strict=True):
            assert msgspec.json.decode(one[2]) == msgspec.json.decode(other[2])
