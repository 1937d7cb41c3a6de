"""A relay applies the profile's limits on tools: both ways, in every dialect, streamed and complete."""

import json
from typing import Any

import pytest
from msgspec import structs

from dragoman import Translator, translate_body, translate_request
from dragoman.checker.checker import check
from dragoman.errors import UntranslatableError
from dragoman.profiles import profile
from dragoman.translate_requests import read_request

GRAMMAR = {"type": "grammar", "syntax": "lark", "definition": "start: /.+/"}
PATCH = {"type": "custom", "name": "apply_patch", "description": "Edit.", "format": GRAMMAR}
BASH = {
    "type": "function",
    "name": "bash",
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}},
    "strict": False,
}
SEARCH = {"type": "web_search", "external_web_access": False}
SHELL = {"type": "local_shell"}
SPACE = {"type": "namespace", "name": "mcp", "description": "x", "tools": [BASH]}
USER = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]}
INPUT = "*** Begin Patch\n*** End Patch"


def request(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "stream": True, "input": [USER], **fields}


def forwarded(body: dict[str, Any], source: str = "responses", **options: Any) -> Any:
    return translate_request(json.dumps(body).encode(), source=source, target=source, **options)


def sent(body: dict[str, Any], source: str = "responses", **options: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(forwarded(body, source, **options).body)
    return found


# --- Responses: requests ---------------------------------------------------------------------------


def test_a_custom_tool_becomes_a_function() -> None:
    made = forwarded(request(tools=[PATCH, BASH]))
    tools = json.loads(made.body)["tools"]

    assert BASH == tools[1]
    assert ("function", "apply_patch") == (tools[0]["type"], tools[0]["name"])
    assert ["input"] == tools[0]["parameters"]["required"]
    assert "start: /.+/" in tools[0]["description"]
    assert ["grammar_not_enforced"] == [loss.code for loss in made.losses]


@pytest.mark.parametrize("name", ["openai", "openai-reasoning"])
def test_an_upstream_that_has_them_gets_the_bytes_as_they_are(name: str) -> None:
    body = json.dumps(request(tools=[PATCH, SEARCH, SHELL, SPACE])).encode()

    made = translate_request(body, source="responses", target="responses", profile=name)
    assert body == made.body


@pytest.mark.parametrize("model", ["gpt-5-codex", "openai/o3"])
def test_a_model_of_the_vendor_behind_an_unknown_host_brings_the_vendors_tools(model: str) -> None:
    body = request(tools=[PATCH, SEARCH], model=model)

    assert [PATCH, SEARCH] == sent(body)["tools"]
    assert [PATCH, SEARCH] != sent(body, profile="vllm")["tools"]


def test_vendor_run_tools_are_left_out_with_a_loss() -> None:
    made = forwarded(request(tools=[BASH, SEARCH]))

    assert [BASH] == json.loads(made.body)["tools"]
    assert [("server_tool_dropped", "$.tools[1]")] == [(one.code, one.path) for one in made.losses]


def test_shells_and_namespaces_become_functions() -> None:
    tools = sent(request(tools=[SHELL, SPACE]))["tools"]

    assert [("function", "local_shell"), ("function", "mcp__bash")] == [
        (one["type"], one["name"]) for one in tools
    ]


HISTORY = [
    USER,
    {"type": "reasoning", "summary": [], "encrypted_content": "theirs", "id": "rs_1"},
    {"type": "custom_tool_call", "call_id": "c1", "name": "apply_patch", "input": INPUT},
    {"type": "function_call", "call_id": "c2", "name": "bash", "arguments": "{}", "id": "fc_1"},
    {
        "type": "function_call",
        "call_id": "c3",
        "name": "bash",
        "namespace": "mcp",
        "arguments": "{}",
    },
    {
        "type": "local_shell_call",
        "id": "lsh_1",
        "call_id": "c4",
        "status": "completed",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
    },
    {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
    {"type": "function_call_output", "call_id": "c2", "output": "ok"},
    {"type": "function_call_output", "call_id": "c3", "output": "ok"},
    {"type": "local_shell_call_output", "id": "lsh_1", "output": "a b"},
    {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"query": "q"}},
    USER,
]


def test_the_history_is_rewritten_item_by_item() -> None:
    items = sent(request(tools=[PATCH, BASH, SHELL, SPACE], input=HISTORY))["input"]

    for at in (0, 1, 3, 7, 8, 11):
        assert HISTORY[at] == items[at]
    calls = [one for one in items if one["type"] == "function_call"]
    assert [("c1", "apply_patch"), ("c2", "bash"), ("c3", "mcp__bash"), ("c4", "local_shell")] == [
        (one["call_id"], one["name"]) for one in calls
    ]
    assert {"input": INPUT} == json.loads(calls[0]["arguments"])
    assert ["ls"] == json.loads(calls[3]["arguments"])["command"]
    outputs = [one for one in items if one["type"] == "function_call_output"]
    assert ["c1", "c2", "c3", "c4"] == [one["call_id"] for one in outputs]
    assert "[web_search: q]" in json.dumps(items[10])


def test_a_history_of_such_calls_is_rewritten_without_tools_too() -> None:
    kinds = {one["type"] for one in sent(request(input=HISTORY))["input"]}

    assert {"message", "reasoning", "function_call", "function_call_output"} == kinds


def test_a_history_without_such_calls_keeps_its_bytes() -> None:
    history = [one for one in HISTORY if one["type"] in ("message", "reasoning")]

    assert history == sent(request(tools=[PATCH, BASH], input=history))["input"]
    assert "go" == sent(request(tools=[PATCH], input="go"))["input"]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ("auto", "auto"),
        ({"type": "custom", "name": "apply_patch"}, {"type": "function", "name": "apply_patch"}),
        ({"type": "local_shell"}, {"type": "function", "name": "local_shell"}),
    ],
)
def test_the_choice_names_functions(choice: Any, expected: Any) -> None:
    assert expected == sent(request(tools=[PATCH, SHELL], tool_choice=choice))["tool_choice"]


# --- Responses: answers ------------------------------------------------------------------------------

DECLARED = read_request(
    json.dumps(request(tools=[PATCH, BASH, SHELL, SPACE])).encode(), source="responses"
).request
CALLS = [
    ("bash", '{"command": "ls"}'),
    ("apply_patch", json.dumps({"input": INPUT})),
    ("local_shell", '{"command": ["ls"]}'),
    ("mcp__bash", "{}"),
]


def chat_stream() -> bytes:
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "So: "}]
    for at, (name, arguments) in enumerate(CALLS):
        function = {"name": name, "arguments": ""}
        deltas.append({"tool_calls": [{"index": at, "id": f"call_{at}", "function": function}]})
        for start in range(0, len(arguments), 7):
            piece = {"arguments": arguments[start : start + 7]}
            deltas.append({"tool_calls": [{"index": at, "function": piece}]})
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]})
    return (
        b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in chunks) + b"data: [DONE]\n\n"
    )


def functions_only(target: str) -> bytes:
    """Return what an upstream answers that knows all tools as functions."""
    translator = Translator(source="chat", target=target, seed="s")
    return translator.feed(chat_stream()) + translator.close()


def events(stream: bytes) -> list[dict[str, Any]]:
    return [json.loads(one[6:]) for one in stream.splitlines() if one.startswith(b"data: {")]


@pytest.mark.parametrize("size", [1, 50, 100_000])
def test_calls_of_a_stream_are_turned_back(size: int) -> None:
    stream = functions_only("responses")
    translator = Translator(
        source="responses", target="responses", request=DECLARED, profile="generic", seed="s"
    )
    out = b"".join(translator.feed(stream[at : at + size]) for at in range(0, len(stream), size))
    out += translator.close()

    assert () == check("responses", out).violations
    items = [one["item"] for one in events(out) if one["type"] == "response.output_item.done"]
    assert_turned_back(items)
    assert_turned_back(events(out)[-1]["response"]["output"])


def test_calls_of_a_complete_answer_are_turned_back() -> None:
    whole = events(functions_only("responses"))[-1]["response"]

    made = translate_body(
        json.dumps(whole).encode(),
        source="responses",
        target="responses",
        request=DECLARED,
        profile="generic",
    )
    assert_turned_back(json.loads(made.body)["output"])


def assert_turned_back(items: list[dict[str, Any]]) -> None:
    _, bash, patch, shell, space = items
    assert ("function_call", "bash") == (bash["type"], bash["name"])
    assert ("custom_tool_call", "apply_patch", INPUT) == (
        patch["type"],
        patch["name"],
        patch["input"],
    )
    assert ("local_shell_call", ["ls"]) == (shell["type"], shell["action"]["command"])
    assert ("function_call", "bash", "mcp") == (space["type"], space["name"], space["namespace"])


def test_an_answer_of_plain_functions_passes_as_it_came() -> None:
    plain = read_request(json.dumps(request(tools=[BASH])).encode(), source="responses").request
    stream = functions_only("responses")
    translator = Translator(
        source="responses", target="responses", request=plain, profile="generic", seed="s"
    )

    assert stream == translator.feed(stream) + translator.close()


# --- Chat ------------------------------------------------------------------------------------------

CHAT_PATCH = {"type": "custom", "custom": {"name": "apply_patch", "format": {"type": "text"}}}
CHAT_BASH = {"type": "function", "function": {"name": "bash", "parameters": BASH["parameters"]}}
CHAT_HISTORY = [
    {"role": "user", "content": "go"},
    {
        "role": "assistant",
        "content": None,
        "reasoning_content": "hm",
        "tool_calls": [
            {"id": "c1", "type": "custom", "custom": {"name": "apply_patch", "input": INPUT}},
            {"id": "c2", "type": "function", "function": {"name": "bash", "arguments": "{}"}},
        ],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "done"},
    {"role": "tool", "tool_call_id": "c2", "content": "ok"},
]


def test_custom_tools_of_chat_become_functions_and_their_calls_too() -> None:
    choice = {"type": "custom", "custom": {"name": "apply_patch"}}
    tools = [CHAT_BASH, CHAT_PATCH]
    body = {"model": "m", "messages": CHAT_HISTORY, "tools": tools, "tool_choice": choice}
    out = sent(body, "chat")

    assert CHAT_BASH == out["tools"][0]
    assert ("function", "apply_patch") == (
        out["tools"][1]["type"],
        out["tools"][1]["function"]["name"],
    )
    assert {"type": "function", "function": {"name": "apply_patch"}} == out["tool_choice"]
    assistant = out["messages"][1]
    assert "hm" == assistant["reasoning_content"]
    assert {"input": INPUT} == json.loads(assistant["tool_calls"][0]["function"]["arguments"])
    assert CHAT_HISTORY[1]["tool_calls"][1] == assistant["tool_calls"][1]
    assert CHAT_HISTORY[2:] == out["messages"][2:]
    assert body == sent(body, "chat", profile="openai", model="m")


@pytest.mark.parametrize("size", [1, 100_000])
def test_calls_of_a_chat_stream_are_turned_back(size: int) -> None:
    body = {"model": "m", "messages": CHAT_HISTORY[:1], "tools": [CHAT_BASH, CHAT_PATCH]}
    declared = read_request(json.dumps(body).encode(), source="chat").request
    stream = functions_only("chat")
    translator = Translator(source="chat", target="chat", request=declared, seed="s")
    out = b"".join(translator.feed(stream[at : at + size]) for at in range(0, len(stream), size))
    out += translator.close()

    deltas = [one["choices"][0]["delta"] for one in events(out) if one["choices"]]
    calls = [call for delta in deltas for call in delta.get("tool_calls") or ()]
    text = "".join(call["custom"].get("input", "") for call in calls if "custom" in call)
    assert INPUT == text
    assert "bash" in [call.get("function", {}).get("name") for call in calls]


# --- Messages ----------------------------------------------------------------------------------------

FUNCTION = {"name": "run", "input_schema": {"type": "object"}, "x_unknown": 1}
WEB = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
SHELL_TOOL = {"type": "bash_20250124", "name": "bash"}


def messages(**fields: Any) -> dict[str, Any]:
    turns = [{"role": "user", "content": "go"}]
    return {"model": "m", "max_tokens": 9_000, "messages": turns, **fields}


def test_a_messages_host_gets_no_tools_of_the_vendor() -> None:
    made = forwarded(messages(tools=[FUNCTION, WEB, SHELL_TOOL]), "anthropic")
    first, second = json.loads(made.body)["tools"]

    assert FUNCTION == first
    assert ("bash", "object") == (second["name"], second["input_schema"]["type"])
    assert "type" not in second
    assert ["server_tool_dropped", "schema_rewritten"] == [loss.code for loss in made.losses]


@pytest.mark.parametrize(
    ("name", "model"),
    [("anthropic", "m"), ("anthropic-budget", "m"), ("generic", "claude-opus-4-6")],
)
def test_the_vendor_gets_its_own_tools(name: str, model: str) -> None:
    body = messages(tools=[FUNCTION, WEB, SHELL_TOOL], model=model)

    assert body == sent(body, "anthropic", profile=name)


def test_a_host_that_runs_the_search_gets_it() -> None:
    assert [FUNCTION, WEB] == sent(
        messages(tools=[FUNCTION, WEB]), "anthropic", profile="deepseek"
    )["tools"]


@pytest.mark.parametrize(
    ("control", "asked", "expected"),
    [
        ("none", {"type": "adaptive"}, None),
        ("none", {"type": "enabled", "budget_tokens": 2000}, None),
        ("none", {"type": "disabled"}, {"type": "disabled"}),
        ("budget", {"type": "adaptive"}, {"type": "enabled", "budget_tokens": 8999}),
        (
            "budget",
            {"type": "enabled", "budget_tokens": 2000},
            {"type": "enabled", "budget_tokens": 2000},
        ),
        ("reasoning_effort", {"type": "adaptive"}, {"type": "adaptive"}),
    ],
)
def test_thinking_is_asked_for_as_the_host_takes_it(
    control: Any, asked: Any, expected: Any
) -> None:
    one = structs.replace(profile("generic"), reasoning_control=control)
    out = sent(messages(thinking=asked), "anthropic", profile=one)

    assert expected == out.get("thinking")


def test_a_forced_tool_that_goes_is_refused() -> None:
    choice = {"type": "tool", "name": "web_search"}

    with pytest.raises(UntranslatableError, match="`web_search`"):
        sent(messages(tools=[FUNCTION, WEB], tool_choice=choice), "anthropic")
