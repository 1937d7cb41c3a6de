"""Rate-limit headers of an upstream, under the names that the client knows."""

import pytest

from dragoman.dialects import dialect
from dragoman.gateway import headers as response_headers

OPENAI = {
    "x-ratelimit-limit-requests": "60",
    "x-ratelimit-remaining-tokens": "149984",
    "x-ratelimit-reset-requests": "6m0s",
}
ANTHROPIC = {
    "anthropic-ratelimit-requests-limit": "60",
    "anthropic-ratelimit-tokens-remaining": "149984",
    "anthropic-ratelimit-requests-reset": "2026-01-01T00:00:00Z",
    "anthropic-ratelimit-input-tokens-limit": "9",
}


def rate_limits(headers, *, upstream, client):
    return response_headers.rate_limits(headers, upstream=dialect(upstream), client=dialect(client))


SAME = ["anthropic-ratelimit-requests-limit", "anthropic-ratelimit-tokens-remaining"]


@pytest.mark.parametrize(
    ("upstream", "client", "headers"),
    [
        ("chat", "chat", OPENAI),
        ("chat", "responses", OPENAI),
        ("responses", "chat", OPENAI),
        ("anthropic", "anthropic", ANTHROPIC),
    ],
)
def test_a_client_that_knows_the_names_gets_all(upstream, client, headers) -> None:
    reported = rate_limits({**headers, "server": "x"}, upstream=upstream, client=client)

    assert headers == reported


def test_numbers_change_their_names_and_times_stay_behind() -> None:
    to_messages = rate_limits(OPENAI, upstream="chat", client="anthropic")
    to_chat = rate_limits(ANTHROPIC, upstream="anthropic", client="chat")

    assert {SAME[0]: "60", SAME[1]: "149984"} == to_messages
    assert {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-tokens": "149984",
    } == to_chat


def test_names_of_another_vendor_and_long_values_are_dropped() -> None:
    assert {} == rate_limits(ANTHROPIC, upstream="chat", client="anthropic")
    long = {"x-ratelimit-limit-requests": "9" * 65}
    assert {} == rate_limits(long, upstream="chat", client="chat")
    many = {f"x-ratelimit-{number}": "1" for number in range(99)}
    assert 32 == len(rate_limits(many, upstream="chat", client="chat"))
