"""Problems of an exchange in words: the worst first."""

from typing import Any

from msgspec import structs

from dragoman.inspector.summary import LogRecord, Row, summarize
from dragoman.inspector.warnings import find_warnings
from dragoman.toolcalls.findings import NativeSummary
from dragoman.turn.events import TRUNCATED

PLAIN = LogRecord(id="a", status=200, ended="end_turn")


def titles(row: Row | None = None, **record: Any) -> list[tuple[str, str]]:
    found = structs.replace(PLAIN, **record)
    row = row or summarize(found, client="").row
    return [(one.level, one.title) for one in find_warnings(row, found, (), max_output=100)]


def test_an_exchange_without_problems_has_no_warnings() -> None:
    assert [] == titles()


def test_a_failure_is_an_error_with_its_status_or_its_end() -> None:
    assert [("error", "The exchange failed with 502.")] == titles(status=502, error="upstream")
    assert [("error", "The upstream's answer was cut off.")] == titles(
        error="upstream", error_code=TRUNCATED, reason="it ended in the middle"
    )


def test_the_worst_is_first() -> None:
    found = titles(
        status=500,
        error="upstream",
        native_found=(NativeSummary("kimi_k2", "reasoning", 2),),
    )

    assert [
        ("error", "The exchange failed with 500."),
        ("warn", "2 tool calls found in reasoning."),
    ] == found


def test_a_stall_has_its_seconds() -> None:
    row = structs.replace(summarize(PLAIN, client="").row, stalls=((500.0, 3000.0),))

    assert [("warn", "The stream stalled for 2.5 s.")] == titles(row)
    (warned,) = find_warnings(row, PLAIN, (), max_output=100)
    assert "between 0.50 s and 3.00 s" in warned.text
    assert "`timeouts.idle`" in warned.text
