"""Type checkers see exact types for users of the public API."""

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "public_api.py"


@pytest.mark.timeout(600)
def test_types_of_the_public_api(tmp_path: Path) -> None:
    options = ["--strict", "--cache-dir", str(tmp_path), "--config-file", ""]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(PROGRAM)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    assert 0 == done.returncode, done.stdout
