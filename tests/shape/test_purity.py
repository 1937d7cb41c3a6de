"""The core awaits nothing, logs nothing, and swallows nothing (imports: see the import contracts)."""

import ast
from pathlib import Path

import pytest

import dragoman
from tests.support.tables import in_one_test

SOURCE = Path(dragoman.__file__).parent
SHELLS = {
    "agents", "cli", "client", "gateway", "inspector", "mcp_server", "plugins.py", "probe", "simulator",
    "testing.py", "transport"
}  # fmt: skip
CORE = sorted(path for path in SOURCE.rglob("*.py") if SHELLS.isdisjoint(path.parts))


@in_one_test
@pytest.mark.parametrize("path", CORE, ids=lambda path: str(path.relative_to(SOURCE)))
def test_core_module_is_pure(path: Path) -> None:
    tree = ast.parse(path.read_text(encoding="utf-8"))

    for node in ast.walk(tree):
        assert not isinstance(node, ast.AsyncFunctionDef | ast.Await)
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else "everything"
            assert caught not in ("everything", "Exception", "BaseException")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in ("print", "open", "input", "eval", "exec")
