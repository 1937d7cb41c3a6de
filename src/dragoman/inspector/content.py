"""Searches the content of recordings: requests, and what models answered.

A search reads the newest recordings first, for at most `_SECONDS` and `_MOST_BYTES`; the same question asked again
continues where it ended, so a page shows what was found so far and how far the search has come.  Text that was cut
into deltas is found as one.
"""

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import Struct

from dragoman.inspector.summary import Summary
from dragoman.recorder.lines import Attempt, Failed, Payload, Received
from dragoman.wire.json_values import decode_any

_SECONDS: Final = 0.5  # of one answer
_MOST_BYTES: Final = 64 * 1024 * 1024  # that one answer reads
_FILE_BYTES: Final = 8 * 1024 * 1024  # of one recording that are searched
_MOST_SEARCHES: Final = 8  # that are remembered
_LEAST_CHARS: Final = 2  # of a word: one letter is in every recording
_DEPTH: Final = 64
_KIND: Final = re.compile(rb'\{\s*"line"\s*:\s*"(\w+)"')


class _Delta(Struct):
    event: str
    index: int = 0
    text: str = ""
    json: str = ""
    name: str = ""
    message: str = ""


class _Events(Struct):
    events: list[_Delta]


class _Bytes(Struct):
    data: Payload = Payload()


class Progress(Struct, frozen=True):
    """How far a search has come."""

    searched: int  # recordings, of those that a viewer may see
    of: int


class _Search(Struct):
    found: set[str] = set()  # files that have one of the words
    sizes: dict[str, int] = {}  # files that were searched, with their size then


class ContentSearch:
    """The searches of a folder; called in threads."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._searches: dict[tuple[str, ...], _Search] = {}

    def found(self, words: Sequence[str]) -> frozenset[str]:
        """Return the files that a search has found so far."""
        search = self._searches.get(_key(words))
        return frozenset() if search is None else frozenset(search.found)

    def search(self, folder: Path, words: Sequence[str], newest: Sequence[Summary]) -> Progress:
        """Search recordings, the newest first, until the work of one answer is done."""
        key = _key(words)
        files = [one.file for one in newest if one.file and not one.unreadable]
        if not key:
            return Progress(len(files), len(files))
        with self._lock:
            search = self._searches.pop(key, None) or _Search()
            self._searches[key] = search
            while len(self._searches) > _MOST_SEARCHES:
                del self._searches[next(iter(self._searches))]
            until, left, searched = self._clock() + _SECONDS, _MOST_BYTES, 0
            for file in files:
                read = _look(search, folder / file, key)
                left -= read
                searched += 1
                if left <= 0 or (read and self._clock() > until):
                    break
            return Progress(searched, len(files))


def _key(words: Sequence[str]) -> tuple[str, ...]:
    return tuple(sorted({word.lower() for word in words if len(word) >= _LEAST_CHARS}))


def _look(search: _Search, path: Path, words: tuple[str, ...]) -> int:
    """Search one recording, unless that was done; return how many bytes were read."""
    name = path.name
    try:
        size = path.stat().st_size
        if search.sizes.get(name) == size:
            return 0
        with path.open("rb") as file:
            data = file.read(_FILE_BYTES)
    except OSError:
        size, data = 0, b""  # deleted just now
    search.sizes[name] = size
    if any(word in content_text(data) for word in words):
        search.found.add(name)
    return len(data)


def content_text(data: bytes) -> str:
    """Return all text of a recording in lower case: of requests, answers and failures."""
    texts: list[str] = []
    deltas: list[_Delta] = []
    for line in data.split(b"\n"):
        try:
            texts += _line_texts(line, deltas)
        except (msgspec.DecodeError, RecursionError, UnicodeError):
            continue  # not ours, or cut
    if not deltas:
        texts += _raw_texts(data)
    return "\n".join((*texts, *_joined(deltas))).lower()


def _line_texts(line: bytes, deltas: list[_Delta]) -> Iterator[str]:
    found = _KIND.match(line)
    kind = found[1] if found else b""
    if kind == b"events":
        deltas += msgspec.json.decode(line, type=_Events).events
    elif kind == b"received":
        yield from _strings_of(msgspec.json.decode(line, type=Received).body.data)
    elif kind == b"attempt":
        attempt = msgspec.json.decode(line, type=Attempt)
        yield from (attempt.url, attempt.model)
    elif kind == b"failed":
        yield msgspec.json.decode(line, type=Failed).fault.message


def _raw_texts(data: bytes) -> Iterator[str]:
    """Yield what an upstream sent that was not translated: the body of an error."""
    for line in data.split(b"\n"):
        if (found := _KIND.match(line)) and found[1] == b"read":
            yield msgspec.json.decode(line, type=_Bytes).data.data.decode("utf-8", "replace")


def _joined(deltas: Iterable[_Delta]) -> Iterator[str]:
    """Yield the texts of blocks."""
    texts: dict[tuple[str, int], list[str]] = {}
    for one in deltas:
        if one.text or one.json:
            texts.setdefault((one.event, one.index), []).append(one.text or one.json)
        elif one.name or one.message:
            texts.setdefault((one.event, -1), []).append(f"{one.name}{one.message}\n")
    yield from map("".join, texts.values())


def _strings_of(body: bytes) -> Iterator[str]:
    try:
        yield from _strings(decode_any(body), _DEPTH)
    except (msgspec.DecodeError, UnicodeError):
        yield body.decode("utf-8", "replace")


def _strings(value: Any, depth: int) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif depth and isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            yield from _strings(inner, depth - 1)
    elif depth and isinstance(value, list):
        for inner in value:
            yield from _strings(inner, depth - 1)
