"""Bodies and streams without their content, while they arrive.

A body or a stream is cut into JSON documents.  Strings of a stream that are pieces of one text are masked as one text,
so that a marker or a name that is cut in two is still one.  A document is complete when all of its texts are masked.
"""

import re
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from msgspec import Struct

from dragoman.recorder.masked_json import SYMBOL, Document, Slot
from dragoman.recorder.masked_text import MaskedText, Names

_LINE: Final = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_FIELD: Final = re.compile(rb"(data|event|id|retry)?: ?")
_ARGUMENT_KEY: Final = re.compile(r'"([^"\\]{1,128})"\s*:')
_LONGEST_KEY: Final = 160  # characters, with its quotes and the blanks behind them


class PiecedText(Protocol):
    """Masks a text that arrives in pieces; the masked text has the same length."""

    def feed(self, piece: str, /) -> None:
        """Take a piece."""
        ...

    def take(self, *, ended: bool = False) -> str:
        """Return the masked text that later pieces cannot change, from where the last call ended."""
        ...


class _Part(Struct):
    """Bytes to keep, or a document with texts that are not masked yet."""

    data: "Document | bytes"
    left: int = 0


class _Text(Struct):
    """The pieces of one text."""

    masked: PiecedText
    slots: deque[tuple[_Part, Slot, int]]  # that are not masked yet, with their lengths
    ready: str = ""  # masked, for the first of these
    last: int = 0  # the number of the last document that has a piece of it


class MaskedStream:
    """A body or a stream, masked as far as it is final.

    With `text` every string is such a text, and nothing else is masked.
    """

    def __init__(self, names: Names | None, text: Callable[[], PiecedText] | None = None) -> None:
        self._names = names
        self._text: Callable[[], PiecedText] = text or (lambda: MaskedText(names or Names()))
        self.closed: bool = False  # everything is there
        self._line = b""  # which is not complete
        self._is_body: bool | None = None  # JSON: one document, which is read at its end
        self._documents = 0  # with content, that are not aside
        self._parts: deque[_Part] = deque()
        self._texts: dict[object, _Text] = {}  # by what their pieces have in common
        self._open: dict[object, _Text] = {}  # those with slots
        self._out = bytearray()

    def feed(self, data: bytes) -> None:
        """Take bytes."""
        self._line += data
        if self._is_body is None:
            begin = self._line.lstrip()[:1]
            self._is_body = begin in (b"{", b"[") if begin else None
        if self._is_body is False:
            end = self._line.rfind(b"\n") + 1
            lines, self._line = self._line[:end], self._line[end:]
            self._add_lines(lines)

    def add(self, document: bytes, *, aside: bool = False) -> None:
        """Take a document of a stream; one that is `aside` may come between two pieces of a text."""
        self._add(Document(document, self._names, streamed=True), aside=aside)

    def close(self) -> None:
        """Nothing more will come."""
        line, self._line = self._line, b""
        if self._is_body and not self.closed:
            self._add(Document(line, self._names))
        else:
            self._add_lines(line)
        self.closed = True

    def mask(self) -> None:
        """Mask what is final.  A text ends where another one follows: few servers write two at once."""
        for group, text in list(self._open.items()):
            self._take(group, text, ended=self.closed or text.last < self._documents)
        while self._parts and not self._parts[0].left:
            data = self._parts.popleft().data
            self._out += data if isinstance(data, bytes) else data.masked()

    @property
    def ready(self) -> int:
        """How many bytes are masked."""
        return len(self._out)

    def take(self, size: int) -> bytes:
        """Return masked bytes; `ready` must have so many."""
        taken = bytes(self._out[:size])
        del self._out[:size]
        return taken

    def _add_lines(self, data: bytes) -> None:
        for start, line in _documents(data):
            if start < 0:
                self._parts.append(_Part(line))
                continue
            self._parts.append(_Part(line[:start]))
            self._add(Document(line[start:], self._names, streamed=True))

    def _add(self, document: Document, *, aside: bool = False) -> None:
        part = _Part(document, len(document.content))
        self._parts.append(part)
        # Comments and lines that are not JSON, whose text has no path, are aside too.
        self._documents += not aside and any(slot.path for slot in document.content)
        for slot in document.content:
            group = document.group(slot)
            text = self._texts.get(group)
            if text is None:
                text = self._texts[group] = _Text(self._text(), deque())
            piece = document.text(slot)
            text.masked.feed(piece)
            text.slots.append((part, slot, len(piece)))
            text.last = self._documents
            self._open[group] = text

    def _take(self, group: object, text: _Text, *, ended: bool) -> None:
        ready = text.ready + text.masked.take(ended=ended)
        at = 0
        while text.slots and len(ready) - at >= text.slots[0][2]:
            part, slot, size = text.slots.popleft()
            assert isinstance(part.data, Document)  # noqa: S101 -- only these have slots
            part.data.write(slot, ready[at : at + size])
            part.left -= 1
            at += size
        text.ready = ready[at:]
        if not text.slots:
            del self._open[group]


def _documents(data: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a stream, and where in each a document begins; -1: there is none."""
    for match in _LINE.finditer(data):
        line = match[0]
        field = _FIELD.match(line)
        start = 0 if field is None else field.end()
        word = line[start:].strip()
        named = field is not None and field[1] in (b"event", b"retry")
        plain = word in (b"", b"[DONE]") or (named and SYMBOL.fullmatch(word.decode("latin-1")))
        yield (-1 if plain else start), line


def mask_bytes(data: bytes, names: Names) -> bytes:
    """Return a body or a stream without its content, as long as it was."""
    stream = MaskedStream(names)
    stream.feed(data)
    stream.close()
    stream.mask()
    return stream.take(stream.ready)


class ArgumentKeys:
    """Finds the keys of the arguments of a call, which arrive in pieces of JSON."""

    def __init__(self, names: Names) -> None:
        self._names = names
        self._tail = ""

    def feed(self, piece: str) -> None:
        """Collect the keys that are complete."""
        text = self._tail + piece
        for key in _ARGUMENT_KEY.findall(text):
            self._names.add(key)
        self._tail = text[-_LONGEST_KEY:]
