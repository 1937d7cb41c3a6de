"""Server-sent events, read liberally and written strictly.

Knows the framing of https://html.spec.whatwg.org/multipage/server-sent-events.html and nothing of
what a frame means.  Splitting is done on bytes, so a code point cut over two reads needs no care, and
U+2028 and similar characters inside JSON strings do not end a line.
"""

import re
from collections.abc import Iterator
from io import BytesIO
from typing import Final

from msgspec import Struct

from dragoman.errors import MisuseError, TooLargeError
from dragoman.limits import DEFAULT_LIMITS, Limits

_LF, _CR = b"\n\r"  # as numbers they are found several times as fast
_BOM: Final = b"\xef\xbb\xbf"
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
# Of frames that are parsed together: few at first, and never so many that other threads wait for long.
_FEW_BYTES: Final = 1024
_MANY_BYTES: Final = 64 * 1024
_SMALL: Final = 4096  # bytes of a read that may be a single frame


class Frame(Struct, frozen=True, gc=False):
    """One event of the stream."""

    data: bytes  # the `data` lines joined with a line feed; empty if there were none
    event: str = ""  # the event's name, if it had one
    raw: bytes = b""  # the bytes as received, where the whole frame is at hand
    whole: bool = True  # false for a last event that no blank line ended


_BLANK: Final = Frame(b"")  # any number of empty events


class SSEReader:
    """Turn bytes, cut anywhere, into frames.

    `feed` returns the frames that some bytes complete, those without data (comments) too: the `raw` of all frames
    joined is the input, without a byte-order mark.

    A caller that can read many frames in one step (`dialects/text_runs.py`) uses the parts of `feed`: `take`
    returns the bytes of whole frames, `frames` parses them, and `skip` counts those that the caller has read.
    """

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS, keep_raw: bool = True) -> None:
        """Read within limits; without `keep_raw`, line ends of CR and LF are read faster, as LF."""
        self._limits = limits
        self._keep_raw = keep_raw
        self._parts: list[bytes] = []  # bytes since the last frame that hold no blank line yet
        self.held: int = 0  # their length
        self._total = 0  # all bytes seen
        self._count = 0  # all events seen, those without data among them
        self._at_start = True  # a byte-order mark may still come
        self._bare_cr = False  # frames are found line by line, because of a carriage return
        self._cr = False  # the last byte was a carriage return, whose line feed may still come
        self._closed = False
        self.torn: bool = False  # the input ended inside an event

    def feed(self, data: bytes, /) -> list[Frame]:
        """Return the frames that `data` completes.

        Raises:
            TooLargeError: an event, what waits for its end, or the stream passes its limit.
        """
        block = self.take(data)
        found: list[Frame] = []
        at = 0
        for frame, end in self.frames(block):
            found.append(Frame(frame.data, frame.event, block[at:end]))
            at = end
        return found

    def take(self, data: bytes, /) -> bytes:
        """Return the bytes of the frames that `data` completes; the beginning of another one is kept.

        Raises:
            TooLargeError: what waits for its end, or the stream, passes its limit.
        """
        if self._closed:
            raise MisuseError("feed after close")
        limits = self._limits
        self._total += len(data)
        if self._total > limits.max_response_bytes:
            raise TooLargeError("max_response_bytes", limits.max_response_bytes)
        whole = data[-2:] == b"\n\n" and data[-3:-2] != b"\n"
        odd = self._parts or self._bare_cr or self._cr or self._at_start
        if whole and not (odd or _CR in data):
            return data  # as nearly always, while a model writes
        if self._at_start:
            data = self._strip_mark(data)
        if self._cr or _CR in data:
            data = self._with_line_feed(data) if self._keep_raw else self._plain(data)
        parts = self._parts
        if parts and data:
            ends = self._last_end(parts[-1][-1:] + data) > 0
            parts.append(data)
            self.held += len(data)
            data = b"".join(parts) if ends else b""
        if data:
            end = self._last_end(data)
            self._parts = [data[end:]] if end < len(data) else []
            self.held = len(data) - end
            data = data[:end]
        if self.held > limits.max_sse_event_bytes:
            raise TooLargeError("max_sse_event_bytes", limits.max_sse_event_bytes)
        if self.held > limits.max_sse_buffer_bytes:
            raise TooLargeError("max_sse_buffer_bytes", limits.max_sse_buffer_bytes)
        return data

    def _plain(self, data: bytes) -> bytes:
        """Return data with LF in place of CR and LF, which is how Google ends its lines.

        A CR without its LF changes how frames are found from then on.  One at the end waits for the next data: a read
        may end between the two.
        """
        if self._bare_cr:
            return data
        if self._cr:
            data, self._cr = b"\r" + data, False
        plain = data.replace(b"\r\n", b"\n")
        at = plain.find(b"\r")
        if at >= 0 and at == len(plain) - 1:
            self._cr = True
            return plain[:-1]
        self._bare_cr = at >= 0
        return data if self._bare_cr else plain

    def _with_line_feed(self, data: bytes) -> bytes:
        """Hold back a CR that ends the data after an LF, until the next data shows whether an LF follows it.

        Otherwise a frame could be forwarded without the last LF of its blank line, and some clients would not see
        its end.  Case: gemini/error_in_the_stream.
        """
        self._bare_cr = True
        if self._cr:
            data, self._cr = b"\r" + data, False
        before = self._parts[-1][-1:] if self._parts else b""
        if (before + data)[-2:] == b"\n\r":
            self._cr = True
            return data[:-1]
        return data

    def frames(self, block: bytes, at: int = 0) -> Iterator[tuple[Frame, int]]:
        """Yield the frames of what `take` returned, from `at` on, each with the place where it ends.

        Raises:
            TooLargeError: an event, or their number, passes its limit.
        """
        if self._bare_cr:
            yield from self._line_frames(block, at)
            return
        most, longest = self._limits.max_events, self._limits.max_sse_event_bytes + 2
        alone = _only(block) if not at and len(block) <= min(_SMALL, longest) else None
        if alone is not None:
            self._count += 1
            if self._count > most:
                raise TooLargeError("max_events", most)
            yield alone, len(block)
            return
        some = _FEW_BYTES  # a caller may find a run behind the first frame
        while at < len(block):
            size = self._last_end(block[at : at + some])
            end = at + size if size else block.find(b"\n\n", at) + 2  # a longer frame
            some = min(4 * some, _MANY_BYTES)
            for frame, size in _split(block[at:end]):
                at += size
                if frame is _BLANK:
                    self._count += size // 2
                else:
                    self._count += 1
                    if size > longest:
                        raise TooLargeError("max_sse_event_bytes", longest - 2)
                if self._count > most:
                    raise TooLargeError("max_events", most)
                yield frame, at

    def _line_frames(self, block: bytes, at: int) -> Iterator[tuple[Frame, int]]:
        """Find frames by any spelling of the blank line, for streams that use carriage returns.

        A frame leaves at the first byte that ends it; if that is a CR whose LF comes later, the LF
        begins the next frame as an empty line, which means nothing.
        """
        for blank in _BLANK_LINE.finditer(block, at):
            self._count += 1
            if blank.start() - at > self._limits.max_sse_event_bytes:
                raise TooLargeError("max_sse_event_bytes", self._limits.max_sse_event_bytes)
            if self._count > self._limits.max_events:
                raise TooLargeError("max_events", self._limits.max_events)
            frame = _parse(_LINE_END.split(block[at : blank.start()]))
            at = blank.end()
            yield frame, at

    def room(self) -> tuple[int, int]:
        """Return how many frames the caller may read by itself next, and the most bytes of one."""
        if self._parts or self._cr:
            return 0, 0
        limits = self._limits
        small = min(_SMALL, limits.max_sse_event_bytes)
        left = (limits.max_response_bytes - self._total) // small
        return min(left, self.frames_left), small

    @property
    def frames_left(self) -> int:
        """How many frames may still come."""
        return self._limits.max_events - self._count

    def skip(self, frames: int, size: int = 0) -> None:
        """Count frames that the caller has read, and their bytes unless `take` returned them."""
        self._count += frames
        self._total += size

    def close(self) -> list[Frame]:
        """Return what is left: an event that no blank line ended, marked as not whole."""
        if self._closed:
            raise MisuseError("close after close")
        self._closed = True
        block, found = b"".join(self._parts), []
        self._parts = []
        if self._cr:
            # No line feed follows: the carriage return is a line end, perhaps of an event.
            block, self._bare_cr = block + b"\r", True
            end = self._last_end(block)
            found = [
                Frame(one.data, one.event, block[:end])
                for one, _ in self._line_frames(block[:end], 0)
            ]
            block = block[end:]
        if not block:
            return found
        self.torn = bool(block.strip(b"\r\n"))
        frame = _parse(_LINE_END.split(block) if self._bare_cr else block.split(b"\n"))
        return [*found, Frame(frame.data, frame.event, block, whole=False)]

    def _strip_mark(self, data: bytes) -> bytes:
        """Drop a byte-order mark, even one that arrives in pieces."""
        if self._parts:
            data = self._parts.pop() + data
            self.held = 0
        if len(data) < len(_BOM) and _BOM.startswith(data):
            if data:
                self._parts.append(data)
                self.held = len(data)
            return b""
        self._at_start = False
        return data.removeprefix(_BOM)

    def _last_end(self, data: bytes) -> int:
        """Return where the last whole event ends, 0 if none does."""
        if self._bare_cr:
            return max((blank.end() for blank in _BLANK_LINE.finditer(data)), default=0)
        end = data.rfind(b"\n\n") + 2
        if end < 2:
            return 0
        if data[end - 3 : end - 2] == b"\n":
            # Line ends count in pairs: the last of an odd number begins the next event.
            end -= (end - len(data[:end].rstrip(b"\n"))) % 2
        return end


def _only(block: bytes) -> Frame | None:
    """Return the frame of a block that holds one, of one `data` line: what comes while a model writes."""
    name = b""
    if block[:6] == b"data: ":
        data = block[6:-2]
    else:
        name, found, data = block[7:-2].partition(b"\ndata: ")
        if not found or block[:7] != b"event: " or _LF in name:
            return None
    if _LF in data:
        return None
    return Frame(data, name.decode("utf-8", "replace") if name else "")


def _split(block: bytes) -> list[tuple[Frame, int]]:
    """Return the frames of a block, each with its size."""
    lines = BytesIO(block).readlines()  # finds lines faster than any method of `bytes`
    blank, count = lines.count(b"\n"), len(lines)
    # What nearly every server sends: a line of data and a blank one, or a name, a line of data and a blank one.
    if 2 * blank == count and lines[1::2].count(b"\n") == blank:
        return [
            (Frame(one[6:-1]) if one[:6] == b"data: " else _parse([one[:-1]]), len(one) + 1)
            for one in lines[::2]
        ]
    if 3 * blank == count and lines[2::3].count(b"\n") == blank:
        names = {
            one: one[7:-1].decode("utf-8", "replace")
            for one in set(lines[::3])
            if one[:7] == b"event: "
        }
        return [
            (
                Frame(two[6:-1], names[one])
                if two[:6] == b"data: " and one in names
                else _parse([one[:-1], two[:-1]]),
                len(one) + len(two) + 1,
            )
            for one, two in zip(lines[::3], lines[1::3], strict=True)
        ]
    found: list[tuple[Frame, int]] = []
    event: list[bytes] = []
    for line in lines:
        if line != b"\n" or not event:
            event.append(line[:-1])
            continue
        size = sum(map(len, event)) + len(event) + 1
        if event != [b""]:
            found.append((_parse(event), size))
        elif found and found[-1][0] is _BLANK:  # a peer can pack a million of them into a few KiB
            found[-1] = (_BLANK, found[-1][1] + size)
        else:
            found.append((_BLANK, size))
        event = []
    return found


def _parse(lines: list[bytes]) -> Frame:
    """Return the frame that some lines are."""
    name = b""
    data: list[bytes] = []
    for line in lines:
        field, colon, value = line.partition(b":")
        if value[:1] == b" ":
            value = value[1:]
        if field == b"data":
            data.append(value if colon else b"")
        elif field == b"event":
            name = value
    if not data and next(filter(None, lines), b"").startswith((b"{", b"[{")):
        # Google may end a stream with an error, or a list of one, that no `data:` precedes.
        # Case: gemini/error_list_without_data.  Test: test_a_gemini_server_that_deviates_is_understood.
        data = lines
    return Frame(b"\n".join(data), name.decode("utf-8", "replace"))


# A line end directly followed by another, in any of the three spellings.
_BLANK_LINE: Final = re.compile(rb"(?:\r\n|\r(?!\n)|\n)(?:\r\n|\r|\n)")


def frames_of(block: bytes) -> Iterator[Frame]:
    """Yield the frames of bytes that a reader has returned; the last one may lack its blank line."""
    at = 0
    for blank in _BLANK_LINE.finditer(block):
        raw = block[at : blank.end()]
        frame = _parse(_LINE_END.split(block[at : blank.start()]))
        yield Frame(frame.data, frame.event, raw)
        at = blank.end()
    if at < len(block):
        frame = _parse(_LINE_END.split(block[at:]))
        yield Frame(frame.data, frame.event, block[at:], whole=False)


def encode_event(name: str, data: bytes) -> bytes:
    """Write one named event: LF only, one `data` line, one blank line after."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


def encode_data(data: bytes) -> bytes:
    """Write one event without a name."""
    return b"data: %b\n\n" % data
