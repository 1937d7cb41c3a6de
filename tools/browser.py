"""Run the tests of the inspector's page in Chromium.

    python -m tools.browser [ARGUMENTS OF PYTEST]

The browser is the distribution's: the program in `DRAGOMAN_CHROMIUM`, or the first one of `NAMES` in PATH.  Without
one, apt-get installs Debian's package `chromium` where it may; no other build of a browser is ever downloaded.
"""

import os
import shutil
import subprocess
import sys
from typing import Final

from tools.strangers import ROOT

VARIABLE: Final = "DRAGOMAN_CHROMIUM"
NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_INSTALL: Final = ("apt-get", "install", "--yes", "--no-install-recommends", "chromium")
_MISSING: Final = f"""\
These tests need Chromium, and none was found.
  Debian, Ubuntu: apt-get install chromium      (this command does it when it runs as root)
  Fedora:         dnf install chromium
  elsewhere:      set {VARIABLE} to the program of Chromium or Chrome\
"""


def find_chromium() -> str | None:
    """Return the path of Chromium's program."""
    if given := os.environ.get(VARIABLE):
        return given
    return next(filter(None, map(shutil.which, NAMES)), None)


def install_chromium() -> None:
    """Install Debian's package, where this user may."""
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return
    print("installing chromium with apt-get", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (("apt-get", "update", "-qq"), _INSTALL):
        subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, check=False)


def main() -> int:
    if find_chromium() is None:
        install_chromium()
    program = find_chromium()
    if program is None:
        print(_MISSING)
        return 1
    os.environ[VARIABLE] = program
    arguments = sys.argv[1:]
    if not any(one.startswith("tests") for one in arguments):
        arguments.append("tests/browser")
    options = ["-n", "2", "--dist", "loadfile", "--timeout", "180", "--durations", "5"]
    return subprocess.call([sys.executable, "-m", "pytest", *options, *arguments], cwd=ROOT)


if __name__ == "__main__":
    sys.exit(main())
