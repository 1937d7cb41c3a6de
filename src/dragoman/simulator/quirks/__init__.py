"""The quirks that a model's name can request.

They are applied in the order of this table, not in their order in the name.
"""

from collections.abc import Sequence
from typing import Final, Literal

from dragoman.errors import MalformedError
from dragoman.simulator.play import Play
from dragoman.simulator.quirks import acceptance, content, delivery, wire_format
from dragoman.simulator.quirks.quirk import Quirk
from dragoman.turn.request import DialectName

QUIRKS: Final[dict[str, Quirk]] = {
    row.name: row
    for row in (
        *acceptance.ROWS,
        *content.ROWS,
        *wire_format.ROWS,
        *delivery.ROWS,
    )
}

QuirkValues = Sequence[tuple[str, str]]  # names and values


def check(asked: QuirkValues) -> None:
    """Refuse unknown quirks and wrong values.

    Raises:
        MalformedError: a quirk is not in the table, or does not accept its value.
    """
    for name, value in asked:
        quirk = QUIRKS.get(name)
        if quirk is None:
            raise MalformedError(
                f"the simulator has no quirk `{name}`; there are {', '.join(QUIRKS)}",
                path="$.model",
                code="model_not_found",
            )
        quirk.check(value)


def apply(play: Play, asked: QuirkValues, moment: Literal["said", "written"]) -> Play:
    """Apply the quirks of one moment; `check` must have accepted them.

    Raises:
        MalformedError: one does not fit the model.
    """
    values = dict(asked)
    for name, quirk in QUIRKS.items():
        if name in values and quirk.moment == moment:
            play = quirk.act(play, values[name])
    return play


def due(
    asked: QuirkValues, dialect: DialectName, attempt: int, *, continues: bool = False
) -> QuirkValues:
    """Return the quirks for the `attempt`-th request of the same body, from 1.

    `continues`: the request continues a paused answer.
    """
    if content.LATE in dict(asked) and not continues:
        return [(name, one) for name, one in asked if not QUIRKS[name].fault]
    value = dict(asked).get("fail")
    if value is None:
        return asked
    if attempt > int(value):
        return [(name, one) for name, one in asked if not QUIRKS[name].fault]
    if any(QUIRKS[name].fault for name, _ in asked if name != "fail"):
        return asked
    return [*asked, ("error", "529" if dialect == "anthropic" else "503")]
