"""Words for what is wrong with a value: what was expected, what stood there, what to write."""

import math
import re
from collections.abc import Mapping
from datetime import date, time
from typing import Final

from msgspec import inspect

from dragoman.gateway.config.mistakes import Problem, did_you_mean, one_line
from dragoman.gateway.config.settings import Secret, Settings

MAX_NUMBER: Final = 2**53  # larger whole numbers do not survive every JSON reader
_LEADING_NUMBER: Final = re.compile(r"\s*(\d+(?:\.\d+)?)")
_SHOWN: Final = 40  # characters of a wrong value that are told

# Names that people know from elsewhere; each counts only where the table has what it means.
_MEANT: Final[dict[str, str]] = {
    "api": "dialect",
    "api_base": "base_url",
    "api_key": "key",
    "apikey": "key",
    "bind": "host",
    "endpoint": "base_url",
    "family": "format",
    "limit": "limits",
    "protocol": "dialect",
    "provider": "profile",
    "rpm": "requests_per_minute",
    "target": "to",
    "targets": "to",
    "timeout": "timeouts",
    "token": "key",
    "tpm": "tokens_per_minute",
    "type": "dialect",
    "upstream": "to",
    "url": "base_url",
    "when": "match",
}


def mismatch(kind: inspect.Type, value: object) -> Problem:
    return Problem(f"expected {_expected(kind)}, got {told(value)}", _rewritten(kind, value))


def _expected(kind: inspect.Type) -> str:
    match kind:
        case inspect.IntType():
            return "a whole number"
        case inspect.FloatType():
            return "a number"
        case inspect.BoolType():
            return "true or false"
        case inspect.VarTupleType(item_type=inspect.StructType()):
            return "a list of tables"
        case inspect.VarTupleType():
            return "a list"
        case inspect.DictType() | inspect.StructType():
            return "a table"
        case _:
            return "a text"


def told(value: object) -> str:
    """Say what stood there."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() if abs(value) > MAX_NUMBER:
            return "a very large number"
        case int() | float():
            return f"the number {value}"
        case str():
            return f'the text "{shortened(value)}"'
        case list():
            return "a list"
        case Mapping():
            return "a table"
        case date() | time():
            return "a date or time"
        case _:
            return "something else"


def shortened(text: str) -> str:
    clean = one_line(text)
    return clean if len(clean) <= _SHOWN else f"{clean[: _SHOWN - 1]}…"


def _rewritten(kind: inspect.Type, value: object) -> str:
    """Say how the value should be written, where that shows."""
    match kind, value:
        case inspect.IntType() | inspect.FloatType(), str():
            number = _LEADING_NUMBER.match(value)
            return f"write the number alone, without quotes: {number[1]}" if number else ""
        case inspect.IntType(), float() if math.isfinite(value):
            return f"write {round(value)}"
        case inspect.BoolType(), str() if value.lower() in ("true", "false"):
            return f"write it without quotes: {value.lower()}"
        case inspect.BoolType(), str() if value.lower() in ("yes", "on", "no", "off"):
            return "write true or false, without quotes"
        case inspect.StrType(), int() | float() if not isinstance(value, bool):
            return f'write it in quotes: "{value}"' if abs(value) <= MAX_NUMBER else ""
        case inspect.VarTupleType(item_type=inspect.StructType()), Mapping():
            return "write the table's name in two brackets: `[[…]]`"
        case inspect.VarTupleType(), Mapping():
            return "write it in brackets: `[…]`"
    return ""


def suggested(name: str, fields: Mapping[str, inspect.Field]) -> str:
    meant = _MEANT.get(name.lower().replace("-", "_"))
    if meant in fields:
        return f"did you mean `{meant}`?"
    if near := did_you_mean(name, fields, cutoff=0.7):
        return near
    if name not in _HOMES:
        return did_you_mean(name, _HOMES, cutoff=0.75)
    return f"it belongs into {' or '.join(_HOMES[name][:3])}"


def example(name: str) -> str:
    examples = {
        "base_url": 'such as `base_url = "https://openrouter.ai/api/v1"`',
        "to": 'such as `to = ["upstream/model"]`',
        "key": 'such as `key = "env:NAME"`',
    }
    return examples.get(name, "")


def _homes(
    kind: inspect.Type, path: str, found: dict[str, list[str]], *, many: bool = False
) -> dict[str, list[str]]:
    """Note for every key the tables that have it."""
    match kind:
        case inspect.StructType(cls=cls, fields=fields) if cls is not Secret:
            for field in fields:
                if path:
                    label = f"`[[{path}]]`" if many else f"`[{path}]`"
                    found.setdefault(field.encode_name, []).append(label)
                below = f"{path}.{field.encode_name}" if path else field.encode_name
                _homes(field.type, below, found)
        case inspect.DictType(value_type=value):
            _homes(value, f"{path}.NAME", found)
        case inspect.VarTupleType(item_type=item):
            _homes(item, path, found, many=True)
    return found


_HOMES: Final = _homes(inspect.type_info(Settings), "", {})
