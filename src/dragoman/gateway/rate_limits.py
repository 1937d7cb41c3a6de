"""What an upstream says of its limits, in the client's words.

Both families of vendors tell how many requests and tokens are allowed and left, under other names.  When the
count begins anew one tells as a date and the other as a time span: that stays where it is understood.
"""

from collections.abc import Mapping
from typing import Final

from dragoman.turn.request import DialectName

_PREFIXES: Final[dict[DialectName, str]] = {
    "anthropic": "anthropic-ratelimit-",
    "chat": "x-ratelimit-",
    "responses": "x-ratelimit-",
}
# The same numbers, as Messages and as the others name them.
_PAIRS: Final = {
    f"anthropic-ratelimit-{what}-{which}": f"x-ratelimit-{which}-{what}"
    for what in ("requests", "tokens")
    for which in ("limit", "remaining")
}
_TURNED: Final = {**_PAIRS, **{theirs: ours for ours, theirs in _PAIRS.items()}}
_MAX_CHARS: Final = 64  # of a value: a number, a date or a time span
_MAX_HEADERS: Final = 32


def rate_limits(
    headers: Mapping[str, str], *, upstream: DialectName, client: DialectName
) -> dict[str, str]:
    """Return the headers that mean the same to the client; `headers` are named in lower case."""
    prefix = _PREFIXES[upstream]
    told = {
        name: value
        for name, value in headers.items()
        if name.startswith(prefix) and len(value) <= _MAX_CHARS
    }
    if prefix != _PREFIXES[client]:
        told = {_TURNED[name]: value for name, value in told.items() if name in _TURNED}
    return dict(list(told.items())[:_MAX_HEADERS])
