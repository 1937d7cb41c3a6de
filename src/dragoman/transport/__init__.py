"""HTTP as the shells need it: `open` a request, `read` its answer.  Bytes and metadata, nothing else.

No other package speaks HTTP to servers.  No retries, no redirects, no proxies, no cookies, nothing
from the environment; only a caller that leaves trust to the system (`tls=True`) gets what `SSL_CERT_FILE` says.
"""

from dragoman.transport.connector import USER_AGENT, Connector
from dragoman.transport.failures import NO_DESCRIPTORS, Stage, TransportError
from dragoman.transport.reply import Reply
from dragoman.transport.tls import TLS

__all__ = ["NO_DESCRIPTORS", "TLS", "USER_AGENT", "Connector", "Reply", "Stage", "TransportError"]
