"""Every loss in the source has a documented code, and every documented code is used."""

import re
from pathlib import Path

import dragoman
from dragoman.turn.losses import CODES

SOURCE = Path(dragoman.__file__).parent
_LITERAL = re.compile(r'"([a-z][a-z0-9]*(?:_[a-z0-9]+)+)"')
_REPORTED = re.compile(r'(?:Loss|\bloss|_note|_lose|_drop)\(\s*"([a-z_0-9]+)"')


def sources() -> dict[str, str]:
    return {
        str(path.relative_to(SOURCE)): path.read_text(encoding="utf-8")
        for path in SOURCE.rglob("*.py")
        if path.name != "loss.py"
    }


def test_every_reported_loss_has_a_documented_code() -> None:
    reported = {
        (name, code) for name, text in sources().items() for code in _REPORTED.findall(text)
    }

    assert reported
    assert [] == sorted((name, code) for name, code in reported if code not in CODES)


def test_every_documented_code_is_used() -> None:
    literals = {literal for text in sources().values() for literal in _LITERAL.findall(text)}

    assert [] == sorted(set(CODES) - literals)
