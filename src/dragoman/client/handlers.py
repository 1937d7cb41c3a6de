"""One of the caller's own functions, run for a call of the model, and what came of it."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct

from dragoman.turn.answer import ToolCall
from dragoman.turn.events import Flavor

Handlers: TypeAlias = Mapping[str, Callable[..., object]]


class Outcome(Struct, frozen=True):
    value: object
    is_error: bool = False


def failed(error: Exception) -> Outcome:
    return Outcome(f"{type(error).__name__}: {error}", is_error=True)


def outcome_of(call: ToolCall, handlers: Handlers) -> Outcome:
    """Run one of the caller's functions, if the call is a good one."""
    handler = handlers.get(call.name)
    if call.error or handler is None:
        return Outcome(call.error or f"there is no tool `{call.name}`", is_error=True)
    try:
        free = call.flavor is Flavor.CUSTOM
        return Outcome(handler(call.arguments) if free else handler(**call.args))
    except Exception as error:  # noqa: BLE001 -- the caller's function, told to the model
        return failed(error)
