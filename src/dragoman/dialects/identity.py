"""The id, model and time that a written answer has."""

from msgspec import Struct

from dragoman.context import Exchange
from dragoman.ids import derived_id
from dragoman.turn.events import Start


class Identity(Struct, frozen=True):
    """How an answer is named."""

    id: str
    model: str
    created: int  # Unix seconds


def identity_of(start: Start, exchange: Exchange, *, prefix: str, what: str) -> Identity:
    """Return the upstream's identity if the exchange keeps it, else the client's model and an id of ours."""
    keep = exchange.keep_identity
    return Identity(
        (start.id if keep else "") or derived_id(prefix, exchange.seed or start.id, what),
        (start.model if keep else "") or exchange.model or start.model,
        (start.created if keep else 0) or exchange.created or start.created,
    )
