"""A recording translated again: the bytes that the client got, whatever the cuts."""

import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from dragoman.cli.main import main
from dragoman.recorder.recording import read_recording


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
