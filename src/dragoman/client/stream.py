"""An answer while it comes, for programs with an event loop.

One read, one feed: all events that a read leads to are there at once, and are then given one by one.
"""

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from dragoman.client.errors import ClientError
from dragoman.client.incoming import Facts
from dragoman.turn.events import Event


class AnswerStream(Facts):
    """One streamed answer: events, then the whole.

    Entered once.  Leaving it closes the connection, unless the answer was read to its end.
    """

    async def __aenter__(self) -> Self:
        await self._incoming.open()
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
        events = await self.pump()
        if not events:
            raise StopAsyncIteration
        ready = self._ready = iter(events)
        return next(ready)

    async def pump(self) -> list[Event]:
        """Return the events of the next read that leads to any; none at the end.

        For readers that want all of them at once; `async for` gives them one by one.

        Raises:
            ClientError: the answer failed; `received` holds what had come.
        """
        incoming = self._incoming
        exchange = incoming.check()
        events: list[Event] = []
        if exchange is None:
            return events
        try:
            while not (events or incoming.done):
                while (data := exchange.take()) is None:
                    await exchange.more
                events = incoming.feed(data)
        except ClientError as error:
            events = incoming.fail(error)
        if incoming.done:
            await incoming.settle()
            return incoming.last(events)
        return events

    async def close(self) -> None:
        """Stop reading.  A task that reads meanwhile gets a `cancelled` error."""
        await self._incoming.close()
