"""The limits on continuing an answer that its upstream pauses.

Moonshot searches the web when the call of its search comes back, and Anthropic pauses long turns: a second request to
the same upstream continues the answer, and the client sees one.  `upstream_call.py` sends these requests; this module
decides when no more are sent.  An upstream that pauses for ever costs at most what the settings allow.
"""

from typing import Final

from msgspec import Struct

from dragoman.gateway.config.settings import Continuations
from dragoman.turn.answer import Answer
from dragoman.turn.events import BlockKind, Usage
from dragoman.turn.request import Request
from dragoman.turn.server_tools import ServerKind

_SEARCH: Final = ServerKind.WEB_SEARCH


class Paused(Struct, frozen=True):
    """The upstream paused its answer.

    Attributes:
        answer: What it sent for the last request.
        spent: The counts of all requests so far.
    """

    answer: Answer
    spent: Usage


class Bounds:
    """The bounds of one answer: requests, seconds and tokens of the settings, searches of the client's tool."""

    def __init__(self, settings: Continuations, request: Request, began: float) -> None:
        uses = [
            tool.server_options.max_uses
            for tool in request.tools
            if tool.does is _SEARCH and tool.server_options is not None
        ]
        self._settings = settings
        self._began = began
        self._max_uses = min((one for one in uses if one is not None), default=None)
        self._searches = 0
        self.requests: int = 0  # that continue the answer
        self.max_seconds: float = settings.max_seconds  # of all requests; 0: no limit

    def passed(self, paused: Paused, now: float) -> str:
        """Count a pause, and return the bound that the next request would pass; empty: there is none."""
        settings, spent = self._settings, paused.spent
        self._searches += _unanswered_searches(paused.answer)
        if self.requests >= settings.max_requests:
            return "max_requests"
        if settings.max_seconds and now - self._began >= settings.max_seconds:
            return "max_seconds"
        if settings.max_tokens and spent.prompt_tokens + spent.output_tokens >= settings.max_tokens:
            return "max_tokens"
        if self._max_uses is not None and self._searches > self._max_uses:
            return "max_uses"
        self.requests += 1
        return ""


def _unanswered_searches(answer: Answer) -> int:
    """Return how many searches of an answer run when they come back to the upstream."""
    results = {block.call_id for block in answer.blocks if block.kind is BlockKind.SERVER_RESULT}
    return sum(
        block.kind is BlockKind.SERVER_CALL
        and block.server is not None
        and block.server.does is _SEARCH
        and block.call_id not in results
        for block in answer.blocks
    )
