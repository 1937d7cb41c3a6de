"""opencode, which speaks every dialect, each by another package of the AI SDK."""

from tests.agents.programs import Opencode
from tests.agents.scenarios import Scenarios, parametrize

pytest_generate_tests = parametrize


class Failing(Scenarios):
    lasting = ("error:500", "error-first", "error-in")
    patient = True  # it asks again for a minute


class TestMessages(Failing):
    program = Opencode("Messages", "@ai-sdk/anthropic")
    passing = ("error:503",)  # what breaks inside a stream of this dialect it tells


class TestChat(Failing):
    program = Opencode("Chat", "@ai-sdk/openai-compatible")
    lasting = (*Failing.lasting, "cut:700")


class TestResponses(Failing):
    program = Opencode("Responses", "@ai-sdk/openai")
