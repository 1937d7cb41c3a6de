"""`ToolCallParser`: parses a text into content, reasoning, calls and problems, without an exchange.

parser = ToolCallParser(format="kimi_k2")
events = parser.feed(text)       # any chunking
events += parser.close()
parser.result.tool_calls
"""

from collections.abc import Iterable, Sequence
from typing import Literal, cast

from msgspec import Struct

from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.toolcalls.format import Format
from dragoman.toolcalls.format_names import find_format
from dragoman.toolcalls.grammar import format_grammar
from dragoman.toolcalls.machine import Machine
from dragoman.toolcalls.native_blocks import NativeBlocks
from dragoman.toolcalls.tool_names import DeclaredTools
from dragoman.turn.answer import INVALID_CALL, ToolCall
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


class Parsed(Struct, frozen=True):
    """What `ToolCallParser` has found in a text.

    Attributes:
        content: The text without reasoning and calls.
        reasoning: The text inside of reasoning tags.
        tool_calls: The calls, in order.
        problems: What could not be read as a call, or was repaired.
    """

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    problems: tuple[Loss, ...] = ()


class ToolCallParser:
    """Parse one text that arrives in pieces of any size.

    Args:
        format: The format's name (see `dragoman formats`), `auto` (the family that the text shows), or a `Format`.
        tools: The tools that the request declared.  None accepts every call; an empty sequence finds none.
        channel: The field of the answer that the text comes from.
        start_in_reasoning: The text begins inside of reasoning, without an opening tag.
        whole: Hold each call until it has ended.
        seed: What the ids of calls are derived from.
        limits: How much the text may hold; see `Limits`.

    Raises:
        ConfigError: There is no such format, or the `Format` is not legal.
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
        format = find_format(format)  # noqa: A001 -- the same thing, found
        content = channel == "content"
        calls = tools is None or bool(tools)
        self._events: list[Event] = []
        self._whole = WholeCalls() if whole else None
        self._blocks = NativeBlocks(table=ToolTable(tools or ()), seed=seed, limits=limits)
        self._blocks.channel = channel
        self._machine = Machine(
            format_grammar(format, calls=calls, think=content),
            self._blocks,
            DeclaredTools(tools),
            reasoning=not content,
            thinking=content and start_in_reasoning,
            limits=limits,
        )

    @property
    def held(self) -> str:
        """The text that is held back, because it may become a marker or may not be a call."""
        return self._machine.waiting

    def feed(self, text: str, /) -> list[Event]:
        """Parse a piece of text; return the events that it completes.

        The parser keeps all events for `result`, so its memory grows with the text.  A call whose arguments pass
        `max_tool_args_bytes`, or with all others `max_turn_args_bytes`, is cut: nothing raises, but the call is not
        complete and `problems` names the limit.

        Args:
            text: The next piece, of any size; a marker may be cut anywhere.
        """
        self._machine.feed(text)
        return self._take()

    def close(self, *, cut: bool = False) -> list[Event]:
        """End the text; `cut`: the model was stopped early."""
        self._machine.close(cut=cut)
        self._blocks.end_block()
        return self._take()

    @property
    def result(self) -> Parsed:
        """The result so far."""
        return parsed(self._events)

    def _take(self) -> list[Event]:
        made = self._blocks.take()
        if self._whole is not None:
            made = self._whole.feed(made)
        events = cast("list[Event]", made)  # only readers make runs
        self._events += events
        return events


def parsed(events: Iterable[Event]) -> Parsed:
    """Fold a parser's events into a result."""
    content: list[str] = []
    reasoning: list[str] = []
    problems: list[Loss] = []
    calls: list[ToolCall] = []
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
                calls.append(
                    ToolCall(
                        start.call_id,
                        start.name,
                        "".join(arguments),
                        "" if complete else INVALID_CALL,
                        complete,
                        start.namespace,
                        start.flavor,
                    )
                )
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
    """Parse a complete text."""
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
