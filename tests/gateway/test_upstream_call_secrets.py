"""An upstream that repeats the gateway's key, or a secret of its request, never makes the gateway reveal it."""

import json
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
from msgspec import structs

from dragoman.gateway.config.settings import (
    Match,
    Route,
    RouteServerTools,
    Secret,
    Settings,
    Upstream,
)
from tests.support.asking import get, post
from tests.support.gateway import DIALECTS, UNUSABLE, Stand, settings_for, stand
from tests.support.odd_upstream import SSE, OddUpstream, Reply, odd_upstream
from tests.support.simulator import SERVERS, question
from tests.support.tables import in_one_test
from tests.support.waiting import logged, notices

# It looks like no vendor's key: only who knows it can tell that it is one.
KEY = "plain words 0123456789"
HEADERS = {
    "content-type": "application/json",
    "request-id": KEY,
    "x-request-id": KEY,
    "retry-after": "1",
    "x-should-retry": KEY,
    "location": f"https://elsewhere.example/{KEY}",
    "x-ratelimit-remaining-tokens": KEY,
    "x-ratelimit-limit-requests": KEY,
    "anthropic-ratelimit-tokens-remaining": KEY,
    "anthropic-ratelimit-unified-status": KEY,
}
ERROR = {
    "message": f"no: {KEY}",
    "type": KEY,
    "code": KEY,
    "param": KEY,
    "details": {"error_code": KEY},
    "metadata": {"raw": KEY, "provider_name": KEY},
}


@pytest.fixture(scope="module")
def peer() -> Iterator[OddUpstream]:
    with odd_upstream() as found:
        yield found


@pytest.fixture(scope="module")
def gateway(peer: OddUpstream) -> Iterator[Stand]:
    def make(url: str) -> Settings:
        upstreams = {
            name: Upstream(
                base_url=f"{peer.url}/v1",
                dialect=name,
                profile="openai" if name == "responses" else "",
                key=Secret("env:NAME_OF_THE_KEY", KEY),
                retries=0,
                cooldown=0,
            )
            for name in DIALECTS
        }
        routes = tuple(
            Route(match=Match(model=f"{name}/*"), to=(f"{name}/*",)) for name in DIALECTS
        )
        return structs.replace(settings_for(url), upstreams=upstreams, routes=routes)

    with stand(make) as found:
        found.running.gateway.runtime.logger.secrets = (KEY,)
        yield found


def frames(upstream: str, *, begun: bool) -> list[bytes]:
    """Return a stream that fails with the key in every field, after a word if it is `begun`."""
    frames: list[dict[str, Any]]
    match upstream:
        case "chat":
            first = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "So"}}]}
            frames = [{"id": "c", "object": "chat.completion.chunk", **first}, {"error": ERROR}]
        case "anthropic":
            usage = {"input_tokens": 1, "output_tokens": 1}
            message = {"id": "m", "type": "message", "role": "assistant", "content": [],
                       "model": "m", "stop_reason": None, "usage": usage}  # fmt: skip
            frames = [
                {"type": "message_start", "message": message},
                {"type": "content_block_start", "index": 0,
                 "content_block": {"type": "text", "text": ""}},
                {"type": "content_block_delta", "index": 0,
                 "delta": {"type": "text_delta", "text": "So"}},
                {"type": "error", "error": ERROR, "request_id": KEY},
            ]  # fmt: skip
        case "gemini":
            said = {"candidates": [{"content": {"role": "model", "parts": [{"text": "So"}]}}]}
            frames = [said, {"error": {**ERROR, "code": 429, "status": KEY}}]
        case _:
            response = {"id": "resp_1", "object": "response", "output": [], "model": "m"}
            item = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
            part = {"type": "output_text", "text": "", "annotations": []}
            failed = {**response, "status": "failed", "error": ERROR}
            frames = [
                {"type": "response.created", "response": {**response, "status": "in_progress"}},
                {"type": "response.output_item.added", "output_index": 0,
                 "item": {**item, "status": "in_progress"}},
                {"type": "response.content_part.added", "item_id": "msg_1", "output_index": 0,
                 "content_index": 0, "part": part},
                {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
                 "content_index": 0, "delta": "So"},
                {"type": "response.failed", "response": failed},
            ]  # fmt: skip
    kept = frames if begun else frames[-1:]
    return [
        b"event: %b\ndata: %b\n\n"
        % (one.get("type", "message").encode(), json.dumps({"sequence_number": at, **one}).encode())
        for at, one in enumerate(kept)
    ]


def whole(upstream: str) -> bytes:
    """Return a complete answer with a good status that contains a failure."""
    if upstream == "anthropic":
        return json.dumps({"type": "error", "error": ERROR, "request_id": KEY}).encode()
    if upstream == "responses":
        failed = {"id": "resp_1", "object": "response", "status": "failed", "error": ERROR}
        return json.dumps({**failed, "output": [], "model": "m"}).encode()
    return json.dumps({"error": ERROR}).encode()


def events(upstream: str) -> bytes:
    """Return the other error that a Responses stream knows."""
    return b"".join(frames(upstream, begun=True)[:-1]) + b"event: error\ndata: %b\n\n" % (
        json.dumps({**ERROR, "type": "error", "error": ERROR}).encode()
    )


WAYS = {
    "status 400": lambda upstream: Reply(400, whole(upstream), HEADERS),
    "status 401": lambda upstream: Reply(401, whole(upstream), HEADERS),
    "status 404": lambda upstream: Reply(404, whole(upstream), HEADERS),
    "status 429": lambda upstream: Reply(429, whole(upstream), HEADERS),
    "status 500": lambda upstream: Reply(500, whole(upstream), HEADERS),
    "no JSON": lambda _: Reply(502, KEY.encode(), HEADERS),
    "redirect": lambda _: Reply(307, b"", HEADERS),
    "good status": lambda upstream: Reply(200, whole(upstream), HEADERS),
    "no answer": lambda _: Reply(200, b"<p>%b</p>" % KEY.encode(), HEADERS),
    "first event": lambda one: Reply(200, b"".join(frames(one, begun=False)), {**HEADERS, **SSE}),
    "later event": lambda one: Reply(200, b"".join(frames(one, begun=True)), {**HEADERS, **SSE}),
    "error event": lambda upstream: Reply(200, events(upstream), {**HEADERS, **SSE}),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@in_one_test
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("upstream", DIALECTS)
def test_key_in_any_field_of_a_failure_is_never_revealed(  # noqa: PLR0917 -- where it appears
    gateway: Stand, peer: OddUpstream, dialect: str, upstream: str, way: str, stream: bool
) -> None:
    peer.answer = lambda _asked: WAYS[way](upstream)

    got = post(gateway, dialect, question(dialect, f"{upstream}/m", stream=stream))
    logged(gateway, got.headers["request-id"])
    everything = got.text + repr(got.headers) + gateway.log.getvalue()

    assert KEY in str(peer.asked[-1].headers)
    assert KEY not in everything
    assert KEY.replace(" ", "%20") not in everything
    assert "NAME_OF_THE_KEY" not in got.text + repr(got.headers)


@pytest.mark.parametrize("status", [200, 400, 401, 429, 500])
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/responses/resp_1"),
        ("GET", "/v1/responses/resp_1/input_items"),
        ("POST", "/v1/responses/compact"),
        ("GET", "/v1/models"),
        ("POST", "/v1/responses/input_tokens"),
        ("POST", "/v1/messages/count_tokens"),
    ],
)
def test_key_in_an_answer_to_another_endpoint_is_never_revealed(
    gateway: Stand, peer: OddUpstream, method: str, path: str, status: int
) -> None:
    peer.answer = lambda _asked: Reply(status, whole("responses"), HEADERS)
    dialect = "anthropic" if "messages" in path else "responses"
    body = question(dialect, f"{dialect}/m", stream=False)
    got = post(gateway, dialect, body, path=path) if method == "POST" else get(gateway, path)
    logged(gateway, got.headers["request-id"])

    assert KEY not in got.text + repr(got.headers) + gateway.log.getvalue()
    assert "NAME_OF_THE_KEY" not in got.text + repr(got.headers)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_log_names_which_credential_was_refused(
    gateway: Stand, peer: OddUpstream, dialect: str
) -> None:
    peer.answer = lambda _asked: Reply(401, whole(dialect), HEADERS)

    got = post(gateway, dialect, question(dialect, f"{dialect}/m"))

    assert UNUSABLE[dialect] == got.status_code
    assert "upstream rejected the gateway's credentials" in got.text
    refused = notices(gateway, "credentials refused", upstream=dialect)
    assert {"env:NAME_OF_THE_KEY"} == {one["credential"] for one in refused}


def test_clients_own_key_that_goes_upstream_is_never_revealed(peer: OddUpstream) -> None:
    own = "own-key-of-the-client"
    said = json.dumps({"error": {"message": f"nobody is {own}"}}).encode()
    peer.answer = lambda _asked: Reply(401, said, {"content-type": "application/json"})

    def make(url: str) -> Settings:
        up = Upstream(base_url=f"{peer.url}/v1", dialect="gemini", retries=0, cooldown=0)
        route = Route(to=("up/*",), auth="passthrough")
        return structs.replace(settings_for(url), upstreams={"up": up}, routes=(route,))

    with stand(make) as found:
        shown = ""
        for how in ({"headers": {"x-goog-api-key": own}}, {"params": {"key": own}}):
            got = post(found, "gemini", question("gemini", "m", stream=False), **how)
            logged(found, got.headers["request-id"])
            assert own in str(peer.asked[-1].headers)
            shown += got.text
        assert 2 == shown.count("nobody is [redacted]")
        assert own not in found.log.getvalue()


# --- a user's token for an MCP server -----------------------------------------------------------------

# The gateway knows the token from the request alone.
WITH_TOKEN = deepcopy(SERVERS)
WITH_TOKEN["anthropic"]["mcp_servers"][0]["authorization_token"] = KEY
WITH_TOKEN["responses"]["tools"][0]["authorization"] = KEY
WITH_TOKEN["gemini"]["tools"][0]["mcpServers"][0]["streamableHttpTransport"]["headers"] = {
    "X-Notes": KEY
}
VENDORS = {"anthropic": "anthropic", "responses": "openai", "gemini": "gemini-api"}


@pytest.fixture(scope="module")
def calling_servers(peer: OddUpstream) -> Iterator[Stand]:
    def make(url: str) -> Settings:
        upstreams = {
            name: Upstream(
                base_url=f"{peer.url}/v1", dialect=name, profile=profile, retries=0, cooldown=0
            )
            for name, profile in VENDORS.items()
        }
        routes = tuple(
            Route(
                match=Match(model=f"{name}/*"),
                to=(f"{name}/*",),
                server_tools=RouteServerTools(mcp=True),
            )
            for name in VENDORS
        )
        plain = settings_for(url)
        log = structs.replace(plain.log, level="debug")
        return structs.replace(plain, upstreams=upstreams, routes=routes, log=log)

    with stand(make) as found:
        yield found


@pytest.mark.parametrize("dialect", VENDORS)
@in_one_test
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("upstream", VENDORS)
def test_token_for_an_mcp_server_in_any_field_of_a_failure_is_never_revealed(  # noqa: PLR0917 -- as above
    calling_servers: Stand,
    peer: OddUpstream,
    dialect: str,
    upstream: str,
    way: str,
    stream: bool,
) -> None:
    if (dialect, upstream) == ("gemini", "anthropic"):
        return  # Anthropic has no place for headers: the request is refused before anyone is asked
    peer.answer = lambda _asked: WAYS[way](upstream)

    body = question(dialect, f"{upstream}/m", stream=stream) | WITH_TOKEN[dialect]
    got = post(calling_servers, dialect, body)
    logged(calling_servers, got.headers["request-id"])

    assert KEY.encode() in peer.asked[-1].body
    assert KEY not in got.text + repr(got.headers) + calling_servers.log.getvalue()


@pytest.mark.parametrize("status", [400, 500])
def test_token_for_an_mcp_server_is_not_revealed_by_a_failure_to_compact(
    calling_servers: Stand, peer: OddUpstream, status: int
) -> None:
    peer.answer = lambda _asked: Reply(status, whole("responses"), HEADERS)

    body = question("responses", "responses/m", stream=False) | WITH_TOKEN["responses"]
    got = post(calling_servers, "responses", body, path="/v1/responses/compact")
    logged(calling_servers, got.headers["request-id"])

    assert KEY.encode() in peer.asked[-1].body
    assert KEY not in got.text + repr(got.headers) + calling_servers.log.getvalue()
