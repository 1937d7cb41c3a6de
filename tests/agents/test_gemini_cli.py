"""Gemini CLI, which speaks `generateContent`."""

import json
from functools import partial
from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway.config.settings import Settings
from dragoman.simulator.script import Match, Script, ScriptReply
from tests.agents.programs import GeminiCli
from tests.agents.scenarios import Scenarios, parametrize
from tests.agents.stage import Stage
from tests.agents.talk import DONE, PROMPT, model_of
from tests.support.gateway import settings_for, stand

pytest_generate_tests = parametrize


class TestGeminiCli(Scenarios):
    program = GeminiCli()
    lasting = ("error-in", "cut:700")  # it repeats other failures for more than three minutes


# --- without a chosen model, it first asks a small one which model the task needs -------------------

SCORE = json.dumps({"complexity_reasoning": "It is a hard task.", "complexity_score": 100})


def routed(profile: str, url: str) -> Settings:
    settings = settings_for(
        url,
        aliases={
            "gemini-*-flash-lite*": "chat/small",
            "gemini-*-pro*": "chat/strong",
            "gemini-*": "chat/usual",
        },
    )
    chat = structs.replace(settings.upstreams["chat"], profile=profile)
    return structs.replace(settings, upstreams={**settings.upstreams, "chat": chat})


@pytest.mark.parametrize(
    ("profile", "answer", "form"),
    [
        ("openai", SCORE, "json_schema"),
        ("deepseek", f"```json\n{SCORE}\n```", "json_object"),
        ("transformers", f"```json\n{SCORE}\n```", None),
    ],
    ids=["schema", "JSON", "instruction"],
)
def test_the_choice_of_a_model_is_read_from_the_first_answer(
    stage: Stage, profile: str, answer: str, form: str | None
) -> None:
    replies = (
        ScriptReply(match=Match(model="small"), text=answer),
        ScriptReply(match=Match(model="*"), text=DONE),
    )
    with stand(partial(routed, profile), script=Script(replies, {})) as both:
        start = GeminiCli().start(stage, both.url, "", PROMPT)
        ran = stage.run(start.command, start.environ)
        asked = [(model_of(one), one.json) for one in both.simulator.exchanges]

    assert 0 == ran.code, ran.said
    assert DONE in ran.out
    # The score chooses the strong model, so it was understood.
    assert ["small", "strong"] == [model for model, _ in asked]
    small: Any = asked[0][1]
    assert form == small.get("response_format", {}).get("type")
    if form == "json_schema":  # its types are written in Google's language
        schema = small["response_format"]["json_schema"]["schema"]
        assert "integer" == schema["properties"]["complexity_score"]["type"]
