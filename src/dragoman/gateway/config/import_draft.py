"""A `dragoman.toml` that is built from another gateway's file: the draft, and its text.

A draft records three things besides the settings: what could not be carried over, which environment
variables replace keys that the other file contains, and which settings need no counterpart.  Nothing is
dropped silently, and no value of a secret is ever written.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.gateway.config.environment import ConfigEnvironment
from dragoman.gateway.config.load import make_settings
from dragoman.gateway.config.problems import ConfigMistakesError, Problem, one_line
from dragoman.gateway.config.render import toml_key, toml_value
from dragoman.gateway.config.settings import TextKind
from dragoman.gateway.config.texts import check_text, is_near
from dragoman.gateway.config.vendors import vendor_at

Table: TypeAlias = dict[str, object]

# Keys that people write where a client library demands one and the server does not.
_PLACEHOLDERS: Final = frozenset(
    {"", "-", "any", "anything", "dummy", "empty", "fake", "fake-key", "key", "lm-studio", "na", "no-key",
     "none", "not-needed", "null", "ollama", "placeholder", "sk-no-key-required", "unused", "x", "xxx"}
)  # fmt: skip
_SECRET_NAME: Final = re.compile(r"auth|key|token|secret|password|credential|cookie", re.IGNORECASE)
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9._-]+")
_NOT_IN_VARIABLES: Final = re.compile(r"[^A-Z0-9]+")
_NUMBER: Final = re.compile(r"\d+(\.\d+)?")
_ENDPOINTS: Final = {
    "/chat/completions": "chat",
    "/messages": "anthropic",
    "/responses": "responses",
    "/models": "gemini",
}


class Lost(Struct, frozen=True):
    """A setting of the other file that has no counterpart here."""

    path: str  # in the other file; list items are counted from 1
    reason: str

    def __str__(self) -> str:
        return one_line(f"{self.path}: {self.reason}")


class Draft:
    """The settings that are being put together.

    Attributes:
        server: The table `[server]`; `log` likewise.
        upstreams: Tables `[upstreams.NAME]`; `profiles` and `models` likewise.
        routes: Tables `[[routes]]`.
        aliases: The table `[aliases]`.
        lost: What could not be carried over.
        variables: Environment variables that must be set, each with the place of the key it replaces.
    """

    def __init__(self, kind: str, file: str, *, environ: Mapping[str, str], folder: Path) -> None:
        self.kind = kind
        self.file = file
        self.environ = environ
        self.folder = folder
        self.server: Table = {}
        self.log: Table = {}
        self.upstreams: dict[str, Table] = {}
        self.profiles: dict[str, Table] = {}
        self.models: dict[str, Table] = {}
        self.routes: list[Table] = []
        self.aliases: dict[str, str] = {}
        self.lost: list[Lost] = []
        self.variables: dict[str, str] = {}
        self.taken: set[str] = set()  # variables that the other file refers to
        self._literals: dict[str, str] = {}  # variable to the key it replaces; never written

    def lose(self, path: str, reason: str) -> None:
        """Record a setting that is not carried over."""
        self.lost.append(Lost(path, reason))

    def secret(self, value: str, *, wanted: str, path: str) -> str:
        """Return `env:NAME` for a key that the other file contains."""
        for name, held in self._literals.items():
            if held == value:
                return f"env:{name}"
        name = _unique(variable_name(wanted), {*self.taken, *self._literals}, "_")
        self._literals[name] = value
        self.variables[name] = path
        return f"env:{name}"

    def header_value(self, value: object, *, name: str, path: str) -> str:
        """Return a header's value; one that looks like a secret becomes `env:NAME`."""
        text = str(value)
        return self.secret(text, wanted=name, path=path) if is_secret_name(name) else text

    def plain_fields(self, fields: Table, path: str) -> Table:
        """Return the fields of a request body that can be written; the others are recorded as lost."""
        kept: Table = {}
        for name, value in fields.items():
            where = f"{path}.{name}"
            if is_secret_name(name) and isinstance(value, str):
                self.lose(where, "looks like a secret; only `key` and `headers` may hold secrets")
            elif _has_null(value):
                self.lose(where, "TOML has no null")
            else:
                kept[name] = value
        return kept

    def address(self, text: str, path: str) -> str | None:
        """Return the text as a base URL, or record why it cannot be one."""
        found = self._checked("address", text.strip())
        if isinstance(found, Problem):
            self.lose(path, f"not usable as an address: {found.message}")
            return None
        return found

    def add_upstream(self, wanted: str, table: Table) -> str:
        """Add an upstream and return its name; an equal one is shared."""
        name = upstream_name(wanted)
        for known, held in self.upstreams.items():
            if held == table:
                return known
        name = _unique(name, set(self.upstreams), "-")
        self.upstreams[name] = table
        return name

    def add_profile(self, upstream: str, base: str, facts: Table) -> None:
        """Add a profile that changes facts of a built-in one, and let the upstream use it."""
        name = _unique(f"{upstream}-imported".lower(), set(self.profiles), "-")
        self.profiles[name] = {"base": base, **facts}
        self.upstreams[upstream]["profile"] = name

    def text(self) -> str:
        """Return the file's text.

        Raises:
            ConfigError: no upstream could be carried over, or the settings would not be valid.
        """
        if not self.upstreams:
            reasons = "".join(f"\n  {one}" for one in self.lost)
            raise ConfigError(f"{self.file}: no upstream can be carried over:{reasons}")
        text = "\n".join(self._lines()) + "\n"
        environment = ConfigEnvironment(environ={}, folder=self.folder)
        try:
            make_settings(tomllib.loads(text), environment, need_secrets=False)
        except ConfigMistakesError as error:
            raise ConfigError(
                f"{self.file}: the imported settings are not valid: {error}"
            ) from error
        return text

    def _checked(self, kind: TextKind, text: str) -> str | Problem:
        return check_text(kind, text, ConfigEnvironment(environ={}, folder=self.folder))

    def _lines(self) -> Iterator[str]:
        yield f"# Imported from {self.kind}'s configuration by `dragoman config import`."
        if self.variables:
            yield "#"
            yield "# Set these environment variables, or write them into a file `.env` next to this one:"
            for name, path in self.variables.items():
                yield one_line(f"#   {name}: the key at {path}")
        if self.lost:
            yield "#"
            yield "# Not carried over:"
            for one in self.lost:
                yield f"#   {one}"
        for name, table in (("server", self.server), ("log", self.log)):
            if table:
                yield from _table(f"[{name}]", table)
        for group, tables in (("upstreams", self.upstreams), ("profiles", self.profiles)):
            for name, table in tables.items():
                yield from _table(f"[{group}.{toml_key(name)}]", table)
        for route in self.routes:
            yield from _table("[[routes]]", route)
        if self.aliases:
            yield from _table("[aliases]", dict(self.aliases))
        for name, table in self.models.items():
            yield from _table(f"[models.{toml_key(name)}]", table)


def is_placeholder(key: str) -> bool:
    """Return whether a key is only there because a client library demands one."""
    return key.strip().lower() in _PLACEHOLDERS


def is_secret_name(name: str) -> bool:
    """Return whether a field or header of this name usually holds a secret."""
    return bool(_SECRET_NAME.search(name))


def is_local(base_url: str) -> bool:
    """Return whether an address is on this machine or in the private network."""
    return is_near(urlsplit(base_url).hostname or "")


def split_endpoint(address: str) -> tuple[str, str | None]:
    """Return the base URL of an endpoint's URL, and its dialect if the URL ends with its path."""
    trimmed = address.strip().rstrip("/")
    for endpoint, dialect in _ENDPOINTS.items():
        if trimmed.endswith(endpoint):
            return trimmed.removesuffix(endpoint), dialect
    return trimmed, None


def name_for(base_url: str) -> str:
    """Return a name for the upstream at an address: the vendor's, or one made from the host."""
    vendor = vendor_at(base_url)
    if vendor is not None:
        return vendor.name
    parts = urlsplit(base_url)
    host = (parts.hostname or "").removeprefix("api.")
    if is_near(host) and parts.port:
        return f"local-{parts.port}"
    return host.replace(".", "-")


def upstream_name(text: str) -> str:
    """Return a text as the name of an upstream."""
    return _NOT_IN_NAMES.sub("-", text).strip("-._") or "upstream"


def variable_name(text: str) -> str:
    """Return a text as the name of an environment variable."""
    name = _NOT_IN_VARIABLES.sub("_", text.upper()).strip("_")
    return name if name and not name[0].isdigit() else f"KEY_{name}".rstrip("_")


def as_table(value: object) -> Table:
    """Return a value as a table with text keys; empty if it is not one."""
    return {str(key): item for key, item in value.items()} if isinstance(value, dict) else {}


def as_list(value: object) -> list[object]:
    """Return a value as a list; empty if it is not one."""
    return value if isinstance(value, list) else []


def as_number(value: object) -> float | None:
    """Return a value as a number that is not negative, which may be written as text."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value if value >= 0 else None
    return float(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else None


def _table(header: str, table: Table) -> Iterator[str]:
    yield from ("", header)
    for key, value in table.items():
        yield f"{toml_key(key)} = {toml_value(value)}"


def _unique(wanted: str, taken: set[str], joint: str) -> str:
    names = (wanted, *(f"{wanted}{joint}{number}" for number in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)


def _has_null(value: object) -> bool:
    match value:
        case None:
            return True
        case dict():
            return any(_has_null(item) for item in value.values())
        case list():
            return any(_has_null(item) for item in value)
        case _:
            return False
