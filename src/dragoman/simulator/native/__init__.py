"""Calls written as each family's models write them, by the keys of `dragoman.toolcalls.formats`."""

from typing import Final

from dragoman.simulator.native import expressions, json_text, tags
from dragoman.simulator.native.family import Family

FAMILIES: Final[dict[str, Family]] = {
    **json_text.FAMILIES,
    **tags.FAMILIES,
    **expressions.FAMILIES,
}
