"""All exchanges that can be looked at: the recordings of a folder, and those that a gateway keeps in memory.

Of a file only the first and the last line are read, and only once if it has an end.  Everything here is called in a
thread, under one lock.
"""

import base64
import bisect
import hashlib
import os
import re
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO, Final

import msgspec
from msgspec import Struct, structs

from dragoman.errors import DragomanError
from dragoman.globs import Glob
from dragoman.inspector.content import ContentSearch, Progress
from dragoman.inspector.summary import Problem, Row, Summary, of_recording, unfinished
from dragoman.recorder.lines import SUFFIX, VERSION, ExchangeOutcome, Opening

_FIRST_BYTES: Final = 256 * 1024  # of the first line: the headers of a request
_LAST_BYTES: Final = (8 * 1024, 1024 * 1024)  # looked at for the last line
_FRESH_SECONDS: Final = 1.0  # for which the folder is not looked at again
_ALIVE_SECONDS: Final = 120.0  # after the last byte of a recording without an end
_SAFE_ID: Final = re.compile(r"[A-Za-z0-9_.~-]{1,128}")
_SPAN: Final = re.compile(r"(\d{1,12}(?:\.\d{1,9})?)([smhd]?)")
_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_POINTS: Final = 40
_WINDOW_SECONDS: Final = 1800.0
_MOST_CHANGES: Final = 1000  # of files, between two looks at them
MOST_ROWS: Final = 1000  # in one answer
_MAX_VALUES: Final = 200  # of one facet
_NAME_FILTERS: Final = ("model", "route", "upstream", "family", "client")
FILTERS: Final = (*_NAME_FILTERS, "status", "problem", "text")


class BadQueryError(DragomanError):
    """A query that cannot be understood."""


class Filter(Struct, frozen=True):
    """Which exchanges are wanted: values of one field are alternatives, fields must all hold."""

    values: Mapping[str, tuple[str, ...]] = {}
    since: float | None = None
    until: float | None = None

    @classmethod
    def of(cls, query: Mapping[str, Sequence[str]], now: float) -> "Filter":
        """Return the filter that a URL's query asks for.

        Raises:
            BadQueryError: a time cannot be understood.
        """
        values = {name: tuple(filter(None, query.get(name, ()))) for name in FILTERS}
        return cls(
            {name: value for name, value in values.items() if value},
            _moment(query, "since", now),
            _moment(query, "until", now),
        )

    def without_text(self) -> "Filter":
        """Return the same filter for any text."""
        return structs.replace(
            self, values={name: value for name, value in self.values.items() if name != "text"}
        )

    def test(self, in_content: frozenset[str] = frozenset()) -> Callable[[Summary], bool]:
        """Return the filter as a function; `in_content` are the files whose content has the text."""
        tests = [_test(name, values, in_content) for name, values in self.values.items()]
        since, until = self.since, self.until

        def passes(one: Summary) -> bool:
            if since is not None and one.row.time < since:
                return False
            if until is not None and one.row.time > until:
                return False
            return all(test(one) for test in tests)

        return passes


def _moment(query: Mapping[str, Sequence[str]], name: str, now: float) -> float | None:
    text = next(iter(query.get(name, ())), "")
    if not text:
        return None
    found = _SPAN.fullmatch(text)
    if found is None:
        raise BadQueryError(f"`{name}` must be a span such as `30m`, or Unix seconds")
    number, unit = float(found[1]), found[2]
    return now - number * _SECONDS[unit] if unit else number


def _test(
    name: str, values: Sequence[str], in_content: frozenset[str]
) -> Callable[[Summary], bool]:
    if name == "text":
        words = [value.lower() for value in values]
        return lambda one: one.file in in_content or any(word in one.words for word in words)
    matches = _matcher(values)
    if name == "status":
        return lambda one: any(
            matches(text) for text in (one.row.level, str(one.row.status), one.row.ended) if text
        )
    if name == "problem":
        return lambda one: (
            any(matches(problem.kind) for problem in one.row.problems)
            or any(matches(code) for code in one.codes)
        )
    if name == "model":
        return lambda one: matches(one.row.model) or matches(one.row.asked)
    return lambda one: matches(getattr(one.row, name))


def _matcher(values: Sequence[str]) -> Callable[[str], bool]:
    """Return whether a name matches one of some globs; the same names come again and again."""
    globs = [Glob(value[:200]) for value in values[:50]]
    known: dict[str, bool] = {}

    def matches(name: str) -> bool:
        found = known.get(name)
        if found is None:
            found = known[name] = any(glob.matches(name) for glob in globs)
        return found

    return matches


class Page(Struct, frozen=True):
    """One page of the list."""

    total: int  # that the viewer may see
    matched: int
    rows: list[Row]
    cursor: str | None
    search: Progress | None = None  # of the content; the same question continues it
    behind: bool = False  # an exchange that the page knows is not in the index yet


class Now(Struct, frozen=True, kw_only=True):
    per_minute: float
    first_ms: float | None
    first_p95_ms: float | None
    failed: int
    of: int
    repaired: int
    calls: int
    cached_share: float | None


class Overview(Struct, frozen=True, kw_only=True, rename={"since": "from", "until": "to"}):
    """Numbers over time, for the sparklines."""

    since: float
    until: float
    points: int
    per_minute: list[float]
    first_ms: list[float | None]
    failed: list[int]
    repaired: list[int]
    cached_share: list[float | None]
    now: Now


class Value(Struct, frozen=True):
    value: str
    count: int


class Index:
    """The summaries of all exchanges, the oldest first."""

    def __init__(self, folder: Path | None, *, clock: Callable[[], float] = time.time) -> None:
        self.folder = folder
        self._clock = clock
        self._lock = threading.RLock()
        self._files: dict[str, Summary] = {}  # by name
        self._open: dict[str, tuple[int, float]] = {}  # recordings without an end: size and time
        self._not_ours: dict[str, tuple[int, float]] = {}  # files that are not recordings
        self._memory: dict[str, Summary] = {}  # that a gateway keeps, by id
        self._noted: Mapping[str, Problem] = {}  # problems that show beside other exchanges, by id
        self._sorted: list[Summary] | None = None
        self._by_id: dict[str, Summary] = {}
        self._changes: deque[Summary] = deque(maxlen=_MOST_CHANGES)
        self._content = ContentSearch()
        self._looked = 0.0
        self._folder_time = 0

    def now(self) -> float:
        """Return Unix seconds."""
        return self._clock()

    # --- the exchanges ---------------------------------------------------------------------------

    def look_at(self, folder: Path | None) -> None:
        """Show another folder from now on."""
        with self._lock:
            if folder == self.folder:
                return
            self.folder = folder
            self._files.clear()
            self._open.clear()
            self._not_ours.clear()
            self._noted = {}
            self._changes.clear()
            self._sorted = None
            self._looked = 0.0
            self._folder_time = 0
            self._content = ContentSearch()

    def put(self, summary: Summary, *, most: int) -> None:
        """Keep a summary in memory, at most so many."""
        with self._lock:
            memory = self._memory
            memory.pop(summary.row.id, None)
            memory[summary.row.id] = summary
            while len(memory) > most:
                del memory[next(iter(memory))]
            self._sorted = None

    def note(self, problems: Mapping[str, Problem]) -> None:
        """Add problems that show only beside other exchanges, by id, in the place of those noted before."""
        with self._lock:
            changed = self._noted.items() ^ problems.items()
            if changed:
                self._noted, self._sorted = problems, None
                self._summaries()
                ids = {exchange for exchange, _ in changed}
                self._changes.extend(self._by_id[one] for one in ids if one in self._by_id)

    def find(self, exchange: str) -> Summary | None:
        """Return an exchange by its id."""
        with self._lock:
            self._summaries()
            return self._by_id.get(exchange)

    def take_changes(self) -> list[Summary]:
        """Return the exchanges whose files are new or have grown since this was last asked."""
        with self._lock:
            ids = {one.file: one for one in self._summaries() if one.file}
            changed = [ids[one.file] for one in self._changes if one.file in ids]
            self._changes.clear()
            return changed

    def summaries(self) -> list[Summary]:
        """Return all, the oldest first."""
        with self._lock:
            return list(self._summaries())

    def _summaries(self) -> list[Summary]:
        self._refresh()
        if self._sorted is None:
            found: dict[str, Summary] = {}
            for one in self._files.values():
                exchange = one.row.id
                if exchange in found:  # a copy of a file
                    exchange = f"{exchange}~{_digest(one.file)}"
                    one = structs.replace(one, row=structs.replace(one.row, id=exchange))  # noqa: PLW2901
                found[exchange] = one
            for exchange, kept in self._memory.items():
                recorded = found.get(exchange)
                found[exchange] = kept if recorded is None else _newer(recorded, kept)
            for exchange, problem in self._noted.items():
                if exchange in found:
                    found[exchange] = _with_problem(found[exchange], problem)
            self._by_id = found
            self._sorted = sorted(found.values(), key=_key)
        return self._sorted

    def _refresh(self) -> None:
        """Look for new, grown and deleted files, unless that was done just now."""
        now = time.monotonic()
        if self.folder is None or (self._looked and now - self._looked < _FRESH_SECONDS):
            return
        try:
            changed = self.folder.stat().st_mtime_ns
        except OSError:
            changed = -1
        if changed != self._folder_time or self._open:
            self._scan(self.folder)
            # A file that was made in the same tick of the clock would not change the folder's time again.
            stable = self._clock() - changed / 1e9 > _FRESH_SECONDS
            self._folder_time = changed if stable else 0
        self._looked = time.monotonic()

    def _scan(self, folder: Path) -> None:
        try:
            with os.scandir(folder) as entries:
                names = {one.name for one in entries if one.name.endswith(SUFFIX)}
        except OSError:
            names = set()
        for gone in self._files.keys() - names:
            del self._files[gone]
            self._open.pop(gone, None)
            self._sorted = None
        for name in names:
            if name not in self._files or name in self._open:
                self._look(folder / name)

    def _look(self, path: Path) -> None:
        """Read the summary of a file that is new or may have grown."""
        name = path.name
        try:
            with path.open("rb") as file:
                facts = os.fstat(file.fileno())
                state = facts.st_size, facts.st_mtime
                if self._not_ours.get(name) == state:
                    return
                alive = self._clock() - facts.st_mtime < _ALIVE_SECONDS
                if self._open.get(name) == state and (
                    alive == (self._files[name].row.state == "streaming")
                ):
                    return
                found, ended = _read_summary(file, name, facts.st_size, running=alive)
        except OSError:
            return  # deleted just now
        if found is None:
            self._not_ours[name] = state
            return
        self._sorted = None
        self._files[name] = found
        if self._looked:  # not of the first look, which finds everything
            self._changes.append(found)
        if ended:
            self._open.pop(name, None)
        else:
            self._open[name] = state

    # --- queries ---------------------------------------------------------------------------------

    def page(  # noqa: PLR0913 -- the query of a list
        self,
        wanted: Filter,
        *,
        may_see: Callable[[Summary], bool],
        cursor: str = "",
        skip: int = 0,
        limit: int = 200,
        newest: str = "",
    ) -> Page:
        """Return the newest exchanges that match, from a cursor on, without the first `skip` of them.

        `newest` is the id of an exchange that the page knows, by an event of another process that saw it first.

        Raises:
            BadQueryError: the cursor is not one of ours.
        """
        visible = [one for one in self.summaries() if may_see(one)]
        search, words = None, wanted.values.get("text", ())
        if words and self.folder is not None:
            candidates = wanted.without_text().test()
            searched = [one for one in reversed(visible) if candidates(one)]
            search = self._content.search(self.folder, words, searched)
        matched = list(filter(self._test(wanted), visible))
        end = bisect.bisect_left(matched, _place(cursor), key=_key) if cursor else len(matched)
        end = max(0, end - skip)
        start = max(0, end - max(1, min(limit, MOST_ROWS)))
        rows = [one.row for one in reversed(matched[start:end])]
        after = _cursor(matched[start]) if start else None
        behind = newest != "" and all(one.row.id != newest for one in reversed(visible))
        return Page(len(visible), len(matched), rows, after, search, behind)

    def files(self, wanted: Filter, *, may_see: Callable[[Summary], bool]) -> list[str]:
        """Return the recordings of all exchanges that match, the newest first."""
        passes = self._test(wanted)
        return [
            one.file
            for one in reversed(self.summaries())
            if one.file and may_see(one) and passes(one)
        ]

    def _test(self, wanted: Filter) -> Callable[[Summary], bool]:
        return wanted.test(self._content.found(wanted.values.get("text", ())))

    def overview(self, wanted: Filter, *, may_see: Callable[[Summary], bool]) -> Overview:
        """Return the numbers of a span of time: the filter's, else the last half hour with exchanges."""
        passes = self._test(wanted)
        found = [one.row for one in self.summaries() if may_see(one) and passes(one)]
        now = self._clock()
        newest = found[-1].time if found else now
        until = wanted.until or (now if now - newest < _WINDOW_SECONDS else newest)
        since = until - _WINDOW_SECONDS if wanted.since is None else wanted.since
        return _overview([one for one in found if since <= one.time <= until], since, until)

    def facets(self, *, may_see: Callable[[Summary], bool]) -> dict[str, list[Value]]:
        """Return the values that filters may have, the most frequent first."""
        counts: dict[str, Counter[str]] = {name: Counter() for name in FILTERS if name != "text"}
        for one in self.summaries():
            if not may_see(one):
                continue
            row = one.row
            for name in _NAME_FILTERS:
                counts[name][getattr(row, name)] += 1
            counts["status"].update((row.level, *((str(row.status),) if row.status else ())))
            counts["problem"].update({*(problem.kind for problem in row.problems), *one.codes})
        return {
            name: [Value(value, count) for value, count in found.most_common(_MAX_VALUES) if value]
            for name, found in counts.items()
        }


def _newer(recorded: Summary, kept: Summary) -> Summary:
    """Return what is known about an exchange that is recorded and in memory: a recording without an end knows less."""
    if recorded.row.state == "done" and not any(
        problem.kind == "incomplete" for problem in recorded.row.problems
    ):
        return structs.replace(recorded, owner=kept.owner or recorded.owner)
    row = structs.replace(kept.row, recorded=True)
    return structs.replace(kept, row=row, file=recorded.file)


def _with_problem(one: Summary, problem: Problem) -> Summary:
    level = "warn" if one.row.level == "ok" else one.row.level
    row = structs.replace(one.row, problems=(*one.row.problems, problem), level=level)
    return structs.replace(one, row=row)


def _key(one: Summary) -> tuple[float, str]:
    return one.row.time, one.row.id


def _cursor(one: Summary) -> str:
    return base64.urlsafe_b64encode(msgspec.json.encode(_key(one))).decode().rstrip("=")


def _place(cursor: str) -> tuple[float, str]:
    try:
        data = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        return msgspec.json.decode(data, type=tuple[float, str])
    except (ValueError, msgspec.DecodeError):
        raise BadQueryError("`cursor` is not one of this server's") from None


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogateescape"), digest_size=6).hexdigest()


# --- one file ------------------------------------------------------------------------------------


class _Version(Struct):
    line: str = ""
    version: int = 0
    id: str = ""
    time: float = 0.0


def _read_summary(
    file: BinaryIO, name: str, size: int, *, running: bool
) -> tuple[Summary | None, bool]:
    """Return the summary of a file, and whether it can change no more; None: it is not a recording."""
    first, whole, _ = file.read(_FIRST_BYTES).partition(b"\n")
    if not whole:
        return None, False
    try:
        opening = msgspec.json.decode(first, type=Opening)
    except msgspec.DecodeError:
        return _unreadable(first, name), True
    if opening.version > VERSION:
        return _unreadable(first, name), True
    if not _SAFE_ID.fullmatch(opening.id):
        opening = structs.replace(opening, id=f"file_{_digest(name)}")
    outcome = last_line(file, size)
    if outcome is None:
        return unfinished(opening, file=name, running=running), False
    return of_recording(opening, outcome.record, outcome.stalls, name), True


def last_line(file: BinaryIO, size: int) -> ExchangeOutcome | None:
    """Return the last line of a recording that has come to its end."""
    for most in _LAST_BYTES:
        start = max(0, size - most)
        file.seek(start)
        data = file.read(size - start)
        if not data.endswith(b"\n"):
            return None
        begin = data.rfind(b"\n", 0, -1)
        if begin < 0 and start:
            continue
        try:
            return msgspec.json.decode(data[begin + 1 :], type=ExchangeOutcome)
        except msgspec.DecodeError:
            return None
    return None


def _unreadable(first: bytes, name: str) -> Summary | None:
    """Return a row for a recording of a newer version."""
    try:
        found = msgspec.json.decode(first, type=_Version)
    except msgspec.DecodeError:
        return None
    if found.line != "recording" or found.version <= VERSION:
        return None
    why = (
        "This recording is from a newer version."
        f" It has format {found.version}; this program reads up to {VERSION}."
    )
    exchange = found.id if _SAFE_ID.fullmatch(found.id) else f"file_{_digest(name)}"
    row = Row(
        id=exchange,
        time=found.time,
        level="warn",
        problems=(Problem("unreadable", f"format {found.version}", "warn"),),
    )
    return Summary(row=row, file=name, words=exchange.lower(), unreadable=why)


# --- numbers over time ---------------------------------------------------------------------------


def _overview(rows: Sequence[Row], since: float, until: float) -> Overview:
    step = max((until - since) / _POINTS, 1e-3)
    buckets: list[list[Row]] = [[] for _ in range(_POINTS)]
    for row in rows:
        buckets[min(_POINTS - 1, int((row.time - since) / step))].append(row)
    minutes = max((until - since) / 60, 1e-3)
    return Overview(
        since=since,
        until=until,
        points=_POINTS,
        per_minute=[round(len(one) * 60 / step, 2) for one in buckets],
        first_ms=[_percentile(_firsts(one), 0.5) for one in buckets],
        failed=[_failed(one) for one in buckets],
        repaired=[_repaired(one) for one in buckets],
        cached_share=[_cached(one) for one in buckets],
        now=Now(
            per_minute=round(len(rows) / minutes, 1),
            first_ms=_percentile(_firsts(rows), 0.5),
            first_p95_ms=_percentile(_firsts(rows), 0.95),
            failed=_failed(rows),
            of=len(rows),
            repaired=_repaired(rows),
            calls=sum(row.calls for row in rows),
            cached_share=_cached(rows),
        ),
    )


def _firsts(rows: Iterable[Row]) -> list[float]:
    return [row.first_ms for row in rows if row.first_ms is not None]


def _percentile(values: list[float], share: float) -> float | None:
    if not values:
        return None
    return sorted(values)[min(len(values) - 1, int(len(values) * share))]


def _failed(rows: Iterable[Row]) -> int:
    return sum(row.level == "failed" for row in rows)


def _repaired(rows: Iterable[Row]) -> int:
    """Count repaired calls: the number in the chip."""
    return sum(
        int(problem.label.rpartition(" ")[2])
        for row in rows
        for problem in row.problems
        if problem.kind == "repaired"
    )


def _cached(rows: Iterable[Row]) -> float | None:
    known = [row for row in rows if row.tokens_in]
    total = sum(row.tokens_in or 0 for row in known)
    return round(sum(row.tokens_cached for row in known) / total, 4) if total else None
