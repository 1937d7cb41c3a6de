"""Server-sent events, read liberally and written strictly.

Knows the framing of https://html.spec.whatwg.org/multipage/server-sent-events.html and nothing of
what a frame means.  Splitting is done on bytes, so a code point cut over two reads needs no care, and
U+2028 and friends inside JSON strings end no line.
"""

import re
from typing import Final

from msgspec import Struct

from dragoman.errors import MisuseError, TooLargeError
from dragoman.limits import DEFAULT_LIMITS, Limits

_LF, _CR = b"\n\r"  # as numbers they are found several times as fast
_BOM: Final = b"\xef\xbb\xbf"
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
# What nearly every Chat server sends, what the others send, and the bytes of each that are not data.
_NAMED_FRAME: Final = re.compile(rb"^event: ([^\n]*)\ndata: ([^\n]*)\n\n", re.MULTILINE)
_NAMED_FRAME_MARKUP: Final = len(b"event: \ndata: \n\n")
_EMPTY_EVENTS: Final = re.compile(rb"(?:\n\n)++")
_SMALL: Final = 4096  # bytes of a read that may be a single frame
_LARGE_BYTES: Final = 1024 * 1024  # of events that are copied one by one, see `_large_events`


class Frame(Struct, frozen=True, gc=False):
    """One event of the stream."""

    data: bytes  # the `data` lines joined with a line feed; empty if there were none
    event: str = ""  # the event's name, if it had one
    raw: bytes = b""  # the bytes as received, if the reader was asked to keep them
    whole: bool = True  # false for a last event that no blank line ended


class SSEReader:
    """Turn bytes, cut anywhere, into frames.

    With `keep_raw`, the `raw` of all frames joined is the input (without a byte-order mark), and frames
    without data (comments) are given too; otherwise they are skipped.
    """

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS, keep_raw: bool = False) -> None:
        self._limits = limits
        self._keep_raw = keep_raw
        self._small = min(_SMALL, limits.max_sse_event_bytes)
        self._parts: list[bytes] = []  # bytes since the last frame that hold no blank line yet
        self.held: int = 0  # their length
        self._total = 0  # all bytes seen
        self._count = 0  # all events seen, those without data among them
        self._at_start = True  # a byte-order mark may still come
        self._bare_cr = False  # a carriage return was seen: frames are found line by line
        self._closed = False
        self.torn: bool = False  # the input ended inside an event

    def feed(self, data: bytes, /) -> list[Frame]:
        """Return the frames that `data` completes.

        Raises:
            TooLargeError: an event, what waits for its end, or the stream passes its limit.
        """
        if self._closed:
            raise MisuseError("feed after close")
        limits = self._limits
        self._total += len(data)
        if self._total > limits.max_response_bytes:
            raise TooLargeError("max_response_bytes", limits.max_response_bytes)
        if not (self._parts or self._bare_cr or self._at_start):
            frame = self._only(data)
            if frame is not None:
                self._count += 1
                if self._count > limits.max_events:
                    raise TooLargeError("max_events", limits.max_events)
                return [frame]
        frames: list[Frame] = []
        if self._at_start:
            data = self._strip_mark(data)
        if not self._bare_cr and _CR in data:
            self._bare_cr = True
        if self._bare_cr:
            self._split_lines(data, frames)
        else:
            self._split_blocks(data, frames)
        if self.held > limits.max_sse_event_bytes:
            raise TooLargeError("max_sse_event_bytes", limits.max_sse_event_bytes)
        if self.held > limits.max_sse_buffer_bytes:
            raise TooLargeError("max_sse_buffer_bytes", limits.max_sse_buffer_bytes)
        self._count += len(frames)
        if self._count > limits.max_events:
            raise TooLargeError("max_events", limits.max_events)
        return frames

    def room(self) -> tuple[int, int]:
        """Return how many frames the caller may read by itself next, and the most bytes of one."""
        if self._parts or self._bare_cr:
            return 0, 0
        limits = self._limits
        left = (limits.max_response_bytes - self._total) // self._small
        return min(left, limits.max_events - self._count), self._small

    def skip(self, frames: int, size: int) -> None:
        """Count frames that the caller has read."""
        self._count += frames
        self._total += size

    def close(self) -> list[Frame]:
        """Return what is left: an event that no blank line ended, marked as not whole."""
        if self._closed:
            raise MisuseError("close after close")
        self._closed = True
        block = b"".join(self._parts)
        self._parts = []
        if not block:
            return []
        self.torn = bool(block.strip(b"\r\n"))
        lines = _LINE_END.split(block) if self._bare_cr else block.split(b"\n")
        frames: list[Frame] = []
        self._dispatch(lines, block, frames, whole=False)
        return frames

    def _only(self, data: bytes) -> Frame | None:
        """Return the frame of a read that holds one, of one `data` line: what comes while a model writes."""
        name = b""
        if len(data) > self._small:
            return None
        if data[:6] == b"data: ":
            body = data[6:-2]
        else:
            name, found, body = data[7:-2].partition(b"\ndata: ")
            if not found or data[:7] != b"event: " or _LF in name:
                return None
        if _LF in body or _CR in data or data[-2:] != b"\n\n":
            return None
        event = name.decode("utf-8", "replace") if name else ""
        return Frame(body, event, data if self._keep_raw else b"")

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

    def _split_blocks(self, data: bytes, frames: list[Frame]) -> None:
        """Find frames by their blank line: the road of nearly every stream."""
        if not data:
            return
        parts = self._parts
        if parts:
            if b"\n\n" not in parts[-1][-1:] + data:
                parts.append(data)
                self.held += len(data)
                return
            parts.append(data)
            data = b"".join(parts)
            self._parts = parts = []
        end = data.rfind(b"\n\n") + 2
        if end < 2:
            end = 0
        elif not self._find_plain(data, end, frames):
            end = self._find_any(data, frames)
        rest = data[end:]
        if rest:
            parts.append(rest)
        self.held = len(rest)

    def _find_plain(self, data: bytes, end: int, frames: list[Frame]) -> bool:
        """Take the frames up to `end` at once, if each is one `data` line, all named or none."""
        if end > self._limits.max_sse_event_bytes:
            return False
        if data[:6] == b"event:":
            return self._find_named(data, end, frames)
        if data[:6] != b"data: ":
            return False
        if end > _LARGE_BYTES:
            found = [one for _, one in _large_events(data, end, named=False)]
            if not found:
                return False
        else:
            found = data[6 : end - 2].split(b"\n\ndata: ")
            if _LF in b"".join(found):
                return False  # there are other lines in it
        if self._keep_raw:
            frames.extend([Frame(one, "", b"data: %b\n\n" % one) for one in found])
        else:
            frames.extend(map(Frame, found))
        return True

    def _find_named(self, data: bytes, end: int, frames: list[Frame]) -> bool:
        found: list[tuple[bytes, bytes]]
        if end > _LARGE_BYTES:
            found = _large_events(data, end, named=True)
        else:
            found = _NAMED_FRAME.findall(data, 0, end)
        counted = sum([len(name) + len(one) for name, one in found])
        if counted + _NAMED_FRAME_MARKUP * len(found) != end:
            return False
        names = {name: name.decode("utf-8", "replace") for name in {name for name, _ in found}}
        if self._keep_raw:
            markup = b"event: %b\ndata: %b\n\n"
            frames.extend([Frame(one, names[name], markup % (name, one)) for name, one in found])
        else:
            frames.extend([Frame(one, names[name]) for name, one in found])
        return True

    def _find_any(self, data: bytes, frames: list[Frame]) -> int:
        """Take the frames one by one and return where the last one ends."""
        limit = self._limits.max_sse_event_bytes
        start = 0
        while (end := data.find(b"\n\n", start)) >= 0:
            if end == start:
                start = self._skip_blank(data, start, frames)
                continue
            if end - start > limit:
                raise TooLargeError("max_sse_event_bytes", limit)
            self._dispatch(data[start:end].split(b"\n"), data[start : end + 2], frames)
            start = end + 2
        return start

    def _skip_blank(self, data: bytes, start: int, frames: list[Frame]) -> int:
        """Take all empty events from `start` on as one, and return where they end.

        A peer can pack a million of them into a few KiB.
        """
        run = _EMPTY_EVENTS.match(data, start)
        end = start if run is None else run.end()
        self._count += (end - start) // 2
        if self._keep_raw:
            self._count -= 1  # it is counted with the others
            frames.append(Frame(b"", "", data[start:end]))
        return end

    def _split_lines(self, data: bytes, frames: list[Frame]) -> None:
        """Find frames by any spelling of the blank line, for streams that use carriage returns.

        A frame leaves at the first byte that ends it; if that is a CR whose LF comes later, the LF
        begins the next frame as an empty line, which means nothing.
        """
        if not data:
            return
        parts = self._parts
        tail = parts[-1][-1:] if parts else b""
        parts.append(data)
        self.held += len(data)
        if not _BLANK_LINE.search(tail + data):
            return
        block = b"".join(parts)
        self._parts = []
        limit = self._limits.max_sse_event_bytes
        start = 0
        for match in _BLANK_LINE.finditer(block):
            if match.start() - start > limit:
                raise TooLargeError("max_sse_event_bytes", limit)
            lines = _LINE_END.split(block[start : match.start()])
            self._dispatch(lines, block[start : match.end()], frames)
            start = match.end()
        rest = block[start:]
        if rest:
            self._parts = [rest]
        self.held = len(rest)

    def _dispatch(
        self, lines: list[bytes], raw: bytes, frames: list[Frame], *, whole: bool = True
    ) -> None:
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
        if not self._keep_raw:
            raw = b""
            if not data:
                self._count += 1
                return
        frames.append(Frame(b"\n".join(data), name.decode("utf-8", "replace"), raw, whole))


# A line end directly followed by another, in any of the three spellings.
_BLANK_LINE: Final = re.compile(rb"(?:\r\n|\r(?!\n)|\n)(?:\r\n|\r|\n)")


def encode_event(name: str, data: bytes) -> bytes:
    """Write one named event: LF only, one `data` line, one blank line after."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), data)


def encode_data(data: bytes) -> bytes:
    """Write one event without a name."""
    return b"data: %b\n\n" % data


def _large_events(data: bytes, end: int, *, named: bool) -> list[tuple[bytes, bytes]]:
    """Return name and data of the events up to `end`, or nothing if one of them has other lines.

    Copies the data of an event once: other threads wait while bytes are copied.
    """
    found: list[tuple[bytes, bytes]] = []
    start = 0
    while start < end:
        name = b""
        if named:
            line = data.find(b"\n", start, end)
            if not data.startswith(b"event: ", start):
                return []
            name, start = data[start + 7 : line], line + 1
        stop = data.find(b"\n", start, end)
        if not data.startswith(b"data: ", start) or not data.startswith(b"\n\n", stop):
            return []
        found.append((name, data[start + 6 : stop]))
        start = stop + 2
    return found
