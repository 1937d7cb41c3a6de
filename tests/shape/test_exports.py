"""The public names."""

import ast
import subprocess
import sys
from pathlib import Path

import dragoman


def test_every_public_name_is_there_and_listed_once() -> None:
    assert len(set(dragoman.__all__)) == len(dragoman.__all__)
    for name in dragoman.__all__:
        assert getattr(dragoman, name) is not None


def test_type_checkers_see_the_same_names() -> None:
    tree = ast.parse(Path(dragoman.__file__).read_text(encoding="utf-8"))
    guard = next(node for node in tree.body if isinstance(node, ast.If))
    seen = {
        alias.asname: statement.module
        for statement in guard.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }

    assert dragoman._HOME_OF == seen


def test_importing_the_package_loads_none_of_its_parts() -> None:
    program = (
        "import sys, dragoman; print(sorted(m for m in sys.modules if m.startswith('dragoman.')))"
    )

    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert "[]" == out.stdout.strip()


def test_the_command_line_starts_without_what_only_commands_and_mistakes_need() -> None:
    program = (
        "import sys, dragoman.cli.main; print({'msgspec', 'difflib', 'aiohttp'} & {*sys.modules})"
    )

    out = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert "set()" == out.stdout.strip()
