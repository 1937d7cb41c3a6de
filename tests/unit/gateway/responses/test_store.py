"""Answers kept between requests: put back byte for byte, bounded, and each owner's own."""

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from msgspec import Raw
from openai.types.responses import Response

from dragoman.context import Rendering
from dragoman.dialects.stored_responses import (
    Expanded,
    Page,
)
from dragoman.envelopes import Sealer
from dragoman.errors import MalformedError
from dragoman.gateway.config.settings import Store
from dragoman.gateway.responses.store import ResponsesStore, open_store
from dragoman.gateway.vendor_ids import MAX_IDS
from dragoman.translate import Translator, translate_body
from dragoman.translate_requests import read_request, translate_request
from dragoman.turn.events import FaultKind
from tests.support.stored_responses import CALL, request, response, with_store

THOUGHT = b'{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm."}]}'
RESULT = b'{"type":"function_call_output","call_id":"call_1","output":"a  b"}'


class Clock:
    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def items_of(body: bytes) -> list[bytes]:
    fields = msgspec.json.decode(body, type=dict[str, Raw])
    return [bytes(raw) for raw in msgspec.json.decode(fields["input"], type=list[Raw])]


def test_request_that_names_nothing_is_not_touched() -> None:
    body = request(b' [ {"role":"user", "content":"hi"} ] ')

    async def work(store: ResponsesStore) -> None:
        assert Expanded(body) == await store.expand(body, "a")

    with_store(work)


def test_conversation_is_put_before_the_new_input_byte_for_byte() -> None:
    async def work(store: ResponsesStore) -> None:
        first = request(b'"h\\u00e9 "')
        await store.keep("a", first, response("resp_1", THOUGHT, CALL))
        second = await store.expand(
            request(b"[%b]" % RESULT, previous_response_id="resp_1", instructions="new"), "a"
        )
        await store.keep("a", second.body, response("resp_2"))
        third = await store.expand(request(previous_response_id="resp_2"), "a")

        begin = [b'{"type":"message","role":"user","content":"h\\u00e9 "}', THOUGHT, CALL, RESULT]
        assert begin == items_of(second.body)
        assert [*begin, b'{"type":"message","role":"user","content":"hi"}'] == items_of(third.body)
        assert "resp_1" == second.previous_id
        assert b"previous_response_id" not in second.body
        assert b'"instructions":"new"' in second.body

    with_store(work)


@pytest.mark.parametrize("owner", ["a", "b"])
def test_unknown_answer_is_refused(owner: str) -> None:
    async def work(store: ResponsesStore) -> None:
        await store.keep("a", request(), response("resp_1"))
        name = "resp_2" if owner == "a" else "resp_1"  # another owner's is as unknown
        with pytest.raises(MalformedError) as caught:
            await store.expand(request(previous_response_id=name), owner)

        assert "previous_response_not_found" == caught.value.code
        assert "$.previous_response_id" == caught.value.path

    with_store(work)


def test_references_become_the_items_of_ai_sdk() -> None:
    """`@ai-sdk/openai` replays what it was answered as references."""
    references = b",".join(
        b'{"type":"item_reference","id":"%b"}' % name for name in (b"rs_1", b"fc_1")
    )

    async def work(store: ResponsesStore) -> None:
        await store.keep("a", request(), response("resp_1", THOUGHT, CALL))
        body = (await store.expand(request(b"[%b,%b]" % (references, RESULT)), "a")).body

        assert [THOUGHT, CALL, RESULT] == items_of(body)

    with_store(work)


def test_reference_to_what_another_owner_has_is_refused_with_its_path() -> None:
    reference = b'[{"type":"item_reference","id":"fc_1"}]'

    async def work(store: ResponsesStore) -> None:
        await store.keep("a", request(), response("resp_1", CALL))
        with pytest.raises(MalformedError) as caught:
            await store.expand(request(reference), "b")

        assert ("item_not_found", "$.input[0].id") == (caught.value.code, caught.value.path)

    with_store(work)


def test_client_that_sends_store_false_is_not_kept() -> None:
    async def work(store: ResponsesStore) -> None:
        assert not await store.keep("a", request(store=False), response("resp_1"))
        assert await store.get("resp_1", "a") is None

    with_store(work)


def test_answer_is_given_back_whole() -> None:
    body = response("resp_1", CALL, tools=[{"type": "function"}], instructions=None, usage={"n": 1})

    async def work(store: ResponsesStore) -> None:
        assert await store.keep("a", request(store=True), body)
        kept = await store.get("resp_1", "a")

        assert kept is not None
        assert json.loads(body) == json.loads(kept)
        assert await store.get("resp_1", "b") is None

    with_store(work)


def test_input_of_an_answer_is_listed_for_its_owner_alone() -> None:
    async def work(store: ResponsesStore) -> None:
        await store.keep("a", request(b"[%b]" % RESULT), response("resp_1"))
        listed = json.loads(await store.input_items("resp_1", "a", Page()) or b"")

        assert ["function_call_output"] == [item["type"] for item in listed["data"]]
        assert await store.input_items("resp_1", "b", Page()) is None

    with_store(work)


def test_deleted_answer_is_gone_and_its_items_too() -> None:
    async def work(store: ResponsesStore) -> None:
        await store.keep("a", request(), response("resp_1", CALL))
        assert await store.delete("resp_1", "b") is None
        deleted = await store.delete("resp_1", "a")

        assert {"id": "resp_1", "object": "response", "deleted": True} == json.loads(deleted or b"")
        assert await store.delete("resp_1", "a") is None
        assert await store.get("resp_1", "a") is None
        with pytest.raises(MalformedError):
            await store.expand(request(b'[{"type":"item_reference","id":"fc_1"}]'), "a")

    with_store(work)


def test_deleting_an_answer_leaves_what_later_ones_share_with_it() -> None:
    async def work(store: ResponsesStore) -> None:
        await store.keep("a", request(), response("resp_1", CALL))
        second = await store.expand(request(b"[%b]" % RESULT, previous_response_id="resp_1"), "a")
        await store.keep("a", second.body, response("resp_2"))
        await store.delete("resp_1", "a")
        third = await store.expand(request(previous_response_id="resp_2"), "a")

        assert items_of(second.body) == items_of(third.body)[:3]

    with_store(work)


def test_same_id_again_takes_the_place_of_the_first() -> None:
    async def work(store: ResponsesStore) -> None:
        await store.keep("a", request(), response("resp_1", CALL))
        await store.keep("a", request(), response("resp_1", THOUGHT))
        kept = await store.get("resp_1", "a")

        assert [json.loads(THOUGHT)] == json.loads(kept or b"")["output"]

    with_store(work)


def test_no_answer_can_be_cancelled() -> None:
    async def work(store: ResponsesStore) -> None:
        await store.keep("a", request(), response("resp_1"))

        assert FaultKind.BAD_REQUEST is (await store.cancel("resp_1", "a")).kind
        assert await store.cancel("resp_1", "b") is None

    with_store(work)


def test_oldest_answers_go_when_there_is_no_room() -> None:
    async def work(store: ResponsesStore) -> None:
        for n in range(60):
            text = json.dumps(f"{n} " + "x" * 20_000).encode()
            assert await store.keep("a", request(text), response(f"resp_{n}"))
        kept = [n for n in range(60) if await store.get(f"resp_{n}", "a") is not None]

        assert 10 < len(kept) < 30
        assert kept == list(range(60 - len(kept), 60))

    with_store(work, max_bytes=500_000)


def test_owner_cannot_push_out_what_another_one_keeps() -> None:
    async def work(store: ResponsesStore) -> None:
        for n in range(8):
            text = json.dumps(f"{n} " + "x" * 20_000).encode()
            assert await store.keep("b", request(text), response(f"resp_{n}"))
        for n in range(200):
            text = json.dumps(f"{n} " + "x" * 20_000).encode()
            assert await store.keep("a", request(text), response(f"resp_{n}"))

        assert [n for n in range(8) if await store.get(f"resp_{n}", "b") is None] == []
        assert 5 < len([n for n in range(200) if await store.get(f"resp_{n}", "a")]) < 15

    with_store(work, max_bytes=500_000, owners=("a", "b"))


def test_answers_of_a_key_that_was_withdrawn_make_room_first() -> None:
    async def work(store: ResponsesStore) -> None:
        for owner in ("old", "a", "b"):
            for n in range(8):
                text = json.dumps(f"{n} " + "x" * 20_000).encode()
                assert await store.keep(owner, request(text), response(f"resp_{n}"))
            store.set_owners(("a", "b"))
        kept = {
            owner: len([n for n in range(8) if await store.get(f"resp_{n}", owner)])
            for owner in ("old", "a", "b")
        }

        assert {"a": 8, "b": 8} == {owner: kept[owner] for owner in ("a", "b")}
        assert kept["old"] < 8

    with_store(work, max_bytes=400_000, owners=("old",))


def test_given_ids_are_each_owners_own_bounded_and_as_old_as_answers_may_be() -> None:
    clock = Clock()

    async def work(store: ResponsesStore) -> None:
        await store.note_given("b", ["resp_b"])
        await store.note_given("a", [f"resp_{n}" for n in range(MAX_IDS)])
        await store.note_given("a", ["resp_0", "resp_new"])
        asked = ["resp_0", "resp_1", "resp_2", "resp_b", "resp_new"]

        assert {"resp_0", "resp_2", "resp_new"} == await store.find_given("a", asked)
        assert {"resp_b"} == await store.find_given("b", asked)
        clock.now += 4 * 86_400
        assert set() == await store.find_given("a", asked)

    with_store(work, max_age_days=3, clock=clock)


def test_answer_without_room_of_its_own_is_not_kept_and_costs_no_other() -> None:
    async def work(store: ResponsesStore) -> None:
        await store.keep("a", request(), response("resp_1"))
        large = request(json.dumps("x" * 600_000).encode())

        assert not await store.keep("a", large, response("resp_2"))
        assert await store.get("resp_1", "a") is not None

    with_store(work, max_bytes=500_000)


def test_conversation_takes_room_for_its_turns_not_for_every_request() -> None:
    async def work(store: ResponsesStore) -> None:
        body = request()
        for n in range(100):
            assert await store.keep("a", body, response(f"resp_{n}", CALL, tools=["x" * 9000]))
            new = b'{"role":"user","content":"%d %b"}' % (n, b"x" * 2000)
            body = request(b"[%b]" % new, previous_response_id=f"resp_{n}")
            body = (await store.expand(body, "a")).body

        assert len(body) > 200_000  # so that a hundred of them would be ten megabytes and more
        assert await store.get("resp_0", "a") is not None

    with_store(work, max_bytes=500_000)


def test_answer_that_is_too_old_is_gone() -> None:
    clock = Clock()

    async def work(store: ResponsesStore) -> None:
        await store.keep("a", request(), response("resp_1"))
        clock.now += 2 * 86_400
        before = await store.get("resp_1", "a")
        clock.now += 2 * 86_400

        assert before is not None
        assert await store.get("resp_1", "a") is None  # though nothing was written since
        await store.keep("a", request(), response("resp_2"))
        assert not await store.delete("resp_1", "a")

    with_store(work, max_age_days=3, clock=clock)


def test_settings_choose_the_store(tmp_path: Path) -> None:
    async def work() -> None:
        environ = {"XDG_STATE_HOME": str(tmp_path)}
        assert await open_store(Store(responses="off"), environ=environ) is None
        for settings in (Store(responses="memory"), Store(responses="sqlite")):
            store = await open_store(settings, environ=environ)
            assert store is not None
            await store.close()

    asyncio.run(work())

    assert ["responses.sqlite"] == [one.name for one in (tmp_path / "dragoman").iterdir()]


@pytest.mark.parametrize(("encrypted", "expected"), [("always", "thinking"), ("asked", "tool_use")])
def test_kept_answer_has_the_reasoning_that_its_upstream_signed(
    encrypted: str, expected: str
) -> None:
    """A client that leaves its items with us does not ask for state; the next request needs it."""
    sealer = Sealer(b"key")
    body = request(
        reasoning={"effort": "high"}, tools=[{"type": "function", "name": "ls", "parameters": {}}]
    )
    answer = (
        b'{"id":"m","type":"message","role":"assistant","content":[{"type":"thinking","thinking":'
        b'"Hm.","signature":"c2ln"},{"type":"tool_use","id":"call_1","name":"ls","input":{}}],'
        b'"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}'
    )
    answer = translate_body(
        answer,
        source="anthropic",
        target="responses",
        profile="anthropic",
        request=read_request(body, source="responses", sealer=sealer).request,
        sealer=sealer,
        seed="s",
        rendering=Rendering(responses_encrypted=encrypted),
    ).body

    async def work(store: ResponsesStore) -> None:
        await store.keep("a", body, answer)
        name = json.loads(answer)["id"]
        later = request(b"[%b]" % RESULT, previous_response_id=name, reasoning={"effort": "high"})
        whole = (await store.expand(later, "a")).body
        sent = translate_request(
            whole, source="responses", target="anthropic", profile="anthropic", sealer=sealer
        ).body

        assert expected == json.loads(sent)["messages"][1]["content"][0]["type"]

    with_store(work)


CHAT_STREAM = b"".join(
    b"data: %b\n\n" % data
    for data in (
        b'{"id":"c","choices":[{"index":0,"delta":{"role":"assistant","content":"response.comp"}}]}',
        b'{"id":"c","choices":[{"index":0,"delta":{"content":"leted"},"finish_reason":"stop"}]}',
        b"[DONE]",
    )
)


def test_stream_ends_with_the_answer_that_is_kept() -> None:
    asked = read_request(request(), source="responses").request
    translator = Translator(
        source="chat", target="responses", request=asked, seed="s", previous_id="resp_0"
    )
    tail = translator.feed(CHAT_STREAM)
    answer = Response.model_validate_json(translator.response)

    assert translator.done
    assert translator.response in tail
    assert "response.completed" == answer.output_text
    assert "resp_0" == answer.previous_response_id


def test_complete_body_names_the_answer_it_continues() -> None:
    asked = read_request(request(), source="responses").request
    body = (
        b'{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},'
        b'"finish_reason":"stop"}]}'
    )
    out = translate_body(
        body, source="chat", target="responses", request=asked, previous_id="resp_0"
    )

    assert "resp_0" == json.loads(out.body)["previous_response_id"]


def test_relayed_stream_hands_over_the_response_of_the_upstream() -> None:
    asked = read_request(request(), source="responses").request
    translated = Translator(source="chat", target="responses", request=asked, seed="s")
    upstream = translated.feed(CHAT_STREAM)
    translator = Translator(source="responses", target="responses", request=asked)
    relayed = b"".join(
        translator.feed(upstream[at : at + 50]) for at in range(0, len(upstream), 50)
    )

    assert upstream == relayed
    assert translated.response == translator.response
