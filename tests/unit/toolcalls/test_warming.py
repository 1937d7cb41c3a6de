"""Families made ready before their first answer."""

import pytest

from dragoman import ConfigError
from dragoman.toolcalls.formats import FORMATS, find_format
from dragoman.toolcalls.warming import scanners, warm


@pytest.mark.parametrize("key", [*FORMATS, "auto"])
def test_a_warm_family_has_nothing_left_to_compile(key: str) -> None:
    warm([key])

    assert all(
        {"_expression", "_at_end"} <= vars(scanner).keys() for scanner in scanners(find_format(key))
    )


def test_an_unknown_family_cannot_be_warmed() -> None:
    with pytest.raises(ConfigError, match="klingon"):
        warm(["klingon"])
