"""Commands over recordings: tests of them, their streams judged, played as an upstream, imported, followed."""

import gzip
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
from click.testing import CliRunner

from dragoman.cli.main import main
from dragoman.gateway.config.settings import Key, Secret, Server, Settings
from dragoman.recorder.recording import read_recording
from tests.support.asking import post
from tests.support.corpus import Case, drive
from tests.support.gateway import settings_for, stand
from tests.support.simulator import WEATHER, question

RECORDING = Path(__file__).with_name("recording.dragoman")


def run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, list(arguments))
    return result.exit_code, result.output


# --- tests of recordings -----------------------------------------------------------------------------------


def test_the_pytest_file_passes_until_a_byte_differs(tmp_path: Path) -> None:
    code, output = run("case", "--pytest", "--out", str(tmp_path), "--name", "it", str(RECORDING))
    assert (0, 2) == (code, len(output.splitlines()))
    command = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_it.py")
    passed = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert passed.returncode == 0, passed.stdout
    copy = tmp_path / "it.dragoman"
    data = copy.read_bytes()
    at = data.index(b"I wi", data.index(b'"line":"read"'))
    copy.write_bytes(data[:at] + b"#" + data[at + 1 :])
    failed = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert failed.returncode == 1
    assert b"and is now" in failed.stdout


def test_the_corpus_case_is_one_of_ours(tmp_path: Path) -> None:
    source = read_recording(RECORDING).attempts[0].reply
    assert source is not None
    assert source.translation is not None
    folder = tmp_path / source.translation.source
    assert run("case", "--out", str(folder), "--name", "it", str(RECORDING))[0] == 0
    case = Case(folder / "it")
    assert case.title.startswith("# NEW: ")
    from dragoman.turn.answer import merged

    assert case.events == merged(drive(case.reader(), [case.stream]))
    assert case.events


def test_a_name_that_is_no_name_is_refused(tmp_path: Path) -> None:
    assert run("case", "--out", str(tmp_path), "--name", "../x", str(RECORDING))[0] == 2


def test_check_judges_both_streams_of_a_recording(folder: Path) -> None:
    code, output = run("check", str(RECORDING))
    assert code == 0, output
    assert output.count("legal: ") == 2
    cut = next(file for file in sorted(folder.iterdir()) if b'plain+no-done"' in file.read_bytes())
    code, output = run("check", "--json", str(cut))
    verdicts = json.loads(output)
    assert {"upstream", "client"} == set(verdicts)
    assert code == (0 if all(one["legal"] for one in verdicts.values()) else 1)


# --- recordings as an upstream -------------------------------------------------------------------------------


def test_a_recording_plays_the_upstream_with_its_pauses(tmp_path: Path) -> None:
    recording = read_recording(RECORDING)
    attempt = recording.attempts[0]
    assert attempt.reply is not None
    command = (sys.executable, "-m", "dragoman.cli.main", "replay", "--serve", "--port", "0")
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
        assert took * 1000 >= attempt.reads[-1].at - attempt.reply.at - 1
        assert httpx2.post(f"{url}/v1/other", content=b"{}").status_code == 404
        process.terminate()
    assert process.returncode == 0


# --- captures --------------------------------------------------------------------------------------------------

ASKED = {"model": "gpt-4.1", "stream": True, "messages": [{"role": "user", "content": "Hi"}]}
CHUNKS = (
    {"id": "c", "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hello"}}]},
    {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
)
STREAM = (
    b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in CHUNKS) + b"data: [DONE]\n\n"
)
KEY = "sk-captured-credential-0123456789"


def har() -> bytes:
    headers = [{"name": "Authorization", "value": f"Bearer {KEY}"}]
    entry = {
        "startedDateTime": "2026-01-02T03:04:05.678Z",
        "time": 12.5,
        "request": {
            "method": "POST",
            "url": f"https://api.example/v1/chat/completions?key={KEY}",
            "headers": headers,
            "postData": {"mimeType": "application/json", "text": json.dumps(ASKED)},
        },
        "response": {
            "status": 200,
            "headers": [{"name": "Content-Type", "value": "text/event-stream"}],
            "content": {"size": len(STREAM), "text": STREAM.decode()},
        },
    }
    page = entry | {
        "request": {"method": "GET", "url": "https://example/index.html", "headers": []}
    }
    return json.dumps({"log": {"version": "1.2", "entries": [entry, page]}}).encode()


def tnetstring(value: Any) -> bytes:
    match value:
        case bool():
            data, kind = str(value).lower().encode(), b"!"
        case int():
            data, kind = str(value).encode(), b"#"
        case float():
            data, kind = repr(value).encode(), b"^"
        case bytes():
            data, kind = value, b","
        case str():
            data, kind = value.encode(), b";"
        case list():
            data, kind = b"".join(map(tnetstring, value)), b"]"
        case dict():
            pairs = (tnetstring(key) + tnetstring(one) for key, one in value.items())
            data, kind = b"".join(pairs), b"}"
        case _:
            data, kind = b"", b"~"
    return b"%d:%b%b" % (len(data), data, kind)


def flows() -> bytes:
    request = {
        "method": b"POST", "scheme": b"https", "host": "api.example", "port": 443, "path": b"/v1/chat/completions",
        "headers": [[b"authorization", f"Bearer {KEY}".encode()]], "content": json.dumps(ASKED).encode(),
        "timestamp_start": 1767323045.5,
    }  # fmt: skip
    response = {
        "status_code": 200,
        "headers": [[b"content-type", b"text/event-stream"], [b"content-encoding", b"gzip"]],
        "content": gzip.compress(STREAM),
        "timestamp_end": 1767323046.5,
    }
    flow = {"type": "http", "version": 20, "request": request, "response": response, "error": None}
    return tnetstring(flow) + tnetstring(flow | {"response": None}) + tnetstring({"type": "dns"})


@pytest.mark.parametrize("data", [har(), flows()], ids=["har", "mitmproxy"])
def test_a_capture_becomes_a_recording(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    code, output = run("import", "--out", str(tmp_path / "out"), str(tmp_path / "file"))
    assert code == 0, output
    (file,) = (tmp_path / "out").iterdir()
    assert KEY.encode() not in file.read_bytes()
    recording = read_recording(file)
    attempt = recording.answered
    assert attempt is not None
    assert ("chat", "gpt-4.1") == (recording.opening.dialect, attempt.sent.model)
    assert STREAM == b"".join(attempt.pieces())
    assert b"Hello" in b"".join(one.data.data for one in recording.written)
    assert run("diff", str(file))[0] == 0
    assert run("show", str(file))[0] == 0


@pytest.mark.parametrize(
    "data",
    [b"", b"<html>", b"{}", b'{"log": {"entries": []}}', b"9:abc,", b"3:abc?", flows()[:-3], b"1:" * 99, b"8:5:5:ab,,,]"],
)  # fmt: skip
def test_what_is_no_capture_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    code, output = run("import", "--out", str(tmp_path / "out"), str(tmp_path / "file"))
    assert code == 1
    assert output.startswith(("dragoman: ", "0 recordings"))


# --- a running gateway -------------------------------------------------------------------------------------------


def test_tail_prints_an_exchange_and_needs_the_key() -> None:
    def make(url: str) -> Settings:
        keys = (Key(key=Secret("env:A", "the-key-of-a-tail"), inspect=True),)
        return settings_for(url, server=Server(port=0, keys=keys))

    headers = {"authorization": "Bearer the-key-of-a-tail"}
    with stand(make) as gateway:
        assert run("tail", "--url", gateway.url)[0] == 2
        command = (
            sys.executable, "-m", "dragoman.cli.main", "tail", "--url", gateway.url, "--key-env", "TAIL_KEY",
            "--count", "1",
        )  # fmt: skip
        environ = {"TAIL_KEY": "the-key-of-a-tail", "PATH": "/usr/bin"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ | _path()) as process:
            asked = question("anthropic", "chat/plain", tools=[WEATHER])
            for _ in range(200):
                post(gateway, "anthropic", asked, headers=headers)
                if process.poll() is not None:
                    break
                time.sleep(0.1)
            assert process.stdout is not None
            line = process.stdout.read().decode()
    assert process.returncode == 0
    assert "200  anthropic" in line
    assert "chat/plain" in line


def _path() -> dict[str, str]:
    import os

    return {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}


def test_tail_reports_a_gateway_that_is_gone() -> None:
    assert run("tail", "--url", "http://127.0.0.1:9")[0] == 3
