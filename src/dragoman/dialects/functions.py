"""Functions and free-form tools, as far as every upstream is told the same of them."""

from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.encoding import encode
from dragoman.limits import Limits
from dragoman.turn.arguments import JsonArguments
from dragoman.turn.events import Flavor
from dragoman.turn.losses import Loss
from dragoman.turn.request import Tool, ToolCallPart

NO_ARGUMENTS: Final = Raw(b'{"type":"object","properties":{}}')
# A free-form tool, for upstreams that know functions only.
FREE_INPUT: Final = Raw(
    b'{"type":"object","properties":{"input":{"type":"string"}},"required":["input"],'
    b'"additionalProperties":false}'
)
_CUSTOM: Final = Flavor.CUSTOM


class AnyObject(Struct, gc=False):
    """An object, whatever it holds: looked at, and not built."""


_OBJECT: Final = msgspec.json.Decoder(AnyObject)


def description_with_grammar(tool: Tool) -> str:
    """Return what a tool is for, and the grammar of its input, if it has one, in words."""
    if tool.grammar is None:
        return tool.description
    syntax, definition = tool.grammar
    rule = f"The input must match this {syntax} grammar:\n{definition}"
    return f"{tool.description}\n\n{rule}" if tool.description else rule


def wrapped_text(text: str) -> str:
    """Return an object that holds arguments which are none."""
    return encode({"_raw": text}).decode()


def object_arguments(part: ToolCallPart, limits: Limits, losses: list[Loss], path: str) -> str:
    """Return a call's arguments as an object, for an upstream that takes nothing else.

    What cannot be repaired without inventing an end is wrapped as `{"_raw": …}`.
    """
    if part.flavor is _CUSTOM:
        return encode({"input": part.arguments}).decode()
    try:
        _OBJECT.decode(part.arguments)
    except (msgspec.DecodeError, UnicodeEncodeError):
        arguments = JsonArguments(limits=limits)
        text = arguments.feed(part.arguments)
        ending = arguments.end()
        if part.arguments.strip():
            losses.append(Loss("args_repaired", path, f"call {part.id}"))
        if not ending.whole:
            return wrapped_text(part.arguments)
        return text + ending.text
    return part.arguments
