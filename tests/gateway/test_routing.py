"""Where requests go and what is changed in them on the way, seen by the upstream."""

from typing import Any

import pytest

from dragoman.gateway.config.settings import Match, ModelFacts, Route, Secret, Settings, Upstream
from tests.support.asking import post
from tests.support.gateway import DIALECTS, Stand, settings_for, stand
from tests.support.received import Json
from tests.support.simulator import WEATHER, question
from tests.support.talks import Sdks

IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


def routes() -> tuple[Route, ...]:
    return (
        Route(name="named", match=Match(model="my-*-model"), to=("chat/by-glob",)),
        Route(name="thinking", match=Match(model="pick", thinking=True), to=("chat/thinker",)),
        Route(name="images", match=Match(model="pick", images=True), to=("chat/seer",)),
        Route(name="long", match=Match(model="pick", tokens_above=5000), to=("chat/long",)),
        Route(
            name="header",
            match=Match(model="pick", header={"X-Team": "blue-*"}),
            to=("chat/blue",),
        ),
        Route(name="dialect", match=Match(model="pick", dialect="responses"), to=("chat/codex",)),
        Route(name="rest", match=Match(model="pick"), to=("chat/rest",)),
        Route(name="prefixed", match=Match(model="vendor-*"), to=("chat/their/*",)),
        Route(
            name="changed",
            match=Match(model="changed"),
            to=("chat/plain",),
            params={
                "temperature": 0.25,
                "max_tokens": {"max": 500},
                "top_p": "drop",
                "seed": {"default": 7},
                "stop": ["END"],
            },
            headers={"x-team": "route", "x-secret": Secret("env:S", "of-the-route")},
            body={"vendor_field": {"deep": [1, 2.50]}, "from_both": "route"},
        ),
        Route(
            name="same",
            match=Match(model="same-*"),
            to=("chat/plain", "chat/never"),
            params={"temperature": 0.25},
        ),
    )


def make(url: str) -> Settings:
    upstream = Upstream(
        base_url=f"{url}/v1",
        retries=0,
        headers={"X-Team": "upstream", "x-always": "yes"},
        body={"from_both": "upstream", "from_upstream": True},
    )
    return Settings(
        server=settings_for(url).server,
        upstreams={
            "chat": upstream,
            "messages": Upstream(base_url=f"{url}/v1", dialect="anthropic"),
        },
        routes=routes(),
        aliases={"gpt-5": "my-aliased-model", "gpt-*": "vendor-*", "nick": "chat/exact"},
        tiers={
            "haiku": ("chat/small",),
            "sonnet": ("chat/middle", "chat/small"),
            "opus": ("messages/large",),
        },
        models={"nick": ModelFacts(display="Nick", context=1000)},
    )


@pytest.fixture(scope="module")
def routed() -> Stand:
    with stand(make) as found:
        yield found


def sent(routed: Stand, dialect: str = "chat", **more: Any) -> tuple[str, Json]:
    """Ask, and return the route that the answer names and what the upstream received."""
    headers = more.pop("headers", {})
    answer = post(routed, dialect, question(dialect, stream=False, **more), headers=headers)
    body = routed.simulator.exchanges[-1].json

    assert 200 == answer.status_code, answer.text
    assert body["model"] == answer.headers["x-upstream-model"]
    return answer.headers["x-dragoman-route"], body


def pictured(dialect: str) -> list[Any]:
    if dialect == "chat":
        part = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}}
    else:
        source = {"type": "base64", "media_type": "image/png", "data": IMAGE}
        part = {"type": "image", "source": source}
    return [{"role": "user", "content": [part, {"type": "text", "text": "what is it?"}]}]


@pytest.mark.parametrize(
    ("dialect", "request_fields", "route", "model"),
    [
        ("chat", {"model": "my-small-model"}, "named", "by-glob"),
        ("chat", {"model": "MY-Other-Model"}, "named", "by-glob"),
        ("chat", {"model": "pick", "reasoning_effort": "high"}, "thinking", "thinker"),
        (
            "anthropic",
            {"model": "pick", "thinking": {"type": "enabled", "budget_tokens": 2000}},
            "thinking",
            "thinker",
        ),
        ("responses", {"model": "pick", "reasoning": {"effort": "low"}}, "thinking", "thinker"),
        ("anthropic", {"model": "pick", "thinking": {"type": "disabled"}}, "rest", "rest"),
        ("chat", {"model": "pick", "messages": pictured("chat")}, "images", "seer"),
        ("anthropic", {"model": "pick", "messages": pictured("anthropic")}, "images", "seer"),
        ("chat", {"model": "pick", "text": "many words " * 5000}, "long", "long"),
        ("chat", {"model": "pick", "headers": {"x-team": "blue-2"}}, "header", "blue"),
        ("chat", {"model": "pick", "headers": {"x-team": "red"}}, "rest", "rest"),
        ("responses", {"model": "pick"}, "dialect", "codex"),
        ("chat", {"model": "pick"}, "rest", "rest"),
        ("chat", {"model": "vendor-x1"}, "prefixed", "their/vendor-x1"),
        ("chat", {"model": "gpt-5"}, "named", "by-glob"),
        ("chat", {"model": "gpt-4o"}, "prefixed", "their/vendor-gpt-4o"),
        ("chat", {"model": "nick"}, "direct", "exact"),
        ("chat", {"model": "chat/of/its/own"}, "direct", "of/its/own"),
        ("anthropic", {"model": "claude-haiku-4-5-20251001"}, "tier-haiku", "small"),
        ("anthropic", {"model": "claude-3-5-sonnet-latest"}, "tier-sonnet", "middle"),
        ("chat", {"model": "opus"}, "tier-opus", "large"),
    ],
)
def test_request_goes_where_the_settings_say(
    routed: Stand, dialect: str, request_fields: Json, route: str, model: str
) -> None:
    named, body = sent(routed, dialect, **request_fields)

    assert (route, model) == (named, body["model"])


def test_opus_tier_speaks_messages_to_its_upstream(routed: Stand) -> None:
    sent(routed, "chat", model="claude-opus-4-5")

    assert "/v1/messages" == routed.simulator.exchanges[-1].path


@pytest.mark.parametrize("dialect", DIALECTS)
def test_params_of_a_route_override_what_the_client_sends(routed: Stand, dialect: str) -> None:
    limit = "max_output_tokens" if dialect == "responses" else "max_tokens"
    wishes: Json = {"temperature": 1, "top_p": 0.5, limit: 9000}
    if dialect == "gemini":
        settings = {"temperature": 1, "topP": 0.5, "maxOutputTokens": 9000}
        wishes = {"generationConfig": settings}
    _, body = sent(routed, dialect, model="changed", **wishes)

    assert (0.25, 500, 7) == (body["temperature"], body["max_tokens"], body["seed"])
    assert ["END"] == [*body["stop"]]
    assert "top_p" not in body


def test_bounds_and_defaults_leave_what_fits_them(routed: Stand) -> None:
    _, body = sent(routed, model="changed", max_tokens=20, seed=99)

    assert (20, 99) == (body["max_tokens"], body["seed"])


def test_override_of_a_relayed_request_leaves_the_rest_of_it_alone(routed: Stand) -> None:
    more = {"logit_bias": {"5": 1}, "temperature": 1.5, "n": 1}
    _, body = sent(routed, model="same-1", tools=[WEATHER], **more)

    assert 0.25 == body["temperature"]
    assert {"5": 1} == body["logit_bias"]
    assert WEATHER == body["tools"][0]["function"]


def test_headers_and_fields_of_upstream_and_route_are_added(routed: Stand) -> None:
    _, body = sent(routed, model="changed")
    headers = routed.simulator.exchanges[-1].headers

    assert ("route", "yes") == (headers["x-team"], headers["x-always"])
    assert "of-the-route" == headers["x-secret"]
    assert {"deep": [1, 2.5]} == body["vendor_field"]
    assert ("route", True) == (body["from_both"], body["from_upstream"])


def test_nothing_else_of_the_clients_headers_goes_upstream(routed: Stand) -> None:
    given = {
        "authorization": "Bearer of-the-client",
        "cookie": "a=b",
        "x-forwarded-for": "10.0.0.1",
        "user-agent": "an-agent/1",
        "x-stainless-lang": "python",
    }
    sent(routed, model="pick", headers=given)
    headers = routed.simulator.exchanges[-1].headers

    assert not {"authorization", "cookie", "x-forwarded-for", "x-stainless-lang"} & headers.keys()
    assert headers["user-agent"].startswith("dragoman/")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_unknown_model_is_reported_with_what_there_is(routed: Stand, dialect: str) -> None:
    answer = post(routed, dialect, question(dialect, "no-such", stream=True))

    assert 404 == answer.status_code
    error = answer.json()["error"]
    assert "no route for the model `no-such`" in error["message"]
    assert "`nick`" in error["message"]


def test_both_sdks_list_the_models_and_find_one(routed: Stand) -> None:
    with Sdks(routed.url) as sdks:
        openai_ids = {one.id for one in sdks.openai.models.list()}
        anthropic_ids = {one.id for one in sdks.anthropic.models.list()}
        paged = [one.id for one in sdks.anthropic.models.list(limit=2)]
        nick = sdks.anthropic.models.retrieve("nick")
        tier = sdks.openai.models.retrieve("claude-sonnet")

    assert {"nick", "gpt-5", "claude-haiku", "claude-sonnet", "claude-opus", "pick"} <= openai_ids
    assert openai_ids == anthropic_ids == {*paged}
    assert ("Nick", 1000) == (nick.display_name, nick.max_input_tokens)
    assert "chat" == tier.owned_by
