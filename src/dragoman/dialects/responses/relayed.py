"""What a Responses upstream tells a Responses client itself, for a writer that may have to go on.

While frames pass as they came, the items have the upstream's ids and the events its numbers.  A writer
that takes over in the middle must go on with these.
"""

from collections.abc import Iterator
from typing import Final

import msgspec
from msgspec import Struct

ADDED: Final = "response.output_item.added"
DONE: Final = "response.output_item.done"
# Frames that open what only the frames after them fill.
ANNOUNCEMENTS: Final = frozenset(
    {ADDED, "response.content_part.added", "response.reasoning_summary_part.added"}
)


class RelayedItem(Struct, frozen=True):
    """The item that a frame is about."""

    id: str = ""
    type: str = ""


class RelayedEvent(Struct, frozen=True):
    """What of a frame concerns the frames after it."""

    type: str = ""
    sequence_number: int | None = None
    output_index: int = 0
    item: RelayedItem = RelayedItem()


_EVENT: Final = msgspec.json.Decoder(RelayedEvent)


def relayed_events(raw: bytes) -> Iterator[RelayedEvent]:
    """Give what can be read of the events in some bytes of a stream."""
    for line in raw.splitlines():
        if line.startswith(b"data:"):
            try:
                yield _EVENT.decode(line[5:])
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue  # it passes all the same, and nothing depends on it
