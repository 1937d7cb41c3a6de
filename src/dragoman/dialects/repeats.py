"""Reads that repeat one frame with other words in it: how answers come while a model writes.

The same thought as in `runs`, for bytes as they arrive: a read that has the same bytes before and after its text
as the read before it says the same, and need be neither framed nor decoded.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from dragoman.dialects.runs import Shape, shape_of
from dragoman.dialects.stream import FrameReader
from dragoman.turn.events import Event, TextDelta
from dragoman.wire.sse import SSEReader

_STRING: Final = msgspec.json.Decoder(str)
_MAX_SHAPES: Final = 16  # of one answer that are learnt
_SMALL: Final = 4096  # bytes of a read that is worth a look
_BEGINNINGS: Final = (b"data:", b"event:")


class Repeats:
    """Know the text of a read by the reads before it."""

    def __init__(self, frames: FrameReader) -> None:
        self._frames = frames
        self._shape: Shape | None = None  # of the last read; nothing else has come since
        self._left = _MAX_SHAPES

    def text(self, data: bytes, /) -> str:
        """Return what a read adds to the open block; empty if it has to be read in full."""
        shape = self._shape
        if shape is None:
            return ""
        before, after = shape.before, shape.after
        body = data[len(before) : -len(after)]
        try:
            text = _STRING.decode(b'"%b"' % body) if data == before + body + after else ""
        except (msgspec.DecodeError, UnicodeDecodeError):
            text = ""  # it is more than a text
        if not text:
            self._shape = None
        return text

    def learn(self, data: bytes, events: Sequence[Event], /) -> None:
        """See what the next read may have in common with one that was read in full."""
        if not self._left or len(events) != 1 or type(events[0]) is not TextDelta:
            return
        if len(data) > _SMALL or not data.startswith(_BEGINNINGS) or not data.endswith(b"\n\n"):
            return
        if self._frames.takes_text and events[0].text == self._text_of(data):
            self._left -= 1
            self._shape = shape_of(data, self._text_of)

    def _text_of(self, data: bytes) -> str:
        frames = SSEReader().feed(data)
        return self._frames.text_of(frames[0].data) if len(frames) == 1 else ""
