"""Codex, which speaks Responses."""

from tests.agents.programs import Codex
from tests.agents.scenarios import Scenarios, parametrize

pytest_generate_tests = parametrize


class TestCodex(Scenarios):
    program = Codex()
