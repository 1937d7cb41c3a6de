"""A TOML document becomes `Settings`, or a list of every value that has the wrong type.

The types in `settings` are walked in parallel with the document.  A wrong value is reported and replaced
by its default, so that one mistake does not hide another.
"""

import math
import re
from collections.abc import Mapping
from datetime import date, time
from typing import Final, TypeAlias, cast

from msgspec import Struct, inspect

from dragoman.errors import did_you_mean
from dragoman.gateway.config.environment import (
    ConfigEnvironment,
    find_proxy,
    find_secret,
    is_reference,
)
from dragoman.gateway.config.problems import Mistake, Problem, shortened
from dragoman.gateway.config.settings import Key, Secret, Settings, TextKind
from dragoman.gateway.config.texts import check_text
from dragoman.transport import ProxyRule

# What a document may hold; values of free tables (`body`, `params`) become JSON.
Value: TypeAlias = object

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_MAX_DEPTH: Final = 32  # of values that are forwarded

# Parts of a header's name that mark its value as a credential.
_SECRET_PARTS: Final = frozenset(
    {"apikey", "auth", "authorization", "cookie", "key", "password", "secret", "token"}
)


def names_secret(header: str) -> bool:
    """Return whether the name of a header marks its value as a credential."""
    return bool(_SECRET_PARTS & set(header.lower().replace("_", "-").split("-")))


class _Wrong:
    """Marks a value that was wrong and reported; its default is used, or the item is left out."""


_WRONG: Final = _Wrong()
_SETTINGS: Final = cast("inspect.StructType", inspect.type_info(Settings))


class SettingsReader:
    """One walk.  `mistakes` holds what was wrong."""

    def __init__(self, environment: ConfigEnvironment, *, need_secrets: bool = True) -> None:
        self.mistakes: list[Mistake] = []
        self._environment = environment
        self._need_secrets = need_secrets  # False: a secret that cannot be found is left empty

    def settings(self, document: Mapping[str, Value]) -> Settings:
        found = self._struct(_SETTINGS, document, "")
        assert isinstance(found, Settings)  # noqa: S101 -- the type that was asked for
        return found

    def _read(self, kind: inspect.Type, value: Value, path: str) -> Value:
        match kind:
            case inspect.Metadata(type=inner, extra={"kind": text_kind}):
                return self._text(inner, text_kind, value, path)
            case inspect.StructType(cls=cls) if cls is Secret:
                return self._secret(value, path)
            case inspect.StructType(cls=cls) if cls is ProxyRule:
                return self._proxy(value, path)
            case inspect.StructType():
                return self._struct(kind, value, path)
            case inspect.UnionType(types=types):
                return self._either(types, value, path)
            case inspect.DictType():
                return self._table(kind, value, path)
            case inspect.VarTupleType():
                return self._list(kind, value, path)
            case inspect.LiteralType(values=values):
                return self._one_of(values, value, path)
            case inspect.IntType() | inspect.FloatType():
                return self._number(kind, value, path)
            case inspect.BoolType() if isinstance(value, bool):
                return value
            case inspect.StrType() if isinstance(value, str):
                return value
            case inspect.CustomType() | inspect.AnyType():
                return self._json(value, path, 0)
        return self._wrong(path, mismatch(kind, value))

    # --- tables and lists ---

    def _struct(self, kind: inspect.StructType, value: Value, path: str) -> Value:
        if kind.cls is Key and isinstance(value, str):
            value = {"key": value}
        if not isinstance(value, Mapping):
            self._wrong(path, mismatch(kind, value))
            return _placeholder(kind)
        fields = {field.encode_name: field for field in kind.fields}
        for name in value:
            if name not in fields:
                self._wrong(_under(path, name), Problem("unknown key", suggested(name, fields)))
        given: dict[str, Value] = {}
        for name, field in fields.items():
            if name in value:
                read = self._read(field.type, value[name], _under(path, name))
            elif field.required:
                read = self._wrong(_under(path, name), Problem("missing", example(name)))
            else:
                continue
            if read is not _WRONG:
                given[field.name] = read
            elif field.required:
                given[field.name] = _placeholder(field.type)
        return kind.cls(**given)

    def _table(self, kind: inspect.DictType, value: Value, path: str) -> Value:
        if not isinstance(value, Mapping):
            return self._wrong(path, mismatch(kind, value))
        found = {}
        for name, item in value.items():
            below = _under(path, name)
            key = self._read(kind.key_type, name, below)
            if _is_header_value(kind.value_type):
                read = self._header_value(name, item, below)
            else:
                read = self._read(kind.value_type, item, below)
            if _WRONG not in (key, read):
                found[key] = read
        return found

    def _list(self, kind: inspect.VarTupleType, value: Value, path: str) -> Value:
        if isinstance(value, str):
            value = [value]  # a list of one may be written without brackets
        if not isinstance(value, list | tuple):
            return self._wrong(path, mismatch(kind, value))
        if len(value) < (kind.min_length or 0):
            return self._wrong(path, Problem("the list is empty"))
        items = [
            self._read(kind.item_type, item, f"{path}[{number}]")
            for number, item in enumerate(value, start=1)
        ]
        return tuple(item for item in items if item is not _WRONG)

    def _either(self, types: tuple[inspect.Type, ...], value: Value, path: str) -> Value:
        (kind,) = [one for one in types if not isinstance(one, inspect.NoneType)]
        return self._read(kind, value, path)

    # --- single values ---

    def _text(self, inner: inspect.Type, kind: TextKind, value: Value, path: str) -> Value:
        if not isinstance(value, str):
            return self._wrong(path, mismatch(inner, value))
        checked = check_text(kind, value, self._environment)
        return self._wrong(path, checked) if isinstance(checked, Problem) else checked

    def _one_of(self, values: tuple[Value, ...], value: Value, path: str) -> Value:
        if isinstance(value, str) and value in values:
            return value
        choices = [str(one) for one in values if one]
        listed = ", ".join(f"`{one}`" for one in choices)
        near = did_you_mean(value, choices) if isinstance(value, str) else ""
        return self._wrong(path, Problem(f"expected one of {listed}, got {described(value)}", near))

    def _number(self, kind: inspect.IntType | inspect.FloatType, value: Value, path: str) -> Value:
        whole = isinstance(kind, inspect.IntType)
        if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
            return self._wrong(path, mismatch(kind, value))
        assert isinstance(value, int | float)  # noqa: S101 -- for the type checker
        if not math.isfinite(value) if isinstance(value, float) else abs(value) > MAX_NUMBER:
            return self._wrong(path, Problem(f"{described(value)} is out of range"))
        if kind.ge is not None and value < kind.ge:
            return self._wrong(path, Problem(f"must be at least {kind.ge}, not {value}"))
        if kind.gt is not None and value <= kind.gt:
            return self._wrong(path, Problem(f"must be more than {kind.gt}, not {value}"))
        if kind.le is not None and value > kind.le:
            return self._wrong(path, Problem(f"must be at most {kind.le}, not {value}"))
        return value if whole else float(value)

    def _secret(self, value: Value, path: str) -> Value:
        if not isinstance(value, str):
            return self._wrong(path, Problem("expected `env:NAME` or `file:PATH`"))
        found = find_secret(value, self._environment)
        if not isinstance(found, Problem):
            return found
        if is_reference(value) and not self._need_secrets:
            return Secret(source=value)
        return self._wrong(path, found)

    def _proxy(self, value: Value, path: str) -> Value:
        if not isinstance(value, str):
            return self._wrong(path, Problem(f"expected a string, got {described(value)}"))
        found = find_proxy(value.strip(), self._environment)
        if not isinstance(found, Problem):
            return found
        if is_reference(value) and not self._need_secrets:
            return ProxyRule(source=value, found=False)
        return self._wrong(path, found)

    def _header_value(self, name: str, value: Value, path: str) -> Value:
        if not isinstance(value, str):
            return self._wrong(path, Problem(f"expected a string, got {described(value)}"))
        if is_reference(value):
            return self._secret(value, path)
        if names_secret(name):
            return self._secret(value, path)  # its message explains how to write it
        if any(not (" " <= character <= "~" or character == "\t") for character in value):
            return self._wrong(path, Problem("a header has plain characters only, on one line"))
        return value

    def _json(self, value: Value, path: str, depth: int) -> Value:
        """Return a value that will be written as JSON."""
        match value:
            case bool() | str():
                return value
            case int() if -(2**63) <= value < 2**63:
                return value
            case float() if math.isfinite(value):
                return value
            case int() | float():
                return self._wrong(path, Problem(f"{described(value)} cannot be written as JSON"))
            case list() | Mapping() if depth >= _MAX_DEPTH:
                return self._wrong(path, Problem(f"nested deeper than {_MAX_DEPTH} levels"))
            case list():
                items = [
                    self._json(item, f"{path}[{number}]", depth + 1)
                    for number, item in enumerate(value, start=1)
                ]
                return [item for item in items if item is not _WRONG]
            case Mapping():
                pairs = {
                    str(key): self._json(item, _under(path, str(key)), depth + 1)
                    for key, item in value.items()
                }
                return {key: item for key, item in pairs.items() if item is not _WRONG}
        return self._wrong(
            path, Problem(f"{described(value)} cannot be written as JSON", "write it in quotes")
        )

    def _wrong(self, path: str, problem: Problem) -> _Wrong:
        self.mistakes.append(Mistake(path, problem.message, problem.suggestion))
        return _WRONG


def _under(path: str, name: str) -> str:
    """Return the path of a key, as TOML would write it."""
    plain = _BARE_KEY.fullmatch(name)
    shown = name if plain else f'"{shortened(name)}"'
    return f"{path}.{shown}" if path else shown


def _placeholder(kind: inspect.Type) -> Value:
    """Return an empty value for a required key whose value is wrong; it is not reported again."""
    match kind:
        case inspect.Metadata(type=inner):
            return _placeholder(inner)
        case inspect.StructType(cls=cls) if cls is Secret:
            return Secret(source="")
        case inspect.StructType(cls=cls, fields=fields):
            required = {one.name: _placeholder(one.type) for one in fields if one.required}
            empty: Struct = cls(**required)
            return empty
        case inspect.VarTupleType():
            return ()
        case inspect.IntType() | inspect.FloatType():
            return 0
        case _:
            return ""


def _is_header_value(kind: inspect.Type) -> bool:
    """Return whether a value may be a secret or a plain text."""
    return isinstance(kind, inspect.UnionType) and len(kind.types) > 1


# --- messages about wrong values ---


MAX_NUMBER: Final = 2**53  # larger whole numbers do not survive every JSON reader
_LEADING_NUMBER: Final = re.compile(r"\s*(\d+(?:\.\d+)?)")

# Names that people know from elsewhere; each counts only where the table has what it means.
_MEANT: Final[dict[str, str]] = {
    "api": "dialect",
    "api_base": "base_url",
    "api_key": "key",
    "apikey": "key",
    "bind": "host",
    "endpoint": "base_url",
    "http_proxy": "proxy",
    "https_proxy": "proxy",
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
    return Problem(f"expected {_expected(kind)}, got {described(value)}", _rewritten(kind, value))


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
            return "a string"


def described(value: object) -> str:
    """Return a value in words, for a message."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() if abs(value) > MAX_NUMBER:
            return "a very large number"
        case int() | float():
            return f"the number {value}"
        case str():
            return f'the string "{shortened(value)}"'
        case list():
            return "a list"
        case Mapping():
            return "a table"
        case date() | time():
            return "a date or time"
        case _:
            return "something else"


def _rewritten(kind: inspect.Type, value: object) -> str:
    """Return how the value should be written, if it shows."""
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
    return f"it belongs to {' or '.join(_HOMES[name][:3])}"


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
        case inspect.StructType(cls=cls, fields=fields) if cls not in (ProxyRule, Secret):
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
