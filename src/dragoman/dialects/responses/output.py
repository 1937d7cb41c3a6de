"""The stream that is written: numbered events, and the items that are finished."""

from dragoman.dialects.responses.answer import ResponseHead
from dragoman.dialects.responses.relayed import RelayedItem


class Output:
    """Number the events of one answer and keep its items."""

    def __init__(self) -> None:
        self.head: ResponseHead | None = None  # known from the start of the answer on
        self.sequence = 0  # of the next event
        self.items: list[bytes] = []  # finished ones
        self.skipped = 0  # items that passed and told nothing
        self.known: dict[int, RelayedItem] = {}  # by output index: items that the upstream added

    @property
    def index(self) -> int:
        """The output index of the item that is open, or of the next one."""
        return len(self.items) + self.skipped

    def new_id(self, prefix: str, kind: str) -> str:
        """Return the id of the item at the present index: the upstream's, if it added this item."""
        assert self.head is not None  # noqa: S101 -- items come after the start
        known = self.known.get(self.index)
        if known is not None and known.type == kind and known.id:
            return known.id
        return self.head.item_id(prefix, self.index)

    def event(self, name: str, fields: bytes) -> bytes:
        """Return one event."""
        word = name.encode()
        out = b'event: %b\ndata: {"type":"%b","sequence_number":%d,%b}\n\n' % (
            word,
            word,
            self.sequence,
            fields,
        )
        self.sequence += 1
        return out

    def added(self, item: bytes) -> bytes:
        """Announce an item."""
        fields = b'"output_index":%d,"item":%b' % (self.index, item)
        return self.event("response.output_item.added", fields)

    def done(self, item: bytes) -> bytes:
        """Finish an item."""
        fields = b'"output_index":%d,"item":%b' % (self.index, item)
        self.items.append(item)
        return self.event("response.output_item.done", fields)

    def left_open(self, item: bytes) -> None:
        """Keep an item for the response at the end without finishing it."""
        self.items.append(item)

    def whole(self, item: bytes) -> bytes:
        """Put in an item that comes in one piece."""
        return self.added(item) + self.done(item)
