"""Reasoning for clients that do not send it back, and what happens where it cannot be had."""

import json
from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway.config.settings import Settings, Store, Upstream
from tests.support.asking import post
from tests.support.gateway import Stand, settings_for, stand
from tests.support.odd_upstream import odd_upstream
from tests.support.received import received
from tests.support.simulator import WEATHER, question
from tests.support.talks import ForgetfulChatTalk, Sdks
from tests.support.waiting import until

PROFILES = {"chat": "deepseek", "anthropic": "anthropic", "responses": "openai"}
upstreams = pytest.mark.parametrize("upstream", [*PROFILES])
ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


def make(url: str, **changes: Any) -> Settings:
    plain = settings_for(url)
    upstreams = {
        name: structs.replace(one, profile=PROFILES.get(name, one.profile))
        for name, one in plain.upstreams.items()
    }
    return structs.replace(plain, upstreams=upstreams, **changes)


@pytest.fixture(scope="module")
def vendors() -> Stand:
    with stand(make) as found:
        yield found


def loop(found: Stand, upstream: str, *, stream: bool, rounds: int = 3) -> list[Any]:
    """Let a client that forgets reasoning call tools; return what the upstream received each time."""
    with Sdks(found.url) as sdks:
        talk = ForgetfulChatTalk(
            sdks.openai,
            f"{upstream}/plain+think+parallel:2",
            stream=stream,
            tools=(WEATHER,),
            reasoning_effort="high",
        )
        seen = []
        for number in range(rounds):
            said = talk.ask(f"How is it in Ulm? {number} {stream}")
            talk.answer(said, "sunny", "warm")
            seen.append(received(found.simulator.exchanges[-1]))
    return seen


@upstreams
@ways
def test_upstream_gets_the_reasoning_that_its_client_dropped(
    vendors: Stand, upstream: str, stream: bool
) -> None:
    seen = loop(vendors, upstream, stream=stream)

    # One thought before the calls of each round; what followed the results called nothing.
    assert [1, 2, 3] == [len(one.reasoning) for one in seen]
    assert [
        f"How is it in Ulm? {number} {stream}" in text
        for number, text in enumerate(seen[-1].reasoning)
    ] == [True] * 3
    if upstream != "chat":
        assert [1, 2, 3] == [len(one.state) for one in seen]
        assert seen[0].state == seen[1].state[:1] == seen[2].state[:1]
    # What was put in once stays where it is: prefix caches stay warm.
    assert seen[0].reasoning == seen[1].reasoning[:1] == seen[2].reasoning[:1]


@ways
def test_without_memory_a_signed_turn_goes_without_thinking_and_warns(stream: bool) -> None:
    def forgetful(url: str) -> Settings:
        return make(url, store=Store(reasoning_entries=0))

    with stand(forgetful) as found:
        (seen,) = loop(found, "anthropic", stream=stream, rounds=1)
        body = found.simulator.exchanges[-1].json
        until(lambda: "thinking_disabled_missing_blocks" in found.log.getvalue())

    assert ((), ()) == (seen.reasoning, seen.state)
    assert "enabled" not in str(body.get("thinking"))


# --- arguments --------------------------------------------------------------------------------------


@ways
def test_arguments_that_a_messages_client_rewrote_return_as_the_upstream_wrote_them(
    stream: bool,
) -> None:
    written = '{ "city": "K\\u00f6ln",  "days": 2.0 }'
    function = {"name": "weather", "arguments": written}
    call = {"index": 0, "id": "call_1", "type": "function", "function": function}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    choice = {"index": 0, "delta" if stream else "message": message, "finish_reason": "tool_calls"}
    chunk = {"id": "c", "created": 1, "model": "m", "choices": [choice]}
    with odd_upstream() as odd:
        if stream:
            odd.streams(chunk, b"[DONE]")
        else:
            odd.answer_with(200, chunk)
        upstream = Upstream(base_url=f"{odd.url}/v1", dialect="chat")
        with stand(lambda url: settings_for(url, upstreams={"odd": upstream}, routes=())) as found:
            body = question("anthropic", "m", "rain?", tools=[WEATHER], stream=stream)
            post(found, "anthropic", body)
            use = {"type": "tool_use", "id": "call_1", "name": "weather"}
            use["input"] = {"days": 2, "city": "Köln"}
            result = {"type": "tool_result", "tool_use_id": "call_1", "content": "sun"}
            body["messages"] += [
                {"role": "assistant", "content": [use]},
                {"role": "user", "content": [result]},
            ]
            post(found, "anthropic", body)

    sent = json.loads(odd.asked[1].body)["messages"][-2]["tool_calls"][0]
    assert written == sent["function"]["arguments"]
