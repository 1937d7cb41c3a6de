"""Update the table of hard situations: merge the results of a run, and draw the table in docs/agent-tests.md.

    python -m tools.hard_table draw
    python -m tools.hard_table merge FILE
    python -m tools.hard_table worse

`python -m tools.agents --record` runs every cell, merges the results, and draws.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.agents import hard_results
from tests.agents.hard import DIRECT, SITUATIONS, Outcome
from tests.agents.hard_results import Cell, Results, upstreams_of
from tests.agents.pages import with_table

PAGE: Final = Path(__file__).parent.parent / "docs" / "agent-tests.md"
BEGIN: Final = "<!-- drawn by tools/hard_table.py from tests/agents/hard_table.json -->"
END: Final = "<!-- the end of the drawn table -->"
_NAMES: Final = {
    "chat": "Chat",
    "anthropic": "Messages",
    "responses": "Responses",
    "gemini": "Gemini",
}


def main() -> int:
    match sys.argv[1:]:
        case ["draw"]:
            redraw()
        case ["merge", name]:
            merge(Path(name))
            redraw()
        case ["worse"]:
            for agent, situation, column in worse(hard_results.load()):
                print(f"{agent}, {situation}, {column}")
        case _:
            print(__doc__)
            return 2
    return 0


def merge(file: Path) -> None:
    """Put the results of a run into the checked-in file; the last result of a cell wins."""
    results: Results = hard_results.load() if hard_results.FILE.exists() else {}
    for line in file.read_text("utf-8").splitlines():
        agent, situation, column, outcome = json.loads(line)
        results.setdefault(agent, {}).setdefault(situation, {})[column] = Outcome(outcome)
    hard_results.save(results)


def worse(results: Results) -> list[Cell]:
    """Return the cells whose outcome is worse behind the gateway than without it."""
    return [
        (agent, situation, column)
        for agent, situations in results.items()
        for situation, columns in situations.items()
        for column in upstreams_of(agent)
        if {column, DIRECT} <= columns.keys() and columns[column].rank > columns[DIRECT].rank
    ]


def draw(results: Results) -> str:
    """Return the table: a row for each situation, a column for each agent."""
    agents = list(results)
    lines = [
        f"| Situation | {' | '.join(agents)} |",
        f"|---|{'---|' * len(agents)}",
    ]
    for name, situation in SITUATIONS.items():
        cells = [_cell(results[agent].get(name, {}), upstreams_of(agent)) for agent in agents]
        lines.append(f"| {situation.says} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(columns: dict[str, Outcome], upstreams: Sequence[str]) -> str:
    """Return the outcome directly and, where it differs, behind the gateway; a dash for no result."""
    direct = columns.get(DIRECT, "-")
    through = {dialect: columns.get(dialect, "-") for dialect in upstreams}
    if set(through.values()) == {direct}:
        return str(direct)
    if len(set(through.values())) == 1:
        return f"{direct} → {through['chat']}"
    each = ", ".join(f"{_NAMES[dialect]} {outcome}" for dialect, outcome in through.items())
    return f"{direct} → {each}"


def drawn_page(text: str, results: Results) -> str:
    """Return the page with the table redrawn between its marks."""
    return with_table(text, BEGIN, END, draw(results))


def redraw() -> None:
    PAGE.write_text(drawn_page(PAGE.read_text("utf-8"), hard_results.load()), "utf-8")


if __name__ == "__main__":
    sys.exit(main())
