"""Where a request goes."""

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from dragoman.errors import ConfigError
from dragoman.gateway.config.settings import (
    FormatTable,
    Match,
    ModelFacts,
    ProfileChanges,
    Route,
    ServerToolName,
    Settings,
    TimeoutChanges,
    Timeouts,
    Upstream,
)
from dragoman.gateway.config.vendors import VENDORS, find_vendor, profile_for
from dragoman.gateway.routing import Question, Router
from dragoman.profiles import profile
from dragoman.turn.server_tools import ServerKind

ROUTER = Upstream(base_url="https://openrouter.ai/api/v1")
LOCAL = Upstream(base_url="http://127.0.0.1:8000/v1", profile="vllm")
TWO = {"openrouter": ROUTER, "local": LOCAL}


def router(*routes, upstreams=TWO, **tables):
    return Router(Settings(upstreams=upstreams, routes=routes, **tables))


def route(model="*", *to, **rest):
    conditions = {key: rest.pop(key) for key in list(rest) if key in Match.__struct_fields__}
    return Route(to=to, match=Match(model=model, **conditions), **rest)


def went(made, model, **facts):
    """Return the route's name and the targets, as the file writes them."""
    choice = made.choose(Question(model=model, **facts))
    if choice is None:
        return None
    return choice.route_name, [f"{hop.upstream_name}/{hop.model}" for hop in choice.hops]


# --- routes ---


def test_first_route_that_fits_wins():
    made = router(
        route("claude-*haiku*", "local/qwen3-coder-30b"),
        route("claude-*", "openrouter/moonshotai/kimi-k2-thinking", "local/glm-4.7", name="big"),
    )

    assert went(made, "claude-haiku-4-5") == ("route-1", ["local/qwen3-coder-30b"])
    assert went(made, "claude-opus-4-5") == (
        "big",
        ["openrouter/moonshotai/kimi-k2-thinking", "local/glm-4.7"],
    )
    assert went(made, "gpt-5") is None


@pytest.mark.parametrize(
    ("conditions", "facts", "fits"),
    [
        ({"thinking": True}, {"thinking": True}, True),
        ({"thinking": True}, {"thinking": False}, False),
        ({"thinking": False}, {"thinking": True}, False),
        ({"images": True}, {"images": True}, True),
        ({"images": True}, {}, False),
        ({"images": False}, {}, True),
        ({"server_tool": "web_search"}, {"needed": frozenset({ServerKind.WEB_SEARCH})}, True),
        ({"server_tool": "web_search"}, {"needed": frozenset({ServerKind.WEB_FETCH})}, False),
        ({"server_tool": "web_search"}, {}, False),
        ({"tokens_above": 1000}, {"tokens": 1001}, True),
        ({"tokens_above": 1000}, {"tokens": 1000}, False),
        ({"tokens_above": 0}, {"tokens": 1}, True),
        ({"dialect": "anthropic"}, {"dialect": "anthropic"}, True),
        ({"dialect": "anthropic"}, {"dialect": "chat"}, False),
        ({"header": {"X-Team": "red*"}}, {"headers": {"x-team": "RedOne"}}, True),
        ({"header": {"x-team": "red*"}}, {"headers": {"x-team": "blue"}}, False),
        ({"header": {"x-team": "*"}}, {"headers": {}}, False),
        ({"header": {"a": "*", "b": "1"}}, {"headers": {"a": "", "b": "1"}}, True),
        ({"header": {"a": "*", "b": "1"}}, {"headers": {"a": "", "b": "2"}}, False),
        ({"thinking": True, "images": True}, {"thinking": True, "images": True}, True),
        ({"thinking": True, "images": True}, {"thinking": True}, False),
    ],
)
def test_all_conditions_of_a_route_must_hold(conditions, facts, fits):
    made = router(route("m", "local/x", **conditions))

    assert (("route-1", ["local/x"]) if fits else None) == went(made, "m", **facts)


def test_the_model_is_a_condition_like_the_others():
    made = router(route("kimi*", "local/x", thinking=True))

    assert went(made, "glm", thinking=True) is None


@pytest.mark.parametrize(
    ("target", "asked", "sent"),
    [
        ("local/*", "qwen3-coder", "local/qwen3-coder"),
        ("openrouter/anthropic/*", "claude-opus", "openrouter/anthropic/claude-opus"),
        ("openrouter/*:free", "qwen/qwen3", "openrouter/qwen/qwen3:free"),
        ("local/*", "local/qwen3", "local/qwen3"),
        ("local/*", "local/", "local/local/"),
        ("local/*", "openrouter/auto", "local/openrouter/auto"),
        ("local/a/b/c", "x", "local/a/b/c"),
    ],
)
def test_a_star_in_a_target_is_the_name_the_client_asked_for(target, asked, sent):
    assert went(router(route("*", target)), asked) == ("route-1", [sent])


def test_targets_with_and_without_a_star_may_stand_together():
    made = router(route("*", "local/*", "openrouter/kimi"))

    assert went(made, "qwen") == ("route-1", ["local/qwen", "openrouter/kimi"])


def test_the_choice_carries_its_route():
    chosen = route("*", "local/x", stream_error_tail="message_stop", params={"temperature": 0})

    assert chosen is router(chosen).choose(Question(model="m")).route


# --- aliases ---


def test_aliases_come_before_routes_and_are_followed_once():
    made = router(
        route("smart", "openrouter/kimi"),
        route("*", "local/*"),
        aliases={"best": "smart", "fast": "best", "GPT-*": "smart", "gpt-5-mini": "small"},
    )

    assert went(made, "best") == ("route-1", ["openrouter/kimi"])
    assert went(made, "BEST") == ("route-1", ["openrouter/kimi"])
    assert went(made, "fast") == ("route-2", ["local/best"])
    assert went(made, "gpt-4o") == ("route-1", ["openrouter/kimi"])
    assert went(made, "gpt-5-mini") == ("route-2", ["local/small"])


def test_globs_among_aliases_count_in_their_order():
    made = router(route("*", "local/*"), aliases={"a*": "first", "ab*": "second"})

    assert went(made, "abc") == ("route-1", ["local/first"])


def test_a_star_in_the_meaning_of_an_alias_is_the_name():
    made = router(aliases={"claude-*": "openrouter/anthropic/*"})

    assert went(made, "claude-opus") == ("direct", ["openrouter/anthropic/claude-opus"])


def test_an_alias_may_name_an_upstream_itself():
    made = router(aliases={"kimi": "openrouter/moonshotai/kimi-k2"})

    assert went(made, "kimi") == ("direct", ["openrouter/moonshotai/kimi-k2"])


# --- tiers, names of upstreams, the only upstream ---


TIERS = {"haiku": ("local/small",), "opus": ("openrouter/big", "local/small")}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("claude-haiku-4-5-20251001", ("tier-haiku", ["local/small"])),
        ("claude-3-5-haiku-latest", ("tier-haiku", ["local/small"])),
        ("haiku", ("tier-haiku", ["local/small"])),
        ("Claude-Opus-4-5", ("tier-opus", ["openrouter/big", "local/small"])),
        ("opus", ("tier-opus", ["openrouter/big", "local/small"])),
        ("claude-sonnet-4-5", None),
        ("my-haiku", None),
    ],
)
def test_tiers_of_claude_go_where_they_are_set(asked, expected):
    assert expected == went(router(tiers=TIERS), asked)


def test_routes_come_before_tiers():
    made = router(route("claude-haiku-4*", "local/mine"), tiers=TIERS)

    assert went(made, "claude-haiku-4-5") == ("route-1", ["local/mine"])
    assert went(made, "claude-3-5-haiku") == ("tier-haiku", ["local/small"])


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("openrouter/moonshotai/kimi-k2", ("direct", ["openrouter/moonshotai/kimi-k2"])),
        ("openrouter/openrouter/auto", ("direct", ["openrouter/openrouter/auto"])),
        ("local/x", ("direct", ["local/x"])),
        ("local/", None),
        ("local", None),
        ("elsewhere/x", None),
        ("/x", None),
        ("", None),
    ],
)
def test_a_name_may_say_its_upstream_if_nothing_else_fits(asked, expected):
    assert expected == went(router(route("claude-*", "local/y")), asked)


def test_one_upstream_without_routes_gets_everything():
    made = router(upstreams={"local": LOCAL})

    assert went(made, "any/thing") == ("only", ["local/any/thing"])
    assert went(made, "local/x") == ("direct", ["local/x"])


def test_one_upstream_with_routes_gets_what_they_say():
    assert went(router(route("a", "local/a"), upstreams={"local": LOCAL}), "b") is None


def test_two_upstreams_without_routes_get_only_what_names_them():
    assert went(router(), "b") is None


def test_without_upstreams_nothing_can_be_chosen():
    made = Router(Settings())

    assert made.choose(Question(model="b")) is None
    assert made.models() == ()


# --- what a hop carries ---


def hop(made, model="m"):
    return made.choose(Question(model=model)).hops[0]


@pytest.mark.parametrize(
    ("upstream", "of_route", "name"),
    [
        (Upstream(base_url="https://openrouter.ai/api/v1"), "", "openrouter"),
        (Upstream(base_url="https://openrouter.ai/api/v1", profile="zai"), "", "zai"),
        (Upstream(base_url="https://openrouter.ai/api/v1", profile="zai"), "Kimi", "moonshot"),
        (Upstream(base_url="http://10.0.0.7:9000/v1"), "", "generic"),
    ],
)
def test_the_profile_is_the_routes_or_the_upstreams_or_the_hosts(upstream, of_route, name):
    made = router(route("*", "up/m", profile=of_route), upstreams={"up": upstream})

    assert profile(name) is hop(made).profile


def test_a_profile_of_the_file_changes_a_built_in_one():
    own = ProfileChanges(base="kimi", images="none", extra_fields={"stream_tools": True})
    upstream = Upstream(base_url="http://h/v1", profile="mine")

    found = hop(router(upstreams={"up": upstream}, profiles={"mine": own})).profile

    changed = {"images": "none", "extra_fields": (("stream_tools", "true"),)}
    expected = structs.replace(profile("kimi"), name="mine", vendor="moonshot", **changed)
    assert expected == found


def test_an_upstream_may_hold_its_calls_until_they_are_whole():
    upstream = Upstream(base_url="http://h/v1", profile="vllm", tool_calls="whole")

    found = hop(router(upstreams={"up": upstream})).profile

    assert (found.name, found.tool_calls) == ("vllm", "whole")


def test_the_format_is_the_routes_or_the_upstreams():
    upstreams = {"up": Upstream(base_url="http://h/v1", format="kimi_k2")}
    made = router(route("a", "up/m", format="none"), route("b", "up/m"), upstreams=upstreams)

    assert [hop(made, "a").native_format, hop(made, "b").native_format] == ["none", "kimi_k2"]


def test_a_route_changes_only_the_timeouts_it_names():
    upstreams = {"up": Upstream(base_url="http://h/v1", timeouts=Timeouts(connect=3, idle=50))}
    made = router(
        route("a", "up/m", timeouts=TimeoutChanges(idle=0, total=60)),
        route("b", "up/m"),
        upstreams=upstreams,
    )

    assert hop(made, "a").timeouts == Timeouts(connect=3, idle=0, total=60)
    assert hop(made, "b").timeouts == Timeouts(connect=3, idle=50)


def test_each_upstream_can_be_asked_by_itself():
    assert [("openrouter", "*"), ("local", "*")] == [
        (one.upstream_name, one.model) for one in router(route("a", "local/a")).upstreams()
    ]


def test_all_targets_are_known_beforehand():
    made = router(route("a", "local/x", "openrouter/*"), tiers={"opus": ("local/y",)})

    assert {"x", "*", "y"} == {one.model for one in made.hops()}
    assert ["*"] == [one.model for one in router(upstreams={"local": LOCAL}).hops()]


@pytest.mark.parametrize(
    "settings",
    [
        Settings(upstreams=TWO, routes=(route("*", "nowhere/x"),)),
        Settings(upstreams=TWO, tiers={"opus": ("nowhere/x",)}),
        Settings(upstreams={"up": Upstream(base_url="http://h", profile="nobody")}),
    ],
)
def test_settings_that_lead_nowhere_are_refused_at_the_start(settings):
    with pytest.raises(ConfigError, match=r"nowhere|nobody"):
        Router(settings)


def test_routes_can_ask_for_every_kind_of_vendor_run_tool():
    assert {*ServerKind} == {*get_args(ServerToolName)}


@given(st.text(), st.booleans(), st.integers(), st.dictionaries(st.text(), st.text()))
def test_every_question_has_an_answer_or_none(model, flag, tokens, headers):
    made = router(
        route("*x*", "local/*", thinking=True, header={"h": "*"}),
        route("*", "openrouter/*", tokens_above=10),
        aliases={"?": "one"},
        tiers=TIERS,
    )

    choice = made.choose(
        Question(model=model, thinking=flag, images=flag, tokens=tokens, headers=headers)
    )

    assert choice is None or choice.hops


# --- the list of models ---


def names(made, **listed):
    return [(one.name, one.owner) for one in made.models(listed)]


def test_names_that_clients_may_ask_for_are_listed_once():
    made = router(
        route("smart", "openrouter/kimi", "local/x"),
        route("think", "local/r1", thinking=True),
        route("gpt-*", "openrouter/*"),
        aliases={"best": "smart", "smart": "smart", "dead": "nobody", "a*": "smart"},
        tiers={"haiku": ("local/small",), "sonnet": ()},
        models={"gpt-5": ModelFacts(), "missing": ModelFacts(), "gpt-*": ModelFacts()},
    )

    assert names(made) == [
        ("smart", "openrouter"),
        ("think", "local"),
        ("best", "openrouter"),
        ("claude-haiku", "local"),
        ("gpt-5", "openrouter"),
    ]


def test_models_of_upstreams_are_listed_in_one_style():
    upstreams = {
        "openrouter": Upstream(base_url="https://openrouter.ai/api/v1", models=("gpt-5", "kimi")),
        "local": LOCAL,
    }
    made = router(route("gpt-*", "openrouter/*"), upstreams=upstreams)

    assert names(made, openrouter=("unused",), local=("qwen", "gpt-oss")) == [
        ("openrouter/gpt-5", "openrouter"),
        ("openrouter/kimi", "openrouter"),
        ("local/qwen", "local"),
        ("local/gpt-oss", "local"),
    ]


def test_models_have_their_own_names_if_all_of_these_lead_to_them():
    made = router(route("gpt-*", "openrouter/*"), route("*", "local/*"))

    assert names(made, openrouter=("gpt-5",), local=("qwen",)) == [
        ("gpt-5", "openrouter"),
        ("qwen", "local"),
    ]


def test_models_that_no_name_leads_to_are_not_listed():
    made = router(route("*", "openrouter/kimi"))

    assert names(made, local=("qwen",), openrouter=("kimi", "other")) == [("kimi", "openrouter")]


def test_the_models_of_the_only_upstream_have_plain_names():
    made = router(upstreams={"local": LOCAL})

    assert names(made, local=("qwen", "x/y")) == [("qwen", "local"), ("x/y", "local")]
    # A name that begins with the upstream's would lose its beginning.
    assert names(made, local=("qwen", "local/x")) == [
        ("local/qwen", "local"),
        ("local/local/x", "local"),
    ]


def test_facts_are_found_by_name_then_by_glob_in_order():
    made = router(
        models={
            "claude-*": ModelFacts(context=1),
            "*": ModelFacts(context=2),
            "Claude-Opus": ModelFacts(context=3),
        }
    )

    found = [made.facts(name).context for name in ("claude-opus", "claude-x", "other")]

    assert [3, 1, 2] == found
    assert ModelFacts() == router().facts("x")


# --- vendors ---


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("https://openrouter.ai/api/v1", "openrouter"),
        ("https://API.OPENAI.COM./v1", "openai"),
        ("https://mine.openai.azure.com/openai/v1", "openai"),
        ("https://api.anthropic.com", "anthropic"),
        ("https://api.moonshot.cn/v1", "moonshot"),
        ("https://open.bigmodel.cn/api/paas/v4", "zai"),
        ("http://gpu.lan:11434/v1", "ollama"),
        ("https://notopenrouter.ai/v1", "generic"),
        ("https://openrouter.ai.example/v1", "generic"),
        ("http://127.0.0.1:8000/v1", "generic"),
        ("http://h:99999/v1", "generic"),
        ("http://[::1/v1", "generic"),
        ("nonsense", "generic"),
        ("", "generic"),
    ],
)
def test_the_host_of_an_address_shows_the_profile(address, name):
    assert name == profile_for(address)


@pytest.mark.parametrize("vendor", VENDORS.values(), ids=lambda one: one.name)
def test_every_vendor_has_a_profile_that_its_address_shows(vendor):
    assert profile(vendor.profile).name == vendor.profile
    assert not vendor.hosts or vendor.profile == profile_for(vendor.base_url)


def test_vendors_have_other_names():
    assert find_vendor(" DashScope ") is VENDORS["qwen"]
    assert find_vendor("llama.cpp") is VENDORS["llama-server"]
    assert find_vendor("nobody") is None


# --- formats ---


def test_a_format_of_the_settings_is_found_by_name_and_by_the_model_that_is_asked_for():
    acme = FormatTable(shape="json", open="<acme>", close="</acme>", models=("acme-*",))
    made = router(
        route("named", "local/x", format="acme"),
        route("*", "local/*"),
        formats={"acme": acme},
    )

    def format_of(model):
        hop = made.choose(Question(model=model)).hops[0]
        return getattr(hop.native_format, "key", hop.native_format)

    assert ["acme", "acme", "auto"] == [format_of(one) for one in ("named", "acme-7b", "kimi-k2")]
