"""Gemini CLI, which speaks `generateContent`."""

from tests.agents.programs import GeminiCli
from tests.agents.scenarios import Scenarios, parametrize

pytest_generate_tests = parametrize


class TestGeminiCli(Scenarios):
    program = GeminiCli()
    lasting = ("error-in", "cut:700")  # it repeats other failures for more than three minutes
