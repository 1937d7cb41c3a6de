"""Anthropic's SDK: its stream helper with a small loop of tools, and its own runner of tools."""

import task
from anthropic import Anthropic, beta_tool

TOOLS = [beta_tool(run) for run in task.TOOLS.values()]


def helper(client: Anthropic, given: task.Task) -> task.Ran:
    messages = [{"role": "user", "content": given.prompt}]
    tools = [one.to_dict() for one in TOOLS]
    pieces = 0
    for _ in range(task.MOST_TURNS):
        with client.messages.stream(
            model=given.model, max_tokens=task.MOST_TOKENS, messages=messages, tools=tools
        ) as stream:
            pieces += len(list(stream.text_stream))
            message = stream.get_final_message()
        calls = [block for block in message.content if block.type == "tool_use"]
        if not calls:
            return task.Ran(stream.get_final_text(), pieces)
        messages.append({"role": "assistant", "content": message.content})
        results = [
            {
                "type": "tool_result",
                "tool_use_id": call.id,
                "content": task.TOOLS[call.name](**call.input),
            }
            for call in calls
        ]
        messages.append({"role": "user", "content": results})
    raise RuntimeError("no end of turns")


def runner(client: Anthropic, given: task.Task) -> task.Ran:
    turns = client.beta.messages.tool_runner(
        model=given.model,
        max_tokens=task.MOST_TOKENS,
        max_iterations=task.MOST_TURNS,
        messages=[{"role": "user", "content": given.prompt}],
        tools=TOOLS,
        stream=True,
    )
    pieces, last = 0, ""
    for stream in turns:
        said = list(stream.text_stream)
        pieces, last = pieces + len(said), "".join(said)
    return task.Ran(last, pieces)


def talk(given: task.Task) -> task.Ran:
    with Anthropic(base_url=given.url, api_key="x", max_retries=1) as client:
        return {"helper": helper, "runner": runner}[given.dialect](client, given)


task.main(talk)
