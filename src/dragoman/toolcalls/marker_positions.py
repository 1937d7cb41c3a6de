"""Where the markers of native tool calls are in a text.

    stage.make_machine = MarkerTracer     a stage of `stage.py` then runs these machines
    tracer.found()                        the markers of one block

A machine counts no positions, because most text is forwarded without reaching it.  A program that wants the positions,
such as a reader of recordings, runs the same text through this machine instead, which sees all of it.
"""

from functools import cache
from typing import Any, Final

from msgspec import Struct

from dragoman.toolcalls.bodies import elements
from dragoman.toolcalls.findings import TextChannel
from dragoman.toolcalls.format import Action, BodySpec, ElementsSpec, Rule, TagsSpec
from dragoman.toolcalls.machine import Machine
from dragoman.toolcalls.native_blocks import NativeBlocks
from dragoman.toolcalls.scanner import FoundMarker, Scanner, scanner

_PIECE_CHARS: Final = 4096
# These leave the marker in the text, or only choose the family whose marker it is.
_SHOWN: Final = frozenset({Action.KEEP, Action.NOT_A_CALL, Action.TRY_FAMILIES})
_REASONING: Final = frozenset({Action.START_REASONING, Action.START_TEXT, Action.END_REASONING})
_AHEAD_CHARS: Final = 512  # of the text after a call that the patterns of its tags may look at


class NativeMarker(Struct, frozen=True, gc=False):
    """A marker that the parser took out of a text.

    Attributes:
        family: The key of the format, such as `kimi_k2`.
        channel: The field of the answer that the text comes from.
        text: The marker, without blanks around it; a call's header includes the tool's name.
        start: Where it begins, in characters of the block's text.
        end: Where it ends.
        call: The number of the call that it belongs to, from 0; None: it belongs to reasoning, or to no call.
    """

    family: str
    channel: TextChannel
    text: str
    start: int
    end: int
    call: int | None = None


class NativeCallText(Struct, frozen=True, gc=False):
    """Where a call is in a text, from its header to the end of its arguments.

    Attributes:
        family: The key of the format.
        channel: The field of the answer that the text comes from.
        start: Where it begins, in characters of the block's text.
        end: Where it ends.
        call: Its number, from 0.
        calls: How many calls are written there: an array of JSON objects can be several.
    """

    family: str
    channel: TextChannel
    start: int
    end: int
    call: int
    calls: int = 1


class _Body(Struct):
    """The text of a call behind its header."""

    spec: BodySpec | None
    header: int  # where the header begins
    start: int
    call: int


class MarkerTracer(Machine):
    """A machine that remembers which markers it took out of one block of text."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self._sure: list[NativeMarker] = []
        self._calls: list[NativeCallText] = []
        self._unsure: list[NativeMarker] = []  # text, if no call follows
        self._stray_markers: list[NativeMarker] = []  # text, if the following text shows that
        self._pieces: list[str] = []  # all text
        self._size = 0  # of it
        self._offset = 0  # of the text that is being parsed
        self._rejected = False  # the marker that is being applied was text
        self._entered = 0  # how often a call became certain
        self._open: _Body | None = None
        super().__init__(*args, **options)

    # --- text in -----------------------------------------------------------------------------------

    def feed(self, text: str, /) -> None:
        """Parse a piece of text."""
        for at in range(0, len(text), _PIECE_CHARS):
            piece = text[at : at + _PIECE_CHARS]
            self._pieces.append(piece)
            self._offset = self._size - len(self.held)
            self._size += len(piece)
            super().feed(piece)

    def close(self, *, cut: bool = False) -> None:
        """End the input."""
        self._offset = self._size - len(self.held)
        super().close(cut=cut)

    @property
    def quiet_leads(self) -> None:
        """All text must come here: it is counted."""
        return

    def found(self) -> tuple[list[NativeMarker], list[NativeCallText]]:
        """Return the markers and calls of the text so far, in their order; a call may be incomplete."""
        self._leave_body(self._size, still_open=True)
        return sorted(self._sure + self._unsure, key=lambda one: one.start), self._calls

    # --- what the machine does with markers ----------------------------------------------------------

    def _apply_marker(self, text: str, at: int, found: FoundMarker) -> int:
        self._leave_body(self._offset + at)
        rule = self._state.rules[found.which]
        calls, entered = self.sink.calls, self._entered
        self._rejected = False
        end = super()._apply_marker(text, at, found)
        if end == found.end and not self._rejected and rule.action not in _SHOWN:
            marker = self._marker(text, found, _call_of(rule, calls))
            if marker is not None:
                self._keep(rule, marker, sure=self._entered > entered)
            if rule.action is Action.CALL:
                header = self._offset + found.start
                self._open = _Body(rule.body, header, self._offset + found.end, calls)
        return end

    def _marker(self, text: str, found: FoundMarker, call: int | None) -> NativeMarker | None:
        raw = text[found.start : found.end]
        shown = raw.strip()
        start = self._offset + found.start + len(raw) - len(raw.lstrip())
        if not shown:
            return None
        blocks = self._blocks
        return NativeMarker(blocks.family, blocks.channel, shown, start, start + len(shown), call)

    @property
    def _blocks(self) -> NativeBlocks:
        assert isinstance(self.sink, NativeBlocks)  # noqa: S101 -- the sink of every stage
        return self.sink

    def _keep(self, rule: Rule, marker: NativeMarker, *, sure: bool) -> None:
        if rule.stray:
            self._stray_markers.append(marker)
        elif rule.section or (rule.action is Action.CALL and not sure):
            self._unsure.append(marker)
        else:
            self._sure.append(marker)

    def _emit_as_text(self, text: str, found: FoundMarker, at: int) -> int:
        self._rejected = True
        return super()._emit_as_text(text, found, at)

    def _emit_until(self, text: str, at: int, to: int) -> int:
        self._leave_body(self._offset + at)
        return super()._emit_until(text, at, to)

    def _emit_prose(self, text: str) -> None:
        opener = self._opener
        super()._emit_prose(text)
        if opener and not self._opener:
            self._unsure.clear()

    def _take_stray(self, rule: Rule, token: str) -> None:
        before = len(self._strays)
        super()._take_stray(rule, token)
        self._rejected = len(self._strays) <= before

    def _resolve_strays(self, text: str) -> str:
        resolved = super()._resolve_strays(text)
        if not self._strays:
            self._stray_markers.clear()
        return resolved

    def _drop_strays(self) -> None:
        if self._strays:
            self._sure += self._stray_markers
            self._stray_markers.clear()
        super()._drop_strays()

    # --- calls -------------------------------------------------------------------------------------

    def enter_call(self) -> None:
        """Keep the markers before a call that is certain now."""
        self._entered += 1
        self._sure += self._unsure
        self._unsure.clear()
        super().enter_call()

    def return_as_text(self, raw: str) -> None:
        """Forget the markers of what is not a call."""
        self._unsure.clear()
        if self._open is not None and self.sink.calls == self._open.call:
            self._open = None  # else the beginning of it was a call: jamba/n0_4_second_header_cut
        super().return_as_text(raw)

    def _leave_body(self, end: int, *, still_open: bool = False) -> None:
        """Find the tags in the text of a call that has ended."""
        body = self._open
        if body is None or (self.body is not None and not still_open):
            return
        self._open = None
        blocks, count = self._blocks, self.sink.calls - body.call
        if count:
            self._calls.append(
                NativeCallText(blocks.family, blocks.channel, body.header, end, body.call, count)
            )
        tags = None if body.spec is None else _tags(body.spec)
        if tags is None:
            return
        text = "".join(self._pieces)
        self._pieces = [text]
        text = text[body.start : end + _AHEAD_CHARS]
        offset, self._offset = self._offset, body.start
        at = 0
        while (found := tags.find_last(text, at)) is not None and body.start + found.start < end:
            marker = self._marker(text, found, body.call)
            if marker is not None:
                self._sure.append(marker)
            at = max(found.end, found.start + 1)
        self._offset = offset


def _call_of(rule: Rule, calls: int) -> int | None:
    """Return the number of the call that a marker belongs to: the next one, or the last one."""
    if rule.action in _REASONING:
        return None
    if rule.action is Action.CALL or rule.section:
        return calls
    return calls - 1 if calls else None


@cache
def _tags(spec: BodySpec) -> Scanner | None:
    """Return what finds the tags of arguments; None: they have none."""
    match spec:
        case TagsSpec():
            ends = (*spec.value_end, *spec.verbatim_end, *spec.call_end)
            return scanner((*spec.param, *spec.nameless, *ends, *spec.skip))
        case ElementsSpec():
            return elements.scanner_of(spec)
        case _:
            return None
