"""Install the servers that tests/servers runs as upstreams, and run those tests.

    python -m tools.servers [ARGUMENTS OF PYTEST]

The versions are pinned in tests/servers; see tools/venvs.py for where they go.
"""

import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from tools.venvs import environment

ROOT: Final = Path(__file__).parent.parent
LOCK: Final = ROOT / "tests" / "servers" / "llama_cpp.txt"
FOLDER_VARIABLE: Final = "DRAGOMAN_LLAMA_CPP"  # read by tests/servers


def main() -> int:
    folder = environment("servers", LOCK)
    if folder is None:
        return 1
    os.environ[FOLDER_VARIABLE] = str(folder)
    wanted = sys.argv[1:] or ["tests/servers"]
    # One process: the server has one slot, and more of them would only share the machine.
    options = ["--timeout", "120", "--durations", "5"]
    return subprocess.call([sys.executable, "-m", "pytest", *options, *wanted], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
