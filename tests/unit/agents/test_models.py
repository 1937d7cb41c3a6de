"""Which models agents ask for, and how large they are said to be."""

import pytest

from dragoman.agents import AGENTS
from dragoman.agents.agent import Window
from dragoman.agents.models import ListedModel, ModelChoice, choose, window
from dragoman.errors import ConfigError
from dragoman.gateway.config.settings import Match, ModelFacts, Route, Settings, Upstream
from dragoman.gateway.routing import Router

CLAUDE, CODEX = AGENTS["claude"], AGENTS["codex"]
LOCAL = Upstream(base_url="http://127.0.0.1:1/v1")
ONE = (ListedModel("one"),)
TWO = (ListedModel("one"), ListedModel("two"))
ANY = Router(Settings(upstreams={"local": LOCAL}))
MAPPED = Router(
    Settings(
        upstreams={"local": LOCAL},
        routes=(Route(match=Match(model="claude-*"), to=("local/qwen3",)),),
    )
)
TIERS = Router(
    Settings(
        upstreams={"local": LOCAL},
        routes=(Route(match=Match(model="x"), to=("local/x",)),),
        tiers={"haiku": ("local/small",), "sonnet": ("local/large",)},
    )
)
VENDOR = Router(
    Settings(
        upstreams={"a": Upstream(base_url="https://api.anthropic.com/v1", dialect="anthropic")}
    )
)


@pytest.mark.parametrize(
    ("agent", "router", "listed", "expected"),
    [
        pytest.param(CLAUDE, MAPPED, TWO, ModelChoice(), id="routes take its own names"),
        pytest.param(CLAUDE, VENDOR, TWO, ModelChoice(), id="its vendor takes its own names"),
        pytest.param(CLAUDE, None, TWO, ModelChoice(), id="a gateway that is not ours"),
        pytest.param(CLAUDE, None, ONE, ModelChoice(model="one"), id="which has one model"),
        pytest.param(
            CLAUDE, ANY, TWO, ModelChoice(model="one"), id="its own names would only be passed on"
        ),
        pytest.param(
            CLAUDE,
            TIERS,
            TWO,
            ModelChoice(model="claude-sonnet-4-5", small="claude-haiku-4-5"),
            id="some tiers are set",
        ),
        pytest.param(CODEX, MAPPED, TWO, ModelChoice(model="one"), id="no names of its own"),
    ],
)
def test_a_model_is_chosen_when_nobody_names_one(agent, router, listed, expected) -> None:
    assert expected == choose(agent, model="", small="", listed=listed, router=router)


@pytest.mark.parametrize("router", [ANY, MAPPED, None])
def test_the_user_decides(router) -> None:
    choice = choose(CLAUDE, model="mine", small="little", listed=TWO, router=router)

    assert ModelChoice(model="mine", small="little") == choice


def test_a_small_model_alone_leaves_the_large_one_as_it_is() -> None:
    choice = choose(CLAUDE, model="", small="little", listed=TWO, router=MAPPED)

    assert ModelChoice(model="claude-sonnet-4-5", small="little") == choice


def test_a_model_must_be_named_where_none_is_listed() -> None:
    with pytest.raises(ConfigError, match="choose one for codex with --model"):
        choose(CODEX, model="", small="", listed=(), router=None)


SET = Router(
    Settings(
        upstreams={"local": LOCAL},
        models={
            "both": ModelFacts(context=64_000, output=4_000),
            "claude-*": ModelFacts(context=90_000),
            "tiny-*": ModelFacts(context=8_000),
        },
    )
)


@pytest.mark.parametrize(
    ("model", "asked", "listed", "expected"),
    [
        ("both", Window(), (), Window(context=64_000, output=4_000)),
        ("both", Window(context=9_000), (), Window(context=9_000, output=4_000)),
        ("", Window(), (), Window(context=90_000, output=22_500)),
        ("tiny-1", Window(), (), Window(context=8_000, output=2_000)),
        ("tiny-1", Window(output=100), (), Window(context=8_000, output=100)),
        (
            "listed",
            Window(),
            (ListedModel("listed", 500_000, None),),
            Window(context=500_000, output=32_000),
        ),
        ("both", Window(), (ListedModel("both", 1, 1),), Window(context=64_000, output=4_000)),
        ("unknown", Window(), TWO, Window()),
    ],
)
def test_h4_the_size_comes_from_the_user_then_the_settings_then_the_gateway(
    model, asked, listed, expected
) -> None:
    choice = ModelChoice(model=model)

    assert expected == window(CLAUDE, choice, asked=asked, listed=listed, router=SET)
