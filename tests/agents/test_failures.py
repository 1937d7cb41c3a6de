"""A failure that no retry can change ends an agent at once, and its user reads the reason."""

import os
from pathlib import Path

import pytest

from tests.agents import failures
from tests.agents.failures import DIRECT, GATEWAY, MIDSTREAM, PERMANENT, TABLES
from tests.agents.programs import (
    ClaudeCode,
    Codex,
    Continue,
    GeminiCli,
    Opencode,
    Program,
    QwenCode,
)
from tests.agents.stage import Stage

FOLDER_VARIABLE = "DRAGOMAN_FAILURES_RECORD"  # set by tools/agents.py: the folder of a recording
RECORDS = FOLDER_VARIABLE in os.environ
AGENTS: tuple[Program, ...] = (
    ClaudeCode(retries=None),
    Codex(retries=None),
    Opencode("Messages", "@ai-sdk/anthropic"),
    Opencode("Chat", "@ai-sdk/openai-compatible"),
    Opencode("Responses", "@ai-sdk/openai"),
    QwenCode(),
    Continue(),
    GeminiCli(),
)
agents = pytest.mark.parametrize("program", AGENTS, ids=lambda one: one.name)
LASTING = [
    *[("permanent", name) for name in PERMANENT],
    *[("midstream", name) for name, failure in MIDSTREAM.items() if failure.lasts],
]


@pytest.mark.parametrize(("table", "name"), LASTING)
@agents
def test_lasting_failure_ends_the_agent_with_its_reason(
    stage: Stage, program: Program, table: str, name: str
) -> None:
    ran = failures.run(program, stage, TABLES[table].failures[name])

    assert ran.seconds is not None, f"it did not end: {ran.out}"
    assert ran.shown, ran.out
    # One for the conversation; some agents ask for a title at the same time, or compact a long conversation.
    assert ran.requests <= 3
    keep(ran, (table, program.name, name, GATEWAY))


if RECORDS:  # agents retry most of these by themselves, so there is nothing to check

    @pytest.mark.parametrize("way", [DIRECT, GATEWAY])
    @pytest.mark.parametrize("name", MIDSTREAM)
    @agents
    def test_failure_in_a_stream_is_recorded(
        stage: Stage, program: Program, name: str, way: str
    ) -> None:
        ran = failures.run(program, stage, MIDSTREAM[name], direct=way == DIRECT)

        assert ran.requests > 0
        keep(ran, ("midstream", program.name, name, way))


def keep(ran: failures.Run, place: tuple[str, str, str, str]) -> None:
    if RECORDS:
        failures.record(Path(os.environ[FOLDER_VARIABLE]), place, ran)
