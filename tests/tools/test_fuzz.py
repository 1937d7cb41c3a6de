"""What `make fuzz` runs: each target accepts its seeds, and a target can fail."""

import random
import time

import pytest
from tools.fuzz.judge import COSTS, Cost, judge, judge_growth
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


(MEMORY,) = (one for one in COSTS if one.unit == "bytes of memory")
# How many times a target looks at a byte: time itself depends on the machine, and on what else runs there.
LOOKS = Cost("looks", 1_000, lambda target, choice: float(target.run(choice)))


def look_back(choice: Choice) -> int:
    """Look at everything before each 16th byte: quadratic work."""
    return sum(range(0, len(choice.data), 16))


def look_once(choice: Choice) -> int:
    """Look at each byte, and at the first ones often: linear work."""
    return len(choice.data) + 1_000


def keep_prefixes(choice: Choice) -> int:
    """Keep everything before each 24th byte: quadratic memory."""
    kept = [choice.data[:at] for at in range(0, len(choice.data), 24)]
    return len(kept)


def test_quadratic_work_fails() -> None:
    with pytest.raises(AssertionError, match="looks each"):
        judge_growth(Target(look_back, list), Choice.of(b"\0\0\0abc"), (LOOKS,))


def test_linear_work_passes() -> None:
    judge_growth(Target(look_once, list), Choice.of(b"\0\0\0abc"), (LOOKS,))


def test_quadratic_memory_fails() -> None:
    with pytest.raises(AssertionError, match="bytes of memory each"):
        judge_growth(Target(keep_prefixes, list), Choice.of(b"\0\0\0abc"), (MEMORY,))
