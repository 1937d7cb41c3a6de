"""How much one process accepts at once: connections, requests, and the bytes of their bodies.

A request beyond a limit is refused with 503 and `retry-after`, in the client's dialect.
"""

from typing import Final

from msgspec import Struct

from dragoman.errors import DragomanError
from dragoman.turn.events import Fault, FaultKind

STATUS: Final = 503
SHUTTING_DOWN: Final = "shutting_down"  # the code of what ends with the process
_RETRY_SECONDS: Final = 1.0  # requests end all the time
_RESERVE: Final = 32  # descriptors for the event loop, the log, the store, names and files
_UNITS: Final = {
    "max_connections": "connections",
    "max_requests": "requests at once",
    "max_inflight_bytes": "bytes of request bodies at once",
}
_BACKLOG: Final = 1024  # connections that the system accepts before we do


def overloaded(limit: str, allowed: int) -> Fault:
    """Return why a request cannot be taken on now."""
    message = (
        f"the gateway is overloaded: it accepts {allowed} {_UNITS[limit]}; try again in a moment, "
        f"or raise the limit `server.{limit}` in its settings"
    )
    return Fault(
        FaultKind.OVERLOADED, message, status=STATUS, code=limit, retry_after=_RETRY_SECONDS
    )


def shutting_down() -> Fault:
    """Return why a request that has not begun is refused while the gateway drains."""
    message = "the gateway is shutting down; try another one"
    return Fault(
        FaultKind.OVERLOADED, message, status=STATUS, code=SHUTTING_DOWN, retry_after=_RETRY_SECONDS
    )


class OverloadedError(DragomanError):
    """A limit of the process is reached: a later attempt may be taken on."""

    http_status = STATUS

    def __init__(self, limit: str, allowed: int) -> None:
        self.fault: Fault = overloaded(limit, allowed)
        super().__init__(self.fault.message)


class InflightBytes:
    """The bytes of all request bodies in memory, unpacked."""

    __slots__ = ("total",)

    def __init__(self) -> None:
        self.total: int = 0


class HeldBytes:
    """What one request adds to them.  It must be released in the end; releasing twice is harmless."""

    __slots__ = ("_all", "_allowed", "_held")

    def __init__(self, everything: InflightBytes, allowed: int) -> None:
        self._all = everything
        self._allowed = allowed
        self._held = 0

    def add(self, size: int) -> None:
        """Count bytes that were read.

        Raises:
            OverloadedError: all requests together hold more than is allowed.
        """
        self._all.total += size
        self._held += size
        if self._all.total > self._allowed:
            raise OverloadedError("max_inflight_bytes", self._allowed)

    def release(self) -> None:
        """Stop counting the body, which was dropped from memory."""
        self._all.total -= self._held
        self._held = 0


class Descriptors(Struct, frozen=True):
    """How many connections fit into a number of file descriptors.

    A client's connection needs one, and a second one for the upstream that answers it.  The event loop
    accepts all connections in the backlog before one can be refused, and again while those close.
    """

    connections: int  # of clients that are answered
    surplus: int  # of clients that only get a 503
    backlog: int


def share_out(descriptors: int) -> Descriptors:
    """Return what a process with so many file descriptors can take on."""
    backlog = max(8, min(_BACKLOG, descriptors // 8))
    surplus = max(8, min(64, descriptors // 16))
    connections = (descriptors - _RESERVE - surplus - 2 * backlog) // 2
    return Descriptors(max(1, connections), surplus, backlog)
