"""`dragoman replay --serve`: recordings that play an upstream."""

import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from dragoman.cli.replay import RecordedUpstream
from dragoman.recorder.recording import read_recording
from tests.support.asking import post
from tests.support.recordings import RECORDING, recording_gateway
from tests.support.simulator import question


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
        assert httpx2.post(f"{url}/{path}", content=b" " * 2_000_000).status_code == 200
        process.terminate()
    assert process.returncode == 0


def test_an_answer_fits_by_its_stream_and_then_by_its_model(tmp_path: Path) -> None:
    with recording_gateway(tmp_path) as gateway:
        for model in ("chat/plain", "chat/kimi-k2", "gemini/plain", "gemini/kimi-k2"):
            for stream in (True, False):
                post(gateway, "chat", question("chat", model, stream=stream))
    upstream = RecordedUpstream(sorted(tmp_path.iterdir()), speed=0)

    def chosen(path: str, body: bytes) -> tuple[str, bool]:
        found = upstream.choose(path, body)
        assert found is not None
        return found.request.model, found.request.stream

    chat = "/v1/chat/completions"
    assert ("kimi-k2", True) == chosen(chat, b'{"model":"kimi-k2","stream":true}')
    assert ("kimi-k2", False) == chosen(chat, b'{"model":"kimi-k2"}')
    assert ("plain", True) == chosen(chat, b'{"model":"other","stream":true}')
    assert ("plain", False) == chosen(chat, b"[]")
    gemini = "/v1beta/models"
    assert ("kimi-k2", True) == chosen(f"{gemini}/kimi-k2:streamGenerateContent", b"{}")
    assert ("kimi-k2", False) == chosen(f"{gemini}/kimi-k2:generateContent", b"{}")
    assert ("plain", True) == chosen(f"{gemini}/other:streamGenerateContent", b"{}")
    assert upstream.choose(f"{gemini}/plain:countTokens", b"{}") is None


def test_an_answer_whose_recording_ends_early_is_cut(tmp_path: Path) -> None:
    whole = RECORDING.read_bytes()
    file = tmp_path / "torn.dragoman"
    for data, cut in ((whole, False), (whole[: whole.index(b'"line":"written"')], True)):
        file.write_bytes(data)
        found = RecordedUpstream([file], speed=0).choose("/v1/chat/completions", b"{}")
        assert found is not None
        assert cut == found.cut
