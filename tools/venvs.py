"""Virtual environments outside the tree, for third-party programs that tests drive.

Each holds the packages of one lock file, in a folder for each state of that lock under `$DRAGOMAN_CACHE`, or
`~/.cache/dragoman`.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

INSTALL_SECONDS: Final = 1_800
_REPORT_EVERY: Final = 10.0  # seconds


def cache() -> Path:
    """Return the cache folder, which is outside the checkout."""
    return Path(os.environ.get("DRAGOMAN_CACHE") or Path.home() / ".cache" / "dragoman")


def environment(kind: str, lock: Path, python: str = sys.executable) -> Path | None:
    """Return the folder of an environment with the packages of a lock file, created if needed.

    Returns None if the installation fails, and prints why.
    """
    base = cache() / kind
    base.mkdir(parents=True, exist_ok=True)
    version = subprocess.run([python, "-VV"], capture_output=True, check=True).stdout
    digest = hashlib.sha256(lock.read_bytes() + version).hexdigest()[:16]
    folder = base / f"{lock.stem}-{digest}"
    ready = folder / ".ready"
    with locked(base / f"{lock.stem}.lock"):
        if ready.exists():
            return folder
        shutil.rmtree(folder, ignore_errors=True)
        print(f"installing {lock.stem} into {folder} (once)", flush=True)
        log = base / f"{folder.name}.log"
        if not _install(folder, lock, log, python):
            print(f"{lock.stem} could not be installed; the log is {log}:")
            print("\n".join(log.read_text("utf-8", "replace").splitlines()[-20:]))
            return None
        ready.touch()
    return folder


def _install(folder: Path, lock: Path, log: Path, python: str) -> bool:
    make = [python, "-m", "venv", str(folder)]
    options = ["--disable-pip-version-check", "--only-binary=:all:", "--require-hashes"]
    options += ["--retries", "10"]  # networks fail at times
    fill = [str(folder / "bin" / "python"), "-m", "pip", "install", *options, "-r", str(lock)]
    with log.open("w", encoding="utf-8") as out:
        return all(_run(command, out.fileno()) for command in (make, fill))


def _run(command: list[str], out: int) -> bool:
    """Run a command to its end, and print the elapsed time meanwhile."""
    begun = reported = time.monotonic()
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out) as process:
        while True:
            try:
                return process.wait(1) == 0
            except subprocess.TimeoutExpired:
                now = time.monotonic()
            if now - reported >= _REPORT_EVERY:
                reported = now
                print(f"  {now - begun:.0f} s", flush=True)
            if now - begun > INSTALL_SECONDS:
                process.kill()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Let one process at a time install."""
    with path.open("w", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
