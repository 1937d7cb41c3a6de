"""Several clients behind one credential: each may name at the vendor what it was given, and nothing else."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import structs

from dragoman.gateway.config.settings import (
    Key,
    Match,
    Route,
    Secret,
    Server,
    Settings,
    Store,
    Upstream,
)
from tests.support.asking import get, post
from tests.support.gateway import Stand, settings_for, stand
from tests.support.odd_upstream import SSE, Asked, OddUpstream, Reply, odd_upstream

USAGE = {"input_tokens": 1, "output_tokens": 1}
MESSAGE = {
    "id": "msg_m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
    "content": [{"type": "text", "text": "So"}], "usage": USAGE,
    "container": {"id": "container_1", "expires_at": "2030-01-01T00:00:00Z"},
}  # fmt: skip
ITEM = {
    "id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
    "content": [{"type": "output_text", "text": "So", "annotations": []}],
}  # fmt: skip
RESPONSE = {
    "id": "resp_1", "object": "response", "status": "completed", "model": "m", "output": [ITEM],
    "usage": {**USAGE, "total_tokens": 2},
}  # fmt: skip


def stream_of(response: dict[str, Any]) -> bytes:
    begun = {**response, "status": "in_progress", "output": []}
    events = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": {**ITEM, "content": []}},
        {"type": "response.content_part.added", "item_id": "msg_1", "output_index": 0,
         "content_index": 0, "part": {"type": "output_text", "text": "", "annotations": []}},
        {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
         "content_index": 0, "delta": "So"},
        {"type": "response.output_text.done", "item_id": "msg_1", "output_index": 0,
         "content_index": 0, "text": "So"},
        {"type": "response.content_part.done", "item_id": "msg_1", "output_index": 0,
         "content_index": 0, "part": ITEM["content"][0]},
        {"type": "response.output_item.done", "output_index": 0, "item": ITEM},
        {"type": "response.completed", "response": response},
    ]  # fmt: skip
    return b"".join(
        b"event: %b\ndata: %b\n\n"
        % (one["type"].encode(), json.dumps({"sequence_number": at, **one}).encode())
        for at, one in enumerate(events)
    )


def vendor(asked: Asked) -> Reply:
    if "/messages" in asked.path:
        return Reply(200, json.dumps(MESSAGE).encode())
    if asked.method == "POST" and json.loads(asked.body or b"{}").get("stream"):
        return Reply(200, stream_of(RESPONSE), SSE)
    if "stream=true" in asked.path:
        return Reply(200, stream_of({**RESPONSE, "id": "resp_2"}), SSE)
    return Reply(200, json.dumps(RESPONSE).encode())


@contextmanager
def shared(
    *, keys: tuple[str, ...] = ("ann", "bob"), store: Store | None = None, auth: str = "own"
) -> Iterator[tuple[Stand, OddUpstream]]:
    with odd_upstream() as odd:
        odd.answer = vendor

        def make(url: str) -> Settings:
            upstreams = {
                name: Upstream(
                    base_url=f"{odd.url}/v1",
                    dialect=name,
                    profile="openai" if name != "anthropic" else "",
                    key=Secret("env:V", "vendor-key"),
                    retries=0,
                )
                for name in ("chat", "responses", "anthropic")
            }
            routes = [
                Route(match=Match(model=f"{name}-*"), to=(f"{name}/m",), auth=auth)
                for name in upstreams
            ]
            given = tuple(
                Key(
                    key=Secret("env:K", one),
                    name=one,
                    vendor_ids=("vs_shared*",) if one == "ann" else (),
                )
                for one in keys
            )
            return structs.replace(
                settings_for(url),
                server=Server(port=0, keys=given),
                upstreams=upstreams,
                routes=tuple(routes),
                store=store or Store(),
            )

        with stand(make) as found:
            yield found, odd


def say(found: Stand, key: str, path: str = "/v1/responses", **fields: Any) -> httpx2.Response:
    body = {"model": "responses-m", "input": "hi", **fields}
    return post(found, "responses", body, path=path, headers={"x-api-key": key})


NAMED = {
    "previous response": {"previous_response_id": "resp_1"},
    "item": {"input": [{"type": "item_reference", "id": "msg_1"}]},
    "item without a type": {"input": [{"id": "msg_1"}]},
}


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("case", NAMED)
@pytest.mark.parametrize(
    "path", ["/v1/responses", "/v1/responses/input_tokens", "/v1/responses/compact"]
)
def test_key_may_name_what_it_was_given_and_no_other_may(
    case: str, path: str, stream: bool
) -> None:
    with shared() as (found, odd):
        early = say(found, "ann", path, **NAMED[case])
        assert 0 == len(odd.asked)
        assert 200 == say(found, "ann", stream=stream).status_code
        before = len(odd.asked)
        other = say(found, "bob", path, **NAMED[case])
        refused_before_asking = len(odd.asked) == before
        own = say(found, "ann", path, **NAMED[case])

    assert {400, 404} >= {early.status_code, other.status_code}
    assert other.json()["error"]["code"] in ("previous_response_not_found", "item_not_found")
    assert "not found" in other.json()["error"]["message"]
    assert refused_before_asking
    assert 200 == own.status_code
    assert json.loads(odd.asked[-1].body).keys() >= {
        name for name in NAMED[case] if name != "input"
    }


def test_kept_response_is_shown_to_the_key_that_was_given_it() -> None:
    with shared() as (found, odd):
        say(found, "ann")
        asked = len(odd.asked)
        other = [
            get(found, f"/v1/responses/resp_1{more}", headers={"x-api-key": "bob"}).status_code
            for more in ("", "/input_items")
        ]
        unseen = len(odd.asked) == asked
        own = get(found, "/v1/responses/resp_1", headers={"x-api-key": "ann"})

    assert ([404, 404], True) == (other, unseen)
    assert (200, "resp_1") == (own.status_code, own.json()["id"])


def test_ids_of_a_stream_that_is_asked_for_again_are_given_too() -> None:
    with shared() as (found, _):
        say(found, "ann")
        again = get(found, "/v1/responses/resp_1?stream=true", headers={"x-api-key": "ann"})
        own = say(found, "ann", previous_response_id="resp_2")
        other = say(found, "bob", previous_response_id="resp_2")

    assert stream_of({**RESPONSE, "id": "resp_2"}) == again.content
    assert (200, 400) == (own.status_code, other.status_code)


@pytest.mark.parametrize("dialect", ["anthropic", "responses", "chat"])
def test_files_containers_and_the_like_are_refused_unless_given_or_allowed(dialect: str) -> None:
    model = f"{dialect}-m"
    part = {"type": "input_file", "file_id": "file_other"}
    bodies = {
        "responses": {"input": [{"role": "user", "content": [part]}]},
        "chat": {"messages": [{"role": "user", "content": [
            {"type": "file", "file": {"file_id": "file_other"}}]}]},
        "anthropic": {"max_tokens": 9, "messages": [{"role": "user", "content": [
            {"type": "document", "source": {"type": "file", "file_id": "file_other"}}]}]},
    }  # fmt: skip
    with shared() as (found, odd):
        answer = post(
            found, dialect, {"model": model, **bodies[dialect]}, headers={"x-api-key": "ann"}
        )
        crossed = post(
            found,
            "chat",
            {"model": "responses-m", **bodies["chat"]},
            headers={"x-api-key": "ann"},
        )

    assert (404, 404, 0) == (answer.status_code, crossed.status_code, len(odd.asked))
    assert "File with id 'file_other' not found." in answer.text


def test_container_that_a_message_gave_may_be_named_by_its_key() -> None:
    hello = [{"role": "user", "content": "hi"}]
    body = {"model": "anthropic-m", "max_tokens": 9, "messages": hello}
    with shared() as (found, _):
        statuses = [
            post(found, "anthropic", {**body, **more}, headers={"x-api-key": key}).status_code
            for key, more in (
                ("ann", {"container": "container_1"}),
                ("ann", {}),
                ("ann", {"container": "container_1"}),
                ("bob", {"container": "container_1"}),
            )
        ]

    assert [404, 200, 200, 404] == statuses


def test_operator_may_let_a_key_name_ids() -> None:
    tools = [{"type": "file_search", "vector_store_ids": ["vs_shared_1"]}]
    with shared() as (found, _):
        statuses = [say(found, key, tools=tools).status_code for key in ("ann", "bob")]

    assert [200, 404] == statuses


@pytest.mark.parametrize(("keys", "auth"), [(("ann",), "own"), (("ann", "bob"), "passthrough")])
def test_one_client_and_a_clients_own_credential_are_left_to_the_vendor(
    keys: tuple[str, ...], auth: str
) -> None:
    with shared(keys=keys, auth=auth) as (found, odd):
        answer = say(found, "ann", previous_response_id="resp_elsewhere")

    assert (200, 1) == (answer.status_code, len(odd.asked))


def test_ids_survive_a_restart_with_a_file_and_are_refused_without(tmp_path: Path) -> None:
    for store, expected in (
        (Store(responses="sqlite", path=str(tmp_path / "r.sqlite")), (200, 400)),
        (Store(responses="memory"), (400, 400)),
        (Store(responses="off"), (400, 400)),
    ):
        with shared(store=store) as (found, _):
            assert 200 == say(found, "ann").status_code
            assert 200 == say(found, "ann", previous_response_id="resp_1").status_code
        with shared(store=store) as (found, odd):
            statuses = tuple(
                say(found, key, previous_response_id="resp_1").status_code for key in ("ann", "bob")
            )
            assert sum(status == 200 for status in statuses) == len(odd.asked)

        assert expected == statuses
