"""An answer onto the socket: paced, drained, and ended as the answer says."""

import asyncio
import socket
import struct
from typing import Final

from aiohttp import web

from dragoman.simulator.answer import Answer
from dragoman.simulator.exchanges import Exchange, Exchanges

_RESET_ON_CLOSE: Final = struct.pack("ii", 1, 0)  # linger, for no time: the kernel resets


class Closing(Exception):
    """The simulator shuts down."""


class Clock:
    """Time for answers that wait, until the simulator shuts down."""

    def __init__(self) -> None:
        self._closing = asyncio.Event()

    def close(self) -> None:
        self._closing.set()

    async def wait(self, seconds: float | None) -> None:
        """Wait, without end if `seconds` is None.

        Raises:
            Closing: the simulator shuts down.
        """
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return
        raise Closing


async def deliver(
    request: web.Request, answer: Answer, exchange: Exchange, exchanges: Exchanges, clock: Clock
) -> web.StreamResponse:
    """Send an answer.  Whoever waits for this exchange is woken when it is over."""
    exchange.ending = answer.ending
    response = web.StreamResponse(status=answer.status, headers=answer.headers)
    response.content_length = answer.length
    try:
        if answer.slow:
            await clock.wait(answer.slow)
        await response.prepare(request)
        exchange.status = answer.status
        exchanges.touch()
        for number, piece in enumerate(answer.writes):
            if number and answer.pace:
                await clock.wait(answer.pace)
            await response.write(piece)
            exchange.written += len(piece)
        exchanges.touch()
        await _end(request, response, answer, clock)
        exchange.finished = answer.ending == "end"
    except (asyncio.CancelledError, ConnectionError):
        exchange.closed_early = True
        raise
    except Closing:
        _abort(request)
    finally:
        exchange.over = True
        exchanges.touch()
    return response


async def _end(
    request: web.Request, response: web.StreamResponse, answer: Answer, clock: Clock
) -> None:
    match answer.ending:
        case "end":
            await response.write_eof()
        case "stall":
            await clock.wait(None)
        case "cut":
            if request.transport is not None:
                request.transport.close()
        case "reset":
            transport = request.transport
            if transport is not None:
                # What was written must be on its way, for a reset discards what is left.
                transport.set_write_buffer_limits(0)
                await request.writer.drain()
                peer = transport.get_extra_info("socket")
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                transport.abort()


def _abort(request: web.Request) -> None:
    if request.transport is not None:
        request.transport.abort()
