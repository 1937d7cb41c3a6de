"""Finds the calls of an answer, structured or written as text, and the family that wrote the text."""

import re
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from msgspec import Raw, Struct

from dragoman.probe.questions import Question
from dragoman.probe.response import Response
from dragoman.toolcalls.detection import known_family
from dragoman.toolcalls.format import Format
from dragoman.toolcalls.format_names import installed_formats, matches_model
from dragoman.toolcalls.formats import AUTO, FORMATS
from dragoman.toolcalls.parser import Parsed, parse
from dragoman.turn.answer import Answer
from dragoman.turn.request import Tool

CallPlace: TypeAlias = Literal["content", "reasoning"]
_KIMI_ID: Final = re.compile(r"functions\.[^:]+:\d+")
_PLACES: Final[tuple[CallPlace, ...]] = ("content", "reasoning")


class Made(Struct, frozen=True):
    """One call."""

    id: str
    name: str
    arguments: str
    complete: bool = True


class Leak(Struct, frozen=True):
    """Calls that are written as text."""

    family: str  # key of the family, `auto` if it is not recognized
    place: CallPlace
    calls: tuple[Made, ...]


def is_kimi_id(call_id: str) -> bool:
    """Return whether a call id has the form that Kimi uses."""
    return _KIMI_ID.fullmatch(call_id) is not None


def structural(answer: Answer) -> tuple[Made, ...]:
    """Return the structured calls of an answer."""
    return tuple(Made(one.call_id, one.name, one.text, one.complete) for one in answer.call_blocks)


def made(
    response: Response, question: Question, model: str, own: tuple[Format, ...] = ()
) -> tuple[Made, ...]:
    """Return the structured calls of an answer; without any, the calls written in its text.

    Raises:
        UnansweredError: there is no complete answer.
    """
    found = structural(response.whole)
    if found:
        return found
    leak = leaked(response, question, model, own)
    return () if leak is None else leak.calls


def leaked(
    response: Response, question: Question, model: str, own: tuple[Format, ...] = ()
) -> Leak | None:
    """Find calls that are written in the text or the reasoning of an answer; `own`: formats of the settings.

    Raises:
        UnansweredError: there is no complete answer.
    """
    answer = response.whole
    if answer.call_blocks:
        return None
    for place, text in zip(_PLACES, (answer.text, answer.reasoning), strict=True):
        names = any(one.name in text for one in question.tools)
        if names and (found := _family(text, place, question, _known(model, own), own)):
            key, parsed = found
            calls = tuple(
                Made(one.id, one.name, one.arguments, one.complete) for one in parsed.tool_calls
            )
            return Leak(key, place, calls)
    return None


def _known(model: str, own: tuple[Format, ...]) -> str | None:
    """Return the key of the format that a model is known to write."""
    theirs = next((one.key for one in own if matches_model(one, model)), None)
    return theirs or known_family(model)


@lru_cache(maxsize=64)  # several checks look at the same answer
def _family(
    text: str, place: CallPlace, question: Question, known: str | None, own: tuple[Format, ...]
) -> tuple[str, Parsed] | None:
    """Return the format that parses most of a text; on a tie, the model's own, then one of the settings."""
    tools = [Tool(name=one.name, schema=Raw(one.schema.encode())) for one in question.tools]

    def read(format_: Format) -> Parsed:
        return parse(text, format=format_, tools=tools, channel=place)

    formats = sorted(
        (*own, *installed_formats(), *FORMATS.values()), key=lambda one: one.key != known
    )
    sure = [AUTO, *own, *(one for one in formats[:1] if one.key == known)]
    if known is not None and not any(read(one).tool_calls for one in sure):
        return None  # the model's format is known, and neither its parser nor `auto` finds a call
    parsed = ((one.key, read(one)) for one in formats)
    found = [(key, one) for key, one in parsed if one.tool_calls]
    return min(found, key=lambda pair: _left(pair[1]), default=None)


def _left(parsed: Parsed) -> tuple[int, int]:
    """Return how much of the text a format could not parse: problems, then characters; blanks do not count."""
    problems = [one for one in parsed.problems if one.code != "native_blank_dropped"]
    return len(problems), len(parsed.content.strip()) + len(parsed.reasoning.strip())
