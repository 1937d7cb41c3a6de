"""Records the requests that the simulator received and how each response ended, for tests."""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import msgspec

from dragoman.simulator.play import Fields, Json

_MOST: Final = 1_000  # exchanges that are remembered
_MOST_BYTES: Final = 64 * 1024 * 1024  # of their bodies
_CREDENTIALS: Final = frozenset(
    {
        "authorization",
        "x-api-key",
        "x-goog-api-key",
        "api-key",
        "proxy-authorization",
        "cookie",
    }
)
_SHOWN: Final = 4  # characters of a credential


class RecordedExchange:
    """One request, and how its response ended."""

    def __init__(self, *, number: int, method: str, path: str, headers: Mapping[str, str]) -> None:
        self.number = number  # from 1
        self.method = method
        self.path = path  # with the query, not decoded
        self.headers: dict[str, str] = {
            name.lower(): _shortened(name, value) for name, value in headers.items()
        }
        self.body = b""
        self.status = 0  # of the answer; 0 before its headers are sent
        self.written = 0  # bytes of the answer's body
        self.finished = False  # the whole answer was sent
        self.closed_early = False  # the client disconnected before that
        self.over = False  # nothing more will be sent
        self.ending = ""  # the planned ending: end, cut, reset or stall

    @property
    def json(self) -> Json:
        """The request's body; None if it is not JSON."""
        try:
            value: Json = msgspec.json.decode(self.body)
        except msgspec.DecodeError:
            return None
        return value

    def fields(self) -> Fields:
        """Return the recorded fields, for `GET /sim/exchanges`."""
        return {
            "number": self.number,
            "method": self.method,
            "path": self.path,
            "headers": dict(self.headers),
            "body": self.json,
            "status": self.status,
            "written": self.written,
            "finished": self.finished,
            "closed_early": self.closed_early,
            "over": self.over,
            "ending": self.ending,
        }


def _shortened(name: str, value: str) -> str:
    if name.lower() not in _CREDENTIALS:
        return value
    scheme, blank, rest = value.rpartition(" ")
    return f"{scheme}{blank}{rest[:_SHOWN]}…"


class Exchanges:
    """The last exchanges, oldest first."""

    def __init__(self) -> None:
        self._kept: list[RecordedExchange] = []
        self._opened = 0
        self._held = 0  # bytes of the bodies kept
        self._changed = asyncio.Event()

    def __iter__(self) -> Iterator[RecordedExchange]:
        return iter(self._kept)

    def __len__(self) -> int:
        return len(self._kept)

    def __getitem__(self, at: int) -> RecordedExchange:
        return self._kept[at]

    def open(self, method: str, path: str, headers: Mapping[str, str]) -> RecordedExchange:
        """Begin to record a request."""
        self._opened += 1
        exchange = RecordedExchange(number=self._opened, method=method, path=path, headers=headers)
        self._kept.append(exchange)
        self._forget()
        self.touch()
        return exchange

    def keep(self, exchange: RecordedExchange, body: bytes) -> None:
        """Record the body of a request."""
        exchange.body = body
        self._held += len(body)
        self._forget()

    def clear(self) -> None:
        self._kept.clear()
        self._held = 0
        self.touch()

    def touch(self) -> None:
        """Wake the tasks that wait for a change."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def wait_for(
        self, predicate: Callable[[RecordedExchange], bool], wait: float
    ) -> RecordedExchange:
        """Return the first exchange that fits, as soon as there is one.

        Raises:
            TimeoutError: there was none in so many seconds.
        """
        async with asyncio.timeout(wait):
            while True:
                changed = self._changed
                for exchange in self._kept:
                    if predicate(exchange):
                        return exchange
                await changed.wait()

    def _forget(self) -> None:
        while len(self._kept) > 1 and (len(self._kept) > _MOST or self._held > _MOST_BYTES):
            self._held -= len(self._kept.pop(0).body)
