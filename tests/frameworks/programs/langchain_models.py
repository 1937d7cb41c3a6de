"""LangChain's models for OpenAI, Anthropic and Google, with tools bound to them."""

import task
from langchain_anthropic import ChatAnthropic
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_openai import ChatOpenAI

TOOLS = {name: tool(run) for name, run in task.TOOLS.items()}


def model_of(given: task.Task) -> BaseChatModel:
    if given.dialect == "anthropic":
        return ChatAnthropic(
            model=given.model,
            base_url=given.url,
            api_key="x",
            max_retries=1,
            max_tokens=task.MOST_TOKENS,
        )
    if given.dialect == "gemini":
        return ChatGoogleGenerativeAI(
            model=given.model, base_url=given.url, api_key="x", max_retries=2
        )
    return ChatOpenAI(
        model=given.model,
        base_url=f"{given.url}/v1",
        api_key="x",
        max_retries=1,
        use_responses_api=given.dialect == "responses",
        stream_usage=True,
    )


def talk(given: task.Task) -> task.Ran:
    model = model_of(given).bind_tools(list(TOOLS.values()))
    history = [HumanMessage(given.prompt)]
    pieces = 0
    for _ in range(task.MOST_TURNS):
        whole = None
        for chunk in model.stream(history):
            pieces += bool(chunk.text)
            whole = chunk if whole is None else whole + chunk
        history.append(whole)
        if not whole.tool_calls:
            break
        # LangChain keeps calls that it could not read apart; there must be none.
        if whole.invalid_tool_calls:
            raise ValueError(whole.invalid_tool_calls)
        history += [TOOLS[call["name"]].invoke(call) for call in whole.tool_calls]
    if not whole.usage_metadata["input_tokens"]:
        raise ValueError(whole.usage_metadata)
    return task.Ran(whole.text, pieces)


task.main(talk)
