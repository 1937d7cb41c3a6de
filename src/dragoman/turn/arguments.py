"""A tool call's arguments while they stream: JSON, and the free-form input of custom tools.

JSON arguments are a valid prefix while they stream and a JSON object at the end.

Fragments are forwarded as they come; only a comma waits for what follows it, and arguments that do not
begin with `{` wait for the end.  What a peer gets wrong is repaired where that loses nothing, and
reported.  Arguments that are truncated or cannot be repaired are forwarded unchanged: a client that cannot
parse them does not run the call and reports the error to the model.  A string, key or number is never
closed, because half a command would then look like a whole one.
"""

import ast
import re
from typing import Any, Final, Protocol

import msgspec
from msgspec import Struct

from dragoman.errors import TooLargeError
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.wire.json_scanner import JsonPlace, JsonScanner
from dragoman.wire.json_values import decode_any
from dragoman.wire.surrogates import join_surrogates

_SPACE: Final = " \t\n\r"
_TRAILING_COMMA: Final = re.compile(r",[ \t\n\r]*\Z")
# Words that other languages write where JSON has its own.
_FOREIGN_WORDS: Final = {
    "NaN": "null",
    "Infinity": "null",
    "undefined": "null",
    "None": "null",
    "True": "true",
    "False": "false",
}
_FOREIGN_WORD: Final = re.compile("|".join(_FOREIGN_WORDS))
# How much is scanned in one step of a repair, so that many mistakes cost no more than one.
_PIECE_CHARS: Final = 1024
# Beyond this, evaluating a Python literal costs more than the answer is worth.
_MAX_LITERAL_CHARS: Final = 64 * 1024
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


class Ending(Struct, frozen=True, gc=False):
    """How a call's arguments ended."""

    text: str = ""  # what is still to be forwarded
    whole: bool = True  # the arguments are complete
    losses: tuple[str, ...] = ()  # codes of the repairs
    broken: bool = False  # not a JSON object, and beyond repair: `text` is the rest, unchanged
    open_ended: bool = (
        False  # nothing shows where they end: whole only if their peer was not cut off
    )


class ArgumentStream(Protocol):
    """Either flavour of arguments."""

    def feed(self, fragment: str, /) -> str: ...
    @property
    def whole(self) -> bool: ...
    def end(self) -> Ending: ...
    def may_close(self, required: frozenset[str], properties: frozenset[str], /) -> bool: ...


class JsonArguments:
    """The arguments of a function call."""

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._scanner = JsonScanner(limits=limits)
        self._size = 0  # bytes received
        self._begun = False  # something other than white space came
        self._comma = ""  # a comma, and white space, that wait for what follows
        self._held: list[str] | None = None  # what came since forwarding stopped
        self._repaired = False  # the held text could be repaired
        self._trailing = False  # something followed the complete object
        self._unread = ""  # what followed it in the last fragment
        self._sent: list[str] | None = []  # what was forwarded, while it fits the window
        self._sent_size = 0
        self._losses: list[str] = []

    @property
    def whole(self) -> bool:
        """The arguments are a complete object: nothing but white space may follow."""
        return self._scanner.done

    def feed(self, fragment: str, /) -> str:
        """Take a fragment and return what may be forwarded now.

        Raises:
            TooLargeError: the arguments pass `max_tool_args_bytes`.
        """
        self._size += byte_size(fragment)
        if self._size > self._limits.max_tool_args_bytes:
            raise TooLargeError("max_tool_args_bytes", self._limits.max_tool_args_bytes)
        if self._held is not None:
            self._held.append(fragment)
            return ""
        if not self._begun:
            fragment = fragment.lstrip(_SPACE)
            if not fragment:
                return ""
            self._begun = True
            if fragment[0] != "{":
                self._held = [fragment]
                return ""
        return self._forward(fragment)

    def end(self) -> Ending:
        """Return how the arguments ended."""
        if not self._begun:
            return Ending("{}", open_ended=True)
        if self._held is not None:
            return self._end_held("".join(self._held))
        if self._trailing:
            self._losses.append("args_trailing")
        if self.whole:
            return Ending(losses=tuple(self._losses))
        return Ending(self._comma, whole=False, losses=tuple(self._losses))

    @property
    def in_string(self) -> bool:
        """The next character belongs to a string of the object, and nothing waits."""
        return self._held is None and not self._comma and self._scanner.in_string

    def pass_string(self, fragment: str, /) -> None:
        """Take a fragment that the caller knows to go on inside a string and has forwarded itself."""
        self._size += byte_size(fragment)
        if self._size > self._limits.max_tool_args_bytes:
            raise TooLargeError("max_tool_args_bytes", self._limits.max_tool_args_bytes)
        if self._sent is not None:
            self._remember(fragment)

    @property
    def begun(self) -> bool:
        """Something other than white space has come."""
        return self._begun

    @property
    def stalled(self) -> bool:
        """The input is not a JSON object, or stopped being one: everything since waits for the end."""
        return self._held is not None

    def take_unread(self) -> str:
        """Take back what did not belong to the object: the caller knows better where it ends."""
        if self._held is not None:
            unread = "".join(self._held)
            self._held = []
        else:
            unread = self._unread
            self._trailing = False
        self._unread = ""
        self._size -= byte_size(unread)
        return unread

    @property
    def holding(self) -> bool:
        """Something was received and not forwarded, or was repaired, which is reported at the end."""
        return self._held is not None or bool(self._comma or self._trailing or self._losses)

    def may_close(self, required: frozenset[str], properties: frozenset[str], /) -> bool:
        """Return whether the arguments lack nothing but their last bracket.

        Every value is complete, no comma or inner bracket announces more, each of the `required` parameters is
        present, and none of the tool's `properties` is inside the last value: the missing bracket may be that
        value's.  Arguments beyond `resend_window_bytes` are not parsed again, so they lack a required parameter.
        """
        readable = self._held is None or self._repaired
        if self._comma or not readable or not self._scanner.only_closer_missing:
            return False
        if required and not required <= self._parsed("}").keys():
            return False
        return not self.swallows(properties)

    def swallows(self, properties: frozenset[str], /) -> bool:
        """Return whether the last value contains a key that is a missing parameter of the tool.

        This is how `{"a": {"b": 1}, "c": 2}` looks without its first closing bracket.
        """
        if not properties:
            return False
        found: object = self._parsed("" if self.whole else "}")
        missing = properties - found.keys() if isinstance(found, dict) else frozenset[str]()
        while missing and isinstance(found, dict | list) and found:
            found = found[-1] if isinstance(found, list) else found[next(reversed(found))]
            if isinstance(found, dict) and not missing.isdisjoint(found):
                return True
        return False

    def _forward(self, fragment: str) -> str:
        scanner = self._scanner
        taken = scanner.feed(fragment)
        if taken == len(fragment) and not self._comma and scanner.place not in _AFTER_COMMA:
            self._remember(fragment)
            return fragment
        out: list[str] = []
        while True:
            out.append(fragment[:taken])
            fragment = fragment[taken:]
            if not fragment:
                break
            if scanner.in_string or scanner.place == JsonPlace.ESCAPE:
                out.append(self._repair_string(fragment[0]))
                fragment = fragment[1:]
            elif scanner.done:
                self._trailing = self._trailing or bool(fragment.strip(_SPACE))
                self._unread = fragment
                break
            else:
                self._held = [fragment]
                break
            taken = scanner.feed(fragment)
        return self._release("".join(out))

    def _repair_string(self, char: str) -> str:
        """Return the spelling of a character that JSON does not allow unescaped in a string."""
        self._note("args_repaired")
        if self._scanner.in_string:
            # A control character: models write line feeds into strings as they are.
            return f"\\u{ord(char):04x}"
        # An escape that JSON does not have.  The backslash is out already: `\'` can still become a
        # quote, and `\d` a backslash and a letter, which is what a pattern or a path means.
        spelled = f"u{ord(char):04x}" if char == "'" or char < " " else f"\\{char}"
        self._scanner.feed(spelled)
        return spelled

    def _release(self, text: str) -> str:
        """Add a comma that waited; hold back one that ends `text`."""
        if self._comma and text and not text.strip(_SPACE) and self._scanner.place in _AFTER_COMMA:
            waiting, self._comma = self._comma, ""  # held but once, a string grows where it is
            waiting += text
            self._comma = waiting
            return ""
        if text or self._held is None:
            text = self._comma + text
            self._comma = ""
        if self._scanner.place in _AFTER_COMMA:
            match = _TRAILING_COMMA.search(text)
            if match:
                self._comma = match.group()
                text = text[: match.start()]
        self._remember(text)
        return text

    def _remember(self, text: str) -> None:
        if self._sent is not None:
            self._sent_size += len(text)
            self._sent.append(text)
            if self._sent_size > self._limits.resend_window_bytes:
                self._sent = None

    def _parsed(self, closer: str) -> dict[str, Any]:
        """Return the object that was forwarded, with `closer` added; empty if it is too long or not an object."""
        if self._sent is None:
            return {}
        try:
            found = decode_any(join_surrogates("".join(self._sent)) + closer)
        except (msgspec.DecodeError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _note(self, code: str) -> None:
        if code not in self._losses:
            self._losses.append(code)

    def _end_held(self, rest: str) -> Ending:
        """End arguments that were held because they are not a JSON object; unchanged if no repair works."""
        comma, losses = self._comma, tuple(self._losses)
        sent = None if self._sent is None else "".join(self._sent)
        if sent == "":
            return self._unwrap(rest)
        again = None if sent is None else _rest_of_resend(sent, rest)
        if again is not None:
            return Ending(again, losses=(*losses, "args_repeated"))
        repaired = self._repair(rest)
        if repaired is not None:
            self._repaired = True
            self._note("args_repaired")
            return Ending(repaired + self._comma, self.whole, tuple(self._losses))
        literal = None if sent is None else _literal(sent, comma + rest)
        if literal is not None:
            return Ending(literal, losses=(*losses, "args_repaired"))
        return _as_it_came(comma + rest, losses)

    def _repair(self, rest: str) -> str | None:
        """Continue where forwarding stopped, with repairs; None if the text is ambiguous."""
        scanner = self._scanner
        out = [self._comma]
        at = 0
        while at < len(rest):
            piece = rest[at : at + _PIECE_CHARS]
            taken = scanner.feed(piece)
            out.append(piece[:taken])
            at += taken
            if taken == len(piece):
                continue
            word = _FOREIGN_WORD.match(rest, at)
            if scanner.done:
                if rest[at:].strip(_SPACE):
                    self._note("args_trailing")
                break
            if scanner.in_string or scanner.place == JsonPlace.ESCAPE:
                out.append(self._repair_string(rest[at]))
                at += 1
            elif word and scanner.place in _BEFORE_VALUE:
                out.append(_FOREIGN_WORDS[word.group()])
                scanner.feed(out[-1])
                at = word.end()
            elif rest[at] in "}]" and scanner.place in _AFTER_COMMA:
                _drop_comma(out)
                scanner.place = JsonPlace.AFTER
            else:
                return None
        self._comma = ""
        return self._release("".join(out))

    def _unwrap(self, text: str) -> Ending:
        """Arguments of which nothing was forwarded: an object in a string is unwrapped."""
        losses = tuple(self._losses)
        if not text.strip(_SPACE):
            return Ending("{}", losses=losses)
        try:
            value = decode_any(join_surrogates(text))
        except (msgspec.DecodeError, RecursionError):
            return _as_it_came(text, losses)
        if value is None or value == "":
            return Ending("{}", losses=losses)
        if isinstance(value, str):
            inner = JsonArguments(limits=self._limits)
            out = inner.feed(value)
            if inner.whole:
                return Ending(out, losses=(*losses, "args_repaired"))
        return _as_it_came(text, losses, "args_not_object")


_AFTER_COMMA: Final = frozenset({JsonPlace.KEY, JsonPlace.ELEMENT})
_BEFORE_VALUE: Final = frozenset({JsonPlace.VALUE, JsonPlace.ELEMENT, JsonPlace.FIRST_ELEMENT})


def _as_it_came(rest: str, losses: tuple[str, ...], code: str = "args_invalid") -> Ending:
    """Return the ending of arguments that cannot be repaired."""
    return Ending(join_surrogates(rest), whole=False, losses=(*losses, code), broken=True)


def byte_size(text: str) -> int:
    """Return how many bytes `text` takes in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _drop_comma(out: list[str]) -> None:
    """Take back the comma that the pieces end in, and the white space after it."""
    while not out[-1].rstrip(_SPACE):
        out.pop()
    out[-1] = out[-1].rstrip(_SPACE)[:-1]


def _is_object(text: str) -> bool:
    scanner = JsonScanner()
    return text.startswith("{") and scanner.feed(text) == len(text) and scanner.done


def _rest_of_resend(sent: str, again: str) -> str | None:
    """If `again` is an object that begins as `sent` does, white space aside, return what is new."""
    again = again.strip(_SPACE)
    if not _is_object(again):
        return None
    at = 0
    in_string = escaped = False
    for char in sent:
        if not in_string and char in _SPACE:
            continue
        while not in_string and at < len(again) and again[at] in _SPACE:
            at += 1
        if at >= len(again) or again[at] != char:
            return None
        at += 1
        if escaped:
            escaped = False
        elif in_string and char == "\\":
            escaped = True
        elif char == '"':
            in_string = not in_string
    rest = again[at:]
    # A blank after a number that goes on in the copy would cut it in two.
    return rest if _is_object(sent + rest) else None


def _literal(sent: str, rest: str) -> str | None:
    """Read all as a Python literal and return what its JSON has after `sent`."""
    whole = sent + rest
    if len(whole) > _MAX_LITERAL_CHARS:
        return None
    try:
        value = ast.literal_eval(whole.strip())
        text = msgspec.json.encode(value).decode()
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return _rest_of_resend(sent, text) if isinstance(value, dict) else None


# --- free-form input ---------------------------------------------------------------------------


class CustomInput:
    """The free-form input of a custom tool that the upstream writes as `{"input": "…"}`.

    The string is unescaped as it comes.  Any other shape waits for the end; what then cannot be read
    is given as it is.
    """

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._json = JsonArguments(limits=limits)
        self._came: list[str] = []  # everything, while the shape is not known
        self._read: list[str] = []  # the same, as JSON
        self._head: str | None = ""  # its beginning, until that shows its shape; then None
        self._escape = ""  # an escape that is not complete
        self._streaming = False  # inside the string
        self._ended = False  # the string has ended

    @property
    def whole(self) -> bool:
        """The object around the input is complete."""
        return self._json.whole

    def may_close(self, required: frozenset[str], properties: frozenset[str], /) -> bool:
        """Return whether the object around the input lacks nothing but its bracket."""
        return self._json.may_close(required, properties)

    @property
    def holding(self) -> bool:
        return self._json.holding

    def feed(self, fragment: str, /) -> str:
        """Take a fragment of JSON and return free text."""
        text = self._json.feed(fragment)
        if self._streaming:
            return self._unescape(text)
        if self._ended:
            return ""  # other properties are ignored
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
        """Return how the input ended."""
        ending = self._json.end()
        if self._streaming:
            tail = self._unescape(ending.text) if ending.text else ""
            return Ending(tail, ending.whole, ending.losses, ending.broken)
        if self._ended:
            # The input is complete; text after it is dropped.
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
            self._ended = True
        if "\\" not in body:
            return body
        try:
            return msgspec.json.decode(f'"{body}"', type=str)
        except (msgspec.DecodeError, UnicodeEncodeError):
            return _unescape_halves(body)


class RawInput:
    """The input of a custom tool from an upstream that has such tools: plain text, forwarded unchanged."""

    whole: Final = False
    holding: Final = False

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._size = 0

    def feed(self, fragment: str, /) -> str:
        """Return the fragment unchanged; its bytes count against `max_tool_args_bytes`."""
        self._size += byte_size(fragment)
        if self._size > self._limits.max_tool_args_bytes:
            raise TooLargeError("max_tool_args_bytes", self._limits.max_tool_args_bytes)
        return fragment

    def end(self) -> Ending:
        """Report the input as complete: any plain text is."""
        return Ending(open_ended=True)

    def may_close(self, required: frozenset[str], properties: frozenset[str], /) -> bool:
        """Return False: plain text has no brackets that could be closed."""
        return False


def _unescape_halves(body: str) -> str:
    """Read the inside of a string that holds halves of surrogate pairs: each becomes U+FFFD."""
    replaced = _ESCAPE.sub(lambda found: "�" if found["half"] else found.group(), body)
    return msgspec.json.decode(f'"{join_surrogates(replaced)}"', type=str)


def _repaired(ending: Ending) -> tuple[str, ...]:
    """Return the codes of repairs, without those for JSON that is not an object."""
    return tuple(code for code in ending.losses if code not in _NO_OBJECT)


def _decoded(text: str) -> dict[str, object] | None:
    """Return the object that `text` is, or None."""
    try:
        value = decode_any(join_surrogates(text))
    except (msgspec.DecodeError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
