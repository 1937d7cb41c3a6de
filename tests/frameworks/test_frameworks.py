"""Python packages that agents are made of, with every dialect that they speak."""

import json

from tests.agents.cells import cells_of
from tests.agents.scenarios import Scenarios, assert_done, parametrize
from tests.agents.stage import Stage
from tests.agents.talk import DONE, Says, talk
from tests.frameworks.running import Framework

pytest_generate_tests = parametrize


class Loop(Scenarios):
    passing = ("error:503",)  # what breaks inside a stream they tell, and ask no second time

    def test_text_comes_in_pieces(self, stage: Stage) -> None:
        upstream = cells_of(self.program.name)[0]

        done = talk(self.program, stage, upstream, [Says(DONE)], quirks="+chunk:6")

        assert_done(done)
        printed = json.loads(done.ran.out.splitlines()[-1])
        assert DONE == printed["text"]
        assert 2 <= printed["pieces"]


class TestOpenaiChat(Loop):
    program = Framework("openai (Chat)", "openai_sdk", "chat")


class TestOpenaiResponses(Loop):
    program = Framework("openai (Responses)", "openai_sdk", "responses")


class TestAnthropicHelper(Loop):
    program = Framework("anthropic (stream)", "anthropic_sdk", "helper")


class TestAnthropicRunner(Loop):
    program = Framework("anthropic (tool runner)", "anthropic_sdk", "runner")


class TestAgentsChat(Loop):
    program = Framework("openai-agents (Chat)", "openai_agents", "chat")


class TestAgentsResponses(Loop):
    program = Framework("openai-agents (Responses)", "openai_agents", "responses")


class TestPydanticChat(Loop):
    program = Framework("pydantic-ai (Chat)", "pydantic_ai_agent", "chat")


class TestPydanticResponses(Loop):
    program = Framework("pydantic-ai (Responses)", "pydantic_ai_agent", "responses")


class TestPydanticMessages(Loop):
    program = Framework("pydantic-ai (Messages)", "pydantic_ai_agent", "anthropic")


class TestLangchainChat(Loop):
    program = Framework("langchain-openai (Chat)", "langchain_models", "chat")


class TestLangchainResponses(Loop):
    program = Framework("langchain-openai (Responses)", "langchain_models", "responses")


class TestLangchainMessages(Loop):
    program = Framework("langchain-anthropic", "langchain_models", "anthropic")


class TestGoogleStream(Loop):
    program = Framework("google-genai (stream)", "google_sdk", "stream")


class TestGoogleChats(Loop):
    program = Framework("google-genai (chats)", "google_sdk", "chats")


class TestPydanticGemini(Loop):
    program = Framework("pydantic-ai (Gemini)", "pydantic_ai_agent", "gemini")


class TestLangchainGemini(Loop):
    program = Framework("langchain-google-genai", "langchain_models", "gemini")


class TestLlmChat(Loop):
    program = Framework("llm (Chat)", "llm_chain", "chat")


class TestLlmResponses(Loop):
    program = Framework("llm (Responses)", "llm_chain", "responses")
    lasting = ("error:500", "error-first")  # it takes a broken answer for a whole one
