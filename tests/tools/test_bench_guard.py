"""`make bench-check` compares the ratios of a run with the stored ones; timings are not part of these tests."""

from pathlib import Path

import pytest
from tools.bench.guard import Ratio, check, compare, load_ratios, ratios_of, save_ratios
from tools.bench.measure import Row


def row(name: str, *values: float, better: str = "lower", guarded: bool = True) -> Row:
    return Row(name=name, values=list(values), better=better, guarded=guarded)


@pytest.mark.parametrize(
    ("better", "stored", "measured", "worse", "improved"),
    [
        ("lower", 1.0, 1.26, True, False),
        ("lower", 1.0, 1.24, False, False),
        ("lower", 1.0, 0.7, False, True),
        ("higher", 1.0, 0.79, True, False),
        ("higher", 1.0, 0.81, False, False),
        ("higher", 1.0, 1.3, False, True),
        ("higher", 1.0, 0.0, True, False),
    ],
)
def test_ratio_is_worse_beyond_a_quarter_in_its_direction(
    *, better: str, stored: float, measured: float, worse: bool, improved: bool
) -> None:
    verdict = compare({"a": Ratio(stored, better)}, {"a": Ratio(measured, better)})

    assert worse == bool(verdict.worse)
    assert improved == bool(verdict.better)
    assert [] == verdict.missing


def test_ratio_that_only_one_side_has_is_no_failure() -> None:
    verdict = compare({"old": Ratio(1.0, "lower")}, {"new": Ratio(9.0, "lower")})

    assert [] == verdict.worse
    assert 1 == len(verdict.missing)
    assert "new" in verdict.missing[0]


def test_only_guarded_rows_are_compared_by_their_median() -> None:
    rows = [row("kept", 1.0, 9.0, 2.0), row("milliseconds", 5.0, guarded=False)]

    assert {"kept": Ratio(2.0, "lower")} == ratios_of(rows)


def test_ratios_of_a_part_leave_the_others_stored(tmp_path: Path) -> None:
    path = tmp_path / "ratios.json"
    save_ratios([row("a", 1.0), row("b", 2.0, better="higher")], path)
    save_ratios([row("a", 3.0)], path)

    assert {"a": Ratio(3.0, "lower"), "b": Ratio(2.0, "higher")} == load_ratios(path)


@pytest.mark.parametrize(("factor", "code"), [(1.0, 0), (1.5, 1)])
def test_exit_code_is_1_if_a_ratio_is_worse(
    factor: float, code: int, capsys: pytest.CaptureFixture[str]
) -> None:
    name, ratio = next((name, one) for name, one in load_ratios().items() if one.better == "lower")

    assert code == check([row(name, ratio.value * factor)])
    assert ("FAILED" in capsys.readouterr().out) == bool(code)
