"""Calls that are JSON objects with a name and arguments: one, or several in an array (`ObjectsSpec`).

An object is certain to be a call once its name and the start of its arguments have arrived; until then its text is
held, and emitted unchanged if it is not a call.  From then on the arguments are emitted as they arrive.  Arguments
before the name are held until the name arrives.
"""

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dragoman.errors import TooLargeError
from dragoman.toolcalls.bodies.json import close_arguments
from dragoman.toolcalls.format import EXCERPT_CHARS, ObjectsSpec
from dragoman.toolcalls.scanner import FoundMarker
from dragoman.toolcalls.schema_types import python_literal
from dragoman.turn.arguments import JsonArguments
from dragoman.wire.json_scanner import JsonScanner
from dragoman.wire.json_values import decode_any

if TYPE_CHECKING:
    from dragoman.toolcalls.machine import Machine

_SOLID: Final = re.compile(r"\S")
_SPACE: Final = " \t\n\r"
_BRACKETS: Final = re.compile("[}]{1,16}")  # of an object that is followed by another one
# Other keys that real calls have.
_OTHER_KEYS: Final = frozenset({"type", "id", "index", "function", "tool_call_id", "call_id"})
# The text of an object before its name and arguments is held.  Real calls have an id and a type there; beyond
# this many characters an object is text.
MAX_HEADER_CHARS: Final = 1024
# A call written as a Python dict is held until its end; beyond this many characters it is text.
MAX_LITERAL_CHARS: Final = 64 * 1024
_LITERAL_LEADS: Final = ("'", "T", "F", "N")  # Python where JSON is expected


class _Expect:
    """What the parser expects next.  A member of an enum would take ten times as long to look up."""

    ITEM: Final = "item"  # an object or an array
    ELEMENT: Final = "element"  # an object of the array, or its end
    NEXT: Final = "next"  # a comma or the end of the array
    KEY: Final = "key"  # a key, or the end of the object
    COLON: Final = "colon"
    VALUE: Final = "value"
    COMMA: Final = "comma"  # a comma or the end of the object
    STRING: Final = "string"  # inside a key or a value that is being gathered
    ARGUMENTS: Final = "arguments"  # inside arguments that are emitted as they arrive
    FREE: Final = "free"  # inside arguments that are not JSON
    LITERAL: Final = "literal"  # inside a call written as a Python dict


class ObjectsBody:
    """One object, or an array of them."""

    def __init__(self, machine: "Machine", spec: ObjectsSpec, raw: str) -> None:
        self._machine = machine
        self._sink = machine.sink
        self._spec = spec
        self._at = _Expect.ITEM
        self._raw: list[str] | None = [raw]  # all text so far, while the call is uncertain
        self._raw_size = self._opener_size = len(raw)
        self._later = False  # another object of the array precedes the current one
        self._array = False
        self._key = ""
        self._name: str | None = None
        self._id = ""
        self._early: str | None = None  # arguments that came before the name
        self._nested = 0  # open inner objects, as in `{"function": {"name": …}}`
        self._done = False  # the current object's call has been emitted
        self._scanner = JsonScanner(limits=machine.limits)
        self._gathered: list[str] = []
        self._gathered_size = 0
        self._is_key = False  # a key is being gathered
        self._arguments: JsonArguments | None = None
        self._in_string = False  # the next piece begins inside a string of the arguments
        self._overfull = False  # a limit was exceeded: the rest of the arguments is dropped
        # A bracket may be missing in the arguments: the one of the object around them shows it.
        # Case: hermes/n0_4_inner_bracket_missing.
        self._suspect = False
        self._from = 0  # where the current step began in the text
        self._plain = machine.grammar.plain

    @property
    def holding(self) -> bool:
        return self._raw is not None or bool(self._gathered)

    @property
    def held(self) -> str:
        return "".join(self._raw or ())

    def start(self) -> None:
        pass

    # --- text in -----------------------------------------------------------------------------------

    def feed(self, text: str, at: int, /) -> int:
        if self._in_string and not at and self._plain(text) and self._arguments is not None:
            # Fast path for most pieces: the text continues a string of the arguments.
            try:
                self._arguments.pass_string(text)
            except TooLargeError:
                self._in_string = False
                return self.feed(text, at)
            self._sink.args(text)
            return len(text)
        self._in_string = False
        room = self._room()
        while room is not None and room < len(text) - at:
            # Uncertain text becomes text at the same character however it is cut.
            to = self._read_on(text[: at + room], at)
            if to < at + room or self._machine.body is not self:
                return to
            at, room = to, self._room()
            if room == 0:
                self._return_as_text("")
                return at
        return self._read_on(text, at)

    def _room(self) -> int | None:
        """Return how many more characters may be held; None if the call is certain."""
        if self._raw is None:
            return None
        if self._at is _Expect.LITERAL:
            most = MAX_LITERAL_CHARS
        elif not self._spec.prose and (
            self._early is not None or (self._at is _Expect.STRING and self._is_early())
        ):
            most = self._machine.limits.max_tool_args_bytes
        else:
            most = MAX_HEADER_CHARS
        return max(0, most - self._raw_size)

    def _read_on(self, text: str, at: int) -> int:
        end = len(text)
        while at < end and self._machine.body is self:
            self._from = at
            state = self._at
            try:
                to = self._read(text, at)
            except TooLargeError as error:
                self._sink.problem("native_call_invalid", str(error), limit=error.limit)
                to = self._overflow(text, at)
            if self._raw is not None:
                self._raw.append(text[at:to])
                self._raw_size += to - at
            if to == at and state is self._at:
                break
            at = to
        return at

    def close(self, text: str, at: int, /, *, cut: bool) -> int:
        at = self.feed(text, at)
        if self._machine.body is not self:
            return at
        breaks = self._machine.grammar.breaks
        if self._at is _Expect.ARGUMENTS and breaks is not None:
            found = breaks.find_last(text, at)
            if found is not None and self._arguments is not None and self._arguments.in_string:
                self._sink.args(self._arguments.feed(text[at : found.start]))
                self.stop()
                return found.start
        try:
            self._end_with(text[at:], cut=cut)
        except TooLargeError as error:
            self._sink.problem("native_call_invalid", str(error), limit=error.limit)
            self._overflow(text, at)
            if self._machine.body is self:
                self._end_free(cut=cut)
        return len(text)

    def stop(self) -> None:
        if self._suspect:
            self._end_suspect()
        elif self._arguments is not None:
            self._end_arguments(cut=True)
        self._machine.leave_call()

    def _end_with(self, rest: str, *, cut: bool) -> None:
        """End the call at the end of the text; `rest`: the text that was not consumed."""
        if self._at is _Expect.LITERAL:
            self._end_literal(rest)
        elif self._at is _Expect.FREE:
            self._end_free(cut=cut)
        elif self._arguments is not None and self._at is _Expect.ARGUMENTS:
            if rest and self._arguments.in_string:
                self._sink.args(self._arguments.feed(rest))
            self._end_arguments(cut=cut or not self._arguments.begun)
            self._machine.leave_call()
        elif self._raw is not None and not (self._later and self._name is not None):
            self._return_as_text(rest)
        else:
            if self._suspect:
                self._end_suspect()
            elif not self._done and self._name is not None:
                self._emit_cut_call()
            self._machine.leave_call()

    def _read(self, text: str, at: int) -> int:
        match self._at:
            case _Expect.ARGUMENTS:
                return self._read_arguments(text, at)
            case _Expect.STRING:
                return self._gather(text, at)
            case _Expect.FREE | _Expect.LITERAL:
                return self._read_until_end(text, at)
            case _:
                return self._read_token(text, at)

    def _read_token(self, text: str, at: int) -> int:
        """Parse one structural character, after blanks."""
        solid = _SOLID.search(text, at)
        if solid is None:
            # Blanks after the last object are not part of it.
            return at if self._at is _Expect.ITEM and self._done else len(text)
        at = solid.start()
        char = text[at]
        where = self._at
        if where in (_Expect.ITEM, _Expect.ELEMENT) and char == "{":
            self._begin_object()
        elif where is _Expect.ITEM and char == "[":
            self._array = True
            self._at = _Expect.ELEMENT
        elif where in (_Expect.ELEMENT, _Expect.NEXT) and char == "]":
            if self._raw is not None:
                return self._fail(text, at)
            self._machine.leave_call()
        elif where is _Expect.NEXT and char == ",":
            self._at = _Expect.ELEMENT
        elif where is _Expect.KEY and char == '"':
            self._begin_gathering(key=True)
            return at
        elif where is _Expect.KEY and char == "{" and self._array and self._done:
            # The object's own bracket is missing.  Case: jamba/n0_4_inner_bracket_missing.
            if self._suspect:
                self._end_suspect()
            self._begin_object()
        elif where in (_Expect.KEY, _Expect.COMMA) and char == "}":
            return self._end_object(text, at)
        elif where is _Expect.COMMA and char == ",":
            self._at = _Expect.KEY
        elif where is _Expect.COLON and char == ":":
            self._at = _Expect.VALUE
        elif where is _Expect.VALUE:
            return self._begin_value(text, at)
        else:
            return self._fail(text, at)
        return at + 1

    # --- objects -----------------------------------------------------------------------------------

    def _begin_object(self) -> None:
        self._at = _Expect.KEY
        if self._raw is None:
            # Another object of the array, which may not be a call: jamba/n0_4_second_header_cut.
            self._raw = []
            self._raw_size = 0
            self._later = True
        self._name = None
        self._id = ""
        self._early = None
        self._nested = 0
        self._done = False

    def _end_object(self, text: str, at: int) -> int:
        if self._suspect:
            self._suspect = False
            self._end_arguments(cut=False)
        if self._nested:
            self._nested -= 1
            self._at = _Expect.COMMA
            return at + 1
        if not self._done:
            if self._name is None or (self._spec.declared and self._early is None):
                return self._fail(text, at)
            self._emit_call(self._early if self._early is not None else "{}")
        if self._array:
            self._at = _Expect.NEXT
        else:
            self._machine.leave_call()
        return at + 1

    def _begin_value(self, text: str, at: int) -> int:
        char = text[at]
        spec = self._spec
        if self._is_arguments():
            if char == "{" and self._name is not None and not self._done:
                self._begin_call()
                self._arguments = JsonArguments(limits=self._machine.limits)
                self._at = _Expect.ARGUMENTS
                return at
        elif char == "{" and self._key == "function" and "function" not in spec.argument_keys:
            self._nested += 1
            self._at = _Expect.KEY
            return at + 1
        self._begin_gathering(key=False)
        return self._gather(text, at)

    def _is_early(self) -> bool:
        """Return whether arguments before the name are being gathered."""
        return self._name is None and not self._is_key and self._is_arguments()

    def _is_arguments(self) -> bool:
        return self._spec.single_key or self._key in self._spec.argument_keys

    # --- gathered strings and values ---------------------------------------------------------------

    def _begin_gathering(self, *, key: bool) -> None:
        self._is_key = key
        self._gathered = []
        self._gathered_size = 0
        self._scanner = JsonScanner(limits=self._machine.limits)
        self._at = _Expect.STRING

    def _gather(self, text: str, at: int) -> int:
        """Gather a key or a value to its end."""
        scanner = self._scanner
        piece = text[at:]
        taken = scanner.feed(piece)
        if (
            taken < len(piece)
            and not scanner.done
            and scanner.in_string
            and piece[taken] in "\n\t\r"
        ):
            # An unescaped line feed in a string, which models write.
            self._gathered.append(piece[:taken] + f"\\u{ord(piece[taken]):04x}")
            return at + taken + 1
        self._gathered.append(piece[:taken])
        self._gathered_size += taken
        if self._gathered_size > self._machine.limits.max_tool_args_bytes:
            raise TooLargeError("max_tool_args_bytes", self._machine.limits.max_tool_args_bytes)
        if scanner.done:
            return self._end_gathering(text, at + taken)
        if taken < len(piece):
            return self._fail(text, at + taken)
        return len(text)

    def _end_gathering(self, text: str, at: int) -> int:
        raw = "".join(self._gathered).strip(_SPACE)
        self._gathered = []
        if self._is_key:
            self._key = _string(raw) or ""
            self._at = _Expect.COLON
            if self._spec.single_key:
                return at if self._take_name(self._key) else self._fail(text, at)
            known = (*self._spec.name_keys, *self._spec.argument_keys, *self._spec.id_keys)
            if self._spec.declared and self._key not in known and self._key not in _OTHER_KEYS:
                # The rules that follow need the key's quotation mark: see `objects_in_prose`.
                return self._fail(text, at - 1)
            return at
        self._at = _Expect.COMMA
        if self._is_arguments():
            if self._name is not None and not self._done:
                self._emit_call(raw)
            elif not self._done:
                self._early = raw
        elif self._key in self._spec.name_keys or (self._key == "function" and self._name is None):
            name = _string(raw)
            if name is not None and not self._take_name(name):
                return self._fail(text, at)
        elif self._key in self._spec.id_keys:
            self._id = _string(raw) or ""
            if self._done:
                # The call was emitted with a generated id.  Case: mistral/id_after_arguments.
                self._sink.problem("native_noise_dropped", "id after the arguments", excerpt=raw)
        return at

    def _take_name(self, written: str) -> bool:
        """Set the call's name; return False if this is not a call."""
        declared = self._machine.declared
        name = declared.resolve_name(written)
        if not name or (self._spec.declared and declared.known and name not in declared):
            return False
        if not self._done:
            self._name = name
            if self._early is not None:
                self._emit_call(self._early)
        return True

    # --- calls -------------------------------------------------------------------------------------

    def _begin_call(self) -> None:
        self._machine.enter_call()
        self._raw = None
        self._done = True
        self._sink.begin(self._id, self._name or "")

    def _emit_call(self, raw: str) -> None:
        """Emit a call whose arguments are complete."""
        self._begin_call()
        self._arguments = JsonArguments(limits=self._machine.limits)
        out = self._arguments.feed(raw)
        if out:
            self._sink.args(out)
        self._end_arguments(cut=False)

    def _emit_cut_call(self) -> None:
        """Emit a call that was cut before its arguments."""
        self._begin_call()
        self._sink.problem("call_cut", self._name or "")
        self._sink.end(complete=False)

    def _read_arguments(self, text: str, at: int) -> int:
        found = self._machine.find_break(text, at)
        to = found.start if isinstance(found, FoundMarker) else found
        if to == len(text):
            return self._read_json(text, at)
        if to > at:
            reached = self._read_json(text[:to], at)
            if reached < to or self._at is not _Expect.ARGUMENTS:
                return reached
        if self._arguments is None or not self._arguments.in_string:
            return self._read_json(text, to)
        if isinstance(found, FoundMarker):
            brackets = _BRACKETS.match(text, to)
            if brackets is None or not self._array:
                self.stop()
            else:
                self._end_arguments(cut=True)  # another object of the array follows
                self._at = _Expect.NEXT
            return to if brackets is None else brackets.end()
        return to

    def _read_json(self, text: str, at: int) -> int:
        arguments = self._arguments
        assert arguments is not None  # noqa: S101 -- the state says so
        out = arguments.feed(text[at:] if at else text)
        if arguments.whole:
            out = out.rstrip(_SPACE)
        if out:
            self._sink.args(out)
        if arguments.whole:
            at = len(text) - len(arguments.take_unread())
            self._at = _Expect.COMMA
            properties = self._machine.declared.parameters(self._name or "").properties
            self._suspect = arguments.swallows(frozenset(properties))
            if not self._suspect:
                self._end_arguments(cut=False)
            return at
        if arguments.stalled:
            self._at = _Expect.FREE
            self._gathered = []
            self._gathered_size = 0
            return self._read_until_end(text, len(text) - len(arguments.take_unread()))
        self._in_string = arguments.in_string
        return len(text)

    def _end_arguments(self, *, cut: bool) -> None:
        assert self._arguments is not None  # noqa: S101 -- the caller looked
        parameters = self._machine.declared.parameters(self._name or "")
        outcome = close_arguments(self._arguments, parameters, cut=cut)
        self._arguments = None
        if outcome.text:
            self._sink.args(outcome.text)
        for code in outcome.problems:
            self._sink.problem(code, self._name or "")
        self._sink.end(complete=outcome.complete)

    def _end_suspect(self) -> None:
        """End a call whose arguments took the bracket of the object around them."""
        self._suspect = False
        self._arguments = None
        self._sink.problem("native_call_invalid", self._name or "")
        self._sink.end(complete=False)

    # --- text that is not JSON ---------------------------------------------------------------------

    def _fail(self, text: str, at: int) -> int:
        """Handle an unexpected character."""
        if (self._raw is None or self._later) and not self._done:
            shown = text[at : at + EXCERPT_CHARS]
            self._sink.problem("native_call_invalid", "not a call", excerpt=shown)
        if self._suspect:
            self._end_suspect()
        if self._raw is None:
            self._machine.leave_call()
            return at
        if text[at : at + 1] in _LITERAL_LEADS and not self._spec.declared:
            self._at = _Expect.LITERAL
        else:
            self._return_as_text(text[self._from : at])
        return at

    def _return_as_text(self, rest: str) -> None:
        raw = "".join(self._raw or ()) + rest
        self._raw = None
        self._machine.return_as_text(raw.lstrip() if self._later else raw)

    def _read_until_end(self, text: str, at: int) -> int:
        """Read text that is not JSON, up to the next marker."""
        grammar = self._machine.grammar
        ends = grammar.literal_ends if self._at is _Expect.LITERAL else grammar.ends
        found = ends.scan(text, at)
        to = found.start if isinstance(found, FoundMarker) else found
        if self._at is _Expect.LITERAL:
            if isinstance(found, FoundMarker):
                self._end_literal(text[at:to])
            return to
        if not self._overfull:
            self._gathered.append(text[at:to])
            self._gathered_size += to - at
        if self._gathered_size > self._machine.limits.max_tool_args_bytes:
            raise TooLargeError("max_tool_args_bytes", self._machine.limits.max_tool_args_bytes)
        if isinstance(found, FoundMarker):
            self._end_free(cut=False)
        return to

    def _overflow(self, text: str, at: int) -> int:
        """Handle an exceeded limit: drop the rest of a call's arguments; anything else becomes text."""
        if self._arguments is None:
            return self._fail(text, at)
        self._overfull = True
        self._gathered = []
        self._gathered_size = 0
        self._at = _Expect.FREE
        return at

    def _end_free(self, *, cut: bool) -> None:
        """End arguments that are not JSON; the closers of the surrounding object are not part of them."""
        assert self._arguments is not None  # noqa: S101 -- the state says so
        if self._overfull:
            self.stop()
            return
        rest = "".join(self._gathered).rstrip()
        self._gathered = []
        for closer in ("]" if self._array else "") + "}" * (1 + self._nested):
            rest = rest.removesuffix(closer).rstrip()
        out = self._arguments.feed(rest)
        if out:
            self._sink.args(out)
        self._end_arguments(cut=cut)
        self._machine.leave_call()

    def _end_literal(self, rest: str) -> None:
        """Parse a complete call written as a Python dict or list."""
        raw = "".join(self._raw or ()) + rest
        # The opener may contain a bracket.  Case: mistral/n6_2_python_dicts.
        text = raw[self._opener_size :].strip()
        # Several dicts, one in each line.  Case: minimax_m1/n6_2_python_dicts.
        calls = _literal_calls(text, self._spec) or _literal_calls(
            f"[{','.join(text.splitlines())}]", self._spec
        )
        if not calls:
            self._return_as_text(rest)
            self._sink.problem("native_call_invalid", excerpt=raw[:EXCERPT_CHARS])
            return
        for name, arguments in calls:
            self._name = self._machine.declared.resolve_name(name)
            self._emit_call(arguments)
            self._sink.problem("args_repaired", self._name)
        self._machine.leave_call()


def _string(raw: str) -> str | None:
    try:
        value: Any = decode_any(raw)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return value if isinstance(value, str) else None


def _literal_calls(text: str, spec: ObjectsSpec) -> list[tuple[str, str]]:
    """Return name and arguments of each Python dict; empty if one is not a call."""
    try:
        value = python_literal(text)
    except ValueError:
        return []
    calls: list[tuple[str, str]] = []
    for one in value if isinstance(value, list | tuple) else [value]:
        if not isinstance(one, dict):
            return []
        name: Any
        arguments: Any
        if spec.single_key:
            # Case: apertus/n6_2_python_dict.
            name, arguments = next(iter(one.items())) if len(one) == 1 else (None, None)
        else:
            name = next((one[key] for key in spec.name_keys if key in one), None)
            arguments = next((one[key] for key in spec.argument_keys if key in one), {})
        if not isinstance(name, str):
            return []
        try:
            calls.append((name, msgspec.json.encode(arguments).decode()))
        except (TypeError, ValueError):
            return []
    return calls
