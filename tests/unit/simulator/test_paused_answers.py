"""Answers that need a second request, and what the simulator refuses of it."""

import json
from typing import Any

import pytest

from tests.support.simulator import ask, question

ASKED = "sim: search oslo\nsim: say It is cold."
KIMI = {"tools": [{"type": "builtin_function", "function": {"name": "$web_search"}}]}
CLAUDE = {"tools": [{"type": "web_search_20250305", "name": "web_search"}]}


def moonshot(*more: Any, model: str = "sim/plain", **fields: Any) -> Any:
    body = question("chat", model, ASKED, stream=False) | KIMI | fields
    body["messages"] += more
    got = ask("chat", body)
    return got.json if got.status != 200 else got.json["choices"][0]


def echo(message: dict[str, Any], **changes: Any) -> list[Any]:
    (call,) = message["tool_calls"]
    result = {"role": "tool", "tool_call_id": call["id"], "name": "$web_search"}
    return [message, result | {"content": call["function"]["arguments"]} | changes]


def test_moonshot_searches_when_its_call_comes_back() -> None:
    first = moonshot()

    assert "tool_calls" == first["finish_reason"]
    (call,) = first["message"]["tool_calls"]
    assert ("$web_search:0", "builtin_function") == (call["id"], call["type"])
    second = moonshot(*echo(first["message"]))
    assert ("stop", "It is cold.") == (second["finish_reason"], second["message"]["content"])


def test_moonshots_arguments_are_not_those_of_a_json_encoder() -> None:
    given = moonshot()["message"]["tool_calls"][0]["function"]["arguments"]

    assert given != json.dumps(json.loads(given))
    assert given != json.dumps(json.loads(given), separators=(",", ":"))


@pytest.mark.parametrize("how", [lambda text: json.dumps(json.loads(text)), str.strip, str.lower])
def test_moonshot_refuses_a_result_that_differs_from_the_arguments(how: Any) -> None:
    message = moonshot()["message"]
    given = message["tool_calls"][0]["function"]["arguments"]
    changed = how(f"{given} ") if how is str.strip else how(given)

    accepted = "message" in moonshot(*echo(message, content=changed))
    assert accepted == (given == changed)


def test_moonshot_refuses_a_call_that_it_never_made() -> None:
    message = moonshot()["message"]
    function = message["tool_calls"][0]["function"]
    function["arguments"] = json.dumps(json.loads(function["arguments"]))

    assert "never made" in moonshot(*echo(message))["error"]["message"]


def test_moonshot_refuses_a_search_without_a_result_or_with_thinking() -> None:
    message = moonshot()["message"]
    later = {"role": "user", "content": "And now?"}

    assert "has no result" in moonshot(message, later)["error"]["message"]
    thinking = moonshot(thinking={"type": "enabled"})
    assert "thinking" in thinking["error"]["message"]


def test_moonshot_may_search_often() -> None:
    messages: list[Any] = []
    for _ in range(3):
        choice = moonshot(*messages, model="sim/plain+pause:3")
        assert "tool_calls" == choice["finish_reason"]
        messages += echo(choice["message"])

    assert "stop" == moonshot(*messages, model="sim/plain+pause:3")["finish_reason"]


def claude(*content: Any, text: str = ASKED) -> Any:
    body = question("anthropic", "sim/plain+pause:2", text, stream=False) | CLAUDE
    if content:
        body["messages"] += [{"role": "assistant", "content": [*content]}]
    return ask("anthropic", body).json


def test_anthropic_pauses_until_its_content_comes_back() -> None:
    content: list[Any] = []
    kinds = []
    for reason in ("pause_turn", "pause_turn", "end_turn"):
        message = claude(*content, text=f"sim: think Hm.\n{ASKED}")
        assert reason == message["stop_reason"]
        kinds.append([one["type"] for one in message["content"]])
        content += message["content"]

    assert [
        ["thinking", "server_tool_use"],
        ["web_search_tool_result", "server_tool_use"],
        ["web_search_tool_result", "text"],
    ] == kinds


@pytest.mark.parametrize("change", [{"id": "srvtoolu_x"}, {"input": {"query": "bergen"}}])
def test_anthropic_refuses_paused_content_that_was_changed(change: dict[str, Any]) -> None:
    (call,) = claude()["content"]

    assert "content was changed" in claude(call | change)["error"]["message"]
    assert "pause_turn" == claude(call)["stop_reason"]


def test_faults_that_are_late_begin_in_the_second_request() -> None:
    model = "sim/plain+late+error:500"
    first = moonshot(model=model)

    assert "error" in moonshot(*echo(first["message"]), model=model)
