"""Outbound HTTP proxies: which URL goes through which one.

`ProxyRule` is what an operator wrote; `ProxyRule.find` returns the `Proxy` for a URL, or None for a direct
connection.  The connector alone speaks to proxies.  Nothing here shows credentials.
"""

import base64
import re
from collections.abc import Mapping
from ipaddress import ip_address, ip_network
from typing import Final
from urllib.parse import SplitResult, unquote, urlsplit

from msgspec import Struct
from yarl import URL

from dragoman.errors import ConfigError

DIRECT: Final = "none"  # a rule's source: no proxy
ENVIRONMENT: Final = "env"  # a rule's source: the variables below
_PORTS: Final = {"http": 80, "https": 443}
_SEPARATORS: Final = re.compile(r"[\s,]+")
_HOST_AND_PORT: Final = re.compile(r"\[?(?P<host>[^\[\]]*?)\]?(?::(?P<port>\d+))?")


class Proxy(Struct, frozen=True):
    """An HTTP proxy."""

    host: str
    port: int
    secure: bool = False  # TLS is spoken to the proxy itself
    authorization: str = ""  # the value of `Proxy-Authorization`
    secrets: tuple[str, ...] = ()  # every form of the password, for redaction

    def __repr__(self) -> str:
        return f"Proxy({self.where!r})"

    @property
    def where(self) -> str:
        return f"{self.host}:{self.port}"


class ProxyRule(Struct, frozen=True, kw_only=True):
    """A proxy for every URL, or the proxies that the environment names."""

    source: str  # as the operator wrote it; holds no credentials
    http: str = ""  # the proxy of `http://` URLs; these three may hold credentials
    https: str = ""
    bypass: str = ""  # the value of `NO_PROXY`
    found: bool = True  # False: `source` refers to a variable or file that is missing

    def __repr__(self) -> str:
        return f"ProxyRule({self.source!r})"

    def find(self, url: URL) -> Proxy | None:
        """Return the proxy for a URL; None: connect directly.

        Raises:
            ConfigError: the proxy's address cannot be used, or is missing.
        """
        text = self.address(url)
        return parse_proxy(text) if text else None

    def address(self, url: URL) -> str:
        """Return the address of the proxy for a URL, with its credentials; empty: connect directly.

        Raises:
            ConfigError: it is missing.
        """
        if not self.found:
            raise ConfigError(f"the proxy's address `{self.source}` is not set")
        text = self.https if url.scheme == "https" else self.http
        return "" if self.source == ENVIRONMENT and self._bypasses(url) else text

    def _bypasses(self, url: URL) -> bool:
        host, port = (url.raw_host or "").rstrip(".").lower(), url.port or 0
        # As in Go: the variables name the proxy of a network, which cannot reach this machine's loopback.
        return _is_loopback(host) or any(
            _names(entry.lower(), host, port) for entry in _SEPARATORS.split(self.bypass) if entry
        )


def fixed_rule(text: str, *, source: str = "") -> ProxyRule:
    """Return the rule that sends every URL through the proxy at `text`.

    Raises:
        ConfigError: `text` is not the address of an HTTP proxy.
    """
    proxy = parse_proxy(text)
    return ProxyRule(source=source or f"http://{proxy.where}", http=text, https=text)


def environment_rule(environ: Mapping[str, str]) -> ProxyRule:
    """Return the rule of `HTTP_PROXY`, `HTTPS_PROXY`, `ALL_PROXY` and `NO_PROXY`.

    As in curl and in Python's own library the lower case has precedence, and the scheme may be missing.
    """
    http, https, both = (
        text if not text or "://" in text else f"http://{text}"
        for text in (_variable(environ, f"{name}_proxy") for name in ("http", "https", "all"))
    )
    bypass = _variable(environ, "no_proxy")
    return ProxyRule(source=ENVIRONMENT, http=http or both, https=https or both, bypass=bypass)


def _variable(environ: Mapping[str, str], name: str) -> str:
    return (environ.get(name) or environ.get(name.upper()) or "").strip()


def parse_proxy(text: str) -> Proxy:
    """Return the proxy at `http://[USER:PASSWORD@]HOST[:PORT]`.

    Raises:
        ConfigError: it is not such an address.  The message does not repeat it: it may hold a password.
    """
    try:
        parts = urlsplit(text)
        host, port = parts.hostname, parts.port
    except ValueError:  # its message may repeat the password
        raise ConfigError("the proxy's address is not a URL; write `http://HOST:PORT`") from None
    if parts.scheme.startswith("socks"):
        raise ConfigError("SOCKS proxies are not supported; name an HTTP proxy: `http://HOST:PORT`")
    if parts.scheme not in _PORTS or not host or parts.path.strip("/") or parts.query:
        raise ConfigError("the proxy's address must have the form `http://HOST:PORT`")
    if any(not "!" <= character <= "~" for character in host):
        raise ConfigError("the proxy's host contains a character that a host cannot contain")
    return Proxy(
        host,
        port or _PORTS[parts.scheme],
        parts.scheme == "https",
        *_credentials(parts),
    )


def _credentials(parts: SplitResult) -> tuple[str, tuple[str, ...]]:
    """Return the header's value and the texts that must never be shown."""
    if parts.username is None and parts.password is None:
        return "", ()
    quoted = parts.password or ""
    user, password = unquote(parts.username or ""), unquote(quoted)
    token = base64.b64encode(f"{user}:{password}".encode()).decode()
    return f"Basic {token}", tuple(one for one in (password, quoted, token) if one)


# --- NO_PROXY ---


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _names(entry: str, host: str, port: int) -> bool:
    """Return whether an entry of `NO_PROXY` covers a host: `*`, a domain, an address or a range of them."""
    if entry == "*":
        return True
    if "/" in entry:
        return _in_network(entry, host)
    if entry.count(":") > 1 and not entry.startswith("["):
        return _same_address(entry, host)  # IPv6 without a port
    parts = _HOST_AND_PORT.fullmatch(entry)
    if parts is None or (parts["port"] and int(parts["port"]) != port):
        return False
    domain = parts["host"].removeprefix("*").strip(".")
    if not domain:
        return False
    return host == domain or host.endswith(f".{domain}") or _same_address(domain, host)


def _same_address(entry: str, host: str) -> bool:
    try:
        return ip_address(entry) == ip_address(host)
    except ValueError:
        return False


def _in_network(entry: str, host: str) -> bool:
    try:
        return ip_address(host) in ip_network(entry, strict=False)
    except ValueError:
        return False
