"""Refuses requests of web pages: `Host` and `Origin` must be the gateway's, or allowed in the settings.

A page of any site can send requests to this machine, and a name that its owner controls can be made to
mean our address.  The first shows in `Origin`, the second in `Host`.  Command-line clients send no `Origin`.
"""

import functools
import ipaddress
from collections.abc import Sequence
from typing import Final

from dragoman.gateway.config.settings import Server
from dragoman.globs import Glob
from dragoman.turn.events import Fault, FaultKind

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})  # methods that change nothing
# What `Sec-Fetch-Site` says of a request that our own page, or the user, has made.
_OWN_SITE: Final = frozenset({"same-origin", "none"})
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}
_SHOWN_CHARS: Final = 100

_glob = functools.lru_cache(maxsize=64)(Glob)  # only of the settings' own texts


def refuse_page(
    *, host: str, origin: str, fetch_site: str, method: str, server: Server
) -> Fault | None:
    """Return why a request must not be answered; headers that are absent are empty."""
    if not _is_host_ours(host, server):
        message = (
            f"this gateway is not known as `{host[:_SHOWN_CHARS]}`;"
            " add the name to `allowed_hosts` under [server] if it is"
        )
        return Fault(FaultKind.PERMISSION, message, status=403, code="host_refused")
    if method.upper() in _READING or is_origin_allowed(origin, host, server):
        return None
    if origin:
        message = (
            f"requests of the page `{origin[:_SHOWN_CHARS]}` are refused;"
            " add it to `allowed_origins` under [server] if you trust it"
        )
        return Fault(FaultKind.PERMISSION, message, status=403, code="origin_refused")
    if fetch_site and fetch_site.lower() not in _OWN_SITE:
        message = "requests of pages of other sites are refused"
        return Fault(FaultKind.PERMISSION, message, status=403, code="origin_refused")
    return None


def is_origin_allowed(origin: str, host: str, server: Server) -> bool:
    """Return whether a page is our own, or one that the settings allow."""
    if not origin:
        return False
    if any(_glob(one.rstrip("/")).matches(origin) for one in server.allowed_origins):
        return True
    scheme, _, place = origin.partition("://")
    port = _DEFAULT_PORTS.get(scheme.lower())
    return port is not None and bool(host) and _split(place, port) == _split(host, port)


def cors_headers(origin: str, server: Server) -> dict[str, str]:
    """Return what lets an allowed page of another site read the answer; nothing for all others."""
    if not origin or not is_origin_allowed(origin, "", server):
        return {}
    return {
        "access-control-allow-origin": origin,
        "access-control-allow-methods": "GET, POST, DELETE, OPTIONS",
        "access-control-allow-headers": "*, authorization",  # the star does not mean this one
        "access-control-expose-headers": "*",
        "vary": "Origin",
    }


def _is_host_ours(host: str, server: Server) -> bool:
    if not host:
        return True  # no browser leaves it out
    name, port = _split(host, "")
    if is_loopback(name) or name == server.host.lower().strip("[]"):
        return True
    if _is_allowed(name, port, server.allowed_hosts):
        return True
    if is_loopback(server.host):
        return False
    # Reachable from elsewhere.  No page's owner controls what an address means, or a name without a dot;
    # and where keys are asked for, a page has none.
    named = not _is_address(name) and "." in name
    return not named or (bool(server.keys) and not server.allowed_hosts)


@functools.lru_cache(maxsize=64)  # every request names a host, mostly the same
def is_loopback(name: str) -> bool:
    """Return whether a name or an address means this machine and nothing else."""
    name = name.lower().strip("[]")
    if name.rstrip(".") == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _is_allowed(name: str, port: str, allowed: Sequence[str]) -> bool:
    for one in allowed:
        allowed_name, allowed_port = _split(one, "")
        if allowed_port in ("", port) and _glob(allowed_name).matches(name):
            return True
    return False


def _split(host: str, default_port: str) -> tuple[str, str]:
    """Return name and port of `name:port`, `address:port` or `[address]:port`."""
    host = host.strip().lower()
    if host.startswith("["):
        name, _, rest = host[1:].partition("]")
        return name, rest.removeprefix(":") or default_port
    name, colon, port = host.rpartition(":")
    if not colon or ":" in name:  # no port, or an address without brackets
        return host, default_port
    return name, port or default_port
