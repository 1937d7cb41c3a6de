"""Run tests that drive third-party programs.

Such a program may time out on a busy machine.  Failed tests are therefore run once more, one at a time, and
this is printed; a test that fails twice has failed.
"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
_TESTS_FAILED: Final = 1  # pytest's exit code


def run_tests(wanted: Sequence[str], options: Sequence[str], processes: int) -> int:
    """Return pytest's exit code."""
    pytest = [sys.executable, "-m", "pytest", *options]
    spread = ["-n", str(processes), "--dist", "worksteal"] if processes > 1 else []
    code = subprocess.call([*pytest, *spread, *wanted], cwd=ROOT)
    if code != _TESTS_FAILED:
        return code
    print("\nSome tests FAILED, see above.  They are run once more, one at a time:", flush=True)
    code = subprocess.call([*pytest, "--last-failed", *wanted], cwd=ROOT)
    if not code:
        print("The tests that failed in the first run, see above, have passed now.", flush=True)
    return code
