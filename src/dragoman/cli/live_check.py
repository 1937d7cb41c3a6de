"""Asks every upstream of the settings for its models and for one token: `config check --live` and `doctor`.

Each upstream gets two small requests, with the headers, TLS and timeouts that the gateway would use.
"""

import asyncio
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, Literal

import msgspec
from msgspec import Struct, structs

from dragoman.answer_reader import read_body
from dragoman.cli.tables import print_table, progress, table_console
from dragoman.dialects import dialect as find_dialect
from dragoman.dialects.failures import HTML
from dragoman.errors import DragomanError
from dragoman.gateway.config.settings import Route, Settings
from dragoman.gateway.keys import Keyring
from dragoman.gateway.models import ask_models
from dragoman.gateway.plan import Plan, extra_fields, upstream_headers
from dragoman.gateway.retry import fault_of_transport
from dragoman.gateway.routing import Hop
from dragoman.probe.response import printable
from dragoman.redaction import redact
from dragoman.translate_requests import translate_request
from dragoman.transport import Connector, TransportError
from dragoman.turn.events import Fault, FaultKind

SECONDS: Final = 30.0  # for the one token: a local server may have to load its model
_AT_ONCE: Final = 8  # upstreams
_MAX_BYTES: Final = 4 * 1024 * 1024
_TOKENS: Final = 16  # OpenAI's Responses accepts no fewer
_ROUTE: Final = Route(to=())
_LISTED: Final = 3  # missing models that are named
_REFUSED: Final = frozenset({FaultKind.AUTH, FaultKind.PERMISSION})
_NO_CONNECTION: Final = frozenset(
    {"connect_timeout", "upstream_address", "upstream_tls", "upstream_unreachable"}
)

TITLES: Final = (
    "upstream", "reachable", "key", "models", "routed models", "one token", "ms", "reason",
)  # fmt: skip


class LiveRow(Struct, frozen=True, kw_only=True):
    """What one upstream answered."""

    upstream: str
    url: str
    dialect: str
    reachable: bool
    key: Literal["accepted", "refused", "none", "unknown"]  # never its value
    models: int | None = None  # None: it does not list them
    routed: tuple[str, ...] = ()  # models that the routes name
    missing: tuple[str, ...] = ()  # those of them that it does not list
    model: str = ""  # that was asked for one token
    answer: Literal["ok", "failed", "not asked"] = "not asked"
    ms: int | None = None  # until the end of that answer
    reason: str = ""  # what is wrong
    advice: str = ""  # what to do about it
    clock_skew: float | None = None  # seconds by which the server's clock is ahead of ours

    @property
    def verdict(self) -> Literal["good", "bad", "failed"]:
        if not self.reachable or self.key == "refused" or self.answer != "ok":
            return "failed"
        return "bad" if self.missing else "good"


def exit_code(rows: Sequence[LiveRow]) -> int:
    """Return 3 if an upstream failed, 1 if one lacks a routed model, else 0."""
    verdicts = {row.verdict for row in rows}
    return 3 if "failed" in verdicts else int("bad" in verdicts)


def ask_upstreams(settings: Settings, *, seconds: float = SECONDS) -> list[LiveRow]:
    """Ask all upstreams, with a progress bar on a terminal.

    Raises:
        ConfigError: the settings cannot be used.
    """
    with progress(len(settings.upstreams)) as before:
        return asyncio.run(_ask_all(settings, seconds=seconds, before=before))


async def _ask_all(
    settings: Settings, *, seconds: float, before: Callable[[str], object]
) -> list[LiveRow]:
    """Ask several upstreams at once; `before` is called with the name of each when it is asked."""
    plan = Plan(settings, seal_key=b"", keyring=Keyring(()))
    connector = Connector()
    turns = asyncio.Semaphore(_AT_ONCE)

    async def ask(hop: Hop) -> LiveRow:
        async with turns:
            before(hop.upstream_name)
            return await _Upstream(plan, hop, connector, seconds).row()

    try:
        return list(await asyncio.gather(*map(ask, plan.router.upstreams())))
    finally:
        await connector.close()


class Unusable(Struct, frozen=True):
    """An upstream that no request can use."""

    message: str  # with its name, without secrets
    unreachable: bool  # no server was found; else it refuses the key, or is not an API


async def find_unusable(settings: Settings) -> list[Unusable]:
    """Ask every upstream for its models, all at once; return those that cannot be used."""
    plan = Plan(settings, seal_key=b"", keyring=Keyring(()))
    connector = Connector()
    try:
        hops = plan.router.upstreams()
        answers = await asyncio.gather(*(ask_models(connector, plan, hop) for hop in hops))
    finally:
        await connector.close()
    return [
        Unusable(printable(redact(one.message, plan.secrets)), _unreachable(one))
        for one in answers
        if isinstance(one, Fault)
        and (_unreachable(one) or one.kind in _REFUSED or one.code == HTML)
    ]


class _Upstream:
    """The questions to one upstream, and what they show."""

    def __init__(self, plan: Plan, hop: Hop, connector: Connector, seconds: float) -> None:
        self._plan = plan
        self._hop = hop
        self._connector = connector
        self._seconds = seconds
        self._ms: int | None = None
        self._skew: float | None = None

    async def row(self) -> LiveRow:
        hop = self._hop
        listed = await ask_models(self._connector, self._plan, hop, seconds=self._seconds)
        names = None if isinstance(listed, Fault) else listed
        routed = self._routed()
        target = self._target(routed, names)
        token: Fault | None = None
        if target is not None and not _unreachable(listed):
            token = await self._one_token(target)
        answered = target is not None and token is None and not _unreachable(listed)
        missing = tuple(
            one
            for one in ([] if names is None else routed)
            if not is_listed(one, names or []) and not (answered and target and one == target.model)
        )
        refused = any(isinstance(one, Fault) and one.kind in _REFUSED for one in (listed, token))
        row = LiveRow(
            upstream=hop.upstream_name,
            url=hop.upstream.base_url,
            dialect=hop.upstream.dialect,
            reachable=not _unreachable(listed) and not _unreachable(token),
            key=self._key(answered=answered, refused=refused),
            models=None if names is None else len(names),
            routed=tuple(routed),
            missing=missing,
            model="" if target is None else target.model,
            answer="ok" if answered else "failed" if token is not None else "not asked",
            ms=self._ms if answered else None,
            clock_skew=self._skew,
        )
        reason, advice = self._explain(row, listed, token)
        return structs.replace(row, reason=reason, advice=advice)

    def _routed(self) -> list[str]:
        """Return the models that routes and tiers name for this upstream, each once."""
        names = (
            one.model
            for one in self._plan.router.hops()
            if one.upstream_name == self._hop.upstream_name and "*" not in one.model
        )
        return list(dict.fromkeys(names))

    def _target(self, routed: Sequence[str], listed: Sequence[str] | None) -> Hop | None:
        """Return the hop of the model to ask: a routed one, else any that is known."""
        for one in self._plan.router.hops():
            if routed and (one.upstream_name, one.model) == (self._hop.upstream_name, routed[0]):
                return one
        known = next(iter((*self._hop.upstream.models, *(listed or ()))), "")
        return structs.replace(self._hop, model=known) if known else None

    async def _one_token(self, hop: Hop) -> Fault | None:
        """Ask a model for one token; return why there is none."""
        plan = self._plan
        question = {
            "model": hop.model,
            "messages": [{"role": "user", "content": "Say yes."}],
            "max_tokens": _TOKENS,
        }
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            request = translate_request(
                msgspec.json.encode(question),
                source="chat",
                target=hop.upstream.dialect,
                model=hop.model,
                profile=hop.profile,
            )
            spoken = find_dialect(hop.upstream.dialect)
            path, body = spoken.wire_request(extra_fields(hop, _ROUTE, request.body))
            async with asyncio.timeout(self._seconds):
                reply = await self._connector.open(
                    "POST",
                    plan.url(hop.upstream_name, path),
                    headers=upstream_headers(hop, _ROUTE, {}, same_dialect=False),
                    body=body,
                    connect_seconds=hop.timeouts.connect,
                    tls=plan.tls(hop.upstream_name),
                    proxy=plan.proxy(hop.upstream_name),
                )
                with reply:
                    answer = await reply.read_all(_MAX_BYTES, lambda: None)
                    status = reply.status
                    self._note_clock(reply.headers.get("date", ""))
        except TimeoutError:
            return Fault(FaultKind.TIMEOUT, f"no complete answer within {self._seconds:g} s")
        except TransportError as failed:
            return fault_of_transport(failed)
        except DragomanError as error:
            return Fault(FaultKind.GATEWAY, str(error))
        self._ms = round((clock() - began) * 1000)
        if 300 <= status < 400:
            return Fault(
                FaultKind.UPSTREAM_UNUSABLE,
                "it redirects; set `base_url` to where its API is",
                status,
            )
        if not 200 <= status < 300:
            return find_dialect(hop.upstream.dialect).decode_fault(status, answer or b"")
        return read_body(
            answer or b"", source=hop.upstream.dialect, native_format="none", profile=hop.profile
        ).fault

    def _note_clock(self, date: str) -> None:
        try:
            moment = parsedate_to_datetime(date)
            self._skew = (moment - datetime.now(UTC)).total_seconds()
        except (TypeError, ValueError, OverflowError):  # no date, or one without a zone
            self._skew = None

    def _key(
        self, *, answered: bool, refused: bool
    ) -> Literal["accepted", "refused", "none", "unknown"]:
        if refused:
            return "refused"
        if self._hop.upstream.key is None:
            return "none"
        return "accepted" if answered else "unknown"

    def _explain(
        self, row: LiveRow, listed: list[str] | Fault, token: Fault | None
    ) -> tuple[str, str]:
        """Return what is wrong and what to do, in words and without secrets."""
        reasons, advice = [], []
        failed = token if token is not None else listed
        if isinstance(failed, Fault) and row.answer != "ok":
            shown = failed.message.removeprefix(f"{self._hop.upstream_name}: ")
            status = f"{failed.status}: " if failed.status else ""
            reasons.append(status + printable(redact(shown, self._plan.secrets)))
            if failed.code == "upstream_unreachable":
                advice.append("start the server, or correct `base_url`")
        if row.reachable and row.answer == "not asked":
            reasons += [] if reasons else ["it lists no models"]
            advice.append("name a model in a route or in `models`")
        if row.key == "refused":
            key = self._hop.upstream.key
            advice.append(f"check the key in `{key.source}`" if key else "set `key`")
        if row.missing:
            names = ", ".join(f"`{printable(one)}`" for one in row.missing[:_LISTED])
            more = len(row.missing) - _LISTED
            reasons.append(f"it does not list {names}{f' and {more} more' if more > 0 else ''}")
            advice.append("correct the route; `dragoman models` lists its models")
        return "; ".join(reasons), "; ".join(advice)


def _unreachable(fault: object) -> bool:
    """Return whether a request found no server."""
    return isinstance(fault, Fault) and (
        fault.code in _NO_CONNECTION or fault.code.startswith("proxy_")
    )


def is_listed(model: str, names: Sequence[str]) -> bool:
    """Return whether a list has a model, also with a prefix (`models/x`) or a tag (`x:latest`)."""
    return any(
        one == model or one.endswith(f"/{model}") or one.startswith(f"{model}:") for one in names
    )


def print_rows(rows: Sequence[LiveRow]) -> None:
    """Print the table."""
    colours = {"good": "green", "bad": "yellow", "failed": "bold red"}
    cells = []
    for row in rows:
        found = (
            ""
            if not row.routed or row.models is None
            else f"{len(row.missing)} of {len(row.routed)} missing"
        )
        cells.append(
            (
                row.upstream,
                "yes" if row.reachable else ("no", colours["failed"]),
                ("refused", colours["failed"]) if row.key == "refused" else row.key,
                "not listed" if row.models is None else str(row.models),
                "all listed" if found.startswith("0 of") else found or "unknown",
                (row.answer, colours["good" if row.answer == "ok" else "failed"]),
                "" if row.ms is None else str(row.ms),
                "; ".join(filter(None, (row.reason, row.advice))),
            )
        )
    print_table(table_console(), TITLES, cells, fixed=TITLES[:-1])
