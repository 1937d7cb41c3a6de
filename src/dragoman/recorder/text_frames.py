"""Bytes of a stream in which one frame is repeated with other text, so that the frame is looked at only once.

Most bytes of a fast stream are such frames, and a recording has each text three times: as the upstream sent it, as an
event, and as the client got it.  The events give the texts.  If these have no secret and the frame around them has
none, then a run of these frames has none, and only the frame has to be escaped.
"""

from itertools import pairwise
from typing import Final

import msgspec
from msgspec import Struct

from dragoman.redaction import Blotter, escape

_TEXT: Final = b'"text":"'
_FRAME_END: Final = b"\n\n"
_MOST_BEFORE: Final = 16  # frames before the first one of a run
_MOST_TRIES: Final = 3  # to find the frame: others differ in more than their text
_PROBE: Final = b"words-of-a-text"
_STRING: Final = msgspec.json.Decoder(str)


class Texts(Struct, frozen=True):
    """The texts of a run of events."""

    bodies: list[bytes]  # as the inside of JSON strings
    escaped: list[bytes]  # and these once more, as the inside of a JSON string that holds JSON
    joined: bytes


def texts_of(run: bytes) -> Texts | None:
    """Return the texts of the events of a run, as `encode_meaning` writes them; None: they are not one text."""
    begin = run[: run.index(_TEXT) + len(_TEXT)]
    bodies = run[len(begin) : -2].split(b'"},' + begin)
    if b"\\" not in run:
        return Texts(bodies, bodies, b"".join(bodies))
    lines = b"\n".join(bodies)  # JSON has no line feed inside of a string
    escaped = lines.replace(b"\\", b"\\\\").replace(b'"', b'\\"').split(b"\n")
    try:
        joined = _STRING.decode(b'"%b"' % b"".join(bodies)).encode()
    except (msgspec.DecodeError, UnicodeEncodeError):
        return None
    return Texts(bodies, escaped, joined)


class TextFrames:
    """The frame that one side of an exchange repeats."""

    def __init__(self, blotter: Blotter) -> None:
        self._blotter = blotter
        self._tries_left = _MOST_TRIES
        self._before = self._after = b""  # the text
        self._escaped_before = self._escaped_after = b""

    def escape(self, data: bytes, texts: Texts) -> list[bytes] | None:
        """Return bytes without secrets as the inside of a JSON string, in parts; `texts` must have no secret.

        None: they do not have a run of frames with these texts.
        """
        start = self._find(data, texts.bodies)
        if start < 0:
            return None
        before, after = self._before, self._after
        run = (after + before).join(texts.bodies)
        end = start + len(before) + len(run)
        if not (data.startswith(run, start + len(before)) and data.startswith(after, end)):
            return None
        blot_escaped = self._blotter.blot_escaped
        glue = self._escaped_after + self._escaped_before
        return [
            blot_escaped(data[:start]),
            self._escaped_before,
            glue.join(texts.escaped),
            self._escaped_after,
            blot_escaped(data[end + len(after) :]),
        ]

    def _find(self, data: bytes, bodies: list[bytes]) -> int:
        """Return where the first frame begins; -1: nowhere."""
        if self._before:
            start = data.find(self._before + bodies[0] + self._after)
            if start >= 0:
                return start
        if not self._tries_left or not self._learn(data, bodies):
            return -1
        return data.find(self._before + bodies[0] + self._after)

    def _learn(self, data: bytes, bodies: list[bytes]) -> bool:
        """Find the first two texts in two frames that are the same around them."""
        self._tries_left -= 1
        first, second = b'"%b"' % bodies[0], bodies[1]
        frames = data.split(_FRAME_END, _MOST_BEFORE + 2)[:-1]
        for frame, following in pairwise(frames):
            at = frame.find(first)
            while at >= 0:
                before, after = frame[: at + 1], frame[at + len(first) - 1 :]
                if following == before + second + after:
                    return self._keep(before, after + _FRAME_END)
                at = frame.find(first, at + 1)
        return False

    def _keep(self, before: bytes, after: bytes) -> bool:
        if self._blotter.finds(before + _PROBE + after):
            return False
        self._escaped_before, self._escaped_after = map(escape, (before, after))
        self._before, self._after = before, after
        self._tries_left = _MOST_TRIES
        return True
