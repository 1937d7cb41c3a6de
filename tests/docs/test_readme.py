"""Every example in README and docs runs."""

import ast
import importlib
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from dragoman.gateway.config.vendors import VENDORS
from dragoman.toolcalls.bodies.json_objects import MAX_HEADER_CHARS, MAX_LITERAL_CHARS
from dragoman.toolcalls.bodies.literals import MAX_KEY_CHARS
from dragoman.toolcalls.formats import FORMATS
from dragoman.toolcalls.machine import MAX_BLANKS
from dragoman.turn.losses import CODES
from tests.agents.cells import CELLS
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


# --- does it work with … ------------------------------------------------------------------------------

README = (ROOT / "README.md").read_text("utf-8")
ROW = re.compile(r"^\| ([^|]+) \| (\[✓\].*) \|$", re.MULTILINE)
PROOF = re.compile(r'\[✓\]\((tests/[\w/]+\.py) "([\w ]+)"\)')
# The dialects of the columns, in their order; only clients have the last one.
COLUMNS = ("chat", "anthropic", "responses", "gemini")


def proofs(row: str) -> list[tuple[str, list[str]]]:
    """Return for each column the test file and the names in it."""
    return [(path, names.split()) for path, names in PROOF.findall(row)]


@pytest.mark.parametrize(("name", "row"), ROW.findall(README))
def test_every_cell_links_to_tests_that_exist(name: str, row: str) -> None:
    assert len(proofs(row)) == row.count("✓") >= 3
    for path, names in proofs(row):
        tree = ast.parse((ROOT / path).read_bytes())
        defined = {
            node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)
        }
        assert {*names} <= defined


def test_every_tested_client_is_in_the_table_with_each_dialect_of_a_server() -> None:
    shown: dict[str, set[str]] = {dialect: set() for dialect in COLUMNS}
    for _, row in ROW.findall(README):
        for dialect, (path, names) in zip(COLUMNS, proofs(row), strict=False):
            module = importlib.import_module(path.removesuffix(".py").replace("/", "."))
            programs = [getattr(module, one).program.name for one in names if one[0] == "T"]
            shown[dialect].update(one for one in programs if CELLS[one].get(dialect))

    tested = {dialect: {one for one in CELLS if CELLS[one].get(dialect)} for dialect in COLUMNS}
    assert {*CELLS} == tested["chat"] == tested["anthropic"] == tested["responses"]
    assert tested == shown


def test_servers_are_tested_with_each_dialect_of_a_client() -> None:
    rows = [proofs(row) for _, row in ROW.findall(README) if "tests/servers/" in row]

    tested = {*(ROOT / "tests" / "servers").glob("test_*.py")}
    assert {ROOT / path for row in rows for path, _ in row} == {
        path
        for path in tested
        if path.name != "test_proxy_py.py"  # a proxy, without models
    }
    for path, [name] in (one for row in rows for one in row):
        text = (ROOT / path).read_text("utf-8")
        assert re.search(rf"@clients\n(?:@.*\n)*def {name}\(", text)


def test_other_servers_and_vendors_have_settings() -> None:
    others = {"openrouter", "simulator", "litellm", "transformers", "llama-server"}
    others |= {"vllm", "sglang", "ollama", "lm-studio"}

    assert f"and {len(VENDORS) - len(others)} vendors follow their documentation" in README


def test_figures_of_the_readme_are_those_of_the_page_on_performance() -> None:
    [line] = [line for line in README.splitlines() if "docs/performance.md" in line]
    page = (ROOT / "docs" / "performance.md").read_text("utf-8")
    figures = re.findall(r"\d[\d.,]*\d", line)

    assert figures
    assert [] == [one for one in figures if one not in page]
