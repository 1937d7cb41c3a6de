"""The retry and fallback policy: when the same upstream is asked again, and when the next one is.

| Failure, before the first content | Same upstream again | Next upstream | Counts for its cool-down | Client may retry |
|---|---|---|---|---|
| rate limit, overloaded, 5xx, broken or missing response | yes, `retries` times | yes | yes | yes |
| timeout | no | yes | yes | yes |
| nothing listens at the address, or at the proxy's; the proxy cannot connect | yes, `retries` times | yes | yes | no |
| TLS failure, wrong address, an HTML page instead of a response, refused by the proxy (407, 403) | no | yes | yes | no |
| authentication, permission, billing, not found | no | yes | no | no |
| context too long, request too large | no | yes | no | no |
| empty response | once | yes | no | yes |
| a call whose arguments the client's dialect cannot show | yes, `retries` times | yes | no | yes |
| any other refusal of the request | no | no | no | no |

A request that continues a paused answer is asked again in the same way until it brings content, and never of the next
upstream.

The upstream's `x-should-retry` overrides the second and the last column; the client gets `x-should-retry: false` where
the last says no.  The delay is the upstream's `retry-after`, or doubles
from half a second; a `retry-after` above `max_retry_after` ends the attempts.  After the first content nothing is
retried.  Cool-down itself is in `health.py`.
"""

import random
from typing import Final

from msgspec import structs

from dragoman.dialects.dialect import Dialect
from dragoman.gateway.config.settings import Upstream
from dragoman.transport import NO_DESCRIPTORS, Reply, TransportError
from dragoman.turn.events import INVALID_ARGUMENTS, Fault, FaultKind

# Another attempt at the same upstream may succeed.
_PASSING: Final = frozenset(
    {FaultKind.RATE_LIMIT, FaultKind.OVERLOADED, FaultKind.SERVER, FaultKind.UPSTREAM_BAD}
)
# Failures that the same request meets every time.
_LASTING: Final = frozenset(
    {
        FaultKind.BAD_REQUEST,
        FaultKind.CONTEXT_LENGTH,
        FaultKind.CONTENT_POLICY,
        FaultKind.AUTH,
        FaultKind.BILLING,
        FaultKind.PERMISSION,
        FaultKind.NOT_FOUND,
        FaultKind.TOO_LARGE,
        FaultKind.UPSTREAM_UNUSABLE,
    }
)
# Another upstream may succeed.
_LOCAL: Final = _PASSING | {
    FaultKind.AUTH,
    FaultKind.PERMISSION,
    FaultKind.BILLING,
    FaultKind.NOT_FOUND,
    FaultKind.CONTEXT_LENGTH,
    FaultKind.TOO_LARGE,
    FaultKind.TIMEOUT,
    FaultKind.UPSTREAM_UNUSABLE,
}
# Failures of the upstream itself, not of the request.
_UNWELL: Final = _PASSING | {FaultKind.TIMEOUT, FaultKind.UPSTREAM_UNUSABLE}
# Codes that show nothing of the sort: the gateway's own shortage, and what the model wrote.
_WELL: Final = frozenset({NO_DESCRIPTORS, INVALID_ARGUMENTS})
# Codes: the server, or the proxy, may be about to start.
_UNREACHABLE: Final = frozenset(
    {"upstream_unreachable", "proxy_unreachable", "proxy_cannot_connect"}
)
_FIRST_DELAY: Final = 0.5  # seconds, doubled with each attempt
_LONGEST_DELAY: Final = 8.0
_TRANSPORT_KINDS: Final = {
    "connect_timeout": FaultKind.TIMEOUT,
    "timeout": FaultKind.TIMEOUT,
    "upstream_address": FaultKind.UPSTREAM_UNUSABLE,
    "upstream_tls": FaultKind.UPSTREAM_UNUSABLE,
    "proxy_address": FaultKind.UPSTREAM_UNUSABLE,
    "proxy_auth": FaultKind.UPSTREAM_UNUSABLE,
    "proxy_refused": FaultKind.UPSTREAM_UNUSABLE,
    "proxy_tls": FaultKind.UPSTREAM_UNUSABLE,
    **dict.fromkeys(_UNREACHABLE, FaultKind.UPSTREAM_UNUSABLE),
}
_SEE_PROXY: Final = "; see `proxy` of the upstream, or --proxy"
_TRANSPORT_HINTS: Final = {
    "upstream_tls": "; see `tls` of the upstream, or --tls-ca",
    "proxy_address": _SEE_PROXY,
    "proxy_auth": _SEE_PROXY,
    "proxy_tls": _SEE_PROXY,
    "proxy_unreachable": _SEE_PROXY,
}

# Test: test_g9_empty_response_is_asked_for_again_once.
# A response that ended normally and has no content.
EMPTY_RESPONSE: Final = Fault(
    FaultKind.UPSTREAM_BAD, "upstream sent a response without content", code="upstream_empty"
)


class Retries:
    """The attempts at one upstream for one request."""

    def __init__(self, upstream: Upstream, *, has_stop: bool) -> None:
        """`has_stop`: the request has stop sequences, which may have cut all content away."""
        self._upstream = upstream
        self._made = 0
        self._repeats_empty = upstream.retries > 0 and not has_stop

    def may_repeat_empty(self, *, should_retry: bool | None) -> bool:
        """Return whether an empty response is asked for again: once, if the upstream does not object."""
        return self._repeats_empty and should_retry is not False

    def note_empty(self) -> None:
        self._repeats_empty = False

    def next_delay(self, fault: Fault, *, should_retry: bool | None) -> float | None:
        """Return the seconds to wait before the next attempt; None: there is none.

        `should_retry` is the upstream's own `x-should-retry`.
        """
        delay = retry_delay(self._upstream, fault, self._made, should_retry=should_retry)
        if delay is not None:
            self._made += 1
            self._repeats_empty = self._repeats_empty and self._made < self._upstream.retries
        return delay


def retry_delay(
    upstream: Upstream, fault: Fault, made: int, *, should_retry: bool | None
) -> float | None:
    """Return the seconds to wait before the next attempt, after `made` repeated ones; None: there is none."""
    # Test: test_g9_upstream_may_say_whether_another_attempt_helps.
    passing = should_retry
    if passing is None:
        passing = fault.kind in _PASSING or fault.code in _UNREACHABLE
    if made >= upstream.retries or not passing:
        return None
    spread: float = random.uniform(0.5, 1.0)  # noqa: S311 -- spreads clients
    if fault.retry_after is None:
        return min(_LONGEST_DELAY, _FIRST_DELAY * 2.0**made) * spread
    # Test: test_g9_longer_wait_is_the_clients_to_decide.
    return None if fault.retry_after > upstream.max_retry_after else max(fault.retry_after, 0.0)


def tries_next_upstream(fault: Fault) -> bool:
    """Return whether another upstream may succeed where one failed."""
    return fault.kind in _LOCAL


def may_client_retry(fault: Fault) -> bool:
    """Return whether a client that sends the same request again may succeed."""
    return fault.kind not in _LASTING


def counts_for_cooldown(fault: Fault) -> bool:
    """Return whether a failure shows that the upstream is unwell."""
    return fault.kind in _UNWELL and fault.code not in _WELL


def fault_of_transport(failed: TransportError) -> Fault:
    """Return a broken or missing response as a fault of the upstream, or of its settings."""
    if failed.code == NO_DESCRIPTORS:  # the gateway's own shortage
        return Fault(
            FaultKind.OVERLOADED, failed.reason, status=503, code=failed.code, retry_after=1.0
        )
    kind = _TRANSPORT_KINDS.get(failed.code, FaultKind.UPSTREAM_BAD)
    return Fault(kind, failed.reason + _TRANSPORT_HINTS.get(failed.code, ""), code=failed.code)


def fault_of_refusal(reply: Reply, body: bytes, spoken: Dialect) -> Fault:
    """Return an error response of an upstream as a fault; `spoken` is the upstream's dialect."""
    # Test: test_redirect_is_not_followed_and_names_what_to_set.
    if 300 <= reply.status < 400:
        where = reply.headers.get("location", "elsewhere")
        message = f"upstream redirects to {where}; set `base_url` to the address of its API"
        return Fault(
            FaultKind.UPSTREAM_UNUSABLE, message, status=reply.status, code="upstream_address"
        )
    fault = spoken.decode_fault(reply.status, body)
    wait = reply.retry_after
    return fault if wait is None else structs.replace(fault, retry_after=wait)
