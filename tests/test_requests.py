"""What real agents send, for an upstream of every dialect: nothing they need is lost on the way."""

import json

import pytest

from dragoman.dialects import DIALECT_NAMES
from dragoman.translate_requests import read_request
from dragoman.turn.request import ToolCallPart, ToolResultPart
from tests.support.params import validate
from tests.support.requests import RequestCase, cases, names_of
from tests.support.tables import in_one_test

PAIRS = [(case, target) for case in cases() for target in DIALECT_NAMES]
SENT = [(case, target) for case, target in PAIRS if "refused" not in case.kept(target)]
each_sent = pytest.mark.parametrize(("case", "target"), SENT, ids=str)


@in_one_test
@pytest.mark.parametrize(("case", "target"), PAIRS, ids=str)
def test_an_agents_request_becomes_what_the_case_expects(case: RequestCase, target: str) -> None:
    assert case.kept(target) == case.becomes(target)


def test_only_a_search_that_an_upstream_does_not_run_is_refused() -> None:
    refused = {(str(case), target) for case, target in PAIRS} - {
        (str(case), target) for case, target in SENT
    }

    assert {("gemini_cli_5", "chat")} == refused


@in_one_test
@each_sent
def test_an_agents_request_is_one_that_the_vendors_sdk_would_send(
    case: RequestCase, target: str
) -> None:
    if case.dialect != target:  # what passes through is the agent's own affair
        validate(target, json.loads(case.sent(target).body))


@in_one_test
@each_sent
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


@in_one_test
@each_sent
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
