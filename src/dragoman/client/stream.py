"""An answer while it comes."""

from collections.abc import AsyncIterator
from types import TracebackType
from typing import Self

from dragoman.turn.events import Event
from dragoman.turn.fold import Answer


class AnswerStream:
    """One streamed answer: events, then the whole."""

    status: int  # of the HTTP answer
    request_id: str  # the server's name for the request

    async def __aenter__(self) -> Self:
        raise NotImplementedError

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        raise NotImplementedError

    def __aiter__(self) -> AsyncIterator[Event]:
        return self

    async def __anext__(self) -> Event:
        """Return the next event; the last one is `Finish`.

        Raises:
            ClientError: the answer failed; `received` holds what had come.
        """
        raise NotImplementedError

    def message(self) -> Answer:
        """Return what has come; complete once the events have ended."""
        raise NotImplementedError

    async def close(self) -> None:
        """Stop reading: the server is told by a closed connection.  May be called from another task."""
        raise NotImplementedError
