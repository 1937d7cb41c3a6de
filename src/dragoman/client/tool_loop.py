"""A conversation with tools, within limits.

    loop = ToolLoop(client, request("What is the weather in Rome?", tools=[weather]))
    async for step in loop:            # with a `SyncClient`: `for step in loop`
        for call in step.pending:
            step.resolve(call, weather(**call.args))
    print(loop.answer.text)

The caller runs the tools and passes their results; the loop sends requests, counts and appends.  Turns are only
ever appended, so that a server's prefix cache keeps working.
"""

import inspect
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import ClassVar, Final, Literal, NoReturn, Self, TypeAlias, TypedDict, Unpack

from msgspec import Struct, structs

from dragoman.client.client import Client
from dragoman.client.errors import ClientError
from dragoman.client.functions import FunctionOutcome, Functions, by_name, failed, run_call
from dragoman.client.messages import answer_turn
from dragoman.client.sync_client import SyncClient
from dragoman.client.tool_calls import Step, checked_call, for_history, with_broken_call
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
    """When a `ToolLoop` stops by itself.  0 disables a limit.

    A limit that is reached raises `LoopStoppedError`; the transcript stays valid, and can be resumed with other
    limits.

    Attributes:
        turns: Answers of the model.
        calls: Tool calls that are handed out.
        tokens: Tokens of all requests and answers; estimated where the server does not report them.
        seconds: Time since the first request, including the caller's tools.
        repeats: How often the same calls may get the same results in a row.
        cycle: How many calls such a repeated round may have.
    """

    turns: int = 50
    calls: int = 500
    tokens: int = 5_000_000
    seconds: float = 3600.0
    repeats: int = 5
    cycle: int = 4


class LoopStoppedError(DragomanError):
    """A limit of a `ToolLoop` was reached.

    The transcript is complete, and can be resumed with other limits.

    Attributes:
        reason: The limit: `turns`, `calls`, `tokens`, `time` or `repeats`.

    The `message` names how much was used.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, reason: Reason, message: str) -> None:
        self.reason: Reason = reason
        super().__init__(message)


class LoopOptions(TypedDict, total=False):
    """The keyword arguments of `ToolLoop`."""

    limits: LoopLimits
    on_event: Callable[[Event], object] | None
    clock: Callable[[], float]


class ToolLoop:
    """Send a request, hand out tool calls, take results, send again, until the model calls no tool.

    Iterate over it for steps (`async for` with a `Client`, `for` with a `SyncClient`), or let `run_async` or
    `run` call your functions.  The loop itself runs no tool.  It holds the whole conversation in memory; keep
    `transcript` to continue it later.

    Args:
        client: A `Client` or a `SyncClient`; the loop does not close it.
        request: The conversation so far.  If it ends with calls without results, they are handed out first.
        limits: When the loop stops by itself; see `LoopLimits`.
        on_event: Called with each event of an answer as it arrives, for example to show text.
        clock: Returns increasing seconds; `time.monotonic` by default.
        **options: `limits`, `on_event` and `clock`, as keyword arguments.

    Example:
        loop = ToolLoop(client, request("What is the weather in Rome?", tools=[get_weather]))
        answer = await loop.run_async([get_weather])
        print(answer.text)
    """

    def __init__(
        self, client: Client | SyncClient, request: Request, **options: Unpack[LoopOptions]
    ) -> None:
        self._client = client
        self._limits = options.get("limits", LoopLimits())
        self._on_event = options.get("on_event")
        self._clock = options.get("clock", time.monotonic)
        self._began: float | None = None  # as if the loop had never been interrupted
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
        """Continue from a transcript.  Calls without a result are handed out again first.

        Args:
            client: A `Client` or a `SyncClient`, not necessarily of the same server.
            transcript: `loop.transcript`, or its encoded bytes.
            **options: The keyword arguments of `ToolLoop`.

        Raises:
            MalformedError: the bytes are not a transcript.
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
            MisuseError: there is none: no request was sent yet, or the conversation had ended before.
        """
        if self._answer is None:
            raise MisuseError("there is no answer: this loop has not sent a request")
        return self._answer

    @property
    def transcript(self) -> Transcript:
        """The conversation so far, with the results that were set and the calls that are pending."""
        self._append_results()
        given = () if self._step is None else self._step.results
        return structs.replace(self._state, given=given)

    def __iter__(self) -> Iterator[Step]:
        if not isinstance(self._client, SyncClient):
            raise MisuseError("an asynchronous client needs `async for`, or `run_async`")
        while True:
            self._append_results()
            if self._step is None:
                self._step = self._take(self._send_now(self._client, self._next()))
            step = self._hand_out(self._step)
            yield step
            if step.is_last:
                return
            self._continue_from(step)

    async def __aiter__(self) -> AsyncIterator[Step]:
        if not isinstance(self._client, Client):
            raise MisuseError("a synchronous client needs `for`, or `run`")
        while True:
            self._append_results()
            if self._step is None:
                self._step = self._take(await self._send(self._client, self._next()))
            step = self._hand_out(self._step)
            yield step
            if step.is_last:
                return
            self._continue_from(step)

    # --- running functions -------------------------------------------------------------------------

    def run(self, functions: Functions) -> Answer:
        """Run your functions for the model's calls until it calls none; return its last answer.

        The model gets an error as the result of a call with an `error`, of a call whose function raises, and of
        a call without a function.

        Args:
            functions: The functions that were given as tools, or a mapping from tool names to functions.

        Raises:
            LoopStoppedError: a limit was reached.
            ClientError: a request failed.
            MisuseError: a function is a coroutine function, or its result cannot be written as JSON.
        """
        handlers = by_name(functions)
        for step in self:
            for call in step.pending:
                outcome = run_call(call, handlers)
                if inspect.iscoroutine(outcome.value):
                    outcome.value.close()
                    raise MisuseError(f"`{call.name}` is a coroutine function: use `run_async`")
                step.resolve(call, outcome.value, is_error=outcome.is_error)
        return self.answer

    async def run_async(self, functions: Functions) -> Answer:
        """Do the same as `run` with a `Client`.  Coroutine functions are awaited, one at a time.

        Args:
            functions: The functions that were given as tools, or a mapping from tool names to functions.

        Raises:
            LoopStoppedError: a limit was reached.
            ClientError: a request failed.
            MisuseError: the result of a function cannot be written as JSON.
        """
        handlers = by_name(functions)
        async for step in self:
            for call in step.pending:
                outcome = run_call(call, handlers)
                if inspect.isawaitable(outcome.value):
                    try:
                        outcome = FunctionOutcome(await outcome.value)
                    except Exception as error:  # noqa: BLE001 -- of the caller's function, sent to the model
                        outcome = failed(error)
                step.resolve(call, outcome.value, is_error=outcome.is_error)
        return self.answer

    # --- requests ----------------------------------------------------------------------------------

    # Always streamed: a complete body with one invalid call would fail as a whole.

    async def _send(self, client: Client, request: Request) -> Answer:
        try:
            async with client.stream(request, timeout=self._seconds_left()) as stream:
                async for event in stream:
                    self._observe(event)
                return stream.answer()
        except ClientError as error:
            return self._despite(error)

    def _send_now(self, client: SyncClient, request: Request) -> Answer:
        try:
            with client.stream(request, timeout=self._seconds_left()) as stream:
                for event in stream:
                    self._observe(event)
                return stream.answer()
        except ClientError as error:
            return self._despite(error)

    def _seconds_left(self) -> float:
        """Return the timeout of the next request, so that a silent server cannot exceed the limit."""
        if not self._limits.seconds:
            return 0.0
        return max(self._limits.seconds - self._state.seconds, _LEAST_SECONDS)

    def _despite(self, error: ClientError) -> Answer:
        """Return the answer of a failed request if only a call in it is invalid.

        Raises:
            LoopStoppedError: the loop's time ran out.
            ClientError: it failed for another reason.
        """
        if error.code == "request_timeout":
            self._look_at_the_clock()
            why = f"the loop used up its {self._limits.seconds:g} seconds"
            raise LoopStoppedError("time", why) from error
        return with_broken_call(error)

    def _observe(self, event: Event) -> None:
        """Call `on_event`, and check the time.

        Raises:
            LoopStoppedError: the loop's time ran out; the unfinished answer is dropped.
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
            LoopStoppedError: a limit does not allow it.
        """
        self._look_at_the_clock()
        state, limits = self._state, self._limits
        spent: tuple[tuple[Reason, float, float], ...] = (
            ("turns", state.turns, limits.turns),
            ("tokens", state.tokens, limits.tokens),
            ("time", state.seconds, limits.seconds),
        )
        for reason, used, most in spent:
            if most and used >= most:
                self._stop(reason, used, most)
        if limits.repeats:
            turns = state.request.turns
            loop = find_loop(turns, repeats=limits.repeats, longest=limits.cycle)
            if loop is not None:
                raise LoopStoppedError("repeats", f"{loop.description}, with the same results")
        return state.request

    def _stop(self, reason: Reason, used: float, most: float) -> NoReturn:
        unit = "seconds" if reason == "time" else reason
        raise LoopStoppedError(reason, f"the loop used {used:g} {unit} of {most:g}")

    def _hand_out(self, step: Step) -> Step:
        """Return a step whose calls may be run.

        Raises:
            LoopStoppedError: the limit of calls does not allow all of them; none is handed out.
        """
        used, most = self._state.calls, self._limits.calls
        if most and used > most and step.pending:
            raise LoopStoppedError("calls", f"the loop made {used} calls of {most}")
        return step

    def _take(self, answer: Answer) -> Step:
        """Append an answer to the conversation, and return its calls."""
        self._answer = answer
        state = self._state
        ids = ClientIds(state.request.call_ids, verbatim=True)
        turn = answer_turn(for_history(answer))
        parts = tuple(
            structs.replace(part, id=ids.of(index, part.id))
            if isinstance(part, ToolCallPart)
            else part
            for index, part in enumerate(turn.parts)
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
        if parts:  # servers reject an assistant turn without content
            self._append(turn)
        calls = tuple(
            checked_call(one, state.request.tools, broken.get(one.id, "")) for one in made
        )
        return Step(answer, calls)

    def _continue_from(self, step: Step) -> None:
        """Append the results of a step.

        Raises:
            MisuseError: one is missing.
        """
        if step.pending:
            missing = ", ".join(f"`{call.id}` of `{call.name}`" for call in step.pending)
            raise MisuseError(f"no result for {missing}: `resolve` it, or `refuse` it")
        self._append_results()

    def _append_results(self) -> None:
        """Append the results of the current step if none is missing."""
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
    """Return the step of calls without results at the end of a conversation; None if there is none."""
    request = state.request
    if not request.turns or request.turns[-1].role is not ASSISTANT:
        return None
    made = [part for part in request.turns[-1].parts if isinstance(part, ToolCallPart)]
    if not made and not state.turns:
        return None  # a prefill: the beginning of an answer, for the model to continue
    calls = tuple(checked_call(one, request.tools, state.broken.get(one.id, "")) for one in made)
    return Step(None, calls, state.given)


def _tokens(request: Request, turn: Turn, answer: Answer) -> int:
    """Return the tokens of a request and its answer, estimated if the server does not report them."""
    usage = answer.usage
    reported = 0 if usage is None else usage.prompt_tokens + usage.output_tokens
    if reported:
        return reported
    answered = structs.replace(request, system=(), tools=(), turns=(turn,))
    return estimate_tokens(request) + estimate_tokens(answered)
