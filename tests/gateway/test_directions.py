"""The official SDKs through a running gateway, in all nine directions."""

import anthropic
import openai
import pytest

from tests.support.gateway import DIALECTS, Stand

FAMILIES = ("plain", "kimi-k2")
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
}


@pytest.fixture
def chat(gateway: Stand):
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0) as client:
        yield client


@pytest.fixture
def messages(gateway: Stand):
    with anthropic.Anthropic(base_url=gateway.url, api_key="x", max_retries=0) as client:
        yield client


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("upstream", DIALECTS)
def test_messages_client_loops_over_a_tool(messages, upstream: str, family: str) -> None:
    model = f"{upstream}/{family}"
    tools = [{"name": "weather", "description": "d", "input_schema": SCHEMA}]
    history = [{"role": "user", "content": "How is it in Ulm?"}]
    with messages.messages.stream(
        model=model, max_tokens=500, messages=history, tools=tools
    ) as stream:
        first = stream.get_final_message()
    calls = [block for block in first.content if block.type == "tool_use"]
    results = [{"type": "tool_result", "tool_use_id": calls[0].id, "content": "sunny in Ulm"}]
    history += [
        {"role": "assistant", "content": [block.model_dump() for block in first.content]},
        {"role": "user", "content": results},
    ]
    last = messages.messages.create(model=model, max_tokens=500, messages=history, tools=tools)

    assert ["weather"] == [call.name for call in calls]
    assert {"city"} == calls[0].input.keys()
    assert "tool_use" == first.stop_reason
    assert "end_turn" == last.stop_reason
    assert "sunny in Ulm" in last.content[-1].text
