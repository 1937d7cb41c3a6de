"""Native tool calls in text, as a library call: text in, content, reasoning, calls and problems out.

parser = ToolCallParser(format="kimi_k2")
events = parser.feed(text)       # any chunking
events += parser.close()
parser.result.calls
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from msgspec import Struct

from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.toolcalls.format import Format
from dragoman.toolcalls.formats import find_format
from dragoman.toolcalls.grammar import format_grammar
from dragoman.toolcalls.machine import Machine
from dragoman.toolcalls.sequencer import Sequencer
from dragoman.toolcalls.tool_names import DeclaredTools
from dragoman.turn.events import (
    ArgsDelta,
    BlockEnd,
    BlockStart,
    Event,
    InputDelta,
    ReasoningDelta,
    TextDelta,
)
from dragoman.turn.losses import Loss
from dragoman.turn.request import Tool
from dragoman.turn.stages import WholeCalls
from dragoman.turn.tools import ToolTable


class ParsedCall(Struct, frozen=True, gc=False):
    """One call."""

    id: str
    name: str
    arguments: str  # as streamed; free text for custom tools
    complete: bool = True


class Parsed(Struct, frozen=True):
    """What a text holds."""

    content: str = ""
    reasoning: str = ""
    calls: tuple[ParsedCall, ...] = ()
    problems: tuple[Loss, ...] = ()


class ToolCallParser:
    """Parse one text, cut anywhere.

    `tools` are those the request declared; None takes whatever looks like a call, an empty sequence
    leaves everything alone.  `channel` says which field of an answer the text stood in.  `whole` holds each
    call until it has ended.
    """

    def __init__(  # noqa: PLR0913 -- one keyword for each thing that may be known of a text
        self,
        *,
        format: Format | str,  # noqa: A002 -- what users call it
        tools: Sequence[Tool] | None = None,
        channel: Literal["content", "reasoning"] = "content",
        start_in_reasoning: bool = False,
        whole: bool = False,
        seed: str = "",
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        if isinstance(format, str):
            format = find_format(format)  # noqa: A001 -- the same thing, found
        content = channel == "content"
        calls = tools is None or bool(tools)
        self._events: list[Event] = []
        self._whole = WholeCalls() if whole else None
        self._sequencer = Sequencer(table=ToolTable(tools or ()), seed=seed, limits=limits)
        self._machine = Machine(
            format_grammar(format, calls=calls, think=content),
            self._sequencer,
            DeclaredTools(tools),
            reasoning=not content,
            thinking=content and start_in_reasoning,
            limits=limits,
        )

    @property
    def held(self) -> str:
        """The text that is held back: it may become a marker, or what it begins may be no call."""
        return self._machine.waiting

    def feed(self, text: str, /) -> list[Event]:
        """Take a piece of text and return what it led to: blocks as a stream's events."""
        self._machine.feed(text)
        return self._take()

    def close(self, *, cut: bool = False) -> list[Event]:
        """End of the text; `cut` says that it was stopped before its end."""
        self._machine.close(cut=cut)
        self._sequencer.end_block()
        return self._take()

    @property
    def result(self) -> Parsed:
        """All that was found so far."""
        return parsed(self._events)

    def _take(self) -> list[Event]:
        events = self._sequencer.take()
        if self._whole is not None:
            events = self._whole.feed(events)
        self._events += events
        return events


def parsed(events: Iterable[Event]) -> Parsed:
    """Gather the events of a parser."""
    content: list[str] = []
    reasoning: list[str] = []
    problems: list[Loss] = []
    calls: list[ParsedCall] = []
    start = BlockStart(0, kind=None)  # type: ignore[arg-type]  # replaced before it is used
    arguments: list[str] = []
    for event in events:
        match event:
            case TextDelta(text=text):
                content.append(text)
            case ReasoningDelta(text=text):
                reasoning.append(text)
            case Loss():
                problems.append(event)
            case BlockStart():
                start = event
                arguments = []
            case ArgsDelta(json=text) | InputDelta(text=text):
                arguments.append(text)
            case BlockEnd(complete=complete) if start.call_id:
                calls.append(ParsedCall(start.call_id, start.name, "".join(arguments), complete))
            case _:
                pass
    return Parsed("".join(content), "".join(reasoning), tuple(calls), tuple(problems))


def parse(  # noqa: PLR0913 -- see `ToolCallParser`
    text: str,
    *,
    format: Format | str,  # noqa: A002 -- what users call it
    tools: Sequence[Tool] | None = None,
    channel: Literal["content", "reasoning"] = "content",
    start_in_reasoning: bool = False,
    seed: str = "",
    limits: Limits = DEFAULT_LIMITS,
) -> Parsed:
    """Parse a complete text: the stream, fed once."""
    parser = ToolCallParser(
        format=format,
        tools=tools,
        channel=channel,
        start_in_reasoning=start_in_reasoning,
        seed=seed,
        limits=limits,
    )
    parser.feed(text)
    parser.close()
    return parser.result
