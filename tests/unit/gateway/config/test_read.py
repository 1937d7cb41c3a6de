"""A document becomes settings, or a list of mistakes."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.gateway.config.environment import ConfigEnvironment
from dragoman.gateway.config.load import (
    Flags,
    load,
    make_settings,
)
from dragoman.gateway.config.problems import ConfigMistakesError
from dragoman.gateway.config.render import toml_text
from dragoman.gateway.config.settings import (
    Key,
    Match,
    Route,
    Secret,
    Server,
    Settings,
    TimeoutChanges,
    Timeouts,
    Upstream,
)
from dragoman.gateway.routing import Router
from dragoman.limits import Limits
from tests.support.settings_file import ENVIRON, EXAMPLE, write


def test_a_file_becomes_settings(tmp_path):
    path = write(tmp_path, EXAMPLE)

    loaded = load(path, environ=ENVIRON, cwd=Path("/"))

    assert loaded.path == path
    assert loaded.warnings == ()
    assert loaded.settings.server.keys == (Key(key=Secret("env:DRAGOMAN_KEY", "d")),)
    assert loaded.settings.upstreams == {
        "openrouter": Upstream(
            base_url="https://openrouter.ai/api/v1", key=Secret("env:OPENROUTER_API_KEY", "o")
        ),
        "local": Upstream(base_url="http://127.0.0.1:8000/v1", profile="vllm"),
    }
    assert loaded.settings.routes == (
        Route(match=Match(model="claude-*haiku*"), to=("local/qwen3-coder-30b",)),
        Route(
            match=Match(model="claude-*"),
            to=("openrouter/moonshotai/kimi-k2-thinking", "local/glm-4.7"),
        ),
    )


def test_tables_within_tables_are_read(tmp_path):
    write(
        tmp_path,
        """
        [server]
        keys = [{ key = "env:K", name = "ci", models = ["claude-*"], concurrent = 2 }]
        limits = { max_request_bytes = 1000 }
        [upstreams.up]
        base_url = "https://host/v1"
        timeouts = { idle = 5 }
        headers = { "X-Team" = "red", "X-Token" = "env:K" }
        body = { provider = { order = ["a"], n = 1, f = 0.5, b = true } }
        [[routes]]
        to = ["up/*"]
        match = { thinking = true, tokens_above = 5, header = { "x-a" = "b*" }, dialect = "chat" }
        timeouts = { total = 9 }
        params = { temperature = 0 }
        [tiers]
        haiku = "up/small"
        [models."claude-*"]
        context = 5
        """,
    )

    found = load(None, environ={"K": "v"}, cwd=tmp_path).settings

    key = Secret("env:K", "v")
    assert found.server.keys == (Key(key=key, name="ci", models=("claude-*",), concurrent=2),)
    assert found.server.limits == Limits(max_request_bytes=1000)
    assert found.upstreams["up"] == Upstream(
        base_url="https://host/v1",
        timeouts=Timeouts(idle=5.0),
        headers={"X-Team": "red", "X-Token": key},
        body={"provider": {"order": ["a"], "n": 1, "f": 0.5, "b": True}},
    )
    assert found.routes == (
        Route(
            to=("up/*",),
            match=Match(thinking=True, tokens_above=5, header={"x-a": "b*"}, dialect="chat"),
            timeouts=TimeoutChanges(total=9.0),
            params={"temperature": 0},
        ),
    )
    assert found.tiers == {"haiku": ("up/small",)}
    assert found.models["claude-*"].context == 5


def outcome(read) -> Settings | ConfigError:
    try:
        return read()
    except ConfigError as error:
        return error


KEYS = st.sampled_from(
    [
        name
        for table in (Settings, Server, Upstream, Match, Route, Key)
        for name in (*table.__struct_fields__, "up", "opus")
    ]
) | st.text(max_size=5)
VALUES = st.recursive(
    st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["env:A", "env:NOPE", "file:x", "up/*", "*", "http://h/v1", "chat", "auto"])
    | st.dates()
    | st.times()
    | st.datetimes(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)
TABLES = st.dictionaries(KEYS, VALUES, max_size=4)
DOCUMENTS = st.fixed_dictionaries(
    {},
    optional={
        "server": TABLES | VALUES,
        "upstreams": st.dictionaries(KEYS, TABLES, max_size=2) | VALUES,
        "routes": st.lists(TABLES, max_size=3) | VALUES,
        "tiers": st.dictionaries(KEYS, VALUES, max_size=2),
        "aliases": st.dictionaries(KEYS, VALUES, max_size=2),
        "models": st.dictionaries(KEYS, TABLES, max_size=2),
        "store": TABLES,
        "guards": TABLES,
        "log": TABLES,
        "other": VALUES,
    },
)


@given(
    DOCUMENTS | TABLES,
    st.builds(Flags, upstream=st.none() | st.text(), model=st.none() | st.text()),
)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_any_document_is_settings_or_mistakes(document, flags):
    around = ConfigEnvironment(environ={"A": "v"}, folder=Path("/nowhere"))

    result = outcome(lambda: make_settings(document, around, flags=flags).settings)

    # What was found good can be used and shown.
    assert (Router(result) and toml_text(result)) if isinstance(result, Settings) else str(result)


@given(st.text() | st.binary().map(lambda data: data.decode("utf-8", "replace")))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_text_is_settings_or_a_mistake(tmp_path, text):
    path = write(tmp_path, text)

    result = outcome(lambda: load(path, environ={}, cwd=tmp_path).settings)

    assert isinstance(result, Settings) or str(result)


def test_tables_as_deep_as_one_likes_are_a_mistake(tmp_path):
    write(tmp_path, f'[upstreams.u]\nbase_url = "http://h/v1"\n[upstreams.u.body{".a" * 5000}]')

    with pytest.raises(ConfigMistakesError, match=r"nested deeper than 32 levels"):
        load(None, environ={}, cwd=tmp_path)
