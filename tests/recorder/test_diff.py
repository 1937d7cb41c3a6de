"""Recordings of real exchanges, of every family and fault, through the code of today: nothing differs."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dragoman.cli.main import main
from dragoman.dialects.chat import answer_reader
from dragoman.recorder.recording import read_recording
from dragoman.turn.events import FinishReason
from tests.support.recordings import exchanges


def test_every_exchange_is_one_file(folder: Path) -> None:
    files = list(folder.iterdir())
    assert len(files) == len(list(exchanges())) >= 300
    for file in files:
        recording = read_recording(file)
        assert recording.outcome is not None
        assert recording.torn_at is None
        assert recording.written


def test_nothing_differs_from_what_was_recorded(folder: Path) -> None:
    result = CliRunner().invoke(main, ["diff", str(folder)])
    assert result.exit_code == 0, result.output[:4000]
    assert "0 differ" in result.output


def test_a_changed_table_is_found_at_its_event(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(answer_reader.FINISH_REASONS, "stop", FinishReason.REFUSAL)
    recorded = next(
        file
        for file in folder.iterdir()
        if b'"source":"chat"' in file.read_bytes() and b'"reason":"stop"' in file.read_bytes()
    )
    result = CliRunner().invoke(main, ["diff", str(recorded)])
    assert result.exit_code == 1
    assert '- {"event":"finish","reason":"stop"' in result.output
    assert '+ {"event":"finish","reason":"refusal"' in result.output


def test_a_replay_is_the_same_however_the_bytes_are_cut(folder: Path) -> None:
    file = next(
        file for file in folder.iterdir() if b'"native_format":"kimi_k2"' in file.read_bytes()
    )
    whole = CliRunner().invoke(main, ["replay", str(file)])
    recording = read_recording(file)
    assert whole.stdout_bytes == b"".join(one.data.data for one in recording.written)
    answers = []
    for more in ([], ["--split", "1"], ["--split", "7"]):
        shown = CliRunner().invoke(main, ["replay", "--events", str(file), *more])
        assert shown.exit_code == 0
        answers.append(joined(shown.output))
    assert "tool_call" in str(answers[0])
    assert answers[0] == answers[1] == answers[2]


def joined(lines: str) -> list[dict[str, Any]]:
    """Return events with the deltas of a block as one."""
    found: list[dict[str, Any]] = []
    for event in map(json.loads, lines.splitlines()):
        key = {"text": "text", "reasoning": "text", "args": "json"}.get(event["event"], "")
        if key and found and found[-1]["event"] == event["event"]:
            found[-1][key] += event[key]
        else:
            found.append(event)
    return found


def test_show_prints_who_asked_whom_and_the_answer(folder: Path) -> None:
    file = next(
        file for file in folder.iterdir() if b'"native_format":"kimi_k2"' in file.read_bytes()
    )
    result = CliRunner().invoke(main, ["show", "--bytes", str(file)])
    assert result.exit_code == 0
    for words in (
        "client    POST /v1/",
        "upstream  ",
        "outcome   200",
        "upstream sent",
        "tool_call",
        "markers in the upstream's bytes",
        "  <|tool_call_begin|>",
    ):
        assert words in result.output
