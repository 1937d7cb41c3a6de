"""The map of the tree in ARCHITECTURE.md names what is there."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "dragoman"
_ROW = re.compile(r"^\| (`[^|]+`[^|]*)\|", re.MULTILINE)
_NAME = re.compile(r"`([\w/*{},]+(?:\.py|/))`")


def named_paths() -> list[str]:
    """Return the paths of the first column; a name without a folder is in the one named before it."""
    text = (ROOT / "ARCHITECTURE.md").read_text("utf-8")
    found = []
    for cell in _ROW.findall(text.partition("### The twelve files")[0]):
        folder = ""
        for name in _NAME.findall(cell):
            if "/" in name:
                folder = name.rpartition("/")[0]
            found.append(name if "/" in name or not folder else f"{folder}/{name}")
    return found


def test_every_path_of_the_map_exists() -> None:
    paths = named_paths()
    missing = [path for path in paths if not any(expanded(path))]

    assert len(paths) > 60
    assert not missing


def expanded(path: str) -> list[Path]:
    """Return the files or folders behind a path, which may name several in braces."""
    braces = re.search(r"\{([^}]+)\}", path)
    if braces is None:
        return list(SOURCE.glob(path.rstrip("/")))
    options = [path.replace(braces[0], one) for one in braces[1].split(",")]
    return [file for one in options for file in SOURCE.glob(one.rstrip("/"))]
