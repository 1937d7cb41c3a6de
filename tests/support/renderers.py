"""Calls written as each family's models write them: the simulator's own renderers."""

from dragoman.simulator.native import FAMILIES
from dragoman.simulator.native.family import Call, Family
from dragoman.toolcalls.format_check import CheckedFamily
from dragoman.toolcalls.formats import FORMATS

__all__ = ["FAMILIES", "Call", "Family", "checked"]


def checked(key: str) -> CheckedFamily:
    """Return a family for the checks of `format_check.py`."""
    family = FAMILIES[key]
    return CheckedFamily(
        FORMATS[key],
        lambda calls: family.render([Call(*one, before) for before, one in enumerate(calls)]),
        before=family.before,
        after=family.after,
        most=family.most,
    )
