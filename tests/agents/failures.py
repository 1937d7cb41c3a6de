"""Failures of an upstream, and how long an agent's user waits for the reason.

The upstream is a small server that refuses every request as a vendor does, breaks every stream in its middle, or
cannot be reached at all.  The agents run as `dragoman run` starts them, with the retries that they make by default.
"""

import json
import socket
import struct
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from dragoman.gateway.config.settings import Match, Route, Server, Settings, Timeouts, Upstream
from tests.agents.pages import with_table
from tests.agents.programs import Program
from tests.agents.stage import Ran, Stage, TooSlowError
from tests.support.gateway import Stand, stand

PROMPT: Final = "Say hello."
_SECONDS: Final = 60.0  # after which a run counts as endless
_UPSTREAM: Final = "vendor"
_MODEL: Final = "m"
_IDLE: Final = 3.0  # seconds of silence after which the gateway gives a stream up


class Refusal(NamedTuple):
    """How a vendor refuses a request."""

    status: int
    code: str
    type: str
    message: str


class Failure(NamedTuple):
    """A failure: a refusal, an address where no server answers, or a stream that ends in its middle."""

    title: str
    shown: tuple[
        str, ...
    ]  # one of these must be in the output: the reason, or the agent's own words for it
    refusal: Refusal | None = None
    url: str = ""  # `{port}` is that of the failing server
    ends: Literal["", "error", "reset", "stall", "eof"] = ""  # the stream, after its first words
    in_call: bool = False  # the stream ends inside the arguments of a call
    lasts: bool = True  # no retry can change it


_KEY: Final = Refusal(
    401, "invalid_api_key", "invalid_request_error", "Incorrect API key provided: sk-wrong."
)
_CONTEXT: Final = Refusal(
    400,
    "context_length_exceeded",
    "invalid_request_error",
    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
)
_QUOTA: Final = Refusal(
    429,
    "insufficient_quota",
    "insufficient_quota",
    "You exceeded your current quota, please check your plan and billing details.",
)
_OVERLOADED: Final = Refusal(
    503, "server_is_overloaded", "overloaded_error", "The engine is currently overloaded."
)

PERMANENT: Final[Mapping[str, Failure]] = {
    "key": Failure("wrong upstream key", ("Incorrect API key",), _KEY),
    "model": Failure(
        "unknown model",
        ("does not exist", "It may not exist"),
        Refusal(
            404,
            "model_not_found",
            "invalid_request_error",
            "The model `m` does not exist or you do not have access to it.",
        ),
    ),
    "tls": Failure("TLS failure", ("TLS to",), url="https://127.0.0.1:{port}/v1"),
    "address": Failure(
        "wrong address", ("nothing accepts connections at",), url="http://127.0.0.1:9/v1"
    ),
    "context": Failure(
        "context too long",
        ("maximum context length", "Prompt is too long", "ran out of room"),
        _CONTEXT,
    ),
    "quota": Failure("quota used up", ("exceeded your current quota", "Quota exceeded"), _QUOTA),
}

_LOST: Final = (
    "terminated",
    "ended",
    "closed",
    "reset",
    "Overloaded",
    "overloaded",
    "disconnected",
)
MIDSTREAM: Final[Mapping[str, Failure]] = {
    "key": PERMANENT["key"]._replace(title="error: wrong key", ends="error"),
    "context": PERMANENT["context"]._replace(title="error: context too long", ends="error"),
    "quota": PERMANENT["quota"]._replace(title="error: quota used up", ends="error"),
    "overloaded": Failure(
        "error: overloaded", ("overloaded", "at capacity"), _OVERLOADED, ends="error", lasts=False
    ),
    "reset": Failure("connection reset", _LOST, ends="reset", lasts=False),
    "stall": Failure("silence", ("silent", "timed out", "timeout"), ends="stall", lasts=False),
    "eof": Failure("end without a finish", _LOST, ends="eof", lasts=False),
    "eof in call": Failure("end in a call", _LOST, ends="eof", in_call=True, lasts=False),
}


class Run(NamedTuple):
    """What was observed of a run."""

    seconds: float | None  # from the first request to the end of the program; None: it did not end
    shown: bool  # the user read the reason
    requests: int
    out: str


def run(program: Program, stage: Stage, failure: Failure, *, direct: bool = False) -> Run:
    """Let an agent meet a failure through the gateway, or without it."""
    tool = program.shell("true").name
    with (
        _failing(failure, tool) as server,
        stand(lambda _: _settings(failure, server.port)) as both,
    ):
        url, model = both.url, f"{_UPSTREAM}/{_MODEL}"
        if direct:
            url, model = f"http://127.0.0.1:{server.port}", _MODEL
        start = program.start(stage, url, model, PROMPT)
        try:
            ran: Ran | None = stage.run(start.command, start.environ, seconds=_SECONDS)
            out = ran.said
        except TooSlowError as late:
            ran, out = None, str(late)
        ended, times = time.time(), server.times if direct else _times(both)
        seconds = None if ran is None or not times else ended - times[0]
        shown = any(words in out for words in failure.shown)
        return Run(seconds, shown, len(times), out)


def _times(both: Stand) -> list[float]:
    lines = [json.loads(line) for line in both.log.getvalue().splitlines()]
    return sorted(
        datetime.fromisoformat(line["time"]).timestamp()
        for line in lines
        if line["event"] == "request" and "model" in line
    )


def _settings(failure: Failure, port: int) -> Settings:
    url = (failure.url or "http://127.0.0.1:{port}/v1").format(port=port)
    timeouts = Timeouts(idle=_IDLE)
    upstream = Upstream(base_url=url, dialect="chat", models=(_MODEL,), timeouts=timeouts)
    return Settings(
        server=Server(port=0),
        upstreams={_UPSTREAM: upstream},
        routes=(Route(name="all", match=Match(model="*"), to=(f"{_UPSTREAM}/{_MODEL}",)),),
    )


# --- the failing server -----------------------------------------------------------------------------


class FailingServer(ThreadingHTTPServer):
    """Fails every request in the same way, in the dialect of its path."""

    daemon_threads = True

    def __init__(self, failure: Failure, tool: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.failure = failure
        self.tool = tool  # that a stream which ends in a call has begun to call
        self.times: list[float] = []  # when each request arrived
        self.closing = threading.Event()

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: FailingServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}")
        path = self.path.partition("?")[0]
        dialect = next((name for name, end in _PATHS.items() if path.endswith(end)), None)
        if dialect is None:
            self._reply(404, {})
            return
        self.server.times.append(time.time())
        failure = self.server.failure
        if failure.ends and (body.get("stream") or path.endswith(_STREAMS)):
            self._break_stream(dialect, failure)
        elif failure.refusal is not None:
            overloaded = failure.refusal is _OVERLOADED and dialect != "gemini"
            status = 529 if overloaded else failure.refusal.status
            self._reply(status, _error(dialect, failure.refusal))
        else:
            self._end(failure)

    def _reply(self, status: int, value: dict[str, Any]) -> None:
        body = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _break_stream(self, dialect: str, failure: Failure) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        frames = _text_frames(dialect)
        if failure.in_call:
            frames += _call_frames(dialect, self.server.tool)
        if failure.ends == "error" and failure.refusal is not None:
            frames.append(_error_frame(dialect, failure.refusal))
        for frame in frames:
            kind = f"event: {frame['type']}\n" if "type" in frame else ""
            data = f"{kind}data: {json.dumps(frame)}\n\n".encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        if failure.in_call and dialect == "gemini":
            data = _HALF_CHUNK % self.server.tool.encode()
            self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
        if failure.ends in ("error", "eof"):
            self.wfile.write(b"0\r\n\r\n")
            return
        time.sleep(0.3)  # a reset discards what the peer has not read
        self._end(failure)

    def _end(self, failure: Failure) -> None:
        """End the connection, or keep it open and send nothing."""
        self.close_connection = True
        if failure.ends == "stall":
            self.server.closing.wait(_SECONDS)
        elif failure.ends == "reset":
            hard = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, hard)
            self.connection.close()

    def log_message(self, *_: object) -> None:
        pass


_STREAMS: Final = ":streamGenerateContent"
_PATHS: Final = {
    "chat": "/chat/completions",
    "anthropic": "/messages",
    "responses": "/responses",
    "gemini": "enerateContent",
}
_WORDS: Final = "I begin to answer. "
_HALF: Final = '{"command": "echo'
# Google sends a call whole: what ends inside one ends inside a chunk.
_HALF_CHUNK: Final = (
    b'data: {"candidates": [{"content": {"parts": [{"functionCall": {"name": "%b", "args": '
    + _HALF.encode()
)


def _error(dialect: str, refusal: Refusal) -> dict[str, Any]:
    if dialect == "anthropic":
        kind = {
            _KEY: "authentication_error",
            _QUOTA: "billing_error",
            _OVERLOADED: "overloaded_error",
        }.get(refusal, "invalid_request_error")
        return {"type": "error", "error": {"type": kind, "message": refusal.message}}
    if dialect == "gemini":
        status = {401: "UNAUTHENTICATED", 429: "RESOURCE_EXHAUSTED", 503: "UNAVAILABLE"}
        name = status.get(refusal.status, "INVALID_ARGUMENT")
        return {"error": {"code": refusal.status, "message": refusal.message, "status": name}}
    error = {"message": refusal.message, "type": refusal.type, "code": refusal.code}
    return {"error": {**error, "param": None}}


def _error_frame(dialect: str, refusal: Refusal) -> dict[str, Any]:
    if dialect != "responses":
        return _error(dialect, refusal)
    error = {"code": refusal.code, "message": refusal.message}
    return {"type": "response.failed", "response": _response("failed", error)}


def _response(status: str, error: dict[str, str] | None = None) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "model": _MODEL,
        "status": status,
        "error": error,
        "output": [],
    }


def _text_frames(dialect: str) -> list[dict[str, Any]]:
    """Return the beginning of a stream, with some text."""
    if dialect == "gemini":
        content = {"parts": [{"text": _WORDS}], "role": "model"}
        return [{"candidates": [{"content": content}], "modelVersion": _MODEL}]
    if dialect == "chat":
        return [_chunk({"role": "assistant", "content": _WORDS})]
    if dialect == "anthropic":
        message = {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": _MODEL,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        block = {"type": "text", "text": ""}
        delta = {"type": "text_delta", "text": _WORDS}
        return [
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
        ]
    item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "in_progress"}
    part = {"type": "output_text", "text": "", "annotations": []}
    place = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    return [
        {"type": "response.created", "response": _response("in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
        {"type": "response.content_part.added", **place, "part": part},
        {"type": "response.output_text.delta", **place, "delta": _WORDS},
    ]


def _call_frames(dialect: str, tool: str) -> list[dict[str, Any]]:
    """Return the beginning of a call that follows the text."""
    if dialect == "gemini":
        return []
    if dialect == "chat":
        function = {"name": tool, "arguments": _HALF}
        call = {"index": 0, "id": "call_1", "type": "function", "function": function}
        return [_chunk({"tool_calls": [call]})]
    if dialect == "anthropic":
        block = {"type": "tool_use", "id": "toolu_1", "name": tool, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": _HALF}
        return [
            {"type": "content_block_stop", "index": 0},
            {"type": "content_block_start", "index": 1, "content_block": block},
            {"type": "content_block_delta", "index": 1, "delta": delta},
        ]
    item = {
        "id": "fc_1",
        "type": "function_call",
        "call_id": "call_1",
        "name": tool,
        "arguments": "",
        "status": "in_progress",
    }
    return [
        {"type": "response.output_item.added", "output_index": 1, "item": item},
        {
            "type": "response.function_call_arguments.delta",
            "item_id": "fc_1",
            "output_index": 1,
            "delta": _HALF,
        },
    ]


def _chunk(delta: dict[str, Any]) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return {
        "id": "c1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": _MODEL,
        "choices": [choice],
    }


@contextmanager
def _failing(failure: Failure, tool: str) -> Iterator[FailingServer]:
    """Run a server that fails every request."""
    server = FailingServer(failure, tool)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


# --- the recorded tables ----------------------------------------------------------------------------

FILE: Final = Path(__file__).parent / "failures_table.json"
PAGE: Final = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
END: Final = "<!-- the end of the drawn table -->"
GATEWAY: Final = "gateway"
DIRECT: Final = "direct"
# By agent, failure, and way (`gateway` or `direct`): seconds, None if it had not ended, and requests.
Rows: TypeAlias = dict[str, dict[str, dict[str, tuple[float | None, int]]]]


class Table(NamedTuple):
    """A table of docs/troubleshooting.md: a row for each agent, a column for each failure."""

    name: str  # in the file of results
    failures: Mapping[str, Failure]
    ways: tuple[str, ...]  # each cell shows them in this order

    @property
    def begin(self) -> str:
        return f"<!-- drawn from tests/agents/failures_table.json: {self.name} -->"

    def load(self) -> Rows:
        found: Rows = json.loads(FILE.read_text("utf-8")).get(self.name, {})
        return found

    def draw(self) -> str:
        titles = [one.title for one in self.failures.values()]
        lines = [f"| Agent | {' | '.join(titles)} |", f"|---|{'---|' * len(titles)}"]
        for agent, row in self.load().items():
            cells = [self._cell(row.get(name, {})) for name in self.failures]
            lines.append(f"| {agent} | {' | '.join(cells)} |")
        return "\n".join(lines)

    def _cell(self, ran: Mapping[str, tuple[float | None, int]]) -> str:
        return " → ".join(_shown(*ran[way]) if way in ran else "-" for way in self.ways)


def _shown(seconds: float | None, requests: int) -> str:
    if requests == 0:
        return f"{seconds:.1f} s"  # requests were not counted
    time_taken = f"over {_SECONDS:.0f} s" if seconds is None else f"{seconds:.1f} s"
    return f"{time_taken} ({requests})"


TABLES: Final = {
    "permanent": Table("permanent", PERMANENT, (GATEWAY,)),
    "midstream": Table("midstream", MIDSTREAM, (DIRECT, GATEWAY)),
}


def record(folder: Path, place: tuple[str, str, str, str], ran: Run) -> None:
    """Keep a result of a recording; `place` is table, agent, failure and way.

    `merge` puts all results into the checked-in file.
    """
    seconds = None if ran.seconds is None else round(ran.seconds, 1)
    file = folder / f"{' '.join(place)}.json"
    file.write_text(json.dumps([place, [seconds, ran.requests]]), "utf-8")


def merge(folder: Path) -> None:
    results: dict[str, Rows] = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    for file in sorted(folder.glob("*.json")):
        (table, agent, failure, way), ran = json.loads(file.read_text("utf-8"))
        rows = results.setdefault(table, {})
        rows.setdefault(agent, {}).setdefault(failure, {})[way] = ran
    FILE.write_text(json.dumps(results, indent=1) + "\n", "utf-8")


def drawn_page(text: str) -> str:
    """Return the page with both tables redrawn between their marks."""
    for table in TABLES.values():
        text = with_table(text, table.begin, END, table.draw())
    return text


def redraw() -> None:
    PAGE.write_text(drawn_page(PAGE.read_text("utf-8")), "utf-8")
