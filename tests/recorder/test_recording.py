"""Recordings are read back: every line, both streams, and files that were cut."""

import json
from pathlib import Path

from dragoman.recorder.recording import read_recording
from tests.support.asking import post
from tests.support.commands import run
from tests.support.recordings import RECORDING, exchanges, recording_gateway
from tests.support.simulator import question


def test_check_judges_both_streams_of_a_recording(folder: Path) -> None:
    ran = run("check", str(RECORDING))
    assert ran.code == 0, ran.out
    assert ran.out.count(b"legal: ") == 2
    cut = next(file for file in sorted(folder.iterdir()) if b'plain+no-done"' in file.read_bytes())
    ran = run("check", "--json", str(cut))
    verdicts = json.loads(ran.out)
    assert {"upstream", "client"} == set(verdicts)
    assert ran.code == (0 if all(one["legal"] for one in verdicts.values()) else 1)


def test_check_judges_a_list_that_a_gemini_client_got(tmp_path: Path) -> None:
    with recording_gateway(tmp_path) as found:
        path = "/v1beta/models/chat/plain:streamGenerateContent"
        post(found, "gemini", {"contents": [{"parts": [{"text": "Hi"}]}]}, path=path)
    (file,) = tmp_path.iterdir()

    ran = run("check", "--json", str(file))

    assert json.loads(ran.out)["client"]["legal"]


def test_every_exchange_is_one_file(folder: Path) -> None:
    files = list(folder.iterdir())
    assert len(files) == len(list(exchanges())) >= 300
    for file in files:
        recording = read_recording(file)
        assert recording.outcome is not None
        assert recording.torn_at is None
        assert recording.written


def test_a_torn_file_is_read_up_to_the_tear(tmp_path: Path) -> None:
    with recording_gateway(tmp_path) as found:
        post(found, "anthropic", question("anthropic", "chat/plain", stream=True))
    (file,) = tmp_path.iterdir()
    data = file.read_bytes()
    lines = data.splitlines(keepends=True)
    for cut in range(len(lines[0]), len(data), 97):
        file.write_bytes(data[:cut])
        one = read_recording(file)
        whole = [line for line in lines if data.index(line) + len(line) <= cut]
        assert len(one.lines) == len(whole)
        assert one.torn_at == (None if cut == sum(map(len, whole)) else sum(map(len, whole)))
