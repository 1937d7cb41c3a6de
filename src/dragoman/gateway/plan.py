"""Everything derived from the settings: made at the start, and again on a reload.

A request keeps the plan it began with.
"""

import ssl
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, urlsplit

import msgspec
from msgspec import Raw
from yarl import URL

from dragoman.dialects import dialect, dialect_names
from dragoman.dialects.dialect import KEY_HEADERS
from dragoman.envelopes import Sealer
from dragoman.errors import ConfigError, MalformedError
from dragoman.gateway.config.settings import Route, Secret, Settings, Tls, Upstream
from dragoman.gateway.keys import ANONYMOUS, Keyring
from dragoman.gateway.prices import PriceTable
from dragoman.gateway.routing import Hop, Router
from dragoman.gateway.traces import TRACE_PARENT, trace_context
from dragoman.redaction import Secrets
from dragoman.toolcalls.grammar import warm
from dragoman.transport import TLS, Proxy

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])


class Plan:
    """What the gateway does with a request, as the operator wants it.

    Raises:
        ConfigError: a route names nothing, a file of certificates cannot be read.
    """

    def __init__(self, settings: Settings, *, seal_key: bytes, keyring: Keyring) -> None:
        self.settings = settings
        self.keyring = keyring
        self.router: Router = Router(settings)
        self.prices: PriceTable = PriceTable(settings.prices)
        self.secrets: Secrets = secrets_of(settings)
        sealer = Sealer(seal_key, limits=settings.server.limits)
        # What a gateway without keys has sealed must stay readable: its only client is bound to nothing.
        self._sealers = {
            owner: sealer if owner == ANONYMOUS else sealer.bound_to(owner)
            for owner in keyring.owners
        }
        self._tls: dict[str, ssl.SSLContext | bool] = {
            name: tls_context(upstream.tls, name) for name, upstream in settings.upstreams.items()
        }
        self._urls = {
            name: URL(upstream.base_url.rstrip("/"))
            for name, upstream in settings.upstreams.items()
        }
        self._proxies = {
            name: proxy_of(upstream, name) for name, upstream in settings.upstreams.items()
        }
        paths = {
            name: dialect(upstream.dialect).path for name, upstream in settings.upstreams.items()
        }
        # Those that are asked for most: parsing an address takes a while.
        self._paths = {
            (name, path): URL(f"{self._urls[name]}{path}") for name, path in paths.items()
        }

    def warm(self) -> None:
        """Compile what the first request would otherwise wait for."""
        families = {hop.family for hop in self.router.hops()}
        warm({family for family in families if family is not None})
        for name in dialect_names():
            dialect(name)

    def sealer(self, owner: str) -> Sealer:
        """Return what seals and opens the envelopes of one owner."""
        return self._sealers[owner]

    def shares_credential(self, route: Route) -> bool:
        """Return whether the upstreams of a route see one credential for several clients."""
        return len(self.settings.server.keys) > 1 and route.auth != "passthrough"

    def tls(self, upstream: str) -> ssl.SSLContext | bool:
        return self._tls[upstream]

    def proxy(self, upstream: str) -> Proxy | None:
        """Return the proxy between here and an upstream; None: there is none."""
        return self._proxies[upstream]

    def url(self, upstream: str, path: str = "") -> URL:
        """Return the address of a path behind an upstream's base URL; without one, the base URL itself."""
        own = self._paths.get((upstream, path))
        return URL(f"{self._urls[upstream]}{path}") if own is None else own


def extra_fields(hop: Hop, route: Route, body: bytes) -> bytes:
    """Put the operator's fields into a request's body: the upstream's, then the route's over them."""
    extra = {**hop.upstream.body, **route.body}
    if not extra:
        return body
    fields = _FIELDS.decode(body)
    for name, value in extra.items():
        fields[name] = Raw(msgspec.json.encode(value))
    return msgspec.json.encode(fields)


def upstream_headers(
    hop: Hop, route: Route, client: Mapping[str, str], *, same_dialect: bool, body: bytes = b""
) -> dict[str, str]:
    """Return what a request carries upstream; of the client's headers only what is meant for it.

    `body` is what was written for the upstream, if that was translated.

    Raises:
        MalformedError: such a header of the client's is not UTF-8.
    """
    upstream = hop.upstream
    headers = {"content-type": "application/json"}
    spoken = dialect(upstream.dialect)
    headers |= dict(spoken.request_headers)
    if TRACE_PARENT in client:
        headers |= trace_context(client)
    if same_dialect:
        betas = spoken.beta_headers if hop.profile.betas else ()
        for name in (*spoken.client_headers, *betas):
            if name in client:
                headers[name] = _text(client, name)
    if route.auth == "passthrough":
        headers |= _passed_on(upstream, client, same_dialect=same_dialect)
    elif upstream.key is not None:
        headers |= spoken.auth_header(upstream.key.value, upstream.auth)
    for extra in (upstream.headers, route.headers):
        for name, value in extra.items():
            headers[name.lower()] = value.value if isinstance(value, Secret) else value
    return spoken.with_needed_headers(headers, body)


def _passed_on(
    upstream: Upstream, client: Mapping[str, str], *, same_dialect: bool
) -> dict[str, str]:
    """Return the client's own credential, for a route with `auth = "passthrough"`."""
    names = ("authorization", *KEY_HEADERS)
    shown = {name: _text(client, name) for name in names if name in client}
    if upstream.auth == "auto" and same_dialect:
        return shown
    plain = next((shown[name] for name in KEY_HEADERS if name in shown), "")
    key = plain or shown.get("authorization", "").removeprefix("Bearer ").strip()
    return dialect(upstream.dialect).auth_header(key, upstream.auth) if key else {}


def _text(client: Mapping[str, str], name: str) -> str:
    """Return a client's header that is forwarded; its bytes came as UTF-8, others as half characters."""
    value = client[name]
    try:
        value.encode()
    except UnicodeEncodeError:
        raise MalformedError(f"the header `{name}` is not UTF-8", path=name) from None
    return value


def secrets_of(settings: Settings) -> Secrets:
    """Return every secret of the settings, so that none is ever sent or logged."""
    found = [key.key for key in settings.server.keys]
    if settings.server.seal_key is not None:
        found.append(settings.server.seal_key)
    if settings.server.state is not None:
        found.append(settings.server.state)
    headers = [settings.traces.headers, *(up.headers for up in settings.upstreams.values())]
    headers += [route.headers for route in settings.routes]
    found += [value for one in headers for value in one.values() if isinstance(value, Secret)]
    found += [up.key for up in settings.upstreams.values() if up.key is not None]
    proxies = [
        proxy_of(up, name)
        for name, up in settings.upstreams.items()
        if up.proxy is not None and up.proxy.found
    ]
    return (
        *(secret.value for secret in found if secret.value),
        *(text for proxy in proxies if proxy is not None for text in proxy.secrets),
        *_passwords(settings.server.state),
    )


def _passwords(address: Secret | None) -> tuple[str, ...]:
    """Return the password in an address, as it is written there and as it is sent."""
    written = "" if address is None else urlsplit(address.value).password or ""
    return tuple({written, unquote(written)} - {""})


def proxy_of(upstream: Upstream, name: str) -> Proxy | None:
    """Return the proxy between here and an upstream; None: there is none.

    Raises:
        ConfigError: its address is missing or cannot be used.
    """
    if upstream.proxy is None:
        return None
    try:
        return upstream.proxy.find(URL(upstream.base_url))
    except ConfigError as error:
        raise ConfigError(f"`upstreams.{name}.proxy`: {error}") from error


def tls_context(tls: Tls, upstream: str) -> ssl.SSLContext | bool:
    """Return how an upstream's certificate is verified and ours is shown; True: the usual way.

    Raises:
        ConfigError: a file cannot be read or is not a certificate.
    """
    if tls == Tls():
        return True
    try:
        files = TLS(verify=tls.verify, ca=tls.ca, cert=tls.cert, key=tls.key)
        return files.context(environment=True)
    except ConfigError as error:
        raise ConfigError(f"`upstreams.{upstream}.tls`: {error}") from error
