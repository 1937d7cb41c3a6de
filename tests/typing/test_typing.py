"""A strict type checker accepts programs that use the public API, and infers exact types for them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs"
PUBLIC_API = Path(__file__).parent / "public_api.py"


@pytest.mark.timeout(600)
def test_programs_of_the_pages_and_the_public_api_are_typed(tmp_path: Path) -> None:
    programs = [PUBLIC_API]
    for name in ("library-client", "tool-loop", "mcp"):
        page = (PAGES / f"{name}.md").read_text("utf-8")
        for number, block in enumerate(re.findall(r"```python\n(.*?)```", page, re.DOTALL)):
            programs.append(tmp_path / f"{name.replace('-', '_')}_{number}.py")
            programs[-1].write_text(block, "utf-8")
    # One run for all of them, because most of its time goes into reading the package; the next run knows it already.
    options = ["--strict", "--cache-dir", str(ROOT / ".mypy_cache" / "programs")]
    options += ["--config-file", ""]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *programs],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert len(programs) >= 11
    assert 0 == done.returncode, done.stdout
