"""Quirks of the content of an answer."""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import structs

from dragoman.errors import MalformedError
from dragoman.simulator import truncation
from dragoman.simulator.answer_writers.frames import encode_body
from dragoman.simulator.behaviour import callable_tools, plausible_call, searches_of
from dragoman.simulator.conversation import calls_made
from dragoman.simulator.native import arguments_of, dumps
from dragoman.simulator.play import Fields, Json, Play, Reply, SimulatedCall
from dragoman.simulator.quirks.quirk import Quirk
from dragoman.simulator.searches import HOSTS
from dragoman.turn.events import Flavor
from dragoman.turn.request import Tool

_THOUGHT: Final = "Let me think about this. I know what to do."
_LINE: Final = 'The quick brown fox jumps over the lazy dog, and "quotes" and é too.\n'
_KB: Final = (0, 65_536)
LATE: Final = "late"


def _with_reply(play: Play, reply: Reply) -> Play:
    return structs.replace(play, reply=reply)


def think(play: Play, _value: str) -> Play:
    """Let the model reason before it answers, whether or not the request asked for it."""
    return _with_reply(
        play, structs.replace(play.reply, reasoning=play.reply.reasoning or _THOUGHT)
    )


def _think_tags(play: Play, _value: str) -> Play:
    reply = play.reply
    text = f"<think>{reply.reasoning or _THOUGHT}</think>\n\n{reply.text}"
    return _with_reply(play, structs.replace(reply, reasoning="", text=text))


def _think_close(play: Play, _value: str) -> Play:
    """Omit the opening tag, like servers whose chat template already contains it."""
    reply = play.reply
    text = f"{reply.reasoning or _THOUGHT}</think>\n\n{reply.text}"
    return _with_reply(play, structs.replace(reply, reasoning="", text=text))


def _loose_args(play: Play, _value: str) -> Play:
    """Omit the last argument of each call, and write the numbers of the others as text."""
    calls = tuple(
        structs.replace(call, arguments=encode_body(_loose(arguments_of(call))).decode())
        for call in play.reply.calls
        if call.flavor is not Flavor.CUSTOM
    )
    return _with_reply(play, structs.replace(play.reply, calls=calls))


def _loose(arguments: Fields) -> Fields:
    names = list(arguments)
    kept = names if len(names) < 2 else names[:-1]
    return {name: _as_text(arguments[name]) for name in kept}


def _as_text(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _as_text(one) for name, one in value.items()}
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if number else value


def _parallel(play: Play, value: str) -> Play:
    """Make as many calls, unless the request wants one at a time."""
    wanted = int(value)
    tools = callable_tools(play.asked.request)
    if not play.reply.calls or not tools or play.asked.request.parallel is False:
        return play
    given = play.reply.calls[:wanted]
    more = [
        plausible_call(play.asked, tools[at % len(tools)], at) for at in range(len(given), wanted)
    ]
    return _with_reply(play, structs.replace(play.reply, calls=(*given, *more)))


def _text(play: Play, value: str) -> Play:
    size = int(value) * 1024
    return _with_reply(play, structs.replace(play.reply, text=_filling(size)))


def _args(play: Play, value: str) -> Play:
    size = int(value) * 1024
    tools = {tool.name: tool for tool in play.asked.request.tools}
    calls = tuple(_enlarged(call, tools.get(call.name), size) for call in play.reply.calls)
    return _with_reply(play, structs.replace(play.reply, calls=calls))


def _enlarged(call: SimulatedCall, tool: Tool | None, size: int) -> SimulatedCall:
    if call.flavor is Flavor.CUSTOM:
        return structs.replace(call, arguments=_filling(size))
    arguments = arguments_of(call)
    arguments[_text_argument(arguments, tool)] = _filling(size)
    return structs.replace(call, arguments=encode_body(arguments).decode())


def _text_argument(arguments: Fields, tool: Tool | None) -> str:
    """Return the name of an argument that takes text."""
    schema: Json = msgspec.json.decode(tool.schema) if tool and tool.schema is not None else {}
    known = schema.get("properties") if isinstance(schema, dict) else None
    for name, inner in known.items() if isinstance(known, dict) else ():
        if isinstance(inner, dict) and inner.get("type") == "string" and "enum" not in inner:
            return name
    return next((name for name, one in arguments.items() if isinstance(one, str)), "content")


def _filling(size: int) -> str:
    return (_LINE * (size // len(_LINE) + 1))[:size]


def _ids(play: Play, value: str) -> Play:
    calls = tuple(structs.replace(call, id=value) for call in play.reply.calls)
    return _with_reply(play, structs.replace(play.reply, calls=calls))


def _search(play: Play, value: str) -> Play:
    """Be a host that is asked for searches, and shows them, as this one does."""
    style = structs.replace(play.style, search=value)
    reply = structs.replace(play.reply, searches=searches_of(play.asked, value))
    return structs.replace(play, style=style, reply=reply)


def _structural(play: Play, _value: str) -> Play:
    """Write structured calls instead of the model's grammar; Kimi keeps its form of ids."""
    asked = structs.replace(play.asked, family="")
    reply = play.reply
    if play.asked.family == "kimi_k2" and asked.request.dialect != "anthropic":
        before = calls_made(asked.request)
        calls = tuple(
            structs.replace(call, id=f"functions.{call.name}:{before + number}")
            for number, call in enumerate(reply.calls)
        )
        reply = structs.replace(reply, calls=calls)
    return structs.replace(play, asked=asked, reply=reply)


def _leak_reasoning(play: Play, _value: str) -> Play:
    if not play.asked.family:
        raise MalformedError(
            "only a family that writes calls as text can leak them into its reasoning"
        )
    return structs.replace(play, style=structs.replace(play.style, leak=True))


def _leak_both(play: Play, value: str) -> Play:
    play = _leak_reasoning(play, value)
    style = structs.replace(play.style, reasoning_fields=("reasoning", "reasoning_content"))
    return structs.replace(play, style=style)


def _refuse(play: Play, _value: str) -> Play:
    text = play.reply.text[: len(play.reply.text) // 2]
    return _with_reply(
        play, structs.replace(play.reply, text=text, calls=(), finish="content_filter")
    )


def _length(play: Play, _value: str) -> Play:
    return _with_reply(play, truncation.inside_call(play.reply))


def _changed_arguments(play: Play, change: Callable[[str], str]) -> Play:
    """Change the text of the arguments: of structural calls, and of calls written with JSON."""
    reply = play.reply
    calls = tuple(structs.replace(one, arguments=change(one.arguments)) for one in reply.calls)
    text, reasoning = reply.text, reply.reasoning
    for call in reply.written:
        good = dumps(arguments_of(call))
        text = text.replace(good, change(good))
        reasoning = reasoning.replace(good, change(good))
    return _with_reply(play, structs.replace(reply, calls=calls, text=text, reasoning=reasoning))


def _bad_json(play: Play, _value: str) -> Play:
    return _changed_arguments(play, lambda arguments: f"{arguments[:-1]}, oops}}")


def _quoted_args(play: Play, _value: str) -> Play:
    return _changed_arguments(play, dumps)


def _cut_args(play: Play, _value: str) -> Play:
    """Cut the arguments in the middle, and report the same finish as for a whole answer."""
    cut = truncation.inside_call(play.reply)
    calls = tuple(structs.replace(call, complete=True) for call in cut.calls)
    return _with_reply(play, structs.replace(cut, calls=calls, finish=play.reply.finish))


def _pause(play: Play, value: str) -> Play:
    """Let the answer need further requests: see `paused_answers.py`."""
    return structs.replace(play, style=structs.replace(play.style, pauses=int(value)))


def _late(play: Play, _value: str) -> Play:
    return play  # `due` leaves the faults out until then


ROWS: Final = (
    Quirk("leak-reasoning", "", "calls as text are in the reasoning", _leak_reasoning),
    Quirk(
        "leak-both",
        "",
        "the same, in Chat's `reasoning` and `reasoning_content` at once",
        _leak_both,
    ),
    Quirk("think", "", "it always thinks, also if the request does not ask for it", think),
    Quirk(
        "think-tags",
        "",
        "its reasoning is in the text, between <think> and </think>",
        _think_tags,
    ),
    Quirk(
        "think-close",
        "",
        "the same, but the first tag is missing",
        _think_close,
    ),
    Quirk("loose-args", "", "the last argument is missing, and numbers are strings", _loose_args),
    Quirk("parallel", "N", "it makes N calls in one answer", _parallel, bounds=(0, 1_000)),
    Quirk("args", "KB", "one argument of each call is a string of that size", _args, bounds=_KB),
    Quirk("text", "KB", "its text has that size", _text, bounds=_KB),
    Quirk("structural", "", "calls are structured, whatever the family", _structural),
    Quirk("ids", "X", "every call has the id X", _ids),
    Quirk(
        "search",
        "HOST",
        f"plays the web search of this Chat host, which accepts only its own fields: {', '.join(HOSTS)}",
        _search,
        words=HOSTS,
    ),
    Quirk("refuse", "", "a content filter ends the answer", _refuse),
    Quirk(
        "bad-json-args", "", "the arguments of calls are not JSON", _bad_json, "written", fault=True
    ),
    Quirk(
        "quoted-args",
        "",
        "the arguments of calls are a JSON string that contains the object",
        _quoted_args,
        "written",
        fault=True,
    ),
    Quirk(
        "cut-args",
        "",
        "the arguments of the last call end in the middle, but the finish reason is that of a complete call",
        _cut_args,
        "written",
        fault=True,
    ),
    Quirk("length", "", "the token limit ends the answer inside a call", _length, "written"),
    Quirk(
        "pause",
        "N",
        "it pauses the answer N times: Messages with `pause_turn`, Chat for Moonshot's `$web_search`, Gemini with"
        " `CONTINUATION`",
        _pause,
        bounds=(1, 1_000),
    ),
    Quirk(LATE, "", "its faults begin in the request that continues a paused answer", _late),
)
