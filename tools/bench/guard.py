"""Compares ratios with the stored ones, so that a change that makes something slower is noticed.

The stored ratios are in ratios.json, beside this module: for each row, its value and which direction is better.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec
from tools.bench.measure import Row

STORED: Final = Path(__file__).with_name("ratios.json")
TOLERANCE: Final = 0.25


class Ratio(msgspec.Struct, frozen=True):
    """A ratio of two figures of one run."""

    value: float
    better: Literal["higher", "lower"]


class Verdict(NamedTuple):
    """Lines about the ratios that differ by more than the tolerance, and about those that only one side has."""

    worse: list[str]
    better: list[str]
    missing: list[str]


def ratios_of(rows: Iterable[Row]) -> dict[str, Ratio]:
    return {row.name: Ratio(round(row.value, 3), row.better) for row in rows if row.guarded}


def load_ratios(path: Path = STORED) -> dict[str, Ratio]:
    return msgspec.json.decode(path.read_bytes(), type=dict[str, Ratio])


def save_ratios(rows: Iterable[Row], path: Path = STORED) -> None:
    """Store the ratios of these rows; others keep their values."""
    stored = (load_ratios(path) if path.exists() else {}) | ratios_of(rows)
    text = msgspec.json.format(msgspec.json.encode(stored), indent=1)
    path.write_bytes(text + b"\n")


def compare(stored: dict[str, Ratio], measured: dict[str, Ratio]) -> Verdict:
    """Compare the measured ratios with the stored ones.

    A ratio of which less is better is worse if it has grown by more than the tolerance; one of which more is
    better, if the inverse has.  A measured ratio that is not stored is named, and never a failure.
    """
    verdict = Verdict([], [], [])
    for name, now in measured.items():
        before = stored.get(name)
        if before is None:
            verdict.missing.append(f"new:    {name}: {now.value:g}; store it with --write")
            continue
        growth = _growth(before, now)
        line = f"{name}: {now.value:g}, stored {before.value:g}"
        if growth > 1 + TOLERANCE:
            verdict.worse.append(f"WORSE:  {line}")
        elif growth < 1 / (1 + TOLERANCE):
            verdict.better.append(f"better: {line}")
    return verdict


def check(rows: Iterable[Row]) -> int:
    """Print the ratios that differ from the stored ones, and return the exit code."""
    verdict = compare(load_ratios(), ratios_of(rows))
    for line in (*verdict.better, *verdict.missing, *verdict.worse):
        print(line)
    if verdict.worse:
        print(f"FAILED: {len(verdict.worse)} ratios are worse by more than {TOLERANCE:.0%}")
        return 1
    print(f"ok: no ratio is worse than in {STORED.name} by more than {TOLERANCE:.0%}")
    return 0


def _growth(before: Ratio, now: Ratio) -> float:
    """Return how many times worse a ratio is."""
    old, new = (max(one.value, 1e-9) for one in (before, now))
    return new / old if now.better == "lower" else old / new
