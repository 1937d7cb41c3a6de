"""`dragoman config import`: files of LiteLLM and claude-code-router become settings that pass `config check`."""

import json
import os
import re
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman.cli.main import main

FILES = Path(__file__).parent / "imports"
LITELLM = sorted(FILES.glob("*.yaml"))
ROUTER = sorted(FILES.glob("*.json"))


@pytest.fixture(autouse=True)
def _alone(tmp_path, monkeypatch):
    """Run in an empty folder, without settings and keys of the user."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for name in list(os.environ):
        if name.startswith(("DRAGOMAN_", "XDG_")) or name.endswith(("_API_KEY", "_API_BASE")):
            monkeypatch.delenv(name)


def run(*arguments, **environ):
    return CliRunner().invoke(main, ["config", *map(str, arguments)], env=environ)


def convert(file):
    if file.suffix == ".yaml":
        pytest.importorskip("yaml")
    result = run("import", file)
    assert 0 == result.exit_code, result.output
    return result


def settings(file):
    return tomllib.loads(convert(file).stdout)


def lost(file):
    """Return what was not carried over, by its place in the file."""
    lines = re.findall(r"  not carried over: (.*)", convert(file).stderr)
    return dict(line.split(": ", 1) for line in lines)


def test_there_are_several_files_of_each_kind():
    assert (3, 3) == (len(LITELLM), len(ROUTER))


@pytest.mark.parametrize("file", [*LITELLM, *ROUTER], ids=lambda file: file.name)
def test_the_new_file_passes_config_check(file, tmp_path):
    text = convert(file).stdout
    variables = {name: f"value-of-{name}" for name in re.findall(r"env:(\w+)", text)}
    (tmp_path / "dragoman.toml").write_text(text)

    checked = run("check", **variables)

    assert (0, "valid: ") == (checked.exit_code, checked.stdout[:7]), checked.stdout
    assert "unreach" not in checked.stdout


@pytest.mark.parametrize("file", [*LITELLM, *ROUTER], ids=lambda file: file.name)
def test_no_key_of_the_source_is_copied_anywhere(file):
    result = convert(file)

    assert re.search(r"hidden-|-hidden", file.read_text())
    assert not re.search(r"hidden-|-hidden", result.output)


@pytest.mark.parametrize("file", [*LITELLM, *ROUTER], ids=lambda file: file.name)
def test_variables_and_losses_are_listed_on_standard_error_and_as_comments(file):
    result = convert(file)
    listed = re.findall(r"  (?:not carried over|set): (.*)", result.stderr)

    assert listed
    for line in listed:
        exported = re.match(r"export (\w+)=… \(the key at (.*)\)", line)
        comment = f"{exported[1]}: the key at {exported[2]}" if exported else line
        assert f"#   {comment}\n" in result.stdout


# --- LiteLLM ---


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


# --- claude-code-router ---


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
    assert "https://generativelanguage.googleapis.com/v1beta/openai" == found["gemini"]["base_url"]
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


# --- files ---


def test_the_file_is_written_and_not_overwritten_without_force(tmp_path):
    first = run("import", FILES / "ccr_rules.json", "--output", "new.toml")
    again = run("import", FILES / "ccr_rules.json", "-o", "new.toml")
    forced = run("import", FILES / "ccr_rules.json", "-o", "new.toml", "--force")

    assert (0, "", 2, 0) == (first.exit_code, first.stdout, again.exit_code, forced.exit_code)
    assert "zai" in tomllib.loads((tmp_path / "new.toml").read_text())["upstreams"]
    assert "overwrite it with --force" in again.stderr


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("absent.json", None, "cannot read absent.json"),
        ("bad.json", "{", "not JSON"),
        ("list.json", "[]", "expected a table of settings"),
        ("other.json", '{"a": 1}', "neither LiteLLM's configuration"),
        ("none.json", '{"Providers": [{"name": "x"}]}', "no upstream can be carried over"),
        ("url.json", '{"Providers": [{"name": "x", "api_base_url": "ftp://h"}]}', "not usable as an address"),
        ("model.json", '{"model_list": [{"model_name": "x"}]}', "`litellm_params.model` are required"),
    ],
)  # fmt: skip
def test_a_file_that_cannot_be_imported_gets_one_clear_error(name, text, problem, tmp_path):
    if text is not None:
        (tmp_path / name).write_text(text)

    result = run("import", name)

    assert (2, "") == (result.exit_code, result.stdout)
    assert problem in result.stderr


def test_broken_yaml_is_named_with_its_line(tmp_path):
    pytest.importorskip("yaml")
    (tmp_path / "x.yaml").write_text("model_list:\n  - a: [\n")

    result = run("import", "x.yaml")

    assert 2 == result.exit_code
    assert "x.yaml: not YAML: " in result.stderr
    assert "line 3" in result.stderr


def test_yaml_without_pyyaml_names_the_extra(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    (tmp_path / "x.yaml").write_text("model_list: []\n")

    result = run("import", "x.yaml")

    assert 2 == result.exit_code
    assert "install it with `pip install 'dragoman[import]'`" in result.stderr


def test_json_is_read_without_pyyaml(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "yaml", None)
    document = {"model_list": [{"model_name": "m", "litellm_params": {"model": "groq/x"}}]}
    (tmp_path / "config.json").write_text(json.dumps(document))

    result = run("import", "config.json")

    assert ["groq/x"] == tomllib.loads(result.stdout)["routes"][0]["to"]
