"""Calls as cards: do the arguments fit the tool, and were they made before."""

import pytest

from dragoman.inspector.calls import canonical, check, earlier_calls
from dragoman.translate_requests import read_request

BODY = b"""{"model": "m", "messages": [
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": null, "tool_calls": [
        {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\\"b\\":1,\\"a\\":2}"}},
        {"id": "2", "type": "function", "function": {"name": "f", "arguments": "{\\"a\\": 2, \\"b\\": 1}"}}]},
    {"role": "tool", "tool_call_id": "1", "content": "x"},
    {"role": "tool", "tool_call_id": "2", "content": "y"}],
  "tools": [{"type": "function", "function": {"name": "f", "parameters":
    {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}}}]}"""
REQUEST = read_request(BODY, source="chat").request


@pytest.mark.parametrize(
    ("name", "arguments", "ok"),
    [
        ("f", '{"a": 1}', True),
        ("f", '{"a": "one"}', False),
        ("f", "{}", False),
        ("f", '{"a": ', False),
        ("another", "{}", None),
    ],
)
def test_arguments_are_checked_against_the_declared_schema(
    name: str, arguments: str, ok: bool | None
) -> None:
    found = check(REQUEST, name, arguments)

    assert ok is found.ok
    assert (ok is False) == bool(found.problems)


def test_equal_calls_are_counted_whatever_the_order_of_their_keys() -> None:
    assert {("f", '{"a":2,"b":1}'): 2} == earlier_calls(REQUEST)
    assert {} == earlier_calls(None)
    assert "not JSON" == canonical("not JSON")
