"""A run sends what it announced."""

import pytest

from dragoman.dialects import DIALECT_NAMES
from dragoman.errors import ConfigError
from dragoman.probe.checks import CHECKS
from dragoman.probe.run import chosen, cost
from tests.support.probing import BASELINE, probe

each_dialect = pytest.mark.parametrize("spoken", DIALECT_NAMES)


@each_dialect
def test_no_more_is_asked_than_was_announced(spoken: str) -> None:
    most = cost(chosen((), spoken), spoken)
    report = probe(BASELINE, spoken)

    assert report.requests <= most.requests <= 48
    assert report.output_tokens <= most.output_tokens <= 36_000


@pytest.mark.parametrize("name", CHECKS)
def test_a_check_alone_asks_what_it_declares(name: str) -> None:
    spoken = CHECKS[name].dialects[0]
    most = cost(chosen((name,), spoken), spoken)
    report = probe(BASELINE, spoken, name)

    assert report.requests <= most.requests
    assert {"reach", name} == {row.name for row in report.checks}


def test_an_unknown_check_is_reported_with_those_that_there_are() -> None:
    with pytest.raises(ConfigError, match="no check `tool`; there are reach, models"):
        chosen(("tool",), "chat")
