"""Arguments that are JSON already: passed on as they come."""

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.errors import TooLarge
from dragoman.toolcalls.scanner import FoundMarker
from dragoman.toolcalls.schema_types import PLAIN
from dragoman.turn.arguments import JsonArguments

if TYPE_CHECKING:
    from dragoman.toolcalls.machine import Machine

_EXCERPT_CHARS: Final = 200
_SPACE: Final = " \t\n\r"


class JsonBody:
    """One JSON object, passed on as it comes.

    Without a name the call waits until its arguments are whole: they may tell which tool is meant.
    """

    def __init__(
        self, machine: "Machine", call_id: str, name: str | None, raw: str, *, ended: bool = False
    ) -> None:
        self._machine = machine
        self._sink = machine.sink
        self._call_id = call_id
        self._name = name
        self._arguments = JsonArguments(limits=machine.limits)
        self._raw: list[str] | None = [raw] if name is None else None
        self._waiting: list[str] = []  # arguments of a call without a name
        self._ended = ended  # the header was the whole call
        self._free = False  # no JSON: arguments end where a marker says so
        self._in_string = False  # the next piece begins inside a string
        self._overfull = False  # a limit was passed: the rest is dropped

    @property
    def holding(self) -> bool:
        return self._raw is not None or self._arguments.holding

    @property
    def held(self) -> str:
        return "".join(self._raw or ())

    def start(self) -> None:
        if self._name is not None:
            self._machine.enter_call()
            self._sink.begin(self._call_id, self._name)
            if self._ended:
                self._end(cut=bool(self._required))

    def feed(self, text: str, at: int, /) -> int:
        if self._free:
            return self._read_free(text, at)
        if self._in_string and not at and PLAIN(text):
            # The road of nearly every piece: it goes on inside a string.
            try:
                self._arguments.pass_string(text)
            except TooLarge:
                self._in_string = False
                return self.feed(text, at)
            self._sink.args(text)
            return len(text)
        arguments = self._arguments
        blanks = self._take(text[at:] if at else text)
        if arguments.whole:
            to = len(text) - len(arguments.take_unread()) - blanks
            self._keep(text[at:to])
            self._end(cut=False)
            return to
        if self._overfull and self._raw is not None:
            self._keep(text[at:])
            self._end_nameless(ClosedArguments("", complete=False))
            return len(text)
        if arguments.stalled or self._overfull:
            return self._leave_json(text, at)
        self._keep(text[at:])
        self._in_string = self._raw is None and arguments.in_string
        return len(text)

    def _leave_json(self, text: str, at: int) -> int:
        """Go on where the text is no JSON any more."""
        self._free = True
        self._in_string = False
        to = len(text) - len(self._arguments.take_unread())
        self._keep(text[at:to])
        return self._read_free(text, to)

    def close(self, text: str, at: int, /, *, cut: bool) -> int:
        at = self.feed(text, at)
        if self._machine.body is not self:
            return at
        found = self._machine.grammar.ends.find_last(text, at) if at < len(text) else None
        to = len(text) if found is None else found.start
        # What is left, if it is no marker, is one that was cut off.
        self._keep(text[at:to])
        self._end(cut=cut or not self._arguments.begun)
        return to

    def stop(self) -> None:
        self._end(cut=True)

    def _read_free(self, text: str, at: int) -> int:
        ends = self._machine.grammar.ends
        found = ends.scan(text, at)
        to = found.start if isinstance(found, FoundMarker) else found
        self._keep(text[at:to])
        self._take(text[at:to])
        if isinstance(found, FoundMarker):
            self._end(cut=False)
        return to

    def _take(self, fragment: str) -> int:
        """Take a fragment; return how many blanks at its end belong to what follows the object."""
        if self._overfull:
            return 0
        try:
            out = self._arguments.feed(fragment)
        except TooLarge as error:
            self._overfull = True
            self._sink.problem("native_call_invalid", str(error), limit=error.limit)
            return 0
        if not out:
            return 0
        blanks = 0
        if out[-1] in _SPACE and self._arguments.whole:
            blanks = len(out) - len(out.rstrip(_SPACE))
            out = out.rstrip(_SPACE)
        if self._raw is None:
            self._sink.args(out)
        else:
            self._waiting.append(out)
        return blanks

    def _keep(self, raw: str) -> None:
        if self._raw is not None:
            self._raw.append(raw)

    def _end(self, *, cut: bool) -> None:
        outcome = close_arguments(self._arguments, self._required, cut=cut or self._overfull)
        if self._raw is not None:
            self._end_nameless(outcome)
            return
        if outcome.text:
            self._sink.args(outcome.text)
        for code in outcome.problems:
            self._sink.problem(code, self._name or "")
        self._sink.end(complete=outcome.complete)
        self._machine.leave_call()

    @property
    def _required(self) -> frozenset[str]:
        """The parameters without which the call cannot be meant; unknown until its tool is."""
        name = self._name
        return frozenset() if name is None else self._machine.declared.parameters(name).required

    def _end_nameless(self, outcome: "ClosedArguments") -> None:
        arguments = "".join(self._waiting) + outcome.text
        resolved = (
            self._machine.declared.resolve_by_arguments(arguments) if outcome.complete else None
        )
        if resolved is None:
            raw = "".join(self._raw or ())
            self._sink.problem("native_call_invalid", f"no tool for `{raw[:_EXCERPT_CHARS]}`")
            self._machine.return_as_text(raw)
            return
        self._machine.enter_call()
        self._sink.begin(self._call_id, resolved.name)
        # What is left may be a string that holds the object, or no object at all.
        inner = JsonArguments(limits=self._machine.limits)
        text = inner.feed(resolved.arguments)
        required = self._machine.declared.parameters(resolved.name).required
        settled = close_arguments(inner, required, cut=False)
        if text + settled.text:
            self._sink.args(text + settled.text)
        for code in (*outcome.problems, *settled.problems):
            self._sink.problem(code, resolved.name)
        self._sink.end(complete=settled.complete)
        self._machine.leave_call()


class ClosedArguments(Struct, frozen=True, gc=False):
    """How arguments ended."""

    text: str  # what is still to be sent
    complete: bool
    problems: tuple[str, ...] = ()


def close_arguments(
    arguments: JsonArguments, required: frozenset[str], *, cut: bool
) -> ClosedArguments:
    """End JSON arguments: the last bracket is added, if only that is missing and nothing was cut."""
    if cut and not arguments.begun:
        return ClosedArguments("", False, ("call_cut",))
    ending = arguments.end()
    text, losses = ending.text, ending.losses
    if ending.whole:
        return ClosedArguments(text, True, losses)
    if ending.broken and not cut:
        return ClosedArguments(text, False, (*losses, "native_call_invalid"))
    if not cut and arguments.may_close(required):
        return ClosedArguments(text + "}", True, (*losses, "args_repaired"))
    told = tuple(code for code in losses if code != "args_invalid")  # that it was cut explains it
    return ClosedArguments(text, False, (*told, "call_cut"))
