"""Neighbouring deltas as one: how streams that were cut differently are compared."""

from collections.abc import Iterable

from msgspec import structs

from dragoman.turn.events import (
    ArgsDelta,
    Event,
    InputDelta,
    ReasoningDelta,
    RefusalDelta,
    TextDelta,
)


def merged(events: Iterable[Event]) -> list[Event]:
    """Return the events with neighbouring deltas of the same block and kind joined."""
    out: list[Event] = []
    pieces: list[str] = []  # of the delta that stands last in `out`
    for event in events:
        if out and _continues(out[-1], event):
            pieces.append(_text(event))
            continue
        _flush(out, pieces)
        out.append(event)
        pieces = [_text(event)]
    _flush(out, pieces)
    return out


def _flush(out: list[Event], pieces: list[str]) -> None:
    if len(pieces) > 1:
        last = out[-1]
        whole = "".join(pieces)
        if isinstance(last, ArgsDelta):
            out[-1] = ArgsDelta(last.index, whole)
        else:
            out[-1] = structs.replace(last, text=whole)


def _text(event: Event) -> str:
    if isinstance(event, ArgsDelta):
        return event.json
    if isinstance(event, TextDelta | ReasoningDelta | InputDelta | RefusalDelta):
        return event.text
    return ""


def _continues(last: Event, event: Event) -> bool:
    """Say whether `event` adds to the delta `last`."""
    if type(last) is not type(event):
        return False
    match event:
        case TextDelta(index=index, logprobs=None):
            return isinstance(last, TextDelta) and last.logprobs is None and last.index == index
        case ReasoningDelta(index=index, channel=channel, part=part):
            return isinstance(last, ReasoningDelta) and (index, channel, part) == (
                last.index,
                last.channel,
                last.part,
            )
        case ArgsDelta() | InputDelta() | RefusalDelta():
            return event.index == last.index  # type: ignore[union-attr]  # same type as event
        case _:
            return False
