"""OpenAI's Agents SDK."""

import asyncio

import task
from openai import AsyncOpenAI

from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    function_tool,
    set_tracing_disabled,
)

MODELS = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}


async def talk(given: task.Task) -> task.Ran:
    set_tracing_disabled(True)
    async with AsyncOpenAI(base_url=f"{given.url}/v1", api_key="x", max_retries=1) as client:
        model = MODELS[given.dialect](model=given.model, openai_client=client)
        tools = [function_tool(run) for run in task.TOOLS.values()]
        agent = Agent(name="asker", instructions="Ask.", model=model, tools=tools)
        result = Runner.run_streamed(agent, given.prompt, max_turns=task.MOST_TURNS)
        pieces = 0
        async for event in result.stream_events():
            if (
                event.type == "raw_response_event"
                and event.data.type == "response.output_text.delta"
            ):
                pieces += 1
        return task.Ran(result.final_output, pieces)


task.main(lambda given: asyncio.run(talk(given)))
