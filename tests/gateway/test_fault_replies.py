"""Each kind of failure, reported in each dialect with its own status and words, and attributed to the right peer."""

import gzip
import json
import time
import zlib
from email.utils import formatdate
from typing import Any

import msgspec
import pytest
from backports import zstd
from msgspec import structs

from dragoman.checker.checker import check
from dragoman.gateway.config.settings import Match, Route, Secret, Server, Settings, Upstream
from dragoman.limits import Limits
from tests.support.asking import get, post
from tests.support.gateway import DIALECTS, FIXED_PATHS, PATHS, UNUSABLE, Stand, settings_for, stand
from tests.support.odd_upstream import OddUpstream, odd_upstream
from tests.support.simulator import WEATHER, question
from tests.support.tables import in_one_test
from tests.support.waiting import notices

KEY = "sk-very-secret-0123456789abcdef"


@pytest.fixture(scope="module")
def peer() -> OddUpstream:
    with odd_upstream() as found:
        yield found


@pytest.fixture(scope="module")
def gateway(peer: OddUpstream) -> Stand:
    def make(url: str) -> Settings:
        plain = settings_for(url, server=Server(port=0, limits=Limits(max_request_bytes=200_000)))
        odd = Upstream(
            base_url=f"{peer.url}/v1", key=Secret("env:ODD_KEY", KEY), retries=0, cooldown=0
        )
        routes = (
            Route(match=Match(model="odd"), to=("odd/m",)),
            Route(match=Match(model="own"), to=("odd/m",), auth="passthrough"),
            *plain.routes,
        )
        return structs.replace(plain, upstreams={**plain.upstreams, "odd": odd}, routes=routes)

    with stand(make) as found:
        yield found


# --- the table --------------------------------------------------------------------------------------

# What the upstream says; then status and type for Messages, and status, type and code for the others;
# then the code of a Responses stream that fails so.
KINDS: dict[str, tuple[int, dict[str, Any], tuple[int, str], tuple[int, str, str | None], str]] = {
    "bad_request": (
        400,
        {"message": "no", "type": "invalid_request_error"},
        (400, "invalid_request_error"),
        (400, "invalid_request_error", None),
        "invalid_prompt",
    ),
    "context_length": (
        400,
        {"message": "too much", "code": "context_length_exceeded"},
        (400, "invalid_request_error"),
        (400, "invalid_request_error", "context_length_exceeded"),
        "context_length_exceeded",
    ),
    "content_policy": (
        400,
        {"message": "no", "code": "content_policy_violation"},
        (400, "invalid_request_error"),
        (400, "invalid_request_error", "content_policy_violation"),
        "invalid_prompt",
    ),
    "billing": (
        402,
        {"message": "pay", "code": "insufficient_quota"},
        (402, "billing_error"),
        (
            402,
            "insufficient_quota",
            "insufficient_quota",
        ),  # to Chat clients; see below for Responses
        "insufficient_quota",
    ),
    "not_found": (
        404,
        {"message": "what?", "code": "model_not_found"},
        (404, "not_found_error"),
        (404, "invalid_request_error", "model_not_found"),
        "invalid_prompt",
    ),
    "conflict": (
        409,
        {"message": "busy", "type": "conflict"},
        (409, "conflict_error"),
        (409, "conflict", None),
        "server_error",
    ),
    "too_large": (
        413,
        {"message": "big", "code": "request_too_large"},
        (413, "request_too_large"),
        (413, "invalid_request_error", "request_too_large"),
        "invalid_prompt",
    ),
    "rate_limit": (
        429,
        {"message": "Please try again in 7s", "code": "rate_limit_exceeded"},
        (429, "rate_limit_error"),
        (429, "rate_limit_exceeded", "rate_limit_exceeded"),
        "rate_limit_exceeded",
    ),
    "server": (
        500,
        {"message": "oops", "type": "server_error"},
        (500, "api_error"),
        (500, "server_error", None),
        "server_error",
    ),
    "upstream_bad": (
        502,
        {"message": "oops", "code": "upstream_error"},
        (502, "api_error"),
        (502, "server_error", "upstream_error"),
        "server_error",
    ),
    "overloaded": (
        503,
        {"message": "full", "code": "server_is_overloaded"},
        (529, "overloaded_error"),
        (503, "server_error", "server_is_overloaded"),  # to Chat clients; see below for Responses
        "server_error",
    ),
    "timeout": (
        504,
        {"message": "late", "code": "timeout"},
        (504, "timeout_error"),
        (504, "server_error", "timeout"),
        "server_error",
    ),
}
# Status and word for Gemini clients.
GOOGLE: dict[str, tuple[int, str]] = {
    "bad_request": (400, "INVALID_ARGUMENT"),
    "context_length": (400, "INVALID_ARGUMENT"),
    "content_policy": (400, "INVALID_ARGUMENT"),
    "billing": (400, "FAILED_PRECONDITION"),  # Gemini CLI retries a 429 ten times
    "not_found": (404, "NOT_FOUND"),
    "conflict": (409, "ABORTED"),
    "too_large": (413, "INVALID_ARGUMENT"),
    "rate_limit": (429, "RESOURCE_EXHAUSTED"),
    "server": (500, "INTERNAL"),
    "upstream_bad": (502, "INTERNAL"),
    "overloaded": (503, "UNAVAILABLE"),
    "timeout": (504, "DEADLINE_EXCEEDED"),
}
# Kinds that the same request meets again: agents must not retry.
LASTING = {"bad_request", "context_length", "content_policy", "billing", "not_found", "too_large"}
# The gateway's own credential was refused: the upstream's failure, not the client's.
REFUSED = {"auth": (401, "invalid_api_key"), "permission": (403, "permission_denied")}


def read_error(dialect: str, body: bytes) -> tuple[str, str | None, str]:
    """Return type, code and message of an error body."""
    error = json.loads(body)["error"]
    if dialect == "anthropic":
        assert "error" == json.loads(body)["type"]
        assert json.loads(body)["request_id"].startswith("req_")
        return error["type"], None, error["message"]
    if dialect == "gemini":
        assert ["code", "message", "status"] == list(error)[:3]
        return error["status"], None, error["message"]
    assert ["message", "type", "param", "code"] == list(error)
    return error["type"], error["code"], error["message"]


@pytest.mark.parametrize("dialect", DIALECTS)
@in_one_test
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_kind_has_its_status_and_words(
    gateway, peer, kind: str, dialect: str, stream: bool
) -> None:
    status, error, messages, others, _ = KINDS[kind]
    peer.answer_with(status, {"error": error})

    got = post(gateway, dialect, question(dialect, "odd", stream=stream))
    kind_read, code, message = read_error(dialect, got.content)

    if dialect == "anthropic":
        assert messages == (got.status_code, kind_read)
    elif dialect == "gemini":
        assert GOOGLE[kind] == (got.status_code, kind_read)
    elif (kind, dialect) == ("overloaded", "responses"):
        # Codex does not retry after `server_is_overloaded`.
        assert (503, "server_error", "server_error") == (got.status_code, kind_read, code)
    elif (kind, dialect) == ("billing", "responses"):
        assert (400, *others[1:]) == (got.status_code, kind_read, code)  # Codex retries a 402
    else:
        assert others == (got.status_code, kind_read, code)
    assert f"odd: {error['message']}" in message
    assert ("false" if kind in LASTING else None) == got.headers.get("x-should-retry")
    prefixes = {
        "anthropic": "prompt is too long: ",
        "gemini": "The input token count exceeds the maximum number of tokens allowed: ",
    }
    prefix = prefixes.get(dialect, "") if kind == "context_length" else ""
    assert message.startswith(f"{prefix}odd: ")


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", KINDS)
def test_kind_inside_a_stream_is_reported_in_the_same_words(
    gateway, peer, kind: str, dialect
) -> None:
    _, error, messages, others, response_code = KINDS[kind]
    chunk = {"choices": [{"index": 0, "delta": {"content": "So"}, "finish_reason": None}]}
    peer.streams(chunk, {"error": error, "choices": []})

    got = post(gateway, dialect, question(dialect, "odd"))
    data = [line[6:] for line in got.text.split("\n") if line.startswith("data: ")]

    assert 200 == got.status_code
    if dialect == "responses":
        failed = json.loads(data[-1])["response"]
        assert ("failed", response_code) == (failed["status"], failed["error"]["code"])
        assert f"odd: {error['message']}" in failed["error"]["message"]
    elif dialect == "gemini":
        last = json.loads(data[-1])["error"]
        assert GOOGLE[kind] == (last["code"], last["status"])
        assert f"odd: {error['message']}" in last["message"]
    else:
        last = json.loads(data[-1] if dialect == "anthropic" else data[-2])["error"]
        assert (messages[1] if dialect == "anthropic" else others[1]) == last["type"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("kind", REFUSED)
def test_refused_credentials_of_the_gateway_are_not_blamed_on_the_client(
    gateway, peer, kind: str, dialect: str
) -> None:
    status, code = REFUSED[kind]
    peer.answer_with(
        status, {"error": {"message": f"Incorrect API key provided: {KEY}", "code": code}}
    )

    ours = post(gateway, dialect, question(dialect, "odd"))
    theirs = post(gateway, dialect, question(dialect, "own"), headers={"x-api-key": "mine"})

    assert (UNUSABLE[dialect], status) == (ours.status_code, theirs.status_code)
    assert ("false", "false") == tuple(one.headers["x-should-retry"] for one in (ours, theirs))
    assert "odd: upstream rejected the gateway's credentials: " in ours.text
    assert "ODD_KEY" not in ours.text
    assert KEY not in ours.text + theirs.text + gateway.log.getvalue()


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_secrets_in_an_upstreams_words_are_not_forwarded(
    gateway, peer, dialect: str, stream
) -> None:
    chunk = {"choices": [{"index": 0, "delta": {"content": "So"}, "finish_reason": None}]}
    error = {"error": {"message": f"bad header: authorization: Bearer {KEY}", "code": 400}}
    if stream:
        peer.streams(chunk, error)
    else:
        peer.answer_with(400, error)

    got = post(gateway, dialect, question(dialect, "odd", stream=stream))

    assert "bad header" in got.text
    assert KEY not in got.text + gateway.log.getvalue()
    assert f"Bearer {KEY}" == peer.asked[-1].headers["authorization"]


def test_retry_after_and_request_id_of_the_upstream_are_forwarded(gateway, peer) -> None:
    peer.answer_with(429, {"error": {"message": "no"}}, retry_after="12", x_request_id="req_theirs")

    got = post(gateway, "chat", question("chat", "odd"))

    assert "12" == got.headers["retry-after"]
    assert "req_theirs" == got.headers["x-upstream-request-id"]
    assert got.headers["request-id"] == got.headers["x-request-id"] != "req_theirs"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_date_to_wait_for_is_passed_on_as_seconds(gateway, peer, dialect: str) -> None:
    later = formatdate(time.time() + 1000, usegmt=True)
    peer.answer_with(503, {"error": {"message": "no"}}, retry_after=later)
    future = post(gateway, dialect, question(dialect, "odd"))
    peer.answer_with(503, {"error": {"message": "no"}}, retry_after="Fri, 01 Jan 2016 00:00:00 GMT")
    past = post(gateway, dialect, question(dialect, "odd"))
    peer.answer_with(503, {"error": {"message": "no"}}, retry_after="when it rains")
    never = post(gateway, dialect, question(dialect, "odd"))

    assert 900 < int(future.headers["retry-after"]) <= 1000
    assert "0" == past.headers["retry-after"]
    assert "retry-after" not in never.headers


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("status", [200, 429])
def test_rate_limits_of_the_upstream_are_forwarded(
    gateway, peer, dialect: str, status: int
) -> None:
    message = {"role": "assistant", "content": "So."}
    answer = {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}
    limits = {"x_ratelimit_remaining_tokens": "7", "x_ratelimit_reset_tokens": "6m0s"}
    peer.answer_with(status, answer if status == 200 else {"error": {"message": "no"}}, **limits)

    got = post(gateway, dialect, question(dialect, "odd", stream=False))

    assert status == got.status_code
    if dialect == "anthropic":
        assert "7" == got.headers["anthropic-ratelimit-tokens-remaining"]
    else:
        assert "7" == got.headers["x-ratelimit-remaining-tokens"]
        assert "6m0s" == got.headers["x-ratelimit-reset-tokens"]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("said", ["true", "false"])
def test_should_retry_of_the_upstream_is_forwarded(gateway, peer, dialect: str, said: str) -> None:
    peer.answer_with(500, {"error": {"message": "no"}}, x_should_retry=said)
    got = post(gateway, dialect, question(dialect, "odd"))
    peer.answer_with(500, {"error": {"message": "no"}})
    without = post(gateway, dialect, question(dialect, "odd"))

    assert said == got.headers["x-should-retry"]
    assert "x-should-retry" not in without.headers


def test_redirect_is_not_followed_and_names_what_to_set(gateway, peer) -> None:
    peer.answer_with(308, b"", location="https://elsewhere.example/v1")

    got = post(gateway, "chat", question("chat", "odd"))

    assert 424 == got.status_code
    assert "set `base_url`" in got.text


FAILURES_IN_A_200 = {
    "error and no choices": {"error": {"message": "provider went away"}, "choices": []},
    "error as text": {"error": "provider went away"},
    "finish reason error": {
        "choices": [{"index": 0, "delta": {"content": ""}, "finish_reason": "error"}]
    },
    "the provider's own reason alone": {
        "choices": [
            {
                "index": 0,
                "delta": {"content": ""},
                "finish_reason": None,
                "native_finish_reason": "network_error",
            }
        ]
    },
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("case", FAILURES_IN_A_200)
def test_g1_error_in_a_good_answer_is_a_502_with_its_words(
    gateway, peer, case: str, stream: bool, dialect: str
) -> None:
    reply: Any = FAILURES_IN_A_200[case]
    if stream:
        peer.streams(reply, b"[DONE]")
    else:
        peer.answer_with(200, json.loads(json.dumps(reply).replace('"delta"', '"message"')))

    got = post(gateway, dialect, question(dialect, "odd", stream=stream))

    assert 502 == got.status_code
    words = {"finish reason error": "`error`", "the provider's own reason alone": "network_error"}
    assert words.get(case, "provider went away") in error_message(got)


def error_message(got: Any) -> str:
    return str(got.json()["error"]["message"])


@pytest.mark.parametrize("dialect", DIALECTS)
def test_answer_that_is_no_answer_is_quoted(gateway, peer, dialect: str) -> None:
    peer.answer_with(200, b"Welcome to the hotel's network", content_type="text/plain")

    for stream in (True, False):
        got = post(gateway, dialect, question(dialect, "odd", stream=stream))

        assert 502 == got.status_code
        assert "Welcome to the hotel's network" in got.text


PAGE = (
    b"\n<!DOCTYPE html>\n<html><head><script>var a = 1</script><title>Acme &amp; Co\n login</title></head>"
    + b"<body><p>Hello</p></body></html>" * 50
)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("status", "kind"), [(200, "text/html"), (200, "application/json"), (404, "text/html")]
)
def test_html_page_is_named_by_its_title_with_a_hint_and_ends_agents(
    gateway, peer, dialect: str, status: int, kind: str
) -> None:
    peer.answer_with(status, PAGE, content_type=kind)

    for stream in (True, False):
        got = post(gateway, dialect, question(dialect, "odd", stream=stream))

        assert (400 if dialect == "responses" else 424) == got.status_code
        assert "false" == got.headers["x-should-retry"]
        assert error_message(got).endswith(
            'an HTML page ("Acme & Co login") instead of an API response; '
            "check `base_url`, which usually ends in `/v1`"
        )
        assert "<" not in got.text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_html_page_with_a_passing_status_keeps_it(gateway, peer, dialect: str) -> None:
    peer.answer_with(502, b"<html><head><title>502 Bad Gateway</title>", content_type="text/html")

    got = post(gateway, dialect, question(dialect, "odd", stream=True))

    assert 502 == got.status_code
    assert 'an HTML page ("502 Bad Gateway") instead of an API error; a proxy' in error_message(got)


# --- the client's mistakes ----------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", FIXED_PATHS)
def test_p_7_mistakes_in_a_request_are_reported_with_their_path(gateway, dialect: str) -> None:
    field = "input" if dialect == "responses" else "messages"
    other = "anthropic" if dialect == "chat" else "chat"  # a relay leaves it to the vendor
    good = question(dialect, f"{other}/plain", tools=[WEATHER])
    orphan = {
        "chat": {"role": "tool", "tool_call_id": "call_x", "content": "12"},
        "anthropic": {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "call_x", "content": "12"}],
        },
        "responses": {"type": "function_call_output", "call_id": "call_x", "output": "12"},
    }[dialect]
    tool_without_name = json.loads(json.dumps(good["tools"][0]).replace('"get_weather"', "7"))
    schema = "input_schema" if dialect == "anthropic" else "parameters"
    no_schema = json.dumps(good).replace(f'"{schema}": {{', f'"{schema}": "no", "x": {{')
    wrong = {
        "tools[0]": {**good, "tools": [tool_without_name]},
        "call_x": {**good, field: [*good[field], orphan]},
        schema: json.loads(no_schema),
    }

    for path, body in wrong.items():
        got = post(gateway, dialect, body)
        kind, _, message = read_error(dialect, got.content)

        assert (400, "invalid_request_error") == (got.status_code, kind), path
        assert path in message or path in str(got.json()["error"].get("param")), message


@pytest.mark.parametrize("dialect", FIXED_PATHS)
@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"{not json", "JSON"),
        (b"", "JSON"),
        (b"[]", "object"),
        (b'{"model": 7}', "model"),
        (b'{"stream": true}', "model"),
    ],
)
def test_body_that_is_no_request_is_refused(gateway, dialect: str, body: bytes, says: str) -> None:
    got = post(gateway, dialect, body)

    assert 400 == got.status_code
    assert says in read_error(dialect, got.content)[2]


@pytest.mark.parametrize("dialect", FIXED_PATHS)
@pytest.mark.parametrize(
    ("encoding", "pack"),
    [
        ("gzip", gzip.compress),
        ("deflate", zlib.compress),
        ("zstd", zstd.compress),
        ("identity", bytes),
    ],
)
def test_packed_bodies_are_read(gateway, dialect: str, encoding: str, pack) -> None:
    body = pack(msgspec.json.encode(question(dialect, "chat/plain", stream=False)))

    got = post(gateway, dialect, body, headers={"content-encoding": encoding})

    assert 200 == got.status_code


@pytest.mark.parametrize("dialect", DIALECTS)
def test_packing_that_is_not_known_is_415(gateway, dialect: str) -> None:
    got = post(gateway, dialect, b"\x0b\x02\x80", headers={"content-encoding": "br"})

    assert 415 == got.status_code
    assert "gzip" in read_error(dialect, got.content)[2]


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_body_that_is_not_compressed_as_declared_is_400(gateway, encoding: str) -> None:
    got = post(gateway, "chat", b"{}", headers={"content-encoding": encoding})

    assert 400 == got.status_code
    assert "does not match its content-encoding" in read_error("chat", got.content)[2]


@pytest.mark.parametrize("dialect", FIXED_PATHS)
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "packed"])
def test_body_that_is_too_large_is_413(gateway, dialect: str, pack) -> None:
    body = msgspec.json.encode(question(dialect, "chat/plain", "x" * 300_000))
    headers = {} if pack is bytes else {"content-encoding": "gzip"}

    got = post(gateway, dialect, pack(body), headers=headers)

    assert 413 == got.status_code
    assert "max_request_bytes" in read_error(dialect, got.content)[2]
    assert 200 == post(gateway, dialect).status_code


@pytest.mark.parametrize("dialect", FIXED_PATHS)
def test_websocket_is_426(gateway, dialect: str) -> None:
    headers = {"upgrade": "websocket", "connection": "upgrade", "sec-websocket-version": "13"}

    got = get(gateway, PATHS[dialect], headers=headers)

    assert 426 == got.status_code
    assert "stream" in got.json()["error"]["message"]


def test_unknown_path_is_404_in_the_dialect_that_the_client_shows(gateway) -> None:
    openai = get(gateway, "/v1/unknown")
    anthropic = get(gateway, "/v1/unknown", headers={"anthropic-version": "2023-06-01"})

    assert (404, 404) == (openai.status_code, anthropic.status_code)
    assert "/v1/chat/completions" in read_error("chat", openai.content)[2]
    assert "not_found_error" == read_error("anthropic", anthropic.content)[0]


# --- our own ------------------------------------------------------------------------------------------


class Broken:
    """Something of the gateway that fails as no code expects."""

    def __getattr__(self, name: str) -> Any:
        raise ZeroDivisionError(f"no {name}")


class Wrapped:
    """Something of the gateway that works, but for what a test takes away."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


class Unwritable(Wrapped):
    async def keep(self, *args: Any) -> None:
        raise ZeroDivisionError


class Forgetful(Wrapped):
    """A memory whose watchers fail in the middle of an answer."""

    def watchers(self, *args: Any, **options: Any) -> tuple[Any, ...]:
        return (lambda _exchange: Bomb(),)


class Bomb:
    pending = False

    def __init__(self) -> None:
        self._left = 5

    def feed(self, events: list[Any]) -> list[Any]:
        self._left -= len(events)
        if self._left < 0:
            self._left = 1000
            raise ZeroDivisionError
        return events


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_p_8_failure_of_our_own_is_500_and_names_where_to_look(dialect: str, stream: bool) -> None:
    with stand() as found:
        found.running.gateway.runtime.memory = Broken()
        got = post(found, dialect, question(dialect, "chat/plain", stream=stream))
        (failed,) = notices(found, "gateway failed", id=got.headers["request-id"])

    assert 500 == got.status_code
    assert "log" in read_error(dialect, got.content)[2]
    assert "ZeroDivisionError" == failed["error"]
    assert "no memory" not in got.text


@pytest.mark.parametrize("dialect", DIALECTS)
def test_p_8_failure_of_our_own_inside_a_stream_ends_it_in_its_dialect(dialect: str) -> None:
    with stand() as found:
        runtime = found.running.gateway.runtime
        runtime.memory = Forgetful(runtime.memory)
        got = post(found, dialect, question(dialect, "chat/plain+pace:2"))
        (failed,) = notices(found, "gateway failed", id=got.headers["request-id"])
    last = got.text.strip().split("\n\n")[-2 if dialect == "chat" else -1]

    stream = got.content
    if dialect == "gemini":  # the failure again, behind its event
        stream = stream.rpartition(b'{"error"')[0]
    assert 200 == got.status_code
    assert () == check(dialect, stream).violations
    assert "the gateway failed" in last
    assert "ZeroDivisionError" == failed["error"]


def test_answer_that_cannot_be_kept_is_not_lost() -> None:
    with stand() as found:
        runtime = found.running.gateway.runtime
        runtime.store = Unwritable(runtime.store)
        got = post(found, "responses", question("responses", "chat/plain"))
        kept = notices(found, "response not stored", id=got.headers["request-id"])

    assert "response.completed" in got.text
    assert () == check("responses", got.content).violations
    assert 1 == len(kept)
