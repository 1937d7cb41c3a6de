"""Clients and upstreams of `generateContent`: paths, credentials, lists, counts, and what their parsers demand."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import structs

from dragoman.checker.checker import check
from dragoman.gateway.config.settings import (
    Key,
    Match,
    ModelFacts,
    Route,
    Secret,
    Server,
    Settings,
    Upstream,
)
from tests.support.asking import get, post
from tests.support.gateway import DIALECTS, Stand, settings_for, stand
from tests.support.odd_upstream import SSE, Gate, OddUpstream, Reply, chat_stream
from tests.support.raw_http import RawClient
from tests.support.recordings import recorded, recording_gateway
from tests.support.simulator import WEATHER, question, wire
from tests.support.waiting import logged

KEY = "a-key-of-a-client"
HI = {"contents": [{"parts": [{"text": "sim: say It rains."}]}]}
ANSWER = {
    "candidates": [
        {"content": {"parts": [{"text": "It rains."}], "role": "model"}, "finishReason": "STOP"}
    ],
    "usageMetadata": {"promptTokenCount": 3, "candidatesTokenCount": 4, "totalTokenCount": 7},
    "modelVersion": "gemini-3-pro",
    "responseId": "r1",
}


def make(url: str, odd: str) -> Settings:
    plain = settings_for(
        url,
        server=Server(port=0, keep_alive=0.2, hold_headers=0.3),
        aliases={"gemini-*": "chat/plain"},
        models={"named": ModelFacts(display="A model", context=1000, output=100)},
    )
    key = Secret("env:UP", "upstream-key")
    studio = Upstream(
        base_url=f"{odd}/v1beta", dialect="gemini", profile="gemini-api", key=key, retries=0
    )
    vertex = structs.replace(
        studio,
        base_url=f"{odd}/v1/projects/p/locations/l/publishers/google",
        profile="vertex",
        auth="bearer",
        models=("gemini-3-pro",),
    )
    more = {
        "studio": studio,
        "vertex": vertex,
        "odd": Upstream(base_url=f"{odd}/v1", retries=0, models=("m",)),
    }
    routes = (
        Route(match=Match(model="own/*"), to=("studio/m",), auth="passthrough"),
        *(Route(match=Match(model=f"{name}/*"), to=(f"{name}/*",)) for name in more),
    )
    return structs.replace(
        plain, upstreams={**plain.upstreams, **more}, routes=(*routes, *plain.routes)
    )


@pytest.fixture(scope="module")
def gateway(odd: OddUpstream) -> Iterator[Stand]:
    with stand(lambda url: make(url, odd.url)) as found:
        yield found


def ask(gateway: Stand, path: str, body: Any = None, **more: Any) -> httpx2.Response:
    return post(gateway, "gemini", body or dict(HI), path=path, **more)


def text_of(answer: dict[str, Any]) -> str:
    return "".join(part["text"] for part in answer["candidates"][0]["content"]["parts"])


# --- paths ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/v1beta/models/chat/plain:generateContent",
        "/v1/models/chat/plain:generateContent",
        "/v1alpha/models/chat%2Fplain:generateContent",
        "/v1beta1/publishers/google/models/chat/plain:generateContent",
        "/v1/projects/p/locations/l/publishers/google/models/chat/plain:generateContent",
        "/models/chat/plain:generateContent",
    ],
)
def test_every_form_of_a_path_is_served(gateway: Stand, path: str) -> None:
    got = ask(gateway, path)

    assert "It rains." == text_of(got.json()), got.text
    assert "chat/plain" == got.json()["modelVersion"]


def test_a_model_of_the_body_is_not_read(gateway: Stand) -> None:
    got = ask(gateway, "/v1beta/models/chat/plain:generateContent", {**HI, "model": "nowhere"})

    assert "chat/plain" == got.json()["modelVersion"]


def test_model_names_of_googles_own_clients_find_a_default(gateway: Stand) -> None:
    for name in ("gemini-3.5-flash-lite", "gemini-3-pro-preview"):
        got = ask(gateway, f"/v1beta/models/{name}:generateContent")

        assert ("It rains.", name) == (text_of(got.json()), got.json()["modelVersion"])


@pytest.mark.parametrize(
    ("path", "status", "word"),
    [
        ("/v1beta/models/m:embedContent", 404, "NOT_FOUND"),
        ("/v1beta/cachedContents", 404, "NOT_FOUND"),
        ("/v1beta/models/gemini/plain:generateContent", 400, "INVALID_ARGUMENT"),
        ("/v1beta/models/chat/plain:generateContent", 400, "INVALID_ARGUMENT"),
        ("/v1beta/models/chat/plain+error:429:generateContent", 429, "RESOURCE_EXHAUSTED"),
        ("/v1beta/models/chat/plain+error:500:streamGenerateContent?alt=sse", 500, "INTERNAL"),
    ],
)
def test_failures_have_googles_form(gateway: Stand, path: str, status: int, word: str) -> None:
    wrong = {"contents": [] if "gemini" in path else 1}
    got = ask(gateway, path, wrong if status == 400 else None)

    assert (status, status, word) == (
        got.status_code,
        got.json()["error"]["code"],
        got.json()["error"]["status"],
    )


# --- streams ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("upstream", DIALECTS)
def test_a_stream_has_lines_of_data_and_nothing_else(gateway: Stand, upstream: str) -> None:
    body = question("gemini", f"{upstream}/plain+think+comments", tools=[WEATHER])
    got = post(gateway, "gemini", body)

    assert "text/event-stream; charset=utf-8" == got.headers["content-type"]
    assert check("gemini", got.content).legal
    assert {"", "data: {"} == {line[:7] for line in got.text.splitlines()}


def test_a_stream_without_a_word_about_its_form_is_one_list(gateway: Stand) -> None:
    for alt in ("", "?alt=json"):
        got = ask(gateway, f"/v1beta/models/chat/plain:streamGenerateContent{alt}")
        *_, last = chunks = got.json()

        assert "application/json; charset=utf-8" == got.headers["content-type"]
        assert "It rains." == "".join(map(text_of, chunks))
        assert "STOP" == last["candidates"][0]["finishReason"]


def test_a_list_that_fails_ends_with_the_error(gateway: Stand) -> None:
    got = ask(gateway, "/v1beta/models/chat/plain+error-in:503:streamGenerateContent")
    *chunks, last = got.json()

    assert "UNAVAILABLE" == last["error"]["status"]
    assert chunks


def test_signs_of_life_are_blank_lines(gateway: Stand, odd: OddUpstream) -> None:
    gate = Gate()
    reply = Reply(200, b"".join(chat_stream("It ", "rains.")), SSE)
    odd.answer = lambda _asked: gate.wait() or reply
    path, body = wire("gemini", question("gemini", "odd/m"))
    with RawClient(gateway.url, path, body) as client:
        assert 200 == client.head()
        client.body_with(b"\r\n" * 3)
        gate.open()
        whole = bytes(client.whole())

    assert whole.startswith(b"\r\n")
    assert {b"", b"data: {"} == {line[:7] for line in whole.splitlines()}
    assert check("gemini", whole).legal


@pytest.mark.parametrize("upstream", ["chat", "gemini"])
def test_a_failure_inside_a_stream_is_sent_twice(gateway: Stand, upstream: str) -> None:
    path, body = wire("gemini", question("gemini", f"{upstream}/plain+error-in:503"))
    for _ in range(50):  # a busy machine may read both writes late, and so close together
        pieces: list[tuple[float, bytes]] = []
        with httpx2.stream("POST", gateway.url + path, json=body, timeout=30) as got:
            pieces += [(time.monotonic(), piece) for piece in got.iter_raw()]
        (before, event), (after, bare) = pieces[-2:]
        if after - before >= 0.04:
            break
    error = json.loads(bare)["error"]

    assert ("UNAVAILABLE", 503) == (error["status"], error["code"])
    assert error == json.loads(event.decode().rstrip().rpartition("data: ")[2])["error"]
    assert after - before >= 0.04  # two writes that reach a parser as one would be one text to it


@pytest.mark.parametrize("stream", [True, False])
def test_details_of_googles_errors_are_forwarded_without_secrets(
    gateway: Stand, odd: OddUpstream, stream: bool
) -> None:
    detail = {"@type": "type.googleapis.com/google.rpc.Help", "links": [{"url": "of upstream-key"}]}
    error = {"error": {"code": 500, "message": "no", "status": "INTERNAL", "details": [detail]}}
    begun = {"candidates": [{"content": {"parts": [{"text": "It"}], "role": "model"}}]}
    if stream:
        odd.streams(begun, error)
        got = ask(gateway, "/v1beta/models/studio/m:streamGenerateContent?alt=sse")
    else:
        odd.answer_with(500, error)
        got = ask(gateway, "/v1beta/models/studio/m:generateContent")

    assert '"links":[{"url":"of [redacted]"}]' in got.text
    assert "upstream-key" not in got.text + gateway.log.getvalue()


# --- counts and lists -------------------------------------------------------------------------------


def test_tokens_are_counted_for_any_upstream(gateway: Stand) -> None:
    path = "/v1beta/models/{}/plain:countTokens"
    counted = ask(gateway, path.format("anthropic")).json()
    inside = {"generateContentRequest": {"model": "models/x", **HI}}
    own = ask(gateway, path.format("gemini"), inside)
    orphan = {"functionResponse": {"name": "f", "response": {"output": "x"}}}
    estimated = ask(gateway, path.format("chat"), {"contents": [{"parts": [orphan]}]})

    assert counted["totalTokens"] == counted["promptTokensDetails"][0]["tokenCount"] > 0
    assert own.json()["totalTokens"] > 0
    assert "/v1beta/models/plain:countTokens" == gateway.simulator.exchanges[-1].path
    assert "estimated" == estimated.headers["x-dragoman-token-count"]


@pytest.mark.parametrize(
    ("upstream", "path", "wrapped"),
    [
        ("studio", "/v1beta/models/gemini-3-pro:countTokens", True),
        (
            "vertex",
            "/v1/projects/p/locations/l/publishers/google/models/gemini-3-pro:countTokens",
            False,
        ),
    ],
)
def test_google_counts_the_request_of_any_client(
    gateway: Stand, odd: OddUpstream, upstream: str, path: str, wrapped: bool
) -> None:
    odd.answer_with(200, {"totalTokens": 41})
    body = {"model": f"{upstream}/gemini-3-pro", "system": "Be kind.", **question("anthropic")}
    body |= {"model": f"{upstream}/gemini-3-pro"}
    got = post(gateway, "anthropic", body, path="/v1/messages/count_tokens")
    sent = json.loads(odd.asked[-1].body)
    inner = sent["generateContentRequest"] if wrapped else sent

    assert {"input_tokens": 41} == got.json()
    assert path == odd.asked[-1].path
    assert wrapped == ("models/gemini-3-pro" == inner.get("model"))
    assert {"contents", "systemInstruction"} <= inner.keys()


def test_models_are_listed_in_googles_form_and_in_pages(gateway: Stand) -> None:
    first = get(gateway, "/v1beta/models?pageSize=2").json()
    second = get(gateway, f"/v1beta/models?pageSize=500&pageToken={first['nextPageToken']}").json()
    names = [one["name"] for one in (*first["models"], *second["models"])]
    one = get(gateway, "/v1beta/models/chat/plain").json()

    assert 2 == len(first["models"])
    assert "nextPageToken" not in second
    assert len(names) == len({*names})
    assert "models/chat/plain" in names
    assert "models/chat/plain" == one["name"]
    assert "generateContent" in one["supportedGenerationMethods"]
    assert get(gateway, "/v1beta/models").json() == get(gateway, "/v1beta/models?pageSize=0").json()
    assert 404 == get(gateway, "/v1beta/models/nothing").json()["error"]["code"]
    for wrong in ("pageSize=x", "pageSize=-1", "pageToken=x"):
        assert 400 == get(gateway, f"/v1beta/models?{wrong}").status_code


@pytest.mark.parametrize("name", ["gemini-3-flash-preview", "own/anything"], ids=["alias", "route"])
def test_a_name_that_a_pattern_takes_is_described(gateway: Stand, name: str) -> None:
    got = get(gateway, f"/v1beta/models/{name}")
    listed = get(gateway, "/v1beta/models?pageSize=1000").json()["models"]

    assert f"models/{name}" == got.json()["name"]
    assert f"models/{name}" not in {one["name"] for one in listed}


def test_a_shared_path_answers_as_the_key_was_sent(gateway: Stand) -> None:
    google = [
        get(gateway, "/v1/models", headers={"x-goog-api-key": KEY}),
        get(gateway, f"/v1/models?key={KEY}"),
        get(gateway, "/v1beta1/publishers/google/models"),
    ]
    other = get(gateway, "/v1/models", headers={"authorization": f"Bearer {KEY}"})

    assert all("models" in one.json() for one in google)
    assert "list" == other.json()["object"]


# --- keys -------------------------------------------------------------------------------------------


def locked(url: str) -> Settings:
    keys = (Key(key=Secret("env:A", KEY), name="a"), Key(key=Secret("env:B", "other"), name="b"))
    return settings_for(url, server=Server(port=0, keys=keys))


def test_a_key_comes_in_a_header_in_the_url_or_as_a_token() -> None:
    path = "/v1beta/models/chat/plain:generateContent"
    token = {"authorization": f"Bearer {KEY}"}
    with stand(locked) as found:
        good = [
            ask(found, path, headers={"x-goog-api-key": KEY}),
            ask(found, f"{path}?key={KEY}"),
            ask(found, path, headers=token),
            ask(found, f"{path}?key={KEY}", headers={"x-goog-api-key": KEY, **token}),
        ]
        bad = [
            ask(found, path),
            ask(found, f"{path}?key=wrong-key"),
            ask(found, f"{path}?key=other", headers={"x-goog-api-key": KEY}),
            ask(found, f"{path}?key={KEY}&key=wrong-key"),
            ask(found, f"{path}?key={KEY}&access_token=wrong-key"),
            ask(found, path, headers={"x-goog-api-key": "other", **token}),
        ]
        elsewhere = post(found, "chat", path=f"/v1/chat/completions?key={KEY}")
        log = found.log.getvalue()

    assert {200} == {one.status_code for one in good}
    assert {(401, "UNAUTHENTICATED")} == {
        (one.status_code, one.json()["error"]["status"]) for one in bad
    }
    assert 401 == elsewhere.status_code  # other dialects have no keys in URLs
    assert all(KEY not in one.text + str(one.headers) for one in (*good, *bad))
    assert KEY not in log
    assert "wrong-key" not in log


def test_a_key_in_the_url_is_in_no_recording(tmp_path: Path) -> None:
    with recording_gateway(tmp_path) as found:
        ask(found, f"/v1beta/models/chat/plain:streamGenerateContent?alt=sse&key={KEY}")
        shown = get(found, "/metrics").text
    (one,) = recorded(tmp_path)

    assert "/v1beta/models/chat/plain:streamGenerateContent?alt=sse" == one.opening.path
    assert {"model": "chat/plain", "stream": True, **HI} == json.loads(one.received.body.data)
    assert all(KEY not in path.read_text() for path in tmp_path.iterdir())
    assert KEY not in shown + found.log.getvalue()


def test_a_clients_own_key_goes_on_as_a_header(gateway: Stand, odd: OddUpstream) -> None:
    odd.answer_with(200, ANSWER)
    ask(gateway, f"/v1beta/models/own/x:generateContent?key={KEY}")
    from_url = odd.asked[-1]
    post(gateway, "chat", question("chat", "own/x", stream=False), headers={"x-api-key": KEY})

    assert KEY == from_url.headers["x-goog-api-key"]
    assert "/v1beta/models/m:generateContent" == from_url.path
    assert KEY == odd.asked[-1].headers["x-goog-api-key"]


# --- upstreams --------------------------------------------------------------------------------------


@pytest.mark.parametrize("client", DIALECTS)
def test_google_is_asked_with_its_path_and_its_credential(
    gateway: Stand, odd: OddUpstream, client: str
) -> None:
    odd.answer_with(200, ANSWER)
    got = post(gateway, client, question(client, "studio/a b:8", stream=False))
    whole = odd.asked[-1]
    stream = b"data: %b\r\n\r\n" % json.dumps(ANSWER).encode()
    odd.answer = lambda _asked: Reply(200, stream, SSE)
    streamed = post(gateway, client, question(client, "vertex/gemini-3-pro"))
    base = "/v1/projects/p/locations/l/publishers/google/models"

    assert b"It rains." in got.content
    assert "/v1beta/models/a%20b:8:generateContent" == whole.path
    assert "upstream-key" == whole.headers["x-goog-api-key"]
    assert not {"model", "stream"} & json.loads(whole.body).keys()
    assert b"It rains." in streamed.content
    assert f"{base}/gemini-3-pro:streamGenerateContent?alt=sse" == odd.asked[-1].path
    assert "Bearer upstream-key" == odd.asked[-1].headers["authorization"]


def test_a_request_within_the_dialect_keeps_its_fields(gateway: Stand, odd: OddUpstream) -> None:
    odd.answer_with(200, ANSWER)
    body = {**HI, "generation_config": {"top_k": 3}, "unknown": {"a": [1]}, "safetySettings": []}
    got = ask(gateway, "/v1beta/models/studio/m:generateContent?alt=json", body)

    assert body == json.loads(odd.asked[-1].body)
    assert ANSWER == got.json()


@pytest.mark.parametrize(("client", "level"), [("chat", "error"), ("gemini", "warning")])
def test_calls_without_a_signature_are_the_fault_of_whoever_wrote_them(
    gateway: Stand, odd: OddUpstream, client: str, level: str
) -> None:
    message = "Function call is missing a thought_signature in functionCall parts."
    error = {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
    odd.answer_with(400, [error])  # the form of an error before a stream without `alt=sse`
    got = post(gateway, client, question(client, "studio/m"))
    line = logged(gateway, got.headers["request-id"])

    assert (400, True) == (got.status_code, message in got.json()["error"]["message"])
    assert (level, "unsigned_calls") == (line["level"], line["error_code"])


def test_parameters_of_a_url_are_not_forwarded(gateway: Stand, odd: OddUpstream) -> None:
    odd.answer_with(200, ANSWER)
    more = "prettyPrint=false&fields=candidates&$httpMethod=POST&access_token=t&alt=json"
    got = ask(gateway, f"/v1beta/models/studio/m:generateContent?{more}")

    assert ANSWER == got.json()
    assert "/v1beta/models/m:generateContent" == odd.asked[-1].path


def test_models_of_google_are_listed(odd: OddUpstream) -> None:
    listed = {"models": [{"name": "models/gemini-3-pro"}, {"name": "models/gemini-3-flash"}]}
    odd.answer_with(200, listed)
    with stand(lambda url: make(url, odd.url)) as fresh:  # which has not asked before
        names = [one["id"] for one in get(fresh, "/v1/models").json()["data"]]

    assert {"studio/gemini-3-pro", "studio/gemini-3-flash"} <= {*names}
    assert "/v1beta/models?pageSize=1000" == odd.asked[-1].path


# --- the client's timeout -----------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_clients_timeout_ends_a_response_that_blank_lines_would_keep_open(
    gateway: Stand, odd: OddUpstream, *, stream: bool
) -> None:
    gate = Gate()
    odd.answer = lambda _asked: gate.wait() or Reply(200, b"", SSE)
    body = question("gemini", "odd/m", stream=stream)
    got = post(gateway, "gemini", body, headers={"x-server-timeout": "1"})
    gate.open()

    assert ("DEADLINE_EXCEEDED", 504) == error_of(got)
    assert "no complete answer within 1 s" in got.text
    assert (200 if stream else 504) == got.status_code


@pytest.mark.parametrize("value", ["0", "-1", "soon", "9" * 400, "1200", ""])
def test_a_timeout_that_is_no_positive_number_ends_no_response(gateway: Stand, value: str) -> None:
    path = "/v1beta/models/chat/plain:generateContent"

    assert 200 == ask(gateway, path, headers={"x-server-timeout": value}).status_code


def test_a_clients_timeout_reaches_google_and_no_other_upstream(
    gateway: Stand, odd: OddUpstream
) -> None:
    seconds = {"x-server-timeout": "1200"}
    odd.answer_with(200, ANSWER)
    ask(gateway, "/v1beta/models/studio/m:generateContent", headers=seconds)
    google = odd.asked[-1].headers
    ask(gateway, "/v1beta/models/odd/m:generateContent", headers=seconds)

    assert "1200" == google["x-server-timeout"]
    assert "x-server-timeout" not in odd.asked[-1].headers


def error_of(got: httpx2.Response) -> tuple[str, int]:
    """Return the status and the code of a failure: of a stream, those of its last line."""
    error = json.loads(got.text.rstrip().splitlines()[-1])["error"]
    return error["status"], error["code"]
