"""The playground's parse: rows with their chunks and bytes, calls, and a comparison over all chunk sizes."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dragoman.inspector import playground
from dragoman.inspector.playground import MOST_BYTES, SIZES, PlaygroundError, Question, parse
from dragoman.toolcalls.stage import NativeCalls

TEXT = (
    "I look at the tests first.\n<|tool_calls_section_begin|><|tool_call_begin|>functions.Bash:0"
    '<|tool_call_argument_begin|>{"command": "pytest -q", "timeout": 120000}<|tool_call_end|>'
    "<|tool_calls_section_end|>"
)
BASH = {
    "name": "Bash",
    "input_schema": {
        "type": "object",
        "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
    },
}
STREAM = "".join(
    f"data: {json.dumps({'id': '1', 'choices': [choice]})}\n\n"
    for choice in (
        {"index": 0, "delta": {"content": "Hi <tool_call>\n"}},
        {"index": 0, "delta": {"content": '{"name": "ls", "arguments": {"a": 1}}\n</tool_call>'}},
        {"index": 0, "delta": {}, "finish_reason": "stop"},
    )
)


def asked(text: str, **options: Any) -> dict[str, Any]:
    """Return the answer as the page gets it."""
    found: dict[str, Any] = msgspec.json.decode(
        msgspec.json.encode(parse(Question(text, **options)))
    )
    return found


def test_a_text_becomes_events_with_their_chunks_and_bytes() -> None:
    found = asked(TEXT)
    assert found["family"] == "kimi_k2"
    assert found["text"] == "I look at the tests first.\n"
    assert found["cuts"][:2] == [12, 24]
    [call] = found["calls"]
    assert (call["name"], call["state"]) == ("Bash", "complete")
    data = TEXT.encode()
    for row in found["events"]:
        if row["from"] is not None:
            assert data[row["from"] : row["to"]].decode() == row["text"]
            assert row["chunk"] == -(-row["to"] // 12)
    kinds = [row["kind"] for row in found["events"]]
    assert kinds[:3] == ["text"] * 3
    assert kinds.index("call start") < kinds.index("arguments") < kinds.index("call end")
    assert kinds[-1] == "finish"
    for marker in call["markers"]:
        assert data[marker["from"] : marker["to"]].decode() == marker["text"]


def test_every_chunk_size_gives_the_same_result() -> None:
    assert asked(TEXT)["sizes"] == [True] * SIZES
    assert asked(STREAM, kind="stream")["sizes"] == [True] * SIZES
    assert asked("<think>für</think> 😀", family="hermes")["sizes"] == [True] * SIZES


def test_a_size_that_gives_another_result_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(NativeCalls):
        """Loses deltas of seven characters."""

        def feed(self, events: Any, /) -> Any:
            return super().feed([one for one in events if len(getattr(one, "text", "")) != 7])

    monkeypatch.setattr(playground, "NativeCalls", Broken)
    sizes = asked("x" * 70)["sizes"]
    assert sizes[6] is False
    assert sizes[9] is True


def test_large_inputs_are_compared_at_fewer_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(playground, "_COMPARE_SECONDS", -1.0)
    assert asked(TEXT)["sizes"] == [None] * SIZES


def test_the_declared_tools_check_the_arguments() -> None:
    tools = Raw(json.dumps([BASH]).encode())
    assert asked(TEXT, tools=tools)["calls"][0]["schema"] == {"ok": True, "problems": []}
    wrong = TEXT.replace("120000", '"soon"')
    [call] = asked(wrong, tools=tools)["calls"]
    assert call["schema"]["problems"] == ["`timeout` must be integer"]
    assert asked(TEXT, tools=Raw(b"[]"))["calls"] == []


def test_a_stream_is_read_in_its_dialect() -> None:
    found = asked(STREAM, kind="stream", size=7)
    assert found["family"] == "hermes"
    assert [call["name"] for call in found["calls"]] == ["ls"]
    assert found["text"] == "Hi "
    assert {"finish_reason_fixed", "usage_missing"} == {one["code"] for one in found["problems"]}


def test_reasoning_is_parsed_as_reasoning() -> None:
    found = asked(TEXT, channel="reasoning")
    assert found["reasoning"] == "I look at the tests first.\n"
    assert found["calls"][0]["found"] == {"channel": "reasoning", "family": "kimi_k2"}


def test_the_result_is_written_in_every_dialect() -> None:
    outputs = asked(TEXT)["outputs"]
    assert json.loads(outputs["anthropic"])["stop_reason"] == "tool_use"
    assert json.loads(outputs["chat"])["choices"][0]["finish_reason"] == "tool_calls"
    assert json.loads(outputs["responses"])["output"][-1]["type"] == "function_call"
    assert json.loads(outputs["gemini"])["candidates"][0]["finishReason"] == "STOP"


def test_a_call_that_a_dialect_cannot_show_is_an_error_there() -> None:
    outputs = asked(TEXT.replace("120000", "nothing"))["outputs"]

    assert "tool_calls" == json.loads(outputs["chat"])["choices"][0]["finish_reason"]
    assert "INTERNAL" == json.loads(outputs["gemini"])["error"]["status"]


def test_a_text_that_ends_inside_of_a_call_has_an_incomplete_call() -> None:
    found = asked(TEXT[: TEXT.index("pytest")])
    assert found["calls"][0]["state"] == "incomplete"
    assert "call_cut" in {one["code"] for one in found["problems"]}


def test_a_stream_that_breaks_its_dialect_ends_with_a_fault() -> None:
    found = asked("data: {\n\n" * 3, kind="stream")
    assert found["events"][-1]["kind"] == "fault"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"family": "nope"}, "no tool-call format"),
        ({"kind": "stream", "dialect": "nope"}, "no dialect"),
        ({"size": 0}, "1 to 64"),
        ({"size": 65}, "1 to 64"),
        ({"tools": Raw(b"[1]")}, "tool schema"),
        ({"text": "x" * (MOST_BYTES + 1)}, "at most"),
    ],
)
def test_what_cannot_be_parsed_is_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(PlaygroundError, match=words):
        parse(Question(**{"text": "x", **options}))


def test_an_empty_text_has_no_events_but_its_end() -> None:
    assert [row["kind"] for row in asked("")["events"]] == ["finish"]
