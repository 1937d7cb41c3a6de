"""Arguments that are one JSON object: emitted verbatim as they arrive (`JsonSpec`)."""

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from dragoman.errors import TooLargeError
from dragoman.toolcalls.format import EXCERPT_CHARS
from dragoman.toolcalls.scanner import FoundMarker
from dragoman.toolcalls.schema_types import ToolParameters
from dragoman.turn.arguments import JsonArguments

if TYPE_CHECKING:
    from dragoman.toolcalls.machine import Machine

_SPACE: Final = " \t\n\r"


class JsonBody:
    """One JSON object, emitted verbatim.

    A call without a name is held until its arguments are complete, because they may identify the tool.
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
        self._waiting: list[str] = []  # the arguments of a call without a name
        self._ended = ended  # the header was the whole call
        self._free = False  # not JSON: the arguments end at the next marker
        self._in_string = False  # the next piece begins inside a string
        self._overfull = False  # a limit was exceeded: the rest is dropped
        self._plain = machine.grammar.plain

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
                self._end(cut=self._is_cut_header())

    def feed(self, text: str, at: int, /) -> int:
        if self._in_string and not at and self._plain(text):
            # Fast path for most pieces: the text continues a string.
            try:
                self._arguments.pass_string(text)
            except TooLargeError:
                self._in_string = False
            else:
                self._sink.args(text)
                return len(text)
        if self._free:
            return self._read_free(text, at)
        found = self._machine.find_break(text, at)
        to = found.start if isinstance(found, FoundMarker) else found
        if to == len(text):
            return self._read_json(text, at)
        if to > at:
            reached = self._read_json(text[:to], at)
            if reached < to or self._free or self._machine.body is not self:
                return reached
        if not self._arguments.in_string:
            return self._read_json(text, to)
        if isinstance(found, FoundMarker):
            self._end(cut=True)  # the string was never closed
        return to

    def _read_json(self, text: str, at: int) -> int:
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
        """Continue after the point where the text stopped being JSON."""
        self._free = True
        self._in_string = False
        to = len(text) - len(self._arguments.take_unread())
        self._keep(text[at:to])
        return self._read_free(text, to)

    def close(self, text: str, at: int, /, *, cut: bool) -> int:
        at = self.feed(text, at)
        if self._free and at < len(text) and self._machine.body is self:
            # `feed` stops where the text stops being JSON.  Case: mistral/free_text_at_the_end.
            at = self._read_free(text, at)
        if self._machine.body is not self:
            return at
        if self._arguments.in_string and at < len(text):
            breaks = self._machine.grammar.breaks
            broken = None if breaks is None else breaks.find_last(text, at)
            at = self._read_json(text if broken is None else text[: broken.start], at)
            if broken is not None and self._machine.body is self:
                self._end(cut=True)
            if self._machine.body is not self:
                return at
        found = self._machine.grammar.ends.find_last(text, at) if at < len(text) else None
        to = len(text) if found is None else found.start
        # If no marker follows, the rest is a truncated one.
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
        """Parse a fragment; return how many blanks at its end are not part of the object."""
        if self._overfull:
            return 0
        try:
            out = self._arguments.feed(fragment)
        except TooLargeError as error:
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
        parameters = self._machine.declared.parameters(self._name or "")
        outcome = close_arguments(self._arguments, parameters, cut=cut or self._overfull)
        if self._raw is not None:
            self._end_nameless(outcome)
            return
        if outcome.text:
            self._sink.args(outcome.text)
        for code in outcome.problems:
            self._sink.problem(code, self._name or "")
        self._sink.end(complete=outcome.complete)
        self._machine.leave_call()

    def _is_cut_header(self) -> bool:
        """Return whether a header without arguments is the start of a call that was cut.

        Case: mistral/n0_4_header_alone.
        """
        bare = self._machine.closing and not self._machine.declared.takes_nothing(self._name or "")
        return bare or bool(self._machine.declared.parameters(self._name or "").required)

    def _end_nameless(self, outcome: "ClosedArguments") -> None:
        arguments = "".join(self._waiting) + outcome.text
        resolved = (
            self._machine.declared.resolve_by_arguments(arguments) if outcome.complete else None
        )
        if resolved is None:
            raw = "".join(self._raw or ())
            self._sink.problem("native_call_invalid", "no tool", excerpt=raw[:EXCERPT_CHARS])
            self._machine.return_as_text(raw)
            return
        self._machine.enter_call()
        self._sink.begin(self._call_id, resolved.name)
        # The arguments may be a string that contains the object, or no object at all.
        inner = JsonArguments(limits=self._machine.limits)
        text = inner.feed(resolved.arguments)
        parameters = self._machine.declared.parameters(resolved.name)
        closed = close_arguments(inner, parameters, cut=False)
        if text + closed.text:
            self._sink.args(text + closed.text)
        for code in (*outcome.problems, *closed.problems):
            self._sink.problem(code, resolved.name)
        self._sink.end(complete=closed.complete)
        self._machine.leave_call()


class ClosedArguments(Struct, frozen=True, gc=False):
    """How arguments ended."""

    text: str  # JSON that is still to be emitted
    complete: bool
    problems: tuple[str, ...] = ()


def close_arguments(
    arguments: JsonArguments, parameters: ToolParameters, *, cut: bool
) -> ClosedArguments:
    """End JSON arguments; add the last bracket if only that is missing and the model was not stopped early."""
    if cut and not arguments.begun:
        return ClosedArguments("", False, ("call_cut",))
    ending = arguments.end()
    text, losses = ending.text, ending.losses
    if ending.whole:
        return ClosedArguments(text, True, losses)
    if ending.broken and not cut:
        return ClosedArguments(text, False, (*losses, "native_call_invalid"))
    if not cut and arguments.may_close(parameters.required, frozenset(parameters.properties)):
        return ClosedArguments(text + "}", True, (*losses, "args_repaired"))
    losses = tuple(code for code in losses if code != "args_invalid")  # the cut explains it
    return ClosedArguments(text, False, (*losses, "call_cut"))
