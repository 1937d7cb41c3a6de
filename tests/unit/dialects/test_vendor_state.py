"""Which state of a vendor's a request names, and which ids an answer gives."""

import json
from typing import Any

import pytest

from dragoman.dialects.vendor_state import given_ids, may_give, references
from dragoman.errors import MalformedError
from dragoman.translate import Translator, translate_body


def named(body: Any) -> set[tuple[str, str]]:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return {(one.kind, one.id) for one in references(data)}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"previous_response_id": "resp_1"}, {("previous_response", "resp_1")}),
        ({"previous_response_id": None}, set()),
        ({"conversation": "conv_1"}, {("conversation", "conv_1")}),
        ({"conversation": {"id": "conv_1"}}, {("conversation", "conv_1")}),
        ({"prompt": {"id": "pmpt_1", "version": "2"}}, {("prompt", "pmpt_1")}),
        ({"prompt": "Say hello"}, set()),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, {("item", "msg_1")}),
        ({"input": [{"id": "msg_1"}]}, {("item", "msg_1")}),
        ({"input": [{"type": "image_generation_call", "id": "ig_1"}]}, {("item", "ig_1")}),
        ({"input": [{"type": "reasoning", "id": "rs_1", "summary": []}]}, {("item", "rs_1")}),
        (
            {"input": [{"type": "reasoning", "id": "rs_1", "encrypted_content": "x"}]},
            set(),
        ),
        (
            {"input": [{"type": "reasoning", "id": "rs_1", "content": [{"text": "Hm"}]}]},
            set(),
        ),
        ({"input": [{"type": "message", "id": "msg_1", "role": "user", "content": "a"}]}, set()),
        (
            {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file_1"}]}]},
            {("file", "file_1")},
        ),
        (
            {"input": [{"type": "function_call_output", "call_id": "c",
                        "output": [{"type": "input_image", "file_id": "file_1"}]}]},
            {("file", "file_1")},
        ),
        (
            {"tools": [{"type": "file_search", "vector_store_ids": ["vs_1", "vs_2"]}]},
            {("vector_store", "vs_1"), ("vector_store", "vs_2")},
        ),
        (
            {"tools": [{"type": "code_interpreter", "container": "cntr_1"}]},
            {("container", "cntr_1")},
        ),
        (
            {"tools": [{"type": "code_interpreter",
                        "container": {"type": "auto", "file_ids": ["file_1"]}}]},
            {("file", "file_1")},
        ),
        ({"container": "container_1"}, {("container", "container_1")}),
        (
            {"container": {"id": "container_1", "skills": [
                {"type": "anthropic", "skill_id": "xlsx"},
                {"type": "custom", "skill_id": "skill_1"}]}},
            {("container", "container_1"), ("skill", "skill_1")},
        ),
        (
            {"messages": [{"role": "user", "content": [
                {"type": "document", "source": {"type": "file", "file_id": "file_1"}},
                {"type": "container_upload", "file_id": "file_2"}]}]},
            {("file", "file_1"), ("file", "file_2")},
        ),
        ({"messages": [{"role": "assistant", "audio": {"id": "audio_1"}}]}, {("audio", "audio_1")}),
        ({"audio": {"voice": "alloy", "format": "wav"}}, set()),
        ({"thread": {"id": "thread_1"}}, {("thread", "thread_1")}),
        # What clients and models write is theirs.
        (
            {"messages": [{"role": "assistant", "content": [
                {"type": "tool_use", "id": "t", "name": "f", "input": {"file_id": "mine"}}]}]},
            set(),
        ),
        ({"tools": [{"name": "f", "input_schema": {"properties": {"file_id": {"id": "x"}}}}]}, set()),
        ({"tools": [{"parameters": {"properties": {"container": {"id": "x"}}}}]}, set()),
        ({"metadata": {"conversation": "mine"}}, set()),
        ({"input": '{"previous_response_id": "resp_1"}'}, set()),
        # Of a field that is there twice, an upstream may read either; letters may be escaped.
        (
            b'{"previous_response_id":"resp_1","previous_response_id":"resp_2"}',
            {("previous_response", "resp_1"), ("previous_response", "resp_2")},
        ),
        (
            b'{"input":[{"type":"message","type":"item_reference","id":"msg_1","id":"msg_2"}]}',
            {("item", "msg_1"), ("item", "msg_2")},
        ),
        (b'{"previous_\\u0072esponse_id":"resp_1"}', {("previous_response", "resp_1")}),
        (b'{"\\u0063onversation":{"\\u0069d":"conv_1"}}', {("conversation", "conv_1")}),
        (
            b'{"input":[{"type":"item\\u005freference","id":"msg_1"}]}',
            {("item", "msg_1")},
        ),
        (b'{"container":{"id":"c_1","id":"c_2"}}', {("container", "c_1"), ("container", "c_2")}),
    ],
)  # fmt: skip
def test_state_that_a_request_names_is_found(body: Any, expected: set[tuple[str, str]]) -> None:
    assert expected == named(body)


def test_json_that_nests_too_deeply_is_refused() -> None:
    body = b'{"file_id":' * 200_000 + b"1" + b"}" * 200_000
    with pytest.raises(MalformedError):
        references(body)


def test_files_are_marked_since_other_dialects_of_the_vendor_take_them() -> None:
    body = json.dumps({"conversation": "conv_1", "x": {"file_id": "file_1"}}).encode()

    assert {("conv_1", False), ("file_1", True)} == {
        (one.id, one.is_file) for one in references(body)
    }


GIVEN = {
    "response": (
        {"id": "resp_1", "object": "response", "output": [
            {"type": "message", "id": "msg_1", "content": [{"type": "output_text", "text": "So",
             "annotations": [{"type": "container_file_citation", "file_id": "cfile_1",
                              "container_id": "cntr_1"}]}]},
            {"type": "file_search_call", "id": "fs_1", "results": [{"file_id": "file_1"}]},
            {"type": "code_interpreter_call", "id": "ci_1", "container_id": "cntr_2"}]},
        {"resp_1", "msg_1", "cfile_1", "cntr_1", "fs_1", "file_1", "ci_1", "cntr_2"},
    ),
    "message": (
        {"id": "msg_1", "type": "message", "container": {"id": "container_1"}, "content": [
            {"type": "code_execution_tool_result", "tool_use_id": "t", "content":
             {"type": "code_execution_result", "content": [{"file_id": "file_1"}]}}]},
        {"msg_1", "container_1", "file_1"},
    ),
    "chat": (
        {"id": "c_1", "choices": [{"message": {"audio": {"id": "audio_1", "data": ""}}}]},
        {"c_1", "audio_1"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", GIVEN)
def test_ids_that_an_answer_gives_are_found(case: str) -> None:
    body, expected = GIVEN[case]
    data = json.dumps(body).encode()
    event = json.dumps({"type": "x", "response": body}).encode()

    assert expected == given_ids(data) == given_ids(event)
    assert may_give(event)


@pytest.mark.parametrize(
    "body",
    [
        # What a model wrote, or the client sent and is shown again.
        {"content": [{"type": "tool_use", "input": {"id": "resp_x", "file_id": "file_x"}}]},
        {"output": [{"type": "local_shell_call", "action": {"env": {"id": "resp_x"}}}]},
        {"tools": [{"type": "file_search", "vector_store_ids": ["vs_x"], "id": "resp_x"}]},
        {"metadata": {"id": "resp_x", "file_id": "file_x"}},
        {"conversation": {"id": "conv_x"}, "prompt": {"id": "pmpt_x"}},
        {"previous_response_id": "resp_x", "instructions": [{"id": "msg_x"}]},
        {"text": {"format": {"schema": {"id": "resp_x"}}}},
    ],
)
def test_what_models_and_clients_write_gives_nothing(body: Any) -> None:
    data = json.dumps(body).encode()

    found = given_ids(data) | given_ids(b'{"response":%b}' % data)

    assert not {one for one in found if one.endswith("_x")}


@pytest.mark.parametrize("data", [b"", b"[]", b"null", b"{", b"\xff", b'{"output":[1,null,[]]}'])
def test_answer_of_any_shape_gives_nothing_or_something(data: bytes) -> None:
    assert set() == given_ids(data)


# --- what a translator hands over -----------------------------------------------------------------

EVENTS = [
    {"type": "response.created", "sequence_number": 0, "response": {"id": "resp_1", "output": []}},
    {
        "type": "response.output_item.added",
        "sequence_number": 1,
        "output_index": 0,
        "item": {"type": "message", "id": "msg_1", "role": "assistant", "content": []},
    },
    {
        "type": "response.output_text.delta",
        "sequence_number": 2,
        "output_index": 0,
        "content_index": 0,
        "item_id": "msg_1",
        "delta": "Hi",
        "logprobs": [],
    },
    {
        "type": "response.completed",
        "sequence_number": 3,
        "response": {
            "id": "resp_1",
            "status": "completed",
            "output": [
                {
                    "type": "message",
                    "id": "msg_1",
                    "role": "assistant",
                    "content": [{"type": "output_text", "text": "Hi"}],
                }
            ],
        },
    },
]
STREAM = [
    b"event: %b\ndata: %b\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in EVENTS
]
CHAT = (
    b'data: {"id":"c_1","choices":[{"index":0,"delta":{"content":"Hi"}}]}\n\n'
    b'data: {"id":"c_1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
    b"data: [DONE]\n\n"
)


def test_ids_of_a_relayed_stream_are_known_before_they_are_forwarded() -> None:
    relay = Translator(source="responses", target="responses", notes_ids=True)
    out, taken = [], []
    for piece in STREAM:
        out.append(relay.feed(piece))
        taken.append(relay.take_given())

    assert b"".join(STREAM) == b"".join(out)
    assert [{"resp_1"}, {"msg_1"}] == taken[:2]
    assert set() == taken[2]
    assert {"resp_1", "msg_1"} == taken[3]


def test_ids_that_a_writer_makes_are_those_of_its_stream_and_its_body() -> None:
    translator = Translator(source="chat", target="responses", notes_ids=True, seed="s")
    out = translator.feed(CHAT) + translator.close()
    taken = translator.take_given()
    body = translate_body(CHAT, source="chat", target="responses", notes_ids=True, seed="s")

    assert 2 == len(taken)
    assert given_ids(translator.response) == taken == body.given == given_ids(body.body)
    assert all(one.encode() in out for one in taken)


def test_nothing_is_collected_unless_asked_for() -> None:
    for source, stream in (("responses", b"".join(STREAM)), ("chat", CHAT)):
        translator = Translator(source=source, target="responses", seed="s")
        translator.feed(stream)

        assert set() == translator.take_given()
