"""Test doubles for programs that use this library, or that speak to any LLM API.

    with Simulator() as simulator, SyncClient(simulator.base_url, model="sim/plain") as client:
        answer = client.create(request("sim: say Good morning"))
        assert simulator.requests[-1].path == "/v1/chat/completions"

The simulator is a real server on loopback, so any SDK can be tested against it.

`check_format` tests a format of tool calls in text, as `dragoman formats check` does:

    assert all(outcome.passed for outcome in check_format(MY_FORMAT))

`check_recording` translates a recorded exchange again, as `dragoman diff` does; `dragoman case --pytest` writes such
tests.
"""

import asyncio
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Struct

from dragoman.recorder.recording import RecordingError, read_recording
from dragoman.recorder.replay import different_bytes, recorded_differences, replay
from dragoman.simulator.server import Simulator as _Server
from dragoman.toolcalls.format_suite import Outcome, check_format

__all__ = ["Outcome", "ReceivedRequest", "Simulator", "check_format", "check_recording"]

T = TypeVar("T")


def check_recording(path: Path) -> None:
    """Translate the upstream's bytes of a recording again, and compare with what was recorded.

    Args:
        path: A file that `dragoman serve --record DIR` has written.

    Raises:
        AssertionError: An event, or a byte for the client, differs; names the first one.
        DragomanError: The file is not a recording, or no upstream answered.
    """
    recording = read_recording(path)
    attempt = recording.answered
    if attempt is None:
        raise RecordingError(f"{path}: no upstream answered, so there is nothing to translate")
    again = replay(recording, attempt)
    found = recorded_differences(recording, attempt, again)
    if found:
        first = found[0]
        old, new = (
            "nothing" if one is None else bytes(one).decode()
            for one in (first.recorded, first.replayed)
        )
        raise AssertionError(f"{path}: event {first.index} was {old} and is now {new}")
    at = different_bytes(recording, again)
    if at is not None:
        raise AssertionError(f"{path}: the client's bytes differ from byte {at}")


class ReceivedRequest(Struct, frozen=True, kw_only=True):
    """One HTTP request that the simulator received.

    Attributes:
        method: `GET`, `POST`, …
        path: The path with its query.
        headers: The headers; names are in lower case, credentials are shortened.
        body: The body as it arrived.
        status: The status of the response; 0 if it has not begun.
        finished: True if the whole response was sent.
        closed_early: True if the client closed the connection before that.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    status: int = 0
    finished: bool = False
    closed_early: bool = False

    @property
    def json(self) -> Any:
        """The decoded body.

        Raises:
            ValueError: the body is not JSON.
        """
        return msgspec.json.decode(self.body)


class Simulator:
    """A deterministic model on a free port of 127.0.0.1, in a background thread.

    Speaks Chat Completions, Messages, Responses and Gemini.  The user's message scripts the answer
    (`sim: say …`, `sim: call get_weather {"city": "Rome"}`, `sim: then`), and the model's name selects the
    behaviour (`sim/plain`, `sim/kimi-k2`, `sim/plain+cut:9`); docs/simulator.md lists everything.  No key is
    needed, and nothing leaves the machine.  It remembers the last 1,000 requests, up to 64 MiB of bodies.

    Serves while its context is open; it can be entered once.  Usable from synchronous and from asynchronous
    programs: entering takes a few milliseconds.

    Args:
        script: A file of exact replies (docs/simulator.md); None: the user's messages decide.

    Raises:
        ConfigError: the script cannot be read.

    Example:
        with Simulator() as simulator:
            with SyncClient(simulator.base_url, model="sim/plain") as client:
                print(client.create(request("sim: say Good morning")).text)
    """

    def __init__(self, *, script: Path | str | None = None) -> None:
        self._server = _Server(script=None if script is None else Path(script))
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        """Start serving."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(
            target=self._loop.run_forever, name="dragoman simulator", daemon=True
        )
        self._thread.start()
        self._run(self._server.start())
        return self

    def __exit__(self, *_error: object) -> None:
        """Stop serving; open responses are cut off."""
        loop, thread = self._loop, self._thread
        if loop is None or thread is None:
            return
        try:
            self._run(self._server.close())
        finally:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()
            self._loop = self._thread = None

    @property
    def url(self) -> str:
        """The address without a path, as Anthropic's SDK takes it: `http://127.0.0.1:40123`."""
        return self._server.url

    @property
    def base_url(self) -> str:
        """The address with `/v1`, as `Client` and OpenAI's SDK take it."""
        return f"{self._server.url}/v1"

    @property
    def requests(self) -> tuple[ReceivedRequest, ...]:
        """The requests received so far, oldest first; also available after the context is closed."""
        return tuple(
            ReceivedRequest(
                method=one.method,
                path=one.path,
                headers=dict(one.headers),
                body=one.body,
                status=one.status,
                finished=one.finished,
                closed_early=one.closed_early,
            )
            for one in tuple(self._server.exchanges)
        )

    def clear(self) -> None:
        """Forget the requests received so far.

        Raises:
            RuntimeError: the simulator does not serve.
        """

        async def forget() -> None:
            self._server.exchanges.clear()

        self._run(forget())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        if self._loop is None:
            work.close()
            raise RuntimeError("the simulator does not serve: enter its context first")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(30)
