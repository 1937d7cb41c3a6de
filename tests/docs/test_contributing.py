"""The page for contributors: its commands and the code that it names exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
_MAKE = re.compile(r"`make ([a-z-]+)`")


def test_every_make_verb_for_contributors_exists() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    verbs = _MAKE.findall((ROOT / "CONTRIBUTING.md").read_text("utf-8"))

    assert verbs
    assert [] == [verb for verb in verbs if f"\n{verb}: " not in makefile]
