"""One connection to Redis that all tasks of a process share.

Commands that are waiting go out together in one pipeline, so a thousand requests need one connection and few round
trips.  A command that gets no response within a second fails, and with it the connection: until the next one is open,
every call fails at once.  Scripts are loaded when a connection opens.

The last argument of every script is the time, by Redis's clock, at which its caller stops waiting.  A server that did
not respond for a while runs what it was sent before; a script that counts must then do nothing.
"""

import asyncio
import hashlib
import random
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

from dragoman.errors import ConfigError, DragomanError

if TYPE_CHECKING:
    from redis.asyncio import Redis

# A request never waits longer than two of these.  A shorter time would take a busy machine for a server that is away,
# and limits are exact only as long as the server counts.
CALL_SECONDS: Final = 1.0
_CATCH_UP_SECONDS: Final = 2.0  # after an outage: until then every gateway has connected again
_CLOCK_SECONDS: Final = (
    60.0  # between two looks at Redis's clock: those of two machines drift apart
)
_CONNECT_SECONDS: Final = 2.0  # no request waits for it
_FIRST_DELAY: Final = 0.05  # before the second attempt to connect, doubled with each
_LONGEST_DELAY: Final = 0.5
_MORE_TURNS: Final = 20  # of the event loop, for a response that has arrived
_BATCH: Final = 256
_MAX_WAITING: Final = 10_000  # beyond it calls fail at once

T = TypeVar("T")
Argument: TypeAlias = str | bytes | int | float


class StateAwayError(DragomanError):
    """The server that holds shared state does not respond."""


class Script(NamedTuple):
    """A Lua script and its digest, by which Redis knows it."""

    text: str
    digest: str


def script(text: str) -> Script:
    return Script(text, hashlib.sha1(text.encode()).hexdigest())


class _Waiting(NamedTuple):
    command: tuple[Argument, ...]
    result: "asyncio.Future[Any] | None"  # None: no task waits for it


class RedisLink:
    """`on_change` is called when the connection opens, with an empty text, and with the reason when it fails."""

    def __init__(
        self,
        url: str,
        scripts: tuple[Script, ...],
        on_change: Callable[[str], None],
        *,
        batch: int = _BATCH,
    ) -> None:
        self._url = url
        self._batch = batch  # commands in one pipeline
        self._scripts = scripts
        self._on_change = on_change
        self._waiting: deque[_Waiting] = deque()
        self._wake = asyncio.Event()
        self._runner: asyncio.Task[None] | None = None
        self._opened = asyncio.Event()  # the first attempt has ended
        self._offset = 0.0  # from the event loop's clock to Redis's, or a little more
        self._look_at = 0.0  # when Redis's clock is read again
        self._caught_up_at = 0.0
        self._failed = False  # there was an outage
        self._closing = False
        self.available: bool = False

    @property
    def catching_up(self) -> bool:
        """Redis is back, and other gateways may not have sent yet what they counted without it."""
        return asyncio.get_running_loop().time() < self._caught_up_at

    async def start(self) -> None:
        """Connect; if that fails, go on trying in the background.

        Raises:
            ConfigError: the package is missing, or the address cannot be used.
        """
        client = connect(self._url)
        self._runner = asyncio.create_task(self._run(client))
        await self._opened.wait()

    async def close(self) -> None:
        """Send what is waiting, and close the connection."""
        if self._runner is None:
            return
        if self.available:
            last = self._last()
            await asyncio.wait([last], timeout=CALL_SECONDS)
            last.cancel()
        # The flag too: while redis-py connects, it may drop a cancellation and go on.
        self._closing = True
        self._runner.cancel()
        await asyncio.wait([self._runner])

    async def call(self, script: Script, keys: tuple[str, ...], *arguments: Argument) -> Any:
        """Run a script and return its result.

        Raises:
            StateAwayError: Redis did not respond, or refused it.
        """
        if not self.available or len(self._waiting) >= _MAX_WAITING:
            raise StateAwayError("the server that holds shared state does not respond")
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._add(_Waiting(_command(script, keys, arguments), result))
        return await result

    def send(self, script: Script, keys: tuple[str, ...], *arguments: Argument) -> None:
        """Run a script without waiting for it; it is dropped while Redis does not respond."""
        if self.available and len(self._waiting) < _MAX_WAITING:
            self._add(_Waiting(_command(script, keys, arguments), None))

    def _last(self) -> "asyncio.Future[Any]":
        """Return what ends after everything that is waiting."""
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._add(_Waiting(("PING",), result))
        return result

    def _add(self, one: _Waiting) -> None:
        self._waiting.append(one)
        self._wake.set()

    # --- the connection ---------------------------------------------------------------------------

    async def _run(self, client: "Redis") -> None:
        from redis.exceptions import RedisError  # noqa: PLC0415 -- an extra

        failures = (RedisError, OSError)  # a timeout is an OSError
        delay = 0.0
        try:
            while not self._closing:
                try:
                    await self._open(client)
                    delay = 0.0
                    while not self._closing:
                        await self._wake.wait()
                        await self._send_batch(client)
                except failures as error:
                    self._fail(error)
                    with suppress(*failures):  # closing fails too while Redis hangs
                        await client.connection_pool.disconnect()
                await asyncio.sleep(delay * random.uniform(0.5, 1.0))  # noqa: S311 -- not a secret
                delay = min(_LONGEST_DELAY, max(_FIRST_DELAY, delay * 2))
        finally:
            self._drop(StateAwayError("the gateway is shutting down"))
            with suppress(*failures):
                await client.aclose()

    async def _open(self, client: "Redis") -> None:
        async with asyncio.timeout(_CONNECT_SECONDS):
            for one in self._scripts:
                await client.script_load(one.text)
            asked_at = asyncio.get_running_loop().time()
            self._note_clock(await client.time(), asked_at)
        if self._failed:
            self._caught_up_at = asyncio.get_running_loop().time() + _CATCH_UP_SECONDS
        self.available = True
        self._opened.set()
        self._on_change("")

    async def _send_batch(self, client: "Redis") -> None:
        """Send what is waiting in one pipeline, and hand out the results."""
        batch = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
        if not self._waiting:
            self._wake.clear()
        pipeline = client.pipeline(transaction=False)
        now = asyncio.get_running_loop().time()
        due = f"{now + self._offset + CALL_SECONDS:.6f}"
        for one in batch:
            pipeline.execute_command(*one.command, due)
        if looks := now > self._look_at:
            pipeline.execute_command("TIME")
        try:
            results = await _in_time(pipeline.execute(raise_on_error=False))
        except BaseException:
            self._waiting.extendleft(reversed(batch))  # they fail with those that wait
            raise
        if looks:
            self._note_clock(results.pop(), now)
        refused: Exception | None = None
        for one, result in zip(batch, results, strict=True):
            if isinstance(result, Exception):
                refused = result
            if one.result is None or one.result.done():
                continue
            if isinstance(result, Exception):
                one.result.set_exception(StateAwayError(f"shared state: {result}"))
            else:
                one.result.set_result(result)
        if refused is not None:  # it lost its scripts, became a replica, or has no room
            raise refused

    def _note_clock(self, found: tuple[int, int] | Exception, asked_at: float) -> None:
        """Keep how far Redis's clock is from ours; `asked_at` is when it was asked for its time."""
        if isinstance(found, tuple):
            self._offset = found[0] + found[1] / 1_000_000 - asked_at
            self._look_at = asked_at + _CLOCK_SECONDS

    def _fail(self, error: Exception) -> None:
        why = str(error) or "it did not respond in time"
        self._failed = True
        self._drop(StateAwayError("the server that holds shared state does not respond"))
        self._opened.set()
        self._on_change(why)

    def _drop(self, error: StateAwayError) -> None:
        self.available = False
        for one in self._waiting:
            if one.result is not None and not one.result.done():
                one.result.set_exception(error)
        self._waiting.clear()
        self._wake.clear()


def connect(url: str) -> "Redis":
    """Return a client for an address, which connects when it is first used.

    Raises:
        ConfigError: the package is missing, or the address cannot be used.
    """
    try:
        from redis.asyncio import Redis  # noqa: PLC0415 -- an extra
        from redis.asyncio.retry import Retry  # noqa: PLC0415
        from redis.backoff import NoBackoff  # noqa: PLC0415
    except ImportError:
        message = (
            "`server.state` needs the package `redis`; `pip install 'dragoman[redis]'` adds it"
        )
        raise ConfigError(message) from None
    try:
        return Redis.from_url(
            url,
            protocol=2,
            socket_connect_timeout=_CONNECT_SECONDS,
            retry=Retry(NoBackoff(), 0),
        )
    except ValueError as error:
        raise ConfigError(f"`server.state` cannot be used: {error}") from error


def _command(
    script: Script, keys: tuple[str, ...], arguments: tuple[Argument, ...]
) -> tuple[Argument, ...]:
    return ("EVALSHA", script.digest, len(keys), *keys, *arguments)


async def _in_time(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of some work, or fail if it takes too long.

    If the event loop itself was busy, the response may have arrived already: it gets a few more turns of the loop.
    """
    task = asyncio.ensure_future(work)
    # Read its exception, or asyncio logs it when the task was cancelled here and then failed.
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        await asyncio.wait([task], timeout=CALL_SECONDS)
        for _ in range(_MORE_TURNS):
            if task.done():
                return task.result()
            await asyncio.sleep(0)
    finally:
        task.cancel()
    raise TimeoutError
