"""Families that write calls as expressions: in Python's syntax, or in the family's own."""

from collections.abc import Callable
from typing import Final

from dragoman.simulator.native.family import (
    Family,
    NativeCall,
    Render,
    array,
    dumps,
    each,
    raw,
    within,
)
from dragoman.simulator.play import Json


def python_call(call: NativeCall) -> str:
    inner = ", ".join(f"{key}={value!r}" for key, value in call.arguments.items())
    return f"{call.name}({inner})"


def python_objects(calls: list[NativeCall]) -> str:
    listed = [{"name": call.name, "arguments": call.arguments} for call in calls]
    return f"<|tool_calls|>{listed!r}"


def _quoted(quote: str) -> Callable[[Json], str]:
    def value(one: Json) -> str:
        match one:
            case str():
                return f"{quote}{one}{quote}"
            case dict():
                return "{" + ",".join(f"{key}:{value(item)}" for key, item in one.items()) + "}"
            case list():
                return "[" + ",".join(map(value, one)) + "]"
            case _:
                return dumps(one)

    return value


def gemma(before: str, after: str, quote: str) -> Render:
    value = _quoted(quote)
    return each(before, after, lambda call: f"call:{call.name}{value(call.arguments)}")


def functiongemma(calls: list[NativeCall]) -> str:
    return "".join(
        f"<start_function_call>call:{call.name}{{"
        + ",".join(f"{key}:<escape>{raw(value)}<escape>" for key, value in call.arguments.items())
        + "}<end_function_call>"
        for call in calls
    )


FAMILIES: Final[dict[str, Family]] = {
    "pythonic": Family(array("", "", python_call), before=False),
    "olmo3": Family(
        within(("<function_calls>\n", "\n</function_calls>"), each("", "", python_call, "\n"))
    ),
    "lfm2": Family(array("<|tool_call_start|>", "<|tool_call_end|>", python_call)),
    "functiongemma": Family(functiongemma, typed=True),
    "gemma4": Family(gemma("<|tool_call>", "<tool_call|>", '<|"|>')),
    "sarashina": Family(python_objects, after=False),
}
