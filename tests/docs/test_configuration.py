"""The page on settings names every key with its default, and its examples are good."""

import re
import tomllib
from pathlib import Path

import msgspec
import pytest
from msgspec import inspect

from dragoman.gateway.config.environment import ConfigEnvironment
from dragoman.gateway.config.load import VARIABLES, make_settings
from dragoman.gateway.config.render import toml_value
from dragoman.gateway.config.settings import Secret, Settings
from dragoman.gateway.overrides import PARAMS
from dragoman.transport import ProxyRule

ROOT = Path(__file__).parent.parent.parent
PAGE = (ROOT / "docs" / "configuration.md").read_text("utf-8")
EXAMPLES = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)


def tables(kind: inspect.Type, path: str = "", *, many: bool = False):
    """Return heading and fields of every table that the settings know."""
    match kind:
        case inspect.StructType(cls=cls, fields=fields) if cls not in (ProxyRule, Secret):
            if path:
                yield (f"[[{path}]]" if many else f"[{path}]", fields)
            for field in fields:
                yield from tables(field.type, f"{path}.{field.name}".lstrip("."))
        case inspect.DictType(value_type=value):
            yield from tables(value, f"{path}.NAME")
        case inspect.VarTupleType(item_type=item):
            yield from tables(item, path, many=True)


def default(field: inspect.Field) -> str:
    """Return what the page must say of a default; nothing for tables and for what is absent."""
    if field.default is msgspec.NODEFAULT:
        return "" if field.required else "`{}`"
    if field.default is None or isinstance(field.default, msgspec.Struct):
        return ""
    return f"`{toml_value(field.default)}`"


def documented(heading: str) -> dict[str, str]:
    """Return the keys under a heading, each with its default."""
    _, _, rest = PAGE.partition(f"### `{heading}`\n")
    section = re.split(r"^#", rest, maxsplit=1, flags=re.MULTILINE)[0]
    return dict(re.findall(r"^\| `(\w+)` \| *(.*?) *\|", section, re.MULTILINE))


TABLES = dict(tables(inspect.type_info(Settings)))


@pytest.mark.parametrize("heading", TABLES)
def test_every_key_is_documented_with_its_default(heading):
    expected = {field.name: default(field) for field in TABLES[heading]}

    assert expected == documented(heading)


def test_every_table_has_its_heading():
    for name in Settings.__struct_fields__:
        assert re.search(rf"^### `\[+{name}\b", PAGE, re.MULTILINE)


@pytest.mark.parametrize("name", [*VARIABLES, *PARAMS])
def test_every_variable_and_every_override_is_documented(name):
    assert f"`{name}`" in PAGE


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_example_is_good(example):
    environ = dict.fromkeys(re.findall(r"env:(\w+)", example), "value")
    around = ConfigEnvironment(
        environ={name: f"{value}-{name}" for name, value in environ.items()}, folder=ROOT
    )

    assert () == make_settings(tomllib.loads(example), around).warnings
