"""Google's SDK: a small loop of tools over its streams, and its chats helper, which runs the tools itself."""

import task
from google import genai
from google.genai import types


def stream(client: genai.Client, given: task.Task) -> task.Ran:
    declared = [
        types.FunctionDeclaration.from_callable(client=client, callable=run)
        for run in task.TOOLS.values()
    ]
    config = types.GenerateContentConfig(
        tools=[types.Tool(function_declarations=declared)],
        automatic_function_calling=types.AutomaticFunctionCallingConfig(disable=True),
        thinking_config=types.ThinkingConfig(include_thoughts=True),
    )
    contents = [types.Content(role="user", parts=[types.Part(text=given.prompt)])]
    pieces = 0
    for _ in range(task.MOST_TURNS):
        parts = []
        for chunk in client.models.generate_content_stream(
            model=given.model, contents=contents, config=config
        ):
            parts += chunk.candidates[0].content.parts
            pieces += bool(chunk.text)
        finish = chunk.candidates[0].finish_reason
        if finish is not types.FinishReason.STOP:
            raise ValueError(finish)
        calls = [part.function_call for part in parts if part.function_call]
        if not calls:
            return task.Ran("".join(part.text for part in parts if not part.thought), pieces)
        contents.append(types.Content(role="model", parts=parts))
        results = [
            types.FunctionResponse(
                id=call.id, name=call.name, response={"output": task.TOOLS[call.name](**call.args)}
            )
            for call in calls
        ]
        answered = [types.Part(function_response=result) for result in results]
        contents.append(types.Content(role="user", parts=answered))
    raise RuntimeError("no end of turns")


def chats(client: genai.Client, given: task.Task) -> task.Ran:
    config = types.GenerateContentConfig(tools=list(task.TOOLS.values()))
    chat = client.chats.create(model=given.model, config=config)
    texts = [chunk.text for chunk in chat.send_message_stream(given.prompt) if chunk.text]
    return task.Ran("".join(texts), len(texts))


def talk(given: task.Task) -> task.Ran:
    retries = types.HttpRetryOptions(attempts=2, initial_delay=0.1)
    options = types.HttpOptions(base_url=given.url, retry_options=retries)
    client = genai.Client(api_key="x", http_options=options)
    return {"stream": stream, "chats": chats}[given.dialect](client, given)


task.main(talk)
