"""Programs on the pages for programmers satisfy a strict type checker, as a reader's own would."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGES = Path(__file__).parent.parent.parent / "docs"


@pytest.mark.timeout(600)
def test_programs_are_typed(tmp_path: Path) -> None:
    programs = []
    for name in ("library-client", "tool-loop", "mcp"):
        page = (PAGES / f"{name}.md").read_text("utf-8")
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", page, re.DOTALL)):
            programs.append(tmp_path / f"{name.replace('-', '_')}_{number}.py")
            programs[-1].write_text(block, "utf-8")
    options = ["--strict", "--cache-dir", str(tmp_path / "cache"), "--config-file", ""]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *programs],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert len(programs) >= 10
    assert 0 == done.returncode, done.stdout
