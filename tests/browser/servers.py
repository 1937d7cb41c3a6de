"""`dragoman inspect` as its own process, and copies of recordings with other ids and times."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path


class Served:
    """A running `dragoman inspect`."""

    def __init__(self, process: subprocess.Popen[str], url: str) -> None:
        self._process = process
        self.url = url  # without a path

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.terminate()
        self._process.communicate(timeout=30)


def inspect_folder(folder: Path, port: int = 0) -> Served:
    command = [
        sys.executable,
        "-m",
        "dragoman.cli.main",
        "inspect",
        str(folder),
        "--port",
        str(port),
    ]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "http://" in line, line + (process.stdout.read() if process.poll() is not None else "")
    return Served(process, "http://" + line.split("http://")[1].split("/")[0])


def copy_recording(source: Path, folder: Path, *, exchange: str, at: float) -> Path:
    """Write a recording again under another id, as if it had begun at another time."""
    first, _, rest = source.read_bytes().partition(b"\n")
    opening = json.loads(first)
    opening |= {"id": exchange, "time": at}
    stamp = time.strftime("%Y%m%dT%H%M%S", time.gmtime(at)) + f".{int(at % 1 * 1000):03d}Z"
    made = folder / f"{stamp}-{exchange}.dragoman"
    part = made.with_suffix(".part")
    part.write_bytes(json.dumps(opening).encode() + b"\n" + rest)
    part.rename(made)  # never seen half written
    return made


def copies(source: Path, folder: Path, count: int) -> None:
    """Fill a folder with recordings, one every 1.7 seconds until now."""
    small = [file for file in sorted(source.glob("*.dragoman")) if file.stat().st_size < 40_000]
    now = time.time()
    for number in range(count):
        exchange = f"req_copy{number:06d}"
        copy_recording(small[number % len(small)], folder, exchange=exchange, at=now - number * 1.7)
