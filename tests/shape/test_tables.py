"""Tables of cases in one test: all cases are tried, and a failure names its case."""

from pathlib import Path

import pytest

from tests.support.tables import check_all, in_one_test

TRIED = []


@in_one_test
@pytest.mark.parametrize("one", [1, 2, 3])
@pytest.mark.parametrize(("two", "three"), [("a", "b"), pytest.param("c", "d", id="named")])
def test_every_case_is_tried_with_the_fixtures_of_the_test(
    tmp_path: Path, one: int, two: str, three: str
) -> None:
    TRIED.append((tmp_path, one, two, three))
    if len(TRIED) == 6:
        assert [(1, "a"), (2, "a"), (3, "a"), (1, "c"), (2, "c"), (3, "c")] == [
            case[1:3] for case in TRIED
        ]
        assert 1 == len({case[0] for case in TRIED})


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def is_even(number: int) -> None:
    assert number % 2 == 0


def test_cases_that_fail_are_named() -> None:
    with pytest.raises(BaseExceptionGroup) as caught:
        in_one_test(is_even)()

    assert str(caught.value).startswith("2 of 4 cases failed:\nnumber: 1\nnumber: 3 (2 sub-")
    assert ["case: number: 1"] == caught.value.exceptions[0].__notes__


def test_a_missing_exception_is_a_failure_of_its_case() -> None:
    def raises(number: int) -> None:
        with pytest.raises(ZeroDivisionError):
            1 / number

    with pytest.raises(BaseExceptionGroup, match="2 of 3 cases failed:\n1\n2"):
        check_all([0, 1, 2], raises)


def test_an_empty_table_fails() -> None:
    with pytest.raises(AssertionError, match="the table is empty"):
        check_all([], is_even)
