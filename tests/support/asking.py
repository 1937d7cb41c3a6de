"""Plain HTTP to a gateway, for what no SDK sends or shows."""

from typing import Any

import httpx2

from tests.support.gateway import PATHS, Stand
from tests.support.simulator import question, wire

# There is no TLS here; to load the system's authorities would cost more than all the rest.
_HOW: Any = {"timeout": 60, "verify": False}


def post(stand: Stand, dialect: str, body: Any = None, **more: Any) -> httpx2.Response:
    """Send a request; without a body, a small question to the model `plain`."""
    given = question(dialect, "chat/plain", stream=False) if body is None else body
    path = more.pop("path", "")
    if isinstance(given, dict) and not path:
        path, given = wire(dialect, given)
    sent = {"content": given} if isinstance(given, bytes) else {"json": given}
    path = path or PATHS.get(dialect, "/v1beta/models/chat/plain:generateContent")
    return httpx2.post(f"{stand.url}{path}", **_HOW, **sent, **more)


def get(stand: Stand, path: str, **more: Any) -> httpx2.Response:
    return httpx2.get(f"{stand.url}{path}", **_HOW, **more)
