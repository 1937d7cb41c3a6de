"""`dragoman parse` and `dragoman formats`."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.toolcalls.format_names import ALIASES
from dragoman.toolcalls.formats import FORMATS
from tests.support.commands import run

DRAGOMAN = [sys.executable, "-m", "dragoman.cli.main"]
KIMI = (
    "Checking.<|tool_calls_section_begin|><|tool_call_begin|>functions.lookup:4<|tool_call_argument_begin|>"
    '{"q":"ab"}<|tool_call_end|><|tool_calls_section_end|>'
)


def parsed(*arguments: str, data: bytes | str) -> dict[str, Any]:
    result = run("parse", *arguments, data=data)
    assert 0 == result.code
    return msgspec.json.decode(result.out)


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

    found = [msgspec.json.decode(line) for line in result.out.splitlines()]
    assert 0 == result.code
    assert ["a", 2, None, "d", "e"] == [one["id"] for one in found]
    assert ["lookup", "lookup"] == [one["tool_calls"][0]["name"] for one in found[:2]]
    assert ("", "Checking.") == (found[1]["content"], found[1]["reasoning"])
    assert "plain" == found[2]["content"]
    assert ("Hi", "hm") == (found[3]["content"], found[3]["reasoning"])
    assert KIMI == found[4]["content"]


def test_a_bad_line_is_named_and_the_others_are_parsed() -> None:
    result = run("parse", "--jsonl", data=b'{"id":1,"text":"x"}\nnonsense\n{"id":3,"text":"y"}\n')

    assert 1 == result.code
    assert [1, 3] == [msgspec.json.decode(line)["id"] for line in result.out.splitlines()]
    assert b"line 2" in result.err
    assert b"Traceback" not in result.err


@pytest.mark.parametrize(
    ("data", "content"),
    [
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"a\x00b", "a\0b"),
        (b"\xed\xa0\xbd", "\ufffd\ufffd\ufffd"),  # half of a surrogate pair
        (b"", ""),
        (b"\xef\xbb\xbfa\r\nb\x1b[0m", "\ufeffa\r\nb\x1b[0m"),
        (b"<|tool_call_begin|>" * 500, "<|tool_call_begin|>" * 500),
        (b"{" * 5000, "{" * 5000),
    ],
)
@pytest.mark.parametrize("arguments", [(), ("--model", "kimi-k2"), ("--split", "1")])
def test_no_bytes_make_it_fail(data: bytes, content: str, arguments: tuple[str, ...]) -> None:
    assert content == parsed(*arguments, data=data)["content"]


def test_output_is_utf8_whatever_the_terminal_encodes() -> None:
    result = subprocess.run(
        [*DRAGOMAN, "parse"],
        input="é 漢 😀".encode(),
        capture_output=True,
        check=False,
        env={"PYTHONIOENCODING": "ascii", "LC_ALL": "C"},
        timeout=60,
    )

    assert "é 漢 😀" == msgspec.json.decode(result.stdout)["content"]


def lines(data: bytes, *arguments: str) -> tuple[int, list[Any], bytes]:
    """Return the exit code, what was printed for each line, and what was said of others."""
    result = run("parse", "--jsonl", *arguments, data=data)
    return (
        result.code,
        [json.loads(line) for line in result.out.splitlines()],
        result.err,
    )


def test_no_text_of_a_line_makes_it_fail() -> None:
    # Halves of surrogate pairs, apart and in two chunks; NUL; bytes that are no UTF-8.
    code, found, said = lines(
        rb'{"id":1,"format":"kimi_k2","text":"a\ud83d b"}'
        b"\n"
        rb'{"id":2,"format":"kimi_k2","chunks":["\ud83d","\ude00 \u0000"]}'
        b"\n"
        b'{"id":3,"text":"\xff"}\r\n'
        b'{"id":4}\n'
        b'{"id":5,"text":null,"chunks":null,"format":null,"model":null,"tools":null,"channel":null,'
        b'"start_in_reasoning":null}\n'
        rb'{"id":6,"format":"hermes","text":"<tool_call>{\"name\":\"f\",\"arguments\":{\"a\":\"\udc00\"}}"}'
    )

    assert (0, b"") == (code, said)
    assert ["a\ud83d b", "\U0001f600 \0", "\ufffd", "", ""] == [one["content"] for one in found[:5]]
    assert '{"a":"\udc00"}' == found[5]["tool_calls"][0]["arguments"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (b"nonsense", b"not valid JSON"),
        (b"[1]", b"expected `object`"),
        (b'{"text":1}', b"$.text"),
        (b'{"chunks":"a"}', b"$.chunks"),
        (b'{"channel":"sideways","text":""}', b"$.channel"),
        (b'{"format":"klingon","text":""}', b"no tool-call format `klingon`"),
        (b'{"tools":{"a":1},"text":""}', b"expected `array`"),
        (b'{"tools":[{"x":1}],"text":""}', b"$[0]"),
        (b'{"id":' + b"[" * 100_000, b"nests too deeply"),
    ],
)
def test_a_line_that_cannot_be_read_is_reported_and_costs_no_other(
    line: bytes, reason: bytes
) -> None:
    code, found, said = lines(b'{"id":1,"text":"x"}\n' + line + b'\n{"id":3,"text":"y"}\n')

    assert 1 == code
    assert [1, 3] == [one["id"] for one in found]
    assert said.startswith(b"dragoman: line 2: ")
    assert reason in said
    assert b"Traceback" not in said


SHAPES = {
    "chat": {"type": "function", "function": {"name": "lookup", "parameters": {"type": "object"}}},
    "anthropic": {"name": "lookup", "input_schema": {"type": "object"}},
    "responses": {"type": "function", "name": "lookup", "parameters": {"type": "object"}},
}
BARE = '{"name": "lookup", "parameters": {"q": "ab"}}'


@pytest.mark.parametrize("shape", SHAPES)
def test_tools_of_a_line_may_have_the_shape_of_any_dialect(shape: str, tmp_path: Path) -> None:
    line = {"id": 1, "format": "llama3_json", "text": BARE, "tools": [SHAPES[shape]]}
    file = tmp_path / "tools.json"
    file.write_bytes(msgspec.json.encode([SHAPES[shape]]))

    _, (found,), _ = lines(msgspec.json.encode(line))

    assert ["lookup"] == [one["name"] for one in found["tool_calls"]]
    again = parsed("--format", "llama3_json", "--tools", str(file), data=BARE)
    assert found == {"id": 1} | again


@pytest.mark.parametrize(
    ("tools", "calls"), [(None, 1), ([], 0), ([SHAPES["chat"]], 1), ([{"name": "other"}], 0)]
)
def test_what_tools_say_decides_what_is_a_call(tools: Any, calls: int) -> None:
    line = {"id": 1, "format": "llama3_json", "text": BARE, "tools": tools}

    _, (found,), _ = lines(msgspec.json.encode(line))

    assert calls == len(found["tool_calls"])
    assert ("" if calls else BARE) == found["content"]


def test_tools_of_the_command_hold_for_lines_without_their_own(tmp_path: Path) -> None:
    file = tmp_path / "tools.json"
    file.write_text("[]")
    with_own = {"id": 1, "format": "kimi_k2", "text": KIMI, "tools": [SHAPES["chat"]]}
    without = {"id": 2, "format": "kimi_k2", "text": KIMI}
    data = b"\n".join(map(msgspec.json.encode, (with_own, without)))

    _, found, _ = lines(data, "--tools", str(file))

    assert [1, 0] == [len(one["tool_calls"]) for one in found]


@pytest.mark.parametrize("split", [None, 1, 7, 1000])
def test_chunks_are_fed_one_by_one_or_cut_again(split: int | None) -> None:
    chunks = [KIMI[:31], "", KIMI[31:33], KIMI[33:]]
    line = {"id": 1, "format": "kimi_k2", "chunks": chunks}
    whole = {"id": 1, "format": "kimi_k2", "text": KIMI}
    options = () if split is None else ("--split", str(split))

    assert lines(msgspec.json.encode(whole)) == lines(msgspec.json.encode(line), *options)


def test_the_channel_and_where_the_text_begins() -> None:
    def line(**fields: Any) -> bytes:
        return msgspec.json.encode({"format": "kimi_k2", "text": "hm</think>Hi", **fields})

    fields: list[dict[str, Any]] = [
        {"start_in_reasoning": True},
        {"start_in_reasoning": False},
        {"channel": "reasoning"},
        {"format": "none", "start_in_reasoning": True},
        {"format": "none", "channel": "reasoning"},
    ]
    _, found, _ = lines(b"\n".join(line(**one) for one in fields))

    assert [
        ("Hi", "hm"),
        ("hm</think>Hi", ""),
        ("", "hm</think>Hi"),
        ("Hi", "hm"),
        ("", "hm</think>Hi"),
    ] == [(one["content"], one["reasoning"]) for one in found]


def test_a_cut_call_is_among_the_problems() -> None:
    found = parsed("--format", "kimi_k2", data=KIMI[: KIMI.index("ab") + 1])

    assert '{"q":"a' == found["tool_calls"][0]["arguments"]
    assert ["call_cut"] == [one["code"] for one in found["problems"]]
    assert {"code", "where", "detail"} == set(found["problems"][0])


def test_an_unknown_family_is_a_users_mistake() -> None:
    result = run("parse", "--format", "klingon")

    assert 2 == result.code
    assert b"no tool-call format `klingon`" in result.err


def test_formats_lists_every_family() -> None:
    shown = run("formats").out.decode()
    rows = [msgspec.json.decode(line) for line in run("formats", "--json").out.splitlines()]

    assert list(FORMATS) == [row["key"] for row in rows]
    for row in rows:
        assert row["key"] in shown
        assert row["models"]
        assert row["markers"]


def test_formats_shows_the_other_names_of_a_family() -> None:
    shown = run("formats").out.decode()
    rows = [msgspec.json.decode(line) for line in run("formats", "--json").out.splitlines()]

    assert ALIASES == {alias: row["key"] for row in rows for alias in row["aliases"]}
    for alias in ALIASES:
        assert f"= {alias}" in shown


def test_odd_literals_of_a_model_print_no_warning() -> None:
    done = subprocess.run(
        [*DRAGOMAN, "parse", "--format", "pythonic"],
        input="[f(a=1or)]",
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert {"a": "1or"} == json.loads(json.loads(done.stdout)["tool_calls"][0]["arguments"])
    assert "" == done.stderr
