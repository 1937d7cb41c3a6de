"""The clients of the gateway benchmark: raw sockets that parse only enough to count.

    python -m tools.bench.load CASE --port P --process PID --connections N --seconds S

Prints one line of JSON: the responses, their latency, and the CPU time and memory of the server process.
"""

import argparse
import asyncio
import re
import statistics
import sys
import time
from typing import Final

import msgspec
import uvloop
from tools.bench.processes import cpu_seconds, resident_bytes
from tools.bench.traffic import STAMP, TEXTS, request_bytes

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_WARM_UP: Final = 0.5  # seconds
_TOGETHER: Final = 10  # streams that begin at the same time
_OPENING: Final = 10.0  # seconds, until these have begun
_LAST_CHUNK: Final = b"0\r\n\r\n"


class Result(msgspec.Struct):
    """What was measured in one window."""

    done: int = 0  # requests, or events of paced streams
    seconds: float = 0.0
    cpu: float = 0.0  # seconds of the server process
    resident: int = 0  # its memory, in bytes
    p50: float = 0.0  # latency of an event, in milliseconds
    p99: float = 0.0

    @property
    def rate(self) -> float:
        return self.done / self.seconds

    @property
    def cpu_each(self) -> float:
        """Microseconds for one request or event."""
        return self.cpu / self.done * 1e6


class Client(asyncio.Protocol):
    """One connection."""

    done = 0  # of all connections
    failure = ""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        transport.write(self._request)

    def fail(self, why: str) -> None:
        Client.failure = Client.failure or why
        self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        Client.failure = Client.failure or "a connection was lost"


class WholeClient(Client):
    """Requests complete answers, one after the other."""

    def __init__(self, request: bytes) -> None:
        super().__init__(request)
        self._held = b""

    def data_received(self, data: bytes) -> None:
        self._held = held = self._held + data if self._held else data
        head = held.find(b"\r\n\r\n")
        if head < 0:
            return
        length = _LENGTH.search(held, 0, head + 2)
        if not held.startswith(b"HTTP/1.1 200") or length is None:
            self.fail(repr(held[:500]))
            return
        if len(held) >= head + 4 + int(length[1]):
            self._held = b""
            Client.done += 1
            self.transport.write(self._request)


class StreamClient(Client):
    """Requests streams, one after the other; the first one is checked completely."""

    def __init__(self, request: bytes) -> None:
        super().__init__(request)
        self._first: list[bytes] | None = []
        self._tail = b""

    def data_received(self, data: bytes) -> None:
        if self._first is not None:
            self._first.append(data)
        self._tail = tail = (self._tail + data)[-5:] if len(data) < 5 else data[-5:]
        if tail != _LAST_CHUNK:
            return
        if self._first is not None:
            stream = b"".join(self._first)
            if not stream.startswith(b"HTTP/1.1 200") or stream.count(b"data: ") < TEXTS:
                self.fail(repr(stream[:500]))
                return
            self._first = None
        Client.done += 1
        self.transport.write(self._request)


class PacedClient(Client):
    """Holds one stream, and records the latency of its events."""

    open = 0  # streams that have begun
    late: list[int] = []  # nanoseconds

    def __init__(self, request: bytes) -> None:
        super().__init__(request)
        self._begun = False

    def data_received(self, data: bytes) -> None:
        now = time.monotonic_ns()
        if not self._begun:
            if not data.startswith(b"HTTP/1.1 200"):
                self.fail(repr(data[:500]))
                return
            self._begun = True
            PacedClient.open += 1
        for stamp in STAMP.findall(data):
            Client.done += 1
            PacedClient.late.append(now - int(stamp))


async def measure(
    case: str, *, port: int, process: int, connections: int, seconds: float
) -> Result:
    """Load a server, and measure one window."""
    loop = asyncio.get_running_loop()
    request = request_bytes(case, port)
    kind = {"json": WholeClient, "dense": StreamClient}.get(case, PacedClient)
    clients = []
    for _ in range(connections):
        _, client = await loop.create_connection(lambda: kind(request), "127.0.0.1", port)
        clients.append(client)
        # Streams begin one after the other; otherwise their start would be measured.
        if kind is PacedClient and not len(clients) % _TOGETHER:
            await _all_open(len(clients))
    await asyncio.sleep(_WARM_UP)
    PacedClient.late.clear()
    done, cpu, began = Client.done, cpu_seconds(process), time.perf_counter()
    await asyncio.sleep(seconds)
    result = Result(
        Client.done - done,
        time.perf_counter() - began,
        cpu_seconds(process) - cpu,
        resident_bytes(process),
    )
    if Client.failure:
        sys.exit(f"{case}: {Client.failure}")
    if PacedClient.late:
        points = statistics.quantiles(PacedClient.late, n=100)
        result.p50, result.p99 = points[49] / 1e6, points[98] / 1e6
    for client in clients:
        client.transport.abort()
    return result


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
    result = uvloop.run(measure(**vars(parser.parse_args())))
    print(msgspec.json.encode(result).decode())


if __name__ == "__main__":
    main()
