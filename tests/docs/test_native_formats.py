"""The example formats of the page pass `dragoman formats check`, and its code does what it says."""

import re
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman.cli.main import main
from dragoman.toolcalls.format_names import ALIASES, normalized_name

PAGE = (Path(__file__).parents[2] / "docs" / "native-formats.md").read_text("utf-8")
SECTION = PAGE.partition("## A format of your own\n")[2].partition("\n## ")[0]


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Write the files of the page into an empty folder, and run in it."""
    for text in (*blocks("toml"), *blocks("python")):
        if name := re.match(r"# (\S+\.(?:toml|py))\n", text):
            with (tmp_path / name[1]).open("a") as file:
                file.write(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    sys.modules.pop("acme_formats", None)


def dragoman(*arguments: str, text: str = ""):
    return CliRunner().invoke(main, list(arguments), prog_name="dragoman", input=text)


@pytest.mark.parametrize(
    ("source", "keys"),
    [
        ("acme.toml", ["acme", "acme-xml"]),
        ("acme_formats.py", ["acme", "acme-brackets"]),
    ],
)
def test_the_example_formats_pass_all_checks(folder: Path, source: str, keys: list[str]) -> None:
    result = dragoman("formats", "check", source)

    assert 0 == result.exit_code, result.output
    assert keys == re.findall(r"^(\S+): all \d{3,} checks passed$", result.output, re.MULTILINE)
    assert f"$ dragoman formats check {source}" in SECTION


def test_the_texts_of_the_page_are_read(folder: Path) -> None:
    texts = re.findall(r"^It reads `(.+?)`", SECTION, re.MULTILINE)
    for text, name in zip(texts, ("acme", "acme-xml"), strict=True):
        result = dragoman("parse", "--config", "acme.toml", "--format", name, text=text)

        assert '"name":"ls","arguments":"{\\"path\\": \\".\\"}"' in result.output


def test_the_code_prints_what_the_page_shows(folder: Path, capsys) -> None:
    (code,) = [text for text in blocks("python") if "prints" in text]

    exec(code, {})

    assert [capsys.readouterr().out.strip()] == re.findall("# prints (.*)", code)


def test_the_names_of_the_page_are_aliases() -> None:
    names = PAGE.partition("## Names\n")[2].partition("\n## ")[0]
    for left, right in re.findall(r"((?:`\w+`(?: and )?)+) (?:is|are) `(\w+)`", names):
        for alias in re.findall(r"`(\w+)`", left):
            assert ALIASES[normalized_name(alias)] == right
