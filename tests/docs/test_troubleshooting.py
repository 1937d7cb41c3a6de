"""Every row of docs/troubleshooting.md has a cause and a command or a setting that exists."""

import re
from typing import Any

import msgspec
import pytest

from dragoman.gateway.config.settings import Settings
from tests.docs.test_blocks import accept
from tests.docs.test_links import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
SYMPTOMS = PAGE.partition("## Symptoms")[2].partition("\n## ")[0]
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in SYMPTOMS.splitlines()
    if line.startswith("| ") and not line.startswith("| Symptom")
]


def has_setting(path: str) -> bool:
    """Return whether the settings have a key; `NAME` is the name of any table."""
    kind: Any = msgspec.inspect.type_info(Settings)
    for part in path.split("."):
        while not isinstance(kind, msgspec.inspect.StructType):
            if isinstance(kind, msgspec.inspect.UnionType):
                kind = next(
                    one for one in kind.types if not isinstance(one, msgspec.inspect.NoneType)
                )
            elif isinstance(kind, msgspec.inspect.VarTupleType):
                kind = kind.item_type
            elif isinstance(kind, msgspec.inspect.DictType) and part == "NAME":
                break
            else:
                return False
        if part == "NAME" and isinstance(kind, msgspec.inspect.DictType):
            kind = kind.value_type
            continue
        found = [field for field in kind.fields if field.name == part]
        if not found:
            return False
        kind = found[0].type
    return True


def test_there_are_enough_rows() -> None:
    assert 25 <= len(ROWS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:40])
def test_a_row_has_a_command_or_a_setting_that_exists(row: tuple[str, ...]) -> None:
    symptom, cause, remedy = row
    spans = re.findall(r"`([^`]+)`", remedy)
    commands = [one for one in spans if one.startswith(("dragoman ", "curl "))]
    settings = [
        one
        for one in spans
        if re.fullmatch(r"(server|upstreams|routes|store|guards|log)\.[\w.]+", one)
    ]

    assert symptom
    assert cause
    assert [*commands, *settings], remedy
    assert [] == [one for one in settings if not has_setting(one)]
    for command in commands:
        if command.startswith("dragoman "):
            accept(command.split()[1:])
