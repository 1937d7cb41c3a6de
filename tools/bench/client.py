"""Compares the client with the vendors' clients, which read the same streams from the same server.

Only the CPU time of the reading process counts; the server is a separate process.  The vendors' clients
return raw events, while ours also assembles the answer.  `python -m tools.bench.client READER PORT`
opens streams, waits until all have begun, and prints the memory of each stream.
"""

import asyncio
import gc
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import anthropic
import openai
from tools.bench.measure import Row
from tools.bench.processes import HAS_PROC, Cores, Server, resident_bytes, serving
from tools.bench.streams import EVENTS

from dragoman import Client, SyncClient, request, user

# The budgets: how many times cheaper an event must be, one in a read and many in a read.
_CHEAPER: Final = 2.5
_CHEAPER_DENSE: Final = 15.0
_HELD: Final = 200  # streams that are open at once
_TEXT: Final = "Tell me of foxes."
_MESSAGES: Final[Any] = [{"role": "user", "content": _TEXT}]

# Takes an address, a model, and a callback for when the client exists; returns the number of events.
Read = Callable[[str, str, Callable[[], None]], Awaitable[int]]


# --- the readers ------------------------------------------------------------------------------------


def ours(dialect: Any) -> Read:
    async def read(url: str, model: str, ready: Callable[[], None]) -> int:
        async with Client(url, dialect=dialect, model=model, api_key="k") as client:
            ready()
            count = 0
            async with client.stream(request(user(_TEXT))) as turn:
                async for _ in turn:
                    count += 1
            assert turn.answer().finish is not None
            return count

    return read


async def _count(stream: AsyncIterator[Any]) -> int:
    count = 0
    async for _ in stream:
        count += 1
    return count


async def openai_chat(url: str, model: str, ready: Callable[[], None]) -> int:
    async with openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=0) as client:
        ready()
        return await _count(
            await client.chat.completions.create(model=model, messages=_MESSAGES, stream=True)
        )


async def openai_responses(url: str, model: str, ready: Callable[[], None]) -> int:
    async with openai.AsyncOpenAI(api_key="k", base_url=url, max_retries=0) as client:
        ready()
        return await _count(await client.responses.create(model=model, input=_TEXT, stream=True))


async def anthropic_messages(url: str, model: str, ready: Callable[[], None]) -> int:
    base = url.removesuffix("/v1")
    async with anthropic.AsyncAnthropic(api_key="k", base_url=base, max_retries=0) as client:
        ready()
        return await _count(
            await client.messages.create(model=model, max_tokens=9, messages=_MESSAGES, stream=True)
        )


async def ours_in_threads(url: str, model: str, ready: Callable[[], None]) -> int:
    def read() -> int:
        with SyncClient(url, model=model, api_key="k") as client:
            ready()
            with client.stream(request(user(_TEXT))) as turn:
                count = sum(1 for _ in turn)
            assert turn.answer().finish is not None
            return count

    return read()


async def openai_in_threads(url: str, model: str, ready: Callable[[], None]) -> int:
    with openai.OpenAI(api_key="k", base_url=url, max_retries=0) as client:
        ready()
        stream = client.chat.completions.create(model=model, messages=_MESSAGES, stream=True)
        return sum(1 for _ in stream)


PAIRS: Final[dict[str, tuple[Read, Read]]] = {
    "chat, beside openai": (ours("chat"), openai_chat),
    "responses, beside openai": (ours("responses"), openai_responses),
    "messages, beside anthropic": (ours("anthropic"), anthropic_messages),
    "chat, synchronous, beside openai": (ours_in_threads, openai_in_threads),
}


# --- cost of an event ---------------------------------------------------------------------------------


def _seconds(read: Read, url: str, model: str) -> float:
    """Return the CPU time for each event of one stream, from the request on."""
    begin = 0.0

    def ready() -> None:
        nonlocal begin
        gc.collect()
        begin = time.process_time()

    async def run() -> tuple[float, int]:
        count = await read(url, model, ready)
        return time.process_time() - begin, count

    spent, count = asyncio.run(run())
    deltas = EVENTS[model]
    if count < deltas:
        raise RuntimeError(f"only {count} events of {deltas}")
    return spent / deltas


def _compare(name: str, model: str, url: str, rounds: int) -> Row:
    mine, theirs = PAIRS[name]
    ratios, costs = [], []
    for read in (mine, theirs):
        _seconds(read, url, model)
    for _ in range(rounds):
        their, my = _seconds(theirs, url, model), _seconds(mine, url, model)
        ratios.append(their / my)
        costs.append((my, their))
    my, their = (statistics.median(one) * 1e6 for one in zip(*costs, strict=True))
    how = "many events a read" if model == "dense" else "one event a read"
    return Row(
        name=f"{name}, {how}, times cheaper",
        values=ratios,
        better="higher",
        limit=_CHEAPER_DENSE if model == "dense" else _CHEAPER,
        detail=f"{my:.1f} µs an event, theirs {their:.1f} µs",
        guarded=True,
    )


# --- memory of a stream -------------------------------------------------------------------------------


async def _hold_ours(url: str, stack: AsyncExitStack) -> None:
    client = await stack.enter_async_context(Client(url, model="held", api_key="k"))

    async def one() -> None:
        turn = await stack.enter_async_context(client.stream(request(user(_TEXT))))
        await turn.pump()

    await asyncio.gather(*(one() for _ in range(_HELD)))


async def _hold_openai(url: str, stack: AsyncExitStack) -> None:
    client = await stack.enter_async_context(openai.AsyncOpenAI(api_key="k", base_url=url))

    async def one() -> None:
        stream = await client.chat.completions.create(model="held", messages=_MESSAGES, stream=True)
        await anext(stack.enter_context(_kept(stream)))

    await asyncio.gather(*(one() for _ in range(_HELD)))


async def _hold_anthropic(url: str, stack: AsyncExitStack) -> None:
    base = url.removesuffix("/v1")
    client = await stack.enter_async_context(anthropic.AsyncAnthropic(api_key="k", base_url=base))

    async def one() -> None:
        stream = await client.messages.create(
            model="held", max_tokens=9, messages=_MESSAGES, stream=True
        )
        await anext(stack.enter_context(_kept(stream)))

    await asyncio.gather(*(one() for _ in range(_HELD)))


@contextmanager
def _kept(stream: Any) -> Iterator[Any]:
    yield aiter(stream)


HOLDERS: Final = {"ours": _hold_ours, "openai": _hold_openai, "anthropic": _hold_anthropic}


async def _hold(reader: str, url: str) -> None:
    async with AsyncExitStack() as warm:  # one-time imports do not count for a stream
        await _read_once(reader, url)
        await HOLDERS[reader](url, warm)
    gc.collect()
    async with AsyncExitStack() as stack:
        before = resident_bytes(os.getpid())
        await HOLDERS[reader](url, stack)
        await HOLDERS[reader](url, stack)
        after = resident_bytes(os.getpid())
        print(max(0, after - before) / (2 * _HELD), flush=True)


async def _read_once(reader: str, url: str) -> None:
    readers: dict[str, Read] = {
        "ours": ours("chat"),
        "openai": openai_chat,
        "anthropic": anthropic_messages,
    }
    await readers[reader](url, "dense", lambda: None)


def _memory(reader: str, server: Server) -> float:
    """Return the memory in bytes of an open stream, measured in a separate process."""
    out = subprocess.run(
        [sys.executable, "-m", "tools.bench.client", reader, str(server.port)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return float(out.stdout)


def bench_client(rounds: int) -> Iterator[Row]:
    """Return the rows of the client."""
    rounds = min(rounds, 9)
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "streams.log"
        with serving(["-m", "tools.bench.streams"], log, Cores(), measured=False) as server:
            url = f"http://127.0.0.1:{server.port}/v1"
            for name in PAIRS:
                for model in EVENTS:
                    yield _compare(name, model, url, rounds)
            if HAS_PROC:
                my = _memory("ours", server)
                for reader in ("openai", "anthropic"):
                    their = _memory(reader, server)
                    yield Row(
                        name=f"memory of an open stream, beside {reader}, times less",
                        values=[their / my],
                        better="higher",
                        detail=f"{my / 1024:.0f} KB, theirs {their / 1024:.0f} KB",
                    )


if __name__ == "__main__":
    asyncio.run(_hold(sys.argv[1], f"http://127.0.0.1:{sys.argv[2]}/v1"))
