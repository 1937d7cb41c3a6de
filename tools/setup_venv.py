"""Install the packages of a lock file into `.venv`, and show the progress.

    python3 tools/setup_venv.py run    create .venv with what the program needs, and the program itself
    python3 tools/setup_venv.py dev    add what tests and checks need

`make` runs this with the system's Python, so it uses the standard library alone.
"""

import re
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parent.parent
VENV: Final = ROOT / ".venv"
# Without bytecode files: the interpreter writes those of the modules that are imported, which are few.
_PIP: Final = (
    "-m",
    "pip",
    "install",
    "--disable-pip-version-check",
    "--no-compile",
    "--retries",
    "10",
)
# A line that pip prints once for each package, before it downloads the package.
_PACKAGE: Final = re.compile(r"(?:Collecting|Processing|Requirement already satisfied:) (\S+)")
_CLEAR_LINE: Final = "\r\033[K"


def main() -> int:
    kind = sys.argv[1]
    begun = time.monotonic()
    lock = ROOT / "requirements" / f"{kind}.txt"
    expected = len(re.findall(r"^\S+==", lock.read_text("utf-8"), re.MULTILINE))
    if kind == "run":
        _show("creating .venv")
        try:
            venv.create(VENV, clear=True, with_pip=True)
        except subprocess.CalledProcessError:
            _end(
                "failed: this Python cannot create environments; Debian and Ubuntu have a package for it, python3-venv"
            )
            return 1
    code = _install(["--no-deps", "--require-hashes", "-r", str(lock)], expected)
    if not code and kind == "run":
        _show("installing dragoman")
        code = _install(["--no-deps", "--no-build-isolation", "-e", str(ROOT)], 1)
    _end(f"{kind}: {time.monotonic() - begun:.0f} s" if not code else f"{kind}: failed")
    return code


def _install(arguments: list[str], expected: int) -> int:
    """Run pip; its output is printed only if it fails."""
    command = [str(VENV / "bin" / "python"), *_PIP, *arguments]
    output = []
    count = 0
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        for line in process.stdout or ():
            output.append(line)
            if found := _PACKAGE.match(line):
                count += 1
                name = Path(found[1]).name.partition("==")[0]
                _show(f"{count} of {expected}: {name}")
            elif count and line.startswith("Installing collected packages"):
                _show(f"writing {count} packages")
    if process.returncode:
        sys.stdout.write("\n" + "".join(output))
    return process.returncode


def _show(step: str) -> None:
    """Show the current step, on one line of a terminal; a log gets only the last line."""
    if sys.stdout.isatty():
        sys.stdout.write(f"{_CLEAR_LINE}setting up .venv: {step}")
        sys.stdout.flush()


def _end(result: str) -> None:
    start = _CLEAR_LINE if sys.stdout.isatty() else ""
    print(f"{start}setting up .venv: {result}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
