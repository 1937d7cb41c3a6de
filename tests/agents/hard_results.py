"""The checked-in results of the hard table: read, and renewed by tools/hard_table.py."""

import json
import os
from pathlib import Path
from typing import Final

from tests.agents.hard import DIRECT, SITUATIONS, Outcome
from tests.agents.impatient import AGENTS
from tests.support.gateway import DIALECTS, FIXED_PATHS

FILE: Final = Path(__file__).parent / "hard_table.json"
ALL_VARIABLE: Final = "DRAGOMAN_AGENTS_ALL"  # set by tools/agents.py: run every cell, also directly
RECORD_VARIABLE: Final = "DRAGOMAN_AGENTS_RECORD"  # the same; a file to which each result is added

Cell = tuple[str, str, str]  # an agent, a situation, and a column
Results = dict[str, dict[str, dict[str, Outcome]]]  # by agent, situation and column

# Where half a call could be run, or an answer be taken for whole that is not.
_HARMFUL: Final = (
    "reset in call",
    "error in call",
    "clean end in call",
    "length in call",
    "cut arguments",
    "broken arguments",
)
# These need three to six seconds of a processor for each run; the others one or two.
_SLOW_AGENTS: Final = (
    "opencode (Messages)",
    "opencode (Chat)",
    "opencode (Responses)",
    "Qwen Code",
    "Gemini CLI",
)
_PATIENT_AGENTS: Final = ("Continue",)  # asks for two minutes, whatever the settings


# The dialects of the upstreams that an agent meets, where there are others than these three.
_UPSTREAMS: Final = {"Gemini CLI": DIALECTS}


def upstreams_of(agent: str) -> tuple[str, ...]:
    """Return the dialects of the upstreams with which an agent is run through the gateway."""
    return _UPSTREAMS.get(agent, FIXED_PATHS)


def every_cell() -> list[Cell]:
    return [
        (agent, name, column)
        for agent in AGENTS
        for name in SITUATIONS
        for column in (DIRECT, *upstreams_of(agent))
    ]


def is_quick(cell: Cell) -> bool:
    """Return whether `make test-agents` runs a cell; `make test-agents-all` runs all of them.

    The quick agents meet the harmful situations with every upstream, and each other situation with one upstream,
    in turn.  The slow agents meet each harmful situation with one upstream, in turn, and no other.
    """
    agent, situation, column = cell
    if column == DIRECT or (agent in _PATIENT_AGENTS and situation.endswith("always")):
        return False
    slow = agent in _SLOW_AGENTS
    if situation in _HARMFUL and not slow:
        return True
    situations = _HARMFUL if slow else tuple(SITUATIONS)
    if situation not in situations:
        return False
    # Each agent begins with another upstream, so that each situation is met with each of them.
    others = [one for one in AGENTS if (one in _SLOW_AGENTS) == slow]
    upstreams = upstreams_of(agent)
    turn = situations.index(situation) + others.index(agent)
    return column == upstreams[turn % len(upstreams)]


def load() -> Results:
    found = json.loads(FILE.read_text("utf-8"))
    return {
        agent: {
            name: {column: Outcome(one) for column, one in columns.items()}
            for name, columns in situations.items()
        }
        for agent, situations in found.items()
    }


def save(results: Results) -> None:
    """Write the results in the order of the tables, so that a difference is small."""
    ordered: dict[str, dict[str, dict[str, str]]] = {}
    for agent, name, column in every_cell():
        outcome = results.get(agent, {}).get(name, {}).get(column)
        if outcome is not None:
            ordered.setdefault(agent, {}).setdefault(name, {})[column] = outcome.value
    FILE.write_text(json.dumps(ordered, indent=1) + "\n", "utf-8")


def add(file: Path, cell: Cell, outcome: Outcome) -> None:
    """Add a result to a file that several processes write."""
    line = json.dumps([*cell, outcome.value]) + "\n"
    with file.open("ab", buffering=0) as out:
        out.write(line.encode())


def recording() -> Path | None:
    name = os.environ.get(RECORD_VARIABLE)
    return Path(name) if name else None
