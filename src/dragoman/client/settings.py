"""What a client is made of: where it asks, how it shows itself, what it bears."""

from collections.abc import Mapping

from msgspec import Struct

from dragoman.limits import Limits
from dragoman.profiles.profile import Profile
from dragoman.transport import TLS
from dragoman.turn.request import DialectName


class Timeouts(Struct, frozen=True, kw_only=True, gc=False):
    """How long a server may take, in seconds.  Zero: for ever."""

    connect: float = 10.0  # to find it, reach it, and agree on TLS
    first_byte: float = 300.0  # from the request to the first byte of the answer: models think
    idle: float = 120.0  # between two reads of an answer
    total: float = 0.0  # the whole exchange; a limit here kills good streams


class Settings(Struct, frozen=True, kw_only=True):
    """A client's settings, all of them."""

    base_url: str
    dialect: DialectName
    model: str
    key: str
    profile: Profile
    native_format: str
    limits: Limits
    timeouts: Timeouts
    tls: TLS
    headers: Mapping[str, str]
    strict: bool
