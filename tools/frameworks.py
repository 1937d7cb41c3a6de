"""Install the Python frameworks that tests/frameworks drives, and run those tests.

    python -m tools.frameworks [ARGUMENTS OF PYTEST]

The versions are pinned in tests/frameworks; tools/venvs.py describes where they are installed.
"""

import os
import sys
from typing import Final

from tools.strangers import ROOT, run_tests
from tools.venvs import environment

LOCK: Final = ROOT / "tests" / "frameworks" / "frameworks.txt"
FOLDER_VARIABLE: Final = "DRAGOMAN_FRAMEWORKS"  # read by tests/frameworks


def main() -> int:
    folder = environment("frameworks", LOCK)
    if folder is None:
        return 1
    os.environ[FOLDER_VARIABLE] = str(folder)
    options = ["--timeout", "900", "--durations", "5"]
    return run_tests(sys.argv[1:] or ["tests/frameworks"], options, processes=2)


if __name__ == "__main__":
    sys.exit(main())
