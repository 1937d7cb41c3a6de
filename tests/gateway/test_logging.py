"""One line a request: what happened, to whom, for how much; never what was said, never a secret."""

import json
import re
from typing import Any

import httpx2
import pytest
from msgspec import structs

from dragoman.gateway.config.settings import Key, Match, Route, Secret, Server, Settings
from dragoman.turn.losses import CODES
from tests.support import waiting
from tests.support.asking import get, post
from tests.support.gateway import DIALECTS, FIXED_PATHS, Stand, settings_for, stand
from tests.support.simulator import WEATHER, question, wire

MARK = "xylophone-4711"
CLIENT_KEY, UPSTREAM_KEY = f"client-{MARK}", f"upstream-{MARK}"
HEADERS = {"x-api-key": CLIENT_KEY, "x-note": MARK, "user-agent": MARK}
clients = pytest.mark.parametrize("dialect", DIALECTS)
upstreams = pytest.mark.parametrize("upstream", DIALECTS)
ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])


def make(url: str) -> Settings:
    plain = settings_for(url)
    upstreams = {
        name: structs.replace(one, key=Secret("env:U", UPSTREAM_KEY), headers={"x-extra": MARK})
        for name, one in plain.upstreams.items()
    }
    keys = (Key(key=Secret("env:K", CLIENT_KEY), name="ann"),)
    twice = Route(
        name="twice", match=Match(model="twice"), to=("chat/plain+error:500", "anthropic/kimi-k2")
    )
    return structs.replace(
        plain,
        server=Server(port=0, keys=keys),
        upstreams=upstreams,
        routes=(twice, *plain.routes),
    )


@pytest.fixture(scope="module")
def logged() -> Stand:
    with stand(make) as found:
        yield found


def line_of(found: Stand, answer: httpx2.Response) -> dict[str, Any]:
    """Wait for the line of a request."""
    return waiting.logged(found, answer.headers["request-id"])


@clients
@upstreams
@ways
def test_p_11_line_of_a_request_has_all_its_facts(
    logged: Stand, dialect: str, upstream: str, stream: bool
) -> None:
    model = f"{upstream}/kimi-k2+parallel:2+think"
    body = question(dialect, model, tools=[WEATHER], stream=stream)
    line = line_of(logged, post(logged, dialect, body, headers=HEADERS))
    spent = line.pop("duration_ms")
    first = line.pop("first_event_ms")
    line.pop("id")
    # What was asked in another dialect may leave something behind: that is for other tests.
    line.pop("warnings", None)
    line.pop("losses", None)

    assert 0 < first <= spent < 60_000
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line.pop("time"))
    assert line.pop("tokens_in") > 50
    assert line.pop("tokens_out") > 20
    # Messages does not part them from the rest.
    assert (line.pop("tokens_reasoning") > 5) == (upstream != "anthropic")
    assert {
        "level": "info",
        "event": "request",
        "path": wire(dialect, body)[0].partition("?")[0],
        "dialect": dialect,
        "key": "ann",
        "route": upstream,
        "upstream": upstream,
        "upstream_dialect": upstream,
        "model": model,
        "upstream_model": "kimi-k2+parallel:2+think",
        "native_format": "kimi_k2",
        "native_found": [{"family": "kimi_k2", "channel": "content", "calls": 2}],
        "status": 200,
        "ended": "tool_calls",
        **({"stream": True} if stream else {}),
        "tokens_cached": 0,
        "calls": 2,
        "call_names": ["get_weather", "get_weather"],
        "retries": 0,
    } == line


@pytest.mark.parametrize("dialect", FIXED_PATHS)  # Gemini: such an answer fails
@upstreams
@ways
def test_line_shows_calls_in_reasoning_and_problems_with_them(
    logged: Stand, dialect: str, upstream: str, stream: bool
) -> None:
    model = f"{upstream}/qwen3-coder+leak-reasoning+cut-args"
    body = question(dialect, model, tools=[WEATHER], stream=stream)
    line = line_of(logged, post(logged, dialect, body, headers=HEADERS))
    (found,) = line["native_found"]
    *_, cut = found.pop("problems")  # others are about signatures that end inside the call

    assert {"family": "qwen3_coder", "channel": "reasoning", "calls": 1} == found
    assert {
        "code": "call_cut",
        "meaning": CODES["call_cut"],
        "detail": "get_weather",
        "count": 1,
    } == cut


def test_line_names_the_family_that_was_recognized(logged: Stand) -> None:
    call = '<tool_call>{"name": "get_weather", "arguments": {"city": "Paris"}}</tool_call>'
    body = question("anthropic", "chat/unheard-of", f"sim: say {call}", tools=[WEATHER])
    line = line_of(logged, post(logged, "anthropic", body, headers=HEADERS))

    assert "auto" == line["native_format"]
    assert [{"family": "hermes", "channel": "content", "calls": 1}] == line["native_found"]


@pytest.mark.parametrize(
    ("model", "family"),
    [("qwen3-coder", "qwen3_coder"), ("glm-4.6", "glm45"), ("gpt-5", None), ("unheard-of", "auto")],
)
def test_p_11_family_that_is_looked_for_is_logged_with_the_model(
    logged: Stand, model: str, family: str | None
) -> None:
    body = question("anthropic", f"chat/{model}", tools=[WEATHER], stream=False)
    line = line_of(logged, post(logged, "anthropic", body, headers=HEADERS))
    without = question("anthropic", f"chat/{model}", stream=False)
    other = line_of(logged, post(logged, "anthropic", without, headers=HEADERS))

    assert (model, family) == (line["upstream_model"], line.get("native_format"))
    assert "native_format" not in other


@clients
def test_line_reports_warnings_retries_and_who_answered_in_the_end(
    logged: Stand, dialect: str
) -> None:
    body = question(dialect, "twice", tools=[WEATHER], n=1 if dialect == "chat" else None)
    body = {name: value for name, value in body.items() if value is not None}
    answer = post(logged, dialect, body, headers=HEADERS)
    line = line_of(logged, answer)

    assert ("twice", "anthropic", "kimi-k2") == (
        line["route"],
        line["upstream"],
        line["upstream_model"],
    )
    warned = answer.headers.get("x-dragoman-warnings", "").split(",")
    assert {*warned} - {""} <= {*line.get("warnings", ())}
    assert "anthropic" == answer.headers["x-dragoman-upstream"]
    assert ["chat/plain+error:500 attempt 1: server 500: the simulator failed"] == line["failures"]


FAILURES = (
    ("fault", "status", "level", "error"),
    [
        ("error:429", 429, "warning", "rate_limit"),
        ("error:500", 500, "error", "server"),
        ("error:401", 424, "error", "upstream_unusable"),
        ("cut:900", 200, "error", "upstream_bad"),
        ("error-in", 200, "error", "server"),
    ],
)


@pytest.mark.parametrize(*FAILURES)
def test_line_of_a_failure_has_the_sentence_that_the_client_gets(
    logged: Stand, fault: str, status: int, level: str, error: str
) -> None:
    body = question("chat", f"anthropic/plain+{fault}")
    answer = post(logged, "chat", body, headers=HEADERS)
    line = line_of(logged, answer)

    assert line["reason"]
    assert json.dumps(line["reason"], ensure_ascii=False)[1:-1] in answer.text


@pytest.mark.parametrize(*FAILURES)
def test_line_of_a_failure_names_what_kind_it_was(
    logged: Stand, fault: str, status: int, level: str, error: str
) -> None:
    body = question("chat", f"anthropic/plain+{fault}")
    line = line_of(logged, post(logged, "chat", body, headers=HEADERS))

    assert ("fault", status, level, error) == (
        line["ended"],
        line["status"],
        line["level"],
        line["error"],
    )


def test_line_of_a_refusal_has_its_reason(logged: Stand) -> None:
    unknown = post(logged, "chat", question("chat", "x"), headers={"x-api-key": f"no-{MARK}"})
    wrong = post(logged, "anthropic", {"model": "m"}, headers=HEADERS)
    lost = get(logged, "/v1/responses/resp_none", headers=HEADERS)
    lines = [line_of(logged, one) for one in (unknown, wrong, lost)]

    assert [401, 400, 404] == [line["status"] for line in lines]
    assert ["auth", "bad_request", "not_found"] == [line["error"] for line in lines]
    assert ["warning"] * 3 == [line["level"] for line in lines]


@clients
@upstreams
@ways
def test_no_line_has_a_word_of_the_conversation(
    logged: Stand, dialect: str, upstream: str, stream: bool
) -> None:
    tool = {**WEATHER, "description": MARK}
    script = "\n".join(
        [
            f"A word: {MARK}",
            f"sim: think {MARK}",
            f"sim: say The answer is {MARK}",
            f'sim: call get_weather {{"city": "{MARK}"}}',
        ]
    )
    marked = {
        "chat": {"user": MARK},
        "anthropic": {"system": MARK, "metadata": {"user_id": MARK}},
        "responses": {"instructions": MARK, "metadata": {"a": MARK}},
        "gemini": {"systemInstruction": MARK, "labels": {"a": MARK}},
    }[dialect]
    for quirks in ("", "+bad-json-args", "+cut:1500", "+error:400", "+garbage"):
        model = f"{upstream}/plain+chunk:500{quirks}"
        body = question(dialect, model, script, tools=[tool], stream=stream, **marked)
        answer = post(logged, dialect, body, headers=HEADERS)
        line_of(logged, answer)
        if not quirks:
            assert MARK in answer.text
    broken = post(logged, dialect, b'{"%b": tru' % MARK.encode(), headers=HEADERS)
    line_of(logged, broken)

    assert b"xylophone" in logged.simulator.exchanges[-1].body
    assert MARK not in logged.log.getvalue()


def test_upstream_that_fails_rests_and_is_back_has_one_line_for_each() -> None:
    def failing(url: str) -> Settings:
        plain = settings_for(url)
        chat = structs.replace(plain.upstreams["chat"], failures=2, cooldown=0.2)
        return structs.replace(plain, upstreams={**plain.upstreams, "chat": chat})

    with stand(failing) as found:
        for model in (*["chat/plain+error:500"] * 3, "chat/plain", "chat/plain"):
            post(found, "chat", question("chat", model, stream=False))
        rested = get(found, "/ready").json()["upstreams"]
        lines = [json.loads(line) for line in found.log.getvalue().splitlines()]

    changes = [line for line in lines if line["event"].startswith("upstream ") and "id" not in line]
    assert ["upstream failing", "upstream resting", "upstream well"] == [
        line["event"] for line in changes
    ]
    assert "chat" == changes[0]["upstream"]
    assert "the simulator failed" == changes[0]["reason"]
    assert 0 < changes[1]["seconds"] <= 0.2
    assert {name: {"state": "well"} for name in DIALECTS} == rested


def test_line_names_the_upstream_that_was_skipped_because_it_rests() -> None:
    def failing(url: str) -> Settings:
        plain = settings_for(url)
        chat = structs.replace(plain.upstreams["chat"], failures=1, cooldown=60)
        route = Route(match=Match(model="two"), to=("chat/plain+error:500", "anthropic/plain"))
        return structs.replace(
            plain, upstreams={**plain.upstreams, "chat": chat}, routes=(route, *plain.routes)
        )

    with stand(failing) as found:
        answers = [post(found, "chat", question("chat", "two", stream=False)) for _ in range(2)]
        first, second = [line_of(found, answer) for answer in answers]

    assert ("resting" not in first, 1) == (True, len(first["failures"]))
    assert (["chat"], "anthropic") == (second["resting"], second["upstream"])
    assert "failures" not in second


def test_ready_shows_the_state_of_upstreams_to_those_who_may_use_them(logged: Stand) -> None:
    with stand() as found:
        for _ in range(3):
            post(found, "chat", question("chat", "chat/plain+error:500", stream=False))
        states = get(found, "/ready").json()["upstreams"]
    closed = get(logged, "/ready").json()
    opened = get(logged, "/ready", headers=HEADERS).json()

    assert "well" == states["anthropic"]["state"]
    assert states["chat"]["state"] in ("failing", "resting")
    assert "upstreams" not in closed
    assert {*DIALECTS} == {*opened["upstreams"]}


def test_debug_shows_each_step_of_a_request(logged: Stand) -> None:
    answer = post(logged, "chat", question("chat", "twice"), headers=HEADERS)
    line_of(logged, answer)
    lines = [json.loads(line) for line in logged.log.getvalue().splitlines()]

    steps = [line["event"] for line in lines if line.get("id") == answer.headers["request-id"]]
    assert [
        "request accepted",
        "request written",
        "upstream asked",
        "upstream answered",
        "next upstream",
        "request written",
        "upstream asked",
        "upstream answered",
        "first content",
        "request",
    ] == steps


def test_debug_shows_attempts_of_each_upstream_and_native_calls() -> None:
    def trying(url: str) -> Settings:
        plain = settings_for(url)
        chat = structs.replace(plain.upstreams["chat"], retries=1)
        route = Route(match=Match(model="two"), to=("chat/plain+error:500", "anthropic/kimi-k2"))
        return structs.replace(
            plain, upstreams={**plain.upstreams, "chat": chat}, routes=(route, *plain.routes)
        )

    with stand(trying) as found:
        answer = post(found, "chat", question("chat", "two", tools=[WEATHER]))
        line_of(found, answer)
        lines = [json.loads(line) for line in found.log.getvalue().splitlines()]

    lines = [line for line in lines if line.get("id") == answer.headers["request-id"]]
    asked = [line for line in lines if line["event"] == "upstream asked"]
    assert [("chat", 1), ("chat", 2), ("anthropic", 1)] == [
        (line["upstream"], line["attempt"]) for line in asked
    ]
    (retry,) = [line for line in lines if line["event"] == "retrying"]
    assert "chat: the simulator failed" == retry["reason"]
    (native,) = [line for line in lines if line["event"] == "native calls found"]
    assert ("kimi_k2", "content", 1) == (native["family"], native["channel"], native["calls"])
    assert [
        f"chat/plain+error:500 attempt {attempt}: server 500: the simulator failed"
        for attempt in (1, 2)
    ] == lines[-1]["failures"]


def test_debug_shows_reasoning_that_is_remembered_and_put_back() -> None:
    with stand() as found:
        model = "chat/plain+needs-reasoning"
        body = question("anthropic", model, tools=[WEATHER], stream=False)
        answer = post(found, "anthropic", body)
        call = next(one for one in answer.json()["content"] if one["type"] == "tool_use")
        result = {"type": "tool_result", "tool_use_id": call["id"], "content": "Sunny"}
        more = [
            {"role": "assistant", "content": [call]},
            {"role": "user", "content": [result]},
        ]
        again = post(found, "anthropic", {**body, "messages": [*body["messages"], *more]})
        line_of(found, again)
        lines = [json.loads(line) for line in found.log.getvalue().splitlines()]

    assert 200 == again.status_code
    (kept,) = [line for line in lines if line["event"] == "reasoning remembered"]
    assert (answer.headers["request-id"], 1) == (kept["id"], kept["calls"])
    (restored,) = [line for line in lines if line["event"] == "history restored"]
    assert (again.headers["request-id"], 1) == (restored["id"], restored["reasoning"])
