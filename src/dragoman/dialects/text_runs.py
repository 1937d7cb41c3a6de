"""Frames that differ in their text alone, read at once.

Nearly every answer repeats one frame with other words in it.  Once such a frame is known to add text and to
say nothing else, what has the same bytes before and after its text says the same, and need not be decoded.
Many of them come in one read, or one in each of many: then the read need not even be framed.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from dragoman.dialects.encoding import encode
from dragoman.turn.events import Event, TextDelta
from dragoman.wire.sse import Frame

_PROBE: Final = "other words"
# What may not stand in a JSON string, or not as it is.
_SPECIAL: Final = re.compile(rb'[\x00-\x1f"\\\x80-\xff]').search
_MOST: Final = 64  # frames that are looked at together: so few are looked at twice
_FRAMING: Final = re.compile(rb"(event: [^\r\n]*\n)?data: ")
_STRING: Final = msgspec.json.Decoder(str)


class TextRun(Struct, frozen=True, gc=False):
    """Deltas of text that came together."""

    index: int  # of their block
    bodies: list[bytes]  # the text of each as it stands inside a JSON string, in the form we write
    text: str  # of all

    def deltas(self) -> list[Event]:
        """Return the same one by one."""
        index, bodies = self.index, self.bodies
        if len(bodies) == 1:
            return [TextDelta(index, self.text)]
        if _SPECIAL(b"".join(bodies)) is None:
            return [TextDelta(index, body.decode()) for body in bodies]
        return [TextDelta(index, _STRING.decode(b'"%b"' % body)) for body in bodies]


class Shape(Struct, frozen=True, gc=False):
    """What frames have in common that add text and say nothing else."""

    before: bytes  # the text, with its quote
    after: bytes

    def texts(self, frames: Sequence[Frame], at: int) -> tuple[list[bytes], str]:
        """Return the texts of the frames from `at` on that are of this shape, one by one and together."""
        before, after = self.before, self.after
        head, tail = len(before), -len(after)
        bodies: list[bytes] = []
        for place in range(at, min(at + _MOST, len(frames))):
            data = frames[place].data
            body = data[head:tail]
            if not body or data != before + body + after:
                break
            bodies.append(body)
        joined = b"".join(bodies)
        return (bodies, joined.decode()) if _SPECIAL(joined) is None else _unescaped(bodies)

    def framed(self, data: bytes, frame: bytes) -> "Shape | None":
        """Return the shape of whole reads like `data`, whose one frame is of this shape."""
        head, _, tail = data.partition(frame)
        if tail != b"\n\n" or _FRAMING.fullmatch(head) is None:
            return None
        return Shape(head + self.before, self.after + tail)


class Echo:
    """Whole reads that repeat one another with other words, and what was taken of them."""

    __slots__ = ("_after", "_before", "_head", "_left", "_most", "_tail", "chars", "count", "size")

    def __init__(self, shape: Shape, left: int, most: int) -> None:
        """Take reads of a shape, no more than `left`, none longer than `most` bytes."""
        self._before, self._after = shape.before, shape.after
        self._head, self._tail = len(shape.before), -len(shape.after)
        self._left = left
        self._most = most
        self.count = self.size = self.chars = 0

    def take(self, data: bytes) -> tuple[bytes, str] | None:
        """Return the text of a read, as it stands in a JSON string and as it is; None if it is another."""
        head, tail = self._head, self._tail
        if (
            data[:head] != self._before
            or data[tail:] != self._after
            or self.count == self._left
            or len(data) > self._most
        ):
            return None
        body = data[head:tail]
        try:
            text = body.decode()
        except UnicodeDecodeError:
            return None
        if '"' in text or "\\" in text or not text.isprintable():
            bodies, text = _unescaped([body])
            if not bodies:
                return None
            body = bodies[0]
        if not text:
            return None
        self.count += 1
        self.size += len(data)
        self.chars += len(text)
        return body, text


def _unescaped(bodies: list[bytes]) -> tuple[list[bytes], str]:
    """Return the texts up to the first that is no JSON string by itself."""
    known: list[bytes] = []
    texts: list[str] = []
    for body in bodies:
        if _SPECIAL(body) is not None:
            try:
                text = _STRING.decode(b'"%b"' % body)
            except (msgspec.DecodeError, UnicodeDecodeError):
                break
            known.append(encode(text)[1:-1])
            texts.append(text)
        else:
            known.append(body)
            texts.append(body.decode())
    return known, "".join(texts)


def shape_of(data: bytes, text_of: Callable[[bytes], str]) -> Shape | None:
    """Return the shape of a frame; `text_of` tells the text of one that adds text and says nothing else."""
    said = encode(text_of(data))
    at = data.find(said)
    if at < 0:
        return None
    before, after = data[: at + 1], data[at + len(said) - 1 :]
    # The same words may stand elsewhere too: what takes other words is the text.
    if text_of(before + _PROBE.encode() + after) != _PROBE:
        return None
    return Shape(before, after)
