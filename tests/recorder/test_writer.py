"""The process that writes recordings: no secrets, limits, folders that cannot be written, a gateway that is killed."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx2
import pytest
from click.testing import CliRunner

from dragoman.cli.main import main
from dragoman.gateway.config.settings import Key, Record, Secret, Server, Settings, Upstream
from dragoman.recorder import frames
from dragoman.recorder.writer import file_name
from tests.support.asking import post
from tests.support.gateway import DIALECTS, settings_for, stand
from tests.support.recordings import RECORDING, recorded, recording_gateway
from tests.support.serving import serving, simulating
from tests.support.simulator import question
from tests.support.waiting import until

CLIENT = "client-credential-of-many-letters"
UPSTREAM = "upstream-credential-of-many-letters"
PLANTED = {
    "key": "sk-ant-planted0123456789abcdef",
    "password": "correct-horse-battery",
    "own": "ACME-4711-4711",
}
PACE_MS = 400  # between two events: so long has the writer for one of them
DELTAS = 4


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_secret_is_recorded(tmp_path: Path, dialect: str) -> None:
    def make(url: str) -> Settings:
        plain = settings_for(
            url,
            server=Server(port=0, keys=(Key(key=Secret("env:X", CLIENT)),)),
            record=Record(dir=str(tmp_path), secrets=(r"ACME-\d+-\d+",)),
        )
        upstreams = {
            name: Upstream(
                base_url=one.base_url,
                dialect=name,
                key=Secret("env:Y", UPSTREAM),
            )
            for name, one in plain.upstreams.items()
        }
        return Settings(
            server=plain.server, upstreams=upstreams, routes=plain.routes, record=plain.record
        )

    words = (
        f"sim: say The key is {PLANTED['key']}, password: {PLANTED['password']}, {PLANTED['own']}, "
        f"{CLIENT} and {UPSTREAM}"
    )
    for stream in (True, False):
        for model in (
            "chat/plain",
            "anthropic/plain+chunk:all",
            "responses/plain+error:401",
            "gemini/plain",
        ):
            with stand(make) as found:
                asked = question(dialect, model, words, stream=stream)
                post(found, dialect, asked, headers={"authorization": f"Bearer {CLIENT}"})
    written = b"".join(file.read_bytes() for file in tmp_path.iterdir())
    assert written.count(b'"line":"recording"') == 8
    for secret in (CLIENT, UPSTREAM, *PLANTED.values()):
        assert secret.encode() not in written


def test_a_recording_is_deleted_at_its_age_although_none_follows(tmp_path: Path) -> None:
    policy = frames.Policy(
        folder=str(tmp_path), program="", secrets=(), patterns=(), max_file_bytes=999, max_bytes=999, max_files=9,
        max_age_seconds=1, masks=False,
    )  # fmt: skip
    program = "from dragoman.recorder import writer; writer._IDLE_SECONDS = 0.1; writer.main()"
    with subprocess.Popen((sys.executable, "-c", program), stdin=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.writelines(frames.encode_batch([policy], [b""]))
        process.stdin.flush()
        file = tmp_path / file_name(time.time(), "req_1")
        file.write_bytes(b"{}")
        assert until(lambda: not file.exists())


def test_a_key_in_the_url_is_recorded_nowhere(tmp_path: Path) -> None:
    """Clients of Gemini may send it there, and the gateway need not know it."""
    asked = question("gemini", "chat/plain", f"My key is {CLIENT}.", stream=True)
    with recording_gateway(tmp_path) as found:
        post(found, "gemini", asked, params={"key": CLIENT})
    (written,) = (file.read_text() for file in tmp_path.iterdir())
    assert "My key is ****" in written
    assert CLIENT not in written


def test_the_oldest_recordings_are_deleted_beyond_the_limits(tmp_path: Path) -> None:
    with recording_gateway(tmp_path, max_files=3) as found:
        for _ in range(5):
            post(found, "chat")
    assert len(list(tmp_path.iterdir())) == 3
    with recording_gateway(tmp_path, max_bytes=1) as found:
        post(found, "chat")
    assert not list(tmp_path.iterdir())


def test_recordings_are_deleted_when_they_are_old(tmp_path: Path) -> None:
    names = [file_name(time.time() - days * 86_400, f"req_{days}") for days in (0.5, 1.5, 8.0)]
    for name in names:
        (tmp_path / name).write_bytes(RECORDING.read_bytes())
    with recording_gateway(tmp_path, max_age_days=1) as found:
        post(found, "chat")
    left = sorted(file.name for file in tmp_path.iterdir())
    assert names[0] == left[0]
    assert len(left) == 2


def test_a_long_recording_ends_at_its_limit_and_counts_the_rest(tmp_path: Path) -> None:
    with recording_gateway(tmp_path, max_file_bytes=8192) as found:
        post(found, "anthropic", question("anthropic", "chat/plain+text:64", stream=True))
    (one,) = recorded(tmp_path)
    assert one.outcome is not None
    assert one.outcome.dropped > 64 * 1024
    assert one.torn_at is None


def test_a_folder_that_cannot_be_written_is_logged_and_costs_no_answer(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with recording_gateway(tmp_path / "file") as found:
        assert post(found, "chat").status_code == 200
        until(lambda: "recording failed" in found.log.getvalue())
        assert post(found, "chat").status_code == 200
    lines = [json.loads(line) for line in found.log.getvalue().splitlines()]
    reasons = [line["reason"] for line in lines if line["event"] == "recording failed"]
    assert str(tmp_path / "file") in reasons[0]


def settings_file(folder: Path, upstream: str, content: str) -> Path:
    file = folder / "dragoman.toml"
    file.write_text(
        f'[record]\ndir = "{folder / "recordings"}"\ncontent = "{content}"\n\n'
        f'[upstreams.sim]\nbase_url = "{upstream}/v1"\ndialect = "chat"\n\n'
        '[[routes]]\nmatch = { model = "*" }\nto = ["sim/*"]\n'
    )
    return file


def writer_of(gateway: int) -> int:
    """Return the process that writes the recordings of a gateway; 0: there is none."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int((process / "stat").read_text().rpartition(")")[2].split()[1])
            if (
                parent == gateway
                and b"dragoman.recorder.writer" in (process / "cmdline").read_bytes()
            ):
                return int(process.name)
    return 0


@pytest.mark.parametrize("victims", ["gateway", "writer", "writer and gateway"])
@pytest.mark.parametrize("content", ["full", "shape"])
def test_a_kill_loses_the_last_event_at_most(tmp_path: Path, content: str, victims: str) -> None:
    """`kill -9` in the middle of a stream: what came before reads."""
    folder = tmp_path / "recordings"
    with simulating() as simulator:
        file = settings_file(tmp_path, simulator.url, content)
        with serving(tmp_path, "--config", str(file)) as served:
            asked = json.dumps(question("anthropic", f"plain+text:1+pace:{PACE_MS}"))
            with socket.create_connection(("127.0.0.1", urlsplit(served.url).port)) as client:
                head = f"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(asked)}\r\n\r\n"
                client.sendall((head + asked).encode())
                until(lambda: any(b'"written"' in one.read_bytes() for one in folder.glob("*")))
                got = client.recv(1024 * 1024)
                seen = got.count(b"text_delta") + DELTAS
                while got.count(b"text_delta") < seen:
                    got += client.recv(65536)
                writer = writer_of(served.process.pid)
                assert writer
                if "writer" in victims:
                    os.kill(writer, signal.SIGKILL)
                if "gateway" in victims:
                    served.process.kill()
                until(lambda: not running(folder))
    (one,) = recorded(folder)
    assert one.outcome is None
    written = b"".join(line.data.data for line in one.written)
    assert written.count(b"text_delta") >= seen - 1
    assert sum(b'"text"' in bytes(event) for event in one.attempts[0].events) >= seen - 1
    words = set(re.findall(rb"[a-z]{4,}", b"\n".join(re.findall(rb'"text":"([^"]+)"', got))))
    assert words
    data = next(folder.iterdir()).read_bytes()
    assert (content == "full") == any(word in data for word in words)
    result = CliRunner().invoke(main, ["diff", str(folder)])
    assert result.exit_code == 0, result.output


def test_another_process_writes_after_one_was_killed(tmp_path: Path) -> None:
    folder = tmp_path / "recordings"
    with simulating() as simulator:
        file = settings_file(tmp_path, simulator.url, "full")
        with serving(tmp_path, "--config", str(file)) as served:
            first = until(lambda: writer_of(served.process.pid))
            asked = question("chat", "plain", stream=False)
            httpx2.post(f"{served.url}/v1/chat/completions", json=asked)
            until(lambda: any(b'"outcome"' in one.read_bytes() for one in folder.glob("*")))
            os.kill(first, signal.SIGKILL)
            until(lambda: writer_of(served.process.pid) not in (0, first))
            until(lambda: served.notices("recording stopped"))
            httpx2.post(f"{served.url}/v1/chat/completions", json=asked)
            served.send_signal("SIGTERM")
            served.end()
    assert [one.outcome is not None for one in recorded(folder)] == [True, True]


def test_a_file_that_was_left_behind_is_deleted(tmp_path: Path) -> None:
    """A masked recording is written a second time at its end; the writer may be killed in that moment."""
    old, new = (tmp_path / f"{name}.dragoman.part" for name in ("old", "new"))
    for one in (old, new):
        one.write_bytes(b"x")
    os.utime(old, (0, 0))
    with recording_gateway(tmp_path, content="shape") as found:
        post(found, "chat")
    assert not old.exists()
    assert new.exists()


def running(folder: Path) -> bool:
    """Return whether a process has a file of the folder open."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if any(one.readlink().is_relative_to(folder) for one in (process / "fd").iterdir()):
                return True
    return False
