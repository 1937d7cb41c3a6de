"""Decodes JSON of a peer into declared types; errors carry the path of the field."""

import re
from enum import Enum
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct, structs

from dragoman.errors import MalformedError, NotJsonError, TooLargeError
from dragoman.limits import Limits
from dragoman.wire.json_values import has_more, has_more_items

T = TypeVar("T")

_AT_PATH: Final = re.compile(r"(?P<reason>.*) - at `(?P<path>[^`]*)`\Z", re.DOTALL)
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
# One escape, read from left to right so that a backslash that is itself escaped starts nothing.
_ESCAPE: Final = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"
    rb"|u(?P<half>[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
# Halves of surrogate pairs are replaced by private-use characters while the JSON is decoded.
_PRIVATE: Final = 0x100000
_PLACEHOLDER: Final = re.compile("[\U0010d800-\U0010dfff]")
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])


def decode(decoder: msgspec.json.Decoder[T], data: bytes) -> T:
    """Decode `data`, or raise `MalformedError` with the path of what is wrong.

    Bytes that are not UTF-8 are replaced by U+FFFD, and half surrogate pairs are kept as such (some
    peers cut a pair over two events), so that neither costs the turn.
    """
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        raise malformed(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        data = bytes(data)  # of a `Raw`, which lacks the methods
        repaired = data.decode("utf-8", "replace").encode()
        if repaired == data and not _SURROGATE.search(data):
            raise NotJsonError(f"not valid JSON: {error}") from None
    except RecursionError:
        raise NotJsonError("the JSON nests too deeply") from None
    try:
        return _restored(decoder.decode(_ESCAPE.sub(_placeholder, repaired)))  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise malformed(error) from None
    except msgspec.DecodeError as error:
        raise NotJsonError(f"not valid JSON: {error}") from None
    except RecursionError:
        raise NotJsonError("the JSON nests too deeply") from None


def valid_utf8(data: bytes) -> bytes:
    """Return `data` with U+FFFD for bytes that are not UTF-8: a decoder does not look at parts that it returns as `Raw`."""
    return data if data.isascii() else data.decode("utf-8", "replace").encode()


def decode_at(decoder: msgspec.json.Decoder[T], raw: Raw | bytes, path: str) -> T:
    """Decode JSON that was found at `path` of a larger document.

    Raises:
        MalformedError: with the whole path of what is wrong.
    """
    try:
        return decode(decoder, bytes(raw))
    except MalformedError as error:
        inner = error.path.removeprefix("$")
        raise type(error)(error.reason, path=path + inner, code=error.code) from None


def decode_or_none(decoder: msgspec.json.Decoder[T], data: Raw | bytes | str) -> T | None:
    """Return what a peer's JSON holds; None if it has another shape: for what an exchange can do without."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def decode_fields(body: bytes) -> dict[str, Raw]:
    """Decode the fields of a request, each as it is written.

    Raises:
        MalformedError: it is not an object.
    """
    return decode(_FIELDS, body)


def check_size(body: bytes, limits: Limits) -> None:
    """Refuse a request that is too large to be read.

    Raises:
        TooLargeError: it passes `max_request_bytes`, `max_json_items` or `max_json_escapes`.
    """
    if len(body) > limits.max_request_bytes:
        raise TooLargeError("max_request_bytes", limits.max_request_bytes)
    check_json(body, limits)


def check_json(text: bytes, limits: Limits) -> None:
    """Refuse JSON that a decoder, which nothing interrupts, would take too long to read.

    Raises:
        TooLargeError: it passes `max_json_items` or `max_json_escapes`.
    """
    size = len(text)
    if size > limits.max_json_items and has_more_items(text, limits.max_json_items):
        raise TooLargeError("max_json_items", limits.max_json_items)
    if size > limits.max_json_escapes and has_more(text, b"\\", limits.max_json_escapes):
        raise TooLargeError("max_json_escapes", limits.max_json_escapes)


def check_complete(body: bytes, limits: Limits) -> None:
    """Refuse a complete answer that would take too long to decode in one piece.

    Raises:
        TooLargeError: it passes `max_complete_bytes`, `max_json_items` or `max_json_escapes`.
    """
    if len(body) > limits.max_complete_bytes:
        raise TooLargeError("max_complete_bytes", limits.max_complete_bytes)
    check_json(body, limits)


def check_messages(count: int, limits: Limits) -> None:
    """Refuse a conversation of too many messages or items.

    Raises:
        TooLargeError: it passes `max_messages`.
    """
    if count > limits.max_messages:
        raise TooLargeError("max_messages", limits.max_messages)


def _placeholder(escape: re.Match[bytes]) -> bytes:
    half = escape["half"]
    return escape[0] if half is None else chr(_PRIVATE + int(half, 16)).encode()


def _restored(value: Any) -> Any:
    """Replace the private-use characters by the halves of surrogate pairs again."""
    match value:
        case Enum():
            return value
        case str():
            return _PLACEHOLDER.sub(lambda one: chr(ord(one[0]) - _PRIVATE), value)
        case Raw():
            text = bytes(value).decode()
            text = _PLACEHOLDER.sub(lambda one: f"\\u{ord(one[0]) - _PRIVATE:04x}", text)
            return Raw(text.encode())
        case list() | tuple():
            return type(value)(map(_restored, value))
        case dict():
            return {_restored(key): _restored(one) for key, one in value.items()}
        case Struct():
            fields = {name: _restored(getattr(value, name)) for name in value.__struct_fields__}
            return structs.replace(value, **fields)
        case _:
            return value


def malformed(error: msgspec.ValidationError) -> MalformedError:
    """Return our error for a value of the wrong shape."""
    match = _AT_PATH.match(str(error))
    if match:
        return MalformedError(_lower_first(match["reason"]), path=match["path"])
    return MalformedError(_lower_first(str(error)), path="$")


def _lower_first(text: str) -> str:
    return text[:1].lower() + text[1:]


_ENTRIES: Final[msgspec.json.Decoder[list[Raw] | None]] = msgspec.json.Decoder(list[Raw] | None)


def entries_of(raw: Raw) -> list[Raw]:
    """Return the entries of a JSON list, each as it is written; none for `null`.

    Raises:
        MalformedError: it is not a list.
    """
    found = decode(_ENTRIES, raw)
    return [] if found is None else found
