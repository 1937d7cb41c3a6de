"""Building blocks of the renderers of each family's calls."""

import json
from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from dragoman.simulator.play import Json

Arguments: TypeAlias = dict[str, Json]


class NativeCall(NamedTuple):
    name: str
    arguments: Arguments
    before: int = 0  # calls that the conversation held before this answer


Render: TypeAlias = Callable[[list[NativeCall]], str]
RenderOne: TypeAlias = Callable[[NativeCall], str]


class Family(NamedTuple):
    """How a family writes calls, and the limits of its grammar."""

    render: Render
    typed: bool = False  # values need the tool's schema
    before: bool = True  # text may precede the calls
    after: bool = True  # text may follow the calls
    trims: bool = False  # blanks around a string are not kept
    most: int = 4  # calls in one answer
    declared: bool = False  # only declared tools are calls


def dumps(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def raw(value: Json) -> str:
    """Write a value between tags."""
    return value if isinstance(value, str) else dumps(value)


def each(before: str, after: str, one: RenderOne, between: str = "") -> Render:
    """Write every call between its own markers."""
    return lambda calls: between.join(f"{before}{one(call)}{after}" for call in calls)


def array(before: str, after: str, one: RenderOne) -> Render:
    """Write all calls as one list."""
    return lambda calls: f"{before}[{', '.join(map(one, calls))}]{after}"


def within(outer: tuple[str, str], inner: Render) -> Render:
    """Write a section around calls."""
    return lambda calls: f"{outer[0]}{inner(calls)}{outer[1]}"


def objects(name: str = "name", arguments: str = "arguments") -> RenderOne:
    """Write a call as a JSON object."""
    return lambda call: dumps({name: call.name, arguments: call.arguments})
