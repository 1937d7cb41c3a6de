"""What a failure of the transport means to a client of the gateway."""

import ssl
from typing import Final

from dragoman.errors import ConfigError
from dragoman.gateway.config.settings import Tls
from dragoman.transport import NO_DESCRIPTORS, TLS, TransportError
from dragoman.turn.events import Fault, FaultKind

_KINDS: Final = {
    "connect_timeout": FaultKind.TIMEOUT,
    "timeout": FaultKind.TIMEOUT,
    "upstream_address": FaultKind.GATEWAY,
}
_HINTS: Final = {"upstream_tls": "; see `tls` of the upstream"}


def fault_of_transport(failed: TransportError) -> Fault:
    """Return a broken or missing answer as a fault of the upstream's, or of its settings."""
    if failed.code == NO_DESCRIPTORS:  # the gateway's own want, not the upstream's failure
        return Fault(
            FaultKind.OVERLOADED, failed.reason, status=503, code=failed.code, retry_after=1.0
        )
    kind = _KINDS.get(failed.code, FaultKind.UPSTREAM_BAD)
    return Fault(kind, failed.reason + _HINTS.get(failed.code, ""), code=failed.code)


def tls_context(tls: Tls, upstream: str) -> ssl.SSLContext | bool:
    """Return how an upstream's certificate is verified and ours is shown; True: the usual way.

    Raises:
        ConfigError: a file cannot be read or is no certificate.
    """
    if tls == Tls():
        return True
    try:
        return TLS(verify=tls.verify, ca=tls.ca, cert=tls.cert, key=tls.key).context()
    except ConfigError as error:
        raise ConfigError(f"`upstreams.{upstream}.tls`: {error}") from error
