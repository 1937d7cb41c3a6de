"""The clients of the gateway benchmark: raw sockets that parse only enough to count.

    python -m tools.bench.load CASE --port P --process PID --connections N --seconds S

Prints one line of JSON: the responses, their latency, and the CPU time and memory of the server process; or why
the server could not do it.
"""

import argparse
import asyncio
import os
import re
import statistics
import time
from collections.abc import Callable
from typing import Final

import msgspec
import uvloop
from tools.bench.measure import Result
from tools.bench.processes import cpu_seconds, resident_bytes
from tools.bench.traffic import PROOF, STAMP, TEXTS, request_bytes, workload

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_WARM_UP: Final = 0.5  # seconds
_FIRST: Final = 30.0  # seconds for the first response
_LEAST: Final = 20  # responses in a window; a slow server gets more time for them
_LONGEST: Final = 3  # times the window, beside it
_LONGEST_FIRST: Final = 10  # the same while there is none
_TOGETHER: Final = 10  # streams that begin at the same time
_OPENING: Final = 10.0  # seconds, until these have begun
_ERROR_BODY: Final = 0.2  # seconds until the body of an error has arrived
_LAST_CHUNK: Final = b"0\r\n\r\n"
_CLOSES: Final = re.compile(rb"\r\nconnection: *close", re.IGNORECASE)


class Client(asyncio.Protocol):
    """One connection."""

    done = 0  # of all connections
    failure = ""

    def __init__(self, request: bytes, proof: bytes, least: int) -> None:
        self._request = request
        self._proof = proof  # which the first stream contains
        self._least = least  # events that the first stream has
        self._closes: bool | None = None  # whether the server closes connections; None: not known
        self._leaving = 0  # connections that end as expected
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        transport.write(self._request)

    def complete(self, response: bytes) -> None:
        """Count a response, and send the next request."""
        Client.done += 1
        if self._closes is None:
            head = response.find(b"\r\n\r\n")
            self._closes = _CLOSES.search(response, 0, head + 2) is not None
        if not self._closes:
            self.transport.write(self._request)
            return
        address = self.transport.get_extra_info("peername")
        self._leaving += 1
        self.transport.close()
        loop = asyncio.get_running_loop()
        self._task = loop.create_task(loop.create_connection(lambda: self, *address))

    def fail(self, why: str) -> None:
        Client.failure = Client.failure or why
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._leaving:
            self._leaving -= 1
            return
        Client.failure = Client.failure or "a connection was lost"


class WholeClient(Client):
    """Requests complete answers, one after the other."""

    def __init__(self, request: bytes, proof: bytes, least: int) -> None:
        super().__init__(request, proof, least)
        self._held = b""

    def data_received(self, data: bytes) -> None:
        self._held = held = self._held + data if self._held else data
        head = held.find(b"\r\n\r\n")
        if head < 0:
            return
        if not held.startswith(b"HTTP/1.1 200"):
            self.fail(_shown(held))
            return
        length = _LENGTH.search(held, 0, head + 2)
        if len(held) >= head + 4 + int(length[1]) if length else held.endswith(_LAST_CHUNK):
            self._held = b""
            self.complete(held)


class StreamClient(Client):
    """Requests streams, one after the other; the first one is checked completely."""

    def __init__(self, request: bytes, proof: bytes, least: int) -> None:
        super().__init__(request, proof, least)
        self._first: list[bytes] | None = []
        self._tail = b""

    def data_received(self, data: bytes) -> None:
        if self._first is not None:
            self._first.append(data)
            if len(self._first) == 1 and not data.startswith(b"HTTP/1.1 200"):
                asyncio.get_running_loop().call_later(_ERROR_BODY, self._refused)
        self._tail = tail = (self._tail + data)[-5:] if len(data) < 5 else data[-5:]
        if tail != _LAST_CHUNK:
            return
        if self._first is not None:
            stream = b"".join(self._first)
            if not stream.startswith(b"HTTP/1.1 200"):
                self._refused()
                return
            if self._proof and self._proof not in stream:
                self.fail("the response has no tool call")
                return
            if stream.count(b"data: ") < self._least:
                self.fail("the response has fewer events: " + _shown(stream))
                return
            self._first = None
            self.complete(stream)
            return
        self.complete(data)

    def _refused(self) -> None:
        self.fail(_shown(b"".join(self._first or ())))


class PacedClient(Client):
    """Holds one stream, and records the latency of its events."""

    open = 0  # streams that have begun
    late: list[int] = []  # nanoseconds

    def __init__(self, request: bytes, proof: bytes, least: int) -> None:
        super().__init__(request, proof, least)
        self._begun = False

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        if not self._begun:
            if not data.startswith(b"HTTP/1.1 200"):
                self.fail(_shown(data))
                return
            self._begun = True
            PacedClient.open += 1
        for stamp in STAMP.findall(data):
            Client.done += 1
            PacedClient.late.append(now - int(stamp))


async def measure(  # noqa: PLR0913 -- the options of the program
    case: str,
    *,
    port: int,
    process: int,
    connections: int,
    seconds: float,
    client: str,
    headers: str,
    model: str,
    relayed: bool,
) -> Result:
    """Load a server, and measure one window."""
    kind = workload(case)
    asked = f"{case}-{os.getpid()}" if case.startswith("paced") else case  # a window of its own
    request = request_bytes(asked, port, client, headers=headers, model=model)
    proof = PROOF[client] if kind.calls and not relayed else b""
    least = TEXTS if case == "dense" else 1
    maker: type[Client] = WholeClient if not kind.stream else StreamClient
    if kind.events == 1 and kind.stream:
        maker = PacedClient
    clients = await _connected(lambda: maker(request, proof, least), port, connections)
    if maker is not PacedClient:
        await _first_response()
    await asyncio.sleep(_WARM_UP)
    PacedClient.late.clear()
    done, cpu, began = Client.done, cpu_seconds(process), time.perf_counter()
    await asyncio.sleep(seconds)
    if maker is not PacedClient:
        await _enough(done, seconds)
    result = Result(
        Client.done - done,
        time.perf_counter() - began,
        cpu_seconds(process) - cpu,
        resident_bytes(process),
        failure=Client.failure,
    )
    if len(PacedClient.late) > 1:
        points = statistics.quantiles(PacedClient.late, n=100)
        result.p50, result.p99 = points[49] / 1e6, points[98] / 1e6
        result.most = max(PacedClient.late) / 1e6
    for one in clients:
        one.transport.abort()
    return result


async def _connected(maker: Callable[[], Client], port: int, connections: int) -> list[Client]:
    loop = asyncio.get_running_loop()
    clients: list[Client] = []
    for _ in range(connections):
        _, client = await loop.create_connection(maker, "127.0.0.1", port)
        clients.append(client)
        # Streams begin one after the other; otherwise their start would be measured.
        if isinstance(client, PacedClient) and not len(clients) % _TOGETHER:
            await _all_open(len(clients))
    return clients


async def _first_response() -> None:
    async with asyncio.timeout(_FIRST):
        while not Client.done and not Client.failure:  # noqa: ASYNC110 -- a short wait
            await asyncio.sleep(0.01)


async def _enough(done: int, seconds: float) -> None:
    """Wait until a slow server has given some responses, or at least one."""
    begun = time.monotonic()
    while not Client.failure:
        count, waited = Client.done - done, time.monotonic() - begun
        if count >= _LEAST or waited > (_LONGEST if count else _LONGEST_FIRST) * seconds:
            return
        await asyncio.sleep(seconds / 10)


def _shown(response: bytes) -> str:
    """Return the status and the beginning of the body."""
    head, _, body = response.partition(b"\r\n\r\n")
    line = head.split(b"\r\n")[0]
    return f"{line.decode()} {body[:300].decode(errors='replace')}"


async def _all_open(connections: int) -> None:
    async with asyncio.timeout(_OPENING):
        while PacedClient.open < connections and not Client.failure:  # noqa: ASYNC110 -- a short wait
            await asyncio.sleep(0.005)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("case")
    for name in ("port", "process", "connections"):
        parser.add_argument(f"--{name}", type=int, required=True)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--client", default="anthropic", help="the dialect of the requests")
    parser.add_argument("--headers", default="", help="more of them, each with its line end")
    parser.add_argument("--model", default="", help="instead of the workload's")
    parser.add_argument(
        "--relayed", action="store_true", help="the server forwards bytes unchanged"
    )
    try:
        result = uvloop.run(measure(**vars(parser.parse_args())))
    except (TimeoutError, OSError) as error:
        result = Result(failure=Client.failure or str(error) or "no response in time")
    print(msgspec.json.encode(result).decode())


if __name__ == "__main__":
    main()
