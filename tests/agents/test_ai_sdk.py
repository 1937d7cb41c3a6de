"""The AI SDK, with its packages for every dialect."""

from tests.agents.programs import NodeLoop
from tests.agents.scenarios import Scenarios, parametrize

pytest_generate_tests = parametrize


class Loop(Scenarios):
    passing = ("error:503",)  # what breaks inside a stream they tell, and ask no second time


class TestMessages(Loop):
    program = NodeLoop("AI SDK (Messages)", "ai-messages")


class TestChat(Loop):
    program = NodeLoop("AI SDK (Chat)", "ai-chat")


class TestResponses(Loop):
    program = NodeLoop("AI SDK (Responses)", "ai-responses")


class TestGemini(Loop):
    program = NodeLoop("AI SDK (Gemini)", "ai-gemini")
