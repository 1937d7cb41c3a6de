"""Every dialect folder holds the same files, and code outside of them asks `Dialect`, not a dialect's name."""

import ast
from collections.abc import Iterator
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


# --- names of dialects ------------------------------------------------------------------------------

# Programs and tests of one dialect at a time: what they send and check differs by dialect.
BY_DIALECT = {"checker", "probe", "simulator"}
# Comparisons that stay, with their reason in the code.
KEPT = {"dialects/history_policy.py": 1}


def _names_dialect(node: ast.expr) -> bool:
    """Return whether an expression is the name of a dialect, as far as it shows."""
    match node:
        case ast.Attribute(value=ast.Name(id=owner), attr="name"):
            return owner in {"api", "to", "source", "target", "upstream"}
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in {"source", "target"} or "dialect" in name
    return False


def _literals(node: ast.expr) -> set[str]:
    return {
        one.value
        for one in ast.walk(node)
        if isinstance(one, ast.Constant) and isinstance(one.value, str)
    }


def comparisons(tree: ast.AST) -> Iterator[int]:
    """Yield the lines that compare the name of a dialect with a literal."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
        elif isinstance(node, ast.Match):
            sides = [node.subject, *(one for case in node.cases for one in _patterns(case.pattern))]
        else:
            continue
        literals = set().union(*map(_literals, sides))
        if any(map(_names_dialect, sides)) and literals.intersection(DIALECT_NAMES):
            yield node.lineno


def _patterns(pattern: ast.pattern) -> list[ast.expr]:
    return [one.value for one in ast.walk(pattern) if isinstance(one, ast.MatchValue)]


def test_code_that_dialects_share_compares_no_name_of_a_dialect() -> None:
    found: dict[str, list[int]] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).parts
        own = parts[0] == "dialects" and len(parts) > 2
        if own or parts[0] in {*BY_DIALECT, "profiles"}:
            continue
        lines = list(comparisons(ast.parse(path.read_text("utf-8"))))
        if len(lines) != KEPT.get("/".join(parts), 0):
            found["/".join(parts)] = lines

    assert not found


def test_comparisons_with_the_name_of_a_dialect_are_found() -> None:
    lines = [
        'if dialect == "chat": pass',
        'if request.dialect not in ("anthropic", "other"): pass',
        "match client.dialect:",
        '    case "gemini": pass',
        'if vendor == "anthropic" or dialect == other: pass',
        'if to.name == "responses": pass',
    ]

    assert [1, 2, 3, 6] == sorted(comparisons(ast.parse("\n".join(lines))))
