"""Turns events into bytes, the same for all dialects."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest
from typing import Final

import msgspec

from dragoman.simulator.play import Fields, Frame, Style

_ENCODER: Final = msgspec.json.Encoder()
_COMMENT: Final = b": keep-alive\n\n"


def encode(frames: Iterable[Frame], style: Style) -> list[bytes]:
    """Return the bytes of each event."""
    out = list(_encoded(frames, style))
    return [one.replace(b"\n", b"\r\n") for one in out] if style.crlf else out


def _encoded(frames: Iterable[Frame], style: Style) -> Iterator[bytes]:
    write = _ENCODER.encode
    for frame in frames:
        if style.comments:
            yield _COMMENT
        if frame.raw:
            yield frame.raw
        elif frame.event and style.event_lines:
            yield b"event: %b\ndata: %b\n\n" % (frame.event.encode(), write(frame.data))
        else:
            yield b"data: %b\n\n" % write(frame.data)


def encode_list(frames: Sequence[Frame]) -> list[bytes]:
    """Return the events as one JSON list, each with what comes before it, as Google does without `alt=sse`."""
    out = [b"%b%b" % (b",\r\n" if at else b"[", _object(one)) for at, one in enumerate(frames)]
    return [*out, b"]"]


def _object(frame: Frame) -> bytes:
    return frame.raw.removeprefix(b"data: ").strip() if frame.raw else _ENCODER.encode(frame.data)


def encode_body(fields: Fields) -> bytes:
    """Return a complete body."""
    return _ENCODER.encode(fields)


def in_turns(lists: Sequence[list[Frame]]) -> list[Frame]:
    """Take one event of each list in turn."""
    return [one for row in zip_longest(*lists) for one in row if one is not None]
