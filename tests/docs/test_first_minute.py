"""The README's first minute: what it says to type is what the gateway prints, and each line works."""

import json
import re
from pathlib import Path

import pytest

from tests.docs.conftest import Serving
from tests.docs.pasted import Stage, examples

ROOT = Path(__file__).parent.parent.parent
README = (ROOT / "README.md").read_text("utf-8")
WRITTEN = "http://127.0.0.1:8484"
PATHS = ("/v1/messages", "/v1/chat/completions", "/v1/responses")


def test_make_run_starts_the_gateway() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")

    assert re.search(r"^run: .*\n\t@\$\(BIN\)/dragoman serve$", makefile, re.MULTILINE)


def test_the_gateway_prints_the_request_of_the_readme(serving: Serving) -> None:
    [typed] = [
        one.typed
        for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL)
        for one in examples(block)
        if WRITTEN in one.typed
    ]

    assert typed.replace(WRITTEN, serving.url) in serving.printed


@pytest.mark.parametrize("path", PATHS)
def test_each_request_that_the_gateway_prints_is_answered(
    serving: Serving, stage: Stage, path: str
) -> None:
    printed = [one.typed for one in examples(serving.printed) if one.typed.startswith("curl ")]
    [typed] = [one for one in printed if f"{serving.url}{path} " in one]

    answer = stage.run(typed)

    if path == "/v1/responses":
        assert re.match(
            "event: response.created\n.*\nevent: response.completed\n", answer, re.DOTALL
        )
    else:
        assert "assistant" in json.dumps(json.loads(answer))
    assert len(PATHS) == len(printed)


def test_the_gateway_prints_how_to_run_an_agent_on_it(serving: Serving) -> None:
    assert f" run claude --gateway {serving.url}\n" in serving.printed


@pytest.mark.parametrize("typed", re.findall(r"`(dragoman run [^`]+)`", README))
def test_lines_in_the_text_that_run_an_agent_start_it(typed: str, stage: Stage) -> None:
    assert "started claude\n" == stage.run(typed)
