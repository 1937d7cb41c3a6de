"""`dragoman replay --serve`: recordings that play an upstream."""

import subprocess
import sys
import time

import httpx2
import pytest

from dragoman.recorder.recording import read_recording
from tests.support.recordings import RECORDING


@pytest.mark.parametrize("speed", [1.0, 0.25, 0.0])
def test_a_recording_plays_the_upstream_with_its_pauses(speed: float) -> None:
    recording = read_recording(RECORDING)
    attempt = recording.attempts[0]
    assert attempt.reply is not None
    command = (
        sys.executable,
        "-m",
        "dragoman.cli.main",
        "replay",
        "--serve",
        "--port",
        "0",
        "--speed",
        str(speed),
    )
    with subprocess.Popen((*command, str(RECORDING)), stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        url = process.stdout.readline().decode().partition(" on ")[2].partition(";")[0]
        path = attempt.sent.url.partition("://")[2].partition("/")[2]
        began = time.monotonic()
        got = httpx2.post(f"{url}/{path}", content=attempt.sent.body.data)
        took = time.monotonic() - began
        assert got.content == b"".join(attempt.pieces())
        assert got.headers["content-type"] == attempt.reply.headers.get(
            "Content-Type", attempt.reply.headers.get("content-type")
        )
        pauses = (attempt.reads[-1].at - attempt.reply.at) / 1000
        if speed:
            assert took >= pauses / speed - 0.001
        else:
            assert pauses > 0.0
        assert httpx2.post(f"{url}/v1/other", content=b"{}").status_code == 404
        process.terminate()
    assert process.returncode == 0
