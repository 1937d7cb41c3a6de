"""The lines to copy of docs/agents.md do what they say."""

import os
from pathlib import Path

import pytest

from tests.agents.pages import block
from tests.agents.stage import Stage
from tests.agents.talk import DONE, Says, serving
from tests.frameworks.running import FOLDER_VARIABLE

PACKAGES = ("openai", "anthropic", "agents", "pydantic_ai", "langchain_openai", "llm")


@pytest.mark.parametrize("at", range(len(PACKAGES)), ids=PACKAGES)
def test_lines_for_a_package_get_an_answer(stage: Stage, at: int) -> None:
    with serving("kimi-k2", [Says(DONE)]) as both:
        text = block("Python packages", "py", both.url, "chat/kimi-k2", at=at)
        ran = stage.run([str(Path(os.environ[FOLDER_VARIABLE]) / "bin" / "python"), "-c", text])

    assert PACKAGES[at] in text
    assert 0 == ran.code, ran.err
    assert text.count('"Hello"') == ran.out.count(DONE)
