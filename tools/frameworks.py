"""Install the Python frameworks that tests/frameworks drives, and run those tests.

    python -m tools.frameworks [ARGUMENTS OF PYTEST]

The versions are pinned in tests/frameworks; see tools/venvs.py for where they go.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.venvs import environment

ROOT: Final = Path(__file__).parent.parent
LOCK: Final = ROOT / "tests" / "frameworks" / "frameworks.txt"
FOLDER_VARIABLE: Final = "DRAGOMAN_FRAMEWORKS"  # read by tests/frameworks


def main() -> int:
    folder = environment("frameworks", LOCK)
    if folder is None:
        return 1
    os.environ[FOLDER_VARIABLE] = str(folder)
    wanted = sys.argv[1:] or ["tests/frameworks"]
    options = ["-n", "2", "--timeout", "900", "--durations", "5"]
    return subprocess.call([sys.executable, "-m", "pytest", *options, *wanted], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
