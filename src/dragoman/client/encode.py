"""A request in the server's dialect, what a strict client demands of it, and the reader of its answer.  No I/O."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from msgspec import Struct, structs
from yarl import URL

from dragoman.answer_reader import AnswerReader, read_body
from dragoman.client.errors import ClientError
from dragoman.client.settings import Settings
from dragoman.context import Target
from dragoman.dialects.server_tools import check_needed
from dragoman.errors import MisuseError, TooLargeError
from dragoman.profiles import for_model
from dragoman.toolcalls.detection import bare_name, known_family
from dragoman.toolcalls.schema_types import resolved
from dragoman.turn.answer import Answer
from dragoman.turn.events import FaultKind
from dragoman.turn.losses import Loss
from dragoman.turn.request import Request, Tool
from dragoman.wire.json_values import decode_any

_ACCEPT: Final = {True: "text/event-stream", False: "application/json"}


class Prepared(Struct, frozen=True):
    """One request in the server's dialect."""

    request: Request
    url: URL
    body: bytes
    headers: dict[str, str]
    losses: tuple[Loss, ...]  # what the dialect or the server cannot express
    stop: tuple[str, ...]  # stop sequences that the server cannot match: matched on the answer
    settings: Settings

    def reader(self) -> AnswerReader:
        """Return the reader of a streamed answer."""
        settings = self.settings
        return AnswerReader(
            source=settings.dialect.name,
            model=self.request.model,
            native_format=settings.native_format,
            stop=self.stop,
            profile=settings.profile,
            request=self.request,
            strict=settings.strict,
            limits=settings.limits,
        )

    def read(self, body: bytes) -> Answer:
        """Return a complete answer, from its body."""
        settings = self.settings
        answer = read_body(
            body,
            source=settings.dialect.name,
            model=self.request.model,
            native_format=settings.native_format,
            stop=self.stop,
            profile=settings.profile,
            request=self.request,
            strict=settings.strict,
            limits=settings.limits,
        )
        return (
            structs.replace(answer, losses=self.losses + answer.losses) if self.losses else answer
        )


def prepare(request: Request, settings: Settings, *, stream: bool) -> Prepared:
    """Write a request in the server's dialect.

    Raises:
        MisuseError: it is not a `Request`, it names no model, or a strict client got a tool without a schema.
        MalformedError: the conversation is inconsistent: a result without its call, for example.
        UntranslatableError: the server's dialect cannot express the request.
        ClientError: the request exceeds `max_request_bytes`.
    """
    if not isinstance(request, Request):
        raise MisuseError(f"a request must be made by `request(…)`, not `{type(request).__name__}`")
    model = request.model or settings.model
    if not model:
        raise MisuseError("no model: name one for the client or for the request")
    if settings.strict:
        for tool in request.tools:
            check_described(tool)
    # A request of `request(…)` takes the server's dialect; one with another dialect's fields keeps it.
    name = request.dialect if request.extensions else settings.dialect.name
    request = structs.replace(request, dialect=name, model=model, stream=stream)
    target = Target(
        profile=for_model(
            settings.profile, bare_name(model), known_family(model), settings.dialect.name
        ),
        model=model,
        strict=settings.strict,
        limits=settings.limits,
    )
    check_needed(request, settings.dialect, target.profile)
    encoded = settings.dialect.encode_request(request, target)
    most = settings.limits.max_request_bytes
    if len(encoded.body) > most:
        passed = TooLargeError("max_request_bytes", most)
        why = f"the request is not sent: {passed}"
        raise ClientError("limit", why, code=passed.limit, kind=FaultKind.TOO_LARGE)
    path, body = settings.dialect.wire_request(encoded.body)
    url = URL(f"{settings.base_url}{path}") if path != settings.dialect.path else settings.url
    return Prepared(
        request,
        url,
        body,
        settings.dialect.with_needed_headers(
            {"accept": _ACCEPT[stream], **settings.headers}, encoded.body
        ),
        request.losses + encoded.losses,
        encoded.stop,
        settings,
    )


# --- tools of a strict client: a description, and a valid JSON schema ---
#
# The schema is sent as it is.  Keywords that are not listed below are not checked.

_DEPTH: Final = 64  # deeper schemas are not checked
_TYPES: Final = frozenset({"string", "integer", "number", "boolean", "object", "array", "null"})


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_type(value: Any) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(name, str) and name in _TYPES for name in names)


def _are_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


def _are_values(value: Any) -> bool:
    return isinstance(value, list) and bool(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


Rule: TypeAlias = tuple[
    Callable[[Any], bool], str
]  # whether a keyword's value is valid, and the message if it is not

_WORDS: Final[dict[str, Rule]] = {
    "type": (_is_type, f"must be one or several of {', '.join(sorted(_TYPES))}"),
    "required": (_are_names, "must be a list of names"),
    "enum": (_are_values, "must be a list of values"),
    **dict.fromkeys(
        ("title", "description", "pattern", "format", "$ref"), (_is_text, "must be a string")
    ),
    **dict.fromkeys(
        ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
        (_is_number, "must be a number"),
    ),
    **dict.fromkeys(
        ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"),
        (_is_count, "must be a number from 0"),
    ),
}
_SCHEMA: Final = frozenset({"items", "additionalProperties", "not", "contains", "propertyNames"})
_LIST: Final = frozenset({"anyOf", "oneOf", "allOf", "prefixItems"})
_NAMED: Final = frozenset({"properties", "patternProperties", "$defs", "definitions"})


def check_described(tool: Tool) -> None:
    """Check a tool's description and schema; a vendor's own tools need none.

    Raises:
        MisuseError: the tool has no description, or no valid JSON schema of its arguments.
    """
    if tool.server or tool.raw is not None:
        return
    if not tool.description:
        raise MisuseError(f"the tool `{tool.name}` has no description")
    if tool.schema is None:
        if tool.grammar is None:
            raise MisuseError(f"the tool `{tool.name}` has no schema of its arguments")
        return
    if why := schema_fault(bytes(tool.schema)):
        raise MisuseError(f"the tool `{tool.name}` has no valid schema of its arguments: {why}")


def schema_fault(schema: bytes) -> str:
    """Return why this is not a JSON schema of a tool's arguments; empty: it is one."""
    try:
        root = decode_any(schema)
    except (ValueError, RecursionError) as error:
        return f"it is not JSON: {error}"
    if not isinstance(root, dict):
        return "it is not an object"
    fault = _fault(root, root, "$", _DEPTH)
    stated = root.get("type", "object")
    if (
        not fault
        and stated != "object"
        and (not isinstance(stated, list) or "object" not in stated)
    ):
        return "`$.type` must be object: arguments have names"
    return fault


def _fault(schema: Any, root: dict[str, Any], path: str, depth: int) -> str:
    if isinstance(schema, bool) or not depth:
        return ""
    if not isinstance(schema, dict):
        return f"`{path}` is not a schema"
    for word, (fits, problem) in _WORDS.items():
        if word in schema and not fits(schema[word]):
            return f"`{path}.{word}` {problem}"
    reference = schema.get("$ref", "")
    if reference.startswith("#") and resolved(schema, root) is None:
        return f"`{path}.$ref` has no target"
    for word, value in schema.items():
        if fault := _below(word, value, root, f"{path}.{word}", depth - 1):
            return fault
    return ""


def _below(word: str, value: Any, root: dict[str, Any], path: str, depth: int) -> str:
    """Return what is wrong with the schemas inside a keyword's value."""
    if word in _SCHEMA and not (word == "items" and isinstance(value, list)):
        return _fault(value, root, path, depth)
    if word in _LIST or (word == "items" and isinstance(value, list)):
        if not isinstance(value, list) or not value:
            return f"`{path}` must be a list of schemas"
        inside = [(f"{path}[{at}]", one) for at, one in enumerate(value)]
    elif word in _NAMED:
        if not isinstance(value, dict):
            return f"`{path}` must be an object of schemas"
        inside = [(f"{path}.{name}", one) for name, one in value.items()]
    else:
        return ""
    return next((why for at, one in inside if (why := _fault(one, root, at, depth))), "")
