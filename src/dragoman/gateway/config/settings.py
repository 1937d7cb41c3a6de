"""The content of `dragoman.toml`: every table and key, with its default and meaning.

These are plain facts after reading: globs are still text, secrets are already looked up, paths of files
are resolved.  The types describe each single value, and are the only list of keys:
the code that reads, checks, shows and documents the file walks them.
"""

from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias

from msgspec import Meta, Struct, defstruct, inspect, structs

from dragoman.context import ErrorTail
from dragoman.limits import MIB, Limits
from dragoman.profiles.profile import Profile
from dragoman.transport import ProxyRule

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 8484


# The meaning of a text; `config.checks` has a check for each.
TextKind: TypeAlias = Literal[
    "address", "built_in", "collector", "dialect", "expression", "file", "format", "glob", "header", "host", "meaning", "name", "origin",
    "own_format", "own_profile", "place", "profile", "target",
]  # fmt: skip

Seconds: TypeAlias = Annotated[float, Meta(ge=0)]
Count: TypeAlias = Annotated[int, Meta(ge=0)]
Wait: TypeAlias = Annotated[float, Meta(gt=0)]  # seconds
Dollars: TypeAlias = Annotated[float, Meta(ge=0, le=1_000_000)]
Address: TypeAlias = Annotated[str, Meta(extra={"kind": "address"})]  # of an API
Collector: TypeAlias = Annotated[str, Meta(extra={"kind": "collector"})]  # of traces
DialectText: TypeAlias = Annotated[str, Meta(extra={"kind": "dialect"})]  # a name in the registry
Expression: TypeAlias = Annotated[str, Meta(extra={"kind": "expression"})]  # a regular expression
File: TypeAlias = Annotated[str, Meta(extra={"kind": "file"})]  # that must exist
FormatName: TypeAlias = Annotated[str, Meta(extra={"kind": "format"})]
GlobText: TypeAlias = Annotated[str, Meta(extra={"kind": "glob"})]
HeaderName: TypeAlias = Annotated[str, Meta(extra={"kind": "header"})]
Host: TypeAlias = Annotated[
    str, Meta(extra={"kind": "host"})
]  # a host name or an IP address, not a URL
Meaning: TypeAlias = Annotated[str, Meta(extra={"kind": "meaning"})]  # of an alias
Name: TypeAlias = Annotated[str, Meta(extra={"kind": "name"})]  # of an upstream
Origin: TypeAlias = Annotated[str, Meta(extra={"kind": "origin"})]  # of a page
NewPath: TypeAlias = Annotated[str, Meta(extra={"kind": "place"})]  # of a file that may be made
ProfileName: TypeAlias = Annotated[str, Meta(extra={"kind": "profile"})]  # built in, or of the file
BuiltIn: TypeAlias = Annotated[str, Meta(extra={"kind": "built_in"})]  # a profile that is built in
OwnFormat: TypeAlias = Annotated[str, Meta(extra={"kind": "own_format"})]  # the name of a new one
OwnProfile: TypeAlias = Annotated[str, Meta(extra={"kind": "own_profile"})]  # the name of another
# What a vendor-run tool does, as `ServerKind` names it.
ServerToolName: TypeAlias = Literal[
    "web_search",
    "web_fetch",
    "code_execution",
    "file_search",
    "image_generation",
    "mcp",
    "tool_search",
    "maps",
    "other",
]
TargetText: TypeAlias = Annotated[str, Meta(extra={"kind": "target"})]  # `upstream/model`


class Section(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One table of the file."""


class Secret(Struct, frozen=True, gc=False):
    """A value that is never printed: looked up from `env:NAME` or `file:PATH`."""

    source: str  # as the file has it
    value: str = ""

    def __repr__(self) -> str:
        return f"Secret({self.source!r})"


class Timeouts(Section, frozen=True):
    """Seconds; 0 switches one off."""

    connect: Seconds = 10.0
    first_byte: Seconds = 300.0  # reasoning models are silent for long
    idle: Seconds = 120.0  # between bytes of a stream
    total: Seconds = 0.0  # a total limit kills good streams


class TimeoutChanges(Section, frozen=True):
    """A route's changes to the timeouts of its upstreams; what is absent stays as it is there."""

    connect: Seconds | None = None
    first_byte: Seconds | None = None
    idle: Seconds | None = None
    total: Seconds | None = None


class Tls(Section, frozen=True):
    """How an upstream's certificate is verified, and the gateway's own certificate for it."""

    verify: bool = True
    ca: File = ""  # file with the authorities to trust instead of the system's
    cert: File = ""  # our certificate, for mutual TLS
    key: File = ""  # its private key; empty: in the same file


class Key(Section, frozen=True):
    """One client's credential and what it may do.  0 means no limit."""

    key: Secret
    name: str = (
        ""  # for logs (empty: `key-1`, …), and the owner of stored answers (empty: a digest)
    )
    models: tuple[GlobText, ...] = ()  # globs over the model names a client asks for; empty: all
    # Globs over ids of a vendor's state (files, containers, …) that it may name beside those it was given.
    vendor_ids: tuple[GlobText, ...] = ()
    requests_per_minute: Count = 0
    tokens_per_minute: Count = 0
    concurrent: Count = 0  # requests under way at once
    max_queue: Count = 0  # requests beyond `concurrent` that wait; more get 429
    queue_timeout: Wait = 30.0  # seconds that one waits at most
    budget_day: Dollars = 0.0  # US dollars that it may spend on a day, which begins at 0:00 UTC
    budget_month: Dollars = 0.0  # likewise in a calendar month
    record: bool = False  # may ask for a recording of its exchange
    metrics: bool = False  # may read `/metrics`
    inspect: bool = False  # may look at the exchanges of all clients in the inspector


class Server(Section, frozen=True):
    host: Host = DEFAULT_HOST
    port: Annotated[int, Meta(ge=0, le=65535)] = DEFAULT_PORT  # 0: any free one
    workers: Annotated[int, Meta(ge=1, le=256)] = 1  # processes that share the port
    # None: loopback only, no key asked.  A text is a key without limits.
    keys: tuple[Key, ...] = ()
    # Names under which browsers and clients may reach us beside loopback and `host`.
    allowed_hosts: tuple[Host, ...] = ()
    allowed_origins: tuple[Origin, ...] = ()
    insecure: bool = False  # a public address without keys
    seal_key: Secret | None = None  # signs reasoning state; absent: random, dies with the process
    # `redis://HOST:PORT`, or `env:NAME` or `file:PATH` if it has a password: shares state with other gateways.
    state: Secret | None = None
    proxy: ProxyRule | None = None  # of every upstream without one
    drain_seconds: Seconds = 30.0  # how long streams may go on after SIGTERM
    # Seconds of silence before the client is sent a sign of life; 0: never.
    keep_alive: Seconds = 10.0
    # Seconds the status line waits for the upstream's first event, so that errors keep their status.
    hold_headers: Seconds = 10.0
    stream_error_tail: ErrorTail = "open"  # how interrupted Messages streams end
    # Seconds that a client may leave its response unread, or the head of its request unfinished (at most
    # 30); 0: a response may wait for ever.
    client_idle: Seconds = 120.0
    # What one process takes on at once; beyond it 503.  Fewer connections if descriptors allow no more.
    max_connections: Annotated[int, Meta(ge=1)] = 10_000
    max_requests: Annotated[int, Meta(ge=1)] = 5_000
    max_inflight_bytes: Annotated[int, Meta(ge=1)] = 1024 * MIB  # request bodies, unpacked
    limits: Limits = Limits()


class Upstream(Section, frozen=True):
    base_url: Address  # the URL before `/chat/completions`, `/messages`, `/responses` or `/models`
    dialect: DialectText = "chat"
    key: Secret | None = None
    # auto: the style of the dialect's vendor
    auth: Literal["auto", "bearer", "x-api-key", "x-goog-api-key", "none"] = "auto"
    profile: ProfileName = ""  # empty: by the host of `base_url`, else `generic`
    format: FormatName = (
        "auto"  # family of native tool calls, a name of `formats`, `auto` or `none`
    )
    headers: dict[HeaderName, Secret | str] = {}  # sent with every request
    # Fields put into every request; a client's own field is overwritten.
    body: dict[str, object] = {}
    timeouts: Timeouts = Timeouts()
    tls: Tls = Tls()
    # `http://HOST:PORT`, `env:NAME`, `file:PATH`, `env` (HTTPS_PROXY, …) or `none`.
    proxy: ProxyRule | None = None
    retries: Annotated[int, Meta(ge=0, le=20)] = 2  # before the first content only
    max_retry_after: Seconds = 30.0  # a longer wait is the client's to decide
    cooldown: Seconds = 30.0  # seconds to stay away after `failures` in a row
    failures: Annotated[int, Meta(ge=1)] = 3
    max_concurrent: Count = 0  # requests at once; 0: no limit
    max_queue: Count = 100  # requests beyond it that wait; more get 503
    queue_timeout: Wait = 30.0  # seconds that one waits at most
    tool_calls: Literal["", "stream", "whole"] = ""  # empty: the profile's
    strict: bool = False  # a malformed event fails the answer instead of being skipped
    models: tuple[str, ...] = ()  # what `/v1/models` lists of it; empty: asked from the upstream
    count_tokens: Literal["auto", "upstream", "tokenize", "estimate", "off"] = "auto"


class Match(Section, frozen=True):
    """The conditions of a route; a request has to meet each one that is set."""

    model: GlobText = "*"  # glob over the name the client asks for (after `aliases`)
    thinking: bool | None = None
    tokens_above: Count | None = None  # by the estimate
    images: bool | None = None
    server_tool: ServerToolName | None = None  # vendor-run, and the request needs it
    offers_server_tool: ServerToolName | None = None  # vendor-run, and declared beside other tools
    header: dict[HeaderName, GlobText] = {}  # name to glob
    dialect: DialectText | None = None  # of the client


class RouteServerTools(Section, frozen=True):
    """What may be done with vendor-run tools of clients whose vendor is not the upstream's."""

    # Credentials that a client has for its MCP servers may go to the upstream's vendor.
    mcp: bool = False
    # A search of the vendor's cache alone, where there is none: it is dropped, or becomes a live search.
    cached_search: Literal["drop", "live"] = "drop"


class Route(Section, frozen=True):
    """First match wins.  Each target is `upstream/model`; the next is tried if one cannot answer."""

    # A `*` in it is the name that the client asked for.  A text is a list of one.
    to: Annotated[tuple[TargetText, ...], Meta(min_length=1)]
    # Which target is asked first; see `gateway.target_order`.
    choose: Literal["in_order", "weighted", "least_busy", "sticky"] = "in_order"
    weights: tuple[Count, ...] = ()  # one for each target; empty: all the same
    priority: int = 0  # of its requests in queues; higher is first
    match: Match = Match()
    name: str = ""  # for logs and `x-dragoman-route`; empty: `route-1`, …
    auth: Literal["own", "passthrough"] = (
        "own"  # passthrough: the client's credential goes upstream
    )
    params: dict[str, object] = {}  # overrides: see `gateway.overrides`
    headers: dict[HeaderName, Secret | str] = {}
    body: dict[str, object] = {}
    format: FormatName = ""  # empty: the upstream's
    profile: ProfileName = ""
    timeouts: TimeoutChanges = TimeoutChanges()
    strict: bool = False  # a loss of meaning in the request is refused
    repair_history: bool = False  # orphan tool results become text
    prefill: Literal["reject", "continue"] = "reject"
    server_tools: RouteServerTools = RouteServerTools()
    stream_error_tail: Literal["", "open", "close", "message_stop"] = ""  # empty: as the server's
    chat_reasoning: Literal["reasoning_content", "reasoning", "both", "details", "off"] = (
        "reasoning_content"
    )
    responses_reasoning: Literal["summary", "content"] = "summary"


class ModelFacts(Section, frozen=True):
    """What agents must know about a model; keyed by the name that clients use, or a glob."""

    display: str = ""
    context: Count = 0  # tokens; 0: unknown
    output: Count = 0


class Price(Section, frozen=True):
    """What a model costs, in US dollars for a million tokens, where the upstream does not report it.

    The first entry that matches is used.
    """

    model: GlobText  # glob over `upstream/model`, the model as the upstream calls it
    input: Dollars
    output: Dollars  # reasoning included
    cached_input: Dollars | None = None  # read from a prompt cache; absent: as `input`
    cache_write: Dollars | None = None  # written to a prompt cache; absent: as `input`
    cache_write_1h: Dollars | None = None  # to one that lasts an hour; absent: as `cache_write`
    searches: Dollars = 0.0  # for a thousand web searches that the vendor runs


def _changes() -> type[Struct]:
    """Return a table with every fact of a profile, each of which may be absent."""
    fields: list[tuple[str, object, object]] = [("base", BuiltIn, "")]
    kinds = {one.name: one for one in inspect.type_info(Profile).fields}  # type: ignore[attr-defined]  # of a Struct
    for fact in structs.fields(Profile):
        match kinds[fact.name].type:
            case inspect.IntType():
                kind: object = Count
            case inspect.FloatType():
                kind = Annotated[float, Meta(ge=0)]
            case _:
                kind = fact.type
        if fact.name == "extra_fields":
            kind = dict[str, object]  # written as a table
        if fact.name not in ("name", "vendor", "mcp_credentials", "cached_search"):
            fields.append((fact.name, kind | None, None))  # type: ignore[operator]  # types have it
    return defstruct("ProfileChanges", fields, bases=(Section,), frozen=True, kw_only=True)


if TYPE_CHECKING:

    class ProfileChanges(Section, frozen=True):
        """A user's profile: a built-in one, and the changes to it; every fact of `Profile` is a key."""

        base: str = ""  # empty: `generic`

else:
    ProfileChanges = _changes()


class FormatTable(Section, frozen=True):
    """A format of tool calls in text, for models that no built-in family fits: see docs/native-formats.md."""

    shape: Literal["json", "tags"]  # JSON between two markers, or a tag with parameters
    open: str  # the marker before a call; `{name}` is the tool's name
    close: str = ""  # the marker after it
    models: tuple[
        GlobText, ...
    ] = ()  # globs over the upstream's model names; for `format = "auto"`
    description: str = ""
    think: tuple[str, ...] = ("<think>", "</think>")  # the tags around reasoning; `[]`: none
    # Of the shape `json`.
    name_key: str = "name"
    arguments_key: str = "arguments"
    id_key: str = ""  # empty: calls have no ids
    # Of the shape `tags`.
    parameter: str = ""  # the tag before a value; `{key}` is the parameter's name
    parameter_close: str = ""
    section: tuple[str, ...] = ()  # the two markers around all calls
    trim: Literal["none", "line", "blank"] = "line"  # what is removed around a value


class Store(Section, frozen=True):
    """Answers kept for `previous_response_id` and `GET /v1/responses/{id}`."""

    responses: Literal["memory", "sqlite", "off"] = "memory"
    path: NewPath = ""  # of the SQLite file; empty: in the state folder
    max_bytes: Count = 256 * 1024 * 1024
    max_age_days: Annotated[float, Meta(ge=0)] = 30.0
    # Reasoning kept for clients that do not send it back; 0: none.
    reasoning_entries: Count = 10_000
    reasoning_seconds: Seconds = 3600.0


class Record(Section, frozen=True):
    """Recordings of exchanges: one file each, without secrets.  See docs/recordings.md."""

    dir: NewPath = ""  # the folder; empty: nothing is recorded
    # problems: failures, retries, and losses that `problems` names; asked: requests with `x-dragoman-record`
    when: Literal["always", "problems", "asked"] = "always"
    # Globs over codes of losses that make an exchange a problem.
    problems: tuple[GlobText, ...] = (
        "args_*", "call_*", "native_call_invalid", "native_closer_missing", "held_content_lost",
        "chunk_malformed", "late_delta_dropped", "content_after_finish", "finish_reason_fixed",
        "opaque_invalid",
    )  # fmt: skip
    # shape: the content is masked, and everything that decides how an answer is parsed stays
    content: Literal["full", "shape"] = "full"
    secrets: tuple[Expression, ...] = ()  # regular expressions of secrets beside credentials
    max_file_bytes: Annotated[int, Meta(ge=1)] = 64 * MIB  # of one recording
    max_bytes: Annotated[int, Meta(ge=1)] = 4096 * MIB  # of all together; the oldest are deleted
    max_files: Annotated[int, Meta(ge=1)] = 20_000
    max_age_days: Annotated[float, Meta(gt=0)] = 7.0


class Guards(Section, frozen=True):
    strip_billing: bool = True  # a nonce in the first system block that spoils prefix caches
    loops: Literal["off", "warn", "note", "stop"] = "off"  # what to do about repeated calls
    loop_repeats: Annotated[int, Meta(ge=2)] = 5  # identical calls with identical results in a row
    loop_cycle: Annotated[int, Meta(ge=1, le=64)] = 4  # longest cycle looked for


class Continuations(Section, frozen=True):
    """How far the gateway continues an answer that its upstream pauses: see docs/web-search.md."""

    # Requests beyond the first; 0: none is sent, and Moonshot's search is not offered to clients of other vendors.
    max_requests: Annotated[int, Meta(ge=0, le=100)] = 8
    max_seconds: Seconds = 600.0  # after these no other is sent; 0: no limit
    max_tokens: Count = 1_000_000  # input and output of all together, likewise; 0: no limit


class Log(Section, frozen=True):
    format: Literal["auto", "json", "text"] = "auto"  # auto: text on a terminal
    level: Literal["debug", "info", "warning", "error"] = "info"


class TraceSettings(Section, frozen=True):
    """Traces for OpenTelemetry: see docs/operations.md."""

    # `http://HOST:4318`, where OTLP is taken over HTTP, or `env`: OTEL_EXPORTER_OTLP_ENDPOINT; empty: no traces.
    endpoint: Collector = ""
    headers: dict[HeaderName, Secret | str] = {}  # sent to the collector
    # Share of the traces that begin here; a client's trace is kept if the client keeps it.
    sample: Annotated[float, Meta(ge=0, le=1)] = 1.0


class Settings(Section, frozen=True):
    """The whole file."""

    server: Server = Server()
    upstreams: dict[Name, Upstream] = {}
    routes: tuple[Route, ...] = ()
    # A name or glob that clients use: the name that routes see.  It is followed once.
    aliases: dict[GlobText, Meaning] = {}
    # What Claude Code's tiers mean, after all routes: `haiku`, `sonnet`, `opus` to targets.
    tiers: dict[Literal["haiku", "sonnet", "opus"], tuple[TargetText, ...]] = {}
    models: dict[GlobText, ModelFacts] = {}
    prices: tuple[Price, ...] = ()
    profiles: dict[OwnProfile, ProfileChanges] = {}
    formats: dict[OwnFormat, FormatTable] = {}
    store: Store = Store()
    guards: Guards = Guards()
    continuations: Continuations = Continuations()
    record: Record = Record()
    traces: TraceSettings = TraceSettings()
    log: Log = Log()
