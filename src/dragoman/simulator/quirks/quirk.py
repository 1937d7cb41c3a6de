"""The type of a quirk: a row of the table, with a function that changes an answer."""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from dragoman.errors import MalformedError
from dragoman.simulator.play import Play

Act: TypeAlias = Callable[[Play, str], Play]
_MAX_DIGITS: Final = 15


class Quirk(Struct, frozen=True):
    """One deviation or fault that a model's name can request."""

    name: str
    value: str  # placeholder of the part after the colon; empty: none; in brackets: optional
    description: str  # one line for lists
    act: Act
    # `said`: applied to the composed answer; `written`: after its calls were written in the grammar.
    moment: Literal["said", "written"] = "said"
    fault: bool = False  # `fail:N` lifts it after N requests
    bounds: tuple[int, int] | None = None  # of a value that is a number
    words: tuple[str, ...] = ()  # accepted besides the number; without bounds, all accepted values

    @property
    def usage(self) -> str:
        """Return how it is written in a name."""
        if not self.value:
            return self.name
        optional = self.value.startswith("[")
        return f"{self.name}[:{self.value[1:-1]}]" if optional else f"{self.name}:{self.value}"

    def check(self, value: str) -> None:
        """Refuse a value that the quirk does not accept; `act` relies on it.

        Raises:
            MalformedError: the value is not accepted.
        """
        if bool(value) != bool(self.value) and not self.value.startswith("["):
            raise MalformedError(f"quirk `{self.name}` is written `{self.usage}`", path="$.model")
        if not value or value in self.words or (self.bounds is None and not self.words):
            return
        if self.bounds is None:
            kinds = ", ".join(self.words)
            raise MalformedError(
                f"quirk `{self.name}` takes {kinds}, not `{value}`", path="$.model"
            )
        least, most = self.bounds
        digits = value.isascii() and value.isdigit() and len(value) <= _MAX_DIGITS
        if not digits or not least <= int(value) <= most:
            kinds = ", ".join([*self.words, f"a number from {least} to {most}"])
            raise MalformedError(
                f"quirk `{self.name}` takes {kinds}, not `{value}`", path="$.model"
            )
