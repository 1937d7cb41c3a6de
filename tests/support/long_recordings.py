"""Recordings of long answers: a recorded answer whose text goes on for a while before its tool call."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from dragoman.recorder.lines import (
    Events,
    Line,
    Payload,
    Read,
    Written,
    encode_events,
    encode_line,
)
from dragoman.recorder.recording import read_recording
from dragoman.recorder.replay import EventCollector, recorded_translator
from tests.support.recordings import RECORDING

_TEXT = re.compile(rb'"content":"[^"]+"')


def write_long(
    target: Path, *, chunks: int, per_read: int = 8, chars: int = 0, exchange: str = "req_long"
) -> Path:
    """Write a recording with so many chunks of text, which are numbered; so many of them came at once.

    Each chunk has so many more characters.
    """
    recording = read_recording(RECORDING)
    attempt = recording.answered
    assert attempt is not None
    assert attempt.reply is not None
    assert attempt.reply.translation is not None
    assert recording.received is not None
    assert recording.outcome is not None
    collector = EventCollector()
    translator, _ = recorded_translator(recording, attempt, attempt.reply.translation, collector)
    opening = msgspec.structs.replace(recording.opening, id=exchange)
    path = target / f"20261117T090000.000Z-{exchange}.dragoman"
    at, known = attempt.reply.at, 0
    with path.open("wb") as file:

        def write(line: Line) -> None:
            file.write(encode_line(line))

        for line in (opening, recording.received, attempt.sent, attempt.reply):
            write(line)
        frames = list(_frames(b"".join(attempt.pieces()), chunks, "x" * chars))
        for start in range(0, len(frames), per_read):
            at += 0.25
            data = b"".join(frames[start : start + per_read])
            last = start + per_read >= len(frames)
            sent = translator.feed(data) + (translator.close() if last else b"")
            write(Read(at=at, size=len(data), data=Payload.of(data), ended=last))
            write(Events(events=encode_events(collector.events[known:])))
            known = len(collector.events)
            if sent:
                write(Written(at=at + 0.1, data=Payload.of(sent)))
        write(msgspec.structs.replace(recording.outcome, at=at + 1))
    return path


def _frames(data: bytes, chunks: int, more: str) -> Iterator[bytes]:
    """Yield the events of a stream, with many chunks of text in the place of the first one."""
    frames = [frame + b"\n\n" for frame in data.split(b"\n\n") if frame]
    first = next(number for number, frame in enumerate(frames) if _TEXT.search(frame))
    yield from frames[:first]
    for number in range(chunks):
        text = f'"content":"part {number} {more}"'
        yield _TEXT.sub(text.encode(), frames[first], count=1)
    yield from frames[first + 1 :]


def unfolded(links: list[Any]) -> list[Any]:
    """Return links as the page unfolds them: one that is repeated, as often as it is."""
    return [
        {
            "block": link["block"],
            **{
                name: [row + time * len(link[name]) for row in link[name]]
                for name in ("up", "ev", "client")
            },
        }
        for link in links
        for time in range(link["times"])
    ]
