"""The log: one line per request, and a few notices.  Never content, never secrets.

A line is JSON for programs, or text for people; the settings and the terminal decide which.
"""

import functools
import logging
import os
import re
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, TextIO, TypeAlias, get_origin

import msgspec
from msgspec import Struct, field, structs

from dragoman.gateway.config.settings import Log
from dragoman.gateway.headers import decimal, is_request_id
from dragoman.redaction import Secrets, redact
from dragoman.toolcalls.findings import NativeSummary
from dragoman.turn.events import UNSIGNED_CALLS

__all__ = ["Fact", "Level", "Logger", "RequestRecord", "Secrets", "http_logger", "redact"]

Level: TypeAlias = Literal["debug", "info", "warning", "error"]
Fact: TypeAlias = str | int | float | bool | None

_RANK: Final[dict[str, int]] = {"debug": 0, "info": 1, "warning": 2, "error": 3}
# Names come from peers: a line stays a line, of a length that can be read.
_MAX_TEXT: Final = 600
_MAX_ITEMS: Final = 20
_MAX_REMEMBERED: Final = 100  # characters of a text that is kept
_MAX_SHOWN: Final = 512
_UNPRINTABLE: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")
_COLOURS: Final[dict[str, str]] = {
    "debug": "\x1b[2m",
    "info": "\x1b[32m",
    "warning": "\x1b[33m",
    "error": "\x1b[31m",
}
_DIM: Final = "\x1b[2m"
# Kinds of failures that the operator of the gateway can act on.
_OPERATOR_ERRORS: Final = frozenset({"gateway", "server", "upstream_bad", "upstream_unusable"})
_PLAIN: Final = "\x1b[0m"


class RequestRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is kept of one request: names, counts and times.

    A field that has its default is left out of the log.  A count of 0 is information: counts have a factory
    instead of a default, which is always written.
    """

    time: float  # Unix seconds at which it came
    id: str
    path: str
    dialect: str = ""  # of the client
    key: str = ""  # the name of the client's key
    route: str = ""
    upstream: str = ""  # the last one that was asked
    upstream_dialect: str = ""
    model: str = ""  # as the client asked for it
    upstream_model: str = ""
    native_format: str = ""  # family of native tool calls that was looked for
    status: int = field(default_factory=int)  # that the client got
    ended: str = ""  # the finish reason, `fault`, or `client_left`
    error: str = ""  # kind of the failure
    error_code: str = ""
    reason: str = ""  # the failure in words, as the client gets it
    stream: bool = False
    tokens_in: int = field(default_factory=int)  # cached ones included
    tokens_out: int = field(default_factory=int)  # reasoning included
    tokens_cached: int = field(default_factory=int)
    tokens_reasoning: int = field(default_factory=int)
    tokens_estimated: bool = False  # no upstream reported them
    cost: float | None = None  # in US dollars; None: not reported, and the settings have no price
    cost_computed: bool = False  # by the prices of the settings: the upstream does not report it
    waited_ms: float | None = None  # for a place: at an upstream, or for its key
    first_event_ms: float | None = None
    duration_ms: float = field(default_factory=float)
    calls: int = field(default_factory=int)  # tool calls that were made
    call_names: tuple[str, ...] = ()
    # What the vendor ran itself for the response; 0 is left out.
    searches: int = 0
    fetches: int = 0
    code_runs: int = 0
    mcp_calls: int = 0
    images: int = 0
    retries: int = field(default_factory=int)
    continued: int = 0  # requests that continued an answer which its upstream paused
    resting: tuple[str, ...] = ()  # upstreams that come first in the route and were resting
    full: tuple[str, ...] = ()  # upstreams that had no free place
    failures: tuple[str, ...] = ()  # attempts that failed, in order
    warnings: tuple[str, ...] = ()  # codes of losses
    losses: tuple[str, ...] = ()  # the same with path and detail
    native_found: tuple[NativeSummary, ...] = ()  # tool calls that were found in text

    @property
    def level(self) -> Level:
        """How much this concerns the operator of the gateway."""
        # The gateway wrote the calls of a translated request.
        ours = self.error_code == UNSIGNED_CALLS and self.dialect != self.upstream_dialect
        if self.status >= 500 or self.error in _OPERATOR_ERRORS or ours:
            return "error"
        return "warning" if self.status >= 400 or self.error else "info"


_TEXTS: Final = tuple(one.name for one in structs.fields(RequestRecord) if one.type is str)
_LISTS: Final = tuple(
    one.name for one in structs.fields(RequestRecord) if get_origin(one.type) is tuple
)


class Logger:
    """Writes lines to one stream.  A stream that cannot be written to does no harm to requests."""

    def __init__(  # noqa: PLR0913 -- a line has as many sides
        self,
        stream: TextIO,
        *,
        json: bool = False,
        colour: bool = False,
        level: Level = "info",
        secrets: Secrets = (),
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._stream = stream
        self._json = json
        self._colour = colour and not json
        self._least = _RANK[level]
        self.shows_debug: bool = level == "debug"
        self._clock = clock
        self._secrets = secrets
        self._shown: dict[str, str] = {}  # short texts as a line shows them: names repeat

    @property
    def secrets(self) -> Secrets:
        """What no line may show; a reload brings others."""
        return self._secrets

    @secrets.setter
    def secrets(self, secrets: Secrets) -> None:
        self._secrets = secrets
        self._shown.clear()

    @classmethod
    def of(cls, settings: Log, *, secrets: Secrets = (), stream: TextIO | None = None) -> "Logger":
        """Return the logger that the settings ask for, on standard error unless another stream is given."""
        out = sys.stderr if stream is None else stream
        terminal = out.isatty()
        return cls(
            out,
            json=settings.format == "json" or (settings.format == "auto" and not terminal),
            colour=terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb",
            level=settings.level,
            secrets=secrets,
        )

    def clean_record(self, record: RequestRecord) -> dict[str, object]:
        """Return the fields of a request's line, as the log may show them."""
        facts: dict[str, Any] = msgspec.to_builtins(record)
        for name in _TEXTS:
            if name in facts:
                facts[name] = self._shown.get(facts[name]) or self._show(name, facts[name])
        for name in _LISTS:
            if name in facts:
                facts[name] = self._clean_items(facts[name])
        return facts

    def redact(self, text: str) -> str:
        """Return a text without secrets."""
        return redact(text, self.secrets)

    def shows(self, level: Level) -> bool:
        """Return whether lines of a level are written."""
        return _RANK[level] >= self._least

    def request(self, record: RequestRecord) -> None:
        """Write the line of one request."""
        level = record.level
        if not self.shows(level):
            return
        clean = self.clean_record(record)
        if self._json:
            self._write_json(record.time, level, "request", clean)
        else:
            self._write_text(record.time, self._readable(msgspec.convert(clean, RequestRecord)))

    def notice(self, event: str, *, level: Level = "info", **facts: Fact) -> None:
        """Write something that is not about one request, such as `started` with its address."""
        if not self.shows(level):
            return
        clean = self._clean(facts)
        now = self._clock()
        if self._json:
            self._write_json(now, level, event, clean)
        else:
            shown = "  ".join(f"{self._dim(name)} {value}" for name, value in clean.items())
            self._write_text(now, f"{self._shade(level, event)}  {shown}".rstrip())

    # --- one line ---------------------------------------------------------------------------------

    def _clean(self, facts: Mapping[str, object]) -> dict[str, object]:
        """Return the facts that have a value: no secrets, no control characters, of bounded size."""
        clean: dict[str, object] = {}
        for name, value in facts.items():
            kind = type(value)
            if kind is int or kind is float:
                clean[name] = value  # a count of 0 is information
            elif not value:
                continue
            elif isinstance(value, str):
                clean[name] = self._shown.get(value) or self._show(name, value)
            elif isinstance(value, tuple):
                clean[name] = self._clean_items(value)
            else:
                clean[name] = value
        return clean

    def _clean_items(self, items: Sequence[object]) -> tuple[object, ...]:
        return tuple(
            self._clean(one) if isinstance(one, dict) else self._show("", str(one))
            for one in items[:_MAX_ITEMS]
        )

    def _show(self, name: str, text: str) -> str:
        """Return a text as a line may show it under a name."""
        if name == "id" and is_request_id(text):
            return text  # another one on every line
        # Redaction comes before the cut, or half a secret would stay.
        shown = _UNPRINTABLE.sub("?", redact(text, self._secrets))
        if len(shown) > _MAX_TEXT:
            return shown[: _MAX_TEXT - 1] + "…"
        if len(text) < _MAX_REMEMBERED:
            if len(self._shown) >= _MAX_SHOWN:
                self._shown.clear()
            self._shown[text] = shown
        return shown

    def _write_json(self, at: float, level: Level, event: str, facts: dict[str, object]) -> None:
        seconds, micros = divmod(round(at * 1_000_000), 1_000_000)
        line: dict[str, object] = {
            "time": f"{_second(seconds)}.{micros // 1000:03d}Z",
            "level": level,
            "event": event,
        }
        self._write(msgspec.json.encode({**line, **facts, **line}).decode())

    def _write_text(self, at: float, text: str) -> None:
        stamp = datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")
        self._write(f"{self._dim(stamp)} {text}")

    def _write(self, line: str) -> None:
        try:
            try:
                self._stream.write(line + "\n")
            except UnicodeEncodeError:  # a stream of another encoding
                self._stream.write(line.encode("ascii", "backslashreplace").decode() + "\n")
            self._stream.flush()
        except (OSError, ValueError):
            pass  # closed, or its reader is gone: there is nowhere to report it

    # --- for people -------------------------------------------------------------------------------

    def _readable(self, record: RequestRecord) -> str:
        target = record.upstream
        if record.upstream_model:
            target = f"{record.upstream}/{record.upstream_model}".lstrip("/")
        parts = [
            self._shade(record.level, str(record.status or "---")),
            record.path,
            f"{record.model} → {target}" if target else record.model,
            self._seconds(record),
            self._tokens(record),
            "" if record.cost is None else f"{self._dim('cost')} ${decimal(record.cost)}",
            self._calls(record),
            *(
                f"{self._dim(name)} {number}"
                for name, number in (
                    ("searches", record.searches),
                    ("fetches", record.fetches),
                    ("code runs", record.code_runs),
                    ("mcp calls", record.mcp_calls),
                    ("images", record.images),
                    ("continued", record.continued),
                )
                if number
            ),
            f"{self._dim('ended')} {record.ended}" if record.ended else "",
            f"{self._dim('error')} {' '.join(filter(None, (record.error, record.error_code)))}"
            if record.error
            else "",
            f"{self._dim('reason')} {record.reason}" if record.reason else "",
            f"{self._dim('retries')} {record.retries}" if record.retries else "",
            f"{self._dim('resting')} {', '.join(record.resting)}" if record.resting else "",
            f"{self._dim('full')} {', '.join(record.full)}" if record.full else "",
            f"{self._dim('failed')} {'; '.join(record.failures)}" if record.failures else "",
            self._found(record),
            self._warnings(record),
            f"{self._dim('format')} {record.native_format}"
            if record.native_format and not record.native_found
            else "",
            f"{self._dim('route')} {record.route}" if record.route else "",
            f"{self._dim('key')} {record.key}" if record.key else "",
            self._dim(record.id),
        ]
        return "  ".join(filter(None, parts))

    def _seconds(self, record: RequestRecord) -> str:
        first = record.first_event_ms
        after = "" if first is None else f" {self._dim('first')} {first / 1000:.2f}s"
        waited = record.waited_ms
        before = "" if waited is None else f" {self._dim('waited')} {waited / 1000:.2f}s"
        return f"{record.duration_ms / 1000:.2f}s{before}{after}"

    def _tokens(self, record: RequestRecord) -> str:
        if not record.tokens_in and not record.tokens_out:
            return ""
        about = "~" if record.tokens_estimated else ""
        cached = f" ({record.tokens_cached} cached)" if record.tokens_cached else ""
        thought = f" ({record.tokens_reasoning} reasoning)" if record.tokens_reasoning else ""
        return (
            f"{self._dim('in')} {about}{record.tokens_in}{cached} "
            f"{self._dim('out')} {about}{record.tokens_out}{thought}"
        )

    def _calls(self, record: RequestRecord) -> str:
        if not record.calls:
            return ""
        names = ",".join(dict.fromkeys(record.call_names))
        return f"{self._dim('calls')} {record.calls} {names}".rstrip()

    def _found(self, record: RequestRecord) -> str:
        """Return what was found of native calls: `found kimi_k2 in content: 2 calls`."""
        found = [
            f"{one.family} in {one.channel}: {', '.join(_counted(one))}"
            for one in record.native_found
        ]
        return f"{self._dim('found')} {'; '.join(found)}" if found else ""

    def _warnings(self, record: RequestRecord) -> str:
        """Return the losses that `_found` does not show."""
        shown = {problem.code for one in record.native_found for problem in one.problems}
        losses = [loss for loss in record.losses if loss.partition(":")[0] not in shown]
        return f"{self._dim('warnings')} {'; '.join(losses)}" if losses else ""

    def _shade(self, level: Level, text: str) -> str:
        return f"{_COLOURS[level]}{text}{_PLAIN}" if self._colour else text

    def _dim(self, text: str) -> str:
        return f"{_DIM}{text}{_PLAIN}" if self._colour else text


class _Notices(logging.Handler):
    """Turns log records of the HTTP server into notices with the kind of error, never with its bytes."""

    def __init__(self, logger: Logger) -> None:
        super().__init__(logging.WARNING)
        self._logger = logger

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        why = type(error).__name__ if error else record.levelname
        self._logger.notice("connection failed", level="warning", why=why)


def http_logger(logger: Logger) -> logging.Logger:
    """Return a logger for the HTTP server that writes to ours."""
    found = logging.Logger("dragoman.http")  # noqa: LOG001 -- of one gateway, and no other
    found.addHandler(_Notices(logger))
    return found


@functools.lru_cache(maxsize=2)
def _second(at: int) -> str:
    """Return a time in Unix seconds as a line shows it; many requests end in the same second."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _counted(found: NativeSummary) -> list[str]:
    """Return the calls and problems of a family and channel, in words."""
    calls = f"{found.calls} call{'' if found.calls == 1 else 's'}"
    problems = (
        f"{one.code}"
        + (f" {one.count} times" if one.count > 1 else "")
        + f" ({one.meaning}{f': {one.detail}' if one.detail else ''})"
        for one in found.problems
    )
    return [calls, *problems]
