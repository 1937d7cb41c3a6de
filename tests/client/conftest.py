"""A simulator in a thread, for programs that wait."""

from collections.abc import Iterator

import pytest

from tests.support.loops import Played, played


@pytest.fixture(scope="module")
def _playing() -> Iterator[Played]:
    with played() as found:
        yield found


@pytest.fixture
def server(_playing: Played) -> Played:
    """Return a server that has had no request yet."""
    _playing.bodies()
    return _playing
