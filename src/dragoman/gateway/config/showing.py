"""The settings in force, as TOML that could be read again, or as plain values; secrets never show."""

import re
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec
from msgspec import Struct, structs

from dragoman.gateway.config.settings import Secret, Settings, Upstream
from dragoman.gateway.config.vendors import profile_for

_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_DEFAULT: Final = "  # default"


def toml_text(settings: Settings, *, defaults: bool = False) -> str:
    """Return the settings as TOML: what differs from the defaults, or everything."""
    lines = list(_table(settings, (), defaults=defaults, header=""))
    while lines and not lines[0]:
        del lines[0]
    return "\n".join(lines or ["# everything is as by default"]) + "\n"


def plain(value: object) -> object:
    """Return settings as values that JSON knows; a secret is where it comes from, and if it is there."""
    match value:
        case Secret(source=source):
            return f"{source} ({_state(value)})"
        case Struct():
            return {name: plain(getattr(value, name)) for name in value.__struct_fields__}
        case Mapping():
            return {str(key): plain(item) for key, item in value.items()}
        case list() | tuple():
            return [plain(item) for item in value]
        case _:
            return value


def toml_value(value: object) -> str:
    """Return a value as TOML writes it on one line."""
    match value:
        case Secret(source=source):
            return _quoted(source)
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value)
        case list() | tuple():
            return f"[{', '.join(toml_value(item) for item in value)}]"
        case Mapping():
            pairs = (f"{_key(str(key))} = {toml_value(item)}" for key, item in value.items())
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
        case _:
            return str(value)


def _table(table: Struct, path: tuple[str, ...], *, defaults: bool, header: str) -> Iterator[str]:
    """Write a table: its own keys, then the tables in it."""
    own, below = [], []
    if isinstance(table, Upstream) and not table.profile:
        own.append(f"# profile: `{profile_for(table.base_url)}`, by the address")
    for field in structs.fields(table):
        value = getattr(table, field.name)
        usual = not field.required and value == _default(field)
        if value is None or (usual and not defaults):
            continue
        if _is_table(value):
            below += list(_tables(value, (*path, field.name), defaults=defaults))
        else:
            note = (
                f"  # {_state(value)}" if isinstance(value, Secret) else _DEFAULT if usual else ""
            )
            own.append(f"{field.name} = {toml_value(value)}{note}")
    if header and (own or not below or header.startswith("[[")):
        yield from ("", header)
    yield from own
    yield from below


def _tables(value: object, path: tuple[str, ...], *, defaults: bool) -> Iterator[str]:
    """Write a table, a table of tables, or a list of tables."""
    name = ".".join(_key(part) for part in path)
    match value:
        case Struct():
            yield from _table(value, path, defaults=defaults, header=f"[{name}]")
        case tuple():
            for item in value:
                yield from _table(item, path, defaults=defaults, header=f"[[{name}]]")
        case Mapping() if all(isinstance(item, Struct) for item in value.values()):
            for key, item in value.items():
                yield from _tables(item, (*path, str(key)), defaults=defaults)
        case Mapping():
            yield from ("", f"[{name}]")
            for key, item in value.items():
                note = f"  # {_state(item)}" if isinstance(item, Secret) else ""
                yield f"{_key(str(key))} = {toml_value(item)}{note}"


def _is_table(value: object) -> bool:
    match value:
        case Secret():
            return False
        case Struct():
            return True
        case tuple():
            return bool(value) and isinstance(value[0], Struct)
        case Mapping():
            return bool(value)
        case _:
            return False


def _default(field: structs.FieldInfo) -> object:
    if field.default is not msgspec.NODEFAULT:
        return field.default
    return field.default_factory()


def _state(secret: Secret) -> str:
    return "set" if secret.value else "not set"


def _key(name: str) -> str:
    return name if _BARE_KEY.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    # JSON's escapes are TOML's, but for one character that TOML wants escaped too.
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")
