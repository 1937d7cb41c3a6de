"""What a dialect is: eight functions and a few facts over the language between.

A dialect is one folder with the twelve files that ARCHITECTURE.md lists, and one row in
`dialects/__init__.py`.  Dialects do not know each other.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from msgspec import Raw

from dragoman.context import EncodedRequest, Exchange, Target
from dragoman.dialects.framing import FrameReader
from dragoman.envelopes import Sealer
from dragoman.limits import Limits
from dragoman.profiles.profile import Profile
from dragoman.turn.answer import Answer
from dragoman.turn.events import Event, Fault
from dragoman.turn.losses import Loss
from dragoman.turn.request import DialectName, Request


class Writer(Protocol):
    """Write one answer: events to bytes.  Refuses an illegal order with `IllegalOrderError`."""

    losses: list[Loss]  # what this writer could not say

    def send(self, event: Event, /) -> bytes: ...

    def expect(self, raw: bytes, /, *, resume: bool) -> bool:
        """See bytes of the same dialect that lead to what is sent next, and may pass in its place.

        `resume` says that all before them has passed or been written.  Returns whether they only
        announce what the bytes after them tell.
        """
        ...

    def skip(self, event: Event, /) -> None:
        """Know a delta, as `send` does, that the bytes of its peer tell the client.  Raises the same."""
        ...

    def passed(self, raw: bytes, /) -> None:
        """Know that bytes of the same dialect took the place of what was written."""
        ...


class DecodeRequest(Protocol):
    def __call__(self, body: bytes, /, *, sealer: Sealer | None, limits: Limits) -> Request:
        """Read a client's request.  Raises `MalformedError` with the path, `TooLargeError`."""
        ...


@dataclass(frozen=True)
class Dialect:
    """One API dialect."""

    name: DialectName
    path: str  # of its requests, behind a server's base URL
    keep_alive: bytes  # what may stand between events to show that a stream lives
    last_word: bytes  # what follows the finish of an answer; empty if that is itself the last
    # Fields that hold the conversation: a same-dialect relay rewrites these and nothing else.
    history_fields: tuple[str, ...]
    decode_request: DecodeRequest
    encode_request: Callable[[Request, Target], EncodedRequest]
    # Frames of a stream, and complete bodies, to events.
    frame_reader: Callable[[Exchange], FrameReader]
    writer: Callable[[Exchange], Writer]
    encode_body: Callable[[Answer, Exchange], bytes]
    # HTTP status and error body to a fault, and back.
    decode_fault: Callable[[int, bytes], Fault]
    encode_fault: Callable[[Fault, str], tuple[int, bytes]]  # with the request's id
    any_tool: bytes  # how it says that some tool must be called, whichever
    # A request that passes in its own dialect: whether it holds tools (or settings) that the upstream does
    # not take, and the fields as it takes them; `null` means that a field is removed.
    misfits: Callable[[Request, Profile], bool]
    fit_tools: Callable[
        [Mapping[str, Raw], Request, Target], tuple[dict[str, Raw], tuple[Loss, ...]]
    ]
    # Makes instructions between messages text of the user's, where not every server knows a role for them.
    without_instructions: Callable[[Raw], tuple[Raw, tuple[Loss, ...]]] | None = None
    # Fields that hold the conversation on the vendor's own servers: others would lose it unseen.
    kept_by_vendor: tuple[str, ...] = ()
    # A frame means the same whatever was written before it, calls aside: a relay that wrote one anew
    # may pass the next one as it came.
    frames_stand_alone: bool = False
