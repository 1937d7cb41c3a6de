"""Web searches that agents ask the model's provider for, over providers of each shape."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway.config.settings import Match, Route, Settings
from dragoman.simulator.script import ScriptCall
from tests.agents.programs import ClaudeCode, Codex
from tests.agents.scenarios import assert_done
from tests.agents.stage import Stage
from tests.agents.talk import DONE, PROMPT, Says, Talk, model_of, scripted, talk_of
from tests.support.gateway import Stand, settings_for, stand
from tests.support.search_hosts import HOSTS, SEARCHING, target, with_hosts

MAIN = "main"  # the model of the conversation itself
# Claude Code forces the search of a model whose name it knows, and only offers it to others.
NAMES = {"forced": "claude-sonnet-4-5", "auto": "kimi-k2"}
LINK = "https://source1.example/perform-a-web-search"


def settings(url: str) -> Settings:
    """Requests that need a search go to one host after the other, all others to one model."""
    plain = settings_for(url)
    hosts = tuple(target(name) for name in SEARCHING)
    search = Match(server_tool="web_search")
    routes = (
        Route(name="search", match=search, to=hosts, choose="weighted"),
        Route(name="rest", to=(f"chat/{MAIN}",)),
    )
    return with_hosts(structs.replace(plain, routes=routes))


@contextmanager
def serving(says: list[Says]) -> Iterator[Stand]:
    with stand(settings, script=scripted(MAIN, says, 1)) as both:
        yield both


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_claude_codes_model_gets_links_text_and_count_of_every_vendor(
    stage: Stage, name: str
) -> None:
    """One run: the model searches once for each host, and the side requests go to the hosts in turn."""
    queries = [f"weather number {at}." for at, _ in enumerate(SEARCHING)]
    calls = tuple(ScriptCall(name="WebSearch", arguments={"query": one}) for one in queries)

    with serving([Says(calls=calls), Says(DONE)]) as both:
        start = ClaudeCode().start(stage, both.url, name, PROMPT)
        done = talk_of(both, MAIN, stage.run(start.command, start.environ))
        asked = {one.body: model_of(one) for one in both.simulator.exchanges}

    assert_done(done)
    results = dict(done.last.results)
    counts = search_counts(done)
    reached = set()
    for call_id, _, arguments in done.last.calls:
        query = arguments["query"]
        (model,) = {model for body, model in asked.items() if is_side(body, query)}
        (host,) = (one for one in SEARCHING if HOSTS[one].model == model)
        reached.add(host)
        text = results[call_id]
        assert f'Web search results for query: "{query}"' in text, host
        assert f"You said: Perform a web search for the query: {query}" in text, host
        assert HOSTS[host].sources == (LINK in text), (host, text)
        assert HOSTS[host].sources == ("Links: [{" in text), (host, text)
        assert int(HOSTS[host].shows) == counts[query], host
    assert set(SEARCHING) == reached


def is_side(body: bytes, query: str) -> bool:
    return f"for the query: {query}".encode() in body and b"WebSearch" not in body


def search_counts(done: Talk) -> dict[str, int]:
    """Return how many searches Claude Code reports for each query."""
    lines = [json.loads(line) for line in done.ran.out.splitlines()]
    found: list[dict[str, Any]] = [
        line["tool_use_result"] for line in lines if "tool_use_result" in line
    ]
    return {one["query"]: one["searchCount"] for one in found}


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
def test_a_search_that_nobody_runs_is_an_error_and_no_answer_from_memory(
    stage: Stage, name: str
) -> None:
    call = ScriptCall(name="WebSearch", arguments={"query": "the news of today"})

    with stand(settings_for, script=scripted(name, [Says(calls=(call,)), Says(DONE)], 1)) as both:
        start = ClaudeCode().start(stage, both.url, name, PROMPT)
        done = talk_of(both, name, stage.run(start.command, start.environ))

    assert_done(done)
    assert 2 == len(done.asked)  # the search itself was never asked of the model
    assert "needs the tool `web_search`" in done.last.results[0][1]
    assert "You said" not in done.ran.said


@pytest.mark.parametrize("host", ["host-messages", "host-compound"])
def test_codex_shows_the_search_of_a_vendor(stage: Stage, host: str) -> None:
    prompt = f"sim: search oslo\nsim: say {DONE}"

    with stand(lambda url: aliased(url, host)) as both:
        start = Codex().start(stage, both.url, "gpt-5.5", prompt)
        live = ["-c", 'web_search="live"']
        ran = stage.run([*start.command[:2], *live, *start.command[2:]], start.environ)
        done = talk_of(both, HOSTS[host].model, ran)

    assert_done(done)
    items = [json.loads(line).get("item", {}) for line in ran.out.splitlines()]
    assert "oslo" in [one.get("query") for one in items if one.get("type") == "web_search"]
    assert b"web_search" in done.asked[0].body


def aliased(url: str, host: str) -> Settings:
    route = Route(name="all", to=(target(host),))
    return structs.replace(with_hosts(settings_for(url)), routes=(route,))
