"""An incremental JSON scanner: is this a valid prefix, where does the value end, what would close it.

Knows JSON's grammar (RFC 8259) and nothing of what a value means.  It keeps no text, only its place in
the grammar, and looks at each character once.
"""

import re
from typing import Final

from dragoman.errors import TooLargeError
from dragoman.limits import DEFAULT_LIMITS, Limits


class JsonPlace:
    """What the scanner has just read, which decides what may come.

    Plain numbers: to look up and to hash a member of an enumeration costs more than all else in a piece of a string.
    """

    VALUE: Final = 0  # a value must follow: at the start, after `:`
    ELEMENT: Final = 1  # a value must follow: after `,` in an array
    FIRST_ELEMENT: Final = 2  # a value or `]`: after `[`
    FIRST_KEY: Final = 3  # a key or `}`: after `{`
    KEY: Final = 4  # a key: after `,` in an object
    COLON: Final = 5  # `:`: after a key
    AFTER: Final = 6  # `,` or a closer: after a value in a container
    STRING: Final = 7  # inside a string that is a value
    KEY_STRING: Final = 8  # inside a string that is a key
    ESCAPE: Final = 9  # after a backslash
    UNICODE: Final = 10  # inside the four digits of `\u`
    NUMBER: Final = 11
    LITERAL: Final = 12  # inside `true`, `false` or `null`
    DONE: Final = 13  # the value has ended


# What a string may contain, with complete escapes.
_PLAIN: Final = re.compile(
    r'[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+'
)
_NUMBER_DIGITS: Final = re.compile(r"[0-9]*")
_LONGEST_STEP: Final = 64 * 1024  # characters for one match: other threads wait for its end
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_HEX: Final = frozenset("0123456789abcdefABCDEF")
_DIGITS: Final = frozenset("0123456789")
_ESCAPES: Final = frozenset('"\\/bfnrt')
_LITERALS: Final = {"t": "rue", "f": "alse", "n": "ull"}

# A number, state by state: which characters lead where.  States in `_NUMBER_ENDS` may end it; in the
# others a digit is missing.
_NUMBER: Final[dict[str, dict[str, str]]] = {
    "minus": {"0": "zero", **dict.fromkeys("123456789", "int")},
    "zero": {".": "dot", "e": "exp", "E": "exp"},
    "int": {**dict.fromkeys("0123456789", "int"), ".": "dot", "e": "exp", "E": "exp"},
    "dot": dict.fromkeys("0123456789", "frac"),
    "frac": {**dict.fromkeys("0123456789", "frac"), "e": "exp", "E": "exp"},
    "exp": {**dict.fromkeys("0123456789", "power"), "+": "sign", "-": "sign"},
    "sign": dict.fromkeys("0123456789", "power"),
    "power": dict.fromkeys("0123456789", "power"),
}
_NUMBER_ENDS: Final = frozenset({"zero", "int", "frac", "power"})
_DIGIT_RUNS: Final = frozenset({"int", "frac", "power"})  # states in which digits change nothing

_STRINGS: Final = frozenset({JsonPlace.STRING, JsonPlace.KEY_STRING})
_VALUE_PLACES: Final = frozenset({JsonPlace.VALUE, JsonPlace.ELEMENT, JsonPlace.FIRST_ELEMENT})


class JsonScanner:
    """Follow one JSON value, in pieces of any size."""

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self.place: int = JsonPlace.VALUE
        self._max_depth = limits.max_json_depth
        self._stack: list[str] = []  # the closers of the open containers, outermost first
        self._number = ""  # state within a number
        self._literal = ""  # what is missing of a literal
        self._digits = 0  # digits of `\u` still to come
        self._string = JsonPlace.STRING  # which string an escape belongs to

    @property
    def done(self) -> bool:
        """The value has ended; nothing but white space may follow."""
        return self.place == JsonPlace.DONE

    @property
    def in_string(self) -> bool:
        """The next character belongs to a string, key or value."""
        return self.place in _STRINGS

    @property
    def only_closer_missing(self) -> bool:
        """Every value inside the outermost container is complete: only its own bracket is missing."""
        return self.place == JsonPlace.AFTER and len(self._stack) == 1

    def feed(self, text: str, /) -> int:
        """Read as far as `text` continues the value and return how far that was.

        Less than `len(text)` means that the character there is not allowed (see `place`),
        or that the value ended before it.  White space around the value is part of it.

        Raises:
            TooLargeError: containers nest deeper than the limit.
        """
        at, end = 0, len(text)
        while at < end:
            place = self.place
            if place in _STRINGS:
                stop = at + _LONGEST_STEP
                at = _PLAIN.match(text, at, stop).end()  # type: ignore[union-attr]  # matches always
                if at == stop:
                    continue
                if at < end and not self._leave_string(text[at]):
                    return at
                at += 1
            elif place < JsonPlace.STRING or place == JsonPlace.DONE:
                at = _SPACE.match(text, at).end()  # type: ignore[union-attr]  # matches always
                if at < end and not self._step(text[at]):
                    return at
                at += 1
            elif place == JsonPlace.NUMBER:
                state = _NUMBER[self._number].get(text[at])
                if state is not None:
                    self._number = state
                    at += 1
                    if state in _DIGIT_RUNS:
                        at = _NUMBER_DIGITS.match(text, at, at + _LONGEST_STEP).end()  # type: ignore[union-attr]  # matches always
                elif self._number in _NUMBER_ENDS:
                    self._end_value()
                else:
                    return at
            elif not self._inside(text[at]):
                return at
            else:
                at += 1
        return end

    def closing(self) -> str:
        """Return the text that would make what was read a valid value, inventing as little as it can.

        A key without a value gets null; a value not begun is null.
        """
        place = self.place
        head = ""
        if place in (JsonPlace.ESCAPE, JsonPlace.UNICODE):
            head = "\\" if place == JsonPlace.ESCAPE else "0" * self._digits
            place = self._string
        if place == JsonPlace.STRING:
            head += '"'
        elif place == JsonPlace.KEY_STRING:
            head += '":null'
        elif place == JsonPlace.COLON:
            head = ":null"
        elif place == JsonPlace.KEY:
            head = '"":null'
        elif place == JsonPlace.LITERAL:
            head = self._literal
        elif place == JsonPlace.NUMBER and self._number not in _NUMBER_ENDS:
            head = "0"
        elif place in (JsonPlace.VALUE, JsonPlace.ELEMENT):
            head = "null"
        return head + "".join(reversed(self._stack))

    def _leave_string(self, char: str) -> bool:
        if char == '"':
            if self.place == JsonPlace.KEY_STRING:
                self.place = JsonPlace.COLON
            else:
                self._end_value()
        elif char == "\\":
            self._string = self.place
            self.place = JsonPlace.ESCAPE
        else:
            return False  # a control character
        return True

    def _inside(self, char: str) -> bool:
        """Go on inside an escape or a literal."""
        if self.place == JsonPlace.ESCAPE:
            if char == "u":
                self._digits = 4
                self.place = JsonPlace.UNICODE
                return True
            if char in _ESCAPES:
                self.place = self._string
                return True
            return False
        if self.place == JsonPlace.UNICODE:
            if char not in _HEX:
                return False
            self._digits -= 1
            if not self._digits:
                self.place = self._string
            return True
        if not self._literal.startswith(char):
            return False
        self._literal = self._literal[1:]
        if not self._literal:
            self._end_value()
        return True

    def _step(self, char: str) -> bool:
        """Take one character between tokens."""
        place = self.place
        if place in _VALUE_PLACES:
            if char == "]" and place == JsonPlace.FIRST_ELEMENT:
                return self._close(char)
            return self._begin_value(char)
        if place == JsonPlace.AFTER:
            if char != ",":
                return self._close(char)
            self.place = JsonPlace.KEY if self._stack[-1] == "}" else JsonPlace.ELEMENT
            return True
        if place == JsonPlace.COLON:
            if char != ":":
                return False
            self.place = JsonPlace.VALUE
            return True
        if place == JsonPlace.DONE:
            return False
        if char == '"':
            self.place = JsonPlace.KEY_STRING
            return True
        return char == "}" and place == JsonPlace.FIRST_KEY and self._close(char)

    def _begin_value(self, char: str) -> bool:
        if char == '"':
            self.place = JsonPlace.STRING
        elif char in "{[":
            if len(self._stack) >= self._max_depth:
                raise TooLargeError("max_json_depth", self._max_depth)
            self._stack.append("}" if char == "{" else "]")
            self.place = JsonPlace.FIRST_KEY if char == "{" else JsonPlace.FIRST_ELEMENT
        elif char in _LITERALS:
            self._literal = _LITERALS[char]
            self.place = JsonPlace.LITERAL
        elif char == "-" or char in _DIGITS:
            self._number = {"-": "minus", "0": "zero"}.get(char, "int")
            self.place = JsonPlace.NUMBER
        else:
            return False
        return True

    def _close(self, char: str) -> bool:
        if self._stack[-1] != char:
            return False
        self._stack.pop()
        self._end_value()
        return True

    def _end_value(self) -> None:
        self.place = JsonPlace.AFTER if self._stack else JsonPlace.DONE
