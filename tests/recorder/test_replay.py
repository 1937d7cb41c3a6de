"""A recording translated again: the bytes that the client got, whatever the cuts."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from dragoman.cli.main import main
from dragoman.gateway.config.settings import FormatTable, Record, Settings
from dragoman.recorder.lines import encode_line
from dragoman.recorder.mask import mask_recording
from dragoman.recorder.recording import read_recording, recording_of
from dragoman.recorder.replay import differences, different_bytes, replay
from tests.support.asking import post
from tests.support.gateway import FIXED_PATHS, settings_for, stand
from tests.support.odd_upstream import SSE, Reply, chat_stream, odd_upstream
from tests.support.simulator import WEATHER, question


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


def test_a_format_of_the_user_is_known_by_the_settings_file(tmp_path: Path) -> None:
    acme = FormatTable(shape="json", open="<acme>", close="</acme>", models=("acme-*",))
    folder = tmp_path / "recordings"

    def make(url: str) -> Settings:
        return settings_for(url, formats={"acme": acme}, record=Record(dir=str(folder)))

    words = 'sim: say <acme>{"name": "get_weather", "arguments": {}}</acme>'
    with stand(make) as gateway:
        asked = question("anthropic", "chat/acme-7b", words, tools=[WEATHER], stream=True)
        assert b"tool_use" in post(gateway, "anthropic", asked).content
    settings = tmp_path / "dragoman.toml"
    settings.write_text('[formats.acme]\nshape = "json"\nopen = "<acme>"\nclose = "</acme>"\n')
    (file,) = folder.iterdir()
    for command in (["diff", str(folder)], ["replay", str(file)]):
        unknown = CliRunner().invoke(main, command)
        assert unknown.exit_code != 0
        assert "acme" in unknown.output + str(unknown.exception)
        known = CliRunner().invoke(main, [*command, "--config", str(settings)])
        assert known.exit_code == 0, known.output


@pytest.mark.parametrize("count", [0, 1, 2], ids=["nothing", "the role", "a word"])
@pytest.mark.parametrize("client", FIXED_PATHS)
def test_an_answer_that_breaks_off_replays_wherever_it_does(
    tmp_path: Path, client: str, count: int
) -> None:
    role = {"id": "c", "model": "m", "choices": [{"index": 0, "delta": {"role": "assistant"}}]}
    frames = [b"data: %b\n\n" % json.dumps(role).encode(), *chat_stream("marzipan")]
    short = Reply(200, b"".join(frames[:count]), {**SSE, "content-length": "100000"})
    with odd_upstream() as odd:
        odd.answer = lambda _asked: short
        settings = settings_for(odd.url, record=Record(dir=str(tmp_path)))
        with stand(lambda _url: settings) as gateway:
            post(gateway, client, question(client, "chat/m", "Say marzipan.", stream=True))
    (file,) = tmp_path.iterdir()
    recording = read_recording(file)
    assert recording.answered is not None
    assert recording.answered.failed is not None

    result = CliRunner().invoke(main, ["diff", str(tmp_path)])
    assert result.exit_code == 0, result.output
    masked = recording_of(mask_recording(recording))
    assert b"marzipan" not in b"".join(map(encode_line, masked.lines))
    assert masked.answered is not None
    again = replay(masked, masked.answered)
    assert not differences(masked.answered.events, again.events)
    assert different_bytes(masked, again) is None


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
