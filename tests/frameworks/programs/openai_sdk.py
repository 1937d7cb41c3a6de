"""OpenAI's SDK with its stream helpers, and a small loop of tools."""

import json

import task
from openai import OpenAI, pydantic_function_tool
from pydantic import BaseModel


class Shell(BaseModel):
    """Run a command."""

    command: str


class Write(BaseModel):
    """Write a file."""

    path: str
    content: str


KINDS = {"shell": Shell, "write": Write}


def chat(client: OpenAI, given: task.Task) -> task.Ran:
    tools = [pydantic_function_tool(kind, name=name) for name, kind in KINDS.items()]
    messages = [{"role": "user", "content": given.prompt}]
    pieces = 0
    for _ in range(task.MOST_TURNS):
        with client.chat.completions.stream(
            model=given.model, messages=messages, tools=tools
        ) as stream:
            pieces += len([one for one in stream if one.type == "content.delta"])
            message = stream.get_final_completion().choices[0].message
        if not message.tool_calls:
            return task.Ran(message.content, pieces)
        messages.append(message.to_dict())
        for call in message.tool_calls:
            made = call.function.parsed_arguments
            output = task.TOOLS[call.function.name](**made.model_dump())
            messages.append({"role": "tool", "tool_call_id": call.id, "content": output})
    raise RuntimeError("no end of turns")


def responses(client: OpenAI, given: task.Task) -> task.Ran:
    tools = [
        {
            "type": "function",
            "name": name,
            "description": kind.__doc__,
            "parameters": kind.model_json_schema(),
            "strict": False,
        }
        for name, kind in KINDS.items()
    ]
    history = [{"role": "user", "content": given.prompt}]
    pieces = 0
    for _ in range(task.MOST_TURNS):
        with client.responses.stream(
            model=given.model,
            input=history,
            tools=tools,
            store=False,
            include=["reasoning.encrypted_content"],
        ) as stream:
            pieces += len([one for one in stream if one.type == "response.output_text.delta"])
            response = stream.get_final_response()
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            return task.Ran(response.output_text, pieces)
        history += response.output
        for call in calls:
            output = task.TOOLS[call.name](**json.loads(call.arguments))
            made = {"type": "function_call_output", "call_id": call.call_id, "output": output}
            history.append(made)
    raise RuntimeError("no end of turns")


def talk(given: task.Task) -> task.Ran:
    with OpenAI(base_url=f"{given.url}/v1", api_key="x", max_retries=1) as client:
        return {"chat": chat, "responses": responses}[given.dialect](client, given)


task.main(talk)
