"""Headers of responses: the request's id, what answered it, warnings, and the upstream's rate limits."""

import os
import re
import string
from collections.abc import Iterable, Mapping
from decimal import Decimal
from functools import cache, lru_cache
from typing import Final
from urllib.parse import quote

from dragoman.dialects.dialect import Dialect

_LENGTH: Final = 24
_DIGITS: Final = (string.digits + string.ascii_letters).encode() * 4 + bytes(8)  # by byte
_SURPLUS: Final = bytes(range(248, 256))
_OWN: Final = re.compile(rf"req_[0-9A-Za-z]{{{_LENGTH}}}")
_MAX_WARNINGS_CHARS: Final = 1024  # some proxies refuse larger headers
_MAX_VALUE_CHARS: Final = 256
COST: Final = "x-dragoman-cost"  # in US dollars
_COST_HEADERS: Final = (COST, "x-litellm-response-cost")
# Printable ASCII without the percent sign, which marks what was not.
_PLAIN: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


def new_request_id() -> str:
    """Return an id that no other request has."""
    # Bytes beyond the last multiple of 62 are dropped: no digit is likelier than another.  More than 16 of 40
    # are dropped in one of 10**15 ids, which is then shorter.
    return "req_" + os.urandom(40).translate(_DIGITS, _SURPLUS)[:_LENGTH].decode()


def is_request_id(text: str) -> bool:
    """Return whether a text may be an id that was made here."""
    return _OWN.fullmatch(text) is not None


def answer_headers(  # noqa: PLR0913 -- one for each header
    request_id: str,
    *,
    route: str = "",
    upstream: str = "",
    upstream_model: str = "",
    upstream_id: str = "",
    warnings: Iterable[str] = (),
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the gateway's headers of a response; unknown values are left out.

    `warnings` are codes of losses, `extra` other headers of the response.
    """
    # Test: test_an_answer_carries_its_id_under_both_names.
    headers = {
        **_named(route, upstream, upstream_model),
        "request-id": request_id,
        "x-request-id": request_id,
    }
    if upstream_id:
        headers["x-upstream-request-id"] = header_value(upstream_id)
    if codes := warnings_value(warnings):
        headers["x-dragoman-warnings"] = codes
    return {**headers, **extra} if extra else headers


@lru_cache(maxsize=1024)  # the same names come with every request
def _named(route: str, upstream: str, upstream_model: str) -> dict[str, str]:
    """Return the headers that name the gateway and what answered."""
    known = {
        "x-dragoman-route": route,
        "x-dragoman-upstream": upstream,
        "x-upstream-model": upstream_model,
    }
    found = {name: header_value(value) for name, value in known.items() if value}
    return {"server": "dragoman", **found}


def decimal(cost: float) -> str:
    """Return a cost without an exponent, which no reader of a header or a log expects."""
    return format(Decimal(repr(cost)), "f")


def reported_cost(headers: Mapping[str, str]) -> float | None:
    """Return what another gateway reports in the head of a complete response; None: nothing."""
    for name in _COST_HEADERS:
        if name not in headers:
            continue
        try:
            cost = float(headers[name])
        except ValueError:
            continue
        if 0 <= cost < float("inf"):
            return cost
    return None


def warnings_value(codes: Iterable[str]) -> str:
    """Return each code once, in order, as many as fit; three dots replace the rest."""
    value = ""
    for code in dict.fromkeys(codes):
        longer = f"{value},{code}" if value else code
        if len(longer) > _MAX_WARNINGS_CHARS - len(",..."):
            return f"{value},..." if value else "..."
        value = longer
    return value


def header_value(text: str) -> str:
    """Return a text as a header can carry it: other characters become `%XX`, and its length is bounded."""
    if text.isascii() and text.isprintable() and "%" not in text:
        return text[:_MAX_VALUE_CHARS].strip()
    return quote(text, safe=_PLAIN, errors="replace")[:_MAX_VALUE_CHARS].strip()


# --- rate limits ------------------------------------------------------------------------------------

# All vendors send how many requests and tokens are allowed and left, under different names.  The time of the reset
# is a date in one dialect and a duration in others, so it is forwarded within one dialect only.
_SHARED_LIMITS: Final = tuple(
    (which, what) for which in ("limit", "remaining") for what in ("requests", "tokens")
)
_MAX_LIMIT_CHARS: Final = 64  # of a value: a number, a date or a duration
_MAX_LIMITS: Final = 32


@cache
def _limit_names(ours: str, theirs: str) -> tuple[tuple[str, str], ...]:
    """Return the client's and the upstream's name of each limit that both dialects have."""
    return tuple(
        (ours.format(which=which, what=what), theirs.format(which=which, what=what))
        for which, what in _SHARED_LIMITS
    )


def rate_limits(
    headers: Mapping[str, str], *, upstream: Dialect, client: Dialect
) -> dict[str, str]:
    """Return an upstream's rate-limit headers as its client reads them; `headers` have lower-case names."""
    ours, theirs = client.rate_limits, upstream.rate_limits
    if ours == theirs:
        prefix = theirs.partition("{")[0]
        found = {name: value for name, value in headers.items() if name.startswith(prefix)}
    else:
        names = _limit_names(ours, theirs)
        found = {own: headers[name] for own, name in names if name in headers}
    if not found:
        return found
    short = [(name, value) for name, value in found.items() if len(value) <= _MAX_LIMIT_CHARS]
    return dict(short[:_MAX_LIMITS])
