"""The stream that is written: numbered events, and the items that are finished."""

from dragoman.dialects.responses.answer import ResponseHead


class Output:
    """Number the events of one answer and keep its items."""

    def __init__(self) -> None:
        self.head: ResponseHead | None = None  # known from the start of the answer on
        self.sequence = 0  # of the next event
        self.items: list[bytes] = []  # finished ones

    @property
    def index(self) -> int:
        """The output index of the item that is open, or of the next one."""
        return len(self.items)

    def new_id(self, prefix: str) -> str:
        """Return the id of the item at the present index."""
        assert self.head is not None  # noqa: S101 -- items come after the start
        return self.head.item_id(prefix, len(self.items))

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
        fields = b'"output_index":%d,"item":%b' % (len(self.items), item)
        return self.event("response.output_item.added", fields)

    def done(self, item: bytes) -> bytes:
        """Finish an item."""
        fields = b'"output_index":%d,"item":%b' % (len(self.items), item)
        self.items.append(item)
        return self.event("response.output_item.done", fields)

    def whole(self, item: bytes) -> bytes:
        """Put in an item that comes in one piece."""
        return self.added(item) + self.done(item)
