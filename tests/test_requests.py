"""What real agents send, for an upstream of every dialect: nothing they need is lost on the way."""

import json

import pytest

from dragoman.translate_requests import read_request
from dragoman.turn.request import ToolCallPart, ToolResultPart
from tests.support.params import validate
from tests.support.requests import RequestCase, cases, names_of, shown

CASES = cases()
TARGETS = ("chat", "anthropic", "responses")
each = pytest.mark.parametrize("case", CASES, ids=str)
to_each = pytest.mark.parametrize("target", TARGETS)


@each
@to_each
def test_an_agents_request_becomes_what_the_case_expects(case: RequestCase, target: str) -> None:
    written = shown(case.sent(target))

    assert case.file(f"{target}.json").read_bytes() == written["json"]
    assert case.file(f"{target}.losses").read_bytes() == written["losses"]


@each
@to_each
def test_an_agents_request_is_one_that_the_vendors_sdk_would_send(
    case: RequestCase, target: str
) -> None:
    if case.dialect != target:  # what passes through is the agent's own affair
        validate(target, json.loads(case.sent(target).body))


@each
@to_each
def test_tools_calls_and_results_of_an_agent_arrive_in_order(
    case: RequestCase, target: str
) -> None:
    meant = read_request(case.body, source=case.dialect).request
    got = read_request(case.sent(target).body, source=target).request

    assert len(names_of(meant)) == len(names_of(got))
    # A tool of a namespace has the namespace before its name.
    assert all(any(one.endswith(name) for one in names_of(got)) for name in names_of(meant))
    for kind, key in ((ToolCallPart, "id"), (ToolResultPart, "call_id")):
        assert len(parts(meant, kind)) == len(parts(got, kind))
        assert order(meant, kind, key) == order(got, kind, key)


@each
@to_each
def test_no_word_of_an_agents_instructions_is_lost(case: RequestCase, target: str) -> None:
    meant = read_request(case.body, source=case.dialect).request
    written = json.dumps(json.loads(case.sent(target).body), ensure_ascii=False)

    for part in meant.system:
        assert json.dumps(part.text, ensure_ascii=False)[1:-1] in written


def parts(request, kind) -> list:
    return [part for turn in request.turns for part in turn.parts if isinstance(part, kind)]


def order(request, kind, key: str) -> list[int]:
    """Return which call each part belongs to, by the order in which calls were made."""
    calls = [part.id for part in parts(request, ToolCallPart)]
    return [calls.index(getattr(part, key)) for part in parts(request, kind)]
