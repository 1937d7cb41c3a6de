"""Permanent failures, and how long an agent's user waits for the reason.

The upstream is a small server that refuses every request as a vendor does, or cannot be reached at all.  The agents
run as `dragoman run` starts them, with the retries that they make by default.
"""

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Final, NamedTuple

from dragoman.gateway.config.settings import Match, Route, Server, Settings, Upstream
from tests.agents.pages import with_table
from tests.agents.programs import Program
from tests.agents.stage import Ran, Stage, TooSlowError
from tests.support.gateway import Stand, stand

PROMPT: Final = "Say hello."
_SECONDS: Final = 60.0  # after which a run counts as endless
_UPSTREAM: Final = "vendor"
FILE: Final = Path(__file__).parent / "permanent_table.json"
PAGE: Final = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
BEGIN: Final = "<!-- drawn from tests/agents/permanent_table.json -->"
END: Final = "<!-- the end of the drawn table -->"


class Refusal(NamedTuple):
    """How a vendor refuses a request."""

    status: int
    code: str
    type: str
    message: str


class Failure(NamedTuple):
    """A permanent failure: a refusal, or an address where no server answers."""

    title: str
    shown: tuple[
        str, ...
    ]  # one of these must be in the output: the reason, or the agent's own words for it
    refusal: Refusal | None = None
    url: str = ""  # `{port}` is that of the refusing server


FAILURES: Final[Mapping[str, Failure]] = {
    "key": Failure(
        "wrong upstream key",
        ("Incorrect API key",),
        Refusal(
            401,
            "invalid_api_key",
            "invalid_request_error",
            "Incorrect API key provided: sk-wrong.",
        ),
    ),
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
        ("maximum context length", "Prompt is too long"),
        Refusal(
            400,
            "context_length_exceeded",
            "invalid_request_error",
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
        ),
    ),
    "quota": Failure(
        "quota used up",
        ("exceeded your current quota",),
        Refusal(
            429,
            "insufficient_quota",
            "insufficient_quota",
            "You exceeded your current quota, please check your plan and billing details.",
        ),
    ),
}


class Run(NamedTuple):
    """What was observed of a run."""

    seconds: float | None  # from the first request to the end of the program; None: it did not end
    shown: bool  # the user read the reason
    requests: int
    out: str


def run(program: Program, stage: Stage, failure: Failure) -> Run:
    """Let an agent meet a permanent failure through the gateway."""
    with _refusing(failure.refusal) as port, stand(lambda _: _settings(failure, port)) as both:
        start = program.start(stage, both.url, f"{_UPSTREAM}/m", PROMPT)
        try:
            ran: Ran | None = stage.run(start.command, start.environ, seconds=_SECONDS)
            out = ran.said
        except TooSlowError as late:
            ran, out = None, str(late)
        ended, times = time.time(), _times(both)
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
    upstream = Upstream(base_url=url, dialect="chat", models=("m",))
    return Settings(
        server=Server(port=0),
        upstreams={_UPSTREAM: upstream},
        routes=(Route(name="all", match=Match(model="*"), to=(f"{_UPSTREAM}/m",)),),
    )


@contextmanager
def _refusing(refusal: Refusal | None) -> Iterator[int]:
    """Run a server that refuses every request; yield its port."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers.get("content-length", 0)))
            assert refusal is not None
            error = {
                "message": refusal.message,
                "type": refusal.type,
                "param": None,
                "code": refusal.code,
            }
            body = json.dumps({"error": error}).encode()
            self.send_response(refusal.status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


# --- the recorded table -----------------------------------------------------------------------------


def load() -> dict[str, dict[str, float]]:
    """Return the recorded seconds, by agent and failure."""
    found: dict[str, dict[str, float]] = json.loads(FILE.read_text("utf-8"))
    return found


def record(folder: Path, agent: str, failure: str, seconds: float) -> None:
    """Keep a result of a recording; `merge` puts all of them into the checked-in file."""
    (folder / f"{agent} {failure}.json").write_text(json.dumps([agent, failure, seconds]), "utf-8")


def merge(folder: Path) -> None:
    results = load() if FILE.exists() else {}
    for file in sorted(folder.glob("*.json")):
        agent, failure, seconds = json.loads(file.read_text("utf-8"))
        results.setdefault(agent, {})[failure] = seconds
    ordered = {
        agent: {name: row[name] for name in FAILURES if name in row}
        for agent, row in results.items()
    }
    FILE.write_text(json.dumps(ordered, indent=1) + "\n", "utf-8")


def draw() -> str:
    """Return the table for docs/troubleshooting.md: a row for each agent, a column for each failure."""
    titles = [one.title for one in FAILURES.values()]
    lines = [f"| Agent | {' | '.join(titles)} |", f"|---|{'---|' * len(titles)}"]
    for agent, row in load().items():
        cells = [f"{row[name]:.1f} s" if name in row else "-" for name in FAILURES]
        lines.append(f"| {agent} | {' | '.join(cells)} |")
    return "\n".join(lines)


def drawn_page(text: str) -> str:
    """Return the page with the table redrawn between its marks."""
    return with_table(text, BEGIN, END, draw())


def redraw() -> None:
    PAGE.write_text(drawn_page(PAGE.read_text("utf-8")), "utf-8")
