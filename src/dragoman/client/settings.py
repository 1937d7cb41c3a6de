"""A client's settings: address, credentials, limits, timeouts.

All of them are arguments; nothing is read from the environment, unless `proxy="env"` asks for it.
"""

import os
import re
import ssl
from collections.abc import Mapping
from typing import Any, Final, TypedDict

from msgspec import Struct
from yarl import URL

from dragoman.dialects import dialect as find_dialect
from dragoman.dialects.dialect import Dialect
from dragoman.errors import ConfigError
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.profiles import profile as find_profile
from dragoman.profiles.profile import Profile
from dragoman.redaction import hide
from dragoman.toolcalls.format import Format
from dragoman.toolcalls.format_names import choose_format
from dragoman.transport import TLS, Proxy, environment_rule, fixed_rule
from dragoman.transport.proxy import ENVIRONMENT
from dragoman.turn.request import DialectName

_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*")
# Headers that must match the bytes on the connection.
_FRAMING: Final = frozenset(
    {"connection", "content-length", "expect", "te", "trailer", "transfer-encoding", "upgrade"}
)
_ENDLESS: Final = float("inf")
_LEAST_SECRET: Final = 6  # characters of a header's value that is searched for


class Timeouts(Struct, frozen=True, kw_only=True, gc=False):
    """How long a server may take, in seconds.  0 means no limit.

    A server that trickles bytes never exceeds `idle`: set `total`, or `timeout=` of one request, if you need a
    hard limit.

    Attributes:
        connect: Name lookup, connection and TLS handshake.
        first_byte: From the request to the first byte of the answer.  Reasoning models take minutes.
        idle: Between two reads of an answer, while the program waits for bytes.
        total: The whole exchange.  A limit here also ends long streams that are fine.
    """

    connect: float = 10.0
    first_byte: float = 300.0
    idle: float = 120.0
    total: float = 0.0


class ClientOptions(TypedDict, total=False):
    """The keyword arguments of `Client`."""

    dialect: DialectName
    model: str
    api_key: str
    profile: Profile | str
    native_format: Format | str
    limits: Limits
    timeouts: Timeouts
    tls: TLS
    proxy: str
    headers: Mapping[str, str] | None
    strict: bool


class Settings:
    """A client's settings, checked, and what follows from them.  Immutable by convention.

    Raises:
        ConfigError: one of them is invalid.
    """

    def __init__(  # noqa: PLR0913 -- each setting has its name
        self,
        base_url: str,
        *,
        dialect: DialectName = "chat",
        model: str = "",
        api_key: str = "",
        profile: Profile | str = "",
        native_format: Format | str = "auto",
        limits: Limits = DEFAULT_LIMITS,
        timeouts: Timeouts = Timeouts(),  # noqa: B008 -- immutable
        tls: TLS = TLS(),  # noqa: B008 -- immutable
        proxy: str = "",
        headers: Mapping[str, str] | None = None,
        strict: bool = False,
    ) -> None:
        for name, value, kinds in (
            ("model", model, str),
            ("api_key", api_key, str),
            ("profile", profile, (str, Profile)),
            ("native_format", native_format, (str, Format)),
            ("limits", limits, Limits),
            ("timeouts", timeouts, Timeouts),
            ("tls", tls, TLS),
            ("proxy", proxy, str),
        ):
            _check_kind(name, value, kinds)
        _check_numbers("limits", limits, int)
        _check_numbers("timeouts", timeouts, (int, float))
        self.base_url: str = _address(base_url)
        self.dialect: Dialect = find_dialect(dialect)
        if self.base_url.endswith(self.dialect.path):
            raise ConfigError(f"`base_url` must end before `{self.dialect.path}`")
        self.url: URL = URL(f"{self.base_url}{self.dialect.path}")
        self.model = model
        self.profile: Profile = (
            profile if isinstance(profile, Profile) else find_profile(profile or "generic")
        )
        self.native_format = native_format
        choose_format(model, native_format)  # raises for an unknown format
        self.limits = limits
        self.timeouts = timeouts
        self.strict = strict
        self.proxy: Proxy | None = _proxy(proxy, self.url)
        uses_tls = self.url.scheme == "https" or (self.proxy is not None and self.proxy.secure)
        # Made now, so that an unreadable file is an error before anything is sent.
        self.tls: ssl.SSLContext | bool = tls.context() if uses_tls else True
        given = {name.lower(): value for name, value in (headers or {}).items()}
        self.header_names: tuple[str, ...] = tuple(given)
        self.headers: dict[str, str] = _headers(self.dialect, api_key, given)
        # A short header value is more often a word than a secret.
        long = (one for one in given.values() if len(one) >= _LEAST_SECRET)
        hidden = () if self.proxy is None else self.proxy.secrets
        self._secrets = (api_key, *long, *hidden)

    def redact(self, text: str) -> str:
        """Return a server's text with the client's secrets replaced."""
        return hide(text, self._secrets)


def _check_kind(name: str, value: object, kinds: type | tuple[type, ...]) -> None:
    if isinstance(value, kinds):
        return
    named = kinds if isinstance(kinds, tuple) else (kinds,)
    wanted = " or ".join(one.__name__ for one in named)
    raise ConfigError(f"`{name}` must be {wanted}, not {type(value).__name__}")


def _check_numbers(name: str, given: Struct, kinds: type | tuple[type, ...]) -> None:
    for field in given.__struct_fields__:
        value: Any = getattr(given, field)
        fits = isinstance(value, kinds) and not isinstance(value, bool)
        if not fits or not 0 <= value < _ENDLESS:
            raise ConfigError(f"`{name}.{field}` must be a number from 0, not {value!r}")


def _address(base_url: str) -> str:
    """Return `base_url` without a slash at its end."""
    try:
        url = URL(base_url)
        host, port = url.host, url.port
        (url.raw_host or "").encode("idna")  # as it is looked up: labels may be too long, or empty
    except (TypeError, ValueError) as error:
        raise ConfigError(f"`base_url` is not a URL: {error}") from None
    if url.scheme not in ("http", "https") or not host or not port:
        raise ConfigError("`base_url` must begin with http:// or https:// and name a host")
    if url.user is not None or url.password is not None:
        raise ConfigError("`base_url` must not hold credentials: use `api_key` or `headers`")
    if url.query_string or url.fragment:
        raise ConfigError("`base_url` must end before any `?` or `#`: a path is appended to it")
    return base_url.rstrip("/")


def _proxy(text: str, url: URL) -> Proxy | None:
    """Return the proxy of a URL; `env` means the one that the environment names."""
    if not text:
        return None
    rule = environment_rule(os.environ) if text == ENVIRONMENT else fixed_rule(text)
    return rule.find(url)


def _headers(dialect: Dialect, api_key: str, given: Mapping[str, str]) -> dict[str, str]:
    """Return what every request carries; those of the caller replace ours."""
    headers = {"content-type": "application/json", **dict(dialect.request_headers)}
    if api_key:
        headers |= dialect.auth_header(api_key)
    headers |= given
    for name, value in headers.items():
        _check_kind(f"headers[{name!r}]", value, str)
        if not _NAME.fullmatch(name):
            raise ConfigError(f"`{name}` is not a valid header name")
        if name in _FRAMING:
            raise ConfigError(
                f"the header `{name}` cannot be set: the client frames its requests itself"
            )
        if not _VALUE.fullmatch(value):
            raise ConfigError(f"the value of header `{name}` holds a control character")
        try:
            value.encode("latin-1")
        except UnicodeEncodeError:
            raise ConfigError(f"the value of header `{name}` is not plain text") from None
    return headers
