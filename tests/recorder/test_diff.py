"""Recordings of real exchanges, of every family and fault, translated by today's code: nothing differs."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from dragoman.cli.main import main
from dragoman.dialects.chat import answer_reader
from dragoman.recorder.recording import read_recording
from dragoman.turn.events import FinishReason


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
    index = next(
        at
        for at, event in enumerate(read_recording(recorded).answered.events)
        if b'"finish"' in bytes(event)
    )
    assert f"  event {index}\n" in result.output
    coloured = CliRunner().invoke(main, ["diff", str(recorded)], color=True)
    assert '\x1b[31m  - {"event":"finish","reason":"stop"' in coloured.output
    assert '\x1b[32m  + {"event":"finish","reason":"refusal"' in coloured.output
