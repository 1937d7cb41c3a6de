"""`dragoman formats` lists names, and `dragoman formats check` reports what fails."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman.cli.main import main
from dragoman.toolcalls.format_names import ALIASES
from dragoman.toolcalls.formats import FORMATS

DECLARED = """
[formats.acme]
shape = "json"
open = "<acme>"
close = "</acme>"
models = ["acme-*"]
"""
CALL = '<acme>{"name": "f", "arguments": {"a": 1}}</acme>'


def run(*arguments: str, text: str = ""):
    return CliRunner().invoke(main, list(arguments), prog_name="dragoman", input=text)


@pytest.fixture(autouse=True)
def _alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "acme.toml").write_text(DECLARED)


def test_the_table_has_every_key_and_alias() -> None:
    words = run("formats").output.split()

    assert set(FORMATS) <= set(words)
    assert set(ALIASES) <= set(words)


def test_json_has_everything_about_a_format() -> None:
    rows = {
        row["key"]: row for row in map(json.loads, run("formats", "--json").output.splitlines())
    }

    assert [*rows] == [*FORMATS]
    kimi = rows["kimi_k2"]
    assert "kimi" in kimi["aliases"]
    assert ["<think>", "</think>"] in kimi["reasoning"]
    assert ["content", "reasoning"] == kimi["channels"]
    assert kimi["ids"]
    assert ("built-in", "toolcalls/formats/kimi.py") == (kimi["origin"], kimi["source"])
    assert all(row["source"] and row["markers"] for row in rows.values())


def test_declared_formats_are_listed_first() -> None:
    first = json.loads(run("formats", "--config", "acme.toml", "--json").output.splitlines()[0])

    assert ("acme", "settings", ["acme-*"]) == (first["key"], first["origin"], first["models"])


@pytest.mark.parametrize("choice", [("--format", "ACME"), ("--model", "acme-7b")])
def test_parse_finds_a_declared_format_by_name_and_by_model(choice: tuple[str, str]) -> None:
    result = run("parse", "--config", "acme.toml", *choice, text=CALL)

    assert "f" == json.loads(result.output)["tool_calls"][0]["name"]


def test_lines_of_jsonl_may_name_a_declared_format() -> None:
    line = json.dumps({"format": "acme", "text": CALL})

    result = run("parse", "--config", "acme.toml", "--jsonl", text=line)

    assert "f" == json.loads(result.output)["tool_calls"][0]["name"]


def test_translate_finds_a_declared_format() -> None:
    body = json.dumps({"choices": [{"message": {"role": "assistant", "content": CALL}}]})

    result = run(
        "translate", "--from", "chat", "--to", "anthropic", "--body", "--format", "acme", "--config",
        "acme.toml", text=body,
    )  # fmt: skip

    assert "tool_use" in result.stdout


def test_a_passing_check_prints_the_number() -> None:
    result = run("formats", "check", "acme.toml")

    assert 0 == result.exit_code
    assert "  split " in result.output
    assert result.output.rstrip().endswith("checks passed")


def test_a_failing_check_prints_what_fails(tmp_path: Path) -> None:
    (tmp_path / "bad.py").write_text(
        "from dragoman import Format\n"
        "from dragoman.toolcalls.format import AHEAD, ObjectsSpec, call\n"
        "BAD = Format(key='bad', rules=call((AHEAD, '{'), body=ObjectsSpec()))\n"
    )

    result = run("formats", "check", "bad.py:BAD")

    assert 1 == result.exit_code
    assert "FAILED honest text: a call " in result.output
    assert "checks failed" in result.output


@pytest.mark.parametrize(
    ("source", "text", "code", "message"),
    [
        (
            "x.toml",
            "[formats.x]\nshape = 'json'\nopen = 'call'\n",
            1,
            "formats.x.open: begins with",
        ),
        ("x.toml", "[formats.x]\nshape = 'jsn'\nopen = '<a>'\n", 1, "did you mean `json`?"),
        ("x.toml", "[formats.x]\nshape = 'json'\nopne = '<a>'\n", 1, "did you mean `open`?"),
        (
            "x.toml",
            "[formats.hermes]\nshape = 'json'\nopen = '<a>'\n",
            1,
            "built-in format `hermes`",
        ),
        ("x.toml", "[server]\n", 2, "has no table `[formats.NAME]`"),
        ("x.toml", "[formats.x]\nshape='json'\nopen='<a>'\ntrim='none'\n", 1, "x.trim: is for"),
        ("x.py", "x = 1\n", 2, "has no `dragoman.Format`"),
        ("x.py:x", "x = 1\n", 2, "is not a `dragoman.Format`"),
        ("x.py", "from dragoman import json_format as j\nX = j('x', open='a')\n", 1, "not legal"),
        ("y.py", "", 2, "there is no file y.py"),
        ("y:z", "", 2, "cannot import `y`"),
        ("kimi_k", "", 2, "did you mean"),
    ],
)
def test_a_source_that_cannot_be_read(
    tmp_path: Path, source: str, text: str, code: int, message: str
) -> None:
    if source.startswith("x."):
        (tmp_path / source.partition(":")[0]).write_text(text)

    result = run("formats", "check", source)

    assert (code, True) == (result.exit_code, message in result.output), result.output
