"""An answer onto the socket: paced, drained, and ended as the answer says."""

import asyncio
import socket
import struct
from typing import Final

from aiohttp import web

from dragoman.simulator.answer import Answer
from dragoman.simulator.exchanges import Exchange, Exchanges

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)  # linger, for no time: the kernel resets
_CLOSING: Final = "the simulator closes"


class Deliveries:
    """The answers that are under way, so that closing need not wait for them."""

    def __init__(self, exchanges: Exchanges) -> None:
        self._exchanges = exchanges
        self._tasks: set[asyncio.Task[object]] = set()

    def cancel(self) -> None:
        """Give up what is under way."""
        for task in self._tasks:
            task.cancel(_CLOSING)

    async def deliver(
        self, request: web.Request, answer: Answer, exchange: Exchange
    ) -> web.StreamResponse:
        """Send an answer.  Whoever waits for this exchange is woken when it is over."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 -- a coroutine runs in a task
        self._tasks.add(task)
        exchange.ending = answer.ending
        response = web.StreamResponse(status=answer.status, headers=answer.headers)
        response.content_length = answer.length
        try:
            await self._send(request, response, answer, exchange)
            exchange.finished = answer.ending == "end"
        except asyncio.CancelledError as error:
            exchange.closed_early = _CLOSING not in error.args
            raise
        except ConnectionError:
            exchange.closed_early = True  # nothing to complain of: clients may leave
        finally:
            self._tasks.discard(task)
            exchange.over = True
            self._exchanges.touch()
        return response

    async def _send(
        self,
        request: web.Request,
        response: web.StreamResponse,
        answer: Answer,
        exchange: Exchange,
    ) -> None:
        if answer.slow:
            await asyncio.sleep(answer.slow)
        await response.prepare(request)
        exchange.status = answer.status
        self._exchanges.touch()
        pause = 0.0
        for piece in answer.writes:
            if pause:
                await asyncio.sleep(pause)
            pause = answer.pace
            await response.write(piece)
            exchange.written += len(piece)
        self._exchanges.touch()
        if pause and answer.ending == "reset":
            # A reset discards what the client has received and not yet read.
            await asyncio.sleep(pause)
        await _end(request, response, answer)


async def _end(request: web.Request, response: web.StreamResponse, answer: Answer) -> None:
    transport = request.transport
    match answer.ending:
        case "end":
            await response.write_eof()
        case "stall":
            await asyncio.Event().wait()
        case "cut" if transport is not None:
            transport.close()
        case "reset" if transport is not None:
            # What was written must be on its way, for a reset discards what is left.
            transport.set_write_buffer_limits(0)
            await request.writer.drain()
            peer = transport.get_extra_info("socket")
            peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            transport.abort()
