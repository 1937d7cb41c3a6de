"""Wait for something to be so, and no longer."""

import json
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
    """Return the line of a request in the log, which is written once its answer has left."""

    def look() -> dict[str, Any] | None:
        lines = [json.loads(line) for line in stand.log.getvalue().splitlines()]
        found = (one for one in lines if one["event"] == "request" and one["id"] == request_id)
        return next(found, None)

    return until(look)
