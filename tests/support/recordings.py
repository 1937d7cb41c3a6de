"""A recording of one exchange; exchanges to record: every family, and faults of the simulator."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx2

from dragoman.gateway.config.settings import Record, Settings
from dragoman.recorder.recording import Recording, read_recording
from dragoman.toolcalls.formats import FORMATS
from tests.support.asking import post
from tests.support.gateway import FIXED_PATHS, Stand, settings_for, stand
from tests.support.simulator import WEATHER, question

RECORDING = Path(__file__).parents[1] / "recorder" / "recording.dragoman"
FAULTS = (
    "cut", "reset", "cut:end", "ends-in:call", "ends-in:text", "half-call", "no-finish", "no-done", "garbage",
    "error-in", "error-end", "error-first", "error:429", "error:500", "error-page:502", "empty", "error-200",
    "json-instead", "cut-args", "bad-json-args", "object-args", "length", "refuse", "crlf", "comments",
    "interleave+parallel:3", "think", "no-usage", "chunk:byte",
)  # fmt: skip


def exchanges() -> Iterator[tuple[str, str, bool]]:
    """Yield dialects of clients, models, and whether the answer is streamed: about 300."""
    turn = 0
    for family in FORMATS:
        for quirks in ("", "+leak-reasoning", "+length"):
            turn += 1
            client = FIXED_PATHS[turn % 3]
            upstream = FIXED_PATHS[turn // 3 % 3]
            yield client, f"{upstream}/{family.replace('_', '-')}{quirks}", turn % 4 != 0
    yield "anthropic", "chat/plain+text:512", False  # its body is translated in a thread
    yield "chat", "anthropic/plain+text:512", True
    for fault in FAULTS:
        for number, client in enumerate(FIXED_PATHS):
            for upstream in (client, FIXED_PATHS[(number + 1) % 3]):
                yield client, f"{upstream}/plain+{fault}", True
    for number, fault in enumerate(("think", "error-in", "cut", "length", "parallel:3", "crlf")):
        yield "gemini", f"{('chat', 'gemini')[number % 2]}/plain+{fault}", True
        yield FIXED_PATHS[number % 3], f"gemini/plain+{fault}", number % 2 == 0
    for fault in ("cut-args", "bad-json-args"):  # which a Gemini client gets as failures
        for upstream, stream in (("chat", True), ("chat", False), ("gemini", True)):
            yield "gemini", f"{upstream}/plain+{fault}", stream


def record_all(folder: Path) -> None:
    """Record `exchanges` into a folder."""
    with recording_gateway(folder) as gateway, ThreadPoolExecutor(8) as threads:

        def ask(one: tuple[str, str, bool]) -> None:
            client, model, stream = one
            with suppress(httpx2.HTTPError):
                post(gateway, client, question(client, model, tools=[WEATHER], stream=stream))

        list(threads.map(ask, exchanges()))


@contextmanager
def recording_gateway(folder: Path, **record: Any) -> Iterator[Stand]:
    """Run a gateway that records into a folder, with these settings of `[record]`."""

    def make(url: str) -> Settings:
        return settings_for(url, record=Record(dir=str(folder), **record))

    with stand(make) as gateway:
        yield gateway


def recorded(folder: Path) -> list[Recording]:
    return [read_recording(file) for file in sorted(folder.iterdir())]
