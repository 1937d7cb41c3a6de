"""What each agent is started with."""

import json
import tomllib

import pytest

from dragoman.agents import AGENTS
from dragoman.agents.agent import Session, Window
from dragoman.errors import ConfigError

URL = "http://127.0.0.1:8484"
FULL = Session(
    url=URL,
    key="secret",
    model='a/"b',
    small="c",
    window=Window(context=131_072, output=16_000),
)
BARE = Session(url=URL, key="secret")


def launch_spec(name, session, environ=None):
    return AGENTS[name].launch_spec(session, environ or {})


def test_claude_gets_the_model_for_every_tier() -> None:
    variables = launch_spec("claude", FULL).variables
    models = {name: value for name, value in variables.items() if name.endswith("MODEL")}

    assert {
        "ANTHROPIC_MODEL": 'a/"b',
        "ANTHROPIC_DEFAULT_FABLE_MODEL": 'a/"b',
        "ANTHROPIC_DEFAULT_OPUS_MODEL": 'a/"b',
        "ANTHROPIC_DEFAULT_SONNET_MODEL": 'a/"b',
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": "c",
        "ANTHROPIC_SMALL_FAST_MODEL": "c",
    } == models


def test_claude_keeps_its_own_names_where_they_mean_something() -> None:
    spec = launch_spec("claude", BARE)

    assert not [name for name in spec.variables if name.endswith("MODEL")]
    assert "CLAUDE_CODE_SUBAGENT_MODEL" not in spec.clashing


def test_h4_claude_learns_the_window_and_the_longest_answer() -> None:
    found = {name: launch_spec("claude", FULL).variables.get(name) for name in H4}
    without_facts = {name for name in launch_spec("claude", BARE).variables if name in H4}

    assert H4 == found
    assert {"CLAUDE_CODE_ATTRIBUTION_HEADER"} == without_facts


H4 = {
    "CLAUDE_CODE_MAX_CONTEXT_TOKENS": "131072",
    "CLAUDE_CODE_AUTO_COMPACT_WINDOW": "131072",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS": "16000",
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
}


def test_the_file_for_claude_has_the_same_and_empties_what_leads_elsewhere() -> None:
    spec = launch_spec("claude", FULL)
    flag, content = spec.file
    variables = json.loads(content)["env"]

    assert "--settings" == flag
    assert spec.variables == {name: value for name, value in variables.items() if value}
    assert set(spec.clashing) == {name for name, value in variables.items() if not value}


def test_codex_gets_flags_that_are_toml() -> None:
    spec = launch_spec("codex", FULL)
    flags, values = spec.arguments[::2], spec.arguments[1::2]

    assert {"-c"} == set(flags)
    assert {
        "model": 'a/"b',
        "model_context_window": 131_072,
        "model_provider": "dragoman",
        "model_providers": {
            "dragoman": {
                "name": "Dragoman",
                "base_url": f"{URL}/v1",
                "env_key": "DRAGOMAN_AGENT_KEY",
                "wire_api": "responses",
            }
        },
        "analytics": {"enabled": False},
        "check_for_update_on_startup": False,
        "features": {"plugins": False},
    } == tomllib.loads("\n".join(values))
    assert {"DRAGOMAN_AGENT_KEY": "secret"} == spec.variables


def test_opencode_gets_a_provider_over_what_the_user_has() -> None:
    own = '{"theme": "dark", "model": "x/y", "provider": {"x": {"npm": "z"}}}'
    spec = launch_spec("opencode", FULL, {"OPENCODE_CONFIG_CONTENT": own})
    content = json.loads(spec.variables["OPENCODE_CONFIG_CONTENT"])
    provider = content["provider"]["dragoman"]

    assert ("dark", 'dragoman/a/"b', "dragoman/c") == (
        content["theme"],
        content["model"],
        content["small_model"],
    )
    assert {"npm": "z"} == content["provider"]["x"]
    assert {"baseURL": f"{URL}/v1", "apiKey": "{env:DRAGOMAN_AGENT_KEY}"} == provider["options"]
    assert {"context": 131_072, "output": 16_000} == provider["models"]['a/"b']["limit"]
    assert "limit" not in provider["models"]["c"]


def test_what_the_user_has_for_opencode_must_be_an_object() -> None:
    with pytest.raises(ConfigError, match="OPENCODE_CONFIG_CONTENT"):
        launch_spec("opencode", FULL, {"OPENCODE_CONFIG_CONTENT": "[]"})


@pytest.mark.parametrize("name", AGENTS)
def test_the_key_is_in_no_argument(name) -> None:
    assert "secret" not in " ".join(launch_spec(name, FULL).arguments)
