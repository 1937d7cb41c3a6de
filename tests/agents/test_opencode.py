"""opencode, which speaks every dialect, each by another package of the AI SDK."""

from tests.agents.programs import Opencode
from tests.agents.scenarios import Scenarios, parametrize

pytest_generate_tests = parametrize


class TestMessages(Scenarios):
    program = Opencode("Messages", "@ai-sdk/anthropic")
    passing = ("error:503",)  # what breaks inside a stream of this dialect it tells


class TestChat(Scenarios):
    program = Opencode("Chat", "@ai-sdk/openai-compatible")


class TestResponses(Scenarios):
    program = Opencode("Responses", "@ai-sdk/openai")
