"""Calls as cards: do the arguments fit the tool, and were they made before."""

import pytest

from dragoman.answer_reader import AnswerReader
from dragoman.inspector.calls import (
    VendorCall,
    check,
    earlier_calls,
    find_vendor_calls,
)
from dragoman.translate_requests import read_request
from dragoman.turn.events import BlockKind, BlockStart, expand_runs
from dragoman.turn.server_tools import ServerCall, ServerKind, ServerResult, SourceRef
from tests.support.corpus import ROOT as CORPUS

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


# --- tools that the vendor ran -------------------------------------------------------------------------


def vendor_calls(source: str, case: str) -> list[VendorCall]:
    reader = AnswerReader(source=source)
    data = (CORPUS / source / case / "stream.sse").read_bytes()
    return find_vendor_calls(expand_runs(reader.feed(data) + reader.close()))


def test_a_search_has_its_query_and_its_sources() -> None:
    first, second = vendor_calls("responses", "search_two_at_once")

    assert ("web_search", "complete", ["oslo weather"]) == (first.does, first.state, first.queries)
    assert ["https://yr.example/oslo", "https://met.example/"] == [
        one.url for one in first.sources
    ][:2]
    assert "met.example" == first.sources[1].title  # the host, if the vendor gave none
    assert ["oslo snow", "oslo ice"] == second.queries
    assert first.block < second.block


def test_a_search_that_failed_shows_why() -> None:
    failed, empty = vendor_calls("anthropic", "search_failed")

    assert ("failed", "too_many_requests") == (failed.state, failed.error)
    assert ("complete", "", []) == (empty.state, empty.error, empty.sources)


def test_code_shows_what_was_run_and_what_it_printed() -> None:
    calls = vendor_calls("chat", "search_groq")

    code = next(one for one in calls if one.does == "code_execution")
    assert ('{"code":"print(2+2)"}', "4\n") == (code.arguments, code.output)


def test_long_lists_of_sources_are_cut_and_counted() -> None:
    found = tuple(SourceRef(f"https://a.example/{number}") for number in range(60))
    events = [
        BlockStart(0, BlockKind.SERVER_CALL, "c", server=ServerCall(ServerKind.WEB_SEARCH)),
        BlockStart(
            1, BlockKind.SERVER_RESULT, "c", server=ServerResult(ServerKind.WEB_SEARCH, found)
        ),
    ]
    (call,) = find_vendor_calls(events)

    assert (50, 10) == (len(call.sources), call.more_sources)


def test_a_call_without_a_result_is_unfinished() -> None:
    start = BlockStart(0, BlockKind.SERVER_CALL, "c", server=ServerCall(ServerKind.WEB_SEARCH))

    assert ["unfinished"] == [one.state for one in find_vendor_calls([start])]
