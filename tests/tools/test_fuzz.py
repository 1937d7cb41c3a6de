"""What `make fuzz` runs: each target accepts its seeds, and a target can fail."""

import random
import time
from collections.abc import Callable

import pytest
from tools.fuzz.judge import judge, judge_growth
from tools.fuzz.targets import TARGETS, Choice, Target


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_their_damaged_copies_pass(name: str) -> None:
    target = TARGETS[name]
    chance = random.Random(name)
    seeds = list(target.seeds())

    assert seeds
    for seed in chance.sample(seeds, min(20, len(seeds))):
        judge(target, seed)
        damaged = bytearray(seed + b" ")
        for _ in range(3):
            damaged[chance.randrange(3, len(damaged))] = chance.randrange(256)
        judge(target, bytes(damaged))


@pytest.mark.parametrize("name", TARGETS)
def test_time_and_memory_grow_with_the_size_of_repeated_seeds(name: str) -> None:
    target = TARGETS[name]
    chance = random.Random(name)
    seeds = list(target.seeds())

    for seed in chance.sample(seeds, min(2, len(seeds))):
        judge_growth(target, Choice.of(seed))


def test_an_input_that_takes_too_long_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.fuzz.judge._SECONDS", 0.05)

    def linger(_choice: Choice) -> None:
        end = time.process_time() + 0.06
        while time.process_time() < end:
            pass

    with pytest.raises(AssertionError, match="3 bytes took"):
        judge(Target(linger, list), b"abc")


def look_back(choice: Choice) -> None:
    """Add up everything before each 16th byte: quadratic time, and enough of it on a fast machine."""
    for at in range(0, len(choice.data), 16):
        sum(choice.data[:at])


def keep_prefixes(choice: Choice) -> int:
    """Keep everything before each 8th byte: quadratic memory."""
    kept = [choice.data[:at] for at in range(0, len(choice.data), 8)]
    return len(kept)


@pytest.mark.parametrize(
    ("run", "unit"), [(look_back, "processor seconds"), (keep_prefixes, "bytes of memory")]
)
def test_quadratic_work_fails(
    monkeypatch: pytest.MonkeyPatch, run: Callable[[Choice], object], unit: str
) -> None:
    monkeypatch.setattr("tools.fuzz.judge._ATTEMPTS", 1)

    with pytest.raises(AssertionError, match=unit):
        judge_growth(Target(run, list), Choice.of(b"\0\0\0abc"))
