"""Counting tokens: by the upstream, by its tokenizer, or by an estimate that learns and says what it is."""

from typing import Any

import anthropic
import pytest
from msgspec import structs

from dragoman.gateway.config.settings import Settings, Upstream
from tests.support.gateway import Stand, settings_for, stand
from tests.support.simulator import WEATHER, declared
from tests.support.talks import Sdks

COUNTED = {"anthropic": "/v1/messages/count_tokens", "responses": "/v1/responses/input_tokens"}


def make(url: str) -> Settings:
    def chat(**more: Any) -> Upstream:
        return Upstream(base_url=f"{url}/v1", retries=0, models=("plain",), **more)

    plain = settings_for(url)
    more = {
        "vllm": chat(profile="vllm"),
        "off": chat(count_tokens="off"),
        "mute": Upstream(base_url=f"{url}/nowhere", dialect="anthropic", retries=0),
        "estimated": chat(dialect="anthropic", count_tokens="estimate"),
    }
    return structs.replace(plain, upstreams={**plain.upstreams, **more}, routes=())


@pytest.fixture(scope="module")
def counting() -> Stand:
    with stand(make) as found:
        yield found


@pytest.fixture(scope="module")
def clients(counting: Stand) -> Sdks:
    with Sdks(counting.url) as found:
        yield found


def count(clients: Sdks, model: str, text: str = "How many words are there?", **more: Any):
    """Count with the Messages SDK; return the number and how it was found."""
    turns = [{"role": "user", "content": text}]
    got = clients.anthropic.messages.with_raw_response.count_tokens(
        model=model, messages=turns, **more
    )
    return got.parse().input_tokens, got.headers.get("x-dragoman-token-count", "counted")


def used(clients: Sdks, model: str, text: str = "How many words are there?", **more: Any) -> int:
    """Return how many tokens the upstream reports for the same request."""
    turns = [{"role": "user", "content": text}]
    return clients.anthropic.messages.create(
        model=model, messages=turns, max_tokens=1000, **more
    ).usage.input_tokens


TOOLS = [declared("anthropic", WEATHER)]
SYSTEM = "You are careful. " * 50


@pytest.mark.parametrize("upstream", ["anthropic", "responses", "vllm"])
@pytest.mark.parametrize(
    "more", [{}, {"system": SYSTEM, "tools": TOOLS}], ids=["bare", "with system and tools"]
)
def test_h3_upstream_that_can_count_is_asked(
    counting: Stand, clients: Sdks, upstream: str, more: Any
) -> None:
    counted = count(clients, f"{upstream}/plain", **more)
    path = counting.simulator.exchanges[-1].path

    assert COUNTED.get(upstream, "/tokenize") == path
    assert (used(clients, f"{upstream}/plain", **more), "counted") == counted


@pytest.mark.parametrize("upstream", ["anthropic", "responses"])
def test_h3_responses_sdk_counts_too(counting: Stand, clients: Sdks, upstream: str) -> None:
    given = {"model": f"{upstream}/plain", "input": "How many?", "instructions": SYSTEM}
    counted = clients.openai.responses.input_tokens.count(**given)
    path = counting.simulator.exchanges[-1].path
    response = clients.openai.responses.create(**given)

    assert COUNTED[upstream] == path
    assert response.usage.input_tokens == counted.input_tokens
    assert "response.input_tokens" == counted.object


@pytest.mark.parametrize("upstream", ["chat", "mute", "estimated"])
def test_h3_estimate_is_marked_as_one_and_counts_everything(clients: Sdks, upstream: str) -> None:
    bare, how = count(clients, f"{upstream}/plain")
    full, _ = count(clients, f"{upstream}/plain", system=SYSTEM, tools=TOOLS)
    least, _ = count(clients, f"{upstream}/plain", text=".")

    assert "estimated" == how
    assert 1 <= least < bare < 40
    assert bare + 200 < full < bare + 600


def test_h3_estimate_learns_from_what_upstreams_report(clients: Sdks) -> None:
    model = "chat/learned"
    text = "internationalisation and localisation of documentation " * 40
    reported = used(clients, "chat/not-learned", text)
    before, _ = count(clients, model, text)
    for _ in range(30):
        used(clients, model, text)
    after, how = count(clients, model, text)

    assert "estimated" == how
    assert abs(after - reported) < abs(before - reported)
    assert abs(after - reported) <= 0.05 * reported + 2


def test_h3_stream_begins_with_an_estimate_and_ends_with_the_count(clients: Sdks) -> None:
    text = "a few words and some more of them"
    with clients.anthropic.messages.stream(
        model="chat/plain", messages=[{"role": "user", "content": text}], max_tokens=1000
    ) as stream:
        first = next(iter(stream)).message.usage.input_tokens
        last = stream.get_final_message().usage.input_tokens

    assert first > 0
    assert used(clients, "chat/plain", text) == last


def test_counting_that_is_switched_off_is_not_there(clients: Sdks) -> None:
    with pytest.raises(anthropic.NotFoundError) as caught:
        count(clients, "off/plain")

    assert "not_found_error" == caught.value.body["error"]["type"]
