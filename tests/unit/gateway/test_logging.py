"""One line a request, for programs or for people; never content, never secrets."""

import io
import re
from typing import Any

import msgspec
import pytest
from msgspec import structs

from dragoman.gateway.config.settings import Log
from dragoman.gateway.logging import Logger, RequestRecord
from dragoman.toolcalls.findings import NativeProblem, NativeSummary
from tests.support.tables import in_one_test

RECORD = RequestRecord(
    time=1_800_000_000.25,
    id="req_1",
    path="/v1/messages",
    dialect="anthropic",
    key="team",
    route="route-2",
    upstream="openrouter",
    upstream_dialect="chat",
    model="claude-opus-4",
    upstream_model="moonshotai/kimi-k2",
    native_format="kimi",
    status=200,
    ended="tool_calls",
    stream=True,
    tokens_in=1200,
    tokens_out=345,
    tokens_cached=800,
    tokens_reasoning=20,
    cost=0.00002,
    waited_ms=80.0,
    first_event_ms=340.0,
    duration_ms=1250.0,
    calls=3,
    call_names=("Bash", "Read", "Bash"),
    searches=4,
    fetches=1,
    code_runs=2,
    mcp_calls=3,
    images=1,
    retries=1,
    continued=2,
    resting=("local",),
    full=("zai",),
    failures=("openrouter/moonshotai/kimi-k2: rate_limit 429",),
    warnings=("args_repaired",),
    losses=("args_repaired at $.a: a bracket was added", "native_closer_missing: Bash"),
    native_found=(
        NativeSummary("kimi", "reasoning", 1),
        NativeSummary(
            "kimi",
            "content",
            2,
            (NativeProblem("native_closer_missing", "no closing marker", "Bash", 2),),
        ),
    ),
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def written(record: RequestRecord = RECORD, **options: Any) -> str:
    out = io.StringIO()
    Logger(out, **options).request(record)
    return out.getvalue()


def test_p_11_a_line_for_programs_holds_every_fact() -> None:
    line = written(json=True)

    assert line.endswith("\n")
    assert 1 == line.count("\n")
    facts = msgspec.json.decode(line)
    assert ["time", "level", "event"] == list(facts)[:3]
    assert ("2027-01-15T08:00:00.250Z", "info", "request") == (
        facts.pop("time"),
        facts.pop("level"),
        facts.pop("event"),
    )
    assert [
        {"family": "kimi", "channel": "reasoning", "calls": 1},
        {
            "family": "kimi",
            "channel": "content",
            "calls": 2,
            "problems": [
                {
                    "code": "native_closer_missing",
                    "meaning": "no closing marker",
                    "detail": "Bash",
                    "count": 2,
                }
            ],
        },
    ] == facts.pop("native_found")
    expected = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in structs.asdict(RECORD).items()
        if name != "native_found"
        and name
        not in ("time", "error", "error_code", "reason", "tokens_estimated", "cost_computed")
    }
    assert expected == facts
    assert "kimi" == facts["native_format"]


def test_p_11_a_line_for_people_holds_the_same_without_colour() -> None:
    line = written()

    assert (
        "200  /v1/messages  claude-opus-4 → openrouter/moonshotai/kimi-k2  1.25s waited 0.08s first 0.34s"
        "  in 1200 (800 cached) out 345 (20 reasoning)  cost $0.00002  calls 3 Bash,Read"
        "  searches 4  fetches 1  code runs 2  mcp calls 3  images 1  continued 2  ended tool_calls"
        "  retries 1  resting local  full zai  failed openrouter/moonshotai/kimi-k2: rate_limit 429"
        "  found kimi in reasoning: 1 call; kimi in content: 2 calls,"
        " native_closer_missing 2 times (no closing marker: Bash)"
        "  warnings args_repaired at $.a: a bracket was added  route route-2  key team  req_1\n"
    ) == line[9:]
    assert re.match(r"\d\d:\d\d:\d\d ", line)


def test_line_without_native_calls_has_the_format_that_was_looked_for() -> None:
    assert "  format kimi  " in written(structs.replace(RECORD, native_found=()))


def test_a_line_with_little_to_say_is_short() -> None:
    line = written(RequestRecord(time=0.0, id="req_1", path="/v1/models", status=200))

    assert "200  /v1/models  0.00s  req_1\n" == line[9:]


def test_estimated_counts_are_marked() -> None:
    line = written(structs.replace(RECORD, tokens_estimated=True, tokens_cached=0))

    assert "in ~1200 out ~345" in line


def test_failures_are_named() -> None:
    failed = structs.replace(
        RECORD, status=502, ended="fault", error="upstream_bad", error_code="upstream_truncated"
    )

    assert "ended fault  error upstream_bad upstream_truncated" in written(failed)
    assert "upstream_bad" == msgspec.json.decode(written(failed, json=True))["error"]


@pytest.mark.parametrize(
    ("status", "error", "level"),
    [
        (200, "", "info"),
        (404, "not_found", "warning"),
        (429, "rate_limit", "warning"),
        (502, "upstream_bad", "error"),
        (200, "upstream_bad", "error"),
        (200, "timeout", "warning"),
        (500, "gateway", "error"),
    ],
)
def test_the_level_shows_how_much_it_matters(status: int, error: str, level: str) -> None:
    assert level == structs.replace(RECORD, status=status, error=error).level


def test_only_what_is_grave_enough_is_written() -> None:
    out = io.StringIO()
    logger = Logger(out, json=True, level="warning")

    logger.request(RECORD)
    logger.notice("started")
    logger.notice("reload failed", level="error", why="no such file")
    logger.request(structs.replace(RECORD, status=400))

    lines = [msgspec.json.decode(line) for line in out.getvalue().splitlines()]
    assert ["reload failed", "request"] == [line["event"] for line in lines]


def test_notices_have_facts_of_their_own() -> None:
    json, text = io.StringIO(), io.StringIO()
    for out in (json, text):
        Logger(out, json=out is json, clock=lambda: 0.0).notice(
            "started", address="http://127.0.0.1:8484", routes=3
        )

    assert {
        "time": "1970-01-01T00:00:00.000Z",
        "level": "info",
        "event": "started",
        "address": "http://127.0.0.1:8484",
        "routes": 3,
    } == msgspec.json.decode(json.getvalue())
    assert "started  address http://127.0.0.1:8484  routes 3\n" == text.getvalue()[9:]


@pytest.mark.parametrize(
    ("settings", "stream", "is_json", "is_coloured"),
    [
        (Log(), Terminal, False, True),
        (Log(), io.StringIO, True, False),
        (Log(format="text"), io.StringIO, False, False),
        (Log(format="json"), Terminal, True, False),
    ],
)
def test_colour_is_for_terminals_only(
    settings: Log, stream: Any, is_json: bool, is_coloured: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    out = stream()

    logger = Logger.of(settings, stream=out)
    logger.request(RECORD)
    logger.notice("draining")

    assert is_json == out.getvalue().startswith("{")
    assert is_coloured == ("\x1b[" in out.getvalue())


@pytest.mark.parametrize(("name", "value"), [("NO_COLOR", "1"), ("TERM", "dumb")])
def test_the_environment_may_refuse_colour(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv(name, value)
    out = Terminal()

    Logger.of(Log(), stream=out).request(RECORD)

    assert "\x1b" not in out.getvalue()


SECRETS = ("correct-horse", 'quo"ted\\secret', "sécret-ünïcode", "x" * 400, "tab\tsecret-1", "pw1")
TEXT_FIELDS = [
    name for name, value in structs.asdict(RECORD).items() if isinstance(value, str | tuple)
]


@in_one_test
@pytest.mark.parametrize("json", [True, False])
@pytest.mark.parametrize("field", TEXT_FIELDS)
@pytest.mark.parametrize("secret", SECRETS)
def test_no_field_lets_a_secret_out(field: str, secret: str, json: bool) -> None:
    text = f"before {secret} after sk-live-0123456789 Bearer abcdefgh1234"
    value = (text, text) if isinstance(getattr(RECORD, field), tuple) else text
    if field == "native_found":
        value = (NativeSummary(text, text, 1, (NativeProblem(text, text, text),)),)
    record = structs.replace(RECORD, **({"status": 500, "error": "server"} | {field: value}))

    line = written(record, json=json, secrets=SECRETS)

    # People are shown the path, which names the dialect, losses with their details, and the family
    # that was found.
    assert "[redacted]" in line or (
        field in ("dialect", "upstream_dialect", "warnings", "native_format") and not json
    )
    for hidden in (secret, secret[:50], "sk-live", "abcdefgh1234"):
        assert hidden not in line
        assert msgspec.json.encode(hidden).decode()[1:-1] not in line


@pytest.mark.parametrize("json", [True, False])
@pytest.mark.parametrize("secret", SECRETS)
def test_no_notice_lets_a_secret_out(secret: str, json: bool) -> None:
    out = io.StringIO()
    logger = Logger(out, json=json)
    logger.secrets = SECRETS

    logger.notice("reload failed", level="error", why=f"cannot use {secret} here", line=3)

    assert secret not in out.getvalue()
    assert msgspec.json.encode(secret).decode()[1:-1] not in out.getvalue()
    assert "cannot use [redacted] here" in out.getvalue()


@pytest.mark.parametrize("json", [True, False])
def test_secrets_of_a_reload_are_left_out_of_texts_that_were_shown_before(json: bool) -> None:
    stream = io.StringIO()
    logger = Logger(stream, json=json)
    logger.notice("started", upstream="plain-text-that-becomes-a-secret")
    logger.secrets = ("plain-text-that-becomes-a-secret",)
    logger.notice("started", upstream="plain-text-that-becomes-a-secret")

    before, after = stream.getvalue().splitlines()
    assert "plain-text-that-becomes-a-secret" in before
    assert "plain-text-that-becomes-a-secret" not in after


@pytest.mark.parametrize("json", [True, False])
def test_a_line_stays_one_line_of_bounded_length(json: bool) -> None:
    evil = "a\r\n200 forged \x1b[31m\u2028\x00\x9b" + "x" * 100_000
    record = structs.replace(RECORD, model=evil, call_names=(evil,) * 1000, key="\ud800")

    line = written(record, json=json)

    assert 1 == len(line.splitlines())
    assert "\x1b" not in line
    assert len(line) < 20_000


def test_a_stream_of_another_encoding_gets_the_line_in_ascii() -> None:
    raw = io.BytesIO()
    out = io.TextIOWrapper(raw, encoding="ascii")

    Logger(out).request(structs.replace(RECORD, model="模型"))

    assert rb"\u6a21\u578b" in raw.getvalue()


def test_a_stream_that_is_gone_does_no_harm() -> None:
    class Broken(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    closed = io.StringIO()
    closed.close()

    for out in (Broken(), closed):
        Logger(out).request(RECORD)
        Logger(out, json=True).notice("draining")
