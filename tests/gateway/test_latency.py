"""How soon an answer begins.  The figures that matter are those of `make bench`; these hold anywhere."""

import time

import httpx2
import pytest

from tests.support.gateway import FIXED_PATHS, PATHS, Stand
from tests.support.simulator import WEATHER, question

ATTEMPTS = 200  # one is enough: others may use this machine

ENOUGH = 0.050  # seconds


@pytest.mark.parametrize("dialect", FIXED_PATHS)
@pytest.mark.parametrize("upstream", FIXED_PATHS)
def test_p_12_first_event_comes_within_fifty_milliseconds(
    gateway: Stand, dialect: str, upstream: str
) -> None:
    model = f"{upstream}/kimi-k2+think"
    spent: list[float] = []
    with httpx2.Client(timeout=60) as http:
        while not spent or (min(spent) >= ENOUGH and len(spent) < ATTEMPTS):
            body = question(dialect, model, f"Ulm, {len(spent)}?", tools=[WEATHER])
            began = time.perf_counter()
            with http.stream("POST", gateway.url + PATHS[dialect], json=body) as answer:
                first = next(answer.iter_raw())
            spent.append(time.perf_counter() - began)

    assert first
    assert min(spent) < ENOUGH
