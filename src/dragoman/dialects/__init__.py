"""The dialects, by name.  Each is loaded when it is first asked for."""

from functools import cache
from importlib import import_module
from typing import Final, get_args

from dragoman.dialects.dialect import Dialect
from dragoman.errors import ConfigError
from dragoman.turn.request import DialectName

DIALECT_NAMES: Final[tuple[DialectName, ...]] = get_args(DialectName)


@cache
def dialect(name: str) -> Dialect:
    """Return a dialect by its name.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in DIALECT_NAMES:
        raise ConfigError(f"no dialect `{name}`; there are {', '.join(DIALECT_NAMES)}")
    found = import_module(f"dragoman.dialects.{name}").DIALECT
    assert isinstance(found, Dialect)  # noqa: S101 -- our own modules
    return found
