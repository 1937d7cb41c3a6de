"""What is wrong with a file: where, what, and what to write instead."""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from dragoman.errors import ConfigError

_SHOWN: Final = 40  # characters of a wrong value that are shown


class Problem(Struct, frozen=True):
    """What is wrong with one value, without its location."""

    message: str
    suggestion: str = ""


class Mistake(Struct, frozen=True):
    """What is wrong, and where; also used for warnings."""

    path: str  # `upstreams.local.base_url`, `routes[2].to[1]` (counted from 1), a flag, a variable
    message: str
    suggestion: str = ""

    def __str__(self) -> str:
        where = f"{self.path}: " if self.path else ""
        tail = f"; {self.suggestion}" if self.suggestion else ""
        return one_line(f"{where}{self.message}{tail}")


class ConfigMistakesError(ConfigError):
    """All mistakes of one set of settings: one line if there is one, else a line each."""

    def __init__(self, mistakes: Sequence[Mistake], *, source: str = "") -> None:
        self.mistakes: tuple[Mistake, ...] = tuple(mistakes)
        self.source = source  # what was read: a file's name, or empty
        super().__init__(self._text())

    def _text(self) -> str:
        if len(self.mistakes) == 1:
            return f"{self.source}: {self.mistakes[0]}" if self.source else str(self.mistakes[0])
        where = f" in {self.source}" if self.source else ""
        lines = "".join(f"\n  {mistake}" for mistake in self.mistakes)
        return f"{len(self.mistakes)} mistakes{where}:{lines}"


def one_line(text: str) -> str:
    """Return a text that cannot break its line or upset a terminal."""
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)


def shortened(text: str) -> str:
    """Return a wrong value as a message shows it."""
    clean = one_line(text)
    return clean if len(clean) <= _SHOWN else f"{clean[: _SHOWN - 1]}…"
