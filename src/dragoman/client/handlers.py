"""One of the caller's own functions, run for a call of the model, and what came of it."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

from msgspec import Struct

from dragoman.client.tool_calls import Call
from dragoman.turn.events import Flavor

Handlers: TypeAlias = Mapping[str, Callable[..., object]]


class Outcome(Struct, frozen=True):
    value: object
    is_error: bool = False


def failed(error: Exception) -> Outcome:
    return Outcome(f"{type(error).__name__}: {error}", is_error=True)


def outcome_of(call: Call, handlers: Handlers) -> Outcome:
    """Run one of the caller's functions, if the call is a good one."""
    handler = handlers.get(call.name)
    if call.problem or handler is None:
        return Outcome(call.problem or f"there is no tool `{call.name}`", is_error=True)
    try:
        free = call.flavor is Flavor.CUSTOM
        return Outcome(handler(call.arguments) if free else handler(**call.values))
    except Exception as error:  # noqa: BLE001 -- the caller's function, told to the model
        return failed(error)
