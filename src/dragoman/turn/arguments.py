"""A tool call's arguments while they stream: always a valid prefix, at the end a JSON object.

What leaves `feed` can be parsed by any client at any time.  Fragments are forwarded as they come; only
a comma waits for what follows it, and arguments that do not begin with `{` wait for the end.  What a
peer gets wrong is mended where that loses nothing, and said; where it would lose something, the
ending is not `mended` and the caller must not let the call pass as a good one.
"""

import ast
import re
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from dragoman.errors import TooLarge
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.wire.json_stream import JsonScanner, Place

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
# Beyond this, evaluating a Python literal costs more than the answer is worth.
_MAX_LITERAL_CHARS: Final = 64 * 1024


class Ending(Struct, frozen=True, gc=False):
    """How a call's arguments ended."""

    text: str = ""  # what is still to be forwarded
    whole: bool = True  # the arguments are complete
    repair: str = ""  # if not: what would close them
    losses: tuple[str, ...] = ()  # codes of what was mended
    broken: bool = False  # not JSON, and beyond mending


class ArgumentStream(Protocol):
    """Either flavour of arguments."""

    def feed(self, fragment: str, /) -> str: ...
    @property
    def whole(self) -> bool: ...
    def end(self) -> Ending: ...


class JsonArguments:
    """The arguments of a function call."""

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._scanner = JsonScanner(limits=limits)
        self._size = 0  # bytes received
        self._begun = False  # something other than white space came
        self._comma = ""  # a comma, and white space, that wait for what follows
        self._held: list[str] | None = None  # what came since forwarding stopped
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
            TooLarge: the arguments pass `max_tool_args_bytes`.
        """
        self._size += _size(fragment)
        if self._size > self._limits.max_tool_args_bytes:
            raise TooLarge("max_tool_args_bytes", self._limits.max_tool_args_bytes)
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
        """Say how the arguments ended."""
        if not self._begun:
            return Ending("{}")
        if self._held is not None:
            return self._end_held("".join(self._held))
        if self._trailing:
            self._losses.append("args_trailing")
        if self.whole:
            return Ending(losses=tuple(self._losses))
        return Ending(whole=False, repair=self._closing(), losses=tuple(self._losses))

    @property
    def begun(self) -> bool:
        """Something other than white space has come."""
        return self._begun

    @property
    def stalled(self) -> bool:
        """What came is no JSON object, or went on as none: everything since waits for the end."""
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
        self._size -= _size(unread)
        return unread

    @property
    def holding(self) -> bool:
        """Something was received and not forwarded."""
        return self._held is not None or bool(self._comma)

    @property
    def only_closers_missing(self) -> bool:
        """Every value is there; only brackets are wanting, and adding them invents nothing."""
        return self._held is None and (self._scanner.only_closers_missing or bool(self._comma))

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
            if scanner.in_string:
                # A control character: models write line feeds into strings as they are.
                out.append(f"\\u{ord(fragment[0]):04x}")
                fragment = fragment[1:]
                self._note("args_repaired")
            elif scanner.done:
                self._trailing = self._trailing or bool(fragment.strip(_SPACE))
                self._unread = fragment
                break
            else:
                self._held = [fragment]
                break
            taken = scanner.feed(fragment)
        return self._release("".join(out))

    def _release(self, text: str) -> str:
        """Add a comma that waited; hold back one that ends `text`."""
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

    def _closing(self) -> str:
        if self._comma:
            return self._scanner.closing().removeprefix("null").removeprefix('"":null')
        return self._scanner.closing()

    def _note(self, code: str) -> None:
        if code not in self._losses:
            self._losses.append(code)

    def _end_held(self, rest: str) -> Ending:
        """Make sense of arguments that are no JSON object as they came."""
        sent = "" if self._sent is None else "".join(self._sent)
        if self._sent is not None:
            again = _rest_of_resend(sent, rest)
            if again is not None:
                return Ending(again, losses=(*self._losses, "args_repeated"))
            if not sent:
                return self._wrap(rest)
            mended = _mend(sent, self._comma, rest, self._limits)
            if mended is not None:
                return Ending(mended, losses=(*self._losses, "args_repaired"))
        return Ending(whole=False, repair=self._closing(), losses=tuple(self._losses), broken=True)

    def _wrap(self, text: str) -> Ending:
        """Arguments of which nothing was forwarded: unwrap a string, or wrap what is no object."""
        try:
            value = msgspec.json.decode(text)
        except msgspec.DecodeError:
            value = text
        if value is None or value == "":
            return Ending("{}", losses=tuple(self._losses))
        if isinstance(value, str):
            inner = JsonArguments(limits=self._limits)
            out = inner.feed(value)
            if inner.whole:
                return Ending(out, losses=(*self._losses, "args_repaired"))
        wrapped = msgspec.json.encode({"_raw": text}).decode()
        return Ending(wrapped, losses=(*self._losses, "args_not_object"))


class CustomInput:
    """The free-form input of a custom tool that the upstream writes as `{"input": "…"}`.

    The string is unescaped as it comes.  Any other shape waits for the end; what then cannot be read
    is given as it is.
    """

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._json = JsonArguments(limits=limits)
        self._head: str | None = ""  # what came before the string, until it is recognised
        self._escape = ""  # an escape that is not complete
        self._streaming = False  # inside the string
        self._all: list[str] = []  # everything, while the shape is not known

    @property
    def whole(self) -> bool:
        """The object around the input is complete."""
        return self._json.whole

    @property
    def only_closers_missing(self) -> bool:
        return self._json.only_closers_missing

    @property
    def holding(self) -> bool:
        return self._json.holding

    def feed(self, fragment: str, /) -> str:
        """Take a fragment of JSON and return free text."""
        text = self._json.feed(fragment)
        if self._streaming:
            return self._unescape(text)
        if self._head is None:
            if not self._all:
                return ""  # the string has ended; other properties are passed over
            self._all.append(text)
            return ""
        self._head += text
        match = _INPUT_HEAD.match(self._head)
        if match:
            rest = self._head[match.end() :]
            self._head = None
            self._streaming = True
            return self._unescape(rest)
        if not _INPUT_HEAD_PREFIX.fullmatch(self._head):
            self._all = [self._head]
            self._head = None
        return ""

    def end(self) -> Ending:
        """Say how the input ended."""
        ending = self._json.end()
        if self._streaming:
            tail = self._unescape(ending.text) if ending.text else ""
            return Ending(tail, ending.whole, "", ending.losses, ending.broken)
        if self._head is None and not self._all:
            return Ending("", ending.whole, "", ending.losses, ending.broken)
        raw = (self._head or "") + "".join(self._all) + ending.text
        return self._from_whole(raw, ending)

    def _from_whole(self, raw: str, ending: Ending) -> Ending:
        try:
            value = msgspec.json.decode(raw)
        except msgspec.DecodeError:
            value = None
        if isinstance(value, dict):
            text = value.get("input", value.get("_raw"))
            if isinstance(text, str):
                return Ending(text, ending.whole, "", ending.losses)
            if not value:
                return Ending("", ending.whole, "", ending.losses)
        return Ending(raw, ending.whole, "", (*ending.losses, "args_repaired"))

    def _unescape(self, text: str) -> str:
        text = self._escape + text
        self._escape = ""
        end = _STRING_BODY.match(text).end()  # type: ignore[union-attr]  # matches always
        body, rest = text[:end], text[end:]
        if rest.startswith('"'):
            self._streaming = False
        else:
            self._escape = rest
            # A high surrogate needs its other half.
            half = _HIGH_SURROGATE.search(body)
            if half:
                self._escape = body[half.start() :] + rest
                body = body[: half.start()]
        if not body:
            return ""
        try:
            return msgspec.json.decode(f'"{body}"', type=str)
        except msgspec.DecodeError:
            return msgspec.json.decode(f'"{_LONE_SURROGATE.sub("�", body)}"', type=str)


class RawInput:
    """The free-form input of a custom tool that the upstream knows as such: passed as it comes."""

    whole: Final = False
    only_closers_missing: Final = False
    holding: Final = False

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._limits = limits
        self._size = 0

    def feed(self, fragment: str, /) -> str:
        """Count and pass."""
        self._size += len(fragment)
        if self._size > self._limits.max_tool_args_bytes:
            raise TooLarge("max_tool_args_bytes", self._limits.max_tool_args_bytes)
        return fragment

    def end(self) -> Ending:
        """Free text is whole wherever it ends."""
        return Ending()


_AFTER_COMMA: Final = frozenset({Place.KEY, Place.ELEMENT})
_INPUT_HEAD: Final = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_INPUT_HEAD_PREFIX: Final = re.compile(
    r'\s*(?:\{\s*(?:"(?:i(?:n(?:p(?:u(?:t(?:"\s*(?::\s*)?)?)?)?)?)?)?)?)?'
)
_STRING_BODY: Final = re.compile(r'(?:[^"\\]|\\(?:[^u]|u[0-9a-fA-F]{4}))*')
_HIGH_SURROGATE: Final = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")
_LONE_SURROGATE: Final = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F])"
    r"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _rest_of_resend(sent: str, again: str) -> str | None:
    """If `again` is an object that begins as `sent` does, white space aside, return what is new."""
    again = again.lstrip(_SPACE)
    if not sent or not again.startswith("{"):
        return None
    scanner = JsonScanner()
    if scanner.feed(again.rstrip(_SPACE)) < len(again.rstrip(_SPACE)) or not scanner.done:
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
    return again[at:]


def _mend(sent: str, comma: str, rest: str, limits: Limits) -> str | None:
    """Return what must follow `sent` to say what `sent + rest` meant, or None if nobody can tell."""
    whole = sent + comma + rest
    scanner = JsonScanner(limits=limits)
    out: list[str] = []
    text = whole
    while text:
        taken = scanner.feed(text)
        out.append(text[:taken])
        text = text[taken:]
        if not text or scanner.done:
            break
        word = _FOREIGN_WORD.match(text)
        if word and scanner.place in (Place.VALUE, Place.ELEMENT, Place.FIRST_ELEMENT):
            text = _FOREIGN_WORDS[word.group()] + text[word.end() :]
        elif text[0] in "}]" and scanner.place in _AFTER_COMMA:
            return _literal(sent, whole) or _without_comma(sent, comma, rest)
        else:
            return _literal(sent, whole)
    if not scanner.done and not scanner.only_closers_missing:
        return None
    result = "".join(out) + ("" if scanner.done else scanner.closing())
    return result[len(sent) :] if result.startswith(sent) else None


def _without_comma(sent: str, comma: str, rest: str) -> str | None:
    """Leave out a comma before a closer, if it has not been forwarded."""
    if not comma:
        return None
    scanner = JsonScanner()
    text = (sent + rest).rstrip(_SPACE)
    return rest if scanner.feed(text) == len(text) and scanner.done else None


def _literal(sent: str, whole: str) -> str | None:
    """Read `whole` as a Python literal and return its JSON after `sent`."""
    if len(whole) > _MAX_LITERAL_CHARS:
        return None
    try:
        value = ast.literal_eval(whole.strip())
        text = msgspec.json.encode(value).decode()
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    return text[len(sent) :] if text.startswith(sent) else None
