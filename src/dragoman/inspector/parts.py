"""The view of a recording in parts: everything but rows at once, and rows as compressed pages.

Taking a large recording apart takes seconds, so `python -m dragoman.inspector.parts` does it: a separate process,
which answers one question.  A thread would hold up the streams of the gateway, above all when garbage is collected.
"""

import gc
import os
import sys
import zlib
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from dragoman.inspector.exchange import PAGE_ROWS, view
from dragoman.inspector.recordings import SIDES, GoneError, load, side_bytes
from dragoman.inspector.summary import Summary
from dragoman.recorder.recording import RecordingError

COLUMNS: Final = ("upstream", "meaning", "client")
_NICE: Final = 10  # the streams of a gateway come first


class Prepared(Struct, frozen=True, tag=True):
    """A view, ready to be sent in parts."""

    head: bytes  # JSON: everything but rows behind the first page
    pages: dict[str, list[bytes]]  # of each column, compressed
    sides: dict[str, bytes]  # the recorded bytes
    more: bool  # this is the first part of a large recording

    @property
    def size(self) -> int:
        """How many bytes it takes."""
        pages = sum(len(page) for column in self.pages.values() for page in column)
        return len(self.head) + pages + sum(map(len, self.sides.values()))

    def rows(self, column: str, start: int) -> bytes:
        """Return the JSON of the page that contains the row with the number `start`."""
        pages = self.pages[column]
        number = start // PAGE_ROWS
        return zlib.decompress(pages[number]) if number < len(pages) else b"[]"


class Question(Struct, frozen=True):
    """The recording whose view another process is to prepare."""

    path: str
    found: Summary
    address: str


class Gone(Struct, frozen=True, tag=True):
    message: str


class Unreadable(Struct, frozen=True, tag=True):
    message: str


PrepareResult: TypeAlias = Prepared | Gone | Unreadable


def prepare(path: Path, found: Summary, *, address: str, first: bool = False) -> Prepared:
    """Prepare the view of a recording, with `first` only of the first part of a large one.

    Raises:
        GoneError: the file was deleted.
        RecordingError: it is not a recording, or of a newer version.
    """
    loaded = load(path, first=first)
    made = view(found, loaded, address=address)
    pages = {
        column: [
            zlib.compress(msgspec.json.encode(rows[start : start + PAGE_ROWS]), 1)
            for start in range(0, len(rows), PAGE_ROWS)
        ]
        for column, rows in made.rows.items()
    }
    sides = {side: side_bytes(loaded.recording, side) for side in SIDES}
    return Prepared(msgspec.json.encode(made.shown), pages, sides, loaded.more)


def main() -> None:
    """Answer the question on the standard input."""
    os.nice(_NICE)
    gc.disable()  # this process ends with its answer
    question = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=Question)
    answer: PrepareResult
    try:
        answer = prepare(Path(question.path), question.found, address=question.address)
    except GoneError as error:
        answer = Gone(str(error))
    except RecordingError as error:
        answer = Unreadable(str(error))
    sys.stdout.buffer.write(msgspec.msgpack.encode(answer))


if __name__ == "__main__":
    main()
