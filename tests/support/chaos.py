"""A TCP proxy that damages one connection: delays, tiny writes, stalls, resets, closes in odd orders.

Each `ChaosProxy` damages its first connection as its `Fault` says; all later ones pass unchanged, so that a
test can ask again through the same address.
"""

import asyncio
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal, NamedTuple

from tests.support.event_loops import loop_in_thread

_READ = 65536
_ABORT = struct.pack("ii", 1, 0)  # SO_LINGER: close() sends RST at once
Direction = Literal["to_server", "to_client"]
Event = Literal["", "reset", "close", "half_close", "stall", "close_sender"]


class Fault(NamedTuple):
    """What happens to the bytes of one direction of a connection."""

    direction: Direction = "to_client"
    piece: int = 0  # bytes of one write; 0: as they arrive
    pause: float = 0.0  # seconds before each write
    after: int = 0  # bytes that pass before `event`, which waits for the first byte in any case
    # reset, close: of the whole connection.  half_close: the receiver gets an end of input, and can still send.
    # stall: nothing passes any more, in this direction.  close_sender: the sender's side is reset first, and what
    # it had sent still arrives.
    event: Event = ""


class ChaosProxy:
    """Listens on `port`, connects each connection to the target, and counts the bytes for its client."""

    def __init__(self, target: tuple[str, int], fault: Fault) -> None:
        self._target = target
        self._fault: Fault | None = fault
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server
        self.port = 0
        self.passed = 0  # bytes to the client of the first connection
        self.damaged = threading.Event()  # the first connection has ended

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def drop(self) -> None:
        """Break all connections, from any thread."""
        self._server.get_loop().call_soon_threadsafe(self._cancel)

    async def close(self) -> None:
        self._server.close()
        self._cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _cancel(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._connect(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fault, self._fault = self._fault, None
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
        except OSError:
            writer.transport.abort()
            return
        connection = _Connection(self, fault or Fault())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(connection.pass_on("to_server", reader, writer, far_writer))
                group.create_task(connection.pass_on("to_client", far_reader, far_writer, writer))
        except* (OSError, _BrokenError):
            pass
        finally:
            for one in (writer, far_writer):
                one.transport.abort()
            self.damaged.set()


class _BrokenError(Exception):
    """The connection was broken on purpose."""


class _Connection:
    def __init__(self, proxy: ChaosProxy, fault: Fault) -> None:
        self._proxy = proxy
        self._fault = fault

    async def pass_on(
        self,
        direction: Direction,
        reader: asyncio.StreamReader,
        sender: asyncio.StreamWriter,
        receiver: asyncio.StreamWriter,
    ) -> None:
        """Forward what one side sends until its end of input, or until the fault."""
        fault = self._fault if self._fault.direction == direction else Fault()
        left = fault.after
        while data := await reader.read(_READ):
            now = data[:left] if fault.event else data
            left -= len(now)
            if direction == "to_client":
                self._proxy.passed += len(now)
            await _write(receiver, now, fault)
            if fault.event and not left:
                await _happen(fault.event, sender, receiver, rest=data[len(now) :])
                return
        receiver.write_eof()


async def _write(receiver: asyncio.StreamWriter, data: bytes, fault: Fault) -> None:
    size = fault.piece or max(1, len(data))
    for start in range(0, len(data), size):
        if fault.pause:
            await asyncio.sleep(fault.pause)
        receiver.write(data[start : start + size])
        await receiver.drain()
        if fault.piece:
            await asyncio.sleep(0)  # one segment for each write, as far as the kernel allows


async def _happen(
    event: Event, sender: asyncio.StreamWriter, receiver: asyncio.StreamWriter, rest: bytes = b""
) -> None:
    match event:
        case "reset":
            for one in (sender, receiver):
                one.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
            raise _BrokenError
        case "close":
            receiver.close()
            raise _BrokenError
        case "half_close":
            receiver.write_eof()
        case "close_sender":
            sender.transport.abort()
            receiver.write(rest)
            await receiver.drain()
            receiver.close()
        case _:
            await asyncio.Event().wait()  # until the proxy or the other direction ends


@contextmanager
def chaos(target: tuple[str, int], faults: list[Fault]) -> Iterator[list[ChaosProxy]]:
    """Run one proxy for each fault, all before the same server."""
    proxies = [ChaosProxy(target, fault) for fault in faults]
    with loop_in_thread() as do:
        try:
            for proxy in proxies:
                do(proxy.start())
            yield proxies
        finally:
            for proxy in proxies:
                do(proxy.close())
