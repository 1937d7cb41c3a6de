"""A fast upstream: writes prebuilt bytes, and parses only the framing and the mark of a request.

    python -m tools.bench.upstream

Prints its address, and serves until it is terminated.
"""

import asyncio
import os
import re
import socket
import threading
import time
from contextlib import suppress
from typing import Final

import uvloop
from tools.bench.traffic import MARK, answer, first_events, stamped_chunk

_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_CHUNKED: Final = re.compile(rb"\r\ntransfer-encoding: *chunked", re.IGNORECASE)
_FIRST: Final = first_events()
_UNKNOWN: Final = b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}"
# By what the path has; else Chat.
_DIALECTS: Final = {
    b"/messages": "anthropic",
    b"/responses": "responses",
    b"enerateContent": "gemini",
}
_WAIT: Final = 0.01  # seconds
_LAG: Final = 0.05  # seconds of delay, after which a pacer skips the missed events


class Pacer:
    """Writes to the streams of one window in turn, at an even rate, while all of them are open.

    It runs in its own thread: timers of event loops have a resolution of one millisecond, and a burst
    each millisecond would distort the latency.
    """

    def __init__(self, streams: int, events_per_second: int) -> None:
        self._slots: list[socket.socket | None] = [None] * streams
        self._free = streams
        self._interval = 1 / events_per_second
        self.ended = False
        threading.Thread(target=self._run, daemon=True).start()

    @property
    def full(self) -> bool:
        return not self._free

    def enter(self, transport: asyncio.Transport) -> socket.socket:
        """Add a stream; the caller must call `leave`."""
        stream = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        stream.setblocking(False)
        self._slots[self._slots.index(None)] = stream
        self._free -= 1
        return stream

    def leave(self, stream: socket.socket) -> None:
        self._slots[self._slots.index(stream)] = None
        self._free += 1
        stream.close()

    def end(self) -> None:
        """Close the streams that are left, and write no more."""
        self.ended = True
        for stream in filter(None, self._slots):
            with suppress(OSError):  # disconnected
                stream.shutdown(socket.SHUT_RDWR)  # the event loop sees the end, and closes it

    def _run(self) -> None:
        due = time.monotonic()
        while not self.ended:
            while self._free and not self.ended:
                time.sleep(_WAIT)
                due = time.monotonic()
            for stream in self._slots:
                due += self._interval
                wait = due - time.monotonic()
                if wait > 0:
                    time.sleep(wait)
                elif wait < -_LAG:
                    due = time.monotonic()
                if stream is not None:
                    with suppress(OSError):  # disconnected, or not reading: the client notices both
                        stream.send(stamped_chunk())


_pacers: dict[bytes, Pacer] = {}  # by the mark of the window; the last one has not ended


class Upstream(asyncio.Protocol):
    """One connection."""

    def __init__(self) -> None:
        self._held = b""
        self._need = 0  # bytes of the request under way; 0: its head is not complete
        self._paced: tuple[Pacer, socket.socket] | None = None
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._held = held = self._held + data if self._held else data
        if not self._need:
            head = held.find(b"\r\n\r\n")
            if head < 0:
                return
            if _CHUNKED.search(held, 0, head + 2):
                if held.endswith(b"\r\n0\r\n\r\n"):
                    self._held = b""
                    self._answer(held)
                return
            length = _LENGTH.search(held, 0, head + 2)
            self._need = head + 4 + (int(length[1]) if length else 0)
        if len(held) >= self._need:
            self._held, self._need = b"", 0
            self._answer(held)

    def _answer(self, request: bytes) -> None:
        mark = MARK.search(request)
        if mark is None:  # a peer looks whether it is there
            self._transport.write(_UNKNOWN)
            return
        case = mark[1].decode()
        if case == "held":
            self._transport.write(_FIRST)
        elif case == "paced":
            self._pace(mark[0], int(mark[2]), int(mark[3]))
        else:
            line = request[: request.index(b"\r\n")]
            names = (name for path, name in _DIALECTS.items() if path in line)
            self._transport.write(answer(case, next(names, "chat")))

    def _pace(self, window: bytes, streams: int, events_per_second: int) -> None:
        pacer = _pacers.get(window)
        if pacer is None:
            # Some gateways keep their streams open when their clients leave: a new window ends those of the last.
            for last in _pacers.values():
                last.end()
            pacer = _pacers[window] = Pacer(streams, events_per_second)
        if pacer.ended or pacer.full:
            self._transport.abort()
            return
        self._transport.write(_FIRST)
        self._paced = (pacer, pacer.enter(self._transport))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._paced is not None:
            pacer, stream = self._paced
            pacer.leave(stream)


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Upstream, "127.0.0.1", 0, backlog=2048)
    print(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
