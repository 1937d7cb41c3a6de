"""The page on the client names every limit, every clock, every setting and every error."""

import inspect
import re
from pathlib import Path

import pytest

import dragoman
from dragoman import TLS, Client, Limits, Timeouts
from dragoman.client import errors, messages
from dragoman.client.errors import STAGES, ClientError
from dragoman.turn.events import FaultKind

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "library-client.md").read_text("utf-8")
SOURCE = Path(dragoman.__file__).parent


@pytest.mark.parametrize("name", Limits.__struct_fields__)
def test_the_table_of_limits_is_complete(name: str) -> None:
    assert f"| `{name}` | {getattr(Limits(), name)} |" in PAGE


@pytest.mark.parametrize("name", Timeouts.__struct_fields__)
def test_the_table_of_clocks_is_complete(name: str) -> None:
    assert f"| `{name}` | {getattr(Timeouts(), name):g} |" in PAGE


@pytest.mark.parametrize("name", TLS.__struct_fields__)
def test_the_table_of_tls_is_complete(name: str) -> None:
    assert re.search(rf"^\| `{name}` \|", PAGE, re.MULTILINE)


def test_the_table_of_settings_is_complete() -> None:
    names = [name for name in inspect.signature(Client).parameters if name != "base_url"]

    for name in names:
        assert re.search(rf"^\| `{name}` \|", PAGE, re.MULTILINE), name


def test_every_word_of_a_request_is_documented() -> None:
    row = next(line for line in PAGE.splitlines() if line.startswith("| `request("))

    for name in inspect.signature(messages.request).parameters:
        assert f"{name}=" in row or name == "turns"


@pytest.mark.parametrize("stage", STAGES)
def test_the_table_of_stages_is_complete(stage: str) -> None:
    assert re.search(rf"^\| `{stage}` \|", PAGE, re.MULTILINE)


def test_every_attribute_of_an_error_is_documented() -> None:
    for name in vars(ClientError("http", "x")):
        assert f"`{name}`" in PAGE


@pytest.mark.parametrize("kind", FaultKind)
def test_the_table_of_kinds_is_complete(kind: FaultKind) -> None:
    assert re.search(rf"^\| .*`{kind}`.* \|", PAGE, re.MULTILINE)


def test_every_code_of_an_error_is_documented() -> None:
    codes = set(errors._OURS)
    for path in (*(SOURCE / "transport").glob("*.py"), *(SOURCE / "client").glob("*.py")):
        text = path.read_text("utf-8")
        codes |= set(re.findall(r'code="(\w+)"', text))
        codes |= set(re.findall(r'TransportError\(\s*"\w+", "(\w+)"', text))
    codes |= {f"{clock}_timeout" for clock in ("first_byte", "idle", "total", "request")}
    codes -= {"unfinished", "native_call_invalid"}  # of answers, not of errors

    for code in codes:
        assert f"`{code}`" in PAGE, code
