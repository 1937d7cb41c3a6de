"""HTTP/1.1 to servers: `open` sends a request, `read` returns its response.

No other package speaks HTTP to servers.  No retries, no redirects, no cookies.  A proxy is used where the
caller names one.  Nothing is read from the environment, except `SSL_CERT_FILE` for a caller that leaves trust to
the system (`tls=True`).
"""

from dragoman.transport.connector import USER_AGENT, Connector
from dragoman.transport.failures import NO_DESCRIPTORS, Stage, TransportError
from dragoman.transport.proxy import Proxy, ProxyRule, environment_rule, fixed_rule
from dragoman.transport.reply import Reply
from dragoman.transport.tls import TLS

__all__ = [
    "NO_DESCRIPTORS",
    "TLS",
    "USER_AGENT",
    "Connector",
    "Proxy",
    "ProxyRule",
    "Reply",
    "Stage",
    "TransportError",
    "environment_rule",
    "fixed_rule",
]
