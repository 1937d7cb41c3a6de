"""Install a server that tests/servers runs as upstream, or as proxy before one, and run those tests.

    python -m tools.servers [llama_cpp | litellm | proxy_py | transformers] [ARGUMENTS OF PYTEST]

The versions are pinned in tests/servers; tools/venvs.py describes where they are installed.
"""

import os
import sys
from typing import Final

from tools.strangers import ROOT, run_tests
from tools.venvs import environment

LOCKS: Final = ROOT / "tests" / "servers"
# The environment variable that passes the folder of each server to tests/servers.
SERVERS: Final = {
    "llama_cpp": "DRAGOMAN_LLAMA_CPP",
    "litellm": "DRAGOMAN_LITELLM",
    "proxy_py": "DRAGOMAN_PROXY_PY",
    "transformers": "DRAGOMAN_TRANSFORMERS",
}


def main() -> int:
    arguments = sys.argv[1:]
    server = arguments.pop(0) if arguments and arguments[0] in SERVERS else "llama_cpp"
    folder = environment("servers", LOCKS / f"{server}.txt")
    if folder is None:
        return 1
    os.environ[SERVERS[server]] = str(folder)
    wanted = list(arguments)
    if not any(one.startswith("tests") for one in wanted):
        wanted.append(f"tests/servers/test_{server}.py")
    # One process: a server has one slot here, and several servers would only share the machine.
    options = ["--timeout", "300", "--durations", "5"]
    return run_tests(wanted, options, processes=1)


if __name__ == "__main__":
    sys.exit(main())
