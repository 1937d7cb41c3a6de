"""A run: chooses checks, estimates their cost, runs them and builds the report."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal

import msgspec
from msgspec import Struct, structs

from dragoman.errors import ConfigError
from dragoman.probe.checks import CHECKS
from dragoman.probe.finding import Check, Fact, Finding, Judgement, unknown
from dragoman.probe.probe import Peer, Probe
from dragoman.probe.questions import TEXT_BODY, Habits
from dragoman.probe.request_bodies import write_question
from dragoman.probe.response import UnansweredError
from dragoman.profiles.profile import Profile
from dragoman.transport import Connector
from dragoman.turn.request import DialectName

REACH: Final = "reach"  # always runs first: the other checks depend on it
_FORCED: Final = ("tools-required", "tools-named")  # checks of forced calls
_REFUSED_KEY: Final = (401, 403)


class Cost(Struct, frozen=True):
    """An upper bound for the cost of a run."""

    requests: int
    output_tokens: int


class Row(Struct, frozen=True, kw_only=True):
    """One check and its finding."""

    name: str
    asks: str
    verdict: Judgement
    found: str
    implies: dict[str, Fact] = {}
    format: str = ""


class Report(Struct, frozen=True, kw_only=True):
    """The findings of a run."""

    url: str
    dialect: DialectName
    model: str
    outcome: Literal["good", "bad", "unreachable"]  # `bad`: something essential fails
    requests: int
    output_tokens: int  # as far as the upstream reported them
    checks: tuple[Row, ...]
    profile: dict[str, Fact]  # fields that differ from the known profile
    format: str = ""  # the family of tool calls written as text


def chosen(names: Sequence[str], dialect: DialectName) -> tuple[Check, ...]:
    """Return the checks of the dialect with these names, plus `reach`; without names, all of them.

    Raises:
        ConfigError: a name is unknown.
    """
    for name in names:
        if name not in CHECKS:
            raise ConfigError(f"no check `{name}`; there are {', '.join(CHECKS)}")
    return tuple(
        one
        for one in CHECKS.values()
        if dialect in one.dialects and (not names or one.name in names or one.name == REACH)
    )


def cost(checks: Iterable[Check], dialect: DialectName) -> Cost:
    """Return an upper bound for the cost of these checks; shared questions count once."""
    asked: dict[bytes, int] = {}
    listed = 0
    for check in checks:
        listed += check.name == "models"
        for question in check.questions:
            fields = write_question(question, dialect, "", Habits())
            asked[msgspec.json.encode(fields)] = question.limit
    return Cost(len(asked) + listed, sum(asked.values()))


async def run(
    peer: Peer,
    checks: Sequence[Check],
    connector: Connector,
    *,
    before: Callable[[Check], object] = lambda _check: None,
) -> Report:
    """Run the checks against the upstream; `before` is called with each check before it starts.

    Raises:
        ConfigError: no model is named, and the upstream lists none.
    """
    probe = Probe(peer, connector)
    rows: list[Row] = []
    if not peer.model:
        listing = await probe.list_models()
        if not listing.names and not listing.trouble:
            raise ConfigError("the upstream lists no models; choose one with --model")
        if listing.trouble and (gone := await _gone(probe, checks)) is not None:
            return gone
        if listing.trouble:
            raise ConfigError(
                f"the upstream does not list its models; choose one with --model ( {listing.trouble})"
            )
        probe.use_model(listing.names[0])
    reached = True
    for check in checks:
        before(check)
        finding = await _found(check, probe) if reached else unknown("not asked")
        rows.append(_row(check, finding))
        if check.name == REACH:
            reached = finding.verdict != "fails"
    return await _report(probe, rows)


async def _gone(probe: Probe, checks: Sequence[Check]) -> Report | None:
    """Return a report if the upstream cannot be reached or refuses the key, else None."""
    finding = await _found(CHECKS[REACH], probe)
    response = await probe.ask(TEXT_BODY)
    if response.failure is None and response.status not in _REFUSED_KEY:
        return None
    rows = [_row(one, finding if one.name == REACH else unknown("not asked")) for one in checks]
    return await _report(probe, rows)


async def _found(check: Check, probe: Probe) -> Finding:
    try:
        return await check.run(probe)
    except UnansweredError as error:
        return unknown(str(error))


def _row(check: Check, finding: Finding) -> Row:
    return Row(
        name=check.name,
        asks=check.asks,
        verdict=finding.verdict,
        found=finding.found,
        implies=finding.implies,
        format=finding.format,
    )


async def _report(probe: Probe, rows: Sequence[Row]) -> Report:
    return Report(
        url=probe.peer.url,
        dialect=probe.dialect,
        model=probe.peer.model,
        outcome=await _outcome(probe, rows),
        requests=probe.requests,
        output_tokens=probe.output_tokens,
        checks=tuple(rows),
        profile=differing(rows, probe.peer.profile),
        format=next((row.format for row in rows if row.format), ""),
    )


async def _outcome(probe: Probe, rows: Sequence[Row]) -> Literal["good", "bad", "unreachable"]:
    verdicts = {row.name: row.verdict for row in rows}
    if verdicts.get(REACH) == "fails":
        first = await probe.ask(TEXT_BODY)  # the stored response of `reach`
        key = first.status in _REFUSED_KEY
        broken = first.failure is not None or first.status >= 500
        return "unreachable" if broken or key or first.passing else "bad"
    failing = verdicts.get("tools-auto") == "fails"
    forced = any(verdicts.get(name) == "ok" for name in _FORCED)
    if failing and not forced:
        return "bad"
    return "good"


def differing(rows: Iterable[Row], known: Profile) -> dict[str, Fact]:
    """Return the fields of a profile that should change; of two checks the later one wins."""
    facts = {name: value for row in rows for name, value in row.implies.items()}
    have = structs.asdict(known)
    return {name: value for name, value in facts.items() if have[name] != value}
