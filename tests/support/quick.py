"""What the quick profile of `make test-core` leaves out of generated tests; `make test` runs them all."""

from collections.abc import Iterable
from typing import TypeVar

from hypothesis import settings

T = TypeVar("T")
_STEP = 3


def is_quick() -> bool:
    return settings.get_current_profile_name() == "quick"


def thinned(values: Iterable[T], first: int = 0) -> list[T]:
    """Return all values, or every third one in the quick profile.

    `first` shifts the choice, so that several tests of the same families choose different ones.
    """
    every = list(values)
    return every[first % _STEP :: _STEP] if is_quick() else every
