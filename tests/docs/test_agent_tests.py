"""The page on agents under test: its tables are what the tests with real agents run and recorded."""

from tests.agents import failures, hard_results
from tests.agents.cells import CELLS
from tests.agents.hard import DIRECT, Outcome
from tools import hard_table

PAGE = hard_table.PAGE
DIALECTS = ("chat", "anthropic", "responses", "gemini")


def table() -> str:
    """Draw the table of runs."""
    lines = []
    for agent, cells in CELLS.items():
        models = [
            ", ".join(f"`{model}`" for model in cells.get(dialect, ())) or "–"
            for dialect in DIALECTS
        ]
        lines.append(f"| {' | '.join([agent, *models])} |")
    return "\n".join(lines)


def test_every_cell_of_the_table_is_a_run() -> None:
    _, _, rest = PAGE.read_text("utf-8").partition("|---|---|---|---|---|\n")
    drawn = rest.partition("\n\n")[0]

    assert table() == drawn


def test_table_of_hard_situations_is_drawn_from_the_recorded_results() -> None:
    text = PAGE.read_text("utf-8")

    assert hard_table.drawn_page(text, hard_results.load()) == text
    assert all(f"| {one} |" in text for one in Outcome)


def test_every_cell_that_is_run_has_a_recorded_result_and_one_without_the_gateway() -> None:
    results = hard_results.load()
    quick = [cell for cell in hard_results.every_cell() if hard_results.is_quick(cell)]

    for agent, situation, column in quick:
        assert {column, DIRECT} <= results[agent][situation].keys()


def test_no_agent_is_worse_off_behind_the_gateway() -> None:
    assert [] == list(hard_table.worse(hard_results.load()))


def test_tables_of_failures_are_drawn_from_the_recorded_results() -> None:
    text = failures.PAGE.read_text("utf-8")

    assert failures.drawn_page(text) == text
    for table in failures.TABLES.values():
        for row in table.load().values():
            assert {*table.failures} == {*row}
            assert all({*table.ways} == {*ran} for ran in row.values())


def test_no_lasting_failure_keeps_an_agent_behind_the_gateway() -> None:
    for table in failures.TABLES.values():
        for row in table.load().values():
            ran = [row[name][failures.GATEWAY] for name, one in table.failures.items() if one.lasts]
            assert all(seconds is not None for seconds, _ in ran)
