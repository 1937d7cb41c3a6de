"""Budgets of keys: a refusal in the client's dialect that no agent retries, counted by one gateway or by several."""

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx2
import pytest
from msgspec import structs

from dragoman.gateway.config.settings import Key, Price, Secret, Server, Settings, Upstream
from tests.support.asking import get, post
from tests.support.gateway import DIALECTS, Stand, settings_for, stand
from tests.support.odd_upstream import OddUpstream
from tests.support.redis import RedisServer, redis_server
from tests.support.simulator import question
from tests.support.waiting import logged, until

# The simulator counts a few tokens for each answer: at these prices one answer costs a few dollars.
PRICES = (Price(model="*/plain*", input=100_000, output=100_000),)
STATUS = {"chat": 402, "anthropic": 402, "responses": 400, "gemini": 400}
WORDS = {
    "chat": "insufficient_quota",
    "anthropic": "billing_error",
    "responses": "insufficient_quota",
    "gemini": "FAILED_PRECONDITION",
}
KEYS = {
    **{f"daily-{name}": {"budget_day": 0.01} for name in DIALECTS},
    "monthly": {"budget_month": 0.01, "budget_day": 1000.0},
    "broke": {"budget_month": 0.01},
    "rich": {"budget_day": 1000.0},
    "reader": {"metrics": True},
}


@contextmanager
def gateways(number: int, redis: str = "") -> Iterator[list[Stand]]:
    def make(simulator: str) -> Settings:
        keys = tuple(Key(key=Secret("env:K", f"sk-{name}"), name=name, **limits) for name, limits in KEYS.items())  # fmt: skip
        state = Secret("env:STATE", redis) if redis else None
        server = Server(port=0, keys=keys, state=state)
        return structs.replace(settings_for(simulator), server=server, prices=PRICES, routes=())

    with ExitStack() as stack:
        yield [stack.enter_context(stand(make)) for _ in range(number)]


@pytest.fixture(scope="module")
def gateway() -> Iterator[Stand]:
    with gateways(1) as (found,):
        yield found


def ask(gateway: Stand, key: str, dialect: str = "chat", model: str = "chat/plain", *, stream: bool = False) -> httpx2.Response:  # fmt: skip
    headers = {"authorization": f"Bearer sk-{key}"}
    return post(gateway, dialect, question(dialect, model, stream=stream), headers=headers)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("stream", [False, True], ids=["body", "stream"])
def test_key_that_spent_its_budget_is_refused_as_one_without_credit(
    gateway: Stand, dialect: str, *, stream: bool
) -> None:
    ask(gateway, f"daily-{dialect}", dialect, stream=stream)
    asked = len(gateway.simulator.exchanges)
    refused = until(lambda: _refused(ask(gateway, f"daily-{dialect}", dialect, stream=stream)))
    line = logged(gateway, refused.headers["request-id"])

    assert STATUS[dialect] == refused.status_code
    assert "false" == refused.headers["x-should-retry"]
    assert "retry-after" not in refused.headers
    assert re.search(r"spent its budget of 0.01 US dollars for this day .* from \d{4}-\d\d-\d\d 00:00 UTC", refused.text)  # fmt: skip
    assert {WORDS[dialect]} == {one for one in WORDS.values() if one in refused.text}
    assert ("billing", "budget_spent") == (line["error"], line["error_code"])
    assert asked == len(gateway.simulator.exchanges)
    assert "x-dragoman-upstream" not in refused.headers


def _refused(got: httpx2.Response) -> httpx2.Response | None:
    return None if got.status_code == 200 else got


def test_budget_of_a_month_names_its_end(gateway: Stand) -> None:
    first = ask(gateway, "monthly")
    refused = ask(gateway, "monthly")

    assert (200, 402) == (first.status_code, refused.status_code)
    assert "for this month (`budget_month` in its settings)" in refused.text
    assert re.search(r"from \d{4}-\d\d-01 00:00 UTC", refused.text)


def test_key_without_money_may_still_list_models(gateway: Stand) -> None:
    ask(gateway, "broke")
    found = get(gateway, "/v1/models", headers={"authorization": "Bearer sk-broke"})

    assert 402 == ask(gateway, "broke").status_code
    assert 200 == found.status_code


def test_metrics_show_budgets_and_what_was_spent(gateway: Stand) -> None:
    cost = float(ask(gateway, "rich").headers["x-dragoman-cost"])
    ask(gateway, "rich", model="chat/sim/other")
    page = get(gateway, "/metrics", headers={"authorization": "Bearer sk-reader"}).text

    assert 'dragoman_budget_dollars{key="rich",period="day"} 1000.0' in page
    assert f'dragoman_budget_spent_dollars{{key="rich",period="day"}} {cost}' in page
    assert 'dragoman_budget_spent_dollars{key="monthly",period="month"}' in page
    assert 'dragoman_unpriced_requests_total{key="rich",upstream="chat"} 1.0' in page
    assert 'key="reader",period' not in page


@pytest.mark.parametrize("reported", [True, False])
def test_conversation_that_an_upstream_compacts_is_paid_for(
    odd: OddUpstream, *, reported: bool
) -> None:
    usage = {"input_tokens": 20, "output_tokens": 10, "total_tokens": 30}
    odd.answer_with(200, {"object": "response.compaction", "output": [], **({"usage": usage} if reported else {})})  # fmt: skip
    key = Key(key=Secret("env:K", "sk-key"), name="key", budget_day=0.01, metrics=True)

    def make(_simulator: str) -> Settings:
        upstream = Upstream(base_url=f"{odd.url}/v1", dialect="responses", retries=0)
        server = Server(port=0, keys=(key,))
        return Settings(server=server, upstreams={"odd": upstream}, prices=(Price(model="*", input=100, output=1000),))  # fmt: skip

    before = len(odd.asked)
    asked = {"model": "odd/m", "input": "A long conversation. " * 20}
    how = {"path": "/v1/responses/compact", "headers": {"x-api-key": "sk-key"}}
    with stand(make) as found:
        paid = post(found, "responses", asked, **how)
        line = logged(found, paid.headers["request-id"])
        refused = post(found, "responses", asked, **how)
        page = get(found, "/metrics", headers={"x-api-key": "sk-key"}).text

    assert (200, 400) == (paid.status_code, refused.status_code)
    assert "spent its budget" in refused.text
    assert 1 == len(odd.asked) - before
    assert float(paid.headers["x-dragoman-cost"]) == line["cost"]
    assert ("odd", not reported) == (line["upstream"], line.get("tokens_estimated", False))
    assert f'_spent_dollars{{key="key",period="day"}} {line["cost"]}' in page
    if reported:
        assert (20, 10, 0.012) == (line["tokens_in"], line["tokens_out"], line["cost"])


# --- several gateways ---------------------------------------------------------------------------------


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


def test_gateways_on_one_redis_share_a_budget_that_survives_their_restart(
    redis: RedisServer,
) -> None:
    with gateways(2, redis.url) as two:
        cost = _cost(ask(two[0], "daily-chat"))
        until(lambda: cost in _sums(redis))  # a request that begins before that is admitted
        until(lambda: 402 == ask(two[1], "daily-chat").status_code)
        costs = [_cost(ask(two[1], "rich")), _cost(ask(two[1], "rich"))]
        until(lambda: round(sum(costs), 9) in _sums(redis))
        costs.append(_cost(ask(two[0], "rich")))
        shown = until(lambda: _page_with(two[0], "rich", round(sum(costs), 9)))
    with gateways(1, redis.url) as (again,):
        refused = ask(again, "daily-chat")
    with redis.client() as client:
        expire = [client.ttl(name) for name in client.keys("dragoman:spent:*")]

    assert shown
    assert 402 == refused.status_code
    assert {cost, round(sum(costs), 9)} == _sums(redis)
    assert 4 == len(expire)  # a day and a month for each key
    assert all(86_400 < one <= 40 * 86_400 for one in expire)


def _cost(got: httpx2.Response) -> float:
    return float(got.headers["x-dragoman-cost"])


def _sums(redis: RedisServer) -> set[float]:
    """Return the sums in Redis, in dollars."""
    with redis.client() as client:
        found = (client.get(name) for name in client.keys("dragoman:spent:*"))
        return {int(one) / 10**9 for one in found if one is not None}


def _page_with(gateway: Stand, key: str, spent: float) -> str:
    page = get(gateway, "/metrics", headers={"authorization": "Bearer sk-reader"}).text
    return page if f'_spent_dollars{{key="{key}",period="day"}} {spent}' in page else ""


def test_budget_is_counted_here_while_redis_is_away_and_there_afterwards(
    redis: RedisServer,
) -> None:
    redis.kill()
    with gateways(1, redis.url) as (one,):
        cost = _cost(ask(one, "monthly"))
        refused = ask(one, "monthly")
        redis.start()
        sums = until(lambda: _sums(redis))

    assert 402 == refused.status_code
    assert {cost} == sums
