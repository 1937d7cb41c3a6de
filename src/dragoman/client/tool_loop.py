"""A conversation with tools that never runs away, and never runs anything.

    loop = ToolLoop(client, request(user("What is the weather in Rome?"), tools=[tool(weather)]))
    async for step in loop:            # with a `SyncClient`: `for step in loop`
        for call in step.pending:
            step.resolve(call, weather(**call.args))
    print(loop.answer.text)

The caller runs the tools and gives what they returned; the loop asks, counts and appends.  Turns are only
ever appended, so that prefix caches stay warm.
"""

import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import ClassVar, Final, Literal, NoReturn, Self, TypeAlias, TypedDict, Unpack

from msgspec import Struct, structs

from dragoman.client.broken import for_history, with_broken_call
from dragoman.client.client import Client
from dragoman.client.errors import ClientError
from dragoman.client.handlers import Handlers, Outcome, failed, outcome_of
from dragoman.client.messages import answer_turn
from dragoman.client.step import Step
from dragoman.client.sync_client import SyncClient
from dragoman.client.tool_calls import judged
from dragoman.client.transcript import Transcript
from dragoman.errors import DragomanError, MisuseError
from dragoman.ids import ClientIds
from dragoman.turn.answer import Answer, call_error
from dragoman.turn.estimate import estimate_tokens
from dragoman.turn.events import Event
from dragoman.turn.repeats import find_loop
from dragoman.turn.request import ASSISTANT, Request, ToolCallPart, Turn

_LEAST_SECONDS: Final = 0.001  # 0 would be no bound at all

Reason: TypeAlias = Literal["turns", "calls", "tokens", "time", "repeats"]


class LoopLimits(Struct, frozen=True, kw_only=True, gc=False):
    """Where a loop ends that does not end by itself.  0 switches a bound off."""

    turns: int = 50  # answers of the model
    calls: int = 500  # calls that are handed out
    tokens: int = 5_000_000  # of all requests and answers; estimated where the server does not tell
    seconds: float = 3600.0  # from the first request on
    repeats: int = 5  # the same calls with the same results, so many times in a row
    cycle: int = 4  # how many calls such a round may have


class LoopStoppedError(DragomanError):
    """A bound was reached.  The transcript is whole, and may be resumed with other bounds."""

    exit_code: ClassVar[int] = 1

    def __init__(self, reason: Reason, message: str) -> None:
        self.reason: Reason = reason
        super().__init__(message)


class LoopOptions(TypedDict, total=False):
    limits: LoopLimits
    on_event: Callable[[Event], object] | None  # is told each event of an answer as it comes
    clock: Callable[[], float]  # seconds that only grow


class ToolLoop:
    """Ask, hand out calls, take results, ask again."""

    def __init__(
        self, client: Client | SyncClient, request: Request, **options: Unpack[LoopOptions]
    ) -> None:
        """Begin with a request; if it ends in calls without results, these are handed out first."""
        self._client = client
        self._limits = options.get("limits", LoopLimits())
        self._on_event = options.get("on_event")
        self._clock = options.get("clock", time.monotonic)
        self._began: float | None = None  # as if it had never been interrupted
        self._state = Transcript(request=request)
        self._step: Step | None = _waiting(self._state)
        self._answer: Answer | None = None  # the latest

    @classmethod
    def resume(
        cls,
        client: Client | SyncClient,
        transcript: Transcript | bytes,
        **options: Unpack[LoopOptions],
    ) -> Self:
        """Go on from a transcript; calls without a result are handed out again first.

        Raises:
            MalformedError: the bytes are no transcript.
        """
        known = Transcript.decode(transcript) if isinstance(transcript, bytes) else transcript
        loop = cls(client, known.request, **options)
        loop._state = known
        loop._step = _waiting(known)
        return loop

    @property
    def answer(self) -> Answer:
        """The model's latest answer.

        Raises:
            MisuseError: there is none: nothing was asked yet, or the conversation had ended before.
        """
        if self._answer is None:
            raise MisuseError("there is no answer: this loop has not asked for one")
        return self._answer

    @property
    def transcript(self) -> Transcript:
        """All that was said until now; results that were given are in it, and calls that wait for one."""
        self._settle()
        given = () if self._step is None else self._step.results
        return structs.replace(self._state, given=given)

    def __iter__(self) -> Iterator[Step]:
        if not isinstance(self._client, SyncClient):
            raise MisuseError("an asynchronous client needs `async for`, or `run_async`")
        while True:
            self._settle()
            if self._step is None:
                self._step = self._take(self._ask_now(self._client, self._next()))
            step = self._hand_out(self._step)
            yield step
            if step.is_last:
                return
            self._go_on(step)

    async def __aiter__(self) -> AsyncIterator[Step]:
        if not isinstance(self._client, Client):
            raise MisuseError("a synchronous client needs `for`, or `run`")
        while True:
            self._settle()
            if self._step is None:
                self._step = self._take(await self._ask(self._client, self._next()))
            step = self._hand_out(self._step)
            yield step
            if step.is_last:
                return
            self._go_on(step)

    # --- for those who want it ---------------------------------------------------------------------

    def run(self, handlers: Handlers) -> Answer:
        """Run the caller's own functions until the model calls none; return its last answer.

        Calls that should not be run, and functions that raise, are told to the model as errors.

        Raises:
            LoopStoppedError: a bound was reached.
            ClientError: a request failed.
            MisuseError: a function is a coroutine, or returned what has no JSON.
        """
        for step in self:
            for call in step.pending:
                outcome = outcome_of(call, handlers)
                if inspect.iscoroutine(outcome.value):
                    outcome.value.close()
                    raise MisuseError(f"`{call.name}` is a coroutine: use `run_async`")
                step.resolve(call, outcome.value, is_error=outcome.is_error)
        return self.answer

    async def run_async(self, handlers: Handlers) -> Answer:
        """Do the same with an asynchronous client; functions may be coroutines, and run one by one."""
        async for step in self:
            for call in step.pending:
                outcome = outcome_of(call, handlers)
                if inspect.isawaitable(outcome.value):
                    try:
                        outcome = Outcome(await outcome.value)
                    except Exception as error:  # noqa: BLE001 -- the caller's function, told to the model
                        outcome = failed(error)
                step.resolve(call, outcome.value, is_error=outcome.is_error)
        return self.answer

    # --- asking ------------------------------------------------------------------------------------

    # Always as a stream: only there a call that broke can be told from the rest of its answer.

    async def _ask(self, client: Client, request: Request) -> Answer:
        try:
            async with client.stream(request, timeout=self._seconds_left()) as turn:
                async for event in turn:
                    self._tell(event)
                return turn.answer()
        except ClientError as error:
            return self._despite(error)

    def _ask_now(self, client: SyncClient, request: Request) -> Answer:
        try:
            with client.stream(request, timeout=self._seconds_left()) as turn:
                for event in turn:
                    self._tell(event)
                return turn.answer()
        except ClientError as error:
            return self._despite(error)

    def _seconds_left(self) -> float:
        """Return how long the next answer may take, if that is bounded: a silent server ends in time too."""
        if not self._limits.seconds:
            return 0.0
        return max(self._limits.seconds - self._state.seconds, _LEAST_SECONDS)

    def _despite(self, error: ClientError) -> Answer:
        """Return an answer of which only a call broke.

        Raises:
            LoopStoppedError: the time was over.
            ClientError: it failed for another reason.
        """
        if error.code == "request_timeout":
            self._look_at_the_clock()
            said = f"the loop used up its {self._limits.seconds:g} seconds"
            raise LoopStoppedError("time", said) from error
        return with_broken_call(error)

    def _tell(self, event: Event) -> None:
        """Tell of an event.

        Raises:
            LoopStoppedError: the time is over; what has come of the answer is given up.
        """
        if self._on_event is not None:
            self._on_event(event)
        if self._limits.seconds:
            self._look_at_the_clock()
            if self._state.seconds > self._limits.seconds:
                self._stop("time", self._state.seconds, self._limits.seconds)

    # --- counting ----------------------------------------------------------------------------------

    def _next(self) -> Request:
        """Return the request to send.

        Raises:
            LoopStoppedError: a bound does not allow it.
        """
        self._look_at_the_clock()
        state, bounds = self._state, self._limits
        spent: tuple[tuple[Reason, float, float], ...] = (
            ("turns", state.turns, bounds.turns),
            ("tokens", state.tokens, bounds.tokens),
            ("time", state.seconds, bounds.seconds),
        )
        for reason, used, most in spent:
            if most and used >= most:
                self._stop(reason, used, most)
        if bounds.repeats:
            turns = state.request.turns
            loop = find_loop(turns, repeats=bounds.repeats, longest=bounds.cycle)
            if loop is not None:
                raise LoopStoppedError("repeats", f"{loop.says}, with the same results")
        return state.request

    def _stop(self, reason: Reason, used: float, most: float) -> NoReturn:
        unit = "seconds" if reason == "time" else reason
        raise LoopStoppedError(reason, f"the loop used {used:g} {unit} of {most:g}")

    def _hand_out(self, step: Step) -> Step:
        """Return a step whose calls may be run.

        Raises:
            LoopStoppedError: there are more of them than the bound allows; none is handed out.
        """
        used, most = self._state.calls, self._limits.calls
        if most and used > most and step.pending:
            raise LoopStoppedError("calls", f"the loop made {used} calls of {most}")
        return step

    def _take(self, answer: Answer) -> Step:
        """Append an answer, and return its calls."""
        self._answer = answer
        state = self._state
        ids = ClientIds(state.request.call_ids)
        turn = answer_turn(for_history(answer))
        parts = tuple(
            structs.replace(part, id=ids.render(part.id))
            if isinstance(part, ToolCallPart)
            else part
            for part in turn.parts
        )
        turn = structs.replace(turn, parts=parts)
        made = [part for part in parts if isinstance(part, ToolCallPart)]
        reasons = (call_error(block, answer) for block in answer.call_blocks)
        broken = {part.id: why for part, why in zip(made, reasons, strict=True) if why}
        self._state = structs.replace(
            state,
            turns=state.turns + 1,
            calls=state.calls + len(made),
            tokens=state.tokens + _tokens(state.request, turn, answer),
            broken=broken,
        )
        if parts:  # an answer of nothing is no turn that a server would take back
            self._append(turn)
        calls = tuple(judged(one, state.request.tools, broken.get(one.id, "")) for one in made)
        return Step(answer, calls)

    def _go_on(self, step: Step) -> None:
        """Append the results of a step.

        Raises:
            MisuseError: one is missing.
        """
        if step.pending:
            missing = ", ".join(f"`{call.id}` of `{call.name}`" for call in step.pending)
            raise MisuseError(f"no result for {missing}: `resolve` it, or `refuse` it")
        self._settle()

    def _settle(self) -> None:
        """Append the results of the present step, if all are there."""
        given = None if self._step is None else self._step.turn()
        if given is not None:
            self._append(given)
            self._state = structs.replace(self._state, given=(), broken={})
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


def _waiting(state: Transcript) -> Step | None:
    """Return the calls at the end of a conversation that have no results; None: it is our turn to ask."""
    request = state.request
    if not request.turns or request.turns[-1].role is not ASSISTANT:
        return None
    made = [part for part in request.turns[-1].parts if isinstance(part, ToolCallPart)]
    if not made and not state.turns:
        return None  # a beginning of an answer, for the model to go on with
    calls = tuple(judged(one, request.tools, state.broken.get(one.id, "")) for one in made)
    return Step(None, calls, state.given)


def _tokens(request: Request, turn: Turn, answer: Answer) -> int:
    """Return what an answer cost: as the server says, else about."""
    usage = answer.usage
    told = 0 if usage is None else usage.prompt_tokens + usage.output_tokens
    if told:
        return told
    said = structs.replace(request, system=(), tools=(), turns=(turn,))
    return estimate_tokens(request) + estimate_tokens(said)
