"""Every cell of the hard table: what the agent made of it is as good as the checked-in result."""

import os
from functools import cache

import pytest

from tests.agents import hard, hard_results
from tests.agents.hard import DIRECT, SITUATIONS
from tests.agents.hard_results import Cell
from tests.agents.impatient import AGENTS
from tests.agents.stage import Stage

ALL = hard_results.ALL_VARIABLE in os.environ
CELLS = [cell for cell in hard_results.every_cell() if ALL or hard_results.is_quick(cell)]
THROUGH = [cell for cell in CELLS if cell[2] != DIRECT]
DIRECTLY = [cell for cell in CELLS if cell[2] == DIRECT]

recorded = cache(hard_results.load)


def expected_of(cell: Cell) -> hard.Outcome:
    agent, name, column = cell
    found = recorded().get(agent, {}).get(name, {})
    # A cell without a result of its own must not be worse than without the gateway.
    assert {column, DIRECT} & found.keys(), "nothing is recorded; run `tools.agents --record`"
    return found[column] if column in found else found[DIRECT]


def measured(stage: Stage, cell: Cell) -> tuple[hard.Outcome, hard.Facts]:
    """Run a cell, and add its result to the file of a recording."""
    agent, name, column = cell
    situation = SITUATIONS[name]
    facts = hard.run(AGENTS[agent], stage, situation, column)
    outcome = hard.outcome(facts, situation)
    file = hard_results.recording()
    if file is not None:
        hard_results.add(file, cell, outcome)
    return outcome, facts


@pytest.mark.parametrize("cell", THROUGH, ids="-".join)
def test_agent_behind_the_gateway_does_as_well_as_recorded(stage: Stage, cell: Cell) -> None:
    outcome, facts = measured(stage, cell)

    if hard_results.recording() is None:
        expected = expected_of(cell)
        assert outcome.rank <= expected.rank, f"{outcome}, not {expected}: {facts}"


if DIRECTLY:

    @pytest.mark.parametrize("cell", DIRECTLY, ids="-".join)
    def test_agent_without_the_gateway_does_what_is_recorded(stage: Stage, cell: Cell) -> None:
        outcome, facts = measured(stage, cell)

        if hard_results.recording() is None:
            expected = expected_of(cell)
            assert outcome == expected, f"{outcome}, not {expected}: {facts}"
