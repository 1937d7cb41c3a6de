"""The engine: turns one channel of an answer into text, reasoning, calls and problems, however the text is cut.

Theory of operation.  Outside of calls the machine is at one of the positions of `Where`, and the grammar lists the
markers that count there; all other text is emitted on the current channel.  A marker that begins a call hands the
following text to a body (`bodies/`), which parses the arguments and finds their end.  Only the longest suffix that
may still become a marker is held back.  No text is an error: text that is not a call is emitted unchanged.
"""

import re
from typing import Final, Protocol

from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.toolcalls.bodies import CallBody, make_body
from dragoman.toolcalls.format import (
    AHEAD_OR_END,
    EXCERPT_CHARS,
    FIRST,
    Action,
    Format,
    Rule,
    Where,
)
from dragoman.toolcalls.grammar import FormatGrammar, format_grammar
from dragoman.toolcalls.scanner import FoundMarker
from dragoman.toolcalls.tool_names import DeclaredTools

# Positions where blanks are held: before a call they are dropped, before text they are text.
_BLANK_PLACES: Final = frozenset({Where.START, Where.OPENED, Where.ANSWER, Where.TAIL, Where.AFTER})
_IN_TEXT: Final = frozenset({Where.TEXT, Where.LATER, Where.MESSAGE})
_REPORTED_BLANKS: Final = frozenset({Where.START, Where.AFTER})
# Held blanks beyond this number are text.
MAX_BLANKS: Final = 256
_SOLID: Final = re.compile(r"\S")
_MAX_PIECE_CHARS: Final = 4096
_MAX_RECENT_PIECES: Final = 2048
_FENCE_TICKS: Final = 3
_MIN_STUMP_CHARS: Final = 3  # shorter text is not recognized as the beginning of a special token
_CODE_MARKS: Final = re.compile("`+|\n")
_NONE: Final[frozenset[bool]] = (
    frozenset()
)  # one for all: another takes 216 bytes of every open stream


class Sink(Protocol):
    """Where the machine puts text, reasoning, calls and problems, in the order of the answer."""

    calls: int  # calls begun so far, over all channels
    overfull: bool  # the arguments of the call that is open have passed their limit
    family: str  # the key of the format whose rules apply; the machine keeps it current

    def text(self, text: str, /) -> None: ...
    def reasoning(self, text: str, /) -> None: ...

    def begin(self, call_id: str, name: str, /) -> None:
        """Begin a call; an empty id means that the format has none."""
        ...

    def args(self, json: str, /) -> None:
        """Add to the arguments of the call that is open."""
        ...

    def hold(self, size: int, /) -> None:
        """Apply the limits to arguments of the open call that have arrived and must wait."""
        ...

    def end(self, *, complete: bool) -> None:
        """End the call that is open; a truncated or invalid one is not complete."""
        ...

    def problem(self, code: str, detail: str = "", *, limit: str = "", excerpt: str = "") -> None:
        """Report what was dropped, repaired or not understood; `turn/losses.py` lists the codes."""
        ...


class Machine:
    """Run one grammar over one channel."""

    def __init__(  # noqa: PLR0913 -- the parts of a channel
        self,
        grammar: FormatGrammar,
        sink: Sink,
        declared: DeclaredTools,
        *,
        reasoning: bool = False,
        thinking: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self.sink = sink
        sink.family = grammar.family
        self.declared = declared
        self.grammar: FormatGrammar = grammar
        self.limits = limits
        self.held: str = ""  # the suffix that may become a marker
        self._reasoning = reasoning or thinking  # the current channel
        self._thinking = thinking  # reasoning tags in the text opened it
        self._blanks = ""  # held blanks
        self._section = False  # inside a section of calls
        self._opener = ""  # the opener of a section without a call so far
        self._fenced = False  # inside a code fence
        self._backticks = 0  # at the end of the text so far: they may become a fence
        self._span = 0  # the backticks that opened inline code in this line; 0: not inside it
        self._where = grammar.opened if thinking else Where.START
        self._resumed = Where.ANSWER  # the position after the reasoning that is open
        self._strays = ""  # held special tokens outside of calls, and blanks after them
        self._stray_opener = False  # one of them opens something
        self._shown = False  # an opener was not part of a call: the closers after it are text
        self._joint = ""  # emitted before the next text: it separates two messages
        self._channels = _NONE  # the channels of earlier messages: reasoning or not
        self._states = grammar.states  # or `grammar.reasoned`, once tagged reasoning has ended
        self._state = self._states[self._where]
        self.closing: bool = False  # the input has ended
        self._searched: str | None = None  # the text that `find_break` searched last
        self._break: FoundMarker | int = 0  # what it found there
        self.body: CallBody | None = None  # of the open call
        # The last pieces of text, if an echo of them may follow.  Case: lfm2/n5_4_echo.
        self._recent: list[str] | None = [] if grammar.echo_chars else None
        self._base = grammar  # restored if a tried family does not match
        self._candidates: tuple[Format, ...] = ()  # families still to try at this position

    # --- state for callers -------------------------------------------------------------------------

    @property
    def in_call(self) -> bool:
        """A call is open."""
        return self.body is not None

    @property
    def holding(self) -> bool:
        """Some text has arrived and was not emitted yet."""
        return bool(self.held or self._blanks or self._strays) or (
            self.body is not None and self.body.holding
        )

    @property
    def waiting(self) -> str:
        """The text that is neither emitted nor known to be part of a call, in order."""
        return (
            self._blanks
            + self._strays
            + (self.body.held if self.body is not None else "")
            + self.held
        )

    @property
    def quiet_leads(self) -> str | None:
        """Text without any of these characters needs no parsing; None: all text does."""
        if self.body is not None or self.held or self._where in _BLANK_PLACES:
            return None
        if self._backticks or self._span:
            return None
        if self._joint or self._strays:
            return None
        return self._state.leads

    @property
    def reasoning(self) -> bool:
        """The current channel is reasoning."""
        return self._reasoning

    # --- text in -----------------------------------------------------------------------------------

    def feed(self, text: str, /) -> None:
        """Parse a piece of text."""
        at, end = 0, len(text)
        if end > _MAX_PIECE_CHARS:
            # The rest of a piece is copied at every marker: keep pieces short.
            for start in range(0, end, _MAX_PIECE_CHARS):
                self.feed(text[start : start + _MAX_PIECE_CHARS])
            return
        if self._recent is not None:
            self._recent.append(text)
            if len(self._recent) > _MAX_RECENT_PIECES:
                self._recent = ["".join(self._recent)[-self.grammar.echo_chars :]]
        if self.held:
            text = self.held + text
            self.held = ""
            end = len(text)
        while at < end:
            body = self.body
            if body is not None:
                at = body.feed(text, at)
                if self.body is not body:
                    continue
                if not self.sink.overfull:
                    break  # the body needs more text
                body.stop()
                continue
            if self._candidates:
                to = self._try_family(text, at)
                if to < 0:
                    break
                at = to
                continue
            found = self._state.scanner.scan(text, at)
            if not isinstance(found, int):
                at = self._apply_marker(text, at, found)
            elif found == at:
                break
            else:
                at = self._emit_until(text, at, found)
        self.held = text[at:]
        self._searched = None

    @property
    def holds_marker(self) -> bool:
        """The held text becomes a marker if nothing follows it: how the answer ends decides what it means."""
        if self.body is not None or not self.held:
            return False
        return bool(self._candidates) or self._state.scanner.find_last(self.held, 0) is not None

    def close(self, *, cut: bool = False) -> None:
        """End the input; `cut`: the model was stopped early."""
        text = self.held
        self.held = ""
        self.closing = True
        at = 0
        while True:
            body = self.body
            if body is not None:
                at = body.close(text, at, cut=cut)
            elif at < len(text):
                at = self._close_prose(text, at, cut=cut)
            else:
                break
        self._drop_strays()
        if self._blanks:
            if self._where in FIRST and not self.sink.calls:
                self._emit(self._blanks)
                self._blanks = ""
            self._drop_blanks()

    # --- for bodies --------------------------------------------------------------------------------

    def find_break(self, text: str, at: int) -> FoundMarker | int:
        """Find the marker that ends an open JSON string: see `FormatGrammar.breaks`.

        A text with many calls is searched once, not once per call.
        """
        breaks = self.grammar.breaks
        if breaks is None:
            return len(text)
        found = self._break
        if (
            self._searched is not text
            or (found.start if isinstance(found, FoundMarker) else found) < at
        ):
            self._searched = text
            self._break = breaks.scan(text, at)
        return self._break

    def leave_call(self) -> None:
        """Continue after the open call's arguments."""
        self.body = None
        self._move_to(Where.TAIL)

    def leave_closed(self) -> None:
        """Continue after the open call and its closer."""
        self.body = None
        self._move_to(Where.AFTER)

    def return_as_text(self, raw: str) -> None:
        """Emit the raw text of something that turned out not to be a call."""
        self.body = None
        if not self.sink.calls and self.grammar is not self._base:
            self._switch(self._base)
        raw = self._opener + raw
        self._shown = True
        self._opener = ""
        self._section = False
        self._emit_prose(raw)

    def enter_call(self) -> None:
        """Prepare for a call that is certain: drop the blanks before it and end tagged reasoning."""
        self._drop_blanks()
        self._opener = ""
        if self._thinking:
            self._states = self.grammar.reasoned
            self._thinking = self._reasoning = self.grammar.reasoning_continues
        self._move_to(Where.AFTER)

    # --- prose -------------------------------------------------------------------------------------

    def _close_prose(self, text: str, at: int, *, cut: bool) -> int:
        """Parse prose as `feed` does, at the end of the input."""
        if self._candidates:
            to = self._try_family(text, at, last=True)
            return at if to < 0 else to
        scanner = self._state.scanner
        found = scanner.find_last(text, at)
        if found is not None:
            rule = self._state.rules[found.which]
            if (
                rule.action is Action.CALL
                and scanner.begins(text, found.start)
                and not self._ends_header(rule, text[found.end :], cut=cut)
            ):
                return self._emit_as_text(text, found, at)  # the truncated header of another call
            return self._apply_marker(text, at, found)
        # Case: kimi_k2/stump_behind_text_after_an_open_string.  A body that ends only now leaves text that
        # `feed` has not seen: what cannot begin a marker is text.
        waits = scanner.scan(text, at)
        if isinstance(waits, int) and at < waits < len(text):
            return self._emit_until(text, at, waits)
        if self._where in (Where.TAIL, Where.AFTER):
            # A truncated closer is dropped, not shown.
            rest = text[at:].lstrip()
            if len(rest) > 1 and self.grammar.closers.begins(rest):
                self._report_noise(rest)
                return len(text)
        stump = self._find_stump(text, at)
        if stump >= 0:
            self._report_noise(text[stump:])
            return len(text)
        return self._emit_until(text, at, len(text))

    def _find_stump(self, text: str, at: int) -> int:
        """Return where the beginning of a special token is all that is left; -1: it is not.

        Case: kimi_k2/n0_3_stump.
        """
        special = self.grammar.special
        rest = text[at:].lstrip()
        if special is None or self._shown or len(rest) < _MIN_STUMP_CHARS:
            return -1
        return len(text) - len(rest) if special.begins(rest) else -1

    def _ends_header(self, rule: Rule, rest: str, *, cut: bool) -> bool:
        """Return whether a call's header is complete although the text ends after it.

        A name that nothing follows may be half a name if the model was stopped.  A header with its own end counts
        only inside a section: prose may end with it.  Case: minimax_m2/n0_4_header_alone.
        """
        if AHEAD_OR_END not in rule.pattern or rest.strip():
            return False
        return not cut if rule.empty else self._section

    def _apply_marker(self, text: str, at: int, found: FoundMarker) -> int:
        """Emit the text before a marker and apply the marker's rule; return the end of the consumed text."""
        if found.start > at:
            where = self._where
            at = self._emit_until(text, at, found.start)
            if self._where is not where:
                return at  # the position changed: other markers count
        rule = self._state.rules[found.which]
        if self._state.quotable[found.which] and (
            self._fenced or (rule.unquoted and self._in_span())
        ):
            return self._emit_as_text(text, found, found.start)  # an example
        if (
            (rule.inside and not self._section)
            or (rule.prose and not self._may_call_in_prose(found))
            or (rule.echo and not self._is_echo(text, found))
        ):
            return self._emit_as_text(text, found, found.start)
        if rule.stray:
            self._take_stray(rule, text[found.start : found.end])
            return found.end
        if rule.action is Action.KEEP:
            self._emit_prose(text[found.start : found.end])
            return found.end
        if rule.action is Action.CALL:
            return self._begin_call(rule, text, found)
        if rule.action is Action.TRY_FAMILIES:
            self._candidates = rule.families
            self._switch_to_family(rule.families[0])
            return found.end
        if rule.action is Action.NOT_A_CALL:
            shown = text[found.start : found.end]
            self.sink.problem("native_call_invalid", excerpt=shown[:EXCERPT_CHARS])
            self._shown = True
            self._emit_prose(shown)
            if rule.then is not None:
                self._move_to(rule.then)
            return found.end
        self._apply_rule(rule, text, found)
        return found.end

    def _is_echo(self, text: str, found: FoundMarker) -> bool:
        """Return whether the text of a marker is directly before it too."""
        marker = text[found.start : found.end]
        recent = "".join(self._recent or ())
        before = recent[: len(recent) - (len(text) - found.start)]
        return before.rstrip().endswith(marker)

    def _may_call_in_prose(self, found: FoundMarker) -> bool:
        """Return whether a call may begin in the middle of text: see `Rule.prose`."""
        line = "line" in found.groups
        if self._reasoning or self._fenced or not (line or self.declared.known):
            return False
        return line or not self._in_span()

    def _emit_until(self, text: str, at: int, to: int) -> int:
        """Emit text; stop after the first non-blank character if it changes the position."""
        if self._where in _BLANK_PLACES:
            solid = _SOLID.search(text, at, to)
            if solid is not None:
                to = solid.end()
        self._emit_prose(text[at:to])
        return to

    def _try_family(self, text: str, at: int, *, last: bool = False) -> int:
        """Check whether the family that is being tried has a marker at `at`.

        Returns the end of the consumed text: the marker's end; `at` if another family must be tried; one
        character further if no family is left; a negative number if more text is needed.
        """
        scanner = self._state.scanner
        found = scanner.scan_at(text, at)
        if found is not None and not self._state.rules[found.which].stray:
            self._candidates = ()
            return self._apply_marker(text, at, found)
        if not last and scanner.begins(text, at):
            return -1
        self._candidates = self._candidates[1:]
        if self._candidates:
            self._switch_to_family(self._candidates[0])
            return at
        self._switch(self._base)
        return self._emit_until(text, at, at + 1)

    def _switch_to_family(self, format_: Format) -> None:
        self._switch(format_grammar(format_, think=self._base.think))

    def _switch(self, grammar: FormatGrammar) -> None:
        reasoned = self._states is self.grammar.reasoned
        self.grammar = grammar
        self.sink.family = grammar.family
        self._states = grammar.reasoned if reasoned else grammar.states
        self._state = self._states[self._where]

    def _apply_rule(self, rule: Rule, text: str, found: FoundMarker) -> None:
        self._drop_blanks()
        if rule.action is Action.END_REASONING and self._thinking:
            self._reasoning = self._thinking = False
        elif rule.action is Action.DROP or rule.action is Action.END_REASONING:
            noise = found.groups.get("noise", text[found.start : found.end])
            if noise.strip():
                self._report_noise(noise)
        elif rule.action is Action.START_REASONING or rule.action is Action.START_TEXT:
            if self._thinking:
                self._states = self.grammar.reasoned
            self._reasoning = self._thinking = rule.action is Action.START_REASONING
            self._fenced = False
            self._backticks = self._span = 0
            self._begin_message(rule)
        if rule.section is not None:
            self._section = rule.section
            self._opener = text[found.start : found.end] if rule.section else ""
        if rule.then is not None:
            self._move_to(self._resumed if rule.then is Where.ANSWER else rule.then)

    def _begin_message(self, rule: Rule) -> None:
        """Prepare for reasoning or text that a marker opened."""
        if rule.then is Where.ANSWER:
            return
        self._resumed = self._where if rule.unquoted and self._where in _IN_TEXT else Where.ANSWER
        if self.grammar.joint:
            self._joint = self.grammar.joint if self._reasoning in self._channels else ""

    def _begin_call(self, rule: Rule, text: str, found: FoundMarker) -> int:
        """Begin a call, or emit its header as text."""
        body = make_body(self, rule, found.groups, text[found.start : found.end])
        if body is None:
            self._shown = True
            return self._emit_as_text(text, found, found.start)
        if "line" in found.groups:
            raw = text[found.start : found.end]
            self._emit_prose(raw[: len(raw) - len(raw.lstrip())])
        if self.grammar.echo_chars and self._recent is None:
            self._recent = [text]  # the family was recognized in this piece
        self.body = body
        body.start()
        return found.end

    def _emit_as_text(self, text: str, found: FoundMarker, at: int) -> int:
        """Emit at least the first character of a rejected marker as text."""
        if not self.sink.calls and self.grammar is not self._base:
            self._switch(self._base)
        to = found.start + 1
        while at < to:
            at = self._emit_until(text, at, to)
        return to

    def _emit_prose(self, text: str) -> None:
        """Emit text; hold blanks at positions where they may be dropped."""
        if self._strays:
            text = self._resolve_strays(text)
            if not text:
                return
        where = self._where
        if where in _BLANK_PLACES:
            if where is Where.ANSWER:
                text = text.lstrip()
                if not text:
                    return
            elif text.isspace() and len(self._blanks) + len(text) <= MAX_BLANKS:
                self._blanks += text
                return
            if self._opener:
                # The section has no call after all: minimax_m2/n0_4_header_cut.
                self._blanks = self._opener + self._blanks
                self._opener = ""
                self._section = False
            text = self._blanks + text
            self._blanks = ""
            if where is Where.OPENED:
                self._move_to(Where.THINK)
            else:
                self._move_to(Where.LATER if self.sink.calls else Where.TEXT)
        self._emit(text)

    def _emit(self, text: str) -> None:
        if not text:
            return
        if self.grammar.joint:
            self._channels |= {self._reasoning}
            text = self._joint + text
            self._joint = ""
        if self._backticks or self._span or "`" in text:
            self._follow_code(text)
        if self._reasoning:
            self.sink.reasoning(text)
        else:
            self.sink.text(text)

    def _follow_code(self, text: str) -> None:
        """Track code fences (three or more backticks) and inline code, which ends with its line."""
        before = self._backticks
        normalized = "`" * before + text
        for mark in _CODE_MARKS.finditer(normalized):
            ticks = len(mark.group())
            if mark.group() == "\n":
                self._span = 0
            elif ticks >= _FENCE_TICKS:
                self._span = 0
                # A run that was already long enough has been counted.
                if mark.start() or before < _FENCE_TICKS:
                    self._fenced = not self._fenced
            elif mark.end() < len(normalized):  # else the run may continue
                self._span = self._span_after(ticks)
        self._backticks = min(len(normalized) - len(normalized.rstrip("`")), _FENCE_TICKS)

    def _span_after(self, ticks: int) -> int:
        """Return the state of inline code after a run of backticks: the same run ends it."""
        return (0 if ticks == self._span else self._span) if self._span else ticks

    def _in_span(self) -> bool:
        ticks = self._backticks
        return bool(self._span_after(ticks) if 0 < ticks < _FENCE_TICKS else self._span)

    # Special tokens outside of calls and messages are held until the text after them shows what they are.  They are
    # dropped at the end of the text and before a call or a message; closers also directly before a word.  Before
    # anything else they are a mention, and so are closers after an opener that is shown.
    # Cases: kimi_k2/n0_3_closer_last, kimi_k2/n0_3_closer_before_text, kimi_k2/n0_3_openers_last,
    # internlm2/interpreter_then_plugin.

    def _take_stray(self, rule: Rule, token: str) -> None:
        if self._shown or len(self._strays) > MAX_BLANKS:
            self._shown = True
            self._emit_prose(token)
            return
        self._strays += token
        self._stray_opener = self._stray_opener or rule.action is Action.SHOW

    def _resolve_strays(self, text: str) -> str:
        """Return the text to emit, with the held tokens if they are text; nothing if more must be known."""
        strays = self._strays
        if text.isspace() and not self._shown and len(strays) <= MAX_BLANKS:
            self._strays += text
            return ""
        if text[0].isalnum() and not self._stray_opener and not strays[-1].isspace():
            self._drop_strays()
            return text
        self._shown = self._shown or self._stray_opener
        self._strays = ""
        self._stray_opener = False
        return strays + text

    def _drop_strays(self) -> None:
        if self._strays:
            self._report_noise(self._strays.rstrip())
            self._strays = ""
            self._stray_opener = False

    def _drop_blanks(self) -> None:
        self._drop_strays()
        if self._blanks:
            self._blanks = ""
            if self._where in _REPORTED_BLANKS and not self._section:
                self.sink.problem("native_blank_dropped")

    def _report_noise(self, noise: str) -> None:
        self.sink.problem("native_noise_dropped", excerpt=noise[:EXCERPT_CHARS])

    def _move_to(self, where: Where) -> None:
        self._where = where
        self._state = self._states[where]
