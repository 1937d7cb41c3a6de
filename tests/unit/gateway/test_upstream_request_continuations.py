"""When a paused answer is continued no further."""

from typing import Any

import pytest

from dragoman.gateway.config.settings import Continuations
from dragoman.gateway.upstream_request import ContinuationBounds, Paused
from dragoman.turn.answer import Answer, Block
from dragoman.turn.events import BlockKind, Finish, FinishReason, Start, Usage
from dragoman.turn.request import Request, Tool
from dragoman.turn.server_tools import ServerCall, ServerKind, ServerOptions, ServerResult

SEARCH = ServerKind.WEB_SEARCH


def pause(searches: int = 1, *, found: int = 0, does: ServerKind = SEARCH, **usage: int) -> Paused:
    calls = [
        Block(BlockKind.SERVER_CALL, call_id=str(number), server=ServerCall(does))
        for number in range(searches)
    ]
    results = [
        Block(BlockKind.SERVER_RESULT, call_id=str(number), server=ServerResult(does))
        for number in range(found)
    ]
    return Paused(Answer(Start(), (*calls, *results)), Usage(**usage))


def bounds(*uses: int | None, **settings: Any) -> ContinuationBounds:
    tools = [
        Tool(name="s", server=True, does=SEARCH, server_options=ServerOptions(max_uses=one))
        for one in uses
    ]
    request = Request(dialect="anthropic", model="m", tools=tuple(tools))
    return ContinuationBounds(Continuations(**settings), request, began=100.0)


def allowed(one: ContinuationBounds, paused: Paused, now: float = 100.0) -> tuple[int, str]:
    """Return how many requests are sent before which bound."""
    for number in range(1_000):
        passed = one.passed(paused, now)
        if passed:
            assert number == one.requests
            return number, passed
    return 1_000, ""


def test_requests_are_counted() -> None:
    assert (8, "max_requests") == allowed(bounds(), pause())
    assert (2, "max_requests") == allowed(bounds(max_requests=2), pause())


def test_an_answer_that_goes_on_with_tokens_has_five_requests_at_most() -> None:
    ended = Finish(FinishReason.PAUSE, token="dG9rZW4=")
    paused = Paused(Answer(Start(), finish=ended), Usage())

    assert (5, "max_requests") == allowed(bounds(), paused)
    assert (2, "max_requests") == allowed(bounds(max_requests=2), paused)


def test_time_runs_from_the_beginning_of_the_answer() -> None:
    assert (0, "max_seconds") == allowed(bounds(max_seconds=9.0), pause(), now=109.0)
    assert (8, "max_requests") == allowed(bounds(max_seconds=9.0), pause(), now=108.9)
    assert (8, "max_requests") == allowed(bounds(max_seconds=0.0), pause(), now=1e9)


def test_all_tokens_count_cached_ones_too() -> None:
    spent = pause(input_tokens=40, cache_read_tokens=50, output_tokens=10)

    assert (0, "max_tokens") == allowed(bounds(max_tokens=100), spent)
    assert (8, "max_requests") == allowed(bounds(max_tokens=101), spent)
    assert (8, "max_requests") == allowed(bounds(max_tokens=0), spent)


@pytest.mark.parametrize(
    ("uses", "paused", "expected"),
    [
        ((3,), pause(1), (3, "max_uses")),
        ((3,), pause(2), (1, "max_uses")),
        ((3, 2), pause(1), (2, "max_uses")),
        ((None,), pause(1), (8, "max_requests")),
        # Searches with a result have run: the vendor counts those itself.
        ((3,), pause(2, found=2), (8, "max_requests")),
        ((3,), pause(2, does=ServerKind.CODE), (8, "max_requests")),
    ],
)
def test_the_client_may_limit_searches_that_run_when_they_come_back(
    uses: tuple[int | None, ...], paused: Paused, expected: tuple[int, str]
) -> None:
    assert expected == allowed(bounds(*uses), paused)
