"""opencode, which speaks every dialect, each by another package of the AI SDK."""

from tests.agents.programs import Opencode
from tests.agents.scenarios import Scenarios, parametrize

pytest_generate_tests = parametrize


class TestMessages(Scenarios):
    program = Opencode("Messages", "@ai-sdk/anthropic")
    passing = ("error:503",)  # what breaks inside a stream of this dialect it tells
    lasting = ("error:500", "error-in")  # it asks again for a minute, so each package has its own


class TestChat(Scenarios):
    program = Opencode("Chat", "@ai-sdk/openai-compatible")
    lasting = ("cut:700",)


class TestResponses(Scenarios):
    program = Opencode("Responses", "@ai-sdk/openai")
    lasting = ("error-first",)
