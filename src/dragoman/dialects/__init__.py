"""The registry of dialects.  A built-in one is loaded when it is first asked for; `register` adds another."""

from functools import cache, reduce
from importlib import import_module
from operator import or_
from typing import Final

from dragoman.dialects.dialect import Dialect
from dragoman.dialects.vocabulary import Vocabulary
from dragoman.errors import ConfigError
from dragoman.turn.request import DialectName

DIALECT_NAMES: Final[tuple[DialectName, ...]] = (
    "chat",
    "anthropic",
    "responses",
    "gemini",
)  # built in
DEFAULT_DIALECT: Final[DialectName] = "chat"  # of failures that no path or header gives a dialect

_loaded: Final[dict[str, Dialect]] = {}


def register(added: Dialect) -> None:
    """Add a dialect: from then on it is translated, checked, served and spoken like the built-in ones.

    Call it before a gateway or client is made.

    Raises:
        ConfigError: there is one of that name.
    """
    if added.name in dialect_names():
        raise ConfigError(f"there is a dialect `{added.name}` already")
    _loaded[added.name] = added


def dialect_names() -> tuple[DialectName, ...]:
    """Return the names of all dialects that shells offer: the built-in ones first."""
    return (*DIALECT_NAMES, *(name for name in _loaded if name not in DIALECT_NAMES))


def dialect(name: str) -> Dialect:
    """Return a dialect by its name.

    Raises:
        ConfigError: no dialect has this name.
    """
    found = _loaded.get(name)
    if found is not None:
        return found
    if name not in DIALECT_NAMES:
        raise ConfigError(f"no dialect `{name}`; there are {', '.join(dialect_names())}")
    found = import_module(f"dragoman.dialects.{name}").DIALECT
    assert isinstance(found, Dialect)  # noqa: S101 -- our own modules
    return _loaded.setdefault(name, found)


def vocabulary() -> Vocabulary:
    """Return the vocabularies of all dialects as one, for JSON whose dialect is not known."""
    return _union(dialect_names())


@cache
def _union(names: tuple[str, ...]) -> Vocabulary:
    return reduce(or_, (dialect(name).vocabulary for name in names))
