"""Signed envelopes: how one vendor's reasoning state travels through a client of another dialect.

A client returns what it was given, in a field meant for its own vendor's state.  The envelope says
whose state it is, so that it returns to its origin and nowhere else.  It is authenticated, not secret.
Where several clients share a gateway, each has a key derived from the gateway's, so that no client can use
what another one was given.

    dgm1.<base64url of zlib of JSON>.<base64url of HMAC-SHA256, first 12 bytes>
"""

import base64
import hashlib
import hmac
import zlib
from typing import Final

import msgspec
from msgspec import Struct

from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.turn.events import OpaqueKind

PREFIX: Final = "dgm1."
BASE64_PREFIX: Final = "ZGdtMS"  # what an envelope in base64 begins with
_MAC_BYTES: Final = 12
# Text packs well, but what unpacks to more than this many times the limit is not reasoning.
_MAX_SWELL: Final = 16


class Envelope(
    Struct,
    frozen=True,
    gc=False,
    omit_defaults=True,
    rename={
        "origin": "o",
        "model": "m",
        "kind": "k",
        "data": "d",
        "text": "t",
        "digest": "h",
        "item_id": "i",
        "call_id": "c",
        "place": "p",
        "more": "e",
    },
):
    """What an envelope holds.

    Attributes:
        origin: The vendor that sent the state, and alone gets it back.
        kind: What the state is for.
        model: The model that sent it, where its vendor's models differ.
        data: The state itself.
        text: The reasoning itself, where the client will not send it back.
        digest: Digest of the reasoning text, to see that the client sends it back unchanged.
        item_id: Responses: the id of the reasoning item.
        call_id: The call that the state signs.
        place: Where a client keeps the state of several blocks in one place: how much came before this one.
        more: The states of the other blocks there.
    """

    origin: str
    kind: OpaqueKind
    model: str = ""
    data: str = ""
    text: str | None = None
    digest: str = ""
    item_id: str = ""
    call_id: str = ""
    place: int | None = None
    more: tuple["Envelope", ...] = ()


def text_digest(text: str) -> str:
    """Return the digest that an envelope keeps of a reasoning text."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def is_envelope(data: str) -> bool:
    """Return whether this was made here, by this or another instance."""
    return data.startswith(PREFIX)


class Sealer:
    """Seal and open envelopes with one key.  Instances that share clients must share the key.

    Args:
        key: The secret key; any bytes.
        limits: Its `max_envelope_bytes` limits each envelope.
    """

    def __init__(self, key: bytes, *, limits: Limits = DEFAULT_LIMITS) -> None:
        self._key = key
        self._limits = limits
        self._limit = limits.max_envelope_bytes
        self._encoder = msgspec.json.Encoder()
        self._decoder = msgspec.json.Decoder(Envelope)

    def bound_to(self, owner: str) -> "Sealer":
        """Return a sealer whose envelopes open for one owner alone, derived from this one's key.

        Args:
            owner: A name of the client, the same in every request and instance.
        """
        key = hmac.new(self._key, f"owner {owner}".encode(), hashlib.sha256).digest()
        return Sealer(key, limits=self._limits)

    def seal(self, envelope: Envelope) -> str | None:
        """Return the envelope as printable ASCII, or None if it would pass `max_envelope_bytes`.

        None is also returned for text that no encoding can carry.  Translators call this; the state is then dropped
        (`opaque_too_large`).

        Args:
            envelope: What to put into it.
        """
        try:
            plain = self._encoder.encode(envelope)
        except UnicodeEncodeError:
            return None  # half a surrogate pair
        if len(plain) > self._limit * _MAX_SWELL:
            return None
        packed = zlib.compress(plain, 6)
        sealed = PREFIX + base64.urlsafe_b64encode(packed).rstrip(b"=").decode()
        sealed = f"{sealed}.{self._mac(sealed)}"
        return sealed if len(sealed) <= self._limit else None

    def open(self, sealed: str) -> Envelope | None:
        """Return what the envelope holds, or None if it is not ours, damaged or too large.

        Args:
            sealed: Text of a client, of any size: only an envelope with our signature is unpacked, up to a limit.
        """
        body, _, mac = sealed.rpartition(".")
        if len(sealed) > self._limit or not hmac.compare_digest(
            mac.encode("utf-8", "replace"), self._mac(body).encode()
        ):
            return None
        packed = body.removeprefix(PREFIX)
        try:
            raw = base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
            unpacker = zlib.decompressobj()
            plain = unpacker.decompress(raw, self._limit * _MAX_SWELL)
            return None if unpacker.unconsumed_tail else self._decoder.decode(plain)
        except (ValueError, zlib.error, msgspec.DecodeError):
            return None

    def _mac(self, body: str) -> str:
        digest = hmac.new(self._key, body.encode("utf-8", "replace"), hashlib.sha256).digest()
        return base64.urlsafe_b64encode(digest[:_MAC_BYTES]).decode()
