"""A stream, two parallel calls, their results, and the last text, through each framework and dialect."""

from pathlib import Path

import pytest

from dragoman.simulator.script import ScriptCall
from tests.agents.talk import Says, model_of, serving
from tests.frameworks.running import run_program
from tests.support.received import received

DONE = "It is sunny, and it is noon."
CALLS = (
    ScriptCall(name="get_weather", arguments={"city": "Ulm"}),
    ScriptCall(name="get_time", arguments={"zone": "Europe/Berlin"}),
)
RESULTS = ["sunny in Ulm", "noon in Europe/Berlin"]
# Framework, its face, and the upstream's dialect and model.
RUNS = [
    ("openai_agents", "chat", "anthropic", "kimi-k2"),
    ("openai_agents", "responses", "chat", "qwen3-coder"),
    ("pydantic_ai_agent", "chat", "responses", "qwen3-coder"),
    ("pydantic_ai_agent", "responses", "chat", "kimi-k2"),
    ("pydantic_ai_agent", "anthropic", "chat", "qwen3-coder"),
    ("langchain_models", "chat", "chat", "kimi-k2"),
    ("langchain_models", "responses", "anthropic", "qwen3-coder"),
    ("langchain_models", "anthropic", "responses", "kimi-k2"),
    ("llm_chain", "chat", "chat", "qwen3-coder"),
    ("llm_chain", "responses", "responses", "kimi-k2"),
]
FAILING = [RUNS[1], RUNS[0], RUNS[2], RUNS[4], RUNS[5], RUNS[7], RUNS[8]]


def name_of(run: tuple[str, ...]) -> str:
    return "-".join(run)


@pytest.mark.parametrize("run", RUNS, ids=name_of)
def test_two_calls_are_made_and_their_results_lead_to_text(
    tmp_path: Path, run: tuple[str, str, str, str]
) -> None:
    program, face, upstream, model = run
    with serving(model, [Says("Let me look.", calls=CALLS), Says(DONE)]) as both:
        ended = run_program(program, tmp_path, both.url, f"{upstream}/{model}+chunk:8", face)
        asked = [one for one in both.simulator.exchanges if model_of(one).startswith(model)]

    assert DONE == ended.told["text"]
    assert ended.told["pieces"] >= 2
    assert 2 == len(asked)
    first, second = map(received, asked)
    assert ((), ()) == (first.calls, first.results)
    wanted = [(one.name, one.arguments) for one in CALLS]
    assert wanted == [(name, arguments) for _, name, arguments in second.calls]
    assert RESULTS == [text for _, text in second.results]
    assert second.ids == [call_id for call_id, _ in second.results]
    assert 2 == len({*second.ids})


@pytest.mark.parametrize("fault", ["error:500", "error:400", "error-first", "error-in", "cut:300"])
@pytest.mark.parametrize("run", FAILING, ids=name_of)
def test_failing_upstream_is_an_exception_and_never_a_hang(
    tmp_path: Path, run: tuple[str, str, str, str], fault: str
) -> None:
    program, face, upstream, model = run
    with serving(model, [Says("I will do it. " * 40, calls=CALLS), Says(DONE)]) as both:
        ended = run_program(program, tmp_path, both.url, f"{upstream}/{model}+{fault}", face)
        asked = [one for one in both.simulator.exchanges if model_of(one).startswith(model)]

    assert 1 == ended.code, ended.out
    assert "Error" in ended.err.splitlines()[-1] or "Exception" in ended.err
    assert DONE not in ended.out
    assert 1 <= len(asked) <= 4
