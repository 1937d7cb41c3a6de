"""The codemap in ARCHITECTURE.md names every module, and only modules that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "dragoman"
_SECTION = re.compile(r"^### (.+)$", re.MULTILINE)
_NAME = re.compile(r"`([\w/]+(?:\.py|/))`")
_DIALECTS = ("anthropic", "chat", "gemini", "responses")
_UNMAPPED = {"__init__.py", "__main__.py", "_version.py"}


def _described_names(line: str) -> list[str]:
    sentences = re.split(r"(?<=\.) | \| ", line)
    return [name for one in sentences for name in _NAME.findall(one.partition(": ")[0])]


def mapped_paths() -> list[str]:
    """Return the files and folders that the codemap describes, relative to the source.

    A line or a cell has sentences of the form "`name.py`, `other.py`: what they do".
    A name is in the folder of the name before it, or in the package that the heading names.
    """
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    codemap = text.partition("\n## Codemap\n")[2].partition("\n## ")[0]
    _, *parts = _SECTION.split(codemap)
    found = []
    for heading, body in zip(parts[::2], parts[1::2], strict=True):
        packages = _NAME.findall(heading)
        package = "" if len(packages) > 1 or packages == ["dragoman/"] else packages[0]
        for line in re.findall(r"^[*|] (`.+)$", body, re.MULTILINE):
            folder = package
            for name in _described_names(line):
                found.append(f"{package}{name}" if "/" in name else f"{folder}{name}")
                if "/" in name and name.endswith(".py"):
                    folder = f"{package}{name.rpartition('/')[0]}/"
    return found


def expanded(path: str) -> list[Path]:
    """Return the modules behind a path; one of the twelve files is in every dialect's folder."""
    if (SOURCE / path).is_dir():
        return sorted((SOURCE / path).rglob("*.py"))
    paths = [SOURCE / path]
    if path.startswith("dialects/") and not paths[0].exists():
        paths = [SOURCE / "dialects" / one / Path(path).name for one in _DIALECTS]
    return [one for one in paths if one.is_file()]


def test_every_path_of_the_map_exists() -> None:
    assert [] == [path for path in mapped_paths() if not expanded(path)]


def test_every_module_is_on_the_map() -> None:
    mapped = {file for path in mapped_paths() for file in expanded(path)}
    modules = {path for path in SOURCE.rglob("*.py") if path.name not in _UNMAPPED}

    assert [] == sorted(str(path.relative_to(SOURCE)) for path in modules - mapped)


def test_the_page_can_be_read_in_one_sitting() -> None:
    assert len((ROOT / "ARCHITECTURE.md").read_text("utf-8").splitlines()) <= 200
