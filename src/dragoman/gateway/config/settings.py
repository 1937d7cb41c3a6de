"""What may stand in `dragoman.toml`: every table and key, with its default and meaning.

These are plain facts after reading: globs are still text, secrets are already looked up.
"""

from typing import Final, Literal

from msgspec import Struct

from dragoman.limits import Limits
from dragoman.turn.request import DialectName

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8484


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of the file."""


class Secret(Struct, frozen=True, gc=False):
    """A value that never shows: looked up from `env:NAME` or `file:PATH`."""

    source: str  # as the file says it
    value: str = ""

    def __repr__(self) -> str:
        return f"Secret({self.source!r})"


class Timeouts(Section, frozen=True):
    """Seconds; 0 switches one off."""

    connect: float = 10.0
    first_byte: float = 300.0  # reasoning models are silent for long
    idle: float = 120.0  # between bytes of a stream
    total: float = 0.0  # a total limit kills good streams


class TimeoutChanges(Section, frozen=True):
    """A route's changes to the timeouts of its upstreams; what is absent stays as it is there."""

    connect: float | None = None
    first_byte: float | None = None
    idle: float | None = None
    total: float | None = None


class Tls(Section, frozen=True):
    """How an upstream is verified, and how we show ourselves to it."""

    verify: bool = True
    ca: str = ""  # file with the authorities to trust instead of the system's
    cert: str = ""  # our certificate, for mutual TLS
    key: str = ""  # its private key; empty: in the same file


class Key(Section, frozen=True):
    """One client's credential and what it may do.  0 means no limit."""

    key: Secret
    name: str = ""  # for logs; empty: `key-1`, `key-2`, …
    models: tuple[str, ...] = ()  # globs over the model names a client asks for; empty: all
    requests_per_minute: int = 0
    tokens_per_minute: int = 0
    concurrent: int = 0  # requests under way at once


class Server(Section, frozen=True):
    host: str = DEFAULT_HOST
    port: int = DEFAULT_PORT  # 0: any free one
    workers: int = 1  # processes that share the port
    keys: tuple[
        Key, ...
    ] = ()  # none: loopback only, no key asked; a string is a key without limits
    # Names under which browsers and clients may reach us beside loopback and `host`.
    allowed_hosts: tuple[str, ...] = ()
    allowed_origins: tuple[str, ...] = ()
    insecure: bool = False  # a public address without keys
    seal_key: Secret | None = None  # signs reasoning state; absent: random, dies with the process
    drain_seconds: float = 30.0  # how long streams may go on after SIGTERM
    # Seconds of silence before the client is sent a sign of life; 0: never.
    keep_alive: float = 10.0
    # Seconds the status line waits for the upstream's first event, so that errors keep their status.
    hold_headers: float = 10.0
    limits: Limits = Limits()


class Upstream(Section, frozen=True):
    base_url: str  # what stands before `/chat/completions`, `/messages` or `/responses`
    dialect: DialectName = "chat"
    key: Secret | None = None
    auth: Literal["auto", "bearer", "x-api-key", "none"] = (
        "auto"  # auto: as the dialect's vendor does
    )
    profile: str = ""  # empty: by the host of `base_url`, else `generic`
    format: str = "auto"  # family of native tool calls, `auto` or `none`
    headers: dict[str, Secret | str] = {}  # sent with every request
    body: dict[
        str, object
    ] = {}  # fields put into every request; a client's own field is overwritten
    timeouts: Timeouts = Timeouts()
    tls: Tls = Tls()
    retries: int = 2  # before the first content only
    max_retry_after: float = 30.0  # a longer wait is the client's to decide
    cooldown: float = 30.0  # seconds to stay away after `failures` in a row
    failures: int = 3
    tool_calls: Literal["", "stream", "whole"] = ""  # empty: as the profile says
    strict: bool = False  # a malformed event fails the answer instead of being skipped
    models: tuple[str, ...] = ()  # what `/v1/models` lists of it; empty: asked from the upstream
    count_tokens: Literal["auto", "upstream", "tokenize", "estimate", "off"] = "auto"


class Match(Section, frozen=True):
    """All that is given must hold."""

    model: str = "*"  # glob over the name the client asks for (after `aliases`)
    thinking: bool | None = None
    tokens_above: int | None = None  # by the estimate
    images: bool | None = None
    header: dict[str, str] = {}  # name to glob
    dialect: DialectName | None = None  # of the client


class Route(Section, frozen=True):
    """First match wins.  Each target is `upstream/model`; the next is tried if one cannot answer."""

    to: tuple[str, ...]  # `upstream/*` keeps the name the client asked for
    match: Match = Match()
    name: str = ""  # for logs and `x-dragoman-route`; empty: `route-1`, …
    auth: Literal["own", "passthrough"] = (
        "own"  # passthrough: the client's credential goes upstream
    )
    params: dict[str, object] = {}  # overrides: see `gateway.overrides`
    headers: dict[str, Secret | str] = {}
    body: dict[str, object] = {}
    format: str = ""  # empty: as the upstream says
    profile: str = ""
    timeouts: TimeoutChanges = TimeoutChanges()
    strict: bool = False  # a loss of meaning in the request is refused
    repair_history: bool = False  # orphan tool results become text
    prefill: Literal["reject", "continue"] = "reject"
    stream_error_tail: Literal["none", "message_stop"] = "none"
    chat_reasoning: Literal["reasoning_content", "reasoning", "both", "details", "off"] = (
        "reasoning_content"
    )
    responses_reasoning: Literal["summary", "content"] = "summary"


class ModelFacts(Section, frozen=True):
    """What agents must know of a model; keyed by its name as clients see it, or a glob."""

    display: str = ""
    context: int = 0  # tokens; 0: unknown
    output: int = 0


class Store(Section, frozen=True):
    """Answers kept for `previous_response_id` and `GET /v1/responses/{id}`."""

    responses: Literal["memory", "sqlite", "off"] = "memory"
    path: str = ""  # of the SQLite file; empty: in the state folder
    max_bytes: int = 256 * 1024 * 1024
    max_age_days: float = 30.0
    reasoning_entries: int = 10_000  # reasoning kept for clients that do not send it back; 0: none
    reasoning_seconds: float = 3600.0


class Guards(Section, frozen=True):
    strip_billing: bool = True  # a nonce in the first system block that spoils prefix caches
    loops: Literal["off", "warn", "note", "stop"] = "off"  # what to do about repeated calls
    loop_repeats: int = 5  # identical calls with identical results in a row
    loop_cycle: int = 4  # longest cycle looked for


class Log(Section, frozen=True):
    format: Literal["auto", "json", "text"] = "auto"  # auto: text on a terminal
    level: Literal["debug", "info", "warning", "error"] = "info"


class Settings(Section, frozen=True):
    """The whole file."""

    server: Server = Server()
    upstreams: dict[str, Upstream] = {}
    routes: tuple[Route, ...] = ()
    aliases: dict[str, str] = {}  # a name or glob that clients use: the name that routes see
    # What Claude Code's tiers mean, after all routes: `haiku`, `sonnet`, `opus` to targets.
    tiers: dict[Literal["haiku", "sonnet", "opus"], tuple[str, ...]] = {}
    models: dict[str, ModelFacts] = {}
    store: Store = Store()
    guards: Guards = Guards()
    log: Log = Log()
