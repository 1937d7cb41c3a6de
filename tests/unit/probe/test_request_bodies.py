"""Every question in every dialect is a request of that dialect."""

import msgspec
import pytest

from dragoman.dialects import DIALECT_NAMES, dialect
from dragoman.errors import MalformedError
from dragoman.limits import DEFAULT_LIMITS
from dragoman.probe import questions
from dragoman.probe.questions import Habits, Question
from dragoman.probe.request_bodies import write_question
from tests.support.tables import in_one_test

ALL = {name: one for name, one in vars(questions).items() if isinstance(one, Question)}
ALL |= {f"SEARCH of {host}": one for host, one in questions.SEARCHES.items()}
each_dialect = pytest.mark.parametrize("spoken", DIALECT_NAMES)


def written(question: Question, spoken: str) -> bytes:
    return msgspec.json.encode(write_question(question, spoken, "a-model", Habits()))


@in_one_test
@each_dialect
@pytest.mark.parametrize("name", sorted(set(ALL) - {"MALFORMED"}))
def test_every_question_is_of_its_dialect(name: str, spoken: str) -> None:
    question = ALL[name]

    request = dialect(spoken).decode_request(
        written(question, spoken), sealer=None, limits=DEFAULT_LIMITS
    )

    assert question.stream == request.stream
    assert question.limit == request.max_output
    functions = [one.name for one in request.tools if not one.server]
    assert [one.name for one in question.tools] == functions
    asks = question.search not in ("", "own") or (question.search and spoken != "chat")
    assert bool(asks) == ("web_search" in request.needed)
    assert len(written(question, spoken)) < 3_000


@each_dialect
def test_the_spoilt_question_is_not(spoken: str) -> None:
    body = written(questions.MALFORMED, spoken)

    with pytest.raises(MalformedError):
        dialect(spoken).decode_request(body, sealer=None, limits=DEFAULT_LIMITS)
