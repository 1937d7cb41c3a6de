"""What went wrong in an exchange, in words, with the consequence and a link to the docs."""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata
from typing import Final, Literal

from msgspec import Struct

from dragoman.inspector.calls import REPAIRS, Call
from dragoman.inspector.summary import CLIENT_LEFT, LogRecord, Row
from dragoman.turn.events import TRUNCATED
from dragoman.turn.losses import CODES

_STATUS: Final = re.compile(r"\b[45]\d\d\b")
_TEXT_CHARS: Final = 1000
# Losses that change what the client does, beside those of calls.
_SERIOUS: Final = frozenset(
    {
        "native_call_invalid", "native_closer_missing", "held_content_lost", "chunk_malformed",
        "late_delta_dropped", "content_after_finish", "call_cut", "args_missing", "args_invalid",
        "args_not_object", "tool_loop", "opaque_invalid", "thinking_disabled_missing_blocks",
    }
)  # fmt: skip


class Warned(Struct, frozen=True, kw_only=True):
    """One warning."""

    code: str
    title: str
    text: str = ""
    path: str = ""
    level: Literal["warn", "error", "plain"] = "warn"
    doc: str = ""


@cache
def _docs() -> str:
    """Return the address of the folder of the docs; empty: the package is not installed."""
    try:
        found = metadata("dragoman").get_all("Project-URL") or []
    except PackageNotFoundError:
        return ""
    pages = (one.partition(", ")[2] for one in found if one.startswith("Documentation,"))
    return next(pages, "").rpartition("/")[0]


def doc(page: str) -> str:
    """Return the address of a page of the docs."""
    return f"{_docs()}/{page}" if _docs() else ""


def find_warnings(
    row: Row, record: LogRecord, calls: Sequence[Call], *, max_output: int | None
) -> list[Warned]:
    """Return the warnings of an exchange, the worst first."""
    found = [*_failure(record), *_truncated(row, calls, max_output), *_native(record)]
    found += [*_stalls(row), *_fallback(row, record), *_losses(record)]
    order = {"error": 0, "warn": 1, "plain": 2}
    return sorted(found, key=lambda one: order[one.level])


def _failure(record: LogRecord) -> Iterator[Warned]:
    if record.error_code == TRUNCATED:
        yield Warned(
            code=TRUNCATED,
            title="The upstream's answer was cut off.",
            text=f"{record.reason[:_TEXT_CHARS]}. The client got an error, so that it does not take"
            " the answer as complete.",
            level="error",
            doc=doc("troubleshooting.md#when-a-stream-fails-in-the-middle"),
        )
    elif record.error or record.status >= 400:
        yield Warned(
            code=record.error_code or record.error or str(record.status),
            title=f"The exchange failed with {record.status}."
            if record.status >= 400
            else "The answer failed.",
            text=record.reason[:_TEXT_CHARS],
            level="error",
            doc=doc("troubleshooting.md#requests-fail"),
        )
    if record.ended == CLIENT_LEFT:
        yield Warned(
            code=CLIENT_LEFT,
            title="The client left before the end.",
            text="It closed the connection, and the gateway ended the upstream's answer.",
            level="plain",
        )


def _truncated(row: Row, calls: Sequence[Call], max_output: int | None) -> Iterator[Warned]:
    cut = [call for call in calls if call.state == "truncated"]
    limit = f"The output limit of {max_output:,} tokens" if max_output else "The output limit"
    if cut:
        names = ", ".join(f"`{call.name}`" for call in cut)
        yield Warned(
            code="truncated",
            title=f"{limit} cut the arguments.",
            text=f"The client sees `{row.ended}` and must not run {names}.",
            doc=doc("native-formats.md"),
        )
    elif any(one.kind == "truncated" for one in row.problems):
        yield Warned(
            code="truncated",
            title=f"{limit} cut the answer.",
            text=f"The client sees `{row.ended}`.",
        )


def _native(record: LogRecord) -> Iterator[Warned]:
    for one in record.native_found:
        if not one.calls:
            continue
        where = "reasoning" if one.channel == "reasoning" else "text"
        what = "Tool call" if one.calls == 1 else f"{one.calls} tool calls"
        yield Warned(
            code="native-call-repaired",
            title=f"{what} found in {where}.",
            text=f"The upstream left {'a call' if one.calls == 1 else 'calls'} of the family"
            f" `{one.family}` in its {where}. Dragoman turned {'it' if one.calls == 1 else 'them'}"
            " into structured calls.",
            doc=doc("native-formats.md"),
        )


def _stalls(row: Row) -> Iterator[Warned]:
    for start, end in row.stalls:
        yield Warned(
            code="stream-stalled",
            title=f"The stream stalled for {(end - start) / 1000:.1f} s.",
            text=f"No bytes between {start / 1000:.2f} s and {end / 1000:.2f} s."
            " `timeouts.idle` of the upstream ends a stream that is silent for longer than that setting.",
            doc=doc("troubleshooting.md#responses-are-wrong"),
        )


def _fallback(row: Row, record: LogRecord) -> Iterator[Warned]:
    for failure in record.failures:
        target, _, reason = failure.partition(": ")
        upstream = target.partition("/")[0]
        status = _STATUS.search(reason.partition(":")[0])
        after = f" after {status[0]}" if status else ""
        same = upstream == row.upstream
        title = "Retry" if same else "Fallback"
        if record.error or record.status >= 400:
            title = "Attempt failed"
            answered = cache_text = ""
        else:
            answered = f" {row.upstream} answered."
            cache_text = "" if same else f" The prompt cache of {upstream} was not used."
        yield Warned(
            code="fallback",
            title=f"{title}{after}.",
            text=f"{upstream}: {reason[:_TEXT_CHARS]}.{answered}{cache_text}",
            level="warn",
            doc=doc("upstreams.md"),
        )


def _losses(record: LogRecord) -> Iterator[Warned]:
    for loss in record.losses:
        head, _, detail = loss.partition(": ")
        code, _, path = head.partition(" at ")
        meaning = CODES.get(code, "")
        text = f"{meaning[:1].upper()}{meaning[1:]}." if meaning else ""
        if detail:
            text = f"{text} {detail[:_TEXT_CHARS]}".strip()
        what = "Repaired" if code in REPAIRS else "Loss"
        yield Warned(
            code=code,
            title=f"{what}: `{code}`.",
            text=text,
            path=path,
            level="warn" if code in _SERIOUS or code in REPAIRS else "plain",
            doc=doc("library.md#losses"),
        )
