"""The list of models, in a shape that clients of all dialects read."""

from dragoman.simulator.model_names import PLAIN, PREFIX
from dragoman.simulator.native import FAMILIES
from dragoman.simulator.play import CREATED, Fields, Json
from dragoman.simulator.quirks import QUIRKS


def models() -> Fields:
    """Return all bases, and the quirks that may be added to each."""
    names = [f"{PREFIX}{base}" for base in (PLAIN, *(key.replace("_", "-") for key in FAMILIES))]
    listed: list[Json] = [model(name) for name in names]
    quirks: list[Json] = [
        {"quirk": one.name, "usage": one.usage, "says": one.says} for one in QUIRKS.values()
    ]
    return {
        "object": "list",
        "data": listed,
        "has_more": False,
        "first_id": names[0],
        "last_id": names[-1],
        "quirks": quirks,
    }


def model(name: str) -> Fields:
    """Return one model.  Any name is one."""
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "created": CREATED,
        "created_at": "2025-06-15T15:06:40Z",
        "owned_by": "dragoman-simulator",
        "display_name": f"Simulated {name.removeprefix(PREFIX)}",
    }
