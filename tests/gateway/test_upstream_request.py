"""The request that an upstream gets, at first and to continue an answer."""

from collections.abc import Iterator

import pytest
from msgspec import structs

from dragoman.gateway.config.settings import Server, Settings
from dragoman.limits import Limits
from tests.gateway.test_upstream_request_continuations import ASKED, Talk, each_way, make
from tests.support.gateway import Stand, stand


@pytest.fixture(scope="module")
def gateway() -> Iterator[Stand]:
    with stand(make) as found:
        yield found


def small(url: str) -> Settings:
    server = Server(port=0, limits=Limits(max_request_bytes=700))
    return structs.replace(make(url), server=server)


@each_way
def test_a_continuation_that_is_too_large_is_not_sent(stream: bool) -> None:
    with stand(small) as gateway:
        talk = Talk(gateway, "chat", "claude/plain+pause:3", stream=stream)
        talk.read()

    assert 2 == len(talk.sent)
    assert "continuation_capped" in talk.line["warnings"]


@each_way
def test_each_continuation_repeats_the_request_and_adds_what_came(
    gateway: Stand, stream: bool
) -> None:
    talk = Talk(gateway, "responses", "kimi/plain+pause:2", stream=stream)
    talk.read()

    first, second, third = talk.sent
    assert first["messages"] == second["messages"][:1] == third["messages"][:1]
    assert second["messages"] == third["messages"][:3]
    assert [1, 3, 5] == [len(one["messages"]) for one in talk.sent]
    rest = [{k: v for k, v in one.items() if k != "messages"} for one in talk.sent]
    assert rest[0] == rest[1] == rest[2]


def test_the_parts_of_a_paused_turn_are_one_message(gateway: Stand) -> None:
    talk = Talk(gateway, "responses", "claude/plain+pause:2", f"sim: think Hm.\n{ASKED}")
    talk.read()

    assert ["user", "assistant"] == [one["role"] for one in talk.sent[2]["messages"]]
    kinds = [one["type"] for one in talk.sent[2]["messages"][1]["content"]]
    assert ["thinking", "server_tool_use", "web_search_tool_result", "server_tool_use"] == kinds


@pytest.mark.parametrize("client", ["chat", "anthropic"])
@pytest.mark.parametrize("effort", ["", "high"])
def test_moonshot_searches_without_thinking(gateway: Stand, client: str, effort: str) -> None:
    asked: dict[str, dict[str, object]] = {
        "chat": {"reasoning_effort": effort},
        "anthropic": {"output_config": {"effort": effort}},
    }
    talk = Talk(gateway, client, "kimi/plain", **(asked[client] if effort else {}))
    talk.read()

    assert [{"type": "disabled"}] * 2 == [one["thinking"] for one in talk.sent]
    assert all("reasoning_effort" not in one for one in talk.sent)
    assert bool(effort) == ("thinking_dropped" in talk.line["warnings"])


def test_a_tool_is_forced_once(gateway: Stand) -> None:
    """Else the model would have to search until a bound ends the answer."""
    talk = Talk(gateway, "responses", "claude/plain+pause:1", tool_choice="required")
    talk.read()

    assert "any" == talk.sent[0]["tool_choice"]["type"]
    assert {"type": "auto"} == talk.sent[1]["tool_choice"]
