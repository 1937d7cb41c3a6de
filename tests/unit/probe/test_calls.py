"""Calls of an answer: made, or left in the text."""

import json

import pytest

from dragoman import json_format
from dragoman.probe.calls import leaked, made
from dragoman.probe.questions import AUTO
from dragoman.probe.response import Response
from dragoman.simulator.native import FAMILIES
from tests.support.probing import probe
from tests.support.simulator import ask

# Families whose calls the tables of an older one read as well.
READERS = {
    "deepseek_v31": "deepseek_v3",
    "deepseek_v32": "deepseek_v3",
    "glm47": "glm45",
    "poolside_v1": "glm45",
}


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_family_of_calls_in_text_is_known(family):
    """The family is found by the model's name; without the name, by its markers."""
    report = probe(family.replace("_", "-"), "chat", "native")

    assert READERS.get(family, family) == report.format


@pytest.mark.parametrize("family", ["kimi_k2", "hermes", "glm45", "deepseek_v31", "minimax_m2"])
def test_markers_alone_show_the_family(family):
    body = {
        "model": f"sim/{family.replace('_', '-')}",
        "messages": [{"role": "user", "content": "get_weather of Paris"}],
        "tools": [{"type": "function", "function": {"name": "get_weather", "parameters": {}}}],
    }
    response = Response("chat", status=200, body=ask("chat", body).body)

    leak = leaked(response, AUTO, "some-model")

    assert leak is not None
    assert (READERS.get(family, family), "content", ["get_weather"]) == (
        leak.family,
        leak.place,
        [one.name for one in leak.calls],
    )


def test_text_about_tools_is_no_call():
    body = b'{"choices":[{"message":{"content":"I would use get_weather(city) or <b>."}}]}'
    response = Response("chat", status=200, body=body)

    assert () == made(response, AUTO, "some-model")


def test_calls_in_a_format_of_the_settings_are_found() -> None:
    acme = json_format("acme", open="<acme>", close="</acme>")
    (tool,) = AUTO.tools[:1]
    text = f'<acme>{{"name": "{tool.name}", "arguments": {{}}}}</acme>'
    body = {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]
    }
    response = Response("chat", status=200, body=json.dumps(body).encode())

    leak = leaked(response, AUTO, "some-model", (acme,))

    assert leak is not None
    assert ("acme", tool.name) == (leak.family, leak.calls[0].name)
