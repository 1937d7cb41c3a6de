"""Model names: `sim/BASE[+QUIRK[:VALUE]]…`."""

from typing import Final

from msgspec import Struct

from dragoman.simulator.native import FAMILIES
from dragoman.toolcalls.detection import known_family
from dragoman.toolcalls.format_names import ALIASES, normalized_name

PREFIX: Final = "sim/"
PLAIN: Final = "plain"


class ModelName(Struct, frozen=True):
    base: str
    family: str  # the grammar of its calls; empty: structured calls
    quirks: tuple[tuple[str, str], ...]  # name and value


def parse_model(model: str) -> ModelName:
    """Read a model's name.  Any base is a model; one that is not known plays `plain`."""
    base, *quirks = model.removeprefix(PREFIX).split("+")
    return ModelName(base, family_of(base), tuple(parse_quirk(one) for one in quirks if one))


def parse_quirk(text: str) -> tuple[str, str]:
    """Split `name:value`."""
    name, _, value = text.partition(":")
    return name.strip(), value.strip()


def family_of(base: str) -> str:
    """Return the key of the family that a base names, by key, alias or model id; empty if none."""
    name = normalized_name(base)
    for key in (name, ALIASES.get(name)):
        if key in FAMILIES:
            return key
    found = known_family(base)
    return found if found in FAMILIES else ""
