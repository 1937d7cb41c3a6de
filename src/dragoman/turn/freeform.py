"""The free-form input of custom tools while it streams: plain text, whatever it is wrapped in."""

import re
from typing import Final

import msgspec

from dragoman.errors import TooLargeError
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.turn.arguments import Ending, JsonArguments, byte_size, without_surrogates
from dragoman.wire.json_values import decode_any

_INPUT_HEAD: Final = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_INPUT_HEAD_PREFIX: Final = re.compile(
    r'\s*(?:\{\s*(?:"(?:i(?:n(?:p(?:u(?:t(?:"\s*(?::\s*)?)?)?)?)?)?)?)?)?'
)
_NO_OBJECT: Final = frozenset({"args_invalid", "args_not_object"})
# As much of a string's inside as can be read: whole escapes, and halves of surrogate pairs only with
# their other half, or when it is certain that none comes.
_STRING_BODY: Final = re.compile(
    r"""(?:[^"\\]+
        | \\[^u]
        | \\u(?![dD][89abAB])[0-9a-fA-F]{4}
        | \\u[dD][89abAB][0-9a-fA-F]{2}
          (?: \\u[dD][c-fC-F][0-9a-fA-F]{2}
            | (?= [^\\] | \\[^u] | \\u(?![dD][c-fC-F])[0-9a-fA-F]{4} ) )
        )*""",
    re.VERBOSE,
)
_ESCAPE: Final = re.compile(
    r"(?:\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})+"
    r"|\\u(?P<half>[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)


class CustomInput:
    """The free-form input of a custom tool that the upstream writes as `{"input": "…"}`.

    The string is unescaped as it comes.  Any other shape waits for the end; what then cannot be read
    is given as it is.
    """

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._json = JsonArguments(limits=limits)
        self._came: list[str] = []  # everything, while the shape is not known
        self._read: list[str] = []  # the same, as JSON
        self._head: str | None = ""  # its beginning, until it can be told what it is
        self._escape = ""  # an escape that is not complete
        self._streaming = False  # inside the string
        self._told = False  # the string has ended

    @property
    def whole(self) -> bool:
        """The object around the input is complete."""
        return self._json.whole

    def may_close(self, required: frozenset[str], /) -> bool:
        """Say whether the object around the input lacks nothing but its bracket."""
        return self._json.may_close(required)

    @property
    def holding(self) -> bool:
        return self._json.holding

    def feed(self, fragment: str, /) -> str:
        """Take a fragment of JSON and return free text."""
        text = self._json.feed(fragment)
        if self._streaming:
            return self._unescape(text)
        if self._told:
            return ""  # other properties are passed over
        self._came.append(fragment)
        self._read.append(text)
        if self._head is None:
            return ""
        self._head += text
        match = _INPUT_HEAD.match(self._head)
        if match:
            self._came.clear()
            self._read.clear()
            self._streaming = True
            return self._unescape(self._head[match.end() :])
        if not _INPUT_HEAD_PREFIX.fullmatch(self._head):
            self._head = None
        return ""

    def end(self) -> Ending:
        """Say how the input ended."""
        ending = self._json.end()
        if self._streaming:
            tail = self._unescape(ending.text) if ending.text else ""
            return Ending(tail, ending.whole, ending.losses, ending.broken)
        if self._told:
            # The input is there; what came after it is of no interest.
            losses = (*_repaired(ending), "args_trailing") if ending.broken else ending.losses
            return Ending("", ending.whole or ending.broken, losses)
        return self._from_whole("".join(self._came), ending)

    def _from_whole(self, came: str, ending: Ending) -> Ending:
        """Read an object of another shape, or take everything as the input."""
        value = _decoded("".join(self._read) + ending.text)
        text = value.get("input") if value else None
        if isinstance(text, str):
            return Ending(text, ending.whole, ending.losses, False, ending.open_ended)
        if not came.strip() or value == {}:
            return Ending("", ending.whole, ending.losses, False, ending.open_ended)
        losses = tuple(dict.fromkeys((*_repaired(ending), "args_repaired")))
        return Ending(came, ending.whole or ending.broken, losses, False, ending.broken)

    def _unescape(self, text: str) -> str:
        text = self._escape + text
        end = _STRING_BODY.match(text).end()  # type: ignore[union-attr]  # matches always
        body, self._escape = text[:end], text[end:]
        if self._escape.startswith('"'):
            self._streaming = False
            self._told = True
        if "\\" not in body:
            return body
        try:
            return msgspec.json.decode(f'"{body}"', type=str)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return _unescaped(body)


class RawInput:
    """The free-form input of a custom tool that the upstream knows as such: passed as it comes."""

    whole: Final = False
    holding: Final = False

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._size = 0

    def feed(self, fragment: str, /) -> str:
        """Count and pass."""
        self._size += byte_size(fragment)
        if self._size > self._limits.max_tool_args_bytes:
            raise TooLargeError("max_tool_args_bytes", self._limits.max_tool_args_bytes)
        return fragment

    def end(self) -> Ending:
        """Free text is whole wherever it ends."""
        return Ending(open_ended=True)

    def may_close(self, required: frozenset[str], /) -> bool:
        """Free text has no brackets."""
        return False


def _unescaped(body: str) -> str:
    """Read the inside of a string that holds halves of surrogate pairs: each becomes U+FFFD."""
    mended = _ESCAPE.sub(lambda found: "�" if found["half"] else found.group(), body)
    return msgspec.json.decode(f'"{without_surrogates(mended)}"', type=str)


def _repaired(ending: Ending) -> tuple[str, ...]:
    """Return what was repaired in JSON that is not what the input stands in."""
    return tuple(code for code in ending.losses if code not in _NO_OBJECT)


def _decoded(text: str) -> dict[str, object] | None:
    """Return the object that `text` is, or None."""
    try:
        value = decode_any(without_surrogates(text))
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
