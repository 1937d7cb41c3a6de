"""Lines in the user's text that say exactly what the model answers.

    sim: think TEXT
    sim: say TEXT
    sim: call NAME {"json": "arguments"}      several lines: parallel calls of one answer
    sim: then                                 what follows is for the next answer, after the tools' results

A TEXT that begins with a quote is a JSON string, for line feeds and the like.  Which answer is due is
counted from the history, so the model needs no memory.
"""

import re
from typing import Final

import msgspec
from msgspec import Struct

from dragoman.errors import MalformedError
from dragoman.simulator.conversation import Prompt
from dragoman.simulator.play import Fields, Json

_LINE: Final = re.compile(r"^[ \t]*sim:[ \t]*(\w+)[ \t]*+(.*)$", re.MULTILINE)
_CALL: Final = re.compile(r"(\S+)[ \t]*(.*)", re.DOTALL)


class AskedCall(Struct, frozen=True):
    name: str
    arguments: Json  # an object, or text for a custom tool


class Step(Struct, frozen=True):
    """One answer that was asked for."""

    think: str = ""
    say: str = ""
    calls: tuple[AskedCall, ...] = ()


def due(conversation: list[Prompt]) -> Step | None:
    """Return the step that is due now, or None if nothing was asked for.

    Raises:
        MalformedError: a directive is not understood.
    """
    for back, prompt in enumerate(reversed(conversation)):
        steps = parse("\n".join(prompt.texts))
        if steps:
            return steps[back] if back < len(steps) else None
        if not prompt.results:
            return None
    return None


def parse(text: str) -> list[Step]:
    """Return the steps that a text asks for.

    Raises:
        MalformedError: a directive is not understood.
    """
    lines = _LINE.findall(text) if "sim:" in text else []
    if not lines:
        return []
    steps = [Step()]
    for verb, said in lines:
        rest = said.rstrip(" \t\r")
        last = steps[-1]
        match verb:
            case "then":
                steps.append(Step())
            case "say":
                steps[-1] = msgspec.structs.replace(last, say=_text(rest))
            case "think":
                steps[-1] = msgspec.structs.replace(last, think=_text(rest))
            case "call":
                steps[-1] = msgspec.structs.replace(last, calls=(*last.calls, _call(rest)))
            case _:
                raise MalformedError(
                    f"no directive `sim: {verb}`; there are say, think, call and then"
                )
    return steps


def _text(rest: str) -> str:
    if not rest.startswith('"'):
        return rest
    try:
        return msgspec.json.decode(rest, type=str)
    except msgspec.DecodeError:
        return rest


def _call(rest: str) -> AskedCall:
    found = _CALL.fullmatch(rest)
    if found is None:
        raise MalformedError("`sim: call` needs the name of a tool")
    name, arguments = found.groups()
    empty: Fields = {}
    try:
        value: Json = msgspec.json.decode(arguments) if arguments else empty
    except msgspec.DecodeError as error:
        raise MalformedError(
            f"the arguments of `sim: call {name}` are not JSON: {error}"
        ) from error
    if not isinstance(value, dict | str):
        raise MalformedError(
            f"the arguments of `sim: call {name}` are neither an object nor a string"
        )
    return AskedCall(name, value)
