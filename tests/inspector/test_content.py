"""The content of recordings is searched: bounded work for one answer, and the next one continues."""

import itertools
import json
from pathlib import Path

import pytest

from dragoman.inspector.content import ContentSearch, content_text
from dragoman.inspector.summary import Row, Summary
from tests.support.recordings import RECORDING


def copies(folder: Path, count: int) -> list[Summary]:
    """Write a recording so many times; return their summaries."""
    data = RECORDING.read_bytes()
    for at in range(count):
        (folder / f"{at}.dragoman").write_bytes(data)
    return [
        Summary(row=Row(id=str(at), time=float(at)), file=f"{at}.dragoman") for at in range(count)
    ]


def test_a_search_continues_where_the_last_answer_ended(tmp_path: Path) -> None:
    newest = copies(tmp_path, 30)
    word = next(word for word in content_text(RECORDING.read_bytes()).split() if len(word) > 4)
    ticks = itertools.count()
    search = ContentSearch(clock=lambda: next(ticks) * 0.05)
    steps = []
    for _ in range(10):
        steps.append(search.search(tmp_path, [word.upper()], newest))
        if steps[-1].searched == steps[-1].of:
            break

    assert len(steps) > 1
    assert all(step.of == 30 for step in steps)
    assert 30 == len(search.found([word]))


def test_a_recording_that_has_grown_is_searched_again(tmp_path: Path) -> None:
    newest = copies(tmp_path, 1)
    search = ContentSearch()
    search.search(tmp_path, ["zanzibar"], newest)
    assert not search.found(["zanzibar"])
    with (tmp_path / "0.dragoman").open("ab") as file:
        file.write(b'{"line":"events","events":[{"event":"text","index":7,"text":"zanzi"}]}\n')
        file.write(b'{"line":"events","events":[{"event":"text","index":7,"text":"bar"}]}\n')
    search.search(tmp_path, ["zanzibar"], newest)

    assert {"0.dragoman"} == search.found(["zanzibar"])


@pytest.mark.parametrize(
    "damage", [b"", b"not a recording", b'{"line":"events","events":[{', b"\xff\n" * 9]
)
def test_any_bytes_can_be_searched(damage: bytes) -> None:
    assert isinstance(content_text(damage), str)
    assert isinstance(content_text(RECORDING.read_bytes()[:-40] + damage), str)


def test_a_recording_that_another_program_has_formatted_is_searched() -> None:
    lines = [json.dumps(json.loads(line)) for line in RECORDING.read_bytes().splitlines()]
    assert content_text("\n".join(lines).encode()) == content_text(RECORDING.read_bytes())
