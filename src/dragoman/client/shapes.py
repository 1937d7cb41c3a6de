"""Messages as other programs write them: in the shape of any dialect, or just a role and a text."""

from typing import Any, Final

import msgspec

from dragoman.dialects import dialect as find_dialect
from dragoman.errors import MalformedError
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.turn.request import DialectName, Request
from dragoman.wire.json_values import read_float

# Where a dialect's requests hold the conversation, and what else they must have.
_BODIES: Final[dict[DialectName, bytes]] = {
    "chat": b'{"model":"m","messages":%b}',
    "anthropic": b'{"model":"m","max_tokens":1,"messages":%b}',
    "responses": b'{"model":"m","input":%b}',
}
# Kinds of content that only one dialect has.
_OWN: Final[dict[str, DialectName]] = {
    **dict.fromkeys(("input_text", "output_text", "input_image", "input_file"), "responses"),
    **dict.fromkeys(
        ("tool_use", "tool_result", "thinking", "redacted_thinking", "document", "image"),
        "anthropic",
    ),
    **dict.fromkeys(("image_url", "input_audio", "file"), "chat"),
}
_MESSAGES: Final = msgspec.json.Decoder(list[dict[str, Any]], float_hook=read_float)


def read_messages(messages: bytes, *, limits: Limits = DEFAULT_LIMITS) -> Request:
    """Read a JSON list of messages; of the request that is returned, only the conversation counts.

    Raises:
        MalformedError: it is no list, or not of the dialect that its shape shows; carries the path.
        TooLargeError: it passes a limit.
    """
    name = shape_of(messages)
    body = _BODIES[name] % messages
    try:
        return find_dialect(name).decode_request(body, sealer=None, limits=limits)
    except MalformedError as error:
        path = error.path.replace("$.input", "$.messages", 1)
        raise type(error)(error.reason, path=path, code=error.code) from error


def shape_of(messages: bytes) -> DialectName:
    """Return the dialect whose shape messages have; a role and a text are of all: `chat` then.

    Raises:
        MalformedError: it is no list of objects.
    """
    try:
        found = _MESSAGES.decode(messages)
    except (ValueError, RecursionError) as error:
        raise MalformedError(f"messages are a JSON list of objects: {error}") from error
    for message in found:
        if "type" in message:
            return "responses"  # its items have kinds; messages of the others have roles alone
        content = message.get("content")
        for part in content if isinstance(content, list) else ():
            kind = part.get("type") if isinstance(part, dict) else None
            if isinstance(kind, str) and kind in _OWN:
                return _OWN[kind]
    return "chat"
