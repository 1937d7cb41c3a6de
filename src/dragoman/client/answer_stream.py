"""An answer while it comes, for programs with an event loop.

One read, one feed: all events that a read leads to are there at once, and are then given one by one.
"""

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from dragoman.client.bell import Bell
from dragoman.client.errors import ClientError
from dragoman.client.incoming import Facts
from dragoman.turn.events import Event


class AnswerStream(Facts):
    """One streamed answer: events, then the whole.

    Entered once.  Leaving it closes the connection, unless the answer was read to its end.
    """

    _more: Bell  # rings when there may be something to pull

    async def __aenter__(self) -> Self:
        self._more = (await self._incoming.open()).more
        self._ready = iter(self.losses)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._incoming.leave()

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        """Return the next event; the last one is `Finish`.

        Raises:
            ClientError: the answer failed; `received` holds what had come.
        """
        for event in self._ready:
            return event
        while (events := self._pull()) is None:
            await self._more
        if self._incoming.done:
            events = await self._last(events)
        ready = self._ready = iter(events)
        for event in ready:
            return event
        raise StopAsyncIteration

    async def pump(self) -> list[Event]:
        """Return the events of the next read that leads to any; none at the end.

        For readers that want all of them at once; `async for` gives them one by one.

        Raises:
            ClientError: the answer failed; `received` holds what had come.
        """
        while (events := self._pull()) is None:
            await self._more
        return await self._last(events) if self._incoming.done else events

    def _pull(self) -> list[Event] | None:
        """Return the events of what has arrived, none at the end, None if there is nothing to be told yet."""
        incoming = self._incoming
        exchange = incoming.check()
        if exchange is None:
            return []
        try:
            while (data := exchange.take()) is not None:
                events = incoming.feed(data)
                if events or incoming.done:
                    return events
        except ClientError as error:
            return incoming.fail(error)
        return None

    async def _last(self, events: list[Event]) -> list[Event]:
        await self._incoming.settle()
        return self._incoming.last(events)

    async def close(self) -> None:
        """Stop reading.  A task that reads meanwhile gets a `cancelled` error."""
        await self._incoming.close()
