"""Disks that fail under a gateway: a small one that can be filled and made read-only, and writes that fail.

A small disk is a tmpfs in the gateway's own mount namespace: no other process sees it, and it ends with the
gateway.  A process may mount one as root, or where the kernel lets users have namespaces.
"""

import functools
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.serving import Served, command, serving_process

_UNSHARE = ["unshare", "--mount", *([] if os.getuid() == 0 else ["--map-root-user"])]
_MOUNT = 'mount -t tmpfs -o "$1" disk "$2" && shift 2 && exec "$@"'


@functools.cache
def missing() -> str:
    """Return why no disk can be mounted here; empty: it can."""
    if not shutil.which("unshare") or not shutil.which("mount"):
        return "unshare and mount are not installed"
    tried = subprocess.run(
        [*_UNSHARE, "mount", "-t", "tmpfs", "disk", "/mnt"],
        capture_output=True,
        text=True,
        check=False,
    )
    return "" if tried.returncode == 0 else f"no disk can be mounted: {tried.stderr.strip()}"


class SmallDisk:
    """A mounted disk, seen from the processes that do not have it."""

    def __init__(self, served: Served, path: Path) -> None:
        self._process = served.process.pid
        self._path = path

    @property
    def outside(self) -> Path:
        """The path of the disk for this process."""
        return Path(f"/proc/{self._process}/root{self._path}")

    def fill(self) -> None:
        """Take all the room that is left."""
        room = os.statvfs(self.outside)
        with (self.outside / "filler").open("wb") as file:
            file.write(bytes(room.f_bavail * room.f_frsize))
        assert os.statvfs(self.outside).f_bavail == 0

    def free(self) -> None:
        (self.outside / "filler").unlink()

    def remount(self, options: str) -> None:
        """Mount it again with other options, such as `rw`."""
        enter = ["nsenter", "--mount", f"--target={self._process}"]
        enter += [] if os.getuid() == 0 else ["--user", "--preserve-credentials"]
        change = ["mount", "-o", f"remount,{options}", str(self._path)]
        subprocess.run([*enter, *change], check=True, capture_output=True)


@contextmanager
def serving_on_disk(
    folder: Path, disk: Path, *options: str, mount: str = "size=2m", **more: str
) -> Iterator[tuple[Served, SmallDisk]]:
    """Run the gateway in a folder, with a small disk at a path."""
    disk.mkdir(exist_ok=True)
    words = [*_UNSHARE, "sh", "-c", _MOUNT, "sh", mount, str(disk), *command("--port", "0", *options)]  # fmt: skip
    with serving_process(words, folder, **more) as served:
        yield served, SmallDisk(served, disk)


@contextmanager
def no_writes(*processes: int) -> Iterator[None]:
    """Let every write to a file fail in these processes."""
    before = {one: resource.prlimit(one, resource.RLIMIT_FSIZE) for one in processes}
    for one, (_, hard) in before.items():
        resource.prlimit(one, resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        for one, limits in before.items():
            resource.prlimit(one, resource.RLIMIT_FSIZE, limits)
