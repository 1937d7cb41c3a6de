"""docs/benchmarks.md and its pictures are what the stored results of `make bench-peers` give."""

import xml.etree.ElementTree as ET

import pytest
from tools.bench import page, results
from tools.bench.results import Cell, Comparison, Measured

HINT = "run: python -m tools.bench.compare --render"


@pytest.fixture(scope="module")
def stored() -> Comparison:
    return results.load()


def test_page_is_current(stored: Comparison) -> None:
    assert page.render(stored) == page.PAGE.read_text("utf-8"), HINT


def test_pictures_are_current_and_well_formed(stored: Comparison) -> None:
    for name, text in page.pictures(stored).items():
        assert text == (page.IMAGES / name).read_text("utf-8"), HINT
        assert ET.fromstring(text).tag.endswith("svg")


def test_every_server_without_a_figure_has_a_reason(stored: Comparison) -> None:
    for cells in stored.cells.values():
        assert set(stored.servers) == set(cells)
        assert all(cell.rates or cell.failure for cell in cells.values())


def test_workload_that_a_server_cannot_do_is_a_cell_with_its_reason() -> None:
    cases = {case: Cell(rates=[2.0], cpu=[9.0]) for case in ("whole", "dense", "agent", "long")}
    refused = Cell(failure="messages | is not supported")
    made = Comparison(
        date="2026-01-01",
        machine="a machine",
        busy="",
        missing={"Other": "not on PATH"},
        servers={"Dragoman": Measured("dragoman"), "Peer": Measured("peer", note="PyPI")},
        cells={
            case: {"Dragoman": cell, "Peer": refused}
            for case, cell in {**cases, "kimi": refused, "qwen": refused}.items()
        },
    )

    text = page.render(made)

    assert "| Peer | (1) | (1) |" in text
    assert "* (1) messages  is not supported" in text
    assert "* Other: not on PATH" in text
