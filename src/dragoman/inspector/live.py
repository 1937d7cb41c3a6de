"""Sends rows to open pages as server-sent events, as exchanges begin, change and end.

All listeners read one bounded list of events, each at its own pace.  One that falls behind it, or that comes from
another process, gets the event `reset` and loads its list again.
"""

import asyncio
import itertools
import os
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import Final

import msgspec
from aiohttp import web
from msgspec import Struct

from dragoman.inspector.access import Viewer
from dragoman.inspector.summary import Summary

MOST_LISTENERS: Final = 64
_KEPT_EVENTS: Final = 1000
_TICK_SECONDS: Final = 0.25  # a row is sent at most once in this time
_KEEP_ALIVE_SECONDS: Final = 15.0
_WRITE_SECONDS: Final = 30.0  # a listener that reads nothing for so long is dropped
_RETRY: Final = b"retry: 2000\n"


class _Sent(Struct, frozen=True):
    number: int
    summary: Summary
    row: bytes  # JSON


class Live:
    """The events, and who reads them.  `changes` returns what is new; it is asked only while someone listens."""

    def __init__(self, changes: Callable[[], Awaitable[Iterable[Summary]]]) -> None:
        self._changes = changes
        self._run = os.urandom(4).hex()  # numbers of another process mean nothing here
        self._numbers = itertools.count(1)
        self._last = 0
        self._events: deque[_Sent] = deque(maxlen=_KEPT_EVENTS)
        self._sent: dict[str, bytes] = {}  # the last row of each exchange
        self._listeners: set[asyncio.Event] = set()
        self._ticking: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def full(self) -> bool:
        """There are as many listeners as there may be."""
        return self._closed or len(self._listeners) >= MOST_LISTENERS

    def close(self) -> None:
        """End all streams."""
        self._closed = True
        if self._ticking is not None:
            self._ticking.cancel()
        for one in self._listeners:
            one.set()

    async def serve(self, response: web.StreamResponse, viewer: Viewer, after: str) -> None:
        """Send events until the listener leaves; `after` is the id of the last event that it has."""
        news = asyncio.Event()
        self._listeners.add(news)
        if self._ticking is None:
            self._ticking = asyncio.create_task(self._tick())
        try:
            with suppress(ConnectionResetError, TimeoutError):
                await self._serve(response, viewer, after, news)
        finally:
            self._listeners.discard(news)
            if not self._listeners and self._ticking is not None:
                self._ticking.cancel()
                self._ticking = None

    async def _serve(
        self, response: web.StreamResponse, viewer: Viewer, after: str, news: asyncio.Event
    ) -> None:
        at, known = self._position(after)
        await _write(response, _RETRY + self._event("hello", at, b"{}"))
        if not known:
            await _write(response, self._event("reset", at, b"{}"))
        while not self._closed:
            news.clear()
            missed = [one for one in self._events if one.number > at]
            if missed and missed[0].number > at + 1:
                await _write(response, self._event("reset", at, b"{}"))
            shown = [one for one in missed if viewer.may_see(one.summary)]
            if shown:
                data = (self._event("exchange", one.number, one.row) for one in shown)
                await _write(response, b"".join(data))
            if missed:
                at = missed[-1].number  # not `_last`: more may have come while this was sent
            try:
                async with asyncio.timeout(_KEEP_ALIVE_SECONDS):
                    await news.wait()
            except TimeoutError:
                await _write(response, b": keep-alive\n\n")

    def _position(self, after: str) -> tuple[int, bool]:
        """Return after which event a listener goes on, and whether it has all before."""
        run, _, number = after.partition("-")
        if not after:
            return self._last, True
        if run != self._run or not number.isascii() or not number.isdigit():
            return self._last, False
        return min(int(number), self._last), True

    def _event(self, kind: str, number: int, data: bytes) -> bytes:
        return b"id: %b-%d\nevent: %b\ndata: %b\n\n" % (
            self._run.encode(),
            number,
            kind.encode(),
            data,
        )

    async def _tick(self) -> None:
        """Ask for changes a few times a second, while someone listens."""
        while True:
            for summary in await self._changes():
                self._publish(summary)
            await asyncio.sleep(_TICK_SECONDS)

    def _publish(self, summary: Summary) -> None:
        row = msgspec.json.encode(summary.row)
        exchange = summary.row.id
        if self._sent.pop(exchange, None) == row:
            self._sent[exchange] = row
            return
        self._sent[exchange] = row
        while len(self._sent) > _KEPT_EVENTS:
            del self._sent[next(iter(self._sent))]
        self._last = next(self._numbers)
        self._events.append(_Sent(self._last, summary, row))
        for one in self._listeners:
            one.set()


async def _write(response: web.StreamResponse, data: bytes) -> None:
    async with asyncio.timeout(_WRITE_SECONDS):
        await response.write(data)
