"""Build the sdist and the wheel into `dist`, and check them as a package index would.

    python -m tools.dist

The tools are pinned in requirements/dist.txt; tools/venvs.py describes where they are installed.
"""

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from email.parser import BytesParser
from pathlib import Path
from typing import Final

from tools.venvs import environment

ROOT: Final = Path(__file__).parent.parent
LOCK: Final = ROOT / "requirements" / "dist.txt"
PLACEHOLDER: Final = "dragoman.example"
_IN_SDIST: Final = re.compile(
    r"src/dragoman/|(?:README|CHANGELOG)\.md|LICENSE|pyproject\.toml|PKG-INFO|\.gitignore"
)
_IN_WHEEL: Final = re.compile(r"dragoman/|dragoman-[\d.]+\.dist-info/")
# What the index shows has no folder beside it; anchors lead to headings of the page itself.
_RELATIVE: Final = re.compile(r'\b(?:href|src|srcset)="(?!https?://|#)([^"]*)"')


def main() -> int:
    tools = environment("dist", LOCK)
    if tools is None:
        return 1
    dist = ROOT / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    wheel = build(tools, dist)
    files = sorted(map(str, dist.iterdir()))
    subprocess.run([python(tools), "-m", "twine", "check", "--strict", *files], check=True)
    problems = [*_unexpected_files(dist), *_page_problems(tools, wheel)]
    for problem in problems:
        print(problem)
    for file in files:
        print(f"{Path(file).relative_to(ROOT)}: {Path(file).stat().st_size / 1024:.0f} KiB")
    if PLACEHOLDER in (ROOT / "pyproject.toml").read_text("utf-8"):
        print(f"before you publish: replace the addresses of {PLACEHOLDER} in pyproject.toml")
    return bool(problems)


def build(tools: Path, folder: Path) -> Path:
    """Build the sdist and, from the sdist, the wheel; return the wheel's path."""
    command = [python(tools), "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        sys.exit(f"{built.stdout}{built.stderr}the package cannot be built")
    [wheel] = folder.glob("*.whl")
    return wheel


def python(environ: Path) -> str:
    return str(environ / "bin" / "python")


def _unexpected_files(dist: Path) -> Iterator[str]:
    """Yield the files that neither the build nor the installed package needs."""
    [sdist], [wheel] = dist.glob("*.tar.gz"), dist.glob("*.whl")
    with tarfile.open(sdist) as archive:
        names = [one.name.partition("/")[2] for one in archive.getmembers() if one.isfile()]
    yield from (f"{sdist.name} contains {one}" for one in names if not _IN_SDIST.match(one))
    names = zipfile.ZipFile(wheel).namelist()
    yield from (f"{wheel.name} contains {one}" for one in names if not _IN_WHEEL.match(one))
    if "dragoman/py.typed" not in names:
        yield f"{wheel.name} lacks dragoman/py.typed"


def _page_problems(tools: Path, wheel: Path) -> Iterator[str]:
    """Render the README as an index does; yield what it cannot show."""
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "README.md")
        page.write_text(description(wheel), "utf-8")
        command = [python(tools), "-m", "readme_renderer", str(page)]
        shown = subprocess.run(command, capture_output=True, text=True, check=False)
    if shown.returncode:
        yield f"the README cannot be rendered: {shown.stderr}"
    yield from (
        f"the README has a relative address: {one}" for one in _RELATIVE.findall(shown.stdout)
    )


def description(wheel: Path) -> str:
    """Return the page that an index shows."""
    with zipfile.ZipFile(wheel) as archive:
        [name] = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        return str(BytesParser().parsebytes(archive.read(name)).get_payload())


if __name__ == "__main__":
    sys.exit(main())
