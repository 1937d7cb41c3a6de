"""Comments that cite why a branch exists: a corpus case that reaches it (`Case:`), or a test (`Test:`)."""

import ast
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import dragoman
from dragoman.turn.server_tools import ServerKind
from tests.support.corpus import ROOT, Case, drive

SOURCE = Path(dragoman.__path__[0])
TESTS = Path(__file__).parents[1]
CASES = re.compile(r"# .*Cases?: ((?:(?:anthropic|chat|gemini|responses)/[a-z0-9_]+(?:, )?)+)")
# Wherever a comment or a docstring names a case.  Vendor-run tools are named in the same way: `responses/web_search`.
FAMILIES = [one.name for one in (ROOT / "toolcalls").iterdir() if one.is_dir()]
FOLDERS = "|".join(["anthropic", "chat", "errors", "gemini", "requests", "responses", *FAMILIES])
NAMED = re.compile(rf"(?<![\w/.-])(?:{FOLDERS})/[a-z0-9_]+\b(?![/.]\w)")
LISTED = re.compile(r"[Cc]ases?: ((?:[a-z0-9_]+(?:/[a-z0-9_]+)+(?:, )?)+)")
TOOLS = {*map(str, ServerKind)}
CITED_TESTS = re.compile(r"# .*Tests?: ((?:test_[a-z0-9_]+(?:, )?)+)")


def branch_line(tree: ast.AST, line: int) -> int:
    """Return the line that runs if the statement or `case` at `line` is taken."""
    for node in ast.walk(tree):
        at = node.pattern.lineno if isinstance(node, ast.match_case) else getattr(node, "lineno", 0)
        if at == line and isinstance(node, ast.If | ast.For | ast.match_case):
            return node.body[0].lineno
    return line


def citations() -> Iterator[tuple[str, Path, int]]:
    """Yield each cited case with the file and the line that it must reach."""
    for path in sorted((SOURCE / "dialects").rglob("*.py")):
        text = path.read_text("utf-8")
        lines = text.splitlines()
        for number, line in enumerate(lines):
            if match := CASES.search(line):
                code = next(
                    at for at in range(number, len(lines)) if not lines[at].strip().startswith("#")
                )
                target = branch_line(ast.parse(text), code + 1)
                for name in match[1].split(", "):
                    yield name, path, target


def lines_run(case: Case, files: set[str]) -> set[tuple[str, int]]:
    """Return the lines of `files` that run while a case is read."""
    found: set[tuple[str, int]] = set()

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            found.add((frame.f_code.co_filename, frame.f_lineno))
        return local

    def trace(frame: FrameType, _event: str, _: Any) -> Any:
        code: CodeType = frame.f_code
        return local if code.co_filename in files else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        drive(case.reader(), [case.stream])
    finally:
        sys.settrace(before)
    return found


def test_every_cited_case_reaches_the_branch_that_cites_it() -> None:
    by_case: dict[str, list[tuple[str, int]]] = {}
    for name, path, line in citations():
        by_case.setdefault(name, []).append((str(path), line))
    missed = []
    for name, places in by_case.items():
        run = lines_run(Case(ROOT / name), {path for path, _ in places})
        missed += [f"{path}:{line}: {name}" for path, line in places if (path, line) not in run]

    assert len(by_case) > 50
    assert not missed, "\n".join(missed)


def named_cases(path: Path) -> Iterator[str]:
    """Yield each case that a comment or a docstring of a module names."""
    with path.open("rb") as file:
        for token in tokenize.tokenize(file.readline):
            is_docstring = token.type == tokenize.STRING and token.string.startswith('"""')
            if token.type == tokenize.COMMENT or is_docstring:
                yield from NAMED.findall(token.string)
                for group in LISTED.findall(token.string):
                    yield from group.removesuffix(", ").split(", ")


def exists(name: str) -> bool:
    stored = ROOT / name, ROOT / "toolcalls" / f"{name}.json", TESTS.parent / name
    return any(one.exists() for one in stored) or name.partition("/")[2] in TOOLS


def test_every_cited_case_exists() -> None:
    cited = {(path, name) for path in SOURCE.rglob("*.py") for name in named_cases(path)}

    assert len(cited) > 200
    assert [] == sorted(f"{path}: {name}" for path, name in cited if not exists(name))


def test_every_cited_test_exists() -> None:
    cited = {
        name
        for path in SOURCE.rglob("*.py")
        for group in CITED_TESTS.findall(path.read_text("utf-8"))
        for name in group.split(", ")
    }
    defined = {
        name
        for path in TESTS.rglob("*.py")
        for name in re.findall(
            r"^\s*(?:async )?def (test_\w+)", path.read_text("utf-8"), re.MULTILINE
        )
    }

    assert cited
    assert not cited - defined
