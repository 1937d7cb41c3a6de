"""Answers that stop anywhere inside their calls: only what the model had finished may be run.

A two-call answer is cut after every character of its arguments (structured) or of its text (native), for
every upstream dialect and client dialect, streamed and complete, whatever finish reason follows.  Native
text from other dialects than Chat is cut after every fourth character, except in `make fuzz-properties`.  The
clients are as eager as the agents are: they run each call that has ended and whose arguments can be
parsed, whatever the stop reason or the status of its item says.
"""

import json
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import settings

from dragoman.context import Exchange, Rendering
from dragoman.dialects import DIALECT_NAMES, dialect
from dragoman.dialects.framing import StreamReader
from dragoman.exchange_setup import answer_stages, make_exchange
from dragoman.simulator.native import FAMILIES, NativeCall
from dragoman.translate import Translator, translate_body
from dragoman.turn.answer import Answer, fold
from dragoman.turn.events import INVALID_ARGUMENTS, Event, Fault
from dragoman.turn.request import Tool
from dragoman.wire.json_scanner import JsonPlace, JsonScanner
from tests.support.corpus import for_client

Json = dict[str, Any]

# Strings with escapes, numbers, literals and nesting: every place at which JSON can stop.
ARGUMENTS: tuple[Json, Json] = (
    {"path": "a/é.txt", "count": 120, "deep": {"list": ["x", 1.5]}},
    {"command": 'echo "a\\b"\n', "force": True, "none": None, "last": 250},
)
CALLS = [NativeCall("write", ARGUMENTS[0]), NativeCall("run", ARGUMENTS[1])]
# For families that write values without quotes, whose types come from the schema.
PLAIN_ARGUMENTS: tuple[Json, Json] = (
    {"path": "a/é.txt", "count": 120, "force": True},
    {"command": 'echo "a\\b" <b', "last": "z"},
)
NATIVE = (
    "kimi_k2",
    "hermes",
    "qwen3_coder",
    "deepseek_v3",
    "deepseek_v32",
    "glm45",
    "minimax_m2",
    "minimax_m3",
    "mistral",
    "llama3_json",
    "pythonic",
    "gpt_oss",
)
CUT = {
    "chat": "length",
    "anthropic": "max_tokens",
    "responses": "incomplete",
    "gemini": "MAX_TOKENS",
}
# What an upstream says if it does not say that the answer was cut.
PLAIN = {
    "chat": ("tool_calls", "stop"),
    "anthropic": ("tool_use", "end_turn"),
    "responses": ("completed",),
}
# Gemini sends arguments as an object, whatever is missing: only its finish reason can show a cut.
ENDINGS = [(one, word) for one in DIALECT_NAMES for word in (CUT[one], *PLAIN.get(one, ()))]


def type_of(value: object) -> Json:
    match value:
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case None:
            return {"type": "null"}
        case dict():
            return {"type": "object"}
        case _:
            return {"type": "string"}


def tools_for(arguments: tuple[Json, Json], *, required: bool = True) -> tuple[Tool, ...]:
    """Declare both tools, with every parameter required or none of them."""
    schemas = (
        {
            "type": "object",
            "properties": {key: type_of(value) for key, value in one.items()},
            "required": list(one) if required else [],
        }
        for one in arguments
    )
    return tuple(
        Tool(name=call.name, schema=msgspec.Raw(json.dumps(schema).encode()))
        for call, schema in zip(CALLS, schemas, strict=True)
    )


TOOLS = tools_for(ARGUMENTS)
PLAIN_TOOLS = tools_for(PLAIN_ARGUMENTS)
# After a cut, not even a call that has all it needs may be closed: the model may have meant to go on.
FREE_TOOLS = tools_for(ARGUMENTS, required=False)
FREE_PLAIN_TOOLS = tools_for(PLAIN_ARGUMENTS, required=False)

# --- answers of upstreams ---------------------------------------------------------------------------


class Half(NamedTuple):
    """An answer that stops inside a call, or just behind it."""

    calls: list[tuple[str, str]]  # name and arguments, as far as they came
    finished: int  # calls that are all there
    nearly: int  # and those that lack one bracket at most


def halves() -> Iterator[Half]:
    """Cut both calls after each character of their arguments."""
    texts = [json.dumps(one, ensure_ascii=False) for one in ARGUMENTS]
    for number, text in enumerate(texts):
        before = [(CALLS[at].name, texts[at]) for at in range(number)]
        for at in range(len(text) + 1):
            calls = [*before, (CALLS[number].name, text[:at])]
            yield Half(calls, number + (at == len(text)), number + (at >= len(text) - 1))


HALVES = list(halves())


def sse(event: Json, name: str = "") -> bytes:
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {json.dumps(event)}\n\n".encode()


def chat_stream(text: str, calls: list[tuple[str, str]], reason: str) -> bytes:
    def chunk(delta: Json, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        return sse({"id": "c", "object": "chat.completion.chunk", "choices": [choice]})

    out = [chunk({"role": "assistant", "content": text})]
    for index, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": ""}
        head = {"index": index, "id": f"call_{index}", "type": "function", "function": function}
        out.append(chunk({"tool_calls": [head]}))
        out.append(chunk({"tool_calls": [{"index": index, "function": {"arguments": arguments}}]}))
    if reason:
        out += [chunk({}, reason), b"data: [DONE]\n\n"]
    return b"".join(out)


def chat_body(calls: list[tuple[str, str]], reason: str) -> Json:
    made = [
        {"id": f"call_{n}", "type": "function", "function": {"name": name, "arguments": arguments}}
        for n, (name, arguments) in enumerate(calls)
    ]
    message = {"role": "assistant", "content": None, "tool_calls": made}
    choice = {"index": 0, "message": message, "finish_reason": reason}
    return {"id": "c", "object": "chat.completion", "created": 1, "choices": [choice]}


def message(reason: str | None, content: list[Json]) -> Json:
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": reason,
        "stop_sequence": None,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }


def anthropic_stream(text: str, calls: list[tuple[str, str]], reason: str) -> bytes:
    out: list[Json] = [{"type": "message_start", "message": message(None, [])}]

    def add(block: Json, delta: Json) -> None:
        index = sum(one["type"] == "content_block_start" for one in out)
        out.append({"type": "content_block_start", "index": index, "content_block": block})
        if any(delta.values()):
            out.append({"type": "content_block_delta", "index": index, "delta": delta})
        out.append({"type": "content_block_stop", "index": index})

    if text:
        add({"type": "text", "text": ""}, {"type": "text_delta", "text": text})
    for number, (name, arguments) in enumerate(calls):
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
        add(block, {"type": "input_json_delta", "partial_json": arguments})
    if reason:
        delta = {"stop_reason": reason, "stop_sequence": None}
        out.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 1}})
        out.append({"type": "message_stop"})
    elif calls:
        out.pop()  # a stream that breaks does not stop its block
    return b"".join(sse(one, one["type"]) for one in out)


def anthropic_body(calls: list[tuple[str, str]], reason: str) -> Json:
    """Write the input as hosts do: as an object, whatever is missing."""
    content = []
    for number, (name, arguments) in enumerate(calls):
        scanner = JsonScanner()
        scanner.feed(arguments)
        given = json.loads(arguments + scanner.closing()) or {}
        content.append({"type": "tool_use", "id": f"t_{number}", "name": name, "input": given})
    return message(reason, content)


def response(status: str, output: list[Json]) -> Json:
    details = {"reason": "max_output_tokens"} if status == "incomplete" else None
    return {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "status": status,
        "incomplete_details": details,
        "output": output,
    }


def items(calls: list[tuple[str, str]]) -> list[Json]:
    """Write the calls; hosts say that each is completed."""
    return [
        {
            "id": f"fc_{n}",
            "type": "function_call",
            "status": "completed",
            "call_id": f"call_{n}",
            "name": name,
            "arguments": arguments,
        }
        for n, (name, arguments) in enumerate(calls)
    ]


def responses_stream(text: str, calls: list[tuple[str, str]], reason: str) -> bytes:
    out: list[Json] = [
        {"type": "response.created", "response": response("in_progress", [])},
        {"type": "response.in_progress", "response": response("in_progress", [])},
    ]
    output: list[Json] = items(calls)
    if text:
        part = {"type": "output_text", "text": text, "annotations": []}
        said = {"id": "msg_0", "type": "message", "role": "assistant", "content": [part]}
        output.insert(0, {**said, "status": "completed"})
    for index, item in enumerate(output):
        at = {"output_index": index, "item_id": item["id"]}
        empty = {"arguments": ""} if "arguments" in item else {"content": []}
        added = {**item, "status": "in_progress", **empty}
        out.append({"type": "response.output_item.added", "output_index": index, "item": added})
        if "arguments" in item:
            kind = "response.function_call_arguments"
            out.append({"type": f"{kind}.delta", **at, "delta": item["arguments"]})
        if reason or item is not output[-1]:
            out.append({"type": "response.output_item.done", "output_index": index, "item": item})
    if reason:
        out.append({"type": f"response.{reason}", "response": response(reason, output)})
    return b"".join(sse({**one, "sequence_number": n}, one["type"]) for n, one in enumerate(out))


def responses_body(calls: list[tuple[str, str]], reason: str) -> Json:
    return response(reason, items(calls))


def gemini_chunk(parts: list[Json], reason: str) -> Json:
    candidate: Json = {"content": {"parts": parts, "role": "model"}, "index": 0}
    return {"candidates": [candidate | ({"finishReason": reason} if reason else {})]}


def gemini_parts(calls: list[tuple[str, str]]) -> list[Json]:
    """Write the arguments as Google does: as an object, whatever is missing."""
    return [
        {"functionCall": {"name": one["name"], "args": one["input"], "id": one["id"]}}
        for one in anthropic_body(calls, "")["content"]
    ]


def gemini_stream(text: str, calls: list[tuple[str, str]], reason: str) -> bytes:
    parts = [{"text": text}] if text else []
    chunks = [gemini_chunk([part], "") for part in [*parts, *gemini_parts(calls)]]
    if reason:
        chunks.append(gemini_chunk([{"text": ""}], reason))
    return b"".join(sse(one) for one in chunks)


def gemini_body(calls: list[tuple[str, str]], reason: str) -> Json:
    return gemini_chunk(gemini_parts(calls), reason)


STREAMS: dict[str, Callable[[str, list[tuple[str, str]], str], bytes]] = {
    "chat": chat_stream,
    "anthropic": anthropic_stream,
    "responses": responses_stream,
    "gemini": gemini_stream,
}
BODIES: dict[str, Callable[[list[tuple[str, str]], str], Json]] = {
    "chat": chat_body,
    "anthropic": anthropic_body,
    "responses": responses_body,
    "gemini": gemini_body,
}

# --- clients that run what they can -------------------------------------------------------------------

Run = list[tuple[str, Json]]


def parsed(calls: list[tuple[str, str]]) -> Run:
    """Return the calls whose arguments are an object; none at all count as an empty one."""
    found = []
    for name, arguments in calls:
        try:
            value = json.loads(arguments or "{}")
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append((name, value))
    return found


def events_of(stream: bytes) -> list[Json]:
    datas = (line[6:] for line in stream.split(b"\n") if line.startswith(b"data: {"))
    return [msgspec.json.decode(data) for data in datas]


def run_chat(stream: bytes) -> Run:
    calls: dict[int, list[str]] = {}
    for event in events_of(stream):
        if "error" in event:
            return []  # the vendor's SDK raises
        for choice in event["choices"]:
            for call in choice["delta"].get("tool_calls", ()):
                function = call["function"]
                made = calls.setdefault(call["index"], [function.get("name", ""), ""])
                made[1] += function["arguments"]
    return parsed([(name, arguments) for name, arguments in calls.values()])


def run_chat_body(body: Json) -> Run:
    calls = body["choices"][0]["message"].get("tool_calls") or ()
    return parsed([(one["function"]["name"], one["function"]["arguments"]) for one in calls])


def run_anthropic(stream: bytes) -> Run:
    open_calls: dict[int, list[str]] = {}
    ended: list[tuple[str, str]] = []
    for event in events_of(stream):
        match event:
            case {"type": "content_block_start", "content_block": {"type": "tool_use"} as block}:
                open_calls[event["index"]] = [block["name"], ""]
            case {"type": "content_block_delta", "delta": {"type": "input_json_delta"} as delta}:
                open_calls[event["index"]][1] += delta["partial_json"]
            case {"type": "content_block_stop", "index": index} if index in open_calls:
                name, arguments = open_calls[index]
                ended.append((name, arguments))
    return parsed(ended)


def run_anthropic_body(body: Json) -> Run:
    return [(one["name"], one["input"]) for one in body["content"] if one["type"] == "tool_use"]


def run_items(output: list[Json]) -> Run:
    calls = [one for one in output if one["type"] == "function_call"]
    return parsed([(one["name"], one["arguments"]) for one in calls])


def run_responses(stream: bytes) -> Run:
    events = events_of(stream)
    done = run_items([one["item"] for one in events if one["type"] == "response.output_item.done"])
    if events and events[-1]["type"] != "response.failed":
        assert done == run_items(events[-1]["response"]["output"])
    return done


def run_gemini_body(body: Json) -> Run:
    parts = body["candidates"][0]["content"]["parts"]
    made = [one["functionCall"] for one in parts if "functionCall" in one]
    return [(one["name"], one["args"]) for one in made]


def run_gemini(stream: bytes) -> Run:
    events = events_of(stream)
    if any("error" in one for one in events):
        return []  # the vendor's SDKs raise
    return [call for one in events for call in run_gemini_body(one)]


RUN_STREAM = {
    "chat": run_chat,
    "anthropic": run_anthropic,
    "responses": run_responses,
    "gemini": run_gemini,
}
RUN_BODY: dict[str, Callable[[Json], Run]] = {
    "chat": run_chat_body,
    "anthropic": run_anthropic_body,
    "responses": lambda body: run_items(body["output"]),
    "gemini": run_gemini_body,
}


# --- translation ------------------------------------------------------------------------------------


def read(stream: bytes, source: str, exchange: Exchange, family: str = "none") -> list[Event]:
    reader = StreamReader(dialect(source).frame_reader(exchange), exchange)
    events = reader.feed(stream) + reader.close()
    for stage in answer_stages(exchange, declared(exchange), (), "", family):
        events = stage.feed(events)
    return events


def declared(exchange: Exchange) -> tuple[Tool, ...]:
    return next(tools for tools, one in EXCHANGES if one is exchange)


EXCHANGE = make_exchange(tools=TOOLS, seed="s")
PLAIN_EXCHANGE = make_exchange(tools=PLAIN_TOOLS, seed="s")
FREE_EXCHANGE = make_exchange(tools=FREE_TOOLS, seed="s")
FREE_PLAIN_EXCHANGE = make_exchange(tools=FREE_PLAIN_TOOLS, seed="s")
EXCHANGES = (
    (TOOLS, EXCHANGE),
    (PLAIN_TOOLS, PLAIN_EXCHANGE),
    (FREE_TOOLS, FREE_EXCHANGE),
    (FREE_PLAIN_TOOLS, FREE_PLAIN_EXCHANGE),
)


def what_is_run(events: list[Event], exchange: Exchange) -> dict[str, Run]:
    """Write an answer for every client, streamed and complete, and say what each would run.

    An answer that fails because its client cannot be shown half a call is left out: nothing of it may be run.
    """
    found: dict[str, Run] = {}
    for name in DIALECT_NAMES:
        to = dialect(name)
        writer = to.writer(exchange)
        given = for_client(events, name)
        answer = fold(given)
        run = RUN_STREAM[name](b"".join(map(writer.send, given)))
        if is_unusable(answer):
            assert [] == run
            continue
        found[f"{name} stream"] = run
        if answer.fault is None:
            body = msgspec.json.decode(to.encode_body(answer, exchange, []))
            found[f"{name} body"] = RUN_BODY[name](body)
    return found


def is_unusable(answer: Answer) -> bool:
    return answer.fault is not None and answer.fault.code == INVALID_ARGUMENTS


def assert_whole(run: Run, half: Half, *, arguments: tuple[Json, Json] = ARGUMENTS) -> None:
    """See that all that was finished is run and nothing else; a bracket may have been added."""
    whole = [(call.name, one) for call, one in zip(CALLS, arguments, strict=True)]
    assert run == whole[: len(run)]
    assert half.finished <= len(run) <= half.nearly


def doubted(half: Half) -> Half:
    """Expect one call less where arguments are an object: nothing shows the end of the last one."""
    last = len(half.calls) == half.finished
    return half._replace(finished=half.finished - last)


@pytest.mark.parametrize(("source", "reason"), ENDINGS)
def test_half_a_structured_call_is_never_run(source: str, reason: str) -> None:
    cut = reason == CUT[source]
    exchange = FREE_EXCHANGE if cut else EXCHANGE
    for half in HALVES:
        events = read(STREAMS[source]("", half.calls, reason), source, exchange)

        assert not any(isinstance(event, Fault) for event in events)
        for run in what_is_run(events, exchange).values():
            expected = half._replace(nearly=half.finished) if cut else half
            assert_whole(run, doubted(expected) if source == "gemini" else expected)


@pytest.mark.parametrize("source", DIALECT_NAMES)
def test_half_a_call_of_a_stream_that_just_ends_is_never_run(source: str) -> None:
    for half in HALVES:
        events = read(STREAMS[source]("", half.calls, ""), source, EXCHANGE)

        for run in what_is_run(events, EXCHANGE).values():
            assert_whole(run, half._replace(finished=0))


@pytest.mark.parametrize(("source", "reason"), ENDINGS)
def test_half_a_call_is_never_run_behind_a_relay(source: str, reason: str) -> None:
    for half in HALVES:
        stream = STREAMS[source]("", half.calls, reason)
        translator = Translator(source=source, target=source, tools=TOOLS)
        out = translator.feed(stream) + translator.close()

        assert_whole(RUN_STREAM[source](out), doubted(half) if source == "gemini" else half)


@pytest.mark.parametrize("target", DIALECT_NAMES)
@pytest.mark.parametrize("source", DIALECT_NAMES)
def test_half_a_call_of_a_complete_answer_is_never_run(source: str, target: str) -> None:
    # A Messages body shows nothing of a cut: only its stop reason can tell.
    reasons = (CUT[source], *(() if source == "anthropic" else PLAIN.get(source, ())))
    for half in HALVES:
        for reason in reasons:
            body = json.dumps(BODIES[source](half.calls, reason)).encode()
            found = translate_body(body, source=source, target=target, tools=TOOLS)

            if is_unusable(found.answer):
                assert not dialect(target).half_calls
                assert half.finished < len(half.calls)
                continue
            run = RUN_BODY[target](msgspec.json.decode(found.body))
            assert_whole(run, doubted(half) if source in ("anthropic", "gemini") else half)


def common(one: str, other: str) -> int:
    """Return how many characters two texts have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


# A name alone is a whole call if the model stops there by itself: toolcalls/mistral/name_alone_at_the_end.
NAME_ALONE = {"mistral": tuple(f"[TOOL_CALLS]{call.name}" for call in CALLS)}


def step_of(source: str) -> int:
    """Return at every how many characters to cut: the text is read in the same way from any dialect."""
    return 1 if source == "chat" or settings.get_current_profile_name() == "fuzz" else 4


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("source", PLAIN)
@pytest.mark.parametrize("family", NATIVE)
def test_half_a_native_call_is_never_run(family: str, source: str, cut: bool) -> None:
    exchange = FREE_PLAIN_EXCHANGE if cut else PLAIN_EXCHANGE
    reason = CUT[source] if cut else PLAIN[source][0]
    calls = [call._replace(arguments=one) for call, one in zip(CALLS, PLAIN_ARGUMENTS, strict=True)]
    text = FAMILIES[family].render(calls)
    behind_first = common(text, FAMILIES[family].render(calls[:1]))

    for at in {*range(0, len(text), step_of(source)), behind_first, len(text)}:
        stream = STREAMS[source](text[:at], [], reason)
        finished = (at >= behind_first) + (at == len(text))
        if not cut and text[:at].endswith(NAME_ALONE.get(family, ("\0",))):
            continue
        events = read(stream, source, exchange, family)
        for run in what_is_run(events, exchange).values():
            assert_whole(run, Half([], finished, 2), arguments=PLAIN_ARGUMENTS)


def test_every_place_at_which_json_can_stop_is_tried() -> None:
    names = {place: name for name, place in vars(JsonPlace).items() if isinstance(place, int)}
    places = set()
    for half in HALVES:
        scanner = JsonScanner()
        scanner.feed(half.calls[-1][1])
        places.add(names[scanner.place])

    assert {
        "STRING",
        "KEY_STRING",
        "COLON",
        "VALUE",
        "NUMBER",
        "LITERAL",
        "ESCAPE",
        "AFTER",
    } <= places
    assert all(len(one.calls) <= len(two.calls) for one, two in pairwise(HALVES))


# --- how such an answer ends ------------------------------------------------------------------------


def endings_of(events: list[Event], exchange: Exchange) -> dict[str, str]:
    """Return the ending that each client is given, in the words of its dialect."""
    found = {}
    for name in DIALECT_NAMES:
        to = dialect(name)
        writer = to.writer(exchange)
        given = for_client(events, name)
        answer = fold(given)
        stream = events_of(b"".join(map(writer.send, given)))
        body = msgspec.json.decode(to.encode_body(answer, exchange, []))
        match name:
            case "chat":
                reasons = [choice["finish_reason"] for one in stream for choice in one["choices"]]
                ended = next(filter(None, reasons))
                assert ended == body["choices"][0]["finish_reason"]
            case "anthropic":
                deltas = [one["delta"] for one in stream if one["type"] == "message_delta"]
                ended = deltas[-1]["stop_reason"]
                # A body cannot hold such a call: text takes its place, and its turn is over.
                assert body["stop_reason"] in {ended, "end_turn"}
            case "gemini" if answer.fault is not None:
                ended = f"error {stream[-1]['error']['status']}"
                assert stream[-1] == body
            case "gemini":
                ended = stream[-1]["candidates"][0]["finishReason"]
                assert ended == body["candidates"][0]["finishReason"]
            case _:
                ended = f"{stream[-1]['type']} {stream[-1]['response']['incomplete_details']}"
                assert f"response.{body['status']} {body['incomplete_details']}" == ended
        found[name] = ended
    return found


AT_A_LIMIT = {
    "chat": "length",
    "anthropic": "max_tokens",
    "responses": "response.incomplete {'reason': 'max_output_tokens'}",
    "gemini": "MAX_TOKENS",
}
CALLED = {
    "chat": "tool_calls",
    "anthropic": "tool_use",
    "responses": "response.completed None",
    "gemini": "error INTERNAL",  # it has no form for such a call
}
MALFORMED = ('{"path": }', "{path: 'a'}", '["a"]', '"a"', "1", "null x")
TRAILING = '{"path": "a"}}{'  # what follows the object is dropped


@pytest.mark.parametrize(("source", "reason"), ENDINGS)
def test_ending_of_a_call_with_broken_arguments_is_the_upstreams_or_an_error(
    source: str, reason: str
) -> None:
    cut = reason == CUT[source]
    given = [half.calls for half in HALVES if half.nearly < len(half.calls)]
    if source != "gemini":  # whose arguments are always an object
        given += [[("write", one)] for one in MALFORMED]
    for calls in given:
        events = read(STREAMS[source]("", calls, reason), source, EXCHANGE)

        assert (AT_A_LIMIT if cut else CALLED) == endings_of(events, EXCHANGE), calls


@pytest.mark.parametrize("source", PLAIN)
def test_ending_of_a_call_whose_arguments_were_repaired_is_the_upstreams(source: str) -> None:
    events = read(STREAMS[source]("", [("write", TRAILING)], PLAIN[source][0]), source, EXCHANGE)

    assert CALLED | {"gemini": "STOP"} == endings_of(events, EXCHANGE)


# The name of the broken call, and all calls.
BROKEN = [
    *((half.calls[-1][0], half.calls) for half in HALVES if half.nearly < len(half.calls)),
    *(("write", [("write", one)]) for one in MALFORMED),
    ("write", [("write", MALFORMED[0]), *HALVES[-1].calls[1:]]),
    ("run", [HALVES[-1].calls[0], ("run", MALFORMED[0])]),
]


@pytest.mark.parametrize("source", PLAIN)
def test_client_that_cannot_be_shown_a_broken_call_gets_an_error_and_no_call(source: str) -> None:
    for name, calls in BROKEN:
        stream = STREAMS[source]("I will.", calls, PLAIN[source][0])
        translator = Translator(source=source, target="gemini", tools=TOOLS)
        listed = Translator(
            source=source, target="gemini", tools=TOOLS, rendering=Rendering(framing="list")
        )

        out = events_of(translator.feed(stream) + translator.close())

        *shown, error = out
        text = "" if source == "responses" else "I will."  # that stream has no deltas of text
        assert isinstance(translator.outcome, Fault)
        assert INVALID_ARGUMENTS == translator.outcome.code
        assert (502, "INTERNAL") == (error["error"]["code"], error["error"]["status"])
        assert f"`{name}`" in error["error"]["message"]
        assert text in "".join(map(text_of, shown))
        assert out == json.loads(listed.feed(stream) + listed.close())


def text_of(chunk: Json) -> str:
    """Return the text of a chunk, which has nothing else."""
    (part,) = chunk["candidates"][0]["content"]["parts"]
    assert {"text"} == part.keys()
    text: str = part["text"]
    return text
