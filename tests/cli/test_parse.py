"""`dragoman parse` and `dragoman formats`, as a user runs them."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.toolcalls.formats import ALIASES, FORMATS

DRAGOMAN = [sys.executable, "-m", "dragoman.cli.main"]
KIMI = (
    "Checking.<|tool_calls_section_begin|><|tool_call_begin|>functions.lookup:4<|tool_call_argument_begin|>"
    '{"q":"ab"}<|tool_call_end|><|tool_calls_section_end|>'
)


def run(*arguments: str, data: bytes | str = b"") -> subprocess.CompletedProcess[bytes]:
    if isinstance(data, str):
        data = data.encode()
    return subprocess.run(
        [*DRAGOMAN, *arguments], input=data, capture_output=True, check=False, timeout=60
    )


def parsed(*arguments: str, data: bytes | str) -> dict[str, Any]:
    result = run("parse", *arguments, data=data)
    assert 0 == result.returncode
    return msgspec.json.decode(result.stdout)


@pytest.mark.parametrize(
    "arguments", [("--model", "kimi-k2"), ("--format", "kimi_k2"), ("--split", "1"), ()]
)
def test_a_text_becomes_content_and_calls(arguments: tuple[str, ...]) -> None:
    assert {
        "content": "Checking.",
        "reasoning": "",
        "tool_calls": [{"id": "functions.lookup:4", "name": "lookup", "arguments": '{"q":"ab"}'}],
        "problems": [],
    } == parsed(*arguments, data=KIMI)


def test_an_empty_list_of_tools_leaves_everything_alone(tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text("[]")

    found = parsed("--model", "kimi-k2", "--tools", str(tools), data=KIMI)

    assert (KIMI, []) == (found["content"], found["tool_calls"])


def test_tools_type_the_arguments(tmp_path: Path) -> None:
    tools = tmp_path / "tools.json"
    tools.write_text(
        '[{"name":"f","input_schema":{"type":"object","properties":'
        '{"zip":{"type":"string"},"n":{"type":"integer"}}}}]'
    )
    text = "<tool_call>\n<function=f>\n<parameter=zip>\n02134\n</parameter>\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>"

    found = parsed("--format", "qwen3_coder", "--tools", str(tools), data=text)

    assert {"zip": "02134", "n": 3} == msgspec.json.decode(found["tool_calls"][0]["arguments"])


def test_jsonl_gives_a_line_for_a_line() -> None:
    lines = [
        {"id": "a", "model": "kimi-k2", "text": KIMI},
        {"id": 2, "format": "kimi_k2", "chunks": [KIMI[:20], KIMI[20:]], "channel": "reasoning"},
        {"id": None, "model": "gpt-4", "text": "plain"},
        {"id": "d", "format": "hermes", "text": "hm</think>Hi", "start_in_reasoning": True},
        {"id": "e", "format": "kimi_k2", "text": KIMI, "tools": []},
    ]
    data = b"\n".join(msgspec.json.encode(line) for line in lines) + b"\n\n"

    result = run("parse", "--jsonl", data=data)

    found = [msgspec.json.decode(line) for line in result.stdout.splitlines()]
    assert 0 == result.returncode
    assert ["a", 2, None, "d", "e"] == [one["id"] for one in found]
    assert ["lookup", "lookup"] == [one["tool_calls"][0]["name"] for one in found[:2]]
    assert ("", "Checking.") == (found[1]["content"], found[1]["reasoning"])
    assert "plain" == found[2]["content"]
    assert ("Hi", "hm") == (found[3]["content"], found[3]["reasoning"])
    assert KIMI == found[4]["content"]


def test_a_bad_line_is_named_and_the_others_are_parsed() -> None:
    result = run("parse", "--jsonl", data=b'{"id":1,"text":"x"}\nnonsense\n{"id":3,"text":"y"}\n')

    assert 1 == result.returncode
    assert [1, 3] == [msgspec.json.decode(line)["id"] for line in result.stdout.splitlines()]
    assert b"line 2" in result.stderr
    assert b"Traceback" not in result.stderr


def test_bytes_that_are_no_text_do_not_fail() -> None:
    assert "\ufffd\ufffd" == parsed(data=b"\xff\xfe")["content"]


def test_an_unknown_family_is_a_users_mistake() -> None:
    result = run("parse", "--format", "klingon")

    assert 2 == result.returncode
    assert b"no tool-call format `klingon`" in result.stderr


def test_formats_lists_every_family() -> None:
    shown = run("formats").stdout.decode()
    rows = [msgspec.json.decode(line) for line in run("formats", "--json").stdout.splitlines()]

    assert list(FORMATS) == [row["key"] for row in rows]
    for row in rows:
        assert row["key"] in shown
        assert row["models"]
        assert row["markers"]


def test_formats_shows_the_other_names_of_a_family() -> None:
    shown = run("formats").stdout.decode()
    rows = [msgspec.json.decode(line) for line in run("formats", "--json").stdout.splitlines()]

    assert ALIASES == {alias: row["key"] for row in rows for alias in row["aliases"]}
    for alias in ALIASES:
        assert f"= {alias}" in shown
