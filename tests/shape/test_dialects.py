"""Every dialect folder holds the same files, so that a behaviour is found by its direction."""

from pathlib import Path

import pytest

from dragoman.dialects import DIALECT_NAMES

SOURCE = Path(__file__).parents[2] / "src" / "dragoman"
FILES = {
    "schema",
    "request_reader",
    "request_writer",
    "history_reader",
    "history_writer",
    "tools_reader",
    "tools_writer",
    "answer_reader",
    "answer_writer",
    "block_reader",
    "body_writer",
    "errors",
}


@pytest.mark.parametrize("name", DIALECT_NAMES)
def test_dialect_has_the_twelve_files(name: str) -> None:
    found = {file.stem for file in (SOURCE / "dialects" / name).glob("*.py")}

    assert found == FILES | {"__init__"}
    assert (SOURCE / "checker" / f"{name}.py").exists()


@pytest.mark.parametrize("name", DIALECT_NAMES)
def test_tests_of_a_dialect_are_named_after_its_files(name: str) -> None:
    folder = Path(__file__).parents[1] / "unit" / "dialects" / name
    stems = [file.stem.removeprefix("test_") for file in folder.glob("test_*.py")]

    assert stems
    assert not [stem for stem in stems if not any(stem.startswith(file) for file in FILES)]
