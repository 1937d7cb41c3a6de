"""The summary of one exchange: a row of the list, made of its line in the log."""

import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct, structs

from dragoman.dialects import dialect, dialect_names
from dragoman.recorder.lines import Opening
from dragoman.turn.events import TRUNCATED, FinishReason

Level: TypeAlias = Literal["ok", "warn", "failed", "streaming"]
ChipLevel: TypeAlias = Literal["call", "warn", "error", "plain"]
Gap: TypeAlias = tuple[float, float]  # milliseconds since the request arrived

_MAX_CHARS: Final = 200  # of a name that a peer chose
_CLIENTS: Final = (
    (re.compile(r"claude-(?:cli|code)", re.IGNORECASE), "Claude Code"),
    (re.compile(r"codex", re.IGNORECASE), "Codex"),
    (re.compile(r"opencode", re.IGNORECASE), "opencode"),
    (re.compile(r"gemini-?cli", re.IGNORECASE), "Gemini CLI"),
    (re.compile(r"google-genai-sdk", re.IGNORECASE), "Google SDK"),
    (re.compile(r"(?:openai|async ?openai)/(?:python|js)", re.IGNORECASE), "OpenAI SDK"),
    (re.compile(r"(?:async ?)?anthropic/(?:python|js)", re.IGNORECASE), "Anthropic SDK"),
    (re.compile(r"langchain|langgraph", re.IGNORECASE), "LangChain"),
)
_PRODUCT: Final = re.compile(r"[A-Za-z][\w.-]{0,39}")
# Finish reasons under which an answer is not whole.
_CUT: Final = frozenset({FinishReason.LENGTH, FinishReason.CONTEXT_FULL})
_REPAIRS: Final = frozenset(
    {"args_repaired", "args_as_object", "args_as_text", "args_trailing", "args_repeated"}
)
_CUT_CALLS: Final = frozenset({"call_cut", "args_missing"})
_REPEATED: Final = "tool_loop"
_REASONS: Final = frozenset(FinishReason)
CLIENT_LEFT: Final = "client_left"


class NativeCalls(Struct, frozen=True):
    """Calls of one family in one channel, as the log counts them."""

    family: str = ""
    channel: str = ""
    calls: int = 0


class LogRecord(Struct, frozen=True, kw_only=True):
    """The fields of an exchange's line in the log that a summary needs; each may be absent."""

    time: float = 0.0
    id: str = ""
    path: str = ""
    dialect: str = ""
    key: str = ""
    route: str = ""
    upstream: str = ""
    upstream_dialect: str = ""
    model: str = ""
    upstream_model: str = ""
    native_format: str = ""
    status: int = 0
    ended: str = ""
    error: str = ""
    error_code: str = ""
    reason: str = ""
    stream: bool = False
    tokens_in: int = 0
    tokens_out: int = 0
    tokens_cached: int = 0
    tokens_estimated: bool = False
    cost: float | None = None
    first_event_ms: float | None = None
    duration_ms: float = 0.0
    calls: int = 0
    call_names: tuple[str, ...] = ()
    retries: int = 0
    failures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    losses: tuple[str, ...] = ()
    native_found: tuple[NativeCalls, ...] = ()


class Problem(Struct, frozen=True):
    """Why an exchange is worth a look: a chip of its row."""

    kind: str
    label: str
    level: ChipLevel


class Row(Struct, frozen=True, kw_only=True):
    """One exchange in the list."""

    id: str
    time: float
    state: Literal["streaming", "done"] = "done"
    status: int = 0
    ended: str = ""  # the finish reason, in the client's dialect
    level: Level = "ok"
    client: str = ""
    dialect: str = ""
    upstream_dialect: str = ""
    model: str = ""  # as the upstream calls it
    asked: str = ""  # as the client calls it
    route: str = ""
    upstream: str = ""
    attempts: int = 0
    tokens_in: int | None = None
    tokens_cached: int = 0
    tokens_out: int = 0
    estimated: bool = False
    first_ms: float | None = None
    duration_ms: float = 0.0
    stalls: tuple[Gap, ...] = ()
    calls: int = 0
    problems: tuple[Problem, ...] = ()
    cost: float | None = None
    family: str = ""
    recorded: bool = True
    conversation: str = ""
    key: str = ""


class Summary(Struct, frozen=True, kw_only=True):
    """A row, and facts about its exchange that the row does not show."""

    row: Row
    owner: str = ""  # whose key asked; empty: unknown
    file: str = ""  # name of the recording; empty: kept in memory only
    codes: tuple[str, ...] = ()  # of losses
    words: str = ""  # that a search finds, in lower case
    unreadable: str = ""  # why the recording cannot be read


def client_name(user_agent: str) -> str:
    """Return the name of a client by its `user-agent`."""
    for pattern, name in _CLIENTS:
        if pattern.search(user_agent[:_MAX_CHARS]):
            return name
    found = _PRODUCT.match(user_agent)
    return found[0] if found else ""


def summarize(  # noqa: PLR0913 -- what the log does not hold
    record: LogRecord,
    *,
    client: str,
    owner: str = "",
    file: str = "",
    stalls: Sequence[Gap] = (),
    running: bool = False,
) -> Summary:
    """Return the summary of an exchange by its line in the log."""
    problems = () if running else tuple(_problems(record, stalls))
    row = Row(
        id=record.id,
        time=record.time,
        state="streaming" if running else "done",
        status=record.status,
        ended=_ended(record),
        level="streaming" if running else _level(record, problems),
        client=client,
        dialect=record.dialect,
        upstream_dialect=record.upstream_dialect,
        model=_name(record.upstream_model or record.model),
        asked=_name(record.model),
        route=record.route,
        upstream=record.upstream,
        attempts=len(record.failures) + (1 if record.upstream and not record.error else 0),
        tokens_in=record.tokens_in if record.upstream else None,
        tokens_cached=record.tokens_cached,
        tokens_out=record.tokens_out,
        estimated=record.tokens_estimated,
        first_ms=record.first_event_ms,
        duration_ms=record.duration_ms,
        stalls=tuple(stalls),
        calls=record.calls,
        problems=problems,
        cost=record.cost,
        family=_family(record),
        recorded=bool(file),
        key=record.key,
    )
    words = (
        record.id, record.path, record.model, record.upstream_model, record.upstream, record.route,
        record.error, record.error_code, record.reason, client, *record.call_names, *record.losses,
        *record.failures,
    )  # fmt: skip
    return Summary(
        row=row,
        owner=owner,
        file=file,
        codes=tuple(record.warnings),
        words="\n".join(words).lower(),
    )


def unfinished(opening: Opening, *, file: str, running: bool) -> Summary:
    """Return the summary of an exchange whose recording has no end."""
    row = Row(
        id=opening.id,
        time=opening.time,
        state="streaming" if running else "done",
        level="streaming" if running else "warn",
        client=client_name(_header(opening, "user-agent")),
        dialect=opening.dialect,
        problems=() if running else (Problem("incomplete", "recording incomplete", "warn"),),
    )
    words = f"{opening.id}\n{opening.path}\n{row.client}".lower()
    return Summary(row=row, owner=opening.owner, file=file, words=words)


def of_recording(
    opening: Opening, outcome: msgspec.Raw, stalls: Sequence[Gap], file: str
) -> Summary:
    """Return the summary of a finished recording, by its first and its last line."""
    try:
        record = msgspec.json.decode(outcome, type=LogRecord)
    except msgspec.DecodeError:  # written by a program that is not ours
        record = LogRecord()
    record = structs.replace(record, id=opening.id, time=opening.time, dialect=opening.dialect)
    client = client_name(_header(opening, "user-agent"))
    return summarize(record, client=client, owner=opening.owner, file=file, stalls=stalls)


def _header(opening: Opening, wanted: str) -> str:
    return next((value for name, value in opening.headers.items() if name.lower() == wanted), "")


def _name(text: str) -> str:
    return text if len(text) <= _MAX_CHARS else text[: _MAX_CHARS - 1] + "…"


def _ended(record: LogRecord) -> str:
    """Return the finish reason in the client's words; of a failure, its kind."""
    if record.ended in _REASONS and record.dialect in dialect_names():
        return dialect(record.dialect).finish_word(FinishReason(record.ended))
    return _words(record.error) or ("client left" if record.ended == CLIENT_LEFT else record.ended)


def _words(code: str) -> str:
    """Return the code of a failure as words."""
    return code.replace("_", " ")[:40]


def _family(record: LogRecord) -> str:
    """Return the family whose calls were found, else the one that was looked for."""
    found = next((one.family for one in record.native_found if one.calls), "")
    return found or record.native_format


def _level(record: LogRecord, problems: Sequence[Problem]) -> Level:
    if record.status >= 400 or record.error:
        return "failed"
    return "warn" if any(one.level in ("warn", "error") for one in problems) else "ok"


def _problems(record: LogRecord, stalls: Sequence[Gap]) -> Iterator[Problem]:
    """Yield the problems of an exchange, the most serious first."""
    failed = record.status >= 400 or bool(record.error)
    tried = list(dict.fromkeys(one.partition(" ")[0] for one in record.failures))
    if record.error_code == TRUNCATED:
        yield Problem("cut_off", "cut off", "error")
    elif failed:
        yield Problem("failed", _words(record.error_code or record.error or "failed"), "error")
    if failed and len(tried) > 1:
        yield Problem("no_fallback", "no fallback", "error")
    if record.ended in _CUT or _CUT_CALLS & {*record.warnings}:
        yield Problem("truncated", "truncated", "warn")
    for start, end in stalls[:1]:
        yield Problem("stall", f"stall {(end - start) / 1000:.1f} s", "warn")
    if _REPEATED in record.warnings:
        yield Problem("repeated", "repeated call", "warn")
    lost = [one for one in record.warnings if one not in _REPAIRS | _CUT_CALLS | {_REPEATED}]
    repaired = sum(one.calls for one in record.native_found)
    repaired += sum(one.partition(" ")[0].rstrip(":") in _REPAIRS for one in record.losses)
    if record.failures and not failed:
        elsewhere = record.upstream not in {one.partition("/")[0] for one in tried}
        label = "fallback" if elsewhere else f"retried {len(record.failures)}"
        yield Problem("fallback", label, "plain")
    if repaired:
        yield Problem("repaired", f"repaired {repaired}", "call")
    if lost:
        yield Problem("loss", f"loss {len(lost)}", "plain")
    if record.ended == CLIENT_LEFT:
        yield Problem("left", "client left", "plain")
