"""SECURITY.md: the tests that its claims name exist, and its limits are those of the program."""

import re
from importlib import import_module
from pathlib import Path

from msgspec import NODEFAULT, inspect, structs

from dragoman.gateway.config.settings import Server, Settings
from dragoman.limits import Limits
from tests.docs.test_configuration import tables

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "SECURITY.md").read_text("utf-8")
_TEST = re.compile(r"`(tests/[\w/]+\.py)(?:::(\w+))?`")
_SERVER = ("max_connections", "max_requests", "max_inflight_bytes")


def test_every_test_that_a_claim_names_exists() -> None:
    missing = [
        f"{path}::{name}"
        for path, name in _TEST.findall(PAGE)
        if not (ROOT / path).is_file()
        or (name and f"def {name}(" not in (ROOT / path).read_text("utf-8"))
    ]

    assert len(_TEST.findall(PAGE)) > 30
    assert [] == missing


def test_every_claim_names_a_test() -> None:
    claims = PAGE.split("## What a key separates", 1)[1].split("## Limits", 1)[0]

    assert [] == [
        line for line in claims.split("\n") if line.startswith("* ") and not _TEST.search(line)
    ]


def test_every_sentence_about_files_names_a_test_except_what_is_not_done() -> None:
    section = PAGE.split("## What is kept on disk", 1)[1].split("\n## ", 1)[0]
    sentences = [line for line in section.split("\n") if line and not line.startswith("|")]

    assert ["Dragoman does not encrypt files. Encrypt the disk if you store responses or recordings."] == [
        line for line in sentences if not _TEST.search(line)
    ]  # fmt: skip


# Numbers in the settings that bound nothing that a client, an upstream or a model could use up.
_NO_BOUNDS = {
    "server.port",
    "server.workers",
    "server.keep_alive",  # how often a client gets a sign of life
    "upstreams.NAME.cooldown",
    "upstreams.NAME.failures",
    "routes.priority",
    "guards.loop_repeats",
    "guards.loop_cycle",
    "traces.sample",
}
_FACTS = ("server.limits.", "prices.", "models.", "profiles.")  # in the other table; facts


def test_every_limit_has_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", PAGE, re.MULTILINE))
    expected = {one.name: f"{one.default:,}" for one in structs.fields(Limits)}
    expected |= {
        one.name: f"{one.default:,}" for one in structs.fields(Server) if one.name in _SERVER
    }

    assert expected == rows


def test_every_other_bound_of_the_settings_has_its_default_and_a_test() -> None:
    expected = {}
    for heading, fields in tables(inspect.type_info(Settings)):
        for field in fields:
            name = f"{heading.strip('[]')}.{field.name}"
            is_number = isinstance(field.type, inspect.IntType | inspect.FloatType)
            if is_number and field.default is not NODEFAULT and not name.startswith(_FACTS):
                expected[name] = f"{field.default:,}"
    expected = {
        name: default
        for name, default in expected.items()
        if name not in _NO_BOUNDS and name.removeprefix("server.") not in _SERVER
    }
    rows = {}
    for names, defaults, tests in re.findall(
        r"^\| (`\w+\.[^|]+) \| ([^|]+) \| [^|]+ \| ([^|]+) \|$", PAGE, re.MULTILINE
    ):
        assert _TEST.search(tests), names
        named = re.findall(r"`([\w.]+)`", names)
        values = defaults.split(", ")
        rows |= dict(zip(named, values * len(named) if len(values) == 1 else values, strict=False))

    assert expected == rows


# --- bounds that no setting changes ---

_FIXED = re.compile(r"^\| [^|]+ \| ([\d,]+) \| `([\w.]+)\.(\w+)` \| ([^|]+) \|$", re.MULTILINE)
_CONSTANT = re.compile(r"^(_?(?:[A-Z]+_)*(?:MAX|MOST)_\w+)(?:: Final)? =", re.MULTILINE)
_KEEPING = ("gateway", "transport", "inspector/live.py", "inspector/api.py", "inspector/views.py")
# What one request, one line, one step or one entry has of something.
_NOT_KEPT = {
    "gateway.admission._MAX_RETRY_SECONDS",
    "gateway.client_stream.MAX_WRITE_BYTES",
    "gateway.config.environment.MAX_FILE_BYTES",
    "gateway.config.environment.MAX_SECRET_BYTES",
    "gateway.config.read.MAX_NUMBER",
    "gateway.config.read._MAX_DEPTH",
    "gateway.headers._MAX_VALUE_CHARS",
    "gateway.headers._MAX_WARNINGS_CHARS",
    "gateway.logging._MAX_ITEMS",
    "gateway.logging._MAX_REMEMBERED",
    "gateway.models._MAX_PAGE",
    "gateway.reasoning_hosts._MAX_MESSAGE_CHARS",
    "gateway.reasoning_hosts._MAX_MODEL_CHARS",
    "gateway.reasoning_memory._MAX_ALIKE",
    "gateway.request_context._MAX_REASON_CHARS",
    "gateway.request_context._MAX_SECONDS_DIGITS",
    "gateway.state.notes.MAX_NAMES",
    "gateway.target_order._MAX_CHARS",
    "gateway.token_counting._MAX_BYTES",
    "gateway.traces._MOST_CHARS",
    "gateway.upstream_request._MAX_TOKENS",
    "inspector.api._MOST_NUMBER",
}


def test_every_fixed_bound_has_the_value_of_the_code_and_a_test() -> None:
    rows = _FIXED.findall(PAGE)

    assert len(rows) > 30
    assert all(_TEST.search(tests) for *_, tests in rows)
    assert [] == [
        (name, value)
        for value, module, name, _ in rows
        if value != f"{getattr(import_module(f'dragoman.{module}'), name):,}"
    ]


def test_every_bound_of_what_is_kept_is_in_the_table() -> None:
    source = ROOT / "src/dragoman"
    found = {
        f"{'.'.join(file.relative_to(source).with_suffix('').parts)}.{name}"
        for where in _KEEPING
        for file in ([source / where] if where.endswith(".py") else (source / where).rglob("*.py"))
        for name in _CONSTANT.findall(file.read_text("utf-8"))
    }
    listed = {f"{module}.{name}" for _, module, name, _ in _FIXED.findall(PAGE)}

    assert [] == sorted(found - listed - _NOT_KEPT)
    assert set() == _NOT_KEPT - found
