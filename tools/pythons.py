"""Run tests with every Python from 3.11 on that this machine has, and print a table.

    python -m tools.pythons TESTS…

A Python is found on PATH, or where pyenv and uv install theirs.  Each gets an environment with the packages of
requirements/dev.txt; tools/venvs.py describes where.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from tools.strangers import ROOT
from tools.venvs import environment

LOCK: Final = ROOT / "requirements" / "dev.txt"
VERSIONS: Final = ("3.11", "3.12", "3.13", "3.14")
_MANAGED: Final = (".pyenv/versions/*/bin", ".local/share/uv/python/*/bin")
_VERSION: Final = "import sys; print(*sys.version_info[:3], sep='.')"
_SUMMARY: Final = re.compile(r"^\d+ (?:passed|failed|error).*$", re.MULTILINE)


class Python(NamedTuple):
    version: str  # such as 3.12.1
    program: str


def main() -> int:
    found = {version: find(version) for version in VERSIONS}
    for version, python in found.items():
        print(f"{version}: {python.program if python else 'not found'}", flush=True)
    rows = [
        (python.version if python else version, *(test(python) if python else ("not found", 0.0)))
        for version, python in found.items()
    ]
    print("\nPython   seconds  tests")
    for version, result, seconds in rows:
        print(f"{version:<8} {seconds:>7.0f}  {result}")
    return any("failed" in result or "error" in result for _, result, _ in rows)


def find(version: str) -> Python | None:
    """Return the newest Python of a version, such as 3.12."""
    found = [
        Python(printed, program)
        for program in _programs(f"python{version}")
        if (printed := _printed(program)).startswith(f"{version}.")
    ]
    return max(found, key=lambda one: [int(part) for part in one.version.split(".")], default=None)


def _programs(name: str) -> Iterator[str]:
    folders = [Path(one) for one in os.get_exec_path()]
    folders += [folder for pattern in _MANAGED for folder in Path.home().glob(pattern)]
    for folder in folders:
        if program := shutil.which(name, path=str(folder)):
            yield program


def _printed(program: str) -> str:
    """Return its version, or nothing if it does not run, as pyenv's links to versions that are not selected."""
    try:
        ran = subprocess.run(
            [program, "-c", _VERSION], capture_output=True, text=True, timeout=60, check=False
        )
    except OSError:
        return ""
    return ran.stdout.strip()


def test(python: Python) -> tuple[str, float]:
    """Return pytest's last line, and how long the tests took."""
    folder = environment("pythons", LOCK, python.program)
    if folder is None:
        return "error: the packages cannot be installed", 0.0
    print(f"\nPython {python.version}", flush=True)
    variables = os.environ | {"PYTHONPATH": str(ROOT / "src"), "HYPOTHESIS_PROFILE": "quick"}
    command = [str(folder / "bin" / "python"), "-m", "pytest", "-n", "auto", "--dist", "worksteal"]
    begun = time.monotonic()
    lines = []
    with subprocess.Popen(
        [*command, "-p", "no:cacheprovider", "-o", "addopts=", *sys.argv[1:]],
        cwd=ROOT,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        for line in process.stdout or ():
            print(line, end="", flush=True)
            lines.append(line.strip("= \n"))
    summary = _SUMMARY.findall("\n".join(lines))
    result = summary[-1] if summary else f"error: pytest exits with {process.returncode}"
    return result.partition(" in ")[0], time.monotonic() - begun


if __name__ == "__main__":
    sys.exit(main())
