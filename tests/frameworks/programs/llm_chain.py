"""Simon Willison's llm, as a library: a chain of answers and tools."""

import task
from llm.default_plugins.openai_models import Chat, Responses

KINDS = {"chat": Chat, "responses": Responses}


def talk(given: task.Task) -> task.Ran:
    kind = KINDS[given.dialect]
    model = kind("mine", model_name=given.model, api_base=f"{given.url}/v1", supports_tools=True)
    model.key = "x"
    tools = list(task.TOOLS.values())
    chain = model.chain(given.prompt, tools=tools)
    answers = [list(answer) for answer in chain.responses()]
    return task.Ran("".join(answers[-1]), sum(len(one) for one in answers))


task.main(talk)
