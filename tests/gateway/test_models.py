"""The list of models when an upstream does not tell its own."""

from collections.abc import Iterator

import pytest
from msgspec import structs

from dragoman.gateway import models
from dragoman.gateway.config.settings import Settings, Upstream
from tests.support.asking import get
from tests.support.gateway import Stand, settings_for, stand
from tests.support.odd_upstream import OddUpstream, odd_upstream

FAILED = {"error": {"message": "no"}}
LISTED = {"data": [{"id": "new"}]}


@pytest.fixture
def both() -> Iterator[tuple[Stand, OddUpstream]]:
    with odd_upstream() as odd:

        def make(url: str) -> Settings:
            one = Upstream(base_url=f"{odd.url}/v1", retries=0)
            return structs.replace(settings_for(url), upstreams={"odd": one}, routes=())

        with stand(make) as found:
            yield found, odd


def listed(found: Stand) -> list[str]:
    return [one["id"] for one in get(found, "/v1/models").json()["data"]]


def test_failure_to_list_models_is_remembered_briefly(
    both: tuple[Stand, OddUpstream], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, odd = both
    odd.answer_with(500, FAILED)
    before = [listed(found), listed(found)]
    asked = len(odd.asked)
    found.running.gateway.runtime.catalogue.forget()
    monkeypatch.setattr(models, "_FAILED_SECONDS", 0.0)
    before.append(listed(found))
    odd.answer_with(200, LISTED)
    after = [listed(found), listed(found)]

    assert ([[], [], []], 1) == (before, asked)  # not asked with every request
    assert ([["new"], ["new"]], 3) == (after, len(odd.asked))


def test_known_models_stay_listed_while_their_upstream_fails(
    both: tuple[Stand, OddUpstream], monkeypatch: pytest.MonkeyPatch
) -> None:
    found, odd = both
    monkeypatch.setattr(models, "_KEPT_SECONDS", 0.0)
    odd.answer_with(200, LISTED)
    known = listed(found)
    odd.answer_with(500, FAILED)

    assert ["new"] == known == listed(found)
    assert 2 == len(odd.asked)


def test_failure_is_remembered_for_seconds_and_a_list_for_minutes() -> None:
    assert models._FAILED_SECONDS <= 10
    assert models._KEPT_SECONDS >= 60
