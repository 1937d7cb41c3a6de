"""The JSON of stored responses: what is kept of an exchange, how a request gets it back, pages of items."""

import json

import msgspec
import pytest
from msgspec import Raw
from openai.types.responses import Response
from openai.types.responses.response_item_list import ResponseItemList

from dragoman.dialects.stored_responses import (
    NOT_STORED,
    Exchanged,
    Page,
    asked_of,
    deleted,
    error_event,
    exchanged,
    expanded,
    is_last_event,
    item_list,
    may_ask,
    not_cancellable,
    not_found,
    page_of,
    response_of,
    unknown_previous,
)
from dragoman.errors import MalformedError, TooLargeError
from dragoman.limits import Limits
from dragoman.translate_requests import read_request
from dragoman.turn.events import Fault, FaultKind
from dragoman.wire.sse import Frame
from tests.support.stored_responses import CALL, request, response

THOUGHT = b'{"type":"reasoning","id":"rs_1","summary":[{"type":"summary_text","text":"Hm."}]}'
RESULT = b'{"type":"function_call_output","call_id":"call_1","output":"a  b"}'
HI = b'{"type":"message","role":"user","content":"hi"}'


def whole(body: bytes, *history: bytes, found: dict[str, bytes] | None = None) -> list[bytes]:
    """Return the items of a request once it is completed; its other fields stay as they are."""
    asked = asked_of(body)
    assert asked is not None
    fields = msgspec.json.decode(expanded(asked, history, found or {}), type=dict[str, Raw])
    rest = {name: raw for name, raw in asked.fields.items() if name != "previous_response_id"}

    assert {**rest, "input": fields["input"]} == fields
    return [bytes(raw) for raw in msgspec.json.decode(fields["input"], type=list[Raw])]


def kept(input_: bytes = b'"hi"', *output: bytes) -> Exchanged:
    found = exchanged(request(input_), response("resp_1", *output))
    assert found is not None
    return found


# --- requests ---


@pytest.mark.parametrize(
    "body",
    [
        request(),
        request(previous_response_id=None),
        request(previous_response_id=""),
        request(b"[%b]" % CALL),
        request(b'[{"role":"user","content":"the previous_response_id of an item_reference"}]'),
        request(b"[1]"),
        request(b"null"),
        b"{}",
    ],
)
def test_request_that_names_nothing_needs_nothing(body: bytes) -> None:
    assert asked_of(body) is None


@pytest.mark.parametrize(
    ("body", "asks"),
    [
        (request(), False),
        (request(previous_response_id="resp_1"), True),
        (request(b'[{"type":"item_reference","id":"fc_1"}]'), True),
    ],
)
def test_the_fast_check_misses_no_request_that_asks(body: bytes, asks: bool) -> None:
    assert asks == may_ask(body)
    assert asks == (asked_of(body) is not None)


@pytest.mark.parametrize(
    ("body", "path"),
    [
        (request(previous_response_id=7), "$.previous_response_id"),
        (request(b'{"role":"user"}', previous_response_id="resp_1"), "$.input"),
        (b"[]", "$"),
    ],
)
def test_body_that_is_no_request_is_refused_with_its_path(body: bytes, path: str) -> None:
    with pytest.raises(MalformedError) as caught:
        asked_of(body)

    assert path == caught.value.path


def test_conversation_comes_before_the_new_input_byte_for_byte() -> None:
    body = request(b"[ %b ]" % RESULT, previous_response_id="resp_1", instructions="new")

    assert [b'"h\\u00e9 "', CALL, RESULT] == whole(body, b'"h\\u00e9 "', CALL)


def test_text_is_a_message_of_the_user() -> None:
    assert [CALL, HI] == whole(request(previous_response_id="resp_1"), CALL)


@pytest.mark.parametrize("type_", ['"type":"item_reference",', ""], ids=["named", "id alone"])
def test_references_become_the_items_that_they_name(type_: str) -> None:
    """`@ai-sdk/openai` replays what it was answered as references."""
    references = ",".join(f'{{{type_}"id":"{name}"}}' for name in ("rs_1", "fc_1")).encode()
    body = request(b"[%b,%b]" % (references, RESULT))

    assert [THOUGHT, CALL, RESULT] == whole(body, found={"rs_1": THOUGHT, "fc_1": CALL})


def test_reference_to_what_is_not_kept_is_refused_with_its_path() -> None:
    body = request(b'[%b,{"type":"item_reference","id":"fc_9"}]' % RESULT)

    with pytest.raises(MalformedError) as caught:
        whole(body)

    assert ("item_not_found", "$.input[1].id") == (caught.value.code, caught.value.path)


def test_reference_to_reasoning_that_is_gone_is_left_for_the_reader_to_report() -> None:
    reference = b'{"type":"item_reference","id":"rs_9"}'
    body = request(b"[%b,%b]" % (reference, HI))
    read = read_request(request(b"[%b]" % b",".join(whole(body))), source="responses").request

    assert [reference, HI] == whole(body)
    assert ["reasoning_dropped"] == [loss.code for loss in read.losses]
    assert [HI] == [item.body for item in kept(b"[%b,%b]" % (reference, HI)).input]


def test_conversation_larger_than_a_request_may_be_is_refused() -> None:
    asked = asked_of(request(previous_response_id="resp_1"))
    assert asked is not None
    room = len(CALL) + len(HI)

    assert expanded(asked, [CALL], {}, limits=Limits(max_request_bytes=room))
    with pytest.raises(TooLargeError) as caught:
        expanded(asked, [CALL], {}, limits=Limits(max_request_bytes=room - 1))
    assert "max_request_bytes" == caught.value.limit


def test_errors_about_what_is_not_stored_have_codes_of_which_an_upstream_may_know_more() -> None:
    error = unknown_previous("resp_9")

    assert ("$.previous_response_id", "previous_response_not_found") == (error.path, error.code)
    assert frozenset({error.code, "item_not_found"}) == NOT_STORED


# --- answers ---


@pytest.mark.parametrize(
    ("body", "answer"),
    [
        (request(store=False), response("resp_1")),
        (request(), b'{"output":[]}'),
        (request(), b'{"id":null,"output":[]}'),
    ],
)
def test_what_is_not_to_be_stored_or_has_no_id_is_not_kept(body: bytes, answer: bytes) -> None:
    assert exchanged(body, answer) is None


@pytest.mark.parametrize(
    ("answer", "path"),
    [(b"[]", "$"), (b'{"id":1}', "$.id"), (b'{"id":"resp_1","output":{}}', "$.output")],
)
def test_answer_that_is_none_is_refused_with_its_path(answer: bytes, path: str) -> None:
    with pytest.raises(MalformedError) as caught:
        exchanged(request(), answer)

    assert path == caught.value.path


@pytest.mark.parametrize(
    "shared",
    [
        {},
        {"instructions": None},
        {"tools": [{"type": "function"}], "instructions": "Be brief."},
    ],
)
def test_answer_is_given_back_whole(shared: dict[str, object]) -> None:
    body = response("resp_1", THOUGHT, CALL, usage={"n": 1}, **shared)
    found = exchanged(request(store=True), body)
    assert found is not None
    output = [item.body for item in found.output]

    assert json.loads(body) == json.loads(response_of(found.head, found.shared, output))
    assert shared == json.loads(found.shared)
    assert [THOUGHT, CALL] == output
    assert ["rs_1", "fc_1"] == [item.id for item in found.output]
    assert len(found.head + found.shared + HI + THOUGHT + CALL) == found.size


def test_items_that_are_none_are_kept_for_their_reader() -> None:
    assert [b"1", b'{"id":7}'] == [item.body for item in kept(b'[1,{"id":7}]').input]


def test_replies_about_stored_responses_are_the_vendors() -> None:
    missing = not_found("resp_9")

    assert {"id": "resp_1", "object": "response", "deleted": True} == json.loads(deleted("resp_1"))
    assert (404, "Response with id 'resp_9' not found.") == (missing.status, missing.message)
    assert (FaultKind.BAD_REQUEST, 400) == (not_cancellable().kind, not_cancellable().status)


# --- streams ---


@pytest.mark.parametrize(
    ("event", "data", "last"),
    [
        ("response.completed", b"{}", True),
        ("response.incomplete", b"{}", True),
        ("response.failed", b"{}", True),
        ("error", b"{}", True),
        ("", b"[DONE]", True),
        ("", b'{"type":"response.completed"}', True),
        ("", b'{"type":"error"}', True),
        ("", b'{"type":"response.output_text.delta"}', False),
        ("response.output_text.delta", b'{"type":"response.completed"}', False),
        ("", b"{}", False),
        ("", b"{", False),
        ("", b'{"type":"\xff"}', False),
        ("", b'{"x":' + b"[" * 5000, False),
    ],
)
def test_nothing_follows_the_last_event_of_a_response(event: str, data: bytes, last: bool) -> None:
    assert last == is_last_event(Frame(event=event, data=data))


@pytest.mark.parametrize(
    ("last", "number"),
    [
        (b"", 0),
        (b'data: {"sequence_number":7}\n\ndata: {"sequence_number": 41}\n\n', 42),
        (b'data: {"text":"no number"}', 0),
    ],
)
def test_broken_stream_ends_with_an_error_that_goes_on_counting(last: bytes, number: int) -> None:
    event = error_event(Fault(FaultKind.TIMEOUT, "too slow", code="timeout"), last)
    head, _, data = event.strip().partition(b"\ndata: ")

    assert b"event: error" == head
    assert event.startswith(b"\n\n")  # whatever was sent of the event before
    assert {
        "type": "error",
        "code": "timeout",
        "message": "too slow",
        "param": None,
        "sequence_number": number,
    } == json.loads(data)


# --- lists of items ---


def listed(input_: bytes, page: Page) -> ResponseItemList:
    items = [item.body for item in kept(input_).input]
    return ResponseItemList.model_validate_json(item_list("resp_1", items, page))


def test_input_items_are_listed_as_the_sdk_reads_them() -> None:
    said = b'{"role":"assistant","content":"two"}'
    parts = b'{"role":"user","content":[{"type":"input_text","text":"three"}]}'
    given = b'[{"role":"user","content":"one"},%b,%b,%b,%b]' % (said, CALL, RESULT, parts)
    found = listed(given, Page(order="asc"))
    first, second, *_ = found.data

    assert ["message", "message", "function_call", "function_call_output", "message"] == [
        item.type for item in found.data
    ]
    assert ["msg_", "msg_", "fc_1", "fco_", "msg_"] == [item.id[:4] for item in found.data]
    assert {"completed"} == {item.status for item in found.data}
    assert ["input_text", "output_text"] == [one.content[0].type for one in (first, second)]
    assert len(found.data) == len({item.id for item in found.data})
    assert (found.data[0].id, found.data[-1].id) == (found.first_id, found.last_id)
    assert found.has_more is False


def test_item_of_an_unknown_kind_is_listed_as_it_is() -> None:
    body = item_list("resp_1", [b'{"type":"compaction","x":1}'], Page())
    (item,) = json.loads(body)["data"]

    assert {"type": "compaction", "x": 1, "id": item["id"]} == item
    assert item["id"].startswith("item_")


def test_half_a_character_in_a_request_is_stored_and_listed_as_a_replacement() -> None:
    given = rb'[{"role":"user","content":"one","\ud83d":1}]'
    (item,) = kept(given).input
    body = item_list("resp_1", [item.body], Page())

    assert json.loads(body)["data"][0]["\ufffd"] == 1


def test_list_without_items_has_no_first_and_no_last() -> None:
    assert {
        "object": "list",
        "data": [],
        "first_id": None,
        "last_id": None,
        "has_more": False,
    } == json.loads(item_list("resp_1", [], Page()))


@pytest.mark.parametrize("order", ["asc", "desc"])
def test_pages_together_are_the_list_even_if_items_repeat(order: str) -> None:
    same = b'{"type":"message","id":"msg_1","role":"user","content":"go on"}'
    given = b"[%b]" % b",".join([same, b'{"role":"user","content":"go on"}'] * 3)
    seen: list[str] = []
    for _ in range(6):
        after = seen[-1] if seen else ""
        page = listed(given, page_of({"after": after, "limit": "1", "order": order}))
        seen += [item.id for item in page.data]
        assert page.has_more == (len(seen) < 6)

    assert 6 == len(set(seen))
    assert seen == [item.id for item in listed(given, page_of({"order": order})).data]


def test_page_after_an_unknown_item_is_refused() -> None:
    with pytest.raises(MalformedError) as caught:
        item_list("resp_1", [HI], Page(after="msg_9"))

    assert ("after", "item_not_found") == (caught.value.path, caught.value.code)


@pytest.mark.parametrize(
    "query",
    [
        {"limit": "0"},
        {"limit": "101"},
        {"limit": "x"},
        {"limit": ""},
        {"limit": "²"},
        {"limit": "9" * 30},
        {"order": "up"},
    ],
)
def test_wrong_parameter_of_a_list_is_named(query: dict[str, str]) -> None:
    with pytest.raises(MalformedError) as caught:
        page_of(query)

    assert list(query) == [caught.value.path]


def test_list_begins_with_the_latest_items_by_default() -> None:
    assert Page(after="", limit=20, order="desc") == page_of({"include": "x"})


def test_answer_that_is_put_together_is_one_of_the_sdk() -> None:
    full = {"created_at": 1, "model": "m", "parallel_tool_calls": True, "tool_choice": "auto"}
    body = response("resp_1", CALL, tools=[], **full)
    found = exchanged(request(), body)
    assert found is not None
    again = response_of(found.head, found.shared, [item.body for item in found.output])

    assert "call_1" == Response.model_validate_json(again).output[0].call_id
