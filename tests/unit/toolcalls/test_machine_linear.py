"""What hostile text costs: twice the text, twice the work, in every family and however it is cut.

Work is counted, not timed: the characters that scanners look at.
"""

from collections.abc import Callable
from typing import Any

import pytest

from dragoman.toolcalls import grammar
from dragoman.toolcalls.bodies.json_objects import MAX_HEADER_CHARS
from dragoman.toolcalls.format import Format
from dragoman.toolcalls.format_samples import hostile
from dragoman.toolcalls.formats import AUTO, FORMATS
from dragoman.toolcalls.parser import ToolCallParser
from dragoman.toolcalls.scanner import FoundMarker, Scanner
from dragoman.wire.json_scanner import JsonScanner
from tests.support.held import scanners
from tests.support.quick import thinned
from tests.support.tables import in_one_test

ALL = [*FORMATS.values(), AUTO]
each_family = pytest.mark.parametrize("form", ALL, ids=lambda form: form.key)
SIZE = 800
PIECE = 4096  # what the machine takes of a text at once
# How often a character may be looked at, besides once with every piece that comes while it is held.
LOOKS = 12
# From one place, a character may be looked at as often as the longest run has lengths.
WAYS = 256


_begins = Scanner.begins


def looked_at(scanner: Scanner, text: str, at: int) -> int:
    """Return how far a text looks like a marker from one place on."""
    least, most = 0, min(len(text) - at, scanner.reach)
    while least < most:
        middle = (least + most + 1) // 2
        if _begins(scanner, text[at : at + middle]):
            least = middle
        else:
            most = middle - 1
    return least


class Meter:
    """Counts the characters that scanners look at."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.work = 0
        for name in ("scan", "scan_at", "begins", "find_last"):
            monkeypatch.setattr(Scanner, name, self._counted(getattr(Scanner, name)))
        monkeypatch.setattr(JsonScanner, "feed", self._fed(JsonScanner.feed))

    def _counted(self, method: Callable[..., Any]) -> Callable[..., Any]:
        searches = method.__name__ in ("scan", "find_last")

        def counted(scanner: Scanner, text: str, at: int = 0) -> object:
            found = method(scanner, text, at)
            if isinstance(found, FoundMarker):
                self.work += 1 + found.end - at  # what was found ends the look
            else:
                self.work += 1 + (len(text) - at if searches else looked_at(scanner, text, at))
            return found

        return counted

    def _fed(self, method: Callable[..., int]) -> Callable[..., int]:
        def fed(scanner: JsonScanner, text: str, /) -> int:
            taken = method(scanner, text)
            self.work += 1 + taken
            return taken

        return fed

    def measure(self, form: Format, text: str, size: int) -> int:
        """Return the work of a text in pieces of some size."""
        self.work = 0
        parser = ToolCallParser(format=form, seed="s")
        for at in range(0, len(text), size):
            parser.feed(text[at : at + size])
        parser.close()
        return self.work


@pytest.fixture
def meter(monkeypatch: pytest.MonkeyPatch) -> Meter:
    return Meter(monkeypatch)


@pytest.mark.parametrize(
    ("form", "size"),
    [(form, size) for first, size in enumerate((PIECE, 4, 1)) for form in thinned(ALL, first)],
    ids=lambda one: one.key if isinstance(one, Format) else str(one),
)
def test_twice_the_text_is_twice_the_work(meter: Meter, form: Format, size: int) -> None:
    reach = max(one.reach for one in scanners(form))
    # Families that share a marker are tried one after another.
    looks = LOOKS * max(1, *(len(rule.families) for rule in form.rules))
    for head, unit in hostile(form):
        once = head + unit * (SIZE // len(unit) + 1)
        twice = once + once.removeprefix(head)
        work = meter.measure(form, twice, size)

        # What is held as a whole is looked at once it proves to be text.
        slack = reach + MAX_HEADER_CHARS
        assert work <= 2.5 * meter.measure(form, once, size) + slack, (head, unit)
        assert work <= len(twice) * (looks + reach / size), (head, unit)


@in_one_test
@each_family
def test_no_place_is_tried_in_ever_more_ways(form: Format) -> None:
    # Those of the families that `AUTO` tries are tested with them.
    assert all(scanner.ways <= WAYS for scanner in grammar.scanners(form))
