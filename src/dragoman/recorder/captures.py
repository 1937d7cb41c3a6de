"""Exchanges that another program captured, as recordings: HAR files, and flow files of mitmproxy.  Pure.

Only requests to the paths of a dialect are taken.  The client of such an exchange spoke to the upstream itself, so the
recording has what the gateway would have sent to it in the same dialect.
"""

import base64
import re
import zlib
from codecs import BOM_UTF8
from collections.abc import Iterator
from datetime import datetime
from hashlib import sha256
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from msgspec import Raw, Struct

from dragoman._version import __version__
from dragoman.dialects import dialect, dialect_names
from dragoman.errors import DragomanError
from dragoman.profiles import profile
from dragoman.recorder.lines import (
    VERSION,
    Attempt,
    Events,
    ExchangeOutcome,
    Line,
    Opening,
    Payload,
    Read,
    Received,
    Reply,
    Translation,
    Written,
)
from dragoman.recorder.recording import RecordingError, recording_of
from dragoman.recorder.replay import replay
from dragoman.recorder.writer import SECRET_HEADERS, credentials_of, mcp_credentials_of
from dragoman.redaction import Blotter

MAX_BODY_BYTES: Final = 256 * 1024 * 1024  # of a response that is compressed
_MAX_DEPTH: Final = 64  # of a tnetstring
_LENGTH: Final = re.compile(rb"[0-9]{1,12}:")
_GOOD: Final = range(200, 300)


class Capture(Struct, frozen=True, kw_only=True):
    """One exchange, as it was captured."""

    time: float  # Unix seconds
    method: str
    url: str
    path: str
    request_headers: dict[str, str]
    request_body: bytes
    status: int
    headers: dict[str, str]
    body: bytes
    duration_ms: float = 0.0


def read_captures(data: bytes) -> Iterator[Capture | RecordingError]:
    """Yield the exchanges of a HAR or mitmproxy file that have a response; for one that cannot be read, why.

    Raises:
        RecordingError: it is neither.
    """
    data = data.removeprefix(BOM_UTF8)
    if data.lstrip()[:1] == b"{":
        return _har(data)
    if _LENGTH.match(data):
        return _mitmproxy(data)
    raise RecordingError("neither a HAR file nor a flow file of mitmproxy")


def dialect_of(method: str, path: str) -> str:
    """Return the dialect of a request; empty: it is not one to an LLM API."""
    path = path.partition("?")[0].rstrip("/")
    if method != "POST":
        return ""
    return next((name for name in dialect_names() if dialect(name).serves(path)), "")


# --- HAR ---------------------------------------------------------------------------------------------------


class _Header(Struct):
    name: str
    value: str = ""


class _PostData(Struct):
    text: str = ""


class _HarRequest(Struct):
    method: str
    url: str
    headers: list[_Header] = []
    postData: _PostData | None = None  # noqa: N815 -- as HAR spells it


class _Content(Struct, frozen=True):
    text: str = ""
    encoding: str = ""


class _HarResponse(Struct):
    status: int
    headers: list[_Header] = []
    content: _Content = _Content()


class _Entry(Struct):
    request: _HarRequest
    response: _HarResponse
    startedDateTime: str = ""  # noqa: N815 -- as HAR spells it
    time: float | None = 0.0


class _Log(Struct):
    entries: list[Raw]


class _Har(Struct):
    log: _Log


def _har(data: bytes) -> Iterator[Capture | RecordingError]:
    try:
        found = msgspec.json.decode(data, type=_Har)
    except msgspec.DecodeError as error:
        raise RecordingError(f"not a HAR file: {error}") from error
    for number, raw in enumerate(found.log.entries, 1):
        try:
            yield _entry(msgspec.json.decode(raw, type=_Entry))
        except ValueError as error:  # msgspec's errors are that too
            yield RecordingError(f"entry {number} cannot be read: {error}")


def _entry(entry: _Entry) -> Capture:
    asked, answered = entry.request, entry.response
    content = answered.content
    return Capture(
        time=datetime.fromisoformat(entry.startedDateTime).timestamp(),
        method=asked.method,
        url=asked.url,
        path="/" + asked.url.partition("://")[2].partition("/")[2],
        request_headers={one.name: one.value for one in asked.headers},
        request_body=b"" if asked.postData is None else asked.postData.text.encode(),
        status=answered.status,
        headers={one.name: one.value for one in answered.headers},
        body=(
            base64.b64decode(content.text)
            if content.encoding == "base64"
            else content.text.encode("utf-8", "surrogatepass")
        ),
        duration_ms=max(entry.time or 0.0, 0.0),
    )


# --- mitmproxy: a sequence of tnetstrings ----------------------------------------------------------------------


def _mitmproxy(data: bytes) -> Iterator[Capture | RecordingError]:
    at = 0
    while at < len(data):
        try:
            flow, at = _tnetstring(data, at, 0)
        except RecordingError as error:
            yield error
            return
        if not isinstance(flow, dict) or flow.get("type") not in ("http", b"http"):
            continue
        asked, answered = flow.get("request"), flow.get("response")
        if isinstance(asked, dict) and isinstance(answered, dict):
            try:
                yield _flow(asked, answered)
            except (RecordingError, TypeError, ValueError) as error:
                yield RecordingError(f"a flow cannot be read: {error}")


def _flow(asked: dict[str, Any], answered: dict[str, Any]) -> Capture:
    headers = _pairs(answered.get("headers"))
    began = float(asked.get("timestamp_start") or 0)
    ended = float(answered.get("timestamp_end") or began)
    method, path = _word(asked.get("method")), _word(asked.get("path"))
    wanted = bool(dialect_of(method, path))  # bodies of others are not unpacked
    scheme, host = _word(asked.get("scheme")), _word(asked.get("host"))
    return Capture(
        time=began,
        method=method,
        url=f"{scheme}://{host}:{asked.get('port')}{path}",
        path=path,
        request_headers=_pairs(asked.get("headers")),
        request_body=_unpacked(asked.get("content") or b"", _pairs(asked.get("headers")))
        if wanted
        else b"",
        status=int(answered.get("status_code") or 0),
        headers=headers,
        body=_unpacked(answered.get("content") or b"", headers) if wanted else b"",
        duration_ms=max(0.0, ended - began) * 1000,
    )


def _word(value: object) -> str:
    return value.decode("latin-1") if isinstance(value, bytes) else str(value or "")


def _pairs(value: object) -> dict[str, str]:
    pairs = value if isinstance(value, list) else []
    return {_word(one[0]): _word(one[1]) for one in pairs if isinstance(one, list) and len(one) > 1}


def _unpacked(body: object, headers: dict[str, str]) -> bytes:
    if not isinstance(body, bytes):
        raise RecordingError("not a flow file of mitmproxy: a body is not bytes")
    coding = next((v.lower() for k, v in headers.items() if k.lower() == "content-encoding"), "")
    if coding in ("", "identity"):
        return body
    if coding not in ("gzip", "deflate"):
        raise RecordingError(f"a response is compressed with `{coding}`, which is not supported")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        return unpacker.decompress(body, MAX_BODY_BYTES)
    except zlib.error as error:
        raise RecordingError(f"a response cannot be unpacked: {error}") from error


def _tnetstring(data: bytes, at: int, depth: int) -> tuple[Any, int]:
    """Return the value at a position, and the position behind it: `LENGTH:DATA` and a letter for its type."""
    match = _LENGTH.match(data, at)
    if match is None or depth > _MAX_DEPTH:
        raise RecordingError(f"not a flow file of mitmproxy: no value at byte {at}")
    start = match.end()
    end = start + int(match[0][:-1])
    kind = data[end : end + 1]
    raw = data[start:end]
    if not kind:
        raise RecordingError("not a flow file of mitmproxy: it ends early")
    try:
        return _value(kind, raw, depth), end + 1
    except ValueError as error:
        raise RecordingError(f"not a flow file of mitmproxy: {error}") from error


def _value(kind: bytes, raw: bytes, depth: int) -> Any:
    match kind:
        case b",":
            return raw
        case b";":
            return raw.decode()
        case b"#":
            return int(raw)
        case b"^":
            return float(raw)
        case b"!":
            return raw == b"true"
        case b"~":
            return None
        case b"]" | b"}":
            values: list[Any] = []
            at = 0
            while at < len(raw):
                value, at = _tnetstring(raw, at, depth + 1)
                values.append(value)
            if kind == b"]":
                return values
            return {
                _word(key): value for key, value in zip(values[::2], values[1::2], strict=False)
            }
        case _:
            raise RecordingError(f"not a flow file of mitmproxy: unknown type {kind!r}")


# --- captures as recordings ------------------------------------------------------------------------------------


class _Asked(Struct):
    model: str = ""
    stream: bool | None = False


def recording_lines(capture: Capture) -> list[Line]:
    """Return the recording of a capture.

    Raises:
        RecordingError: it is not an exchange with an LLM API.
    """
    name = dialect_of(capture.method, capture.path)
    if not name:
        path = capture.path.partition("?")[0]
        raise RecordingError(f"{capture.method} {path} is not a path of an LLM API")
    capture = _joined(capture, name)
    try:
        asked = msgspec.json.decode(capture.request_body, type=_Asked)
    except msgspec.DecodeError as error:
        raise RecordingError(f"{capture.path}: the request cannot be read: {error}") from error
    identity = sha256(capture.request_body + capture.body + str(capture.time).encode()).hexdigest()
    lines = _lines(_without_secrets(capture, name), name, asked, f"req_{identity[:24]}")
    recording = recording_of(lines)
    status = capture.status
    if recording.answered is not None:
        try:
            again = replay(recording, recording.answered)
        except DragomanError as error:
            raise RecordingError(f"{capture.path}: the request cannot be read: {error}") from error
        body = again.body
        lines.append(Events(events=again.events))
    else:
        body = recording.attempts[0].reads[0].data.data
    at = capture.duration_ms
    record = {
        "time": capture.time, "id": recording.opening.id, "path": capture.path.partition("?")[0], "dialect": name,
        "model": asked.model, "upstream_model": asked.model, "status": status, "duration_ms": at,
        "stream": bool(asked.stream),
    }  # fmt: skip
    lines.append(Written(at=at, data=Payload.of(body)))
    lines.append(ExchangeOutcome(at=at, status=status, record=Raw(msgspec.json.encode(record))))
    return lines


def _joined(capture: Capture, name: str) -> Capture:
    """Return a capture whose request has what its URL names, as recordings of such a dialect have it.

    Raises:
        RecordingError: the request is not an object.
    """
    paths = dialect(name).model_paths
    if paths is None:
        return capture
    path, _, query = capture.path.partition("?")
    asked = paths.read(capture.method, path.rstrip("/"), dict(parse_qsl(query)))
    assert asked is not None  # noqa: S101 -- the path has shown the dialect
    try:
        body = paths.join(asked, capture.request_body)
    except DragomanError as error:
        raise RecordingError(f"{path}: the request cannot be read: {error}") from error
    return msgspec.structs.replace(capture, request_body=body, path=path)


def _without_secrets(capture: Capture, name: str) -> Capture:
    """Overwrite credentials, as the gateway's recordings do."""
    query = dict(parse_qsl(capture.url.partition("?")[2]))
    keys = [query[one] for one in dialect(name).key_parameters if one in query]
    own = credentials_of(capture.request_headers, keys)
    blot = Blotter((*own, *mcp_credentials_of(name, capture.request_body))).blot

    def clean(headers: dict[str, str]) -> dict[str, str]:
        return {
            name: "***" if name.lower() in SECRET_HEADERS else blot(value.encode()).decode()
            for name, value in headers.items()
        }

    return msgspec.structs.replace(
        capture,
        url=blot(capture.url.encode()).decode(),
        request_headers=clean(capture.request_headers),
        request_body=blot(capture.request_body),
        headers=clean(capture.headers),
        body=blot(capture.body),
    )


def _lines(capture: Capture, name: str, asked: _Asked, identity: str) -> list[Line]:
    url = capture.url.partition("?")[0]
    how = Translation(
        source=name,
        target=name,
        model=asked.model,
        native_format="auto",
        stream=bool(asked.stream),
        profile=profile("generic"),
        seed=identity,
        created=int(capture.time),
    )
    body = Payload.of(capture.request_body)
    sent = capture.request_headers
    return [
        Opening(
            version=VERSION,
            program=f"dragoman {__version__}",
            id=identity,
            time=capture.time,
            dialect=name,
            method=capture.method,
            path=capture.path.partition("?")[0],
            headers=sent,
        ),
        Received(at=0.0, body=body),
        Attempt(at=0.0, upstream="captured", model=asked.model, url=url, headers=sent, body=body),
        Reply(
            at=0.0,
            status=capture.status,
            headers=capture.headers,
            translation=how if capture.status in _GOOD else None,
        ),
        Read(at=capture.duration_ms, size=len(capture.body), data=Payload.of(capture.body)),
        Read(at=capture.duration_ms, size=0, ended=True),
    ]
