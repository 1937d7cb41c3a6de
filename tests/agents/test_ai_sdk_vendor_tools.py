"""MCP servers and images with the AI SDK, over providers of each shape; two turns each."""

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
from dragoman.simulator.play import SimulatedImage
from tests.agents.stage import Stage
from tests.support.gateway import Stand, settings_for, stand
from tests.support.search_hosts import target, with_hosts

PROGRAM = Path(__file__).parent / "node" / "vendor_tools.mjs"
PROMPTS = ("A red square", "A blue square")
# Which upstream each model is: those that call MCP servers, and those that make images.
CALLING = {
    "calls-messages": target("host-messages"),
    "calls-responses": target("host-responses"),
    "calls-xai": "host-responses-xai/grok-4",
    "calls-gemini": target("host-gemini"),
}
PAINTING = {
    "paints-responses": target("host-responses"),
    "paints-chat": target("host-openrouter"),
    "paints-gemini": "host-gemini/gemini-2.5-flash-image",
}


class Turns(NamedTuple):
    turns: list[dict[str, Any]]  # as the SDK read them
    asked: list[RecordedExchange]  # what the upstream received


def settings(url: str) -> Settings:
    routes = tuple(
        Route(name=name, match=Match(model=name), to=(to,))
        for name, to in (CALLING | PAINTING).items()
    )
    return structs.replace(with_hosts(settings_for(url)), routes=routes)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Stand]:
    with stand(settings) as both:
        yield both


@pytest.fixture(scope="module")
def ran(gateway: Stand, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Return what an SDK makes of each upstream; one process of a package asks all of them."""

    @cache
    def run(kind: str, sdk: str) -> dict[str, Turns]:
        stage = Stage(tmp_path_factory.mktemp(sdk))
        before = len(gateway.simulator.exchanges)
        models = CALLING if kind == "mcp" else PAINTING
        command = ["node", str(PROGRAM), kind, sdk, gateway.url, *models]
        ended = stage.run(command, {"DRAGOMAN_AGENTS": str(stage.installed)})
        assert 0 == ended.code, ended.said
        turns: dict[str, list[dict[str, Any]]] = defaultdict(list)
        for line in ended.out.splitlines():
            turn = json.loads(line)
            turns[turn["model"]].append(turn)
        asked = list(gateway.simulator.exchanges)[before:]
        assert 2 * len(models) == len(asked), ended.out
        return {
            name: Turns(turns[name], asked[2 * at : 2 * at + 2]) for at, name in enumerate(models)
        }

    return run


@pytest.mark.parametrize("model", CALLING)
@pytest.mark.parametrize("sdk", ["messages", "responses"])  # the others have no MCP servers
def test_the_sdk_reads_the_calls_of_mcp_servers_in_two_turns(
    ran: Any, sdk: str, model: str
) -> None:
    found = ran("mcp", sdk)[model].turns

    assert [None, None] == [one.get("error") for one in found]
    name = {"messages": "list_notes", "responses": "mcp.list_notes"}[sdk]
    for turn, prompt in zip(found, PROMPTS, strict=True):
        assert [{"name": name, "ran": True}] == turn["calls"]
        (returned,) = turn["results"]
        assert "list_notes of notes returned 3 notes." in json.dumps(returned)
        assert turn["text"].startswith(f"You said: {prompt}")


@pytest.mark.parametrize("model", PAINTING)
@pytest.mark.parametrize("sdk", ["responses", "gemini"])  # the others leave images out
def test_the_sdk_reads_the_images_of_two_turns(ran: Any, sdk: str, model: str) -> None:
    found = ran("image", sdk)[model].turns

    assert [None, None] == [one.get("error") for one in found]
    for turn, prompt in zip(found, PROMPTS, strict=True):
        data = SimulatedImage(prompt).data
        if sdk == "responses":
            assert [{"name": "image_generation", "ran": True}] == turn["calls"]
            assert [{"result": data}] == turn["results"]
        else:
            assert [{"type": "image/png", "data": data}] == turn["images"]
        assert turn["text"]


@pytest.mark.parametrize(
    ("kind", "sdk"),
    [("mcp", "messages"), ("mcp", "responses"), ("image", "responses"), ("image", "gemini")],
)
def test_nothing_that_was_made_here_reaches_a_vendor(ran: Any, kind: str, sdk: str) -> None:
    sent = [one.body for found in ran(kind, sdk).values() for one in found.asked]

    assert sent
    assert [] == [body for body in sent if b"dgm" in body]


def sent_back(ran: Any, kind: str, sdk: str, model: str) -> list[dict[str, Any]]:
    """Return the answer of the first turn as the upstream gets it in the second."""
    body: Any = ran(kind, sdk)[model].asked[1].json
    turns = body.get("messages") or body.get("contents") or body["input"]
    content = turns[1].get("content") or turns[1]["parts"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


@pytest.mark.parametrize("sdk", ["messages", "responses"])
def test_calls_of_mcp_servers_return_to_anthropic(ran: Any, sdk: str) -> None:
    call, result, text = sent_back(ran, "mcp", sdk, "calls-messages")

    assert ("mcp_tool_use", "notes") == (call["type"], call["server_name"])
    assert ("mcp_tool_result", call["id"]) == (result["type"], result["tool_use_id"])
    assert "text" == text["type"]


def test_calls_of_mcp_servers_return_to_google(ran: Any) -> None:
    call, result, _ = sent_back(ran, "mcp", "responses", "calls-gemini")

    assert call["toolCall"]["id"] == result["toolResponse"]["id"]
    assert {"about": "everything"} == call["toolCall"]["args"]["arguments"]


@pytest.mark.parametrize("model", ["calls-responses", "calls-gemini"])
def test_another_vendor_gets_the_calls_of_mcp_servers_as_text(ran: Any, model: str) -> None:
    texts = [one["text"] for one in sent_back(ran, "mcp", "messages", model)]

    assert "[mcp result: list_notes of notes returned 3 notes.]" in texts


def test_an_image_returns_to_google(ran: Any) -> None:
    _, image = sent_back(ran, "image", "gemini", "paints-gemini")

    assert SimulatedImage(PROMPTS[0]).data == image["inlineData"]["data"]


@pytest.mark.parametrize("model", ["paints-responses", "paints-chat"])
def test_another_vendor_reads_that_there_was_an_image(ran: Any, model: str) -> None:
    texts = [one["text"] for one in sent_back(ran, "image", "gemini", model)]

    assert "[an image of type image/png]" in "".join(texts)
