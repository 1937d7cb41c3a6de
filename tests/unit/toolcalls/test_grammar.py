"""Families made ready before their first answer."""

import pytest

from dragoman.toolcalls.format_names import find_format
from dragoman.toolcalls.formats import FORMATS
from dragoman.toolcalls.grammar import scanners, warm


@pytest.mark.parametrize("key", [*FORMATS, "auto"])
def test_a_warm_family_has_nothing_left_to_compile(key: str) -> None:
    family = find_format(key)

    warm([family])

    assert all({"_expression", "_at_end"} <= vars(scanner).keys() for scanner in scanners(family))
