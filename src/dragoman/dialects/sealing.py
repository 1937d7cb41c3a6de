"""Puts reasoning state of other vendors into envelopes and takes it out, the same for every dialect."""

from collections.abc import Sequence

from dragoman.context import Exchange
from dragoman.envelopes import Envelope, Sealer, is_envelope, text_digest
from dragoman.turn.events import Opaque, OpaqueKind
from dragoman.turn.losses import Loss
from dragoman.turn.request import OpaqueState


def seal(
    exchange: Exchange,
    opaque: Sequence[Opaque],
    text: str,
    *,
    keep_text: bool = False,
    call_id: str = "",
) -> str | None:
    """Return an envelope for a block's state, or None if there is none, no key, or no room.

    `keep_text` puts the reasoning text inside, for clients that do not send it back themselves.
    """
    if not opaque or exchange.sealer is None:
        return None
    state = next((one for one in opaque if one.kind is not OpaqueKind.PLAIN), opaque[0])
    return exchange.sealer.seal(
        Envelope(
            origin=state.origin,
            kind=state.kind,
            model=exchange.model,
            data=state.data,
            text=text if keep_text else None,
            digest=text_digest(text),
            item_id=state.item_id,
            call_id=call_id,
        )
    )


class Opened:
    """The reasoning state that a field of the history holds, from an envelope or from the vendor itself."""

    def __init__(self, state: OpaqueState | None, text: str, call_id: str = "") -> None:
        self.state = state  # None: nothing usable
        self.text = text  # the reasoning text to go with it
        self.call_id = call_id


def unseal(  # noqa: PLR0913 -- the field, its surroundings, and where to complain
    data: str,
    text: str,
    *,
    sealer: Sealer | None,
    native_kind: OpaqueKind,
    native_origin: str,
    losses: list[Loss],
    path: str,
) -> Opened:
    """Read a field of the history: our envelope, the client vendor's own state, or nothing.

    An envelope that does not open, or whose text came back changed, gives no state and a `Loss`.
    """
    if not is_envelope(data):
        state = OpaqueState(native_kind, data, native_origin) if data else None
        return Opened(state, text)
    envelope = sealer.open(data) if sealer is not None else None
    if envelope is None:
        losses.append(Loss("opaque_invalid", path, "the envelope does not open"))
        return Opened(None, text)
    if envelope.text is not None:
        text = envelope.text
    elif envelope.digest != text_digest(text):
        losses.append(Loss("opaque_invalid", path, "the reasoning text was changed"))
        return Opened(None, text)
    state = OpaqueState(envelope.kind, envelope.data, envelope.origin, envelope.item_id)
    return Opened(state, text, envelope.call_id)
