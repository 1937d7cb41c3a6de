"""A request that needs a vendor-run tool goes to an upstream that runs it, or is refused before anyone is asked."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway.config.settings import Match, Record, Route, RouteServerTools, Settings
from dragoman.simulator.play import SimulatedImage
from tests.support.asking import post
from tests.support.gateway import FIXED_PATHS, Stand, settings_for, stand
from tests.support.sdks import accumulate, parse_body
from tests.support.search_hosts import HOSTS, WITHOUT_SEARCH, target, with_hosts
from tests.support.simulator import question as small_question
from tests.support.tables import in_one_test

SEARCH: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
    "responses": {"type": "web_search"},
}
SHOWN = {"include": ["web_search_call.action.sources"]}

RUN = {"name": "run", "input_schema": {"type": "object"}}
RUN_IN_RESPONSES = {"type": "function", "name": "run", "parameters": {"type": "object"}}
RUN_IN_CHAT = {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}}
OPENROUTER = {"type": "openrouter:web_search"}
RUN_IN_GEMINI = {"functionDeclarations": [{"name": "run", "parameters": {"type": "OBJECT"}}]}
# How clients ask for a search: client, fields, whether the request needs it.
WAYS: dict[str, tuple[str, dict[str, Any], bool]] = {
    "messages-only": ("anthropic", {"tools": [SEARCH["anthropic"]]}, True),
    "messages-forced": (
        "anthropic",
        {
            "tools": [SEARCH["anthropic"]],
            "tool_choice": {"type": "tool", "name": "web_search"},
        },
        True,
    ),
    "messages-forced-beside": (
        "anthropic",
        {
            "tools": [RUN, SEARCH["anthropic"]],
            "tool_choice": {"type": "tool", "name": "web_search"},
        },
        True,
    ),
    "messages-beside": ("anthropic", {"tools": [RUN, SEARCH["anthropic"]]}, False),
    "responses-only": ("responses", {"tools": [SEARCH["responses"]], **SHOWN}, True),
    "responses-required": (
        "responses",
        {"tools": [SEARCH["responses"]], "tool_choice": "required", **SHOWN},
        True,
    ),
    "responses-forced-beside": (
        "responses",
        {
            "tools": [RUN_IN_RESPONSES, SEARCH["responses"]],
            "tool_choice": SEARCH["responses"],
            **SHOWN,
        },
        True,
    ),
    "responses-beside": (
        "responses",
        {"tools": [RUN_IN_RESPONSES, SEARCH["responses"]]},
        False,
    ),
    "chat-only": ("chat", {"web_search_options": {}}, True),
    "chat-tool": ("chat", {"tools": [OPENROUTER]}, True),
    "chat-forced": (
        "chat",
        {"tools": [OPENROUTER], "tool_choice": {"type": "openrouter:web_search"}},
        True,
    ),
    "chat-forced-beside": (
        "chat",
        {
            "tools": [RUN_IN_CHAT, OPENROUTER],
            "tool_choice": {"type": "openrouter:web_search"},
        },
        True,
    ),
    "chat-always-beside": ("chat", {"plugins": [{"id": "web"}], "tools": [RUN_IN_CHAT]}, True),
    "chat-beside": ("chat", {"tools": [RUN_IN_CHAT, OPENROUTER]}, False),
    "gemini-only": ("gemini", {"tools": [{"googleSearch": {}}]}, True),
    "gemini-beside": ("gemini", {"tools": [RUN_IN_GEMINI, {"googleSearch": {}}]}, False),
}
# Nothing in other APIs than a Chat host's makes a search run whatever the model decides.
UNFORCED_DIALECTS = {"chat-always-beside": {"anthropic", "responses", "gemini"}}
# Where each client finds what was found.
PLACES = {
    "anthropic": "web_search_tool_result",
    "responses": "web_search_call",
    "chat": "annotations",
    "gemini": "groundingMetadata",
}
SOURCE = "https://source1.example/what-is-the-news"
# Upstreams that make images.
PAINTERS = {
    "painter-responses": target("host-responses"),
    "painter-chat": target("host-openrouter"),
    "painter-gemini": "host-gemini/gemini-2.5-flash-image",
}


def make(url: str) -> Settings:
    """One upstream of each dialect of unknown kind, and Anthropic behind one of them as a fallback."""
    plain = settings_for(url)
    vendor = structs.replace(plain.upstreams["anthropic"], profile="anthropic")
    routes = (
        Route(name="both", match=Match(model="both/*"), to=("chat/*", "vendor/*")),
        Route(name="neither", match=Match(model="neither/*"), to=("chat/*", "anthropic/*")),
        Route(
            name="failing", match=Match(model="failing/*"), to=("vendor/plain+error:503", "chat/*")
        ),
        Route(
            name="turns",
            match=Match(model="turns/*"),
            to=("chat/*", "vendor/*"),
            choose="weighted",
            weights=(3, 1),
        ),
        Route(
            name="search",
            match=Match(model="agent", server_tool="web_search"),
            to=("chat/*", "vendor/plain"),
        ),
        Route(name="agent", match=Match(model="agent"), to=("chat/plain",)),
    )
    routes += tuple(Route(name=name, match=Match(model=name), to=(target(name),)) for name in HOSTS)
    routes += tuple(
        Route(name=name, match=Match(model=name), to=(to,)) for name, to in PAINTERS.items()
    )
    return with_hosts(
        structs.replace(
            plain,
            upstreams={**plain.upstreams, "vendor": vendor},
            routes=(*routes, *plain.routes),
        )
    )


@pytest.fixture(scope="module")
def gateway() -> Iterator[Stand]:
    with stand(make) as found:
        yield found


def request_line(gateway: Stand, request_id: str) -> dict[str, Any]:
    """Return the line of a request in the log, which is written after the client has its answer."""
    for _ in range(200):
        for text in gateway.log.getvalue().splitlines():
            line = json.loads(text)
            if line.get("id") == request_id and "duration_ms" in line:
                return line
        time.sleep(0.01)
    raise AssertionError(f"no line of {request_id}")


def question(client: str, model: str, *, stream: bool) -> dict[str, Any]:
    said = [{"role": "user", "content": "Perform a web search for the query: news"}]
    body: dict[str, Any] = {"model": model, "stream": stream, "tools": [SEARCH[client]]}
    if client == "anthropic":
        return body | {"max_tokens": 9_000, "messages": said, "tool_choice": {"type": "auto"}}
    return body | {"input": said, "tool_choice": "auto"}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("upstream", FIXED_PATHS)
@pytest.mark.parametrize("client", [*SEARCH])
def test_nobody_is_asked_for_a_search_that_nobody_runs(
    gateway: Stand, client: str, upstream: str, stream: bool
) -> None:
    before = len(gateway.simulator.exchanges)
    got = post(gateway, client, question(client, f"{upstream}/plain", stream=stream))

    assert 400 == got.status_code
    error = got.json()["error"]
    assert "needs the tool `web_search`" in error["message"]
    assert "use a model whose provider does" in error["message"]
    assert "invalid_request_error" == error["type"]
    assert before == len(gateway.simulator.exchanges)


def test_the_next_upstream_of_the_route_that_runs_it_is_asked(gateway: Stand) -> None:
    got = post(gateway, "anthropic", question("anthropic", "both/plain", stream=False))

    assert 200 == got.status_code
    assert "/v1/messages" == gateway.simulator.exchanges[-1].path
    assert [SEARCH["anthropic"]] == gateway.simulator.exchanges[-1].json["tools"]


# --- routes that ask for vendor-run tools ---------------------------------------------------------------


def routed(url: str) -> Settings:
    """Requests that need a search go to Anthropic, those that offer one to a Chat upstream."""
    plain = make(url)
    search = Route(name="search", match=Match(server_tool="web_search"), to=("vendor/*",))
    offers = Route(name="offers", match=Match(offers_server_tool="web_search"), to=("chat/*",))
    rest = Route(name="rest", to=("anthropic/*",))
    return structs.replace(plain, routes=(search, offers, rest))


@pytest.fixture(scope="module")
def by_tool() -> Iterator[Stand]:
    with stand(routed) as found:
        yield found


FUNCTION = {"name": "run", "input_schema": {"type": "object"}}


@pytest.mark.parametrize(
    ("tools", "choice", "route"),
    [
        ([SEARCH["anthropic"]], {"type": "auto"}, "search"),
        ([SEARCH["anthropic"]], {"type": "tool", "name": "web_search"}, "search"),
        ([FUNCTION, SEARCH["anthropic"]], {"type": "tool", "name": "web_search"}, "search"),
        ([FUNCTION, SEARCH["anthropic"]], {"type": "auto"}, "offers"),
        ([FUNCTION], {"type": "auto"}, "rest"),
    ],
)
def test_routes_match_what_a_request_needs_or_offers(
    by_tool: Stand, tools: list[Any], choice: dict[str, Any], route: str
) -> None:
    body = question("anthropic", "kimi-k2", stream=False)
    got = post(by_tool, "anthropic", body | {"tools": tools, "tool_choice": choice})

    assert 200 == got.status_code
    assert route == got.headers["x-dragoman-route"]


def test_an_agent_that_declares_a_search_of_the_cache_stays_on_its_route(gateway: Stand) -> None:
    """Codex declares it in every request."""
    cached = {"type": "web_search", "external_web_access": False}
    run = {"type": "function", "name": "run", "parameters": {"type": "object"}}
    body = question("responses", "agent", stream=False) | {"tools": [run, cached]}

    assert "agent" == post(gateway, "responses", body).headers["x-dragoman-route"]


def test_a_target_that_cannot_is_no_fallback(gateway: Stand) -> None:
    """The failure of the upstream that can is reported: the client may try again."""
    before = len(gateway.simulator.exchanges)
    got = post(gateway, "anthropic", question("anthropic", "failing/plain", stream=False))

    assert got.status_code >= 500
    assert "web_search" not in got.json()["error"]["message"]
    assert ["/v1/messages"] == [one.path for one in gateway.simulator.exchanges[before:]]


def test_a_refusal_names_what_to_configure_once(gateway: Stand) -> None:
    got = post(gateway, "anthropic", question("anthropic", "neither/plain", stream=True))

    assert 400 == got.status_code
    assert 1 == got.json()["error"]["message"].count('match = { server_tool = "web_search" }')


def test_targets_that_take_turns_are_asked_only_if_they_can(gateway: Stand) -> None:
    before = len(gateway.simulator.exchanges)
    for _ in range(4):
        got = post(gateway, "anthropic", question("anthropic", "turns/plain", stream=False))
        assert 200 == got.status_code

    assert {"/v1/messages"} == {one.path for one in gateway.simulator.exchanges[before:]}


def unforced(way: str, host: str) -> bool:
    """Return whether the host has no word for a search that is forced beside functions: one may be called first."""
    if not way.endswith("beside") or (way, host) == (
        "responses-forced-beside",
        "host-responses-xai",
    ):
        return False  # the client's own choice is forwarded
    return not HOSTS[host].forces or HOSTS[host].dialect in UNFORCED_DIALECTS.get(way, ())


@pytest.mark.parametrize("way", [*WAYS])
@in_one_test
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("host", [*HOSTS])
def test_no_request_that_needs_a_search_is_answered_without_one(
    gateway: Stand, way: str, host: str, stream: bool
) -> None:
    """Every way to ask, over upstreams of every shape: sources arrive, or a warning or a refusal does."""
    client, fields, needs = WAYS[way]
    before = len(gateway.simulator.exchanges)
    body = small_question(client, host, "What is the news?", stream=stream) | fields
    got = post(gateway, client, body)
    line = request_line(gateway, got.headers["x-request-id"])

    if not needs:
        assert 200 == got.status_code, got.text
        assert "run" in got.text
        dropped = "server_tool_dropped" in line.get("warnings", ())
        assert dropped == (host == WITHOUT_SEARCH)
    elif host == WITHOUT_SEARCH:
        assert 400 == got.status_code
        assert 'match = { server_tool = "web_search" }' in got.json()["error"]["message"]
        assert before == len(gateway.simulator.exchanges)
        assert "searches" not in line
    elif unforced(way, host):
        assert ["run"] == line["call_names"]
        assert "tool_calls" == line["ended"]
        assert "searches" not in line
    elif not HOSTS[host].shows:
        assert 200 == got.status_code, got.text
        # An answer that calls a function may search in the next one.
        assert ("server_tool_unused" in line["warnings"]) != (line["ended"] == "tool_calls")
        assert "searches" not in line
    else:
        assert 200 == got.status_code, got.text
        assert HOSTS[host].sources == (SOURCE in got.text)
        assert PLACES[client] in got.text or not HOSTS[host].sources
        assert 1 == line["searches"]


@pytest.mark.parametrize("host", [*HOSTS])
@pytest.mark.parametrize(
    "fields",
    [
        {
            "tool_choice": {"type": "tool", "name": "web_search"},
            "thinking": {"type": "disabled"},
            "max_tokens": 64_000,
        },
        {"tool_choice": {"type": "auto"}, "max_tokens": 32_000},
    ],
    ids=["known as Claude", "other name"],
)
def test_claude_code_reads_links_text_and_the_count_of_its_web_search(
    gateway: Stand, fields: dict[str, Any], host: str
) -> None:
    """WebSearch's request as Claude Code 2.1.197 sends it; it takes links from result blocks alone."""
    query = "Perform a web search for the query: weather in Oslo today"
    tool = {**SEARCH["anthropic"], "allowed_domains": ["example.org"]}
    body = fields | {
        "model": host,
        "messages": [{"role": "user", "content": [{"type": "text", "text": query}]}],
        "system": [{"type": "text", "text": "You search the web."}],
        "tools": [tool],
        "output_config": {"effort": "high"},
        "stream": True,
    }
    got = post(gateway, "anthropic", body)

    if host == WITHOUT_SEARCH:
        assert (400, "invalid_request_error") == (
            got.status_code,
            got.json()["error"]["type"],
        )
        return
    events = [json.loads(one[6:]) for one in got.text.splitlines() if one.startswith("data: ")]
    deltas = [one["delta"] for one in events if one["type"] == "content_block_delta"]
    assert "weather in Oslo today" in "".join(one.get("text", "") for one in deltas)
    (usage,) = (one["usage"] for one in events if one["type"] == "message_delta")
    assert HOSTS[host].shows == ("server_tool_use" in usage)
    if not HOSTS[host].shows:
        return
    assert 1 == usage["server_tool_use"]["web_search_requests"]
    blocks = [one["content_block"] for one in events if one["type"] == "content_block_start"]
    (found,) = (one["content"] for one in blocks if one["type"] == "web_search_tool_result")
    if not HOSTS[host].sources:
        assert [] == found
        return
    assert "https://source1.example/perform-a-web-search" == found[0]["url"]
    assert found[0]["title"]


# --- images -------------------------------------------------------------------------------------------

PROMPT = "A red square"
IMAGE = SimulatedImage(PROMPT).data
# How clients ask for an image.  Messages has no words for it, and a Gemini client's are refused: these two get one
# that the model makes unasked.
IMAGE_WISHES: dict[str, tuple[str, dict[str, Any]]] = {
    "responses": (PROMPT, {"tools": [{"type": "image_generation"}]}),
    "chat": (PROMPT, {"tools": [{"type": "openrouter:image_generation"}]}),
    "gemini": (f"sim: image {PROMPT}\nsim: say You said: so.", {}),
    "anthropic": (f"sim: image {PROMPT}\nsim: say You said: so.", {}),
}


@in_one_test
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("host", PAINTERS)
@pytest.mark.parametrize("client", IMAGE_WISHES)
def test_an_image_reaches_every_client_that_has_a_place_for_it(
    gateway: Stand, client: str, host: str, stream: bool
) -> None:
    text, fields = IMAGE_WISHES[client]
    got = post(gateway, client, small_question(client, host, text, stream=stream) | fields)
    line = request_line(gateway, got.headers["x-request-id"])

    assert (200, 1) == (got.status_code, line["images"]), got.text
    read = accumulate(client, got.content) if stream else parse_body(client, got.content)
    assert "You said: " in json.dumps(read)
    lost = "server_block_dropped" in line.get("warnings", ())
    assert (client == "anthropic") == lost
    assert ([] if lost else [IMAGE]) == images_read(client, read)


def images_read(client: str, answer: dict[str, Any]) -> list[str]:
    """Return the images that the SDK of the client's vendor finds in an answer, where it looks for them."""
    match client:
        case "responses":
            return [one["result"] for one in answer["output"] if "result" in one]
        case "chat":
            images = answer["choices"][0]["message"]["images"]
            return [one["image_url"]["url"].partition(",")[2] for one in images]
        case "gemini":
            parts = answer["candidates"][0]["content"]["parts"]
            found = [one["inlineData"]["data"] for one in parts if "inlineData" in one]
            return [one.replace("-", "+").replace("_", "/") for one in found]
        case _:
            return [one["type"] for one in answer["content"] if one["type"] != "text"]


# --- what a route allows ------------------------------------------------------------------------------

TOKEN = "planted-token-of-the-user"
CACHED = {"type": "web_search", "external_web_access": False}
MCP_MESSAGES = {
    "max_tokens": 900,
    "messages": [{"role": "user", "content": "What do my notes say?"}],
    "mcp_servers": [
        {"type": "url", "name": "notes", "url": "https://mcp.example", "authorization_token": TOKEN}
    ],
    "tools": [{"type": "mcp_toolset", "mcp_server_name": "notes"}],
}
MCP_RESPONSES = {
    "input": "What do my notes say?",
    "tools": [
        {
            "type": "mcp",
            "server_label": "notes",
            "server_url": "https://mcp.example",
            "headers": {"X-Notes": TOKEN},
            "authorization": TOKEN,
            "require_approval": "never",
        }
    ],
}
TRUSTED = RouteServerTools(mcp=True, cached_search="live")


@pytest.fixture(scope="module")
def allowing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Stand, Path]]:
    """One route that allows everything, and one that allows nothing, to two vendors; all is recorded."""
    folder = tmp_path_factory.mktemp("recordings")

    def settings(url: str) -> Settings:
        plain = settings_for(url)
        vendors = {
            "a": structs.replace(plain.upstreams["anthropic"], profile="anthropic"),
            "r": structs.replace(plain.upstreams["responses"], profile="openai"),
        }
        routes = tuple(
            Route(
                name=f"{word}-{name}",
                match=Match(model=f"{word}-{name}"),
                to=(f"{name}/plain",),
                server_tools=tools,
            )
            for name in vendors
            for word, tools in (("trusted", TRUSTED), ("plain", RouteServerTools()))
        )
        return structs.replace(
            plain,
            upstreams={**plain.upstreams, **vendors},
            routes=routes,
            record=Record(dir=str(folder)),
        )

    with stand(settings) as found:
        yield found, folder


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_route_hands_credentials_to_another_vendor_only_if_it_allows_that(
    allowing: tuple[Stand, Path], stream: bool
) -> None:
    gateway, _ = allowing
    before = len(gateway.simulator.exchanges)
    asked = {**MCP_MESSAGES, "stream": stream}
    refused = post(gateway, "anthropic", {**asked, "model": "plain-r"})
    between = len(gateway.simulator.exchanges)
    allowed = post(gateway, "anthropic", {**asked, "model": "trusted-r"})

    assert 400 == refused.status_code
    assert "server_tools = { mcp = true }" in refused.json()["error"]["message"]
    assert before == between
    assert 200 == allowed.status_code
    assert "mcp_tool_result" in allowed.text
    (tool,) = gateway.simulator.exchanges[-1].json["tools"]
    assert TOKEN == tool["authorization"]


def test_anthropic_gets_the_header_of_its_beta_with_servers_of_other_clients(
    allowing: tuple[Stand, Path],
) -> None:
    gateway, _ = allowing
    servers = [{**MCP_RESPONSES["tools"][0], "headers": None}]  # type: ignore[index]
    got = post(gateway, "responses", {**MCP_RESPONSES, "tools": servers, "model": "trusted-a"})
    sent = gateway.simulator.exchanges[-1]

    assert 200 == got.status_code
    assert "mcp_call" in [one["type"] for one in got.json()["output"]]
    assert TOKEN == sent.json["mcp_servers"][0]["authorization_token"]
    assert "mcp-client-2025-11-20" == sent.headers["anthropic-beta"]


def test_a_search_of_the_cache_is_live_only_if_the_route_allows_that(
    allowing: tuple[Stand, Path],
) -> None:
    """Codex declares such a search in every request."""
    gateway, _ = allowing
    asked = {"input": "Hello", "tools": [RUN_IN_RESPONSES, CACHED]}
    kinds: dict[str, list[str]] = {}
    for model in ("plain-a", "trusted-a"):
        assert 200 == post(gateway, "responses", {**asked, "model": model}).status_code
        tools = gateway.simulator.exchanges[-1].json["tools"]
        kinds[model] = [one.get("type", one["name"]) for one in tools]

    assert {"plain-a": ["run"], "trusted-a": ["run", "web_search_20250305"]} == kinds


def test_credentials_for_mcp_servers_are_neither_logged_nor_recorded(
    allowing: tuple[Stand, Path],
) -> None:
    gateway, folder = allowing
    bodies = {"anthropic": MCP_MESSAGES, "responses": MCP_RESPONSES}
    models = ("plain-a", "plain-r", "trusted-a", "trusted-r")
    ids = [
        post(gateway, client, {**body, "model": model, "stream": True}).headers["x-request-id"]
        for client, body in bodies.items()
        for model in models
    ]
    for one in ids:
        request_line(gateway, one)
    for _ in range(500):
        texts = [one.read_text("utf-8") for one in folder.iterdir()]
        if sum('"line":"outcome"' in text for text in texts) >= len(ids):
            break
        time.sleep(0.01)

    assert len(texts) >= len(ids)
    assert TOKEN not in gateway.log.getvalue()
    assert [] == [text for text in texts if TOKEN in text]
    assert any("mcp.example" in text for text in texts)
