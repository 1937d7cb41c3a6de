"""How soon an answer begins.  The figures that matter are those of `make bench`; these hold anywhere."""

import time

import httpx2
import pytest

from tests.support.gateway import DIALECTS, PATHS, Stand
from tests.support.simulator import WEATHER, question

ATTEMPTS = 12  # the best of them counts: others may use this machine


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("upstream", DIALECTS)
def test_p_12_first_event_comes_within_fifty_milliseconds(
    gateway: Stand, dialect: str, upstream: str
) -> None:
    model = f"{upstream}/kimi-k2+think"
    spent = []
    with httpx2.Client(timeout=30) as http:
        for number in range(ATTEMPTS):
            body = question(dialect, model, f"Ulm, {number}?", tools=[WEATHER])
            began = time.perf_counter()
            with http.stream("POST", gateway.url + PATHS[dialect], json=body) as answer:
                first = next(answer.iter_raw())
            spent.append(time.perf_counter() - began)

    assert first
    assert min(spent) < 0.050
