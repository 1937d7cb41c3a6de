"""Wait for something to be so, and no longer."""

import time
from collections.abc import Callable
from typing import Any, TypeVar

from tests.support.gateway import Stand

T = TypeVar("T")
_PAUSE = 0.005


def until(look: Callable[[], T], seconds: float = 60.0) -> T:
    """Return what `look` finds as soon as it finds something."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(_PAUSE)
    return found


def logged(stand: Stand, request_id: str) -> dict[str, Any]:
    """Wait for the log line of one request, which is written after its response was sent."""
    return logged_with(stand, id=request_id)


def logged_with(stand: Stand, **facts: Any) -> dict[str, Any]:
    """Wait for the log line of the one request with these facts.

    Use it for a client that left before it knew its request's id.  A gateway that several tests share may
    log requests of an earlier test late, so the facts must belong to one request: such as its own model.
    """

    def look() -> list[dict[str, Any]]:
        requests = (line for line in stand.lines if line["event"] == "request")
        return [line for line in requests if facts.items() <= line.items()]

    (line,) = until(look)
    return line


def notices(stand: Stand, event: str, **facts: Any) -> list[dict[str, Any]]:
    """Wait for lines of the log under a name, with these facts, and return them."""

    def look() -> list[dict[str, Any]]:
        return [
            line for line in stand.lines if line["event"] == event and facts.items() <= line.items()
        ]

    return until(look)
