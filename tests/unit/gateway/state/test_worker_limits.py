"""Key limits in a file that several processes map into memory."""

import multiprocessing
import os
import signal
from pathlib import Path

import pytest

from dragoman.gateway.config.settings import Key, Secret
from dragoman.gateway.keys import Admission, Holder, Keyring
from dragoman.gateway.state.key_limits import Meter
from dragoman.gateway.state.state import State
from dragoman.gateway.state.worker_limits import WorkerLimits
from dragoman.turn.events import Fault

DIGEST = b"0123456789abcdef"
FORK = multiprocessing.get_context("fork")


@pytest.fixture
def limits(tmp_path: Path) -> State:
    return State(tmp_path)


def holder(limits: State, **options: int) -> Holder:
    ring = Keyring([Key(key=Secret("env:K", "k-1"), **options)], limits)
    found = ring.identify({"x-api-key": "k-1"})
    assert isinstance(found, Holder)
    return found


def many(folder: Path, results: "multiprocessing.Queue[int]") -> None:
    one = holder(State(folder), requests_per_minute=300)
    results.put(sum(isinstance(one.enter(5.0, 0), Admission) for _ in range(200)))


def test_processes_together_get_the_limit(tmp_path: Path) -> None:
    results: multiprocessing.Queue[int] = FORK.Queue()
    workers = [FORK.Process(target=many, args=(tmp_path, results)) for _ in range(3)]
    for one in workers:
        one.start()
    passed = [results.get(timeout=30) for _ in workers]
    for one in workers:
        one.join(30)

    assert 300 == sum(passed)


def held(folder: Path, ready: "multiprocessing.Queue[int]") -> None:
    one = holder(State(folder), concurrent=2)
    ready.put(sum(isinstance(one.enter(5.0, 0), Admission) for _ in range(3)))
    signal.pause()


def test_requests_of_a_worker_that_crashed_do_not_count(tmp_path: Path, limits: State) -> None:
    ready: multiprocessing.Queue[int] = FORK.Queue()
    worker = FORK.Process(target=held, args=(tmp_path, ready))
    worker.start()
    assert 2 == ready.get(timeout=30)
    one = holder(limits, concurrent=2)
    before = one.enter(5.0, 0)
    assert worker.pid is not None
    os.kill(worker.pid, signal.SIGKILL)
    worker.join(30)

    after = [one.enter(5.0, 0) for _ in range(3)]

    assert isinstance(before, Fault)
    assert [Admission, Admission, Fault] == [type(each) for each in after]


def test_a_worker_that_takes_the_number_of_one_that_ended_begins_with_no_requests(
    tmp_path: Path,
) -> None:
    first = WorkerLimits(tmp_path)
    first.meter(DIGEST).enter(None, 5.0, 0)
    first.close()
    second = WorkerLimits(tmp_path)
    meter = second.meter(DIGEST)

    assert meter.enter(None, 5.0, 0) is None
    assert 1 == meter.running
    second.close()


def test_tokens_that_were_estimated_too_high_are_given_back(limits: State) -> None:
    one, same = (holder(limits, tokens_per_minute=100) for _ in range(2))
    admission = one.enter(5.0, 90)
    assert isinstance(admission, Admission)
    before = same.enter(5.0, 50)

    admission.leave(10)

    assert isinstance(before, Fault)
    assert isinstance(same.enter(5.0, 50), Admission)


def test_keys_beyond_the_files_room_are_counted_in_the_process(
    limits: State, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dragoman.gateway.state.worker_limits._RECORDS", 2)

    meters = [limits.meter(bytes([number]) * 16) for number in (1, 2, 3)]

    assert [False, False, True] == [type(one) is Meter for one in meters]
    assert limits.meter(bytes([1]) * 16).enter(None, 0.0, 0) is None


def test_a_reload_keeps_the_counts(limits: State) -> None:
    keys = [Key(key=Secret("env:K", "k-1"), requests_per_minute=1)]
    old, new = Keyring(keys, limits), Keyring(keys, limits)
    before, after = (ring.identify({"x-api-key": "k-1"}) for ring in (old, new))
    assert isinstance(before, Holder)
    assert isinstance(after, Holder)
    before.enter(5.0, 0)

    new.adopt(old)

    assert isinstance(after.enter(5.0, 0), Fault)
