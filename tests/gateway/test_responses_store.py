"""Responses that are kept: `previous_response_id`, `item_reference`, retrieve, delete, and a restart."""

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from msgspec import structs

from dragoman.gateway import models, token_counting
from dragoman.gateway.app import all_endpoints
from dragoman.gateway.config.settings import (
    Key,
    Match,
    Route,
    Secret,
    Server,
    Settings,
    Store,
    Timeouts,
    Upstream,
)
from tests.support.asking import get, post
from tests.support.gateway import Stand, settings_for, stand
from tests.support.odd_upstream import SSE, Asked, Gate, Reply, odd_upstream
from tests.support.raw_http import RawClient
from tests.support.received import received
from tests.support.simulator import WEATHER, declared, question
from tests.support.talks import Sdks, responses_said

TOOLS = [declared("responses", WEATHER)]
UPSTREAMS = ("chat", "anthropic", "responses")
ways = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
upstreams = pytest.mark.parametrize("upstream", UPSTREAMS)


def ask(client: openai.OpenAI, *, stream: bool = False, **fields: Any):
    """Ask with the SDK; return the final response."""
    if not stream:
        return client.responses.create(**fields)
    with client.responses.stream(**fields) as events:
        return events.until_done().get_final_response()


def echoed(upstream: str, previous: str) -> str | None:
    """Return the id of the answer that an answer continues; a relayed one has none."""
    return None if upstream == "responses" else previous


@upstreams
@ways
def test_conversation_goes_on_from_a_kept_response(
    gateway: Stand, sdks: Sdks, upstream: str, stream: bool
) -> None:
    client = sdks.openai
    common = {"model": f"{upstream}/plain", "stream": stream}
    first = ask(client, input="My name is Ulf.", instructions="Be short.", **common)
    second = ask(client, input="And I am old.", previous_response_id=first.id, **common)
    third = ask(client, input="Who am I?", previous_response_id=second.id, **common)
    body = str(gateway.simulator.exchanges[-1].json)

    assert first.id.startswith("resp_")
    assert 3 == len({first.id, second.id, third.id})
    assert echoed(upstream, second.id) == third.previous_response_id
    assert "this is answer number 3" in third.output_text
    for said in ("My name is Ulf.", first.output_text, "And I am old.", second.output_text):
        assert said in body
    # Instructions are those of the request alone.
    assert "Be short." not in body


@upstreams
@ways
def test_tool_loop_goes_on_from_a_kept_response_with_its_reasoning(
    gateway: Stand, sdks: Sdks, upstream: str, stream: bool
) -> None:
    client = sdks.openai
    common = {"model": f"{upstream}/plain+think+parallel:2", "tools": TOOLS, "stream": stream}
    first = ask(client, input="How is it in Ulm?", **common)
    ids = responses_said(first.to_dict(mode="json")).ids
    results = [
        {"type": "function_call_output", "call_id": call_id, "output": f"it is {number}"}
        for number, call_id in enumerate(ids)
    ]
    last = ask(client, input=results, previous_response_id=first.id, **common)
    history = received(gateway.simulator.exchanges[-1])

    assert 2 == len(ids)
    assert ids == history.ids
    assert [*zip(ids, ("it is 0", "it is 1"), strict=True)] == [*history.results]
    assert "it is 1" in last.output_text
    if upstream == "anthropic":
        assert (1, 1) == (len(history.reasoning), len(history.state))


@upstreams
@ways
def test_kept_response_is_retrieved_listed_and_deleted(
    sdks: Sdks, upstream: str, stream: bool
) -> None:
    client = sdks.openai
    common = {"model": f"{upstream}/plain", "stream": stream}
    first = ask(client, input="One", **common)
    second = ask(client, input="Two", previous_response_id=first.id, **common)
    kept = client.responses.retrieve(second.id)
    items = [*client.responses.input_items.list(second.id, order="asc")]
    newest = client.responses.input_items.list(second.id, limit=1)
    client.responses.delete(second.id)

    assert second.to_dict(mode="json").keys() >= kept.to_dict(mode="json").keys() - {"parsed"}
    assert (second.id, second.output_text) == (kept.id, kept.output_text)
    assert echoed(upstream, first.id) == kept.previous_response_id
    assert "completed" == kept.status
    assert ["user", "assistant", "user"] == [item.role for item in items]
    assert ["One", first.output_text, "Two"] == [item.content[0].text for item in items]
    assert ["Two"] == [item.content[0].text for item in newest.data]
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(second.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.delete(second.id)
    # The one it went on from is still there.
    assert first.id == client.responses.retrieve(first.id).id


@pytest.mark.parametrize("upstream", ["chat", "anthropic", "responses"])
@ways
def test_response_that_is_not_to_be_stored_is_not_kept(
    sdks: Sdks, upstream: str, stream: bool
) -> None:
    client = sdks.openai
    said = ask(client, model=f"{upstream}/plain", input="One", store=False, stream=stream)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(said.id)
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, model=f"{upstream}/plain", input="Two", previous_response_id=said.id)

    assert "previous_response_not_found" == caught.value.code
    assert "previous_response_id" == caught.value.param


@upstreams
@ways
def test_unknown_previous_response_is_refused(sdks: Sdks, upstream: str, stream: bool) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        ask(
            sdks.openai,
            model=f"{upstream}/plain",
            input="Two",
            previous_response_id="resp_nobody",
            stream=stream,
        )

    assert "previous_response_not_found" == caught.value.code
    assert "previous_response_id" == caught.value.param


@pytest.mark.parametrize("upstream", ["chat", "anthropic"])
def test_references_to_items_are_resolved_as_ai_sdks_replay_them(
    gateway: Stand, sdks: Sdks, upstream: str
) -> None:
    client = sdks.openai
    common = {"model": f"{upstream}/plain+think", "tools": TOOLS}
    first = ask(client, input="How is it in Ulm?", **common)
    output = first.to_dict(mode="json")["output"]
    (call,) = (item for item in output if item["type"] == "function_call")
    replayed = [
        {"role": "user", "content": [{"type": "input_text", "text": "How is it in Ulm?"}]},
        *({"type": "item_reference", "id": item["id"]} for item in output),
        {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"},
    ]
    last = ask(client, input=replayed, **common)
    history = received(gateway.simulator.exchanges[-1])

    assert ["reasoning", "message", "function_call"] == [item["type"] for item in output]
    assert "sunny" in last.output_text
    assert [call["call_id"]] == history.ids
    assert ((call["call_id"], "sunny"),) == history.results


def test_reference_to_an_unknown_item_is_refused_unless_it_is_reasoning(sdks: Sdks) -> None:
    client = sdks.openai
    turn = {"role": "user", "content": "hello"}
    lost = ask(client, model="chat/plain", input=[turn, {"type": "item_reference", "id": "rs_x"}])
    with pytest.raises(openai.BadRequestError) as caught:
        ask(client, model="chat/plain", input=[turn, {"type": "item_reference", "id": "msg_x"}])

    assert "completed" == lost.status
    assert "msg_x" in str(caught.value)


def test_response_that_ended_cannot_be_cancelled(sdks: Sdks) -> None:
    said = ask(sdks.openai, model="chat/plain", input="One")
    with pytest.raises(openai.BadRequestError):
        sdks.openai.responses.cancel(said.id)
    with pytest.raises(openai.NotFoundError):
        sdks.openai.responses.cancel("resp_nobody")


def with_file(path: Path, keys: tuple[str, ...] = (), store: str = "sqlite", *, named: bool = True):
    def make(url: str) -> Settings:
        given = tuple(Key(key=Secret("env:K", key), name=key if named else "") for key in keys)
        return structs.replace(
            settings_for(url),
            server=Server(port=0, keys=given, seal_key=Secret("env:S", "0123456789abcdef")),
            store=Store(responses=store, path=str(path)),
        )

    return make


def test_file_of_responses_survives_a_restart(tmp_path: Path) -> None:
    make = with_file(tmp_path / "responses.sqlite")
    model = "anthropic/plain+think"
    with stand(make) as before, Sdks(before.url) as sdks:
        first = ask(sdks.openai, model=model, input="How is it in Ulm?", tools=TOOLS, stream=True)
    ((call_id, _, _),) = responses_said(first.to_dict(mode="json")).calls
    results = [{"type": "function_call_output", "call_id": call_id, "output": "sunny"}]
    with stand(make) as after, Sdks(after.url) as sdks:
        kept = sdks.openai.responses.retrieve(first.id)
        last = ask(
            sdks.openai, model=model, input=results, tools=TOOLS, previous_response_id=first.id
        )
        history = received(after.simulator.exchanges[-1])

    assert first.to_dict(mode="json")["output"][0] == kept.to_dict(mode="json")["output"][0]
    assert "sunny" in last.output_text
    # The state of the reasoning was sealed with a key of the settings.
    assert (1, [call_id]) == (len(history.state), history.ids)


def test_responses_of_one_key_do_not_exist_for_another(tmp_path: Path) -> None:
    make = with_file(tmp_path / "responses.sqlite", ("ann", "bob"))
    with stand(make) as found, Sdks(found.url, "ann") as ann, Sdks(found.url, "bob") as bob:
        said = ask(ann.openai, model="chat/plain", input="A secret")
        with pytest.raises(openai.NotFoundError):
            bob.openai.responses.retrieve(said.id)
        with pytest.raises(openai.BadRequestError) as caught:
            ask(bob.openai, model="chat/plain", input="What?", previous_response_id=said.id)

    assert "previous_response_not_found" == caught.value.code


def test_withdrawn_key_hands_its_responses_to_no_other(tmp_path: Path) -> None:
    path = tmp_path / "responses.sqlite"
    with stand(with_file(path, ("ann", "bob"), named=False)) as found:
        with Sdks(found.url, "ann") as ann, Sdks(found.url, "bob") as bob:
            hers = ask(ann.openai, model="chat/plain", input="A secret")
            his = ask(bob.openai, model="chat/plain", input="Mine")
        found.running.reload(with_file(path, ("bob",), named=False)(found.simulator.url))
        with Sdks(found.url, "bob") as bob, pytest.raises(openai.NotFoundError):
            bob.openai.responses.retrieve(hers.id)
    with (
        stand(with_file(path, ("bob",), named=False)) as found,
        Sdks(found.url, "bob") as bob,
    ):
        with pytest.raises(openai.NotFoundError):
            bob.openai.responses.retrieve(hers.id)
        with pytest.raises(openai.BadRequestError):
            ask(bob.openai, model="chat/plain", input="What?", previous_response_id=hers.id)
        assert his.id == bob.openai.responses.retrieve(his.id).id


@pytest.mark.parametrize("dialect", ["anthropic", "responses"])
def test_envelope_opens_for_the_key_it_was_made_for_and_for_no_other(
    tmp_path: Path, dialect: str
) -> None:
    make = with_file(tmp_path / "responses.sqlite", ("ann", "bob"), store="off")
    other = {"anthropic": "responses", "responses": "anthropic"}[dialect]
    model = f"{other}/plain+think"
    with stand(make) as found:

        def say(key: str, history: list[Any]):
            body: dict[str, Any] = {"model": model, "tools": [declared(dialect, WEATHER)]}
            if dialect == "responses":
                body |= {"input": history, "include": ["reasoning.encrypted_content"]}
            else:
                thinking = {"type": "enabled", "budget_tokens": 2000}
                body |= {"messages": history, "max_tokens": 4000, "thinking": thinking}
            return post(found, dialect, body, headers={"x-api-key": key})

        asked = {"role": "user", "content": "How is it in Ulm?"}
        first = say("ann", [asked]).json()
        if dialect == "responses":
            said = first["output"]
            (call,) = (item for item in said if item["type"] == "function_call")
            result = {"type": "function_call_output", "call_id": call["call_id"], "output": "fine"}
            history = [asked, *said, result]
        else:
            (call,) = (block for block in first["content"] if block["type"] == "tool_use")
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": "fine"}
            said = {"role": "assistant", "content": first["content"]}
            history = [asked, said, {"role": "user", "content": [result]}]
        found.running.gateway.runtime.memory._slots.clear()
        outcomes = {}
        for key in ("ann", "bob"):
            answer = say(key, history)
            assert 200 == answer.status_code, answer.text
            state = received(found.simulator.exchanges[-1]).state
            warned = "opaque_invalid" in answer.headers.get("x-dragoman-warnings", "")
            outcomes[key] = (len(state), warned)

    assert "dgm1." in json.dumps(first)
    assert {"ann": (1, False), "bob": (0, True)} == outcomes


def test_store_that_is_off_is_reported(tmp_path: Path) -> None:
    with stand(with_file(tmp_path / "none", store="off")) as found, Sdks(found.url) as sdks:
        said = ask(sdks.openai, model="chat/plain", input="One")
        with pytest.raises(openai.NotFoundError) as caught:
            sdks.openai.responses.retrieve(said.id)
        with pytest.raises(openai.BadRequestError) as refused:
            ask(sdks.openai, model="chat/plain", input="Two", previous_response_id=said.id)

    assert "[store]" in str(caught.value)
    assert "previous_response_not_found" == refused.value.code


# --- kept by the upstream -----------------------------------------------------------------------------

KEPT = {"id": "resp_7", "object": "response", "status": "completed", "output": []}
ITEMS = {"object": "list", "data": [{"id": "msg_1"}], "has_more": False}


def keeper(asked: Asked) -> Reply:
    """Play a vendor that keeps its own responses."""
    path = asked.path.partition("?")[0].removeprefix("/v1")
    match asked.method, path:
        case "POST", "/responses/compact":
            reply: Any = {"object": "response.compaction", "model": json.loads(asked.body)["model"]}
        case "GET", "/responses/resp_7":
            reply = KEPT
        case "DELETE", "/responses/resp_7":
            reply = {"id": "resp_7", "object": "response", "deleted": True}
        case "GET", "/responses/resp_7/input_items":
            reply = ITEMS
        case "POST", "/responses/resp_7/cancel":
            reply = {**KEPT, "status": "cancelled"}
        case _:
            return Reply(404, b'{"error": {"message": "no"}}')
    return Reply(200, json.dumps(reply).encode())


@contextmanager
def kept_there(*, keys: tuple[str, ...] = (), auth: str = "own") -> Iterator[tuple[Stand, Any]]:
    with odd_upstream() as odd:
        odd.answer = keeper
        vendor = Upstream(
            base_url=f"{odd.url}/v1",
            dialect="responses",
            profile="openai",
            key=Secret("env:V", "vendor-key"),
        )

        def make(url: str) -> Settings:
            plain = settings_for(url)
            route = Route(match=Match(model="gpt-*"), to=("vendor/*",), auth=auth)
            shown = tuple(Key(key=Secret("env:K", key)) for key in keys)
            return structs.replace(
                plain,
                server=Server(port=0, keys=shown),
                upstreams={**plain.upstreams, "vendor": vendor},
                routes=(route, *plain.routes),
            )

        with stand(make) as found:
            yield found, odd


def test_response_that_an_upstream_keeps_is_asked_for_there() -> None:
    with kept_there() as (found, odd):
        client = openai.OpenAI(base_url=f"{found.url}/v1", api_key="mine", max_retries=0)
        with client:
            got = client.responses.retrieve("resp_7", include=["reasoning.encrypted_content"])
            items = list(client.responses.input_items.list("resp_7"))
            cancelled = client.responses.cancel("resp_7")
            client.responses.delete("resp_7")
            with pytest.raises(openai.NotFoundError) as caught:
                client.responses.retrieve("resp_8")

    assert ("resp_7", ["msg_1"], "cancelled") == (
        got.id,
        [one.id for one in items],
        cancelled.status,
    )
    assert "response_not_found" == caught.value.code
    assert "include" in odd.asked[0].path
    assert {"Bearer vendor-key"} == {one.headers["authorization"] for one in odd.asked}


@pytest.mark.parametrize(
    "wrong", ["%2e%2e", "a%2Fb", "..", "a%3Fb", "resp_7%0d%0a", "%2e%2e/input_items"]
)
def test_what_is_no_id_leads_nowhere_at_an_upstream(wrong: str) -> None:
    with (
        kept_there() as (found, odd),
        RawClient(found.url, f"/v1/responses/{wrong}", b"", method="GET") as client,
    ):
        status = client.head()

    assert (404, []) == (status, odd.asked)


def test_response_that_an_upstream_keeps_is_not_shown_to_another_client() -> None:
    with kept_there(keys=("one", "two")) as (found, odd):
        shared = get(found, "/v1/responses/resp_7", headers={"x-api-key": "one"})
        asked = len(odd.asked)
    with kept_there(keys=("one", "two"), auth="passthrough") as (found, odd):
        own = get(found, "/v1/responses/resp_7", headers={"authorization": "Bearer one"})

    assert (404, 0) == (shared.status_code, asked)
    assert 200 == own.status_code
    assert ["Bearer one"] == [one.headers["authorization"] for one in odd.asked]


def test_conversation_is_compacted_by_an_upstream_of_this_dialect_alone() -> None:
    with kept_there() as (found, odd):
        asked = {"model": "gpt-5", "input": "Long."}
        done = post(found, "responses", asked, path="/v1/responses/compact")
        other = post(
            found, "responses", {**asked, "model": "chat/plain"}, path="/v1/responses/compact"
        )
        odd.answer_with(429, {"error": {"message": "slowly"}}, retry_after="7")
        busy = post(found, "responses", asked, path="/v1/responses/compact")

    assert {"object": "response.compaction", "model": "gpt-5"} == done.json()
    assert (404, "unknown_url") == (other.status_code, other.json()["error"]["code"])
    assert (429, "7") == (busy.status_code, busy.headers["retry-after"])
    assert "vendor: slowly" == busy.json()["error"]["message"]


# --- upstreams that keep responses, and stop in the middle -------------------------------------------


@contextmanager
def silent_keeper(body: list[bytes], headers: dict[str, str]) -> Iterator[tuple[Stand, Gate]]:
    """Run a gateway whose vendor sends headers and some bytes, then nothing until the gate opens."""
    gate = Gate()
    with odd_upstream() as odd:
        odd.answer = lambda _asked: Reply(200, itertools.chain(body, gate.each([b""])), headers)
        vendor = Upstream(
            base_url=f"{odd.url}/v1",
            dialect="responses",
            profile="openai",
            timeouts=Timeouts(first_byte=0.5, idle=0.5),
        )

        def make(url: str) -> Settings:
            plain = settings_for(url, store=Store(responses="off"))
            route = Route(match=Match(model="gpt-*"), to=("vendor/*",))
            return structs.replace(plain, upstreams={"vendor": vendor}, routes=(route,))

        with stand(make) as found:
            try:
                yield found, gate
            finally:
                gate.open(10)


JSON = {"content-type": "application/json"}


ASKING = [
    (method, one.path)
    for one in all_endpoints()
    if one.asks
    for method in one.methods
    if method != "HEAD"
]


@pytest.mark.parametrize("body", [[], [b'{"id": ']], ids=["headers-alone", "half-a-body"])
@pytest.mark.parametrize(("method", "path"), ASKING, ids=[" ".join(one) for one in ASKING])
def test_vendor_that_is_silent_after_its_headers_is_given_up(
    method: str, path: str, body: list[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(token_counting, "_SECONDS", 0.5)
    monkeypatch.setattr(models, "_ASK_SECONDS", 0.5)
    dialect = "chat" if "chat" in path else "anthropic" if "messages" in path else "responses"
    asked = question(dialect, "gpt-x", stream=False)
    path = f"/v1{path}".replace("{id}", "resp_7").replace("{rest}", "gpt-x")
    with silent_keeper(body, JSON) as (found, _gate):
        sent = {"json": asked} if method == "POST" else {}
        got = httpx2.request(method, f"{found.url}{path}", timeout=60, verify=False, **sent)

    if "count_tokens" in path or "input_tokens" in path:
        assert (200, True) == (got.status_code, got.json()["input_tokens"] > 0)  # an estimate
    elif "/models" in path:
        assert got.status_code in {200, 404}  # what the settings name
    else:
        assert 504 == got.status_code
        said = got.json()["error"]["message"]
        assert "silent for 0.5 s" in said or "no answer within 0.5 s" in said


def test_vendor_error_that_never_ends_is_given_up() -> None:
    with silent_keeper([b'{"error": '], JSON) as (found, gate):
        pieces = itertools.chain([b'{"error": '], gate.each([b""]))
        with odd_upstream() as odd:
            odd.answer = lambda _asked: Reply(500, pieces, JSON)
            plan = found.running.gateway.plan.settings
            moved = structs.replace(plan.upstreams["vendor"], base_url=f"{odd.url}/v1")
            changed = structs.replace(plan, upstreams={"vendor": moved})
            found.do(reloaded(found, changed))
            got = get(found, "/v1/responses/resp_7")
            gate.open()

    assert 504 == got.status_code


async def reloaded(found: Stand, settings: Settings) -> None:
    found.running.reload(settings)


@pytest.mark.parametrize("behind", [b"data: EVIL\n\n", b": EVIL\n\n", b"EVIL"])
@pytest.mark.parametrize("end", ["completed", "incomplete", "failed"])
def test_nothing_is_relayed_behind_the_end_of_a_kept_stream(end: str, behind: bytes) -> None:
    kind = f"response.{end}"
    last = f'event: {kind}\ndata: {{"type":"{kind}","sequence_number":1,"response":{{}}}}\n\n'
    with silent_keeper([last.encode() + behind], SSE) as (found, gate):
        gate.open()
        got = get(found, "/v1/responses/resp_7?stream=true")

    assert last == got.text


def test_relayed_stream_that_falls_silent_ends_with_an_error_event() -> None:
    first = b'event: response.output_text.delta\ndata: {"type":"x","sequence_number":41}\n\n'
    with silent_keeper([first], SSE) as (found, _gate):
        got = get(found, "/v1/responses/resp_7?stream=true")

    *_, last = [one for one in got.text.split("\n\n") if one]
    event = json.loads(last.partition("data: ")[2])
    assert (200, True) == (got.status_code, got.text.startswith(first.decode()))
    assert ("error", "idle_timeout", 42) == (event["type"], event["code"], event["sequence_number"])
