"""What is fuzzed: one function for each part of the program that reads bytes of a peer, and its seeds.

A target returns if the bytes are read, or refused with a named error, as they should be; anything else raises.
The first bytes of an input choose the direction and where it is cut; the rest is what the peer sends.
"""

import asyncio
import json
import tomllib
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec import structs
from tools.fuzz import kept_bodies, kept_text

from dragoman.answer_reader import AnswerReader
from dragoman.checker.checker import Checker
from dragoman.dialects import DIALECT_NAMES
from dragoman.envelopes import Sealer, is_envelope
from dragoman.errors import ConfigError, DragomanError, ProtocolError
from dragoman.gateway.config.environment import ConfigEnvironment
from dragoman.gateway.config.load import make_settings
from dragoman.ids import decode_id, encode_id
from dragoman.limits import DEFAULT_LIMITS
from dragoman.toolcalls.formats import FORMATS
from dragoman.toolcalls.parser import Parsed, ToolCallParser
from dragoman.translate import TranslatedBody, Translator, translate_body, translate_error
from dragoman.translate_requests import TranslatedRequest, translate_request
from dragoman.transport.connection import Connection, Server
from dragoman.transport.failures import TransportError
from dragoman.turn.events import Event
from dragoman.wire.sse import SSEReader

CORPUS: Final = Path(__file__).parents[2] / "tests" / "corpus"
FAMILIES: Final = tuple(FORMATS)
# Losses of a call that leaves incomplete, and the rules of a strict reader that such a call breaks.
_INCOMPLETE: Final = frozenset({"call_cut", "args_invalid", "args_not_object"})
_HALF_CALL: Final = frozenset({"arguments-whole", "partial-json-prefix"})


class Choice(NamedTuple):
    """An input, taken apart."""

    first: int
    second: int
    size: int  # of the pieces in which it is fed
    data: bytes

    @classmethod
    def of(cls, given: bytes) -> "Choice":
        head = given[:3].ljust(3, b"\0")
        return cls(head[0], head[1], 1 + head[2] % 64, given[3:])

    def pieces(self) -> Iterator[bytes]:
        for start in range(0, len(self.data), self.size):
            yield self.data[start : start + self.size]


class Target(NamedTuple):
    run: Callable[[Choice], object]
    seeds: Callable[[], Iterable[bytes]]


# --- framing --------------------------------------------------------------------------------------


def _sse(choice: Choice) -> None:
    assert _frames([choice.data]) == _frames(choice.pieces())


def _frames(pieces: Iterable[bytes]) -> object:
    reader = SSEReader()
    frames = []
    broken = None
    try:
        for piece in pieces:
            frames += reader.feed(piece)
        frames += reader.close()
    except ProtocolError as error:
        broken = type(error)
    return [(frame.data, frame.event, frame.whole) for frame in frames if frame.data], broken


def _http(choice: Choice) -> None:
    async def compare() -> None:
        whole, cut = _response([choice.data]), _response(choice.pieces())
        # Bytes behind the end are an error if they arrive in the same read, and else of no interest.
        assert whole[:-1] == cut[:-1]
        assert whole[-1] == cut[-1] or cut.ended

    _loop().run_until_complete(compare())


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


class _Response(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes
    ended: bool
    failure: str


def _response(pieces: Iterable[bytes]) -> _Response:
    room = bytearray(1 << 16)
    server = Server(host="peer", port=1, tls=None)
    connection = Connection(server, DEFAULT_LIMITS, lambda _lost: None, memoryview(room))
    body, failure = b"", ""
    try:
        for piece in pieces:
            room[: len(piece)] = piece
            connection.buffer_updated(len(piece))
            body += connection.take() or b""
            if connection.ended:
                break
        connection.connection_lost(None)
        body += connection.take() or b""
    except TransportError as error:
        failure = type(error).__name__
    return _Response(connection.status, connection.headers, body, connection.ended, failure)


# --- dialects -------------------------------------------------------------------------------------


def _directions(choice: Choice) -> tuple[str, str]:
    names = DIALECT_NAMES
    return names[choice.first % len(names)], names[choice.second % len(names)]


def _stream(choice: Choice) -> None:
    source, target = _directions(choice)
    events = _keep_text(source, choice)
    whole = _translated(source, target, [choice.data])
    cut = _translated(source, target, choice.pieces())
    if source == target:
        return  # forwarded bytes are forwarded as they arrive
    if events:
        _keep_written(source, target, choice, events)
    checker = Checker(target)
    violations = checker.feed(whole[0]) + checker.close()
    excused = _HALF_CALL if _INCOMPLETE & whole[1] else frozenset()
    assert not [one for one in violations if one.rule not in excused], violations
    assert whole[1] == cut[1]


def _translated(source: str, target: str, pieces: Iterable[bytes]) -> tuple[bytes, set[str]]:
    translator = Translator(source=source, target=target, model="kimi-k2", seed="s")
    written = b"".join(map(translator.feed, pieces)) + translator.close()
    return written, {loss.code for loss in translator.losses}


def _keep_text(source: str, choice: Choice) -> list[Event]:
    """Return the events of an answer; none if it is refused."""
    reader = AnswerReader(source=source, native_format="none", seed="s")
    events: list[Event] = []
    try:
        for piece in choice.pieces():
            events += reader.feed(piece)
        events += reader.close()
    except ProtocolError:
        return []
    lost = kept_text.find_lost(source, choice.data, events)
    assert not lost, f"the events lack {lost}"
    return events


def _keep_written(source: str, target: str, choice: Choice, events: list[Event]) -> None:
    translator = Translator(source=source, target=target, native_format="none", seed="s")
    written = b"".join(map(translator.feed, choice.pieces())) + translator.close()
    reader = AnswerReader(source=target, native_format="none", seed="s")
    lost = kept_text.find_unwritten(events, [*reader.feed(written), *reader.close()])
    assert not lost, f"the client's stream lacks {lost!r}"


def _body(choice: Choice) -> None:
    source, target = _directions(choice)
    translated = translate_body(choice.data, source=source, target=target, native_format="none")
    assert (translated.answer.fault is None) == (translated.status == 200)
    if translated.status == 200:
        _keep_body(source, choice.data, translated)
    status, _ = translate_error(500, choice.data, source=source, target=target)
    assert 400 <= status < 600


def _request(choice: Choice) -> None:
    source, target = _directions(choice)
    translated, status = None, 200
    try:
        # Within a dialect, a request is forwarded unchanged if its model keeps its name.
        translated = translate_request(choice.data, source=source, target=target, model="m")
    except DragomanError as error:
        status = error.http_status
    assert status in (200, 400, 413)
    if translated is not None:
        json.loads(translated.body)
        _keep_body(source, choice.data, translated)


def _keep_body(source: str, given: bytes, translated: TranslatedBody | TranslatedRequest) -> None:
    lost = kept_bodies.find_lost(source, given, translated.body, translated.losses)
    assert not lost, f"the translated body lacks {lost}"


# --- tool calls in text -----------------------------------------------------------------------------


def _family(choice: Choice) -> None:
    family = FAMILIES[choice.first % len(FAMILIES)]
    text = choice.data.decode("utf-8", "replace")
    size = choice.size
    whole = _parsed(family, choice.second, [text])
    cut = _parsed(family, choice.second, (text[at : at + size] for at in range(0, len(text), size)))
    # The excerpt of a problem is what its piece holds of the place.
    assert structs.replace(whole, problems=()) == structs.replace(cut, problems=())
    assert [one.code for one in whole.problems] == [one.code for one in cut.problems]
    if text.isalpha():
        assert text == whole.content + whole.reasoning


def _parsed(family: str, way: int, pieces: Iterable[str]) -> Parsed:
    parser = ToolCallParser(
        format=family,
        channel="reasoning" if way & 1 else "content",
        start_in_reasoning=bool(way & 2),
    )
    for piece in pieces:
        parser.feed(piece)
    parser.close(cut=bool(way & 4))
    return parser.result


# --- what travels through clients, and settings -----------------------------------------------------------


def _ids(choice: Choice) -> None:
    text = choice.data.decode("utf-8", "replace")
    if text:
        client = encode_id(text, choice.first)
        assert text == decode_id(client, {client: text})
    decode_id(text)
    assert Sealer(b"0123456789abcdef").open(text) is None or is_envelope(text)


def _config(choice: Choice) -> None:
    try:
        document = tomllib.loads(choice.data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return
    environment = ConfigEnvironment(environ={}, folder=Path("/nonexistent"))
    with suppress(ConfigError):
        make_settings(document, environment, need_secrets=False)


# --- seeds -----------------------------------------------------------------------------------------


def _with_directions(files: Iterable[tuple[str, bytes]]) -> Iterator[bytes]:
    for name, data in files:
        source = DIALECT_NAMES.index(name)
        for target in range(len(DIALECT_NAMES)):
            yield bytes((source, target, 7)) + data


def _streams() -> Iterator[tuple[str, bytes]]:
    for name in DIALECT_NAMES:
        for file in sorted(CORPUS.glob(f"{name}/*/stream.sse")):
            yield name, file.read_bytes()


def _bodies() -> Iterator[tuple[str, bytes]]:
    """Yield the answers of the streams as complete bodies."""
    for name, stream in _streams():
        folded = translate_body(stream, source=name, target=name, native_format="none")
        yield name, folded.body


def _requests() -> Iterator[tuple[str, bytes]]:
    for folder in sorted((CORPUS / "requests").iterdir()):
        source = json.loads((folder / "case.json").read_text("utf-8"))["dialect"]
        yield source, (folder / "request.json").read_bytes()


def _family_texts() -> Iterator[bytes]:
    for number, family in enumerate(FAMILIES):
        for file in sorted(CORPUS.glob(f"toolcalls/{family}/*.json")):
            case: dict[str, Any] = json.loads(file.read_text("utf-8"))
            text = case.get("text") or "".join(case.get("chunks", ()))
            yield bytes((number, 0, 5)) + text.encode("utf-8", "replace")


_TOML: Final = b"""\
[server]
port = 8484
keys = ["env:KEY"]
[upstreams.a]
base_url = "http://127.0.0.1:1/v1"
dialect = "chat"
[[routes]]
match = { model = "claude-*" }
to = ["a/b"]
"""
_HTTP: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"HTTP/1.1 404 Not Found\r\ncontent-length: 2\r\n\r\n{}",
    b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.0 200 OK\r\n\r\nuntil the end",
)

TARGETS: Final[dict[str, Target]] = {
    "sse": Target(_sse, lambda: (b"\0\0\3" + data for _, data in _streams())),
    "http": Target(_http, lambda: (b"\0\0\3" + data for data in _HTTP)),
    "streams": Target(_stream, lambda: _with_directions(_streams())),
    "bodies": Target(_body, lambda: _with_directions(_bodies())),
    "requests": Target(_request, lambda: _with_directions(_requests())),
    "families": Target(_family, _family_texts),
    "ids": Target(_ids, lambda: (b"\0\0\1functions.bash:0", b"\1\0\1dgm1.aaaa.bbbb")),
    "config": Target(_config, lambda: (b"\0\0\0" + _TOML,)),
}
