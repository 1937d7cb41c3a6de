"""The families of native tool calls, by key."""

from typing import Final

from dragoman.errors import ConfigError
from dragoman.toolcalls.format import Format
from dragoman.toolcalls.formats import kimi_k2

_ALL: Final = (kimi_k2.FORMAT,)

FORMATS: Final[dict[str, Format]] = {one.key: one for one in _ALL}

# Whatever marks itself beyond doubt: for models of which nothing is known.
AUTO: Final = Format(
    key="auto",
    says="any family whose markers cannot be mistaken",
    models=(),
    rules=tuple(dict.fromkeys(rule for one in _ALL if not one.bare for rule in one.rules)),
)


def find_format(key: str) -> Format:
    """Return a family by its key.

    Raises:
        ConfigError: there is none of that name.
    """
    found = AUTO if key == AUTO.key else FORMATS.get(key)
    if found is None:
        raise ConfigError(f"no tool-call format `{key}`; there are {', '.join(sorted(FORMATS))}")
    return found
