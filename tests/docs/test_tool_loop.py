"""The page on the tool loop names every bound, and all that a step and a call have."""

import inspect
import re
from pathlib import Path
from typing import get_args

import pytest

from dragoman import LoopLimits, Step, ToolCall, ToolLoop, Transcript
from dragoman.client.tool_loop import LoopOptions, Reason

PAGE = (Path(__file__).parent.parent.parent / "docs" / "tool-loop.md").read_text("utf-8")


@pytest.mark.parametrize("name", LoopLimits.__struct_fields__)
def test_the_table_of_bounds_is_complete(name: str) -> None:
    assert re.search(
        rf"^\| `{name}` \| {int(getattr(LoopLimits(), name)):,} \|", PAGE, re.MULTILINE
    )


@pytest.mark.parametrize("reason", get_args(Reason))
def test_every_reason_to_stop_is_documented(reason: str) -> None:
    assert re.search(rf"^\| `\w+` \| [\d,]+ \| `{reason}` \|", PAGE, re.MULTILINE)


@pytest.mark.parametrize("name", [one for one in vars(Step) if not one.startswith("_")])
def test_all_that_a_step_has_is_documented(name: str) -> None:
    assert f"`step.{name}" in PAGE


@pytest.mark.parametrize("name", [*ToolCall.__struct_fields__, "args"])
def test_all_that_a_call_has_is_documented(name: str) -> None:
    assert f"`call.{name}`" in PAGE


@pytest.mark.parametrize("name", Transcript.__struct_fields__)
def test_all_that_a_transcript_has_is_documented(name: str) -> None:
    assert re.search(rf"^\| .*`{name}`.* \|", PAGE, re.MULTILINE)


def test_every_option_of_a_loop_is_documented() -> None:
    for name in LoopOptions.__annotations__:
        assert f"{name}=" in PAGE
    for name in inspect.signature(ToolLoop.resume).parameters:
        assert name in ("client", "transcript", "options")
