"""The same client for programs without an event loop."""

from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

from dragoman.turn.events import Event
from dragoman.turn.fold import Answer
from dragoman.turn.request import Request


class SyncAnswerStream:
    """One streamed answer: events, then the whole."""

    def __enter__(self) -> Self:
        raise NotImplementedError

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        raise NotImplementedError

    def __iter__(self) -> Iterator[Event]:
        return self

    def __next__(self) -> Event:
        raise NotImplementedError

    def message(self) -> Answer:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError


class SyncClient:
    """Ask one server.  The arguments are those of `Client`."""

    def __init__(self, base_url: str, **options: Any) -> None:
        raise NotImplementedError

    def create(self, request: Request, /) -> Answer:
        raise NotImplementedError

    def stream(self, request: Request, /) -> SyncAnswerStream:
        raise NotImplementedError

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
