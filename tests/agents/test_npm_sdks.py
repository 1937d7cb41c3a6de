"""The vendors' own SDKs for Node, each with a small loop of tools."""

from tests.agents.programs import NodeLoop
from tests.agents.scenarios import Scenarios, parametrize

pytest_generate_tests = parametrize


class Loop(Scenarios):
    passing = ("error:503",)  # what breaks inside a stream they tell, and ask no second time


class TestOpenaiChat(Loop):
    program = NodeLoop("npm openai (Chat)", "openai-chat")


class TestOpenaiResponses(Loop):
    program = NodeLoop("npm openai (Responses)", "openai-responses")


class TestAnthropic(Loop):
    program = NodeLoop("npm @anthropic-ai/sdk", "anthropic-messages")


class TestGoogleStream(Loop):
    program = NodeLoop("npm @google/genai (stream)", "google-stream")


class TestGoogleChats(Loop):
    program = NodeLoop("npm @google/genai (chats)", "google-chats")
