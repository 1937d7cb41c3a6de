"""`dragoman import`: HAR and mitmproxy files as recordings."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from dragoman.recorder.recording import read_recording
from tests.support.commands import run

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


@pytest.mark.parametrize(
    "data", [har(), b"\xef\xbb\xbf" + har(), flows()], ids=["har", "byte order mark", "mitmproxy"]
)
def test_a_capture_becomes_a_recording(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    ran = run("import", "--out", str(tmp_path / "out"), str(tmp_path / "file"))
    assert ran.code == 0, ran.err
    (file,) = (tmp_path / "out").iterdir()
    assert KEY.encode() not in file.read_bytes()
    recording = read_recording(file)
    attempt = recording.answered
    assert attempt is not None
    assert ("chat", "gpt-4.1") == (recording.opening.dialect, attempt.sent.model)
    assert STREAM == b"".join(attempt.pieces())
    assert b"Hello" in b"".join(one.data.data for one in recording.written)
    assert run("diff", str(file)).code == 0
    assert run("show", str(file)).code == 0


def har_with_odd_entries() -> bytes:
    log = json.loads(har())
    entry = log["log"]["entries"][0]
    log["log"]["entries"] = [entry | {"time": "soon"}, {}, entry | {"time": None}]
    return json.dumps(log).encode()


def flows_with_other_pages() -> bytes:
    """A page in a compression that is not supported, an exchange, and the beginning of another."""
    page = {
        "type": "http",
        "request": {"method": b"GET", "path": b"/index.html", "timestamp_start": "never"},
        "response": {"headers": [[b"content-encoding", b"zstd"]], "content": b"?"},
    }
    other = page | {"request": {"method": b"GET", "path": b"/index.html"}}
    return tnetstring(page) + tnetstring(other) + flows() + flows()[:99]


@pytest.mark.parametrize(
    ("data", "reported"),
    [(har_with_odd_entries(), 2), (flows_with_other_pages(), 2)],
    ids=["har", "mitmproxy"],
)
def test_what_cannot_be_read_does_not_keep_the_rest_from_being_imported(
    tmp_path: Path, data: bytes, reported: int
) -> None:
    (tmp_path / "file").write_bytes(data)
    ran = run("import", "--out", str(tmp_path / "out"), str(tmp_path / "file"))

    assert ran.code == 0, ran.err
    assert reported == ran.err.count(b"dragoman: ")
    assert b"1 recordings, " in ran.err


@pytest.mark.parametrize(
    "data",
    [b"", b"<html>", b"{}", b'{"log": {"entries": []}}', b"9:abc,", b"3:abc?", flows()[:99], b"1:" * 99, b"8:5:5:ab,,,]"],
)  # fmt: skip
def test_what_is_no_capture_is_refused(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "file").write_bytes(data)
    ran = run("import", "--out", str(tmp_path / "out"), str(tmp_path / "file"))
    assert ran.code == 1
    assert (ran.out + ran.err).startswith((b"dragoman: ", b"0 recordings"))


def test_a_capture_of_a_path_that_names_the_model_has_it_in_its_request(tmp_path: Path) -> None:
    chunk = {"content": {"parts": [{"text": "Hello"}], "role": "model"}, "finishReason": "STOP"}
    stream = f"data: {json.dumps({'candidates': [chunk]})}\r\n\r\n"
    captured = json.loads(har())
    entry = captured["log"]["entries"][0]
    entry["request"] |= {
        "url": f"https://api.example/v1beta/models/gemini-3:streamGenerateContent?alt=sse&key={KEY}",
        "postData": {"text": json.dumps({"contents": [{"parts": [{"text": "Hi"}]}]})},
    }
    entry["response"]["content"] = {"text": stream}
    source = tmp_path / "traffic.har"
    source.write_bytes(json.dumps(captured).encode())
    run("import", str(source), "--out", str(tmp_path / "out"))
    (path,) = (tmp_path / "out").iterdir()
    found = read_recording(path)

    assert ("gemini", "/v1beta/models/gemini-3:streamGenerateContent") == (
        found.opening.dialect,
        found.opening.path,
    )
    assert {"model": "gemini-3", "stream": True} == {
        name: value
        for name, value in json.loads(found.received.body.data).items()
        if name != "contents"
    }
    assert KEY not in path.read_text()


def test_no_password_and_no_key_of_a_captured_url_is_recorded(tmp_path: Path) -> None:
    """`"stream": null` is what OpenAI allows for false."""
    captured = json.loads(har())
    entry = captured["log"]["entries"][0]
    own, path = "own-key-of-nobody", "/v1beta/models/gemini-3:generateContent"
    asked = {"contents": [{"parts": [{"text": f"My key is {own}."}]}]}
    answer = {"choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}]}
    for url, body, answered in (
        (f"https://me:passw0rd@api.example{path}?key={own}", asked, {"candidates": []}),
        ("https://me:passw0rd@api.example/v1/chat/completions", ASKED | {"stream": None}, answer),
    ):
        entry["request"] |= {"url": url, "postData": {"text": json.dumps(body)}}
        entry["response"]["content"] = {"text": json.dumps(answered)}
        source = tmp_path / "traffic.har"
        source.write_bytes(json.dumps(captured).encode())
        assert 0 == run("import", str(source), "--out", str(tmp_path / "out")).code
    written = "".join(file.read_text() for file in (tmp_path / "out").iterdir())

    assert 2 == written.count("@api.example")
    assert "passw0rd" not in written
    assert own not in written
