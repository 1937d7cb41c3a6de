"""Servers on raw sockets that say exactly what a test wants, and proof that no connection is left open."""

import asyncio
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

_PATIENCE = 30  # seconds for what ends by itself
Script = Callable[["Talk"], Awaitable[None]]

CHAT = [
    {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {"content": "Hel"}}]},
    {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {"content": "lo"}}]},
    {"id": "c1", "model": "m", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
]


def sse(*events: Any, done: bool = True) -> bytes:
    """Return a stream of these values; bytes are put in as they are."""
    parts = [
        event if isinstance(event, bytes) else b"data: %b\n\n" % json.dumps(event).encode()
        for event in events
    ]
    return b"".join(parts) + (b"data: [DONE]\n\n" if done else b"")


def body(content: Any = "Hello", **more: Any) -> bytes:
    """Return a complete Chat answer."""
    message = {"role": "assistant", "content": content, **more}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return json.dumps({"id": "c1", "model": "m", "choices": [choice]}).encode()


def http(
    payload: bytes = b"",
    *,
    status: str = "200 OK",
    kind: str = "text/event-stream",
    headers: str = "",
    length: int | None = -1,
    keep: bool = False,
) -> bytes:
    """Return an HTTP answer; its length is sent unless `length` is None.

    It announces that the connection closes behind it, as it does once a script is over, unless the script is
    to `keep` it: a client that used it again might have its next request cut off.
    """
    if length == -1:
        length = len(payload)
    framing = "" if length is None else f"content-length: {length}\r\n"
    if not keep and "connection:" not in headers.lower():
        framing += "connection: close\r\n"
    head = f"HTTP/1.1 {status}\r\ncontent-type: {kind}\r\n{framing}{headers}\r\n"
    return head.encode("latin-1") + payload


HELLO = http(sse(*CHAT))


class Talk:
    """One connection: the request was read, the answer is the script's to give."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.request = request

    async def say(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def next_request(self) -> bytes:
        """Return what the client asks next on this connection; nothing if it leaves."""
        try:
            return await _request(self.reader)
        except (ConnectionError, asyncio.IncompleteReadError):
            return b""

    async def gone(self) -> None:
        """Wait until the client has left."""
        with suppress(ConnectionError):
            while await self.reader.read(65536):
                pass

    def reset(self) -> None:
        """Close at once, as a crashed process does."""
        connection = self.writer.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()


class Peer:
    """A server that follows a script for each connection."""

    def __init__(self, script: Script, *, reads: bool = True) -> None:
        self._script = script
        self._reads = reads
        self.requests: list[bytes] = []
        self.asked = asyncio.Event()
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await _request(reader) if self._reads else b""
            self.requests.append(request)
            self.asked.set()
            await self._script(Talk(reader, writer, request))
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass  # the client left
        finally:
            writer.close()
            with suppress(ConnectionError, ssl.SSLError):
                await writer.wait_closed()


async def _request(reader: asyncio.StreamReader) -> bytes:
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            return head + await reader.readexactly(int(line.partition(b":")[2]))
    return head


@asynccontextmanager
async def peer(
    script: Script | bytes, *, tls: ssl.SSLContext | None = None, reads: bool = True
) -> AsyncIterator[Peer]:
    """Serve a script, or these bytes to every client."""
    if isinstance(script, bytes):
        said = script

        async def script(talk: Talk) -> None:
            await talk.say(said)

    found = Peer(script, reads=reads)
    tasks: set[asyncio.Task[None]] = set()

    def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(found.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        server.close()
        for task in tuple(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def descriptors() -> set[str]:
    """Return what this process has open: sockets and files."""
    found = set()
    for name in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.add(str(name.readlink()))
    return found


@asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """Assert that no task, thread or socket outlives what is done inside."""
    before = _living()
    yield
    left: set[object] = set()
    end = time.monotonic() + _PATIENCE
    while time.monotonic() < end:
        left = _living() - before
        if not left:
            return
        await asyncio.sleep(0.005)
    raise AssertionError(f"left behind: {left}")


_POOLS = ("asyncio_", "uvloop_")  # threads that an event loop keeps


def _living() -> set[object]:
    threads = {one for one in threading.enumerate() if not one.name.startswith(_POOLS)}
    sockets = {one for one in descriptors() if one.startswith("socket:")}
    return {*asyncio.all_tasks(), *threads, *sockets}
