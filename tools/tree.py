"""Compare the size of each package between two revisions: files, lines, modules with one importer.

    python -m tools.tree v0.1.0 main

A module that only one other module imports is often a section of that module.  The table counts them
for each package, besides `__init__.py` and the tables in `toolcalls/formats`.
"""

import argparse
import ast
import subprocess
import sys
from collections import defaultdict
from pathlib import PurePosixPath
from typing import Final, NamedTuple

ROOT: Final = "src/dragoman"
TABLES: Final = "toolcalls/formats"  # one file for each family, imported by the registry alone
_ABSENT: Final = ("-", "-", "-")


class Size(NamedTuple):
    """One row of the table for one revision."""

    files: int = 0
    lines: int = 0
    single: int = 0  # modules that exactly one other module imports

    def __add__(self, other: object) -> "Size":
        if not isinstance(other, Size):
            return NotImplemented
        return Size(*(one + two for one, two in zip(self, other, strict=True)))


def sources(revision: str) -> dict[str, str]:
    """Return the text of each module of a revision, by its path below `src/dragoman`.

    Raises:
        CalledProcessError: git does not know the revision.
    """
    listed = _git("ls-tree", "-r", "--name-only", revision, "--", ROOT).decode().splitlines()
    paths = [path for path in listed if path.endswith(".py")]
    asked = "".join(f"{revision}:{path}\n" for path in paths).encode()
    data = _git("cat-file", "--batch", given=asked)
    found = {}
    for path in paths:
        header, _, data = data.partition(b"\n")
        size = int(header.rsplit(b" ", 1)[1])
        found[path.removeprefix(f"{ROOT}/")] = data[:size].decode()
        data = data[size + 1 :]  # a line feed follows each file
    return found


def sizes(modules: dict[str, str]) -> dict[str, Size]:
    """Return the size of each package."""
    importers = _importers(modules)
    out: dict[str, Size] = defaultdict(Size)
    for path, text in modules.items():
        counts = not path.endswith("__init__.py") and not path.startswith(f"{TABLES}/")
        single = counts and len(importers[_module(path)]) == 1
        out[_package(path)] += Size(1, text.count("\n"), int(single))
    return dict(out)


def table(before: dict[str, Size], after: dict[str, Size]) -> str:
    """Return a Markdown table with a row for each package and one for all of them."""
    lines = ["| Package | Files | Lines | One importer |", "|---|---|---|---|"]
    rows = [(name, before.get(name), after.get(name)) for name in sorted({*before, *after})]
    rows.append(("all", _total(before), _total(after)))
    for name, old, new in rows:
        cells = [f"{one} → {two}" for one, two in zip(old or _ABSENT, new or _ABSENT, strict=True)]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _total(rows: dict[str, Size]) -> Size:
    total = Size()
    for row in rows.values():
        total += row
    return total


def _package(path: str) -> str:
    if path.startswith(f"{TABLES}/"):
        return TABLES
    first, slash, _ = path.partition("/")
    return first if slash else "(top level)"


def _module(path: str) -> str:
    """Return a module's dotted name; a package's is that of its folder."""
    parts = PurePosixPath("dragoman", path).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _importers(modules: dict[str, str]) -> dict[str, set[str]]:
    """Return for each module the modules that import it."""
    names = {_module(path) for path in modules}
    out: dict[str, set[str]] = {name: set() for name in names}
    for path, text in modules.items():
        for imported in _imported(ast.parse(text), names):
            if imported != _module(path):
                out[imported].add(_module(path))
    return out


def _imported(tree: ast.Module, names: set[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            below = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= below & names
            if below - names:  # something that the module itself defines
                found.add(node.module)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found.add(node.value.partition(":")[0])  # modules that are loaded by their name
    return found & names


def _git(*arguments: str, given: bytes = b"") -> bytes:
    command = ["git", *arguments]
    return subprocess.run(command, input=given, stdout=subprocess.PIPE, check=True).stdout


def main() -> int:
    """Print the table for two revisions."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("before", help="a git revision, such as a tag or a commit")
    parser.add_argument("after", nargs="?", default="HEAD", help="the revision to compare with")
    given = parser.parse_args()
    try:
        before, after = sizes(sources(given.before)), sizes(sources(given.after))
    except subprocess.CalledProcessError:
        return 2  # git has printed why
    print(table(before, after))
    return 0


if __name__ == "__main__":
    sys.exit(main())
