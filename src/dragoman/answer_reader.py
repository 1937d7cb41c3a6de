"""Reads answers of any dialect as events, for programs that need no bytes of another dialect.

    reader = AnswerReader(source="chat", model="kimi-k2", request=request)
    events = reader.feed(data)      # any chunking
    events = reader.close()         # end of input

It uses the same readers and stages as `Translator`, and raises if the peer breaks its dialect or a limit.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, Unpack

from dragoman.dialects import dialect
from dragoman.dialects.framing import StreamReader
from dragoman.errors import MisuseError, TooLargeError
from dragoman.exchange_setup import (
    ExchangeOptions,
    answer_stages,
    findings_of,
    make_exchange,
    read_whole,
)
from dragoman.toolcalls.findings import NativeFinding
from dragoman.toolcalls.format import Format
from dragoman.turn.answer import Answer, Folder
from dragoman.turn.events import (
    DeltaRun,
    Event,
    EventOrRun,
    Fault,
    Finish,
    ReasoningDelta,
    TextDelta,
    Usage,
    expand_runs,
)
from dragoman.turn.stages import CallLimits, Stage, fault_of

_TEXT: Final = frozenset({TextDelta, ReasoningDelta})


class AnswerReader:
    """Read one streamed answer.  The arguments are those of `Translator`, without a target."""

    def __init__(
        self,
        *,
        source: str,
        model: str = "",
        native_format: Format | str = "auto",
        stop: Sequence[str] = (),
        **options: Unpack[ExchangeOptions],
    ) -> None:
        exchange = make_exchange(**options)
        tools = options.get("tools")
        self._reader = StreamReader(dialect(source).frame_reader(exchange), exchange)
        self._stages: list[Stage] = answer_stages(exchange, tools, stop, model, native_format)
        # What was found of native calls so far: this list grows with the answer.
        self.findings: Sequence[NativeFinding] = findings_of(self._stages)
        self._tally = CallLimits(exchange.limits)
        self._before: list[Event] | None = None  # what came before a limit was passed
        self._closed = False
        self.outcome: Finish | Fault | None = None  # how the answer ended
        self.usage: Usage | None = None  # the last counts

    @property
    def done(self) -> bool:
        """True once the answer has ended; the caller can stop reading."""
        return self.outcome is not None

    @property
    def broken(self) -> Literal["", "sse", "json"]:
        """The layer below the dialect at which the answer went wrong, if one did."""
        return self._reader.broken

    def feed(self, data: bytes, /) -> list[Event]:
        """Return the events that `data` leads to.

        Raises:
            PeerError: the peer broke its dialect (in strict mode) or a limit.
        """
        if self._closed:
            raise MisuseError("feed after close")
        if self.outcome is not None:
            return []
        return self._through(self._reader.feed(data))

    def close(self) -> list[Event]:
        """End the input: return what was held back, and how the answer ended."""
        if self._closed:
            raise MisuseError("close after close")
        self._closed = True
        return [] if self.done else self._through(self._reader.close())

    def fail(self, fault: Fault) -> list[Event]:
        """End the answer with a failure that the caller found."""
        self._closed = True
        if self.done:
            return []
        if self._before is None:
            return self._through(self._reader.fail(fault))
        self.outcome = fault
        return [*self._before, fault]

    def _through(self, events: list[EventOrRun]) -> list[Event]:
        for stage in self._stages:
            events = stage.feed(events)
        if len(events) == 1 and type(events[0]) in _TEXT:
            return events  # type: ignore[return-value]  # it is not a run
        runs = False
        for at, event in enumerate(events):
            cls = type(event)
            if cls in _TEXT:
                continue
            if cls is DeltaRun:
                runs = True
                continue
            if isinstance(event, Usage):
                self.usage = event
            elif isinstance(event, Finish | Fault):
                self.outcome = event
            else:
                try:
                    self._tally.count(event)
                except TooLargeError:
                    self._before = expand_runs(events[:at])
                    raise
        return expand_runs(events) if runs else events  # type: ignore[return-value]  # none is a run


def read_body(
    body: bytes,
    *,
    source: str,
    model: str = "",
    native_format: Format | str = "auto",
    stop: Sequence[str] = (),
    **options: Unpack[ExchangeOptions],
) -> Answer:
    """Return a complete answer; one that cannot be read, or reports a failure, has a `fault`.

    It includes everything that arrived before the failure, also the block that was open.
    """
    exchange = make_exchange(**options)
    events = read_whole(body, dialect(source).frame_reader(exchange), exchange)
    for stage in answer_stages(exchange, options.get("tools"), stop, model, native_format):
        events = stage.feed(events)
    folder = Folder()
    for event in _bounded(events, CallLimits(exchange.limits)):
        if isinstance(event, Fault):
            return folder.so_far(event)
        folder.feed((event,))
    return folder.answer()


def _bounded(events: Iterable[EventOrRun], tally: CallLimits) -> Iterator[EventOrRun]:
    """Return the events up to the first that passes a limit, and the fault."""
    for event in events:
        try:
            tally.count(event)
        except TooLargeError as error:
            yield fault_of(error)
            return
        yield event
