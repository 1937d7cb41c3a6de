"""`dragoman config import` for claude-code-router's configuration."""

import pytest

from tests.support.config_imports import FILES, lost, settings

pytestmark = pytest.mark.usefixtures("alone")


def test_router_scenarios_become_routes_in_its_order():
    found = settings(FILES / "ccr_readme.json")

    assert [
        ("longContext", {"model": "claude-*", "tokens_above": 80_000}),
        ("background", {"model": "claude-*haiku*"}),
        ("think", {"model": "claude-*", "thinking": True}),
        ("default", {"model": "claude-*"}),
    ] == [(route["name"], route["match"]) for route in found["routes"]]
    assert ["deepseek/deepseek-chat", "openrouter/moonshotai/kimi-k2"] == found["routes"][3]["to"]
    assert {"max_tokens": {"max": 8192}} == found["routes"][3]["params"]


def test_router_providers_become_upstreams_of_the_dialect_of_their_address():
    found = settings(FILES / "ccr_readme.json")["upstreams"]
    other = settings(FILES / "ccr_anthropic.json")["upstreams"]

    assert ("https://openrouter.ai/api/v1", "chat") == (
        found["openrouter"]["base_url"],
        found["openrouter"]["dialect"],
    )
    assert ("https://generativelanguage.googleapis.com/v1beta", "gemini") == (
        found["gemini"]["base_url"],
        found["gemini"]["dialect"],
    )
    assert ("env:GEMINI_API_KEY", None) == (found["gemini"]["key"], found["ollama"].get("key"))
    assert {"anthropic": "anthropic", "openai": "responses"} == {
        name: table["dialect"] for name, table in other.items()
    }


def test_router_transformers_become_settings():
    found = settings(FILES / "ccr_readme.json")
    scope = found["upstreams"]["model-scope"]

    assert {"base": "generic", "max_output_tokens": 65536} == found["profiles"][scope["profile"]]
    assert "whole" == scope["tool_calls"]
    assert {"HTTP-Referer": "https://example.com", "X-Title": "ccr"} == (
        found["upstreams"]["openrouter"]["headers"]
    )
    assert {
        "Providers[2].transformer.deepseek-chat.use.tooluse",
        "transformer of openrouter/moonshotai/kimi-k2",
    } <= lost(FILES / "ccr_readme.json").keys()


def test_router_names_of_its_model_command_become_aliases():
    found = settings(FILES / "ccr_readme.json")["aliases"]

    assert "ollama/qwen2.5-coder:latest" == found["ollama,qwen2.5-coder:latest"]


def test_router_settings_of_the_server_are_carried_over():
    found = settings(FILES / "ccr_readme.json")
    alone = settings(FILES / "ccr_anthropic.json")

    assert {"keys": ["env:DRAGOMAN_KEY"], "host": "0.0.0.0"} == found["server"]
    assert {"level": "warning"} == found["log"]
    assert ("http://127.0.0.1:7890", None) == (
        found["upstreams"]["openrouter"]["proxy"],
        found["upstreams"]["ollama"].get("proxy"),  # it is on this machine
    )
    assert {"port": 3456} == alone["server"]  # without a key it listens on loopback, as before


def test_router_rules_and_keys_of_newer_versions_are_listed():
    file = FILES / "ccr_rules.json"
    upstream = settings(file)["upstreams"]["zai"]

    assert ("anthropic", 4) == (upstream["dialect"], upstream["retries"])
    assert {"X-Team": "a", "X-Secret": "env:X_SECRET"} == upstream["headers"]
    assert {
        "Router.rules[1]",
        "APIKEYS[1]",
        "Providers[1].icon",
        "Providers[1].extraBody.nothing",
    } == lost(file).keys()
