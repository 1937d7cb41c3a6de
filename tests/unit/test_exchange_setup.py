"""What is known of an exchange follows from its options; stages follow from the exchange."""

import json
from collections.abc import Sequence

import pytest
from msgspec import structs

from dragoman.context import Exchange
from dragoman.dialects import DIALECT_NAMES, dialect
from dragoman.errors import MalformedError, TooLargeError
from dragoman.exchange_setup import answer_stages, fault_of, findings_of, make_exchange, read_whole
from dragoman.limits import Limits
from dragoman.profiles.profile import Profile
from dragoman.toolcalls.stage import Splitter, ThinkTags
from dragoman.translate_requests import decode_tools, read_request
from dragoman.turn.events import Fault, FaultKind, Finish, Start
from dragoman.turn.request import Request
from dragoman.turn.stages import ServerTools, StopSequences, UsableCalls, WholeCalls

LOOK = {"name": "look", "input_schema": {"type": "object", "properties": {}}}
SEARCH = {"type": "web_search_20250305", "name": "web_search"}
REQUEST = {
    "model": "m",
    "max_tokens": 9,
    "messages": [{"role": "user", "content": "Where is Rome?"}],
}


def request(**changes: object) -> Request:
    return read_request(json.dumps({**REQUEST, **changes}).encode(), source="anthropic").request


def test_facts_come_from_the_request_where_they_are_not_given() -> None:
    exchange = make_exchange(request=request(tools=[LOOK]))

    assert "m" == exchange.model
    assert ["look"] == [tool.name for tool in exchange.request.tools]
    assert exchange.input_estimate > 0
    assert 7 == make_exchange(request=request(), input_estimate=7).input_estimate
    assert 0 == make_exchange().input_estimate


def test_an_answer_keeps_its_identity_and_its_body_within_one_dialect() -> None:
    chat, messages = dialect("chat"), dialect("anthropic")
    same = make_exchange(source=chat, target=chat, body=b"{}")
    other = make_exchange(source=chat, target=messages, body=b"{}")

    assert (True, b"{}") == (same.keep_identity, same.upstream_body)
    assert (False, b"") == (other.keep_identity, other.upstream_body)
    assert not make_exchange().keep_identity


def test_a_profile_is_named_or_given() -> None:
    assert "generic" == make_exchange().profile.name
    assert "p" == make_exchange(profile=Profile(name="p")).profile.name
    assert "deepseek" == make_exchange(profile="deepseek").profile.name


NO_TAGS = Profile(name="p", think_tags="off")


def kinds(exchange: Exchange, stop: Sequence[str] = ()) -> list[type]:
    return [type(one) for one in answer_stages(exchange, None, stop, "m", "none")]


def test_an_exchange_has_only_the_stages_that_it_needs() -> None:
    plain = make_exchange(profile=NO_TAGS)
    whole = make_exchange(profile=structs.replace(NO_TAGS, tool_calls="whole"))
    searches = make_exchange(profile=NO_TAGS, request=request(tools=[SEARCH]))

    assert [] == kinds(plain)
    assert [StopSequences] == kinds(plain, ["END"])
    assert [WholeCalls] == kinds(whole)
    assert [ServerTools] == kinds(searches)
    assert [] == kinds(make_exchange(profile=NO_TAGS, request=request(tools=[LOOK])))
    assert [ThinkTags] == kinds(make_exchange())


@pytest.mark.parametrize("name", DIALECT_NAMES)
def test_calls_wait_for_the_end_where_a_dialect_has_no_form_for_a_broken_one(name: str) -> None:
    target = dialect(name)

    stages = kinds(make_exchange(target=target, profile=NO_TAGS), ["END"])

    if target.half_calls:
        assert [StopSequences] == stages
    else:
        assert [WholeCalls, StopSequences, UsableCalls] == stages


def test_a_function_with_the_name_of_a_vendor_run_tool_keeps_its_calls() -> None:
    both = [SEARCH, {**LOOK, "name": "web_search"}]

    assert [] == kinds(make_exchange(profile=NO_TAGS, request=request(tools=both)))


def test_findings_are_the_list_of_the_stage_for_calls_in_text() -> None:
    tools = decode_tools(json.dumps([LOOK]).encode())
    stages = answer_stages(make_exchange(tools=tools), tools, (), "m", "hermes")
    (splitter,) = [one for one in stages if isinstance(one, Splitter)]

    assert splitter.findings is findings_of(stages)
    assert () == findings_of([])


BODIES = {
    "chat": b'{"id":"a","choices":[{"index":0,"message":{"content":"Hi"},"finish_reason":"stop"}]}',
    "anthropic": b'{"type":"message","id":"a","content":[{"type":"text","text":"Hi"}],'
    b'"stop_reason":"end_turn"}',
    "responses": b'{"object":"response","id":"a","status":"completed","output":[{"type":"message",'
    b'"content":[{"type":"output_text","text":"Hi"}]}]}',
    "gemini": b'{"responseId":"a","candidates":[{"content":{"role":"model","parts":[{"text":"Hi"}]},'
    b'"finishReason":"STOP"}]}',
}


@pytest.mark.parametrize("name", DIALECT_NAMES)
def test_a_complete_answer_becomes_events(name: str) -> None:
    exchange = make_exchange()
    events = read_whole(BODIES[name], dialect(name).frame_reader(exchange), exchange)

    assert isinstance(events[0], Start)
    assert isinstance(events[-1], Finish)


@pytest.mark.parametrize("name", DIALECT_NAMES)
def test_an_answer_beyond_its_limit_ends_with_a_fault(name: str) -> None:
    exchange = make_exchange(limits=Limits(max_response_bytes=10))
    events = read_whole(BODIES[name], dialect(name).frame_reader(exchange), exchange)

    (fault,) = events
    assert isinstance(fault, Fault)
    assert (FaultKind.UPSTREAM_BAD, "max_response_bytes") == (fault.kind, fault.code)


def test_a_fault_has_the_name_of_the_limit_or_is_malformed() -> None:
    assert "max_calls" == fault_of(TooLargeError("max_calls", 3)).code
    assert "upstream_malformed" == fault_of(MalformedError("no", path="$")).code
