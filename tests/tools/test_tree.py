"""The table of packages: files, lines, and modules with one importer."""

import pytest
from tools.tree import Size, sizes, table

MODULES = {
    "errors.py": "class Wrong(Exception): ...\n",
    "cli/__init__.py": "",
    "cli/main.py": 'COMMANDS = {"check": "dragoman.cli.check:command"}\n',
    "cli/check.py": "from dragoman.errors import Wrong\nfrom dragoman.turn import state\n",
    "turn/__init__.py": "",
    "turn/state.py": "from dragoman.errors import Wrong\n",
    "toolcalls/formats/kimi.py": "",
}


def test_a_module_that_one_other_imports_is_counted() -> None:
    found = sizes(MODULES)

    assert Size(1, 1, 0) == found["(top level)"]  # two modules import it
    assert Size(3, 3, 1) == found["cli"]  # `check` is loaded by its name
    assert Size(2, 1, 1) == found["turn"]
    assert Size(1, 0, 0) == found["toolcalls/formats"]


def test_the_table_shows_both_revisions_and_a_sum() -> None:
    text = table({"cli": Size(2, 10, 1)}, {"cli": Size(1, 8), "turn": Size(1, 5)})

    assert "| cli | 2 → 1 | 10 → 8 | 1 → 0 |" in text
    assert "| turn | - → 1 | - → 5 | - → 0 |" in text
    assert "| all | 2 → 2 | 10 → 13 | 1 → 0 |" in text


def test_sizes_are_not_added_to_other_things() -> None:
    with pytest.raises(TypeError):
        Size() + 1  # type: ignore[operator]
