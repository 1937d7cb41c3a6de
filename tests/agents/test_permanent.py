"""A permanent failure ends an agent at once, and its user reads the reason."""

import os
from pathlib import Path

import pytest

from tests.agents import permanent
from tests.agents.permanent import FAILURES
from tests.agents.programs import ClaudeCode, Codex, Continue, Opencode, Program, QwenCode
from tests.agents.stage import Stage

FOLDER_VARIABLE = "DRAGOMAN_PERMANENT_RECORD"  # set by tools/agents.py: the folder of a recording
AGENTS: tuple[Program, ...] = (
    ClaudeCode(retries=None),
    Codex(retries=None),
    Opencode("Messages", "@ai-sdk/anthropic"),
    Opencode("Chat", "@ai-sdk/openai-compatible"),
    Opencode("Responses", "@ai-sdk/openai"),
    QwenCode(),
    Continue(),
)


@pytest.mark.parametrize("name", FAILURES)
@pytest.mark.parametrize("program", AGENTS, ids=lambda one: one.name)
def test_permanent_failure_ends_the_agent_with_its_reason(
    stage: Stage, program: Program, name: str
) -> None:
    ran = permanent.run(program, stage, FAILURES[name])

    assert ran.seconds is not None, f"it did not end: {ran.out}"
    assert ran.shown, ran.out
    # One for the conversation; some agents ask for a title at the same time, or compact a long conversation.
    assert ran.requests <= 3
    if FOLDER_VARIABLE in os.environ:
        folder = Path(os.environ[FOLDER_VARIABLE])
        permanent.record(folder, program.name, name, round(ran.seconds, 1))
