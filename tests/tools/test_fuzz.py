"""What `make fuzz` runs: each target accepts its seeds, and a target can fail."""

import random
import time

import pytest
from tools.fuzz.targets import TARGETS, Choice, Target, judge


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


def test_an_input_that_takes_too_long_fails() -> None:
    def linger(_choice: Choice) -> None:
        end = time.process_time() + 0.6
        while time.process_time() < end:
            pass

    with pytest.raises(AssertionError, match="3 bytes took"):
        judge(Target(linger, list), b"abc")
