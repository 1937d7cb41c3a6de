"""The page on agents names every variable and setting of `dragoman run`, and its settings are right."""

import json
import re
import tomllib

import msgspec
import pytest

from dragoman.agents import AGENTS
from dragoman.agents.agent import KEY_VARIABLE, NO_KEY, Session, Window
from tests.agents.pages import MODEL, PAGE, URL, block

TEXT = PAGE.read_text("utf-8")
SESSION = Session(url=URL, model=MODEL, small=MODEL)
FULL = Session(
    url="http://127.0.0.1:1", model="m", small="s", window=Window(context=100_000, output=10_000)
)


@pytest.mark.parametrize("name", AGENTS)
def test_every_variable_and_setting_is_named(name: str) -> None:
    spec = AGENTS[name].launch_spec(FULL, {})
    settings = [re.match(r"[\w.]+", value)[0] for value in spec.arguments[1::2]]

    for one in (*spec.variables, *spec.clashing, *settings):
        assert f"`{one}`" in TEXT
    if spec.file:
        assert f"`{spec.file[0]}`" in TEXT


def test_lines_for_claude_code_are_a_part_of_what_run_sets() -> None:
    lines = dict(
        re.findall(
            r"^export (\w+)=(.*)$", block("Claude Code", "sh", URL, MODEL, at=1), re.MULTILINE
        )
    )

    assert lines.items() <= AGENTS["claude"].launch_spec(SESSION, {}).variables.items()


def test_lines_for_codex_match_those_of_run() -> None:
    page = tomllib.loads(block("Codex", "toml", URL, MODEL))
    flags = AGENTS["codex"].launch_spec(SESSION, {}).arguments[1::2]
    said = tomllib.loads("\n".join(flags))

    assert said["model_providers"] == page["model_providers"]
    assert (said["model"], said["model_provider"]) == (page["model"], page["model_provider"])
    assert (said["analytics"], said["features"]) == (page["analytics"], page["features"])
    assert KEY_VARIABLE == page["model_providers"]["dragoman"]["env_key"]


def test_lines_for_opencode_match_those_of_run() -> None:
    page = json.loads(block("opencode", "json", URL, MODEL))
    said = json.loads(
        AGENTS["opencode"].launch_spec(SESSION, {}).variables["OPENCODE_CONFIG_CONTENT"]
    )
    said["provider"]["dragoman"]["options"]["apiKey"] = NO_KEY

    assert said == {name: page[name] for name in said}


@pytest.mark.parametrize("section", ["Qwen Code", "Continue"])
def test_lines_for_others_name_the_gateway(section: str) -> None:
    language = {"Qwen Code": "json", "Continue": "yaml"}[section]
    text = block(section, language, "http://127.0.0.1:1", "other")

    assert "http://127.0.0.1:1/v1" in text
    assert "other" in text
    if language == "json":
        msgspec.json.decode(text)
