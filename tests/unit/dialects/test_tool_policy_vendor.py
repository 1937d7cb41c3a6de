"""Vendor-run tools: what needs them is refused where no upstream runs them, and nothing is lost silently."""

import itertools
import json
from typing import Any

import pytest
from msgspec import structs

from dragoman import translate_request
from dragoman.dialects import DIALECT_NAMES
from dragoman.errors import DragomanError, UntranslatableError
from dragoman.profiles import profile

# A web search as each client declares it, a function, and how the search is forced.
SEARCH: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
    "responses": {"type": "web_search"},
}
FORCED: dict[str, Any] = {
    "anthropic": {"type": "tool", "name": "web_search"},
    "responses": {"type": "web_search"},
}
FUNCTION: dict[str, dict[str, Any]] = {
    "anthropic": {"name": "run", "input_schema": {"type": "object"}},
    "chat": {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}},
    "responses": {"type": "function", "name": "run", "parameters": {"type": "object"}},
}
AUTO: dict[str, Any] = {"anthropic": {"type": "auto"}, "chat": "auto", "responses": "auto"}
NONE: dict[str, Any] = {"anthropic": {"type": "none"}, "chat": "none", "responses": "none"}
ANY: dict[str, Any] = {"anthropic": {"type": "any"}, "chat": "required", "responses": "required"}


def request(dialect: str, **fields: Any) -> dict[str, Any]:
    said = [{"role": "user", "content": "Perform a web search for the query: today's news"}]
    body: dict[str, Any] = {"model": "kimi-k2"}
    match dialect:
        case "anthropic":
            body |= {"max_tokens": 9_000, "messages": said}
        case "chat":
            body |= {"messages": said}
        case _:
            body |= {"input": said}
    return body | fields


def translated(source: str, target: str, body: dict[str, Any], name: Any = "generic") -> Any:
    return translate_request(json.dumps(body).encode(), source=source, target=target, profile=name)


pairs = pytest.mark.parametrize(
    ("source", "target"), [*itertools.product(("anthropic", "responses"), DIALECT_NAMES)]
)


@pytest.mark.parametrize("name", ["generic", "vllm", "moonshot", "minimax"])
@pytest.mark.parametrize("choice", ["", "auto", "any", "forced"])
@pairs
def test_a_request_of_vendor_run_tools_alone_is_refused_where_nobody_runs_them(
    source: str, target: str, choice: str, name: str
) -> None:
    """Claude Code's WebSearch asks so under a name that it does not know as Claude's."""
    body = request(source, tools=[SEARCH[source]])
    chosen = {"auto": AUTO, "any": ANY, "forced": FORCED}.get(choice)
    if chosen is not None:
        body["tool_choice"] = chosen[source]

    with pytest.raises(UntranslatableError) as caught:
        translated(source, target, body, name)

    assert 400 == caught.value.http_status
    assert "unsupported_tool" == caught.value.code
    assert "`web_search`" in str(caught.value)
    assert "`kimi-k2`" in str(caught.value)
    assert "$.tools" == caught.value.path


@pairs
def test_a_forced_vendor_run_tool_is_refused_beside_functions(source: str, target: str) -> None:
    tools = [FUNCTION[source], SEARCH[source]]

    with pytest.raises(UntranslatableError, match="`web_search`"):
        translated(source, target, request(source, tools=tools, tool_choice=FORCED[source]))


@pairs
def test_a_vendor_run_tool_beside_functions_is_left_out_with_a_loss(
    source: str, target: str
) -> None:
    made = translated(source, target, request(source, tools=[FUNCTION[source], SEARCH[source]]))

    assert 1 == len(json.loads(made.body)["tools"])
    assert "server_tool_dropped" in [loss.code for loss in made.losses]


@pairs
def test_tools_that_may_not_be_used_need_nobody(source: str, target: str) -> None:
    body = request(source, tools=[SEARCH[source]], tool_choice=NONE[source])

    out = json.loads(translated(source, target, body).body)
    assert not out.get("tools")
    assert "tool_choice" not in out


WITH = [
    ("anthropic", "anthropic", "anthropic"),
    ("anthropic", "anthropic", "deepseek"),
    ("anthropic", "responses", "openai"),
    ("anthropic", "chat", "openrouter"),
    ("responses", "responses", "openai"),
    ("responses", "anthropic", "anthropic"),
    ("responses", "chat", "openai"),
    ("chat", "responses", "openai"),
    ("chat", "anthropic", "anthropic"),
]


@pytest.mark.parametrize(("source", "target", "name"), WITH)
def test_an_upstream_that_runs_it_is_asked(source: str, target: str, name: str) -> None:
    more: dict[str, Any] = {"web_search_options": {}}
    if source != "chat":
        more = {"tools": [SEARCH[source]], "tool_choice": AUTO[source]}

    out = translated(source, target, request(source, **more), name).body
    assert b"web_search" in out


@pytest.mark.parametrize("target", ["anthropic", "responses"])
def test_a_chat_client_that_asks_for_a_search_alone_is_refused(target: str) -> None:
    with pytest.raises(UntranslatableError, match="`web_search`"):
        translated("chat", target, request("chat", web_search_options={}))


def test_a_chat_host_gets_its_own_words_as_they_are() -> None:
    body = request("chat", web_search_options={"search_context_size": "low"})

    assert body == json.loads(translated("chat", "chat", body).body)


# Options of a search that the target has no word for.
OPTIONS = [
    (
        "anthropic",
        "chat",
        "openrouter",
        {"max_uses": 8, "allowed_domains": ["a.org"], "blocked_domains": []},
        ["max_uses", "allowed_domains"],
    ),
    ("anthropic", "responses", "openai", {"max_uses": 8, "allowed_domains": ["a"]}, ["max_uses"]),
    (
        "responses",
        "chat",
        "openai",
        {"filters": {"allowed_domains": ["a.org"]}, "search_context_size": "low"},
        ["filters"],
    ),
    (
        "responses",
        "anthropic",
        "anthropic",
        {"search_context_size": "low", "external_web_access": False},
        ["search_context_size", "external_web_access"],
    ),
    ("responses", "anthropic", "anthropic", {"external_web_access": True}, []),
]


@pytest.mark.parametrize(("source", "target", "name", "options", "lost"), OPTIONS)
def test_options_of_a_search_that_are_not_carried_are_losses(
    source: str, target: str, name: str, options: Any, lost: list[str]
) -> None:
    tool = {key: value for key, value in SEARCH[source].items() if key != "max_uses"} | options
    made = translated(source, target, request(source, tools=[tool]), name)

    found = [one.detail for one in made.losses if one.code == "tool_option_dropped"]
    assert lost == found


# --- the choice never stands alone -------------------------------------------------------------------

DEFERRED = {"anthropic": {**FUNCTION["anthropic"], "defer_loading": True}}
PROFILES = [
    profile("generic"),
    profile("anthropic"),
    profile("openai"),
    profile("zai"),
    profile("moonshot"),
    structs.replace(profile("generic"), schema_dialect="plain", tool_choice="strings_only"),
]


@pytest.mark.parametrize("target", DIALECT_NAMES)
@pytest.mark.parametrize("source", DIALECT_NAMES)
def test_no_choice_is_sent_without_tools(source: str, target: str) -> None:
    """Every choice, over every list of tools that may come out empty, for upstreams of all sorts."""
    lists: list[list[Any]] = [[], [FUNCTION[source]]]
    if source != "chat":
        lists += [[SEARCH[source]], [FUNCTION[source], SEARCH[source]]]
    if source in DEFERRED:
        lists.append([DEFERRED[source]])
    asked = 0
    for tools, choice, one in itertools.product(lists, (AUTO, NONE, ANY), PROFILES):
        if not tools and source == target:
            continue  # the client's own bytes, which the upstream refuses as it would without us
        body = request(source, tools=tools, tool_choice=choice[source])
        try:
            out = json.loads(translated(source, target, body, one).body)
        except DragomanError:
            continue
        asked += 1
        assert out.get("tools") or "tool_choice" not in out, (tools, choice, one.name)
    assert asked


PLACE = {"type": "approximate", "city": "Ulm", "country": "DE"}


@pytest.mark.parametrize(("target", "name"), [("responses", "openai"), ("anthropic", "anthropic")])
def test_a_search_that_a_chat_client_asks_for_is_a_tool_elsewhere(target: str, name: str) -> None:
    place = {"type": "approximate", "approximate": {"city": "Ulm", "country": "DE"}}
    options = {"search_context_size": "low", "user_location": place}
    made = translated("chat", target, request("chat", web_search_options=options), name)

    (tool,) = json.loads(made.body)["tools"]
    assert tool["type"].startswith("web_search")
    assert PLACE == tool["user_location"]
    lost = [one.detail for one in made.losses if one.code == "tool_option_dropped"]
    assert ([] if target == "responses" else ["search_context_size"]) == lost
