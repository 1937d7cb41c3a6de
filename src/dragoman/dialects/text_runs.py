"""Reads the text of repeated frames together, without decoding their JSON where they differ in their text alone.

Most frames of a streamed answer differ in their text alone.  Once a frame was decoded and only added text, every
frame with the same bytes around its text does too, and only the text is read.  In some dialects such frames also have
a number or counts: their JSON is decoded, but they still become one event.  `TextTemplate` finds such frames in the
received bytes; `RepeatedReads` reads frames that arrive alone.
"""

import re
from collections.abc import Callable
from io import BytesIO
from itertools import islice, takewhile
from operator import itemgetter
from typing import Final

import msgspec
from msgspec import Struct

from dragoman.dialects.encoding import encode

_PROBE: Final = "other words"
_QUOTE, _BACKSLASH = b'"\\'
_LF, _CR = b"\n\r"
# Frames that are compared in one step: first few and then more, so that few are compared in vain.
_FEW_FRAMES: Final = 4
_MANY_FRAMES: Final = 256
MAX_RUN_BYTES: Final = 64 * 1024  # that are compared in one step
_FRAMING: Final = re.compile(rb"(?:event: ?[^\r\n]*(?:\r\n|\n))?data: ?")
_FRAME_ENDS: Final = (b"\n\n", b"\r\n\r\n")
_STRING: Final = msgspec.json.Decoder(str)
_STRINGS: Final = msgspec.json.Decoder(list[str])


class TextTemplate(Struct, frozen=True, gc=False):
    """What frames that only add text have in common."""

    before: bytes  # everything up to the text: `data: `, and the JSON with the opening quote
    after: bytes  # everything behind it: from the closing quote to the blank line
    # Where frames differ elsewhere too: finds the text in their JSON, and `before` and `after` are around all of it.
    find_text: Callable[[bytes], str] | None = None

    @property
    def frame_end(self) -> bytes:
        """The blank line behind a frame, with the line end before it."""
        return _FRAME_ENDS[1] if self.after.endswith(_FRAME_ENDS[1]) else _FRAME_ENDS[0]

    def texts(self, block: bytes, at: int, most: int) -> tuple[list[bytes], str, int]:
        """Return the texts of the frames from `at` on that match, one by one and joined, and where they end.

        The single texts, `most` of them, are the insides of JSON strings, as our encoder writes them.
        """
        above, below = self.before.count(b"\n"), self.after.count(b"\n")  # line ends in a frame
        start = len(self.before) - self.before.rfind(b"\n") - 1
        inside = itemgetter(slice(start, -self.after.index(b"\n") - 1))  # of the line with the text
        lines = BytesIO(block)
        found: list[bytes] = []
        joined = ""
        step = _FEW_FRAMES
        while len(found) < most:
            lines.seek(at)
            step = min(step, most - len(found))
            bodies = [*map(inside, islice(lines, above, step * (above + below), above + below))]
            if b"" in bodies:
                del bodies[bodies.index(b"") :]
            frames = self._frames(bodies)
            if not block.startswith(frames, at) or len(frames) > MAX_RUN_BYTES:
                del bodies[self._matching(block, at, bodies) :]
                frames = self._frames(bodies)
            find = self.find_text
            written, text = _unescaped(bodies) if find is None else _decoded(bodies, find)
            found += written
            joined += text
            if len(written) < len(bodies):
                frames = self._frames(bodies[: len(written)])
            at += len(frames)
            if len(written) < step:
                break
            step = min(4 * step, _MANY_FRAMES)
        return found, joined, at

    def _matching(self, block: bytes, at: int, bodies: list[bytes]) -> int:
        """Return how many of the frames from `at` on are those with some texts in them."""
        least, most = 0, len(bodies)
        while least < most:
            middle = (least + most + 1) // 2
            frames = self._frames(bodies[:middle])
            if block.startswith(frames, at) and len(frames) <= MAX_RUN_BYTES:
                least = middle
            else:
                most = middle - 1
        return least

    def _frames(self, bodies: list[bytes]) -> bytes:
        """Return the frames with some texts in them."""
        if not bodies:
            return b""
        before, after = self.before, self.after
        return before + (after + before).join(bodies) + after

    def split(self, run: bytes) -> list[bytes]:
        """Return the frames of a run, which all match."""
        before, after = self.before, self.after
        bodies = run[len(before) : -len(after)].split(after + before)
        return [before + body + after for body in bodies]


class RepeatedReads:
    """Reads of one frame each that differ in their text alone.  Counts what it has read."""

    __slots__ = (
        "_after", "_before", "_find_text", "_head", "_left", "_most", "_tail", "chars", "count", "size",
    )  # fmt: skip

    def __init__(self, template: TextTemplate, left: int, most: int) -> None:
        """Read up to `left` reads, none longer than `most` bytes."""
        self._before, self._after = template.before, template.after
        self._head, self._tail = len(template.before), -len(template.after)
        self._find_text = template.find_text
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
            if self._find_text is not None:
                return (
                    "" if _LF in body or _CR in body else self._count(self._find_text(body), data)
                )
            text = body.decode()
            if '"' in text or "\\" in text or not text.isprintable():
                text = _STRING.decode(b'"%b"' % body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return ""
        return self._count(text, data)

    def _count(self, text: str, data: bytes) -> str:
        if text:
            self.count += 1
            self.size += len(data)
            self.chars += len(text)
        return text


def _is_plain(body: bytes) -> bool:
    """Return whether the inside of a JSON string is ASCII and needs no escape."""
    return (
        body.isascii()
        and _QUOTE not in body
        and _BACKSLASH not in body
        and body.decode().isprintable()
    )


def _decoded(frames: list[bytes], find_text: Callable[[bytes], str]) -> tuple[list[bytes], str]:
    """Return the texts of frames up to the first that does more than add text, and all of them joined."""
    if _CR in b"".join(frames):  # it ends a line, and JSON takes it for a blank
        return [], ""
    texts = [*takewhile(bool, map(find_text, frames))]
    joined = "".join(texts)
    if _is_plain(joined.encode()):
        return [*map(str.encode, texts)], joined
    return [encode(one)[1:-1] for one in texts], joined


def _unescaped(bodies: list[bytes]) -> tuple[list[bytes], str]:
    """Return the texts up to the first that is not the inside of a JSON string, and all of them joined."""
    joined = b"".join(bodies)
    if _is_plain(joined):
        return bodies, joined.decode()
    try:
        # One call for all of them.  A string cannot contain the line end between two, so none joins its neighbour,
        # and the number shows that none is divided.
        texts = _STRINGS.decode(b'["%b"]' % b'",\n"'.join(bodies))
    except (msgspec.DecodeError, UnicodeDecodeError):
        texts = []
    if len(texts) == len(bodies):
        written = [
            body if _is_plain(body) else encode(text)[1:-1]
            for body, text in zip(bodies, texts, strict=True)
        ]
        return written, "".join(texts)
    if len(bodies) == 1:
        return [], ""
    half = len(bodies) // 2
    written, text = _unescaped(bodies[:half])
    if len(written) == half:
        more, rest = _unescaped(bodies[half:])
        written, text = written + more, text + rest
    return written, text


def template_of(
    raw: bytes, data: bytes, text_of: Callable[[bytes], str], *, varied: bool = False
) -> TextTemplate | None:
    """Return the template of a frame, or None if its text cannot be located.

    `raw` is the whole frame and `data` its JSON; `text_of` returns the text of a frame that adds text and says
    nothing else, and nothing for others.  `varied`: such frames differ elsewhere too.
    """
    framing, _, end = raw.partition(data)
    if end not in _FRAME_ENDS or _FRAMING.fullmatch(framing) is None:
        return None
    if varied:
        return TextTemplate(framing, end, text_of)
    text = encode(text_of(data))
    at = data.find(text)
    if at < 0:
        return None
    before, after = data[: at + 1], data[at + len(text) - 1 :]
    # The same words may occur elsewhere in the frame: put others in their place and read them back.
    if text_of(before + _PROBE.encode() + after) != _PROBE:
        return None
    return TextTemplate(framing + before, after + end)
