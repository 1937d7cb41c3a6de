"""Pydantic AI."""

import asyncio

import task
from anthropic import AsyncAnthropic
from google.genai import Client
from google.genai.types import HttpOptions, HttpRetryOptions
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models import Model
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.openai import OpenAIProvider


def model_of(given: task.Task) -> Model:
    if given.dialect == "anthropic":
        client = AsyncAnthropic(base_url=given.url, api_key="x", max_retries=1)
        return AnthropicModel(given.model, provider=AnthropicProvider(anthropic_client=client))
    if given.dialect == "gemini":
        retries = HttpRetryOptions(attempts=2, initial_delay=0.1)
        options = HttpOptions(base_url=given.url, retry_options=retries)
        google = Client(api_key="x", http_options=options)
        return GoogleModel(given.model, provider=GoogleProvider(client=google))
    other = AsyncOpenAI(base_url=f"{given.url}/v1", api_key="x", max_retries=1)
    kind = OpenAIChatModel if given.dialect == "chat" else OpenAIResponsesModel
    return kind(given.model, provider=OpenAIProvider(openai_client=other))


async def talk(given: task.Task) -> task.Ran:
    settings = {"max_tokens": task.MOST_TOKENS}
    agent = Agent(model_of(given), tools=list(task.TOOLS.values()), model_settings=settings)
    # A streamed run ends at the first text, beside which there may be calls: this goes on to the end.
    pieces = 0
    async with agent.iter(given.prompt) as run:
        async for node in run:
            if Agent.is_model_request_node(node):
                async with node.stream(run.ctx) as stream:
                    texts = stream.stream_text(delta=True, debounce_by=None)
                    pieces += len([one async for one in texts])
    return task.Ran(run.result.output, pieces)


task.main(lambda given: asyncio.run(talk(given)))
