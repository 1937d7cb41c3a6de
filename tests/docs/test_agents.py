"""The page on agents names all that they are told."""

import re
from pathlib import Path

import pytest

from dragoman.agents import AGENTS
from dragoman.agents.agent import Session, Window

PAGE = (Path(__file__).parent.parent.parent / "docs" / "agents.md").read_text("utf-8")
FULL = Session(
    url="http://127.0.0.1:1", model="m", small="s", window=Window(context=100_000, output=10_000)
)


@pytest.mark.parametrize("name", AGENTS)
def test_every_variable_and_setting_is_named(name: str) -> None:
    outfit = AGENTS[name].dress(FULL, {})
    settings = [re.match(r"[\w.]+", value)[0] for value in outfit.arguments[1::2]]

    for one in (*outfit.variables, *outfit.clashing, *settings):
        assert f"`{one}`" in PAGE
    if outfit.file:
        assert f"`{outfit.file[0]}`" in PAGE
