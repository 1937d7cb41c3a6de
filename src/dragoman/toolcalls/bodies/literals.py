"""Arguments as Python or Gemma literals, converted to JSON as they arrive (`LiteralsSpec`).

    a="x", n=[1, None]       ->  {"a": "x", "n": [1, null]}      Python keyword arguments
    a:<|"|>x<|"|>,n:[1,2]    ->  {"a": "x", "n": [1, 2]}         Gemma: bare keys, its own quotation mark

Strings are escaped and emitted as they arrive; numbers and words are held until their end.
"""

import ast
import re
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Final

from dragoman.toolcalls.format import AHEAD, LiteralsSpec
from dragoman.toolcalls.scanner import FoundMarker, Scanner, scanner
from dragoman.toolcalls.schema_types import (
    STRING_ONLY,
    escaped,
    loose_number,
    quoted,
    text_without,
    to_json,
    truncated,
)

if TYPE_CHECKING:
    from dragoman.toolcalls.machine import Machine

_SOLID: Final = re.compile(r"\S")
_WORD: Final = re.compile(r"[^\s,()\[\]{}:='\"<]+")
_BARE: Final = re.compile(r"[^,\[\]{}<]+")  # Gemma's words may contain blanks
# The maximum length of a key, and of blanks after a quotation mark: both are held until the next character.
MAX_KEY_CHARS: Final = 256
_KEY: Final = re.compile(rf"[^\s,()\[\]{{}}:='\"<]{{1,{MAX_KEY_CHARS}}}")
_GEMMA_KEY: Final = re.compile(rf"[^:,{{}}\[\]<]{{1,{MAX_KEY_CHARS}}}")
_WORDS: Final = {
    "True": "true",
    "False": "false",
    "None": "null",
    "true": "true",
    "false": "false",
    "null": "null",
}
_ESCAPES: Final = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "a": "\a",
    "v": "\v",
    "0": "\0",
    "\n": "",
}
_CODES: Final = {"x": 2, "u": 4, "U": 8}  # numeric escapes and their number of digits
# What may follow the comma and the blanks after a string, by the closers of the container in the text and in JSON.
_NEXT: Final = {
    (")", "}"): re.compile(r"[\w\-]{1,128}\s*=|\)"),  # keyword arguments
    ("}", "}"): re.compile(r"['\"}]|[\w\-+.]{1,128}\s*:"),  # a dict
    ("]", "]"): re.compile(r"[\w\-+.'\"\[({\]]"),  # a list
    ("}", "]"): re.compile(r"[\w\-+.'\"\[({}]"),  # a set
    ("}", ""): re.compile(r"[\w\-+.'\"\[({}]"),  # a set that is not yet known to be one
    (")", "]"): re.compile(r"[\w\-+.'\"\[({)]"),  # a tuple
}
# What may follow a call: another call, the end of the list, a marker.
_AFTER_CALL: Final = re.compile(r"[,;\]]|<[|/]|[\w.\-]{1,128}\s*\(")
_QUOTES: Final = ("'", '"')
_BRACKETS: Final = re.compile(r"(?:\s{0,16}[)\]}]){1,8}")
_CLOSERS: Final = {"[": "]", "(": ")", "{": "}"}
# A container whose first element decides between a dict and a set, which becomes a list.
_DICT_OR_SET: Final = ("}", "")
_EMPTY_SET: Final = re.compile(r"\(\s{0,16}(?:\)|\Z)")
_MAX_DIGITS: Final = 4096  # Python refuses longer numbers


class _Expect:
    """What the parser expects next.  A member of an enum would take ten times as long to look up."""

    KEY: Final = "key"  # a key, or the end of the object
    FIRST_OF_BRACE: Final = "first of brace"  # a first key, the first element of a set, or the end
    COLON_OR_COMMA: Final = "colon or comma"  # after it: a colon makes it a key
    COLON: Final = "colon"  # the separator of key and value
    VALUE: Final = "value"
    FIRST: Final = "first"  # a value, or the end of the array
    COMMA: Final = "comma"  # a comma, or the end
    STRING: Final = "string"
    WORD: Final = "word"
    OUTER: Final = "outer"  # closers around the arguments: `LiteralsSpec.outer`


def scanner_of(spec: LiteralsSpec) -> Scanner:
    """Return the scanner for the end of a string that was never closed."""
    return scanner(tuple((AHEAD, *pattern) for pattern in spec.next_call))


@cache
def _plain(spec: LiteralsSpec, quote: str) -> Callable[[str], re.Match[str] | None]:
    """Return a function that matches text inside a string that neither ends it nor begins an escape."""
    leads = scanner_of(spec).leads
    return text_without(None if leads is None else f"\\{quote}{leads}", json=False)


class LiteralsBody:
    """The arguments of one call."""

    def __init__(self, machine: "Machine", spec: LiteralsSpec, call_id: str, name: str) -> None:
        self._machine = machine
        self._sink = machine.sink
        self._spec = spec
        self._python = spec.style == "python"
        self._call_id = call_id
        self._name = name
        self._parameters = machine.declared.parameters(name)
        self._out: list[str] = ["{"]
        # For each open container, outermost first: its closer in the text and in JSON.
        self._stack: list[tuple[str, str]] = [(spec.closer, "}")]
        self._at = _Expect.KEY
        self._empty = True  # the innermost object has no key yet
        self._quote = ""  # the quotation mark that ends the string
        self._odd = False  # the string contains one that did not end it, which no key does
        self._is_key = False  # the string is a key
        self._key_text: list[str] | None = None  # of that key
        self._typed: list[str] | None = None  # a quoted value that the schema types
        self._types: frozenset[str] = STRING_ONLY  # the types of the value after the key
        self._keys: set[str] = set()  # of the arguments so far
        self._inner_keys: set[str] = set()  # parameters of the tool that objects inside them have
        self._suspect = False  # the bracket of an inner object may be missing
        self._known = False  # the schema declares the key
        self._declared_string = False  # the schema declares it as a string
        self._word: list[str] = []
        self._brace: int | None = None  # where `_out` holds the brace of a dict or a set
        self._first_word = ""  # its first element, if that is a word
        self._waiting = 0  # the size of a held word or value
        self._outer = spec.outer
        self._ended = False  # the input has ended, and the model was not stopped early
        self._breaks = scanner_of(spec)
        self._plain = _plain(spec, "")  # matches text that continues the string
        self._searched: str | None = None  # the text that `_breaks` searched last
        self._break: FoundMarker | int = 0  # what it found there

    @property
    def holding(self) -> bool:
        return self._brace is not None or bool(self._word or self._typed)

    @property
    def held(self) -> str:
        return ""

    def start(self) -> None:
        self._machine.enter_call()
        self._sink.begin(self._call_id, self._name)

    def feed(self, text: str, at: int, /) -> int:
        if (
            self._at is _Expect.STRING
            and not at
            and self._typed is None
            and self._brace is None
            and self._plain(text)
        ):
            # Fast path for most pieces: the text continues a string.
            self._sink.args(escaped(text))
            return len(text)
        end = len(text)
        while at < end and self._machine.body is self:
            state = self._at
            to = self._read(text, at)
            if to == at and state is self._at:
                break
            at = to
        self._flush()
        if self._machine.body is self and self.holding:
            self._sink.hold(self._waiting)
        return at

    def close(self, text: str, at: int, /, *, cut: bool) -> int:
        self._ended = not cut
        at = self.feed(text, at)
        if self._machine.body is not self:
            return at
        ended = self._at is _Expect.OUTER
        if self._at is _Expect.STRING and self._find_break(text, at) == at < len(text):
            # Half of Gemma's quotation mark is not part of the string.
            self._add(text[at:] if self._python else text[at : _tail(text, at, self._quote)])
        if self._word:
            self._out.append(_half_word("".join(self._word)))
        elif self._typed:
            self._out.append(truncated("".join(self._typed)))
        self.stop()
        return at if ended else len(text)

    def stop(self) -> None:
        if self._at is _Expect.OUTER:
            self._end_suspect(complete=False)
            self._machine.leave_call()
            return
        self._flush()
        self._sink.problem("call_cut", self._name)
        self._sink.end(complete=False)
        self._machine.leave_call()

    # --- reading -----------------------------------------------------------------------------------

    def _read(self, text: str, at: int) -> int:
        if self._at is _Expect.STRING:
            return self._read_python(text, at) if self._python else self._read_marked(text, at)
        if self._at is _Expect.WORD:
            return self._read_word(text, at)
        if self._at is _Expect.OUTER:
            return self._read_outer(text, at)
        solid = _SOLID.search(text, at)
        if solid is None:
            return len(text)
        at = solid.start()
        char = text[at]
        match self._at:
            case _Expect.KEY:
                return self._read_key(text, at)
            case _Expect.FIRST_OF_BRACE:
                return self._read_first(text, at)
            case _Expect.COLON_OR_COMMA:
                is_dict = char in (":", "=")
                self._decide_brace(is_dict=is_dict)
                return self._fail(at) if self._odd and is_dict else at
            case _Expect.COLON:
                if char not in (":", "="):
                    return self._fail(at)
                self._out.append(": ")
                self._at = _Expect.VALUE
                return at + 1
            case _Expect.FIRST if char == self._stack[-1][0]:
                return self._pop(at)
            case _Expect.FIRST | _Expect.VALUE:
                return self._begin_value(text, at)
            case _:
                return self._read_comma(text, at)

    def _read_comma(self, text: str, at: int) -> int:
        char = text[at]
        closer, json = self._stack[-1]
        if char == closer:
            return self._pop(at)
        if char != ",":
            return self._read_closer(text, at)
        self._at = _Expect.KEY if json == "}" else _Expect.FIRST
        if json == "]":
            self._out.append(", ")
        return at + 1

    def _read_closer(self, text: str, at: int) -> int:
        """Add the last brace if the call's closer follows a complete value; else the arguments are invalid.

        Case: gemma4/n4_4_brace_missing.
        """
        closers = self._machine.grammar.closers
        if self._python or len(self._stack) > 1 or not self._parameters.required <= self._keys:
            return self._fail(at)
        if self._swallows:
            return self._fail(at)
        if closers.scan_at(text, at) is None:
            return at if closers.begins(text, at) else self._fail(at)
        self._sink.problem("args_repaired", self._name)
        self._pop(at)
        return at

    def _read_key(self, text: str, at: int) -> int:
        char = text[at]
        if char == self._stack[-1][0]:
            return self._pop(at)
        if self._python and char in _QUOTES:
            return self._begin_string(text, at, key=True)
        if not self._python and self._spec.quote.startswith(text[at : at + len(self._spec.quote)]):
            return self._begin_string(text, at, key=True)
        return self._key_until(text, at, _KEY if self._python else _GEMMA_KEY)

    def _key_until(self, text: str, at: int, pattern: re.Pattern[str]) -> int:
        match = pattern.match(text, at)
        if match is None:
            return self._fail(at)
        if match.end() == len(text) and len(text) - at < MAX_KEY_CHARS:
            return at  # it may continue
        self._begin_key()
        key = match.group().strip()
        self._note_key(key)
        self._out.append(quoted(key))
        self._known = len(self._stack) == 1 and key in self._parameters.properties
        self._types = self._parameters.types(key) if self._known else STRING_ONLY
        self._declared_string = self._parameters.declared_types(key) == STRING_ONLY
        self._at = _Expect.COLON
        return match.end()

    def _note_key(self, key: str) -> None:
        if len(self._stack) == 1:
            self._keys.add(key)
        elif key in self._parameters.properties:
            self._inner_keys.add(key)

    @property
    def _swallows(self) -> bool:
        """An inner object has a missing parameter of the tool: its own bracket may be missing."""
        return not self._inner_keys.isdisjoint(self._parameters.properties.keys() - self._keys)

    def _begin_key(self) -> None:
        if not self._empty:
            self._out.append(", ")
        self._empty = False

    def _begin_value(self, text: str, at: int) -> int:
        char = text[at]
        if self._python and char == "{":
            self._brace = len(self._out)
            self._out.append(char)
            self._stack.append(_DICT_OR_SET)
            self._at = _Expect.FIRST_OF_BRACE
            self._waiting = 0
            return at + 1
        if char in _CLOSERS and (self._python or char != "("):
            json = "{" if char == "{" else "["
            self._out.append(json)
            self._stack.append((_CLOSERS[char], "}" if json == "{" else "]"))
            self._at = _Expect.KEY if json == "{" else _Expect.FIRST
            self._empty = True
            return at + 1
        if self._python:
            if char in _QUOTES:
                return self._begin_string(text, at, key=False)
        elif char == "<":
            return self._begin_string(text, at, key=False)
        self._at = _Expect.WORD
        return self._read_word(text, at) if _WORD.match(char) else self._fail(at)

    # --- dicts and sets ----------------------------------------------------------------------------
    #
    # `{'a': 1}` is a dict, `{'a', 'b'}` a set: a list in JSON.  Until the text after the first element decides, the
    # brace and the element are held.  Case: pythonic/n5_2_set.

    def _read_first(self, text: str, at: int) -> int:
        """Read the first key of a dict, or the first element of a set."""
        char = text[at]
        if char in _QUOTES:
            return self._begin_string(text, at, key=False)
        if char in _CLOSERS or char == "}":
            self._decide_brace(is_dict=char == "}")
            return at
        self._at = _Expect.WORD
        return self._read_word(text, at) if _WORD.match(char) else self._fail(at)

    def _decide_brace(self, *, is_dict: bool) -> None:
        brace = self._brace
        assert brace is not None  # noqa: S101 -- the state says so
        self._brace = None
        self._waiting = 0
        self._empty = len(self._out) == brace + 1
        self._stack[-1] = ("}", "}" if is_dict else "]")
        if is_dict:
            self._at = _Expect.KEY if self._empty else _Expect.COLON
            self._known = False
            self._types = STRING_ONLY
            if not self._empty and self._out[-1] != '"':
                self._out[-1] = quoted(self._first_word)
        else:
            self._out[brace] = "["
            self._at = _Expect.FIRST if self._empty else _Expect.COMMA

    def _pop(self, at: int) -> int:
        _, json = self._stack.pop()
        if self._out and self._out[-1] == ", ":
            self._out.pop()  # a comma before the closer
        self._out.append(json)
        self._empty = False
        self._at = _Expect.COMMA
        if not self._stack:
            self._flush()
            # The bracket around the arguments shows whether one inside them is missing.
            # Case: sarashina/n0_4_inner_bracket_missing.
            self._suspect = bool(self._outer) and self._swallows
            if not self._suspect:
                self._sink.end(complete=True)
            self._at = _Expect.OUTER
            if not self._outer:
                self._machine.leave_call()
        return at + 1

    def _read_outer(self, text: str, at: int) -> int:
        """Read one closer around the arguments; end the call if there is none."""
        solid = _SOLID.search(text, at, at + MAX_KEY_CHARS)
        if solid is None and len(text) - at < MAX_KEY_CHARS:
            return at
        if solid is None or solid.group() != self._outer[0]:
            self.stop()
            return at
        self._end_suspect(complete=True)
        self._outer = self._outer[1:]
        if not self._outer:
            self._machine.leave_call()
        return solid.end()

    def _end_suspect(self, *, complete: bool) -> None:
        if self._suspect:
            self._suspect = False
            if not complete:
                self._sink.problem("native_call_invalid", self._name)
            self._sink.end(complete=complete)

    # --- words -------------------------------------------------------------------------------------

    def _read_word(self, text: str, at: int) -> int:
        match = (_WORD if self._python else _BARE).match(text, at)
        if match is not None:
            self._word.append(match.group())
            self._waiting += len(match.group())
            at = match.end()
        if at < len(text):
            word = "".join(self._word).strip()
            empty = _EMPTY_SET.match(text, at) if self._python and word == "set" else None
            if empty is not None and empty.group()[-1] != ")":
                return at  # the bracket may follow
            self._word = []
            self._waiting = 0
            self._first_word = word
            if empty is not None:
                self._out.append("[]")
                at = empty.end()
            else:
                self._out.append(self._word_value(word))
            self._after_value()
        return at

    def _after_value(self) -> None:
        self._at = _Expect.COMMA if self._brace is None else _Expect.COLON_OR_COMMA

    def _word_value(self, word: str) -> str:
        """Return the JSON of a bare word, by the schema if the format or the schema asks for it."""
        if self._known and len(self._stack) == 1 and not self._python:
            if self._spec.typed:
                return to_json(word, self._types)
            if self._types == STRING_ONLY and self._declared_string:
                return quoted(word)  # case: gemma4/n4_3_bare_scalar_for_a_string
        return _value(word)

    # --- strings -----------------------------------------------------------------------------------

    def _begin_string(self, text: str, at: int, *, key: bool) -> int:
        quote = self._spec.quote
        if self._python:
            quote = text[at]
            if text.startswith(quote * 3, at):
                quote *= 3
            elif text.startswith(quote * 2, at) and len(text) == at + 2:
                return at  # an empty string, or the start of a triple quotation mark
            elif len(text) == at + 1:
                return at
        elif not text.startswith(quote, at):
            return at if quote.startswith(text[at:]) else self._fail(at)
        self._quote = quote
        self._odd = False
        self._key_text = [] if key else None
        self._plain = _plain(self._spec, quote[0])
        self._is_key = key
        if key:
            self._begin_key()
            self._known = False
            self._types = STRING_ONLY
        self._typed = None
        if not key and self._spec.typed and len(self._stack) == 1 and self._types != STRING_ONLY:
            self._typed = []
            self._waiting = 0
        else:
            self._out.append('"')
        self._at = _Expect.STRING
        return at + len(quote)

    def _add(self, text: str) -> None:
        if self._key_text is not None:
            self._key_text.append(text)
        if self._typed is None:
            self._out.append(escaped(text))
            if self._brace is not None:
                self._waiting += len(text)
        else:
            self._typed.append(text)
            self._waiting += len(text)

    def _end_string(self) -> None:
        if self._typed is not None:
            self._out.append(to_json("".join(self._typed), self._types))
            self._typed = None
        else:
            self._out.append('"')
        if self._is_key:
            self._note_key("".join(self._key_text or ()))
            self._at = _Expect.COLON
        else:
            self._after_value()

    def _read_marked(self, text: str, at: int) -> int:
        """Read a string up to Gemma's quotation mark."""
        broken = self._find_break(text, at)
        found = text.find(self._quote, at)
        if 0 <= found < broken or found == broken == at:
            self._add(text[at:found])
            self._end_string()
            return found + len(self._quote)
        if broken == at:
            return self._end_broken(text, at)
        keep = min(broken, _tail(text, at, self._quote))
        if keep > at:
            self._add(text[at:keep])
        return keep

    def _read_python(self, text: str, at: int) -> int:
        """Read a Python string up to its quotation mark or its next escape."""
        quote = self._quote
        to = at
        end = self._find_break(text, at)
        if end == at and text[at] != quote[0]:
            return self._end_broken(text, at)
        while to < end and text[to] != "\\" and text[to] != quote[0]:
            following = [
                found for found in (text.find("\\", to), text.find(quote[0], to)) if found >= 0
            ]
            to = min(*following, end) if following else end
        if to > at:
            self._add(text[at:to])
            return to
        if text[to] == "\\":
            return self._read_escape(text, to)
        if len(quote) == 3:
            return self._read_triple(text, to)
        ends = self._may_end(text[to + 1 : to + MAX_KEY_CHARS])
        if ends is None and len(text) - to < MAX_KEY_CHARS:
            return to
        if ends:
            self._end_string()
        else:
            self._odd = True
            self._add(quote)
        return to + 1

    # --- strings that were never closed ------------------------------------------------------------
    #
    # Cases: lfm2/n0_5_string_not_closed, pythonic/n0_5_string_not_closed, gemma4/n0_5_string_not_closed.

    def _find_break(self, text: str, at: int) -> int:
        """Return where the end of this call and the header of another one begin, or may begin."""
        found = self._break
        if self._searched is not text or (found if isinstance(found, int) else found.start) < at:
            self._searched = text
            self._break = found = self._breaks.scan(text, at)
        return found if isinstance(found, int) else found.start

    def _end_broken(self, text: str, at: int) -> int:
        """End a call whose string was never closed, if another call follows; else this is text of the string."""
        found = self._break
        if isinstance(found, int):
            return at  # more text is needed
        if not self._is_next_call(found.groups):
            self._add(text[at])
            return at + 1
        if self._typed:
            self._out.append(truncated("".join(self._typed)))
        self._flush()
        self._sink.problem("call_cut", self._name)
        self._sink.end(complete=False)
        self._machine.leave_call()
        brackets = _BRACKETS.match(text, at)
        return at if brackets is None else brackets.end()

    def _is_next_call(self, groups: dict[str, str]) -> bool:
        declared = self._machine.declared
        name = declared.resolve_name(groups["next"])
        if declared.known and name not in declared:
            return False
        # No key of a dict has a call in it; other text may, in other quotation marks.
        if "quote" in groups and groups["quote"] != self._quote and not self._may_be_key:
            return False
        return "key" not in groups or groups["key"] in declared.parameters(name).properties

    @property
    def _may_be_key(self) -> bool:
        """The open string is a key, or the first element of a dict or a set."""
        return self._is_key or self._brace is not None

    def _may_end(self, rest: str) -> bool | None:
        """Return whether a quotation mark before `rest` ends the string; None: more text is needed.

        It does only if a legal continuation follows: strings contain unescaped quotation marks.
        Case: pythonic/n5_1_quotes_in_a_command.
        """
        if self._is_key:
            return True  # a key contains no quotation mark: sarashina/n5_1_quote_missing_in_a_key
        depth = len(self._stack)
        solid = _SOLID.search(rest)
        if solid is None:
            return None
        if self._brace is not None and solid.group() == ":":
            return True
        at = solid.start()
        while rest[at] == self._stack[depth - 1][0]:
            depth -= 1
            solid = _SOLID.search(rest, at + 1)
            if not depth:
                return self._may_follow_call(rest, solid)
            if solid is None:
                return None
            at = solid.start()
        if rest[at] != ",":
            return False
        solid = _SOLID.search(rest, at + 1)
        if solid is None:
            return None
        following = _NEXT[self._stack[depth - 1]]
        if following.match(rest, solid.start()):
            return True
        may = any(following.match(rest + more, solid.start()) for more in ("a=", "a:"))
        return None if may else False

    def _may_follow_call(self, rest: str, solid: re.Match[str] | None) -> bool | None:
        """Return whether the text after a call's closing bracket can follow a call."""
        if self._outer:
            return True
        at = len(rest) if solid is None else solid.start()
        if _AFTER_CALL.match(rest, at):
            return True
        if solid is None or any(_AFTER_CALL.match(rest + char, at) for char in "|("):
            return self._ended or None
        return False

    def _read_triple(self, text: str, at: int) -> int:
        if text.startswith(self._quote, at):
            self._end_string()
            return at + 3
        if len(text) - at < 3:
            return at
        self._add(text[at])
        return at + 1

    def _read_escape(self, text: str, at: int) -> int:
        if len(text) == at + 1:
            return at
        char = text[at + 1]
        digits = _CODES.get(char)
        if digits is None:
            self._add(_ESCAPES.get(char, char if char in "\\'\"" else f"\\{char}"))
            return at + 2
        code = text[at + 2 : at + 2 + digits]
        if len(code) < digits and len(text) == at + 2 + len(code):
            return at
        try:
            self._add(chr(int(code, 16)))
        except (ValueError, OverflowError):
            self._add(text[at : at + 2])
            return at + 2
        return at + 2 + digits

    # --- the end -----------------------------------------------------------------------------------

    def _fail(self, at: int) -> int:
        self._flush()
        self._sink.problem("native_call_invalid", self._name)
        self._sink.end(complete=False)
        self._machine.leave_call()
        return at

    def _flush(self) -> None:
        if self._brace == 0:
            return
        if self._brace is not None:
            json = "".join(self._out[: self._brace])
            self._out = self._out[self._brace :]
            self._brace = 0
        else:
            # A comma is held until a value follows it.  Text of a string may look like one: pythonic/comma_in_a_string.
            comma = self._at is not _Expect.STRING and bool(self._out) and self._out[-1] == ", "
            json = "".join(self._out[:-1] if comma else self._out)
            self._out = [", "] if comma else []
        if json:
            self._sink.args(json)


def _value(word: str) -> str:
    """Return the JSON for a number or a word."""
    known = _WORDS.get(word)
    if known is not None:
        return known
    number = loose_number(word)
    if number is not None:
        return number
    if word[:1].isdigit() and len(word) < _MAX_DIGITS:
        try:
            value = ast.literal_eval(word)
        except (ValueError, SyntaxError):
            value = None
        if isinstance(value, int):
            return str(value)
    return quoted(word)


def _half_word(word: str) -> str:
    """Return the JSON for a number or a word that was cut."""
    known = (json[: len(word)] for whole, json in _WORDS.items() if whole.startswith(word))
    return next(known, truncated(word))


def _tail(text: str, at: int, marker: str) -> int:
    """Return the start of the suffix that may become `marker`."""
    for length in range(min(len(marker) - 1, len(text) - at), 0, -1):
        if marker.startswith(text[-length:]):
            return len(text) - length
    return len(text)
