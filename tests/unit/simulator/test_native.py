"""Calls that the simulator writes as text are the calls that it meant, in every family."""

import json

import pytest

from dragoman.dialects import DIALECT_NAMES
from dragoman.simulator.native import FAMILIES
from dragoman.toolcalls.formats import FORMATS
from dragoman.translate import Translator
from dragoman.turn.request import Request
from tests.support.sdks import accumulate
from tests.support.simulator import WEATHER, WEATHER_CALL, ask, question


def test_every_family_has_a_renderer() -> None:
    assert set(FORMATS) == set(FAMILIES)


def read(dialect: str, body: dict[str, object]) -> Request:
    from dragoman.dialects import dialect as find
    from dragoman.limits import DEFAULT_LIMITS

    data = json.dumps(body).encode()
    return find(dialect).decode_request(data, sealer=None, limits=DEFAULT_LIMITS)


def translated(dialect: str, family: str, body: dict[str, object]) -> dict[str, object]:
    """Return what a Messages or Chat client gets of an answer with native calls."""
    target = "chat" if dialect == "anthropic" else "anthropic"
    translator = Translator(
        source=dialect, target=target, request=read(dialect, body), native_format=family
    )
    stream = translator.feed(ask(dialect, body).body) + translator.close()
    return accumulate(target, stream)


def calls(answer: dict[str, object]) -> list[tuple[str, object]]:
    if "choices" in answer:
        made = answer["choices"][0]["message"].get("tool_calls") or []
        return [(one["function"]["name"], json.loads(one["function"]["arguments"])) for one in made]
    return [(one["name"], one["input"]) for one in answer["content"] if one["type"] == "tool_use"]


@pytest.mark.parametrize("family", FORMATS)
def test_calls_as_text_become_the_calls_that_were_meant(family: str) -> None:
    body = question("chat", f"sim/{family}+parallel:2", tools=[WEATHER])

    answer = translated("chat", family, body)

    assert [("get_weather", WEATHER_CALL)] == calls(answer)[:1]
    assert (1 if FAMILIES[family].most == 1 else 2) == len(calls(answer))


@pytest.mark.parametrize("dialect", DIALECT_NAMES)
@pytest.mark.parametrize("family", ["kimi_k2", "glm47", "qwen3_coder", "deepseek_v31", "gpt_oss"])
@pytest.mark.parametrize("quirk", ["", "+leak-reasoning", "+leak-both", "+chunk:1", "+think-tags"])
def test_calls_as_text_are_found_in_any_dialect_and_channel(
    dialect: str, family: str, quirk: str
) -> None:
    body = question(dialect, f"sim/{family}{quirk}", tools=[WEATHER])

    answer = translated(dialect, family, body)

    assert [("get_weather", WEATHER_CALL)] == calls(answer)


def test_kimi_counts_its_calls_over_the_whole_conversation() -> None:
    from tests.support.simulator import answered

    body = answered("chat", question("chat", "kimi-k2", tools=[WEATHER], stream=False))

    answer = ask("chat", body | {"tool_choice": "required"}).json

    assert "functions.get_weather:1" in answer["choices"][0]["message"]["content"]


def test_kimi_keeps_its_ids_in_structural_calls() -> None:
    body = question("chat", "kimi-k2+structural", tools=[WEATHER], stream=False)

    message = ask("chat", body).json["choices"][0]["message"]

    assert "functions.get_weather:0" == message["tool_calls"][0]["id"]
    assert "<|" not in message["content"]
