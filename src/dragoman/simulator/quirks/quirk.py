"""What a quirk is: one row, one small function from an answer to a changed one."""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from dragoman.errors import Malformed
from dragoman.simulator.play import Play

Act: TypeAlias = Callable[[Play, str], Play]
_MAX_DIGITS: Final = 15


class Quirk(Struct, frozen=True):
    """One deviation or fault that a model's name can ask for."""

    name: str
    value: str  # what stands behind the colon; empty: nothing; in brackets: it may be absent
    says: str  # one line for lists
    act: Act
    # `said` acts on what the model means, `written` after its calls were written in its grammar.
    moment: Literal["said", "written"] = "said"
    fault: bool = False  # `fail:N` lifts it after N requests

    @property
    def usage(self) -> str:
        """Return how it is written in a name."""
        if not self.value:
            return self.name
        optional = self.value.startswith("[")
        return f"{self.name}[:{self.value[1:-1]}]" if optional else f"{self.name}:{self.value}"


def number(value: str, name: str, *, most: int, least: int = 0, default: int | None = None) -> int:
    """Read the number behind a quirk's colon.

    Raises:
        Malformed: it is none, or out of bounds.
    """
    if not value and default is not None:
        return default
    digits = value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS
    if not digits or not least <= int(value) <= most:
        says = f"quirk `{name}` takes a number from {least} to {most}, not `{value}`"
        raise Malformed(says, path="$.model")
    return int(value)
