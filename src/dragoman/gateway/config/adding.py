"""A profile into a file of settings: added at its end, and named by its upstream.

The file is a person's work: nothing of it is written anew but the one line that names the profile.  What
results is read again and compared before anything is kept.
"""

import re
import tempfile
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final, TypeAlias

from msgspec import Struct

from dragoman.errors import ConfigError
from dragoman.gateway.config.loading import settle
from dragoman.gateway.config.mistakes import ConfigMistakesError
from dragoman.gateway.config.showing import toml_value
from dragoman.gateway.config.surroundings import Surroundings
from dragoman.turn.request import DialectName

Fact: TypeAlias = bool | int | float | str

_UPSTREAM_HEADER: Final = re.compile(
    r"""\s*+\[\s*+upstreams\s*+\.\s*+(?:([A-Za-z0-9._-]++)|"([^"]*)"|'([^']*)')\s*+\]"""
)
_PROFILE_LINE: Final = re.compile(r"\s*+profile\s*+=")
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


def added(
    text: str, profile: NewProfile, *, upstream: str = "", new: NewUpstream | None = None
) -> tuple[str, bool]:
    """Return a file's text with a profile in it, and whether the upstream names it.

    `new` is put before it under the profile's name, for a file that has no upstream.

    Raises:
        ConfigError: there is a profile of that name, or the text is no TOML.
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
    named = _named(whole, upstream, profile.name) if upstream else None
    if named is not None and _differs_only_in(_parsed(whole), _parsed(named), upstream):
        return named, True
    return whole, new is not None


def write(path: Path, text: str) -> None:
    """Replace a file at once, if what it says can be used.

    Raises:
        ConfigError: it cannot be written, or the settings would be wrong.
    """
    target = path.resolve()
    try:
        settle(_parsed(text), Surroundings(environ={}, folder=target.parent), need_secrets=False)
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
        raise ConfigError(f"the file is no TOML: {error}") from error


def _upstream_in(line: str) -> str | None:
    """Return the name of the upstream whose table a line begins."""
    found = _UPSTREAM_HEADER.match(line)
    return None if found is None else next(name for name in found.groups() if name is not None)


def _comment_of(line: str) -> str:
    """Return the comment at the end of a line, with the blanks before it; quotes end no comment here."""
    tail = line[max(line.rfind('"'), line.rfind("'")) + 1 :]
    found = _COMMENT.search(tail)
    return "" if found is None else tail[len(tail[: found.start()].rstrip()) :].rstrip("\n")


def _named(text: str, upstream: str, profile: str) -> str | None:
    """Let an upstream's table name a profile; None if the table is not found as it is usually written."""
    lines = text.splitlines(keepends=True)
    start = next((at for at, line in enumerate(lines) if _upstream_in(line) == upstream), None)
    if start is None:
        return None
    line = f"profile = {toml_value(profile)}\n"
    for at in range(start + 1, len(lines)):
        if lines[at].lstrip().startswith("["):
            break
        if _PROFILE_LINE.match(lines[at]):
            kept = _comment_of(lines[at])
            return "".join([*lines[:at], line.rstrip("\n") + kept + "\n", *lines[at + 1 :]])
    if not lines[start].endswith("\n"):
        lines[start] += "\n"
    return "".join([*lines[: start + 1], line, *lines[start + 1 :]])


def _differs_only_in(before: dict[str, object], after: dict[str, object], upstream: str) -> bool:
    """Say whether nothing but the name of one upstream's profile has changed."""
    return _without_profile(before, upstream) == _without_profile(after, upstream)


def _without_profile(document: dict[str, object], upstream: str) -> dict[str, object]:
    tables = document.get("upstreams")
    if not isinstance(tables, dict) or not isinstance(table := tables.get(upstream), dict):
        return document
    rest = {key: value for key, value in table.items() if key != "profile"}
    return {**document, "upstreams": {**tables, upstream: rest}}
