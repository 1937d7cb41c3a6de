"""Calls written as each family's models write them, by the keys of `dragoman.toolcalls.formats`."""

from typing import Final

from dragoman.simulator.native import expressions, json_text, tags
from dragoman.simulator.native.family import Family
from dragoman.toolcalls.formats import FORMATS

_BY_GRAMMAR: Final = {**json_text.FAMILIES, **tags.FAMILIES, **expressions.FAMILIES}
# In the order of the families' own table.
FAMILIES: Final[dict[str, Family]] = {
    key: _BY_GRAMMAR[key] for key in FORMATS if key in _BY_GRAMMAR
}
