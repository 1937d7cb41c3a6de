"""The hard table: how a run is judged, what is compared, and how it is drawn."""

import json
from pathlib import Path

import pytest

from tests.agents import hard_results
from tests.agents.hard import DIRECT, SITUATIONS, Facts, Outcome, Situation, outcome
from tests.agents.talk import DONE
from tests.support.gateway import FIXED_PATHS
from tools import hard_table

ONE = Situation("one command", ())
GOOD = Facts(ended=True, code=0, out=DONE, said=DONE, begun=["0"], whole=["0"], requests=2)
NOTHING = GOOD._replace(out="", said="", begun=[], whole=[], requests=1)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        (GOOD, Outcome.FINISHED),
        (GOOD._replace(requests=3), Outcome.RETRIED),
        (GOOD._replace(out="", said=""), Outcome.SILENT),  # the model's last words are missing
        (NOTHING, Outcome.SILENT),
        (NOTHING._replace(out=DONE, said=DONE), Outcome.SILENT),  # the command has not run
        (NOTHING._replace(code=1), Outcome.ERROR),
        (NOTHING._replace(said="API Error: overloaded"), Outcome.ERROR),
        (GOOD._replace(code=1), Outcome.ERROR),
        (NOTHING._replace(ended=False, code=-1), Outcome.ENDLESS),
        (GOOD._replace(begun=["0", "0"]), Outcome.HARM),  # a half and a whole
        (GOOD._replace(begun=["0"], whole=[]), Outcome.HARM),
        (GOOD._replace(begun=["0", "0"], whole=["0", "0"]), Outcome.HARM),  # twice
        (GOOD._replace(ended=False, begun=["0"], whole=[]), Outcome.HARM),
    ],
)
def test_outcome_follows_from_what_was_observed(facts: Facts, expected: Outcome) -> None:
    assert expected == outcome(facts, ONE)


def test_several_commands_must_all_run_in_their_order() -> None:
    three = ONE._replace(steps=3)
    steps = ["0", "1", "2"]

    assert Outcome.FINISHED == outcome(GOOD._replace(begun=steps, whole=steps, requests=4), three)
    assert Outcome.SILENT == outcome(GOOD, three)


def test_outcomes_are_listed_best_first() -> None:
    order = ["finished", "retried", "error", "silent", "endless", "harm"]

    assert order == [str(one) for one in sorted(Outcome, key=lambda one: one.rank)]


def results(direct: str, *through: str) -> hard_results.Results:
    columns = zip((DIRECT, *FIXED_PATHS), (direct, *through), strict=True)
    one = {column: Outcome(word) for column, word in columns}
    return {"Some agent": dict.fromkeys(SITUATIONS, one)}


@pytest.mark.parametrize(
    ("words", "worse", "drawn"),
    [
        (("error", "error", "error", "error"), [], "error"),
        (("error", "retried", "retried", "retried"), [], "error → retried"),
        (
            ("retried", "retried", "error", "finished"),
            ["anthropic"],
            "retried → Chat retried, Messages error, Responses finished",
        ),
        (("endless", "harm", "silent", "harm"), ["chat", "responses"], None),
    ],
)
def test_table_shows_both_sides_and_knows_what_is_worse(
    words: tuple[str, ...], worse: list[str], drawn: str | None
) -> None:
    found = results(*words)

    assert worse * len(SITUATIONS) == [column for *_, column in hard_table.worse(found)]
    if drawn is not None:
        assert f"| the arguments are not JSON | {drawn} |" in hard_table.draw(found).splitlines()


def test_agent_of_the_fourth_dialect_has_a_result_for_each() -> None:
    words = {DIRECT: "error", "chat": "error", "anthropic": "error", "responses": "error"}
    one = {column: Outcome(word) for column, word in words.items()} | {"gemini": Outcome.SILENT}
    found: hard_results.Results = {"Gemini CLI": {"stall": one}}

    assert [("Gemini CLI", "stall", "gemini")] == hard_table.worse(found)
    assert (
        "| the stream stalls in the text | error → Chat error, Messages error, Responses error, Gemini silent |"
        in hard_table.draw(found).splitlines()
    )


def test_drawing_changes_nothing_outside_its_marks() -> None:
    page = f"before\n{hard_table.BEGIN}\n(earlier)\n{hard_table.END}\nafter\n"
    found = results("error", "error", "error", "error")

    drawn = hard_table.drawn_page(page, found)

    assert drawn.startswith("before\n")
    assert drawn.endswith("\nafter\n")
    assert "(earlier)" not in drawn
    assert drawn == hard_table.drawn_page(drawn, found)


def test_merging_keeps_what_was_not_run_and_takes_the_last_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hard_results, "FILE", tmp_path / "table.json")
    run = tmp_path / "run.jsonl"
    for word, name in (("error", "stall"), ("harm", "no body"), ("retried", "no body")):
        hard_results.add(run, ("Codex", name, "chat"), Outcome(word))
    hard_table.merge(run)
    run.write_text("", "utf-8")
    hard_results.add(run, ("Codex", "stall", "direct"), Outcome.SILENT)
    hard_table.merge(run)

    assert {
        "Codex": {
            "stall": {"direct": "silent", "chat": "error"},
            "no body": {"chat": "retried"},
        }
    } == json.loads((tmp_path / "table.json").read_text("utf-8"))


def test_quick_cells_hold_every_agent_and_every_dialect_but_nothing_direct() -> None:
    quick = [cell for cell in hard_results.every_cell() if hard_results.is_quick(cell)]

    pairs = {(agent, column) for agent, _, column in quick}
    agents = {agent for agent, *_ in hard_results.every_cell()}
    assert pairs == {
        (agent, column) for agent in agents for column in hard_results.upstreams_of(agent)
    }
    assert set(SITUATIONS) == {situation for _, situation, _ in quick}


def test_quick_cells_hold_every_situation_with_every_dialect_that_all_agents_meet() -> None:
    quick = [cell for cell in hard_results.every_cell() if hard_results.is_quick(cell)]
    # One agent fewer runs these.
    lasting = {situation for situation in SITUATIONS if situation.endswith("always")}

    for situation in SITUATIONS:
        columns = {column for _, one, column in quick if one == situation}
        expected = 2 if situation in lasting else len(FIXED_PATHS)
        assert len(columns & set(FIXED_PATHS)) == expected, situation
