"""Messages as other programs write them: in the shape of any dialect, or just a role and a text."""

from typing import Any, Final

import msgspec

from dragoman.dialects import DEFAULT_DIALECT, dialect_names
from dragoman.dialects import dialect as find_dialect
from dragoman.errors import MalformedError
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.turn.request import DialectName, Request
from dragoman.wire.json_values import read_float

_MESSAGES: Final = msgspec.json.Decoder(list[dict[str, Any]], float_hook=read_float)


def read_messages(messages: bytes, *, limits: Limits = DEFAULT_LIMITS) -> Request:
    """Read a JSON list of messages; of the request that is returned, only the conversation counts.

    Raises:
        MalformedError: it is no list, or not of the dialect that its shape shows; carries the path.
        TooLargeError: it passes a limit.
    """
    name = shape_of(messages)
    body = find_dialect(name).least_request % (messages, b"[]")
    try:
        return find_dialect(name).decode_request(body, sealer=None, limits=limits)
    except MalformedError as error:
        path = error.path.replace("$.input", "$.messages", 1)
        raise type(error)(error.reason, path=path, code=error.code) from error


def shape_of(messages: bytes) -> DialectName:
    """Return the dialect whose shape messages have; a role and a text are of all: the default one then.

    Raises:
        MalformedError: it is no list of objects.
    """
    try:
        found = _MESSAGES.decode(messages)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"messages are a JSON list of objects: {error}") from error
    dialects = [find_dialect(name) for name in dialect_names()]
    for message in found:
        if "type" in message:  # messages of most dialects have a role alone
            return next((one.name for one in dialects if one.typed_messages), DEFAULT_DIALECT)
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            for one in dialects if isinstance(kind, str) else ():
                if kind in one.own_types:
                    return one.name
    return DEFAULT_DIALECT
