"""Install the agents and SDKs that tests/agents drives, and run those tests.

    python -m tools.agents [--all | --record] [ARGUMENTS OF PYTEST]

Without a flag, a part of the hard table is run (tests/agents/hard_results.py selects it); `--all` runs all of
it, also without the gateway, and `--record` updates the checked-in results of the hard table and of
failures of upstreams.

The versions are pinned in tests/agents/node.  They go into a folder for each state of those pins, outside the
tree: `$DRAGOMAN_CACHE/agents`, or `~/.cache/dragoman/agents`.  The tests run in a separate network namespace
where the system allows it, so that only loopback can be reached; otherwise the proxy variables point to an
unused port, which blocks the programs that respect them.
"""

import fcntl
import hashlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

from tests.agents import failures
from tests.agents.hard_results import ALL_VARIABLE, RECORD_VARIABLE
from tools.strangers import ROOT, run_tests
from tools.venvs import cache, locked

from tools import hard_table

PINS: Final = ROOT / "tests" / "agents" / "node"
OLDEST_NODE: Final = 20
INSTALL_SECONDS: Final = 1_800
INSIDE: Final = "--in-a-network-of-its-own"
ALL_FLAG: Final = "--all"
RECORD_FLAG: Final = "--record"
HARD_TABLE: Final = "tests/agents/test_hard_table.py"
FAILURES: Final = "tests/agents/test_failures.py"
FAILURES_VARIABLE: Final = "DRAGOMAN_FAILURES_RECORD"  # read by that module
# Read by tests/agents/conftest.py: the folder of the programs, and whether the network is separate.
FOLDER_VARIABLE: Final = "DRAGOMAN_AGENTS"
ALONE_VARIABLE: Final = "DRAGOMAN_AGENTS_ALONE"

_SIOCGIFFLAGS: Final = 0x8913
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1


def main() -> int:
    if sys.argv[1:2] == [INSIDE]:
        raise_loopback()
        return run(sys.argv[2:])
    flags = [one for one in sys.argv[1:] if one in (ALL_FLAG, RECORD_FLAG)]
    arguments = [one for one in sys.argv[1:] if one not in flags]
    lacking = missing()
    if lacking:
        names = ", ".join(json.loads((PINS / "package.json").read_text("utf-8"))["dependencies"])
        print(f"test-agents: skipped: {lacking}.  Not tested: {names}")
        return 0
    folder = install()
    if folder is None:
        return 1
    os.environ[FOLDER_VARIABLE] = str(folder)
    if flags:
        os.environ[ALL_VARIABLE] = "1"
    if RECORD_FLAG in flags:
        return record(arguments)
    return run_alone(arguments)


def record(arguments: list[str]) -> int:
    """Run the hard table and the failures of upstreams, and write the results into the tree."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "results.jsonl"
        file.touch()
        os.environ[RECORD_VARIABLE] = str(file)
        os.environ[FAILURES_VARIABLE] = folder
        code = run_alone([HARD_TABLE, FAILURES, *arguments])
        hard_table.merge(file)
        hard_table.redraw()
        failures.merge(Path(folder))
        failures.redraw()
    return code


def run_alone(arguments: list[str]) -> int:
    """Run tests in a separate network namespace, if the system allows one."""
    again = [sys.executable, "-m", "tools.agents", INSIDE, *arguments]
    for namespace in (["unshare", "--net"], ["unshare", "--map-root-user", "--net"]):
        if shutil.which("unshare") and works([*namespace, "true"]):
            os.environ[ALONE_VARIABLE] = "1"
            return subprocess.call([*namespace, *again], cwd=ROOT)
    print("test-agents: no separate network is possible; unused proxies are set instead")
    return run(arguments)


def missing() -> str:
    """Return which requirement of the agents is missing; empty if none is."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            return f"there is no `{program}` on PATH"
    said = subprocess.check_output(["node", "--version"], text=True).strip()
    major = int(said.removeprefix("v").partition(".")[0])
    return "" if major >= OLDEST_NODE else f"Node is {said}, {OLDEST_NODE} or newer is needed"


def install() -> Path | None:
    """Return the folder of the programs, installed if needed; None if the installation fails."""
    pins = b"".join((PINS / name).read_bytes() for name in ("package.json", "package-lock.json"))
    base = cache() / "agents"
    base.mkdir(parents=True, exist_ok=True)
    folder = base / hashlib.sha256(pins).hexdigest()[:16]
    with locked(base / "lock"):
        if folder.is_dir():
            return folder
        part = folder.with_suffix(".part")
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        for name in ("package.json", "package-lock.json"):
            shutil.copy(PINS / name, part)
        print(f"test-agents: installing agents into {folder} (once; 1.3 GB, some minutes)")
        log = base / f"{folder.name}.log"
        if not fetched(part, log):
            print(f"test-agents: npm could not install them; its log is {log}:")
            print("\n".join(log.read_text("utf-8", "replace").splitlines()[-20:]))
            return None
        part.rename(folder)
    return folder


def fetched(folder: Path, log: Path) -> bool:
    """Install with npm, with one retry, and return whether every program is installed."""
    log.write_text("", "utf-8")
    if fetch(folder, log) and complete(folder):
        return True
    print("test-agents: npm failed; retrying", flush=True)
    return fetch(folder, log) and complete(folder)


def fetch(folder: Path, log: Path) -> bool:
    """Install the locked packages with npm, and print the progress.

    `npm ci` would refuse a lock without optional packages that not every registry has.
    """
    command = ["npm", "install", "--no-audit", "--no-fund", "--loglevel=http"]
    begun = reported = time.monotonic()
    with log.open("a", encoding="utf-8") as out:
        process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )
        while True:
            try:
                return process.wait(1) == 0
            except subprocess.TimeoutExpired:
                now = time.monotonic()
            if now - reported >= 10:
                reported = now
                print(f"  {now - begun:.0f} s, {megabytes(folder)} MB", flush=True)
            if now - begun > INSTALL_SECONDS:
                process.kill()
                process.wait()
                return False


def megabytes(folder: Path) -> int:
    total = 0
    for here, _, names in os.walk(folder):
        for name in names:
            path = Path(here, name)
            total += path.lstat().st_size if path.exists() else 0
    return total // 1_000_000


def complete(folder: Path) -> bool:
    """Return whether every program is installed in its pinned version."""
    pinned = json.loads((PINS / "package.json").read_text("utf-8"))["dependencies"]
    for name, version in pinned.items():
        manifest = folder / "node_modules" / name / "package.json"
        if not manifest.is_file() or json.loads(manifest.read_text("utf-8"))["version"] != version:
            print(f"test-agents: {name} {version} is not installed")
            return False
    return True


def works(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def raise_loopback() -> None:
    """Bring up the loopback interface of a new network namespace."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        asked = struct.pack("16sh14x", b"lo", 0)
        _, flags = struct.unpack("16sh14x", fcntl.ioctl(one, _SIOCGIFFLAGS, asked))
        fcntl.ioctl(one, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", flags | _IFF_UP))


def run(arguments: list[str]) -> int:
    # More processes than cores: agents mostly wait before they retry a failing upstream.
    options = ["--timeout", "900", "--durations", "15"]
    return run_tests(arguments or ["tests/agents"], options, processes=4)


if __name__ == "__main__":
    sys.exit(main())
