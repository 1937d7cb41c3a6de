"""Every loss has a code that is explained, and every code explained is used."""

import re
from pathlib import Path

import dragoman
from dragoman.turn.losses import CODES

SOURCE = Path(dragoman.__file__).parent
_LITERAL = re.compile(r'"([a-z][a-z0-9]*(?:_[a-z0-9]+)+)"')
_TOLD = re.compile(r'(?:Loss|\bloss|_note|_lose|_drop)\(\s*"([a-z_0-9]+)"')


def sources() -> dict[str, str]:
    return {
        str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8")
        for path in SOURCE.rglob("*.py")
        if path.name != "loss.py"
    }


def test_every_loss_that_is_told_is_explained() -> None:
    told = {(name, code) for name, text in sources().items() for code in _TOLD.findall(text)}

    assert told
    assert [] == sorted((name, code) for name, code in told if code not in CODES)


def test_every_code_that_is_explained_is_used() -> None:
    literals = {literal for text in sources().values() for literal in _LITERAL.findall(text)}

    assert [] == sorted(set(CODES) - literals)
