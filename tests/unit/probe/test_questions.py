"""Questions are legal, small, and as many as announced."""

import msgspec
import pytest

from dragoman.dialects import DIALECT_NAMES, dialect
from dragoman.errors import ConfigError, MalformedError
from dragoman.limits import DEFAULT_LIMITS
from dragoman.probe import questions
from dragoman.probe.checks import CHECKS
from dragoman.probe.questions import Habits, Question
from dragoman.probe.request_bodies import write_question
from dragoman.probe.run import chosen, cost
from dragoman.profiles.profile import Profile
from tests.support.probing import BASELINE, probe

ALL = {name: one for name, one in vars(questions).items() if isinstance(one, Question)}
each_dialect = pytest.mark.parametrize("spoken", DIALECT_NAMES)


def written(question: Question, spoken: str) -> bytes:
    return msgspec.json.encode(write_question(question, spoken, "a-model", Habits()))


@each_dialect
@pytest.mark.parametrize("name", sorted(set(ALL) - {"SPOILT"}))
def test_every_question_is_of_its_dialect(name: str, spoken: str) -> None:
    question = ALL[name]

    request = dialect(spoken).decode_request(
        written(question, spoken), sealer=None, limits=DEFAULT_LIMITS
    )

    assert question.stream == request.stream
    assert question.limit == request.max_output
    assert [one.name for one in question.tools] == [one.name for one in request.tools]
    assert len(written(question, spoken)) < 3_000


@each_dialect
def test_the_spoilt_question_is_not(spoken: str) -> None:
    body = written(questions.SPOILT, spoken)

    with pytest.raises(MalformedError):
        dialect(spoken).decode_request(body, sealer=None, limits=DEFAULT_LIMITS)


@each_dialect
def test_no_more_is_asked_than_was_announced(spoken: str) -> None:
    most = cost(chosen((), spoken), spoken)
    report = probe(BASELINE, spoken)

    assert report.requests <= most.requests <= 40
    assert report.output_tokens <= most.output_tokens <= 32_000


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_alone_asks_what_it_declares(name: str) -> None:
    spoken = CHECKS[name].dialects[0]
    most = cost(chosen((name,), spoken), spoken)
    report = probe(BASELINE, spoken, name)

    assert report.requests <= most.requests
    assert {"reach", name} == {row.name for row in report.checks}


def test_implied_facts_are_fields_of_profiles() -> None:
    fields = set(Profile.__struct_fields__)

    for model in (BASELINE, "kimi-k2+structural"):
        for row in probe(model).checks:
            assert row.implies.keys() <= fields


def test_an_unknown_check_is_reported_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match="no check `tool`; there are reach, models"):
        chosen(("tool",), "chat")
