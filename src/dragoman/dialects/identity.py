"""What a written answer says of itself, and of its calls, to the client."""

from msgspec import Struct

from dragoman.context import Exchange
from dragoman.ids import ClientIds, derived_id
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


def client_ids(exchange: Exchange) -> ClientIds:
    """Return ids for the answer's calls, none of which the request used."""
    return ClientIds(exchange.request.call_ids if exchange.request is not None else ())
