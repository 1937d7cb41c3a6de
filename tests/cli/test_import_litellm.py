"""`dragoman config import` for LiteLLM's configuration."""

import tomllib

import pytest

from tests.support.config_imports import FILES, lost, run, settings

pytestmark = pytest.mark.usefixtures("alone")


def test_litellm_groups_become_routes_with_their_fallbacks():
    found = settings(FILES / "litellm_team.yaml")

    assert {
        "gpt-4o": ["openai/gpt-4o", "anthropic/claude-sonnet-4-5"],
        "claude-sonnet": ["anthropic/claude-sonnet-4-5"],
        "kimi": ["openrouter/moonshotai/kimi-k2-thinking"],
    } == {route["match"]["model"]: route["to"] for route in found["routes"]}
    assert {"gpt-4": "gpt-4o", "fast": "kimi"} == found["aliases"]
    assert {"context": 200_000, "output": 64_000} == found["models"]["claude-sonnet"]
    assert {"temperature": {"default": 0.2}, "max_tokens": {"default": 8000}} == (
        found["routes"][1]["params"]
    )


def test_litellm_keys_headers_and_policies_become_settings_of_upstreams():
    found = settings(FILES / "litellm_team.yaml")
    kimi = found["upstreams"]["openrouter"]

    assert ["env:LITELLM_MASTER_KEY"] == found["server"]["keys"]
    assert "env:OPENROUTER_API_KEY" == kimi["key"]  # LiteLLM reads it although the file names none
    assert {"X-Title": "team", "X-Api-Token": "env:X_API_TOKEN"} == kimi["headers"]
    assert {"provider": {"order": ["moonshotai"]}} == kimi["body"]
    assert (600, 3, 4, 30) == (
        kimi["timeouts"]["first_byte"],
        kimi["retries"],
        kimi["failures"],
        kimi["cooldown"],
    )
    assert {"format": "json"} == found["log"]


def test_litellm_settings_without_a_counterpart_are_listed():
    assert {
        "model_list[1].litellm_params.rpm",
        "model_list[4]",
        "litellm_settings.success_callback",
        "litellm_settings.context_window_fallbacks",
        "router_settings.routing_strategy",
        "router_settings.model_group_alias.fast.hidden",
        "general_settings.database_url",
    } == lost(FILES / "litellm_team.yaml").keys()


def test_litellm_deployments_of_one_name_are_tried_in_their_order():
    found = settings(FILES / "litellm_balanced.yaml")
    upstreams = found["upstreams"]

    assert [
        "canada-992/gpt-4o-ca",
        "europe-992/gpt-4o-eu",
        "openai/gpt-4o",
        "local-8000/Qwen/Qwen3-Coder-30B",
        "ollama/mistral",
    ] == found["routes"][0]["to"]
    assert "https://canada-992.openai.azure.com/openai/v1" == upstreams["canada-992"]["base_url"]
    assert upstreams["canada-992"]["key"] != upstreams["europe-992"]["key"]
    assert "http://localhost:11434/v1" == upstreams["ollama"]["base_url"]
    assert ("vllm", None) == (
        upstreams["local-8000"]["profile"],
        upstreams["local-8000"].get("key"),
    )


def test_litellm_addresses_in_variables_are_read_when_they_are_set():
    pytest.importorskip("yaml")
    file = FILES / "litellm_balanced.yaml"

    without = run("import", file)
    with_it = run("import", file, AZURE_API_BASE="https://west.openai.azure.com")

    assert "set AZURE_API_BASE and import again" in without.stderr
    assert (
        "https://west.openai.azure.com/openai/v1"
        == (tomllib.loads(with_it.stdout)["upstreams"]["west"]["base_url"])
    )


def test_litellm_patterns_are_rewritten_where_that_is_possible():
    found = settings(FILES / "litellm_wildcards.yaml")

    assert [
        ("claude-3-5-haiku", ["anthropic/claude-3-5-haiku-latest"]),
        ("o*-mini", ["openrouter/openai/*:free"]),
        ("gpt-*", ["openai/*"]),
    ] == [(route["match"]["model"], route["to"]) for route in found["routes"]]
    # Names `anthropic/…` and `vendor/…` reach the upstreams of these names without a route.
    assert {"anthropic", "vendor", "openai", "openrouter"} == found["upstreams"].keys()
    assert "https://api.groq.com/openai/v1" == found["upstreams"]["vendor"]["base_url"]
    assert ["model_list[6].litellm_params.model", "model_list[8].litellm_params.model", "model_list[7]"] == list(
        lost(FILES / "litellm_wildcards.yaml")
    )  # fmt: skip
