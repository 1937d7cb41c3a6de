"""The page on clients: its table is what the tests with real agents run, its lines are what they copy."""

import json
import re
import tomllib

import msgspec
import pytest

from dragoman.agents import AGENTS
from dragoman.agents.agent import KEY_VARIABLE, NO_KEY, Session
from tests.agents import hard_results
from tests.agents.cells import CELLS
from tests.agents.hard import DIRECT, Outcome
from tests.agents.pages import MODEL, PAGE, URL, block
from tools import hard_table

DIALECTS = ("chat", "anthropic", "responses")
SESSION = Session(url=URL, model=MODEL, small=MODEL)


def table() -> str:
    """Draw the table of runs."""
    lines = []
    for agent, cells in CELLS.items():
        models = [
            ", ".join(f"`{model}`" for model in cells[dialect]) or "–" for dialect in DIALECTS
        ]
        lines.append(f"| {' | '.join([agent, *models])} |")
    return "\n".join(lines)


def test_every_cell_of_the_table_is_a_run() -> None:
    _, _, rest = PAGE.read_text("utf-8").partition("|---|---|---|---|\n")
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


def test_lines_for_claude_code_are_a_part_of_what_run_sets() -> None:
    lines = dict(
        re.findall(
            r"^export (\w+)=(.*)$", block("Claude Code", "sh", URL, MODEL, at=1), re.MULTILINE
        )
    )

    assert lines.items() <= AGENTS["claude"].dress(SESSION, {}).variables.items()


def test_lines_for_codex_say_what_run_says() -> None:
    page = tomllib.loads(block("Codex", "toml", URL, MODEL))
    flags = AGENTS["codex"].dress(SESSION, {}).arguments[1::2]
    said = tomllib.loads("\n".join(flags))

    assert said["model_providers"] == page["model_providers"]
    assert (said["model"], said["model_provider"]) == (page["model"], page["model_provider"])
    assert (said["analytics"], said["features"]) == (page["analytics"], page["features"])
    assert KEY_VARIABLE == page["model_providers"]["dragoman"]["env_key"]


def test_lines_for_opencode_say_what_run_says() -> None:
    page = json.loads(block("opencode", "json", URL, MODEL))
    said = json.loads(AGENTS["opencode"].dress(SESSION, {}).variables["OPENCODE_CONFIG_CONTENT"])
    said["provider"]["dragoman"]["options"]["apiKey"] = NO_KEY

    assert said == {name: page[name] for name in said}


@pytest.mark.parametrize("section", ["Qwen Code", "Continue"])
def test_lines_for_others_name_the_gateway(section: str) -> None:
    language = {"Qwen Code": "json", "Continue": "yaml"}[section]
    text = block(section, language, "http://127.0.0.1:1", "other")

    assert "http://127.0.0.1:1/v1" in text
    assert "other" in text
    if language == "json":
        msgspec.json.decode(text)
