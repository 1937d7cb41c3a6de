"""Tests of other projects' programs: what failed is run once more, and that is reported."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
# Passes if it was run before as often as the file beside it says.
TEST = """
import pathlib
def test_good(): pass
def test_it():
    count = pathlib.Path(__file__).with_name("count")
    left = int(count.read_text())
    count.write_text(str(left - 1))
    assert left <= 0
"""
RUN = "import sys; from tools.strangers import run_tests; sys.exit(run_tests([sys.argv[1]], sys.argv[2:], 1))"


@pytest.mark.parametrize(
    ("failures", "code", "again", "said"),
    [(0, 0, False, False), (1, 0, True, True), (2, 1, True, False)],
    ids=["well", "at first", "twice"],
)
def test_what_failed_is_run_once_more(
    tmp_path: Path, failures: int, code: int, again: bool, said: bool
) -> None:
    (tmp_path / "test_it.py").write_text(TEST, "utf-8")
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\n"
    )  # so that this project's settings do not apply
    (tmp_path / "count").write_text(str(failures), "utf-8")
    options = ["-o", f"cache_dir={tmp_path / 'cache'}", "--rootdir", str(tmp_path)]
    ran = subprocess.run(
        [sys.executable, "-c", RUN, str(tmp_path / "test_it.py"), *options],
        cwd=ROOT,
        env={
            **os.environ,
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },  # most of its time, and not needed
        capture_output=True,
        text=True,
        check=False,
    )

    assert code == ran.returncode, ran.stdout
    assert again == ("run once more" in ran.stdout)
    assert again == ("1 deselected" in ran.stdout)
    assert said == ("have passed now" in ran.stdout)
