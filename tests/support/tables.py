"""Tables of cases that one test goes through.

pytest and its workers need some milliseconds for each test: more than many cases take.  A table is one test; it tries
all of its cases, and a failure names those that failed.
"""

import functools
import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest

_SHOWN = 5  # failures of one table that are shown with their tracebacks
_Param = type(pytest.param())
_CHARS = 100  # of a value in the name of a case


def check_all(cases: Iterable[Any], check: Callable[..., None]) -> None:
    """Check every case; a tuple is passed as several arguments.

    Raises:
        BaseExceptionGroup: some cases failed; each failure has the name of its case as a note.
    """
    _try_all(
        (case, functools.partial(check, *(case if type(case) is tuple else (case,))))
        for case in cases
    )


def in_one_test(test: Callable[..., None]) -> Callable[..., None]:
    """Make one test of all cases of `pytest.mark.parametrize`; write it above those decorators.

    Its fixtures are the same for all cases, so none of them may depend on a case or be changed by it.
    """
    marks = list(getattr(test, "pytestmark", ()))
    axes = [list(_rows(*mark.args[:2])) for mark in marks if mark.name == "parametrize"]
    assert axes, "there is nothing to go through"
    names = {name for axis in axes for name in axis[0]}
    signature = inspect.signature(test)

    @functools.wraps(test)
    def table(**fixtures: Any) -> None:
        _try_all(
            (case, functools.partial(test, **case, **fixtures))
            for rows in itertools.product(*axes)
            for case in [{name: value for row in rows for name, value in row.items()}]
        )

    table.pytestmark = [mark for mark in marks if mark.name != "parametrize"]  # type: ignore[attr-defined]
    table.__signature__ = signature.replace(  # type: ignore[attr-defined]
        parameters=[one for name, one in signature.parameters.items() if name not in names]
    )
    return table


def _rows(names: Any, values: Iterable[Any]) -> Iterator[dict[str, Any]]:
    """Return the cases of one `pytest.mark.parametrize`."""
    listed = [one.strip() for one in names.split(",")] if isinstance(names, str) else [*names]
    for value in values:
        row = value if len(listed) > 1 else (value,)
        yield dict(zip(listed, value.values if isinstance(value, _Param) else row, strict=True))


def _name(case: Any) -> str:
    if isinstance(case, dict):
        texts = {name: one if isinstance(one, str) else repr(one) for name, one in case.items()}
        return ", ".join(f"{name}: {text[:_CHARS]}" for name, text in texts.items())
    return " ".join(map(str, case)) if type(case) is tuple else str(case)


def _try_all(cases: Iterable[tuple[Any, Callable[[], None]]]) -> None:
    failed: list[BaseException] = []
    names: list[str] = []
    count = 0
    for case, check in cases:
        count += 1
        try:
            check()
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 -- all are shown
            names.append(_name(case))
            error.add_note(f"case: {names[-1]}")
            failed.append(error)
    assert count, "the table is empty"
    if failed:
        listed = "\n".join(names)
        message = f"{len(failed)} of {count} cases failed:\n{listed}"
        raise BaseExceptionGroup(message, failed[:_SHOWN])
