"""Settings as TOML: the settings in force, a first file for a vendor, and a profile added to a file."""

import re
import tempfile
import tomllib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias

import msgspec
from msgspec import Struct, structs
from yarl import URL

from dragoman.errors import ConfigError, did_you_mean
from dragoman.gateway.config.environment import ConfigEnvironment
from dragoman.gateway.config.load import make_settings
from dragoman.gateway.config.problems import ConfigMistakesError
from dragoman.gateway.config.settings import DEFAULT_HOST, DEFAULT_PORT, Secret, Settings, Upstream
from dragoman.gateway.config.vendors import ALIASES, VENDORS, Vendor, find_vendor, profile_for
from dragoman.transport import ProxyRule
from dragoman.turn.request import DialectName

# --- the settings in force ---


_BARE_KEY: Final = re.compile(r"[A-Za-z0-9_-]+")
_DEFAULT: Final = "  # default"


def toml_text(settings: Settings, *, defaults: bool = False) -> str:
    """Return the settings as TOML: what differs from the defaults, or everything."""
    lines = list(_table(settings, (), defaults=defaults, header=""))
    while lines and not lines[0]:
        del lines[0]
    return "\n".join(lines or ["# all settings have their default values"]) + "\n"


def plain(value: object) -> object:
    """Return settings as values that JSON knows; a secret is where it comes from, and if it is there."""
    match value:
        case Secret(source=source):
            return f"{source} ({_state(value)})"
        case ProxyRule(source=source):
            return source
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
        case Secret(source=source) | ProxyRule(source=source):
            return _quoted(source)
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value)
        case list() | tuple():
            return f"[{', '.join(toml_value(item) for item in value)}]"
        case Mapping():
            pairs = (f"{toml_key(str(key))} = {toml_value(item)}" for key, item in value.items())
            return f"{{ {', '.join(pairs)} }}" if value else "{}"
        case _:
            return str(value)


def _table(table: Struct, path: tuple[str, ...], *, defaults: bool, header: str) -> Iterator[str]:
    """Write a table: its own keys, then the tables in it."""
    own, below = [], []
    if isinstance(table, Upstream) and not table.profile:
        own.append(f"# profile: `{profile_for(table.base_url, table.dialect)}`, by the address")
    for field in structs.fields(table):
        value = getattr(table, field.name)
        usual = not field.required and value == _default(field)
        if value is None or (usual and not defaults):
            continue
        if _is_table(value):
            below += list(_tables(value, (*path, field.name), defaults=defaults))
        else:
            match value:
                case Secret():
                    note = f"  # {_state(value)}"
                case ProxyRule():
                    note = f"  # {_way(table, value)}"
                case _:
                    note = _DEFAULT if usual else ""
            own.append(f"{field.name} = {toml_value(value)}{note}")
    if header and (own or not below or header.startswith("[[")):
        yield from ("", header)
    yield from own
    yield from below


def _tables(value: object, path: tuple[str, ...], *, defaults: bool) -> Iterator[str]:
    """Write a table, a table of tables, or a list of tables."""
    name = ".".join(toml_key(part) for part in path)
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
                yield f"{toml_key(str(key))} = {toml_value(item)}{note}"


def _is_table(value: object) -> bool:
    match value:
        case Secret() | ProxyRule():
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


def _way(table: Struct, rule: ProxyRule) -> str:
    """Return which proxy leads to an upstream, without its credentials."""
    if not rule.found or not isinstance(table, Upstream):
        return "not set"
    proxy = rule.find(URL(table.base_url))
    return "a direct connection" if proxy is None else f"through {proxy.where}"


def _state(secret: Secret) -> str:
    return "set" if secret.value else "not set"


def toml_key(name: str) -> str:
    """Return a key as TOML writes it: bare, or in quotes."""
    return name if _BARE_KEY.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    # JSON's escapes are TOML's, but for one character that TOML wants escaped too.
    return msgspec.json.encode(text).decode().replace("\x7f", "\\u007f")


# --- a first file ---


def first_file(
    vendor_name: str, *, model: str = "", dialect: DialectName | None = None, base_url: str = ""
) -> str:
    """Return the text of a file that sends every request to one vendor.

    Raises:
        ConfigError: there is no such vendor, or it does not speak that dialect.
    """
    vendor = chosen_vendor(vendor_name)
    spoken = dialect or vendor.dialect
    address = base_url or _address(vendor, spoken)
    target = f"{vendor.name}/{model or vendor.model}"
    return _TEXT.format(
        host=toml_value(DEFAULT_HOST),
        port=DEFAULT_PORT,
        description=vendor.description,
        name=vendor.name,
        base_url=toml_value(address),
        dialect=toml_value(spoken),
        key=_key_lines(vendor),
        profile=toml_value(vendor.profiles.get(spoken, vendor.profile)),
        target=toml_value([target]),
        first=toml_value(target),
        remark=_remark(target),
    )


def chosen_vendor(name: str) -> Vendor:
    """Return a vendor by its name.

    Raises:
        ConfigError: no vendor has this name.
    """
    vendor = find_vendor(name)
    if vendor is None:
        near = did_you_mean(name, [*VENDORS, *ALIASES])
        raise ConfigError(f"no vendor `{name}`; {near or 'there are ' + ', '.join(VENDORS)}")
    return vendor


def _address(vendor: Vendor, dialect: DialectName) -> str:
    if dialect == vendor.dialect:
        return vendor.base_url
    if dialect not in vendor.others:
        known = ", ".join([vendor.dialect, *vendor.others])
        raise ConfigError(f"{vendor.name} is not known to support `{dialect}`; it supports {known}")
    return vendor.others[dialect] or vendor.base_url


def _key_lines(vendor: Vendor) -> str:
    variable = vendor.key_variable
    if not variable:
        return '# It needs no key; if yours does: key = "env:NAME"'
    return (
        f"# The key is in this variable: export it, or write {variable}=… into a file `.env` here.\n"
        f'key = "env:{variable}"'
    )


def _remark(target: str) -> str:
    if target.endswith("/*"):
        return "# `*` keeps the name that the client sends; write a model's name to use it for every client."
    return (
        "# The model as the upstream calls it.  More targets in the list are tried in their order."
    )


_TEXT = """\
# Settings of the Dragoman gateway.
# `dragoman config check` looks for mistakes, `dragoman config show --defaults` lists every key in force,
# `dragoman serve` starts the gateway.

[server]
host = {host}
port = {port}
# Keys of clients.  Without keys, only this machine can connect.
# keys = ["env:DRAGOMAN_KEY"]

# {description}.
[upstreams.{name}]
# The URL before `/chat/completions`, `/messages` or `/responses`.
base_url = {base_url}
dialect = {dialect}
{key}
# What the server can and cannot do.
profile = {profile}
# Tool calls that the model writes as text: `auto` chooses the format by the model's name.
format = "auto"

# The first route that matches wins.
# [[routes]]
# match = {{ model = "claude-*haiku*" }}    # small tasks of Claude Code: name a cheaper model
# to = [{first}]

[[routes]]
match = {{ model = "*" }}
{remark}
to = {target}

# Your own names for models.
# [aliases]
# "gpt-5" = "claude-sonnet-4-5"

# Facts about a model that agents need, by the name that they send.
# [models."claude-*"]
# context = 200000
# output = 32000

# What models cost, in US dollars for a million tokens, where the upstream does not report it.
# [[prices]]
# model = {first}
# input = 0.6
# cached_input = 0.15
# output = 2.5

# [log]
# format = "json"    # `auto`: readable on a terminal, JSON elsewhere
# level = "info"
"""


# --- a profile added to a file ---


Fact: TypeAlias = bool | int | float | str | tuple[str, ...]

_UPSTREAM_HEADER: Final = re.compile(
    r"""\s*+\[\s*+upstreams\s*+\.\s*+(?:([A-Za-z0-9._-]++)|"([^"]*)"|'([^']*)')\s*+\]"""
)
_KEY_LINE: Final = re.compile(r"\s*+(\w+)\s*+=")
_COMMENT: Final = re.compile(r"\s#")


class NewProfile(Struct, frozen=True, kw_only=True):
    """What is to be added."""

    name: str
    base: str  # a built-in profile
    facts: Mapping[str, Fact]
    remark: str = ""  # where it comes from, for a comment


class NewUpstream(Struct, frozen=True, kw_only=True):
    """An upstream for a file that has none yet."""

    base_url: str
    dialect: DialectName
    key: str = ""  # `env:NAME`
    format: str = ""


def profile_table(profile: NewProfile) -> str:
    """Return a profile as a table of the file."""
    lines = [f"# {one}" for one in profile.remark.splitlines()]
    lines += [f"[profiles.{profile.name}]", f"base = {toml_value(profile.base)}"]
    lines += [f"{name} = {toml_value(value)}" for name, value in profile.facts.items()]
    return "\n".join(lines) + "\n"


def add_profile(
    text: str,
    profile: NewProfile,
    *,
    upstream: str = "",
    family: str = "",
    new: NewUpstream | None = None,
) -> tuple[str, bool]:
    """Return a file's text with a profile in it, and whether the upstream uses it.

    The upstream's table gets the profile and, if it is not empty, the `family` as its `format`.  `new` is put before
    the profile under the profile's name, for a file that has no upstream.

    Raises:
        ConfigError: there is a profile of that name, or the text is not TOML.
    """
    before = _parsed(text)
    profiles = before.get("profiles")
    if isinstance(profiles, dict) and profile.name in profiles:
        raise ConfigError(
            f"the file has a profile `{profile.name}` already; --write NAME gives another name"
        )
    table = profile_table(profile)
    if new is not None:
        table = f"{_upstream_table(profile.name, new)}\n{table}"
    whole = f"{text.rstrip()}\n\n{table}" if text.strip() else table
    values = {"profile": profile.name} | ({"format": family} if family else {})
    named = _with_values(whole, upstream, values) if upstream else None
    if named is not None and _differs_only_in(_parsed(whole), _parsed(named), upstream, values):
        return named, True
    return whole, new is not None


def write_file(path: Path, text: str) -> None:
    """Replace a file atomically, if its settings are valid.

    Raises:
        ConfigError: it cannot be written, or the settings would be wrong.
    """
    target = path.resolve()
    try:
        make_settings(
            _parsed(text), ConfigEnvironment(environ={}, folder=target.parent), need_secrets=False
        )
    except ConfigMistakesError as error:
        raise ConfigError(f"nothing was written: {error}") from error
    try:
        mode = target.stat().st_mode if target.exists() else None
        with tempfile.NamedTemporaryFile(
            "w", dir=target.parent, prefix=".dragoman-", encoding="utf-8", delete=False
        ) as file:
            file.write(text)
        temporary = Path(file.name)
        temporary.chmod(0o644 if mode is None else mode & 0o7777)
        temporary.replace(target)
    except OSError as error:
        raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error


def _upstream_table(name: str, new: NewUpstream) -> str:
    lines = [
        f"[upstreams.{name}]",
        f"base_url = {toml_value(new.base_url)}",
        f"dialect = {toml_value(new.dialect)}",
        f"profile = {toml_value(name)}",
    ]
    if new.key:
        lines.append(f"key = {toml_value(new.key)}")
    if new.format:
        lines.append(f"format = {toml_value(new.format)}")
    return "\n".join(lines) + "\n"


def _parsed(text: str) -> dict[str, object]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"the file is not TOML: {error}") from error


def _upstream_in(line: str) -> str | None:
    """Return the name of the upstream whose table a line begins."""
    found = _UPSTREAM_HEADER.match(line)
    return None if found is None else next(name for name in found.groups() if name is not None)


def _comment_of(line: str) -> str:
    """Return the comment at the end of a line, with the blanks before it; quotes end no comment here."""
    tail = line[max(line.rfind('"'), line.rfind("'")) + 1 :]
    found = _COMMENT.search(tail)
    return "" if found is None else tail[len(tail[: found.start()].rstrip()) :].rstrip("\n")


def _with_values(text: str, upstream: str, values: Mapping[str, str]) -> str | None:
    """Set keys of an upstream's table; None if the table is not found as it is usually written."""
    lines = text.splitlines(keepends=True)
    start = next((at for at, line in enumerate(lines) if _upstream_in(line) == upstream), None)
    if start is None:
        return None
    missing = {name: f"{name} = {toml_value(value)}" for name, value in values.items()}
    for at in range(start + 1, len(lines)):
        if lines[at].lstrip().startswith("["):
            break
        found = _KEY_LINE.match(lines[at])
        if found is not None and found[1] in missing:
            lines[at] = missing.pop(found[1]) + _comment_of(lines[at]) + "\n"
    lines[start] = "\n".join([lines[start].rstrip("\n"), *missing.values()]) + "\n"
    return "".join(lines)


def _differs_only_in(
    before: dict[str, object], after: dict[str, object], upstream: str, keys: Collection[str]
) -> bool:
    """Return whether nothing but some keys of one upstream has changed."""
    return _without(before, upstream, keys) == _without(after, upstream, keys)


def _without(
    document: dict[str, object], upstream: str, keys: Collection[str]
) -> dict[str, object]:
    tables = document.get("upstreams")
    if not isinstance(tables, dict) or not isinstance(table := tables.get(upstream), dict):
        return document
    rest = {key: value for key, value in table.items() if key not in keys}
    return {**document, "upstreams": {**tables, upstream: rest}}
