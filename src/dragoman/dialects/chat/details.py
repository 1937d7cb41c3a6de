"""`reasoning_details`: a list of typed entries that must go back to its vendor as it came."""

import json
from typing import Any, Final

import msgspec
from msgspec import Raw

from dragoman.dialects.decoding import decode
from dragoman.dialects.sealing import seal
from dragoman.dialects.surrogates import mended
from dragoman.exchange import Exchange
from dragoman.turn.events import Channel, OpaqueKind
from dragoman.turn.fold import Block
from dragoman.wire.json_values import read_float

_LIST: Final[msgspec.json.Decoder[list[dict[str, Any]] | None]] = msgspec.json.Decoder(
    list[dict[str, Any]] | None, float_hook=read_float
)
# Which field of an entry is reasoning to be shown, by its type.
_READABLE: Final = {
    "reasoning.text": ("text", Channel.FULL),
    "reasoning.summary": ("summary", Channel.SUMMARY),
}


class Details:
    """Gather the entries of a stream: readable text as it comes, the merged list at the end."""

    def __init__(self) -> None:
        self._entries: list[dict[str, Any]] = []
        self._by_place: dict[tuple[str, int], dict[str, Any]] = {}  # by type and index
        self._summaries = 0  # summary entries so far

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, raw: Raw) -> list[tuple[str, Channel, int]]:
        """Take a delta's list and return its readable text: text, channel and part.

        Raises:
            Malformed: it is no list of objects.
        """
        readable: list[tuple[str, Channel, int]] = []
        for entry in decode(_LIST, bytes(raw)) or ():
            self._merge(entry)
            kind = entry.get("type")
            field, channel = _READABLE.get(
                kind if isinstance(kind, str) else "", ("", Channel.FULL)
            )
            text = entry.get(field)
            if isinstance(text, str) and text:
                part = self._summaries - 1 if channel is Channel.SUMMARY else 0
                readable.append((text, channel, part))
        return readable

    def take(self) -> str:
        """Return the merged list as JSON, and begin anew."""
        try:
            text = msgspec.json.encode(self._entries).decode()
        except UnicodeEncodeError:  # halves of surrogate pairs
            text = mended(json.dumps(self._entries, ensure_ascii=False))
        self._entries = []
        self._by_place = {}
        self._summaries = 0
        return text

    def _merge(self, delta: dict[str, Any]) -> None:
        entry = self._entry_for(delta)
        if entry is None:
            entry = dict(delta)
            self._entries.append(entry)
            self._summaries += delta.get("type") == "reasoning.summary"
            if isinstance(delta.get("index"), int):
                self._by_place[str(delta.get("type")), delta["index"]] = entry
            return
        for key, value in delta.items():
            known = entry.get(key)
            if key in ("text", "summary") and isinstance(known, str) and isinstance(value, str):
                entry[key] = known + value
            elif value is not None or key not in entry:
                entry[key] = value

    def _entry_for(self, delta: dict[str, Any]) -> dict[str, Any] | None:
        """Return the entry that a delta continues."""
        kind, index = str(delta.get("type")), delta.get("index")
        if isinstance(index, int):
            return self._by_place.get((kind, index))
        # Without an index only running text is continued; anything else stands alone.
        last = self._entries[-1] if self._entries else {}
        return last if kind in _READABLE and last.get("type") == kind else None


def write_details(exchange: Exchange, block: Block, first: int) -> list[Raw]:
    """Return a reasoning block as entries; `first` is the index of the first one.

    Indexes count over the whole answer, for clients join entries by them.  State of another vendor goes
    into an envelope, which returns to nobody but its origin.
    """
    theirs = next((one for one in block.opaque if one.kind is OpaqueKind.DETAILS), None)
    if theirs is not None:
        entries = decode(_LIST, theirs.data.encode()) or []
    else:
        entries = _entries_of(exchange, block)
    return [
        Raw(msgspec.json.encode({**entry, "index": index}))
        for index, entry in enumerate(entries, first)
    ]


def _entries_of(exchange: Exchange, block: Block) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = []
    for segment in block.segments:
        kind = "summary" if segment.channel is Channel.SUMMARY else "text"
        entries.append({"type": f"reasoning.{kind}", kind: segment.text})
    state = next((one for one in block.opaque if one.kind is not OpaqueKind.PLAIN), None)
    envelope = seal(exchange, [state], joined(block)) if state is not None else None
    if state is not None and envelope is not None:
        if state.kind is OpaqueKind.SIGNATURE and entries:
            entries[-1]["signature"] = envelope
        else:
            entries.append({"type": "reasoning.encrypted", "data": envelope})
    return entries


def joined(block: Block) -> str:
    """Return the readable reasoning of a block; parts are set apart by a blank line."""
    return "\n\n".join(segment.text for segment in block.segments)
