"""Access to the inspector: without keys, everyone on loopback; otherwise every client with a key.

A key with the right `inspect` sees all exchanges, any other key its own.  A page sends the key once and gets a
session cookie for it: a signed owner and a time, which every worker of a gateway can check.
"""

import base64
import hmac
import time
from collections.abc import Callable, Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final, Protocol

import msgspec
from msgspec import Struct

from dragoman.inspector.summary import Summary

COOKIE: Final = "dragoman_inspector"
_SESSION_SECONDS: Final = 12 * 3600
_DEFAULT_PORTS: Final = {"http": "80", "https": "443"}


class Viewer(Struct, frozen=True):
    """A viewer, and what it may see."""

    all: bool  # also at exchanges of others
    owner: str = ""

    def may_see(self, exchange: Summary) -> bool:
        return self.all or (bool(self.owner) and exchange.owner == self.owner)


class Access(Protocol):
    """What a server knows about its keys."""

    def viewer(self, headers: Mapping[str, str], remote: str) -> Viewer | None:
        """Return who a request is from, by its headers and the address of its client; None: unknown."""
        ...

    def viewer_of(self, owner: str) -> Viewer | None:
        """Return the viewer that a session was made for; None: the key was withdrawn."""
        ...


class EveryoneAccess:
    """No keys: everybody who reaches the server sees everything."""

    def viewer(self, headers: Mapping[str, str], remote: str) -> Viewer | None:
        return Viewer(all=True)

    def viewer_of(self, owner: str) -> Viewer | None:
        return Viewer(all=True)


class _Session(Struct, frozen=True, array_like=True):
    owner: str
    until: int


class Sessions:
    """Makes and checks session cookies."""

    def __init__(self, secret: bytes, *, clock: Callable[[], float] = time.time) -> None:
        self._key = hmac.digest(secret, b"dragoman inspector session", "sha256")
        self._clock = clock

    def cookie(self, owner: str) -> str:
        """Return the `set-cookie` header of a new session."""
        data = msgspec.json.encode(_Session(owner, int(self._clock()) + _SESSION_SECONDS))
        token = f"{_base64(data)}.{_base64(self._sign(data))}"
        return (
            f"{COOKIE}={token}; Path=/inspector; Max-Age={_SESSION_SECONDS}; HttpOnly;"
            " SameSite=Strict"
        )

    def owner(self, header: str) -> str | None:
        """Return whose session a `cookie` header carries; None: no valid one."""
        try:
            morsel = SimpleCookie(header).get(COOKIE)
        except CookieError:
            return None
        if morsel is None:
            return None
        payload, _, signature = morsel.value.partition(".")
        try:
            data, signed = (_unbase64(one) for one in (payload, signature))
            if not hmac.compare_digest(signed, self._sign(data)):
                return None
            session = msgspec.json.decode(data, type=_Session)
        except (ValueError, msgspec.DecodeError):
            return None
        return session.owner if session.until > self._clock() else None

    def _sign(self, data: bytes) -> bytes:
        return hmac.digest(self._key, data, "sha256")


def is_own_page(origin: str, host: str) -> bool:
    """Return whether a request comes from a page of this server, by `origin` and `host`."""
    scheme, _, place = origin.partition("://")
    port = _DEFAULT_PORTS.get(scheme.lower())
    if port is None or not host:
        return False
    return _with_port(place, port) == _with_port(host, port)


def _with_port(place: str, port: str) -> str:
    place = place.strip().lower()
    bare = place.rpartition("]")[2] if "]" in place else place
    return place if ":" in bare else f"{place}:{port}"


def _base64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _unbase64(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
