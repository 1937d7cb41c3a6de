"""Reads the text of repeated frames without decoding their JSON.

Nearly every streamed answer repeats one frame with other text in it.  Once a frame is known to add text and
to say nothing else, a frame with the same bytes before and after its text says the same, so that only the
text has to be read.  `TextTemplate` does this for frames that arrive together, `RepeatedReads` for whole
reads of one frame each, which then need no framing either.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec
from msgspec import Struct

from dragoman.dialects.encoding import encode
from dragoman.wire.sse import Frame

_PROBE: Final = "other words"
# What is escaped in a JSON string, or is not ASCII.
_NOT_PLAIN: Final = re.compile(rb'[\x00-\x1f"\\\x80-\xff]').search
_MAX_FRAMES: Final = 64  # that are compared in one step, so that few are compared twice
_FRAMING: Final = re.compile(rb"(event: [^\r\n]*\n)?data: ")
_STRING: Final = msgspec.json.Decoder(str)
_STRINGS: Final = msgspec.json.Decoder(list[str])


class TextTemplate(Struct, frozen=True, gc=False):
    """What frames that only add text have in common."""

    before: bytes  # everything up to the text, with the opening quote
    after: bytes  # everything behind it, from the closing quote on

    def texts(self, frames: Sequence[Frame], at: int) -> tuple[list[bytes], str]:
        """Return the texts of the frames from `at` on that match, one by one and joined.

        The single texts are the insides of JSON strings, as our encoder writes them.
        """
        before, after = self.before, self.after
        head, tail = len(before), -len(after)
        bodies: list[bytes] = []
        for place in range(at, min(at + _MAX_FRAMES, len(frames))):
            data = frames[place].data
            body = data[head:tail]
            if not body or data != before + body + after:
                break
            bodies.append(body)
        joined = b"".join(bodies)
        return (bodies, joined.decode()) if _NOT_PLAIN(joined) is None else _unescaped(bodies)

    def framed(self, data: bytes, frame: bytes) -> "TextTemplate | None":
        """Return the template of whole reads like `data`, whose one frame matches this template."""
        head, _, tail = data.partition(frame)
        if tail != b"\n\n" or _FRAMING.fullmatch(head) is None:
            return None
        return TextTemplate(head + self.before, self.after + tail)


class RepeatedReads:
    """Reads of one frame each that differ in their text alone.  Counts what it has read."""

    __slots__ = ("_after", "_before", "_head", "_left", "_most", "_tail", "chars", "count", "size")

    def __init__(self, template: TextTemplate, left: int, most: int) -> None:
        """Read up to `left` reads, none longer than `most` bytes."""
        self._before, self._after = template.before, template.after
        self._head, self._tail = len(template.before), -len(template.after)
        self._left = left
        self._most = most
        self.count: int = 0
        self.size: int = 0
        self.chars: int = 0

    def text_of(self, data: bytes) -> str:
        """Return the text of a read; empty if the read is not another repetition."""
        head, tail = self._head, self._tail
        if (
            data[:head] != self._before
            or data[tail:] != self._after
            or self.count == self._left
            or len(data) > self._most
        ):
            return ""
        body = data[head:tail]
        try:
            text = body.decode()
            if '"' in text or "\\" in text or not text.isprintable():
                text = _STRING.decode(b'"%b"' % body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ""
        if text:
            self.count += 1
            self.size += len(data)
            self.chars += len(text)
        return text


def _unescaped(bodies: list[bytes]) -> tuple[list[bytes], str]:
    """Return the texts up to the first that is not the inside of a JSON string."""
    try:
        # One call for all of them.  A string cannot contain the line end between two, so none joins its neighbour,
        # and the number shows that none is divided.
        texts = _STRINGS.decode(b'["%b"]' % b'",\n"'.join(bodies))
    except (msgspec.DecodeError, UnicodeDecodeError):
        texts = []
    if len(texts) == len(bodies):
        written = [
            body if _NOT_PLAIN(body) is None else encode(text)[1:-1]
            for body, text in zip(bodies, texts, strict=True)
        ]
        return written, "".join(texts)
    if len(bodies) == 1:
        return [], ""
    half = len(bodies) // 2
    written, joined = _unescaped(bodies[:half])
    if len(written) == half:
        more, rest = _unescaped(bodies[half:])
        written, joined = written + more, joined + rest
    return written, joined


def template_of(data: bytes, text_of: Callable[[bytes], str]) -> TextTemplate | None:
    """Return the template of a frame, or None if its text cannot be located.

    `text_of` returns the text of a frame that adds text and says nothing else, and nothing for others.
    """
    text = encode(text_of(data))
    at = data.find(text)
    if at < 0:
        return None
    before, after = data[: at + 1], data[at + len(text) - 1 :]
    # The same words may occur elsewhere in the frame: put others in their place and read them back.
    if text_of(before + _PROBE.encode() + after) != _PROBE:
        return None
    return TextTemplate(before, after)
