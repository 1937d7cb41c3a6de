"""The README's pictures are drawn from a real exchange, and nothing in them is cut off."""

import json
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from dragoman.toolcalls.formats import FORMATS
from tools import before_after

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")


@pytest.fixture(scope="module")
def exchange() -> before_after.Exchange:
    return before_after.exchange()


@pytest.mark.parametrize("name", before_after.THEMES)
def test_picture_is_current(exchange: before_after.Exchange, name: str) -> None:
    drawn = before_after.picture(exchange, before_after.THEMES[name])
    stored = (before_after.IMAGES / name).read_text("utf-8")

    assert drawn == stored, "run: python -m tools.before_after"
    assert f"docs/images/{name}" in README


def test_server_writes_the_call_as_text_and_the_client_receives_it(
    exchange: before_after.Exchange,
) -> None:
    thinking, call = exchange.blocks

    assert "<|tool_call_begin|>functions.Bash:0" in "".join(exchange.chunks)
    assert "stop" == exchange.finish_reason
    assert "The test fails. I run it first." == thinking["thinking"].strip()
    assert ("Bash", {"command": "pytest -q tests/test_dates.py"}) == (call["name"], call["input"])
    assert "tool_use" == exchange.stop_reason


@pytest.mark.parametrize("name", before_after.THEMES)
def test_every_line_is_inside_its_panel(exchange: before_after.Exchange, name: str) -> None:
    root = ET.fromstring((before_after.IMAGES / name).read_bytes())
    texts = [one for one in root.iter() if one.get("textLength")]
    shown = "".join(one.text or "" for one in texts)

    for one in texts:
        first, last = float(one.get("x")), float(one.get("x")) + float(one.get("textLength"))
        left = first < before_after.LEFT_END
        assert last <= (before_after.LEFT_END if left else before_after.RIGHT_END) - 8
    assert re.sub(r"\s", "", json.dumps(exchange.blocks[-1]["input"])) in shown.replace(" ", "")
    assert f"{len(FORMATS)} formats" in "".join(root.itertext())
