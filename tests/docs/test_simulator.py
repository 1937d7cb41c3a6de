"""The page on the simulator says what there is."""

import re
from pathlib import Path

import pytest

from dragoman.simulator.conversation import parse_directives
from dragoman.simulator.model_names import parse_model
from dragoman.simulator.quirks import QUIRKS, check
from dragoman.simulator.script import Match, ScriptReply, load_script
from tests.support.tables import in_one_test

PAGE = (Path(__file__).parent.parent.parent / "docs" / "simulator.md").read_text("utf-8")


@in_one_test
@pytest.mark.parametrize("name", QUIRKS)
def test_every_quirk_is_in_the_table(name: str) -> None:
    assert f"| `{QUIRKS[name].usage}` | {QUIRKS[name].description} |" in PAGE


def test_every_name_on_the_page_is_one() -> None:
    for name in re.findall(r"`(sim/[^`…\[]+)`", PAGE):
        check(parse_model(name).quirks)


def test_directives_on_the_page_are_understood() -> None:
    [block] = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)

    assert 2 == len(parse_directives(block))


def test_script_on_the_page_is_one(tmp_path: Path) -> None:
    [block] = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "recorded.sse").write_text("data: {}\n\n")
    (tmp_path / "script.toml").write_text(block)

    load_script(tmp_path / "script.toml")

    for field in ScriptReply.__struct_fields__:
        assert f"`{field}`" in PAGE or f"`{field}." in PAGE
    for field in Match.__struct_fields__:
        assert f"`match.{field}`" in PAGE
