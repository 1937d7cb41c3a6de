"""A request that needs a vendor-run tool goes to an upstream that runs it, or is refused before anyone is asked."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway.config.settings import Match, Route, Settings
from tests.support.asking import post
from tests.support.gateway import DIALECTS, Stand, settings_for, stand

SEARCH: dict[str, dict[str, Any]] = {
    "anthropic": {"type": "web_search_20250305", "name": "web_search", "max_uses": 8},
    "responses": {"type": "web_search"},
}


def make(url: str) -> Settings:
    """One upstream of each dialect of unknown kind, and Anthropic behind one of them as a fallback."""
    plain = settings_for(url)
    vendor = structs.replace(plain.upstreams["anthropic"], profile="anthropic")
    fallback = Route(name="both", match=Match(model="both/*"), to=("chat/*", "vendor/*"))
    return structs.replace(
        plain,
        upstreams={**plain.upstreams, "vendor": vendor},
        routes=(fallback, *plain.routes),
    )


@pytest.fixture(scope="module")
def gateway() -> Iterator[Stand]:
    with stand(make) as found:
        yield found


def question(client: str, model: str, *, stream: bool) -> dict[str, Any]:
    said = [{"role": "user", "content": "Perform a web search for the query: news"}]
    body: dict[str, Any] = {"model": model, "stream": stream, "tools": [SEARCH[client]]}
    if client == "anthropic":
        return body | {"max_tokens": 9_000, "messages": said, "tool_choice": {"type": "auto"}}
    return body | {"input": said, "tool_choice": "auto"}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("upstream", DIALECTS)
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
