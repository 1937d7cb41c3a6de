"""Finds native tool calls and reasoning tags in an answer: a stage from events to events.

    native_stages(exchange, model=…, native_format=…)   the stages that an exchange needs
    NativeCalls(format=…, tools=…, …)                   finds calls and reasoning tags
    ThinkTags(think_tags=…, …)                          finds reasoning tags alone, for requests without tools

Text and reasoning blocks are scanned, each by its own machine; a call becomes a block.  There is no `close`:
the terminal event releases what is held.  An event that is not changed leaves as the same object, so that a
same-dialect relay can forward the upstream's bytes.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from typing import Final, Literal, TypeAlias

from msgspec.structs import replace

from dragoman.context import Exchange
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.toolcalls.findings import NativeFinding
from dragoman.toolcalls.format import Format
from dragoman.toolcalls.format_names import choose_format
from dragoman.toolcalls.formats import AUTO
from dragoman.toolcalls.grammar import FormatGrammar, format_grammar
from dragoman.toolcalls.machine import Machine
from dragoman.toolcalls.native_blocks import FailedCall, NativeBlocks
from dragoman.toolcalls.tool_names import DeclaredTools
from dragoman.turn.block_builder import half_input
from dragoman.turn.events import (
    CUT_REASONS,
    REASONING,
    TEXT,
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    DeltaRun,
    EventOrRun,
    Fault,
    Finish,
    InputDelta,
    Opaque,
    OpaqueKind,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.losses import Loss
from dragoman.turn.request import Tool
from dragoman.turn.stages import Stage
from dragoman.turn.tools import NO_TOOLS, ToolTable

ThinkTagsMode: TypeAlias = Literal["off", "auto", "implicit_open"]

_TEXTS: Final = frozenset({TextDelta, ReasoningDelta})
_UNSCANNED: Final = frozenset({ArgsDelta, InputDelta, RefusalDelta})
_SCANNED: Final = frozenset({TEXT, REASONING})
# Events that pass unchanged in an answer without native calls and reasoning tags.
_UNTOUCHED: Final = frozenset(
    {Start, BlockStart, ArgsDelta, InputDelta, BlockEnd, Usage, Loss, Finish}
)
_NEVER: Final = "\0\uffff\0"  # occurs in no text: nothing can begin a marker
# A format for models of no known family.
PLAIN: Final = Format(key="plain", description="reasoning tags alone", models=(), rules=())


@cache
def _finder(leads: str) -> Callable[[str], object]:
    """Return what finds any of some characters."""
    return re.compile(f"[{re.escape(leads)}]").search


class Splitter:
    """Run a grammar over the text of an answer, and over its reasoning if there is one for that."""

    def __init__(  # noqa: PLR0913 -- what is known of the answer
        self,
        blocks: NativeBlocks,
        declared: DeclaredTools,
        *,
        text: FormatGrammar,
        reasoning: FormatGrammar | None,
        implicit_open: bool,
        limits: Limits,
    ) -> None:
        self._blocks = blocks
        self._declared = declared
        self._grammars = {TEXT: text, REASONING: reasoning}
        self._implicit_open = implicit_open  # the answer's text begins inside reasoning
        self._limits = limits
        self._machine: Machine | None = None  # of the block that is being scanned
        self._kind: BlockKind | None = None  # of the upstream's open block
        self._ending = False  # the upstream's block has ended, and a call in it has not
        self._shift = 0  # from the upstream's index of a block to ours
        self._kept: list[TextDelta | ReasoningDelta] = []  # deltas of which all is held back
        # Deltas of this type pass as they are if they hold neither of two characters,
        self._passing: type | None = None
        self._lead = self._other_lead = _NEVER
        self._find_lead: Callable[[str], object] | None = None  # or any of some more
        self._calling: Machine | None = None  # the machine, if it is inside a call
        self._failed = False  # the answer was ended here
        # Makes the machine of a block; `marker_positions.py` has one that counts positions.
        self.make_machine: Callable[..., Machine] = Machine

    @property
    def findings(self) -> list[NativeFinding]:
        """The calls and problems that were found so far; the list grows with the answer."""
        return self._blocks.findings

    @property
    def pending(self) -> bool:
        """Something is held back."""
        machine = self._machine
        return self._blocks.start is not None or (machine is not None and machine.holding)

    def feed(self, events: Sequence[EventOrRun], /) -> list[EventOrRun]:
        """Return the events that are ready."""
        if self._failed:
            return []
        if len(events) == 1:  # nearly always a delta that holds no marker
            event = events[0]
            cls = type(event)
            if cls is DeltaRun:
                cls = type(event.whole)  # type: ignore[union-attr]
            if cls is self._passing and self._is_plain(event.text):  # type: ignore[union-attr]
                return [event]
        elif self._is_plain_answer(events):
            return list(events)
        self._feed(events)
        if self._blocks.failed is not None:
            return self._fail(self._blocks.failed)
        return self._blocks.take()

    def _feed(self, events: Sequence[EventOrRun]) -> None:
        """Take events up to a call that passes a limit."""
        append = self._blocks.out.append
        for event in events:
            cls = type(event)
            if (
                cls is self._passing
                and self._lead not in (text := event.text)  # type: ignore[union-attr]
                and self._other_lead not in text
                and (self._find_lead is None or not self._find_lead(text))
            ):
                append(event)
            elif cls is DeltaRun:
                whole = type(event.whole)  # type: ignore[union-attr]
                if whole is self._passing and self._is_plain(event.text):  # type: ignore[union-attr]
                    append(event)
                elif whole is ArgsDelta:
                    self._forward(event, event.index)  # type: ignore[union-attr]
                else:
                    self._feed(event.deltas())  # type: ignore[union-attr]
                    if self._blocks.failed is not None:
                        return
            elif cls in _UNSCANNED:
                self._forward(event, event.index)  # type: ignore[union-attr]
            elif self._calling is not None and cls in _TEXTS:
                # Inside a call: nothing but its end changes anything here.
                machine = self._calling
                machine.feed(event.text)  # type: ignore[union-attr]
                if machine.body is not None and self._blocks.failed is None:
                    continue
                self._look()
                if self._blocks.failed is not None:
                    return
            else:
                self._take(event)
                self._look()
                if self._blocks.failed is not None:
                    return

    def _is_plain(self, text: str) -> bool:
        """Return whether a text holds none of the characters that can begin a marker."""
        return (
            self._lead not in text
            and self._other_lead not in text
            and (self._find_lead is None or not self._find_lead(text))
        )

    def _is_plain_answer(self, events: Sequence[EventOrRun]) -> bool:
        """Return whether events are a whole answer in which no text can hold a marker."""
        if not events or type(events[0]) is not Start or type(events[-1]) is not Finish:
            return False
        for event in events:
            cls = type(event)
            if cls is DeltaRun:
                cls = type(event.whole)  # type: ignore[union-attr]
            if cls in _UNTOUCHED:
                continue
            if self._implicit_open or cls not in _TEXTS:
                return False
            grammar = self._grammars[REASONING if cls is ReasoningDelta else TEXT]
            if grammar is not None and not grammar.is_plain(event.text):  # type: ignore[union-attr]
                return False
        return True

    def _fail(self, call: FailedCall) -> list[EventOrRun]:
        """End the answer at a call that passes a limit; its end is not emitted, because it must not look whole."""
        self._failed = True
        out = self._blocks.take()
        return [*out[: call.at], call.fault]

    def _look(self) -> None:
        """Determine which of the next deltas can pass without being parsed."""
        machine = self._machine
        self._passing = None
        self._calling = machine if machine is not None and machine.body is not None else None
        if self._shift or self._ending:
            return
        if machine is None:
            if self._kind in _SCANNED:
                self._pass("")
            return
        leads = machine.quiet_leads
        if (
            leads is not None
            and self._blocks.kind is self._kind
            and machine.reasoning is (self._kind is REASONING)
        ):
            self._pass(leads)

    def _pass(self, leads: str) -> None:
        self._passing = TextDelta if self._kind is TEXT else ReasoningDelta
        self._lead = leads[:1] or _NEVER
        self._other_lead = leads[1:2] or self._lead
        self._find_lead = _finder(leads[2:]) if len(leads) > 2 else None

    # --- events ------------------------------------------------------------------------------------

    def _take(self, event: EventOrRun) -> None:
        match event:
            # First: a class that does not match costs more than all the rest of a delta.
            case ReasoningDelta() | TextDelta():
                if self._machine is None:
                    self._forward(event, event.index)
                else:
                    self._scan(event, self._machine)
            case BlockStart():
                self._end_machine(cut=False)
                self._begin(event)
            case BlockEnd():
                self._end(event)
            case Opaque():
                self._opaque(event)
            case Citation():
                if self._machine is not None and self._blocks.kind is not TEXT:
                    self._blocks.open(TEXT)
                self._forward(event, event.index)
            case Finish():
                self._end_machine(cut=event.reason in CUT_REASONS)
                self._finish(event)
            case Fault():
                self._break_off()
                self._blocks.out.append(event)
            case Start(id=answer_id):
                self._blocks.use_seed(answer_id)
                self._blocks.out.append(event)
            case Usage() | Loss() | Ping():
                self._blocks.out.append(event)
            case _:
                self._forward(event, event.index)

    def _forward(self, event: EventOrRun, index: int) -> None:
        """Pass an event of a block that is not scanned, under our index."""
        out = self._blocks
        if index != out.index:
            event = (
                event.at(out.index)
                if isinstance(event, DeltaRun)
                else replace(event, index=out.index)
            )
        out.out.append(event)

    def _begin(self, event: BlockStart) -> None:
        self._kind = event.kind
        blocks = self._blocks
        table = self._grammars.get(event.kind)
        if table is None:
            blocks.end_block()
            blocks.begin_block(event)
            if event.kind is REASONING:
                self._implicit_open = False
        else:
            thinking = event.kind is TEXT and self._implicit_open
            self._implicit_open = False
            blocks.start = event
            blocks.channel = "content" if event.kind is TEXT else "reasoning"
            self._machine = self.make_machine(
                table,
                blocks,
                self._declared,
                reasoning=event.kind is REASONING,
                thinking=thinking,
                limits=self._limits,
            )
        self._shift = blocks.index + (table is not None) - event.index

    def _scan(self, event: TextDelta | ReasoningDelta, machine: Machine) -> None:
        """Feed a delta; what leaves unchanged leaves as the object that it was."""
        blocks = self._blocks
        out = blocks.out
        mark = len(out)
        machine.feed(event.text)
        self._kept.append(event)
        if len(out) == mark:
            if machine.in_call:
                self._kept.clear()
            return
        if not machine.holding and not machine.in_call:
            self._restore(mark)
        self._kept.clear()
        self._shift = blocks.index - event.index

    def _restore(self, mark: int) -> None:
        """Put back the original deltas if all that left since `mark` is their text."""
        out = self._blocks.out
        first = mark + isinstance(out[mark], BlockStart)
        kept = self._kept
        kind = type(kept[0])
        fresh = out[first:]
        if all(type(one) is kind for one in fresh) and self._blocks.index == kept[0].index:
            text = "".join(one.text for one in fresh)  # type: ignore[union-attr]
            if text == "".join(one.text for one in kept):
                out[first:] = kept

    def _end(self, event: BlockEnd) -> None:
        blocks = self._blocks
        machine = self._machine
        if machine is None:
            self._forward(event, event.index)
            blocks.kind = None
            self._kind = None
            return
        if machine.in_call or machine.holds_marker:
            # How the answer ends decides whether the call was cut.
            self._ending = True
            return
        untouched = blocks.start is not None and not machine.holding
        machine.close()
        self._machine = None
        self._kept.clear()
        if untouched and blocks.start is not None and not blocks.calls:
            blocks.open(blocks.start.kind)  # an empty block of the upstream's own
        blocks.start = None
        if blocks.kind in _SCANNED:
            if blocks.index == event.index and blocks.kind is self._kind:
                blocks.out.append(event)
                blocks.kind = None
            else:
                blocks.end_block()
        self._kind = None

    def _opaque(self, event: Opaque) -> None:
        blocks = self._blocks
        if self._machine is not None and blocks.kind is not REASONING:
            if event.kind is OpaqueKind.PLAIN:
                return  # every block that was split off carries its own
            if self._machine.in_call:
                blocks.problem("opaque_dropped")
                return
            blocks.open(REASONING)
        blocks.sealed = True
        self._forward(event, event.index)

    # --- the end -----------------------------------------------------------------------------------

    def _end_machine(self, *, cut: bool) -> None:
        """End what the upstream's last block left open."""
        machine = self._machine
        self._ending = False
        if machine is None:
            return
        machine.close(cut=cut)
        if cut:
            self._blocks.failed = None  # the loss for the cut explains it
        self._machine = None
        self._kept.clear()
        self._blocks.start = None
        if self._blocks.kind in _SCANNED:
            self._blocks.end_block()

    def _finish(self, event: Finish) -> None:
        blocks = self._blocks
        blocks.end_block()
        if blocks.half_input and event.reason not in CUT_REASONS:
            blocks.out.append(half_input(blocks.half_input))
            return
        reason = blocks.reason_with_calls(event.reason) if blocks.calls else event.reason
        if reason is not event.reason:
            event = Finish(reason, None, event.category, event.explanation, event.raw)
        blocks.out.append(event)

    def _break_off(self) -> None:
        """Let go of what is held when the answer fails: text leaves, a half call does not.

        What may not be a call is text.  Case: the check `cut` of `format_suite.py`, ending `none`.
        """
        machine = self._machine
        self._machine = None
        if machine is not None and (machine.body is None or machine.body.held):
            machine.close(cut=True)
        self._blocks.start = None


class NativeCalls(Splitter):
    """Find native calls in text and reasoning, and reasoning tags in text."""

    def __init__(  # noqa: PLR0913 -- see the module's docstring
        self,
        *,
        format: Format,  # noqa: A002 -- what users call it
        tools: Sequence[Tool] | None,
        table: ToolTable = NO_TOOLS,
        think_tags: ThinkTagsMode = "auto",
        seed: str = "",
        origin: str = "",
        seal_plain: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        super().__init__(
            NativeBlocks(
                table=table,
                seed=seed,
                origin=origin,
                seal_plain=seal_plain,
                limits=limits,
            ),
            DeclaredTools.for_tools(tools),
            text=format_grammar(format, think=think_tags != "off"),
            reasoning=format_grammar(format, think=False),
            implicit_open=think_tags == "implicit_open",
            limits=limits,
        )


class ThinkTags(Splitter):
    """Turn `<think>…</think>` in text into reasoning."""

    def __init__(
        self,
        *,
        think_tags: ThinkTagsMode = "auto",
        format: Format | None = None,  # noqa: A002 -- what users call it
        origin: str = "",
        seal_plain: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        super().__init__(
            NativeBlocks(origin=origin, seal_plain=seal_plain, limits=limits),
            DeclaredTools(()),
            text=format_grammar(format or PLAIN, calls=False, think=think_tags != "off"),
            reasoning=None,
            implicit_open=think_tags == "implicit_open",
            limits=limits,
        )


# --- which stages an exchange needs --------------------------------------------------------------


def native_stages(
    exchange: Exchange,
    *,
    model: str = "",
    native_format: Format | str = "auto",
    tools: Sequence[Tool] | None = None,
    seal_plain: bool = True,
) -> list[Stage]:
    """Return the stages for an exchange.

    The request's tools decide whether calls are looked for.  Without a request `tools` decides: an empty
    sequence finds none, and None finds every call of a family that was chosen by its name or by the model's.
    None without a known family finds none: text could match the markers of any family.

    With `seal_plain` the upstream's reader marks unsigned reasoning to be given back; reasoning that is
    found here is then marked as well.

    Raises:
        ConfigError: there is no family of that name.
    """
    profile = exchange.profile
    request = exchange.request
    if request is not None:
        tools = request.tools
        if request.tool_choice is not None and request.tool_choice.mode == "none":
            tools = ()
    family = choose_format(model, native_format)
    if family is not None and (tools or (tools is None and family is not AUTO)):
        return [
            NativeCalls(
                format=family,
                tools=tools,
                table=exchange.tools,
                think_tags=profile.think_tags,
                seed=exchange.seed,
                origin=profile.origin,
                seal_plain=seal_plain,
                limits=exchange.limits,
            )
        ]
    if profile.think_tags == "off":
        return []
    return [
        ThinkTags(
            think_tags=profile.think_tags,
            format=family,
            origin=profile.origin,
            seal_plain=seal_plain,
            limits=exchange.limits,
        )
    ]
