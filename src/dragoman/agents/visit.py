"""Questions to a gateway that runs already: does it live, and which models has it."""

import urllib.error
import urllib.request
from http.client import HTTPException
from ipaddress import ip_address
from typing import ClassVar, Final
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

from dragoman.agents.models import Listed
from dragoman.errors import ConfigError, DragomanError

_SECONDS: Final = 10.0  # the gateway may have to ask its upstreams
_MAX_BYTES: Final = 8 * 1024 * 1024


class UnreachableError(DragomanError):
    """No gateway answers where one should be."""

    exit_code: ClassVar[int] = 3


class _Page(Struct, frozen=True):
    data: list[Listed]


_PAGE: Final = msgspec.json.Decoder(_Page)


def address(text: str) -> str:
    """Return a gateway's address as agents need it: without `/v1` and without a last slash.

    Raises:
        ConfigError: it is no address.
    """
    try:
        parts = urlsplit(text)
        good = parts.scheme in ("http", "https") and parts.hostname and (parts.port or 1)
    except ValueError:
        good = False
    if not good or parts.query or parts.fragment:
        raise ConfigError(f"--gateway: `{text}` is no address such as http://127.0.0.1:8484")
    return text.rstrip("/").removesuffix("/v1")


def is_loopback(url: str) -> bool:
    """Return whether an address is on this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def check_health(url: str) -> None:
    """See that a gateway lives.

    Raises:
        UnreachableError: it does not, or something else is there.
    """
    try:
        _get(f"{url}/health", {})
    except urllib.error.HTTPError as error:
        said = f"{url}/health answers {error.code}: there is no gateway that serves"
        raise UnreachableError(said) from error
    except (OSError, HTTPException) as error:
        reason = getattr(error, "reason", error)
        said = f"no gateway answers at {url}: {reason}; start one with `dragoman serve`"
        raise UnreachableError(said) from error


def list_models(url: str, key: str) -> list[Listed]:
    """Return the models of a gateway; none if it does not tell.

    Raises:
        ConfigError: it wants another key.
    """
    try:
        return _PAGE.decode(_get(f"{url}/v1/models", {"authorization": f"Bearer {key}"})).data
    except urllib.error.HTTPError as error:
        if error.code in (401, 403):
            said = f"the gateway at {url} refuses the key: name the variable that holds one with --key-env"
            raise ConfigError(said) from error
        return []
    except (OSError, HTTPException, msgspec.DecodeError):
        return []


def _get(url: str, headers: dict[str, str]) -> bytes:
    proxies = urllib.request.ProxyHandler({} if is_loopback(url) else None)
    opener = urllib.request.build_opener(proxies)
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 -- `address` allows http(s)
    with opener.open(request, timeout=_SECONDS) as response:
        data: bytes = response.read(_MAX_BYTES)
    return data
