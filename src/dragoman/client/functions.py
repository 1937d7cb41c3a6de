"""Python functions as tools: the JSON schema of one from its annotations and docstring, and how it is run.

Nothing is guessed: an argument without an annotation may have any type.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, get_type_hints

import msgspec
from msgspec import Raw, Struct

from dragoman.errors import MisuseError
from dragoman.turn.answer import ToolCall
from dragoman.turn.events import Flavor

# What `ToolLoop.run` takes: functions, called by their names, or a mapping from tool names to functions.
Functions: TypeAlias = Mapping[str, Callable[..., object]] | Iterable[Callable[..., object]]

# `name: what it is`, below a line that says `Args:`.
_SECTION: Final = re.compile(r"^(?:args|arguments|parameters):\s*$", re.IGNORECASE)
_ARGUMENT: Final = re.compile(r"^(?P<name>\*{0,2}\w+)(?:\s*\([^)]*\))?:\s*(?P<description>.*)$")
_HEADING: Final = re.compile(r"^\w[\w ]*:\s*$")


def description_of(function: Callable[..., object]) -> str:
    """Return what the docstring says of the function, without its sections."""
    description, _ = _read(function)
    return description


def schema_of(function: Callable[..., object]) -> Raw:
    """Return the JSON schema of a function's arguments.

    Raises:
        MisuseError: an annotation has no JSON schema, or an argument has no name.
    """
    try:
        hints = get_type_hints(function, include_extras=True)
        parameters = inspect.signature(function).parameters
    except (NameError, TypeError, ValueError) as error:
        raise MisuseError(f"the arguments of `{_name(function)}` cannot be read: {error}") from None
    _, description = _read(function)
    types: list[tuple[str, Any]] = []
    required: list[str] = []
    defaults: dict[str, object] = {}
    for name, parameter in parameters.items():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise MisuseError(f"`{_name(function)}`: `{name}` cannot be passed by keyword")
        types.append((name, hints.get(name, Any)))
        if parameter.default is parameter.empty:
            required.append(name)
        else:
            defaults[name] = parameter.default
    schemas, definitions = _schemas(function, types)
    properties = {}
    for (name, _type), schema in zip(types, schemas, strict=True):
        more: dict[str, object] = {}
        if name in description and "description" not in schema:
            more["description"] = description[name]
        if name in defaults and _is_plain(defaults[name]):
            more["default"] = defaults[name]
        properties[name] = schema | more
    found: dict[str, object] = {"type": "object", "properties": properties, "required": required}
    if definitions:
        found["$defs"] = definitions
    return Raw(msgspec.json.encode(found))


def _schemas(
    function: Callable[..., object], types: list[tuple[str, Any]]
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    try:
        schemas, definitions = msgspec.json.schema_components(
            [one for _name, one in types], ref_template="#/$defs/{name}"
        )
    except (TypeError, ValueError):
        name, declared = next((one for one in types if not _has_schema(one[1])), ("…", None))
        type_name = getattr(declared, "__name__", "") or str(declared)
        message = f"`{_name(function)}`: the type of `{name}`, `{type_name}`, has no JSON schema"
        raise MisuseError(message) from None
    return list(schemas), definitions


def _has_schema(declared: Any) -> bool:
    try:
        msgspec.json.schema_components([declared])
    except (TypeError, ValueError):
        return False
    return True


def _is_plain(value: object) -> bool:
    return value is None or isinstance(value, str | int | float | bool)


def _name(function: Callable[..., object]) -> str:
    return getattr(function, "__name__", repr(function))


def _read(function: Callable[..., object]) -> tuple[str, dict[str, str]]:
    """Return what a docstring says of a function, and of each argument."""
    lines = (inspect.getdoc(function) or "").splitlines()
    at = next((at for at, line in enumerate(lines) if _HEADING.match(line)), len(lines))
    description = " ".join(" ".join(lines[:at]).split())
    arguments: dict[str, str] = {}
    begin = next((at for at, line in enumerate(lines) if _SECTION.match(line)), len(lines))
    last = ""
    for line in lines[begin + 1 :]:
        if line and not line[0].isspace():
            break
        found = _ARGUMENT.match(line.strip())
        if found:
            last = found["name"].lstrip("*")
            arguments[last] = found["description"]
        elif last and line.strip():
            arguments[last] = f"{arguments[last]} {line.strip()}".strip()
    return description, arguments


# --- running a function for a call ------------------------------------------------------------------


class FunctionOutcome(Struct, frozen=True):
    """What a function returned, or the error that it raised."""

    value: object
    is_error: bool = False


def by_name(functions: Functions) -> Mapping[str, Callable[..., object]]:
    """Return functions by the names that a model calls them by.

    Raises:
        MisuseError: one of them has no name, or two have the same.
    """
    if isinstance(functions, Mapping):
        return functions
    found: dict[str, Callable[..., object]] = {}
    for function in functions:
        name = getattr(function, "__name__", "")
        if not callable(function) or not name.isidentifier():
            raise MisuseError(f"`{function!r}` is not a function with a name")
        if name in found:
            raise MisuseError(f"two functions are called `{name}`: pass a mapping instead")
        found[name] = function
    return found


def run_call(call: ToolCall, functions: Mapping[str, Callable[..., object]]) -> FunctionOutcome:
    """Run the function of a call; a call with an `error` is not run."""
    function = functions.get(call.name)
    if call.error or function is None:
        return FunctionOutcome(call.error or f"there is no tool `{call.name}`", is_error=True)
    try:
        free = call.flavor is Flavor.CUSTOM
        return FunctionOutcome(function(call.arguments) if free else function(**call.args))
    except Exception as error:  # noqa: BLE001 -- of the caller's function, sent to the model
        return failed(error)


def failed(error: Exception) -> FunctionOutcome:
    """Return an exception of a function as what the model gets."""
    return FunctionOutcome(f"{type(error).__name__}: {error}", is_error=True)
