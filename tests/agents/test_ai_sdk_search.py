"""Web searches with the AI SDK, which validates every block, over providers of each shape; two turns each."""

import json
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec import structs

from dragoman.gateway.config.settings import Match, Route, Settings
from dragoman.simulator.exchanges import RecordedExchange
from tests.agents.stage import Stage
from tests.agents.talk import model_of
from tests.support.gateway import Stand, settings_for, stand
from tests.support.search_hosts import HOSTS, SEARCHING, target, with_hosts

PROGRAM = Path(__file__).parent / "node" / "search.mjs"
SDKS = ("messages", "responses", "chat", "gemini")
FIRST, SECOND = "https://source1.example/oslo-weather", "https://source1.example/and-tomorrow"
NAME = "gemini-3-"  # its package for Google leaves the search out for models with other names


class Turns(NamedTuple):
    turns: list[dict[str, Any]]  # as the SDK read them
    asked: list[RecordedExchange]  # what the host received


def settings(url: str) -> Settings:
    routes = tuple(
        Route(name=name, match=Match(model=f"{NAME}{name}"), to=(target(name),)) for name in HOSTS
    )
    return structs.replace(with_hosts(settings_for(url)), routes=routes)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Stand]:
    with stand(settings) as both:
        yield both


@pytest.fixture(scope="module")
def searched(gateway: Stand, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what each SDK makes of each host; one process of a package asks all of them."""

    @cache
    def run(sdk: str) -> dict[str, Turns]:
        stage = Stage(tmp_path_factory.mktemp(sdk))
        before = len(gateway.simulator.exchanges)
        models = [f"{NAME}{name}" for name in SEARCHING]
        command = ["node", str(PROGRAM), sdk, gateway.url, *models]
        ran = stage.run(command, {"DRAGOMAN_AGENTS": str(stage.installed)})
        assert 0 == ran.code, ran.said
        turns: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in ran.out.splitlines():
            turn = json.loads(line)
            turns[turn["model"].removeprefix(NAME)].append(turn)
        asked = list(gateway.simulator.exchanges)[before:]
        return {
            name: Turns(found, [one for one in asked if model_of(one) == HOSTS[name].model])
            for name, found in turns.items()
        }

    return run


@pytest.mark.parametrize("host", SEARCHING)
@pytest.mark.parametrize("sdk", SDKS)
def test_the_sdk_reads_the_sources_of_two_turns(searched: Any, sdk: str, host: str) -> None:
    found = searched(sdk)[host]

    assert [None, None] == [one.get("error") for one in found.turns]
    assert len(found.asked) == (4 if host == "host-moonshot" else 2)
    for turn, link, text in zip(
        found.turns, (FIRST, SECOND), ("Oslo weather?", "And tomorrow?"), strict=True
    ):
        assert turn["text"].startswith(f"You said: {text}")
        shown = json.dumps([turn["sources"], turn.get("output")])
        assert HOSTS[host].sources == (link in shown)
        ran = [one["name"] for one in turn["calls"]]
        assert all(one["ran"] for one in turn["calls"])
        if sdk in ("messages", "responses"):  # the others have no blocks for a call
            assert (["web_search"] if HOSTS[host].shows else []) == ran
        assert all(one["url"] and one["title"] for one in turn["sources"])


@pytest.mark.parametrize("sdk", SDKS)
def test_nothing_that_was_made_here_reaches_a_vendor(searched: Any, sdk: str) -> None:
    sent = [one.body for found in searched(sdk).values() for one in found.asked]

    assert sent
    assert [] == [body for body in sent if b"dgm" in body]


def items(exchange: RecordedExchange) -> list[dict[str, Any]]:
    body: Any = exchange.json
    return [one for one in body["input"] if one["type"] == "web_search_call"]


@pytest.mark.parametrize("host", ["host-responses", "host-responses-xai", "host-responses-qwen"])
def test_items_return_to_their_vendor(searched: Any, host: str) -> None:
    """Through a Messages client, in an envelope that only this gateway opens."""
    (item,) = items(searched("messages")[host].asked[1])

    assert item["id"].startswith("ws_")
    assert "Oslo weather?" == item["action"]["query"]
    assert FIRST == item["action"]["sources"][0]["url"]


def blocks(exchange: RecordedExchange) -> list[dict[str, Any]]:
    body: Any = exchange.json
    return [one for one in body["messages"][1]["content"] if isinstance(one, dict)]


@pytest.mark.parametrize("host", ["host-messages", "host-messages-deepseek"])
@pytest.mark.parametrize("sdk", ["messages", "responses"])
def test_encrypted_results_return_to_their_vendor(searched: Any, sdk: str, host: str) -> None:
    second = blocks(searched(sdk)[host].asked[1])

    assert ["server_tool_use", "web_search_tool_result", "text"] == [one["type"] for one in second]
    (result,) = (one["content"] for one in second if one["type"] == "web_search_tool_result")
    assert FIRST == result[0]["url"]
    assert result[0]["encrypted_content"].startswith("sim")
