"""A conversation with tools that never runs away, and never runs anything.

    loop = ToolLoop(client, ask(user("What is the weather in Rome?"), tools=[tool(weather)]))
    async for step in loop:            # with a `SyncClient`: `for step in loop`
        for call in step.calls:
            step.give(call, weather(**call.values))
    print(loop.answer)

The caller runs the tools and gives what they returned; the loop asks, counts and appends.  Turns are only
ever appended, so that prefix caches stay warm.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any, ClassVar, Literal, Self, TypeAlias

import msgspec
from msgspec import Struct, structs

from dragoman.client.calls import Call, judged
from dragoman.client.client import Client
from dragoman.client.messages import answer_turn, result
from dragoman.client.sync import SyncClient
from dragoman.client.transcript import Transcript
from dragoman.errors import DragomanError, MisuseError
from dragoman.ids import ClientIds
from dragoman.turn.events import Event
from dragoman.turn.fold import Answer
from dragoman.turn.loops import find_loop
from dragoman.turn.request import ASSISTANT, Request, ToolCallPart, ToolResultPart, Turn

Reason: TypeAlias = Literal["turns", "calls", "tokens", "time", "repeats"]
Handlers: TypeAlias = Mapping[str, Callable[..., object]]


class Bounds(Struct, frozen=True, kw_only=True, gc=False):
    """Where a loop ends that does not end by itself.  0 switches a bound off."""

    turns: int = 50  # answers of the model
    calls: int = 500
    tokens: int = 5_000_000  # of all requests and answers together, as the server reports them
    seconds: float = (
        3600.0  # between the first request and the last; one request is under `Timeouts`
    )
    repeats: int = 5  # the same calls with the same results, so many times in a row
    cycle: int = 4  # how many calls such a round may have


class LoopStopped(DragomanError):
    """A bound was reached.  The transcript is whole, and the loop may be resumed with other bounds."""

    exit_code: ClassVar[int] = 1

    def __init__(self, reason: Reason, message: str) -> None:
        self.reason: Reason = reason
        super().__init__(message)


class Step:
    """One answer of the model, and the calls in it that wait for results."""

    def __init__(self, answer: Answer | None, calls: tuple[Call, ...]) -> None:
        self.answer = answer  # None: the step was resumed from a transcript
        self.calls = calls
        self._results: dict[str, Turn] = {}

    @property
    def is_last(self) -> bool:
        """The model called nothing: there is nothing more to do."""
        return not self.calls

    @property
    def open(self) -> tuple[Call, ...]:
        """The calls that have no result yet."""
        return tuple(call for call in self.calls if call.id not in self._results)

    def give(self, call: Call | str, value: object, *, is_error: bool = False) -> None:
        """Say what a tool returned: text as it is, anything else as JSON.

        Raises:
            MisuseError: there is no such call, it has its result, or the value has no JSON.
        """
        call_id = call if isinstance(call, str) else call.id
        if all(call_id != one.id for one in self.calls):
            raise MisuseError(f"no call `{call_id}` in this step")
        if call_id in self._results:
            raise MisuseError(f"the call `{call_id}` has its result")
        self._results[call_id] = result(call_id, _text(value), is_error=is_error)

    def refuse(self, call: Call, reason: str = "") -> None:
        """Tell the model that a call was not run, and why: by default the call's own problem."""
        self.give(call, reason or call.problem or "this call was not run", is_error=True)

    def _given(self) -> Turn | None:
        """Return all results as one turn; None while one is missing."""
        if not self.calls or self.open:
            return None
        parts = [part for call in self.calls for part in self._results[call.id].parts]
        return Turn(self._results[self.calls[0].id].role, tuple(parts))


class ToolLoop:
    """Ask, hand out calls, take results, ask again."""

    def __init__(
        self,
        client: Client | SyncClient,
        request: Request,
        *,
        bounds: Bounds = Bounds(),  # noqa: B008 -- immutable
        on_event: Callable[[Event], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Begin with a request; with `on_event` answers are streamed, and it is told each event."""
        self._client = client
        self._bounds = bounds
        self._on_event = on_event
        self._clock = clock
        self._began: float | None = None  # as if it had never been interrupted
        self._state = Transcript(request=request)
        self._step: Step | None = _waiting(request)
        self.answer: Answer | None = None  # the latest

    @classmethod
    def resume(
        cls, client: Client | SyncClient, transcript: Transcript | bytes, **options: Any
    ) -> Self:
        """Go on from a transcript; calls without a result are handed out again first.

        Raises:
            Malformed: the bytes are no transcript.
        """
        known = Transcript.decode(transcript) if isinstance(transcript, bytes) else transcript
        loop = cls(client, known.request, **options)
        loop._state = known
        return loop

    @property
    def transcript(self) -> Transcript:
        """All that was said, results that were given included once a step has all of them."""
        self._settle()
        return self._state

    def __iter__(self) -> Iterator[Step]:
        if not isinstance(self._client, SyncClient):
            raise MisuseError("an asynchronous client needs `async for`")
        while (step := self._step or self._take(self._ask_now(self._next()))) is not None:
            self._step = step
            yield step
            if step.is_last:
                return
            self._go_on(step)

    async def __aiter__(self) -> AsyncIterator[Step]:
        if not isinstance(self._client, Client):
            raise MisuseError("a synchronous client needs `for`")
        while (step := self._step or self._take(await self._ask(self._next()))) is not None:
            self._step = step
            yield step
            if step.is_last:
                return
            self._go_on(step)

    # --- for those who want it ---------------------------------------------------------------------

    def run(self, handlers: Handlers) -> Answer:
        """Run the caller's own functions until the model calls none; return its last answer.

        Calls that should not be run, and functions that raise, are told to the model as errors.

        Raises:
            LoopStopped: a bound was reached.
            ClientError: a request failed.
        """
        for step in self:
            for call in step.calls:
                _handle(step, call, handlers)
        return self._last()

    async def run_async(self, handlers: Handlers) -> Answer:
        """Do the same with an asynchronous client; functions may be coroutines, and run one by one."""
        async for step in self:
            for call in step.calls:
                value = _handle(step, call, handlers, waits=True)
                if asyncio.iscoroutine(value):
                    try:
                        step.give(call, await value)
                    except Exception as error:  # noqa: BLE001 -- the caller's function, told to the model
                        step.refuse(call, f"{type(error).__name__}: {error}")
        return self._last()

    def _last(self) -> Answer:
        if self.answer is None:
            raise MisuseError("the loop had nothing to ask")
        return self.answer

    # --- asking ------------------------------------------------------------------------------------

    async def _ask(self, request: Request) -> Answer:
        client = self._client
        if not isinstance(client, Client):
            raise MisuseError("a synchronous client needs `for`")
        if self._on_event is None:
            return await client.create(request)
        async with client.stream(request) as turn:
            async for event in turn:
                self._on_event(event)
            return turn.message()

    def _ask_now(self, request: Request) -> Answer:
        client = self._client
        if not isinstance(client, SyncClient):
            raise MisuseError("an asynchronous client needs `async for`")
        if self._on_event is None:
            return client.create(request)
        with client.stream(request) as turn:
            for event in turn:
                self._on_event(event)
            return turn.message()

    # --- counting ----------------------------------------------------------------------------------

    def _next(self) -> Request:
        """Return the request to send.

        Raises:
            LoopStopped: a bound does not allow it.
        """
        self._look_at_the_clock()
        state, bounds = self._state, self._bounds
        spent: tuple[tuple[Reason, float, float], ...] = (
            ("turns", state.turns, bounds.turns),
            ("calls", state.calls, bounds.calls),
            ("tokens", state.tokens, bounds.tokens),
            ("time", state.seconds, bounds.seconds),
        )
        for reason, used, most in spent:
            if most and used >= most:
                unit = "seconds" if reason == "time" else reason
                raise LoopStopped(reason, f"the loop used {used:g} {unit} of {most:g}")
        if bounds.repeats:
            turns = state.request.turns
            loop = find_loop(turns, repeats=bounds.repeats, longest=bounds.cycle)
            if loop is not None:
                raise LoopStopped("repeats", f"{loop.says}, with the same results")
        return state.request

    def _take(self, answer: Answer) -> Step:
        """Append an answer, and return its calls."""
        self.answer = answer
        state = self._state
        usage = answer.usage
        ids = ClientIds(state.request.call_ids)
        turn = answer_turn(answer)
        parts = tuple(
            structs.replace(part, id=ids.render(part.id))
            if isinstance(part, ToolCallPart)
            else part
            for part in turn.parts
        )
        calls = tuple(
            judged(part, state.request.tools) for part in parts if isinstance(part, ToolCallPart)
        )
        self._append(structs.replace(turn, parts=parts))
        self._state = structs.replace(
            self._state,
            turns=state.turns + 1,
            calls=state.calls + len(calls),
            tokens=state.tokens + (0 if usage is None else usage.prompt + usage.output),
        )
        return Step(answer, calls)

    def _go_on(self, step: Step) -> None:
        """Append the results of a step.

        Raises:
            MisuseError: one is missing.
        """
        self._settle()
        if self._step is step:
            missing = ", ".join(f"`{call.id}` of `{call.name}`" for call in step.open)
            raise MisuseError(f"no result for {missing}: `give` one, or `refuse` the call")

    def _settle(self) -> None:
        step = self._step
        given = None if step is None else step._given()  # noqa: SLF001 -- its own step
        if given is not None:
            self._append(given)
            self._step = None

    def _append(self, turn: Turn) -> None:
        request = self._state.request
        longer = structs.replace(request, turns=(*request.turns, turn))
        self._state = structs.replace(self._state, request=longer)

    def _look_at_the_clock(self) -> None:
        now = self._clock()
        if self._began is None:
            self._began = now - self._state.seconds
        self._state = structs.replace(self._state, seconds=now - self._began)


def _closed(answer: Answer) -> Answer:
    """Return an answer whose cut call is valid JSON, so that it can stand in the history."""
    blocks = tuple(
        block
        if block.complete
        else structs.replace(block, text=block.text + block.repair, complete=True)
        for block in answer.blocks
    )
    return structs.replace(answer, blocks=blocks)


def _waiting(request: Request) -> Step | None:
    """Return the calls at the end of a conversation that have no results."""
    if not request.turns or request.turns[-1].role is not ASSISTANT:
        return None
    parts = request.turns[-1].parts
    calls = tuple(judged(part, request.tools) for part in parts if isinstance(part, ToolCallPart))
    answered = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
    waiting = tuple(call for call in calls if call.id not in answered)
    return Step(None, waiting) if waiting else None


def _handle(step: Step, call: Call, handlers: Handlers, *, waits: bool = False) -> object:
    """Run one of the caller's functions; with `waits` a coroutine is returned for the caller to await."""
    handler = handlers.get(call.name)
    if call.problem or handler is None:
        step.refuse(call, call.problem or f"there is no tool `{call.name}`")
        return None
    try:
        free = not call.values and bool(call.arguments) and call.arguments[:1] != "{"
        value = handler(call.arguments) if free else handler(**call.values)
        if waits and asyncio.iscoroutine(value):
            return value
        step.give(call, value)
    except Exception as error:  # noqa: BLE001 -- the caller's function, told to the model
        if call in step.open:
            step.refuse(call, f"{type(error).__name__}: {error}")
    return None


def _text(value: object) -> str:
    if isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except TypeError as error:
        raise MisuseError(f"a result that has no JSON: {error}") from None
