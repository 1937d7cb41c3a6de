"""Quirks of answers that need a second request: see `paused_answers.py`."""

from typing import Final

from msgspec import structs

from dragoman.simulator.play import Play
from dragoman.simulator.quirks.quirk import Quirk

LATE: Final = "late"


def _pause(play: Play, value: str) -> Play:
    return structs.replace(play, style=structs.replace(play.style, pauses=int(value)))


def _late(play: Play, _value: str) -> Play:
    return play  # `due` leaves the faults out until then


ROWS: Final = (
    Quirk(
        "pause",
        "N",
        "it pauses the answer N times: Messages with `pause_turn`, Chat for Moonshot's `$web_search`",
        _pause,
        bounds=(1, 1_000),
    ),
    Quirk(LATE, "", "its faults begin in the request that continues a paused answer", _late),
)
