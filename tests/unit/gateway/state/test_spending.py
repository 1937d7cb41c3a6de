"""What a key has spent: days and months of UTC, in one process and in a file that workers share."""

import multiprocessing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from dragoman.gateway.config.settings import Key, Secret
from dragoman.gateway.keys import Admission, Holder, Keyring
from dragoman.gateway.state.spending import Spending, Spent, period_names, reset_of
from dragoman.gateway.state.state import State
from dragoman.turn.events import Fault, FaultKind

FORK = multiprocessing.get_context("fork")


def at(text: str) -> float:
    return datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()


EVENING = at("2026-11-17T23:59:59")


def holder(state: State | None, now: list[float], **budgets: float) -> Holder:
    keys = [Key(key=Secret("env:K", "k-1"), **budgets)]
    found = Keyring(keys, state, lambda: now[0]).identify({"x-api-key": "k-1"})
    assert isinstance(found, Holder)
    return found


@pytest.mark.parametrize(
    ("then", "spent"),
    [
        ("2026-11-17T23:59:59", Spent(7, 7)),
        ("2026-11-18T00:00:00", Spent(0, 7)),
        ("2026-12-01T00:00:00", Spent(0, 0)),
        ("2027-11-17T12:00:00", Spent(0, 0)),
    ],
)
def test_sums_begin_again_with_every_day_and_month(then: str, spent: Spent) -> None:
    spending = Spending()
    spending.add(3, at("2026-11-17T00:00:00"))
    spending.add(4, EVENING)

    assert spent == spending.spent(at(then))


@pytest.mark.parametrize(
    ("now", "day", "month"),
    [
        ("2026-11-17T23:59:59", "2026-11-18", "2026-12-01"),
        ("2026-12-31T00:00:00", "2027-01-01", "2027-01-01"),
        ("2028-02-28T10:00:00", "2028-02-29", "2028-03-01"),
        ("2026-01-31T10:00:00", "2026-02-01", "2026-02-01"),
    ],
)
def test_budgets_begin_again_at_midnight(now: str, day: str, month: str) -> None:
    assert day == f"{reset_of('budget_day', at(now)):%Y-%m-%d}"
    assert month == f"{reset_of('budget_month', at(now)):%Y-%m-%d}"
    assert (now[:10], now[:7]) == period_names(at(now))


@pytest.mark.parametrize("shared", [False, True], ids=["process", "file"])
def test_key_is_refused_until_its_budget_begins_again(tmp_path: Path, *, shared: bool) -> None:
    now = [EVENING]
    one = holder(State(tmp_path) if shared else None, now, budget_day=0.5, budget_month=0.8)
    entered = one.enter(0.0, 10)
    one.charge(0.499999999)
    below = one.enter(0.0, 10)
    one.charge(0.000000001)
    refused = one.enter(0.0, 10)
    free = one.enter(0.0, 0)  # such as cancelling a response
    now[0] += 1
    tomorrow = one.enter(0.0, 10)
    one.charge(0.3)
    month = one.enter(0.0, 10)
    now[0] = at("2026-12-01T00:00:00")

    assert [Admission] * 4 == [type(each) for each in (entered, below, free, tomorrow)]
    assert isinstance(refused, Fault)
    assert (FaultKind.BILLING, 402) == (refused.kind, refused.status)
    assert (
        "this key has spent its budget of 0.5 US dollars for this day (`budget_day` in its settings);"
        " it may spend again from 2026-11-18 00:00 UTC"
    ) == refused.message
    assert isinstance(month, Fault)
    assert "0.8 US dollars for this month" in month.message
    assert month.message.endswith("from 2026-12-01 00:00 UTC")
    assert isinstance(one.enter(0.0, 10), Admission)


def spend(folder: Path) -> None:
    one = holder(State(folder), [EVENING], budget_day=1)
    for _ in range(300):
        one.charge(0.000000007)


def test_processes_add_to_one_sum(tmp_path: Path) -> None:
    workers = [FORK.Process(target=spend, args=(tmp_path,)) for _ in range(3)]
    for one in workers:
        one.start()
    for one in workers:
        one.join(30)
    found = holder(State(tmp_path), [EVENING], budget_day=1)

    assert [("day", 1.0, 0.0000063)] == list(found.budgets())


def test_a_reload_keeps_what_was_spent() -> None:
    keys = [Key(key=Secret("env:K", "k-1"), budget_month=1)]
    old, new = Keyring(keys), Keyring(keys)
    for ring in (old, new):
        assert isinstance(ring.identify({"x-api-key": "k-1"}), Holder)
    before = old.identify({"x-api-key": "k-1"})
    assert isinstance(before, Holder)
    before.charge(0.25)

    new.adopt(old)

    assert [("key-1", "month", 1.0, 0.25)] == list(new.budgets())
