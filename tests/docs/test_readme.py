"""Every example in README and docs runs."""

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman import decode_tools, translate_body
from dragoman.toolcalls.bodies.json_objects import MAX_HEADER_CHARS, MAX_LITERAL_CHARS
from dragoman.toolcalls.bodies.literals import MAX_KEY_CHARS
from dragoman.toolcalls.formats import FORMATS
from dragoman.toolcalls.machine import MAX_BLANKS
from dragoman.turn.losses import CODES
from tests.support.held import longest_marker

ROOT = Path(__file__).parent.parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Those marked `py` need packages that are not installed here: tests/frameworks runs them.
BLOCKS = [
    pytest.param(page, block, id=f"{page.name} {number}")
    for page in PAGES
    for number, block in enumerate(
        re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)
    )
]


@pytest.fixture
def files(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Write the blocks of a page that begin with a file's name, and run the example beside them."""
    names = re.compile(r"```(?:python|toml)\n(# (\S+\.(?:py|toml))\n.*?)```", re.DOTALL)
    for text, name in names.findall(page.read_text("utf-8")):
        with (tmp_path / name).open("a") as file:
            file.write(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for path in tmp_path.glob("*.py"):
        sys.modules.pop(path.stem, None)


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("page", "block"), BLOCKS)
def test_example_runs(
    page: Path, block: str, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # After an installation the program is next to the interpreter.
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    exec(compile(block, "example", "exec"), {})

    expected = re.findall(r"^# prints (.*)$", block, re.MULTILINE)
    printed = capfd.readouterr().out
    for line in expected:
        assert line in printed


def test_every_make_verb_of_the_readme_exists() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")

    for verb in re.findall(r"`make ([a-z-]+)`", (ROOT / "README.md").read_text("utf-8")):
        assert re.search(rf"^{verb}:", makefile, re.MULTILINE)


def test_the_table_of_losses_is_complete() -> None:
    page = (ROOT / "docs" / "library.md").read_text("utf-8")

    for code, says in CODES.items():
        assert f"| `{code}` | {says} |" in page


def test_the_table_of_families_is_complete() -> None:
    page = (ROOT / "docs" / "native-formats.md").read_text("utf-8")

    for key, family in FORMATS.items():
        assert f"| `{key}` | {family.description} |" in page


def test_the_readme_counts_the_families() -> None:
    assert f"knows {len(FORMATS)} families" in (ROOT / "README.md").read_text("utf-8")


def test_limits_of_held_text_are_documented() -> None:
    page = (ROOT / "docs" / "native-formats.md").read_text("utf-8")
    markers = {longest_marker(family) for family in FORMATS.values()}

    assert f"`MAX_BLANKS`, {MAX_BLANKS} " in page
    assert f"`MAX_HEADER_CHARS`, {MAX_HEADER_CHARS} " in page
    assert f"`MAX_KEY_CHARS`, {MAX_KEY_CHARS} " in page
    assert f"`MAX_LITERAL_CHARS`, {MAX_LITERAL_CHARS // 1024} KiB " in page
    assert "150 to 700 characters" in page
    assert min(markers) >= 150
    assert max(markers) <= 700


def test_the_first_example_is_what_the_translation_gives() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    before, after = (
        json.loads(block) for block in re.findall(r"```json\n(.*?)```", readme, re.DOTALL)[:2]
    )
    tool = b'{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}'
    translated = translate_body(
        json.dumps(before).encode(),
        source="chat",
        target="anthropic",
        model="kimi-k2",
        tools=decode_tools(b"[" + tool + b"]"),
    )
    body = json.loads(translated.body)

    assert after == {name: body[name] for name in after}
