"""A request with too many of anything, or with a name that is too long, is refused with its limit's name."""

import json
from typing import Any

import pytest

from dragoman.errors import MalformedError, NameTooLongError, TooLargeError
from dragoman.limits import Limits
from dragoman.translate import translate_body, translate_error
from dragoman.translate_requests import error_response, fault_of_request, read_request
from tests.support.gateway import FIXED_PATHS
from tests.support.simulator import WEATHER

each_dialect = pytest.mark.parametrize("dialect", FIXED_PATHS)
CALL = "call_1"


def request(dialect: str, *, messages: int = 1, parts: int = 1, **names: str) -> dict[str, Any]:
    """Return a request with so many messages of so many parts, a call and its result, and a tool."""
    tool, call_id = names.get("tool", "f"), names.get("call_id", CALL)
    kind = "input_text" if dialect == "responses" else "text"
    said = {"role": "user", "content": [{"type": kind, "text": "a"}] * parts}
    body: dict[str, Any] = {"model": names.get("model", "m")}
    declared = {"name": tool, "parameters": WEATHER["parameters"]}
    match dialect:
        case "chat":
            function = {"name": tool, "arguments": "{}"}
            call = {"id": call_id, "type": "function", "function": function}
            made = {"role": "assistant", "content": None, "tool_calls": [call]}
            result = {"role": "tool", "tool_call_id": call_id, "content": "r"}
            body["messages"] = [*[said] * messages, made, result]
            body["tools"] = [{"type": "function", "function": declared}]
        case "anthropic":
            call = {"type": "tool_use", "id": call_id, "name": tool, "input": {}}
            result = {"type": "tool_result", "tool_use_id": call_id, "content": "r"}
            body |= {"max_tokens": 5, "tools": [{"name": tool, "input_schema": {"type": "object"}}]}
            made = {"role": "assistant", "content": [call]}
            body["messages"] = [*[said] * messages, made, {"role": "user", "content": [result]}]
        case _:
            call = {"type": "function_call", "call_id": call_id, "name": tool, "arguments": "{}"}
            result = {"type": "function_call_output", "call_id": call_id, "output": "r"}
            body["input"] = [*[said] * messages, call, result]
            body["tools"] = [{"type": "function", **declared}]
    return body


def read(dialect: str, limits: Limits, **given: Any) -> None:
    read_request(json.dumps(request(dialect, **given)).encode(), source=dialect, limits=limits)


COUNTS = [
    (Limits(max_messages=4), "max_messages", {"messages": 2}, {"messages": 3}),
    (Limits(max_parts=6), "max_parts", {"parts": 3}, {"parts": 4}),
    (Limits(max_json_items=40), "max_json_items", {}, {"messages": 30}),
    (Limits(max_json_escapes=20), "max_json_escapes", {"model": '"' * 20}, {"model": '"' * 21}),
]


@each_dialect
@pytest.mark.parametrize(("limits", "name", "fits", "passes"), COUNTS, ids=str)
def test_too_many_are_refused_with_the_limit(
    dialect: str, limits: Limits, name: str, fits: dict[str, int], passes: dict[str, int]
) -> None:
    read(dialect, limits, **fits)
    with pytest.raises(TooLargeError) as caught:
        read(dialect, limits, **passes)

    fault = fault_of_request(caught.value)
    assert name == caught.value.limit
    assert (413, "request_too_large") == (fault.status, fault.code)
    assert name in fault.message


@each_dialect
def test_too_many_tools_are_refused(dialect: str) -> None:
    body = request(dialect)
    body["tools"] *= 3
    for at, tool in enumerate(body["tools"]):
        body["tools"][at] = json.loads(json.dumps(tool).replace('"f"', f'"f{at}"'))
    data = json.dumps(body).encode()
    read_request(data, source=dialect, limits=Limits(max_tools=3))
    with pytest.raises(TooLargeError, match="max_tools"):
        read_request(data, source=dialect, limits=Limits(max_tools=2))


@each_dialect
@pytest.mark.parametrize(
    ("field", "limit", "path"),
    [
        ("model", "max_name_chars", "$.model"),
        ("tool", "max_name_chars", "$.tools[0]"),
        ("call_id", "max_id_chars", "[1]"),
    ],
)
def test_a_long_name_is_refused_with_its_path(
    dialect: str, field: str, limit: str, path: str
) -> None:
    most = 100
    limits = Limits(max_name_chars=most) if field != "call_id" else Limits(max_id_chars=most)
    read(dialect, limits, **{field: "a" * most})
    with pytest.raises(NameTooLongError) as caught:
        read(dialect, limits, **{field: "a" * (most + 1)})

    status, body = error_response(caught.value, target=dialect)
    assert limit == caught.value.limit
    assert path in caught.value.path
    assert 400 == status
    assert limit.encode() in body
    assert caught.value.path.removeprefix("$.").encode() in body


def test_a_request_for_its_vendor_alone_is_bounded_too() -> None:
    body = {"model": "m" * 2000, "input": [{"type": "odd", "id": "x"}]}
    with pytest.raises(NameTooLongError, match="max_name_chars"):
        read_request(json.dumps(body).encode(), source="responses")


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (Limits(max_complete_bytes=10), "max_complete_bytes"),
        (Limits(max_json_items=2), "max_json_items"),
        (Limits(max_json_escapes=2), "max_json_escapes"),
    ],
)
def test_a_complete_answer_past_a_limit_becomes_a_failure(limits: Limits, code: str) -> None:
    message = {"role": "assistant", "content": '"""'}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = json.dumps({"id": "a", "model": "m", "created": 1, "choices": [choice]}).encode()

    translated = translate_body(body, source="chat", target="anthropic", limits=limits)

    assert translated.answer.fault is not None
    assert code == translated.answer.fault.code


@each_dialect
def test_an_upstream_s_error_is_bounded(dialect: str) -> None:
    error = {"message": "m" * 1_000_000, "code": "c" * 1_000_000, "param": "p" * 1_000_000}
    status, body = translate_error(
        400, json.dumps({"error": error}).encode(), source=dialect, target="chat"
    )

    assert 400 == status
    assert len(body) < 20_000
    assert b"mmm" in body


def test_an_error_about_a_request_is_bounded() -> None:
    fault = fault_of_request(MalformedError("r" * 1_000_000, path="$." + "p" * 1_000_000))

    assert len(fault.message) < 20_000
    assert len(fault.param) < 1_000
