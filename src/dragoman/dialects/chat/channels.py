"""What a message says in its channels: content, reasoning, refusal.

Each character is told once, whole, and in the channel it came in, whichever of a server's fields it
stands in.  Knows deltas; must not know how a stream ends.
"""

from typing import Final

import msgspec
from msgspec import Raw

from dragoman.dialects.chat.details import Details
from dragoman.dialects.chat.schema import PARTS, ContentPart, Delta, Logprobs, is_given
from dragoman.dialects.decoding import decode
from dragoman.dialects.surrogates import Halves, mended
from dragoman.errors import Malformed
from dragoman.turn.assembly import Assembler
from dragoman.turn.events import OpaqueKind

_CHANNELS: Final = ("content", "reasoning", "refusal")


class Channels:
    """The channels of one answer."""

    def __init__(self, assembler: Assembler, *, cumulative: bool) -> None:
        self._assembler = assembler
        self._lost: set[str] = set()  # what was said to be lost already
        self._cumulative = cumulative  # each delta repeats what came before it
        # Text needs more than to be passed on: something waits before it, or it repeats itself.
        self.careful = cumulative
        self.halves = Halves(lambda: assembler.loss("surrogate_replaced"))
        self._details = Details()
        self._seen: dict[str, int] = {}  # characters so far, of a peer that repeats them
        self.chars = 0  # of text so far
        self.text_base = 0  # characters before the text block that is open or comes next
        self._refused_at = -1  # `chars` when a refusal was the last thing said
        self.finished = False  # the finish reason has come
        self.reasoning_field = ""  # which field of the server's carried reasoning, if any did

    @property
    def refused(self) -> bool:
        """The last thing said was a refusal."""
        return self._refused_at == self.chars

    def lose_once(self, code: str, path: str = "", detail: str = "") -> None:
        """Report a loss, unless the same one was reported before."""
        if code + detail not in self._lost:
            self._lost.add(code + detail)
            self._assembler.loss(code, path, mended(detail))

    def content(self, content: str | list[ContentPart], logprobs: Logprobs | None) -> None:
        """Tell content that is not plain text in a plain place."""
        records = None if logprobs is None else self.token_records(logprobs, has_text=True)
        if isinstance(content, str):
            self._text(content, records)
            return
        for part in content:
            if part.type == "thinking" and is_given(part.thinking):
                self._thinking(part.thinking)
            elif part.text is not None and part.type in ("text", "output_text", ""):
                self._text(part.text, records)
                records = None
            elif part.refusal is not None:
                self.refusal(part.refusal)
            else:
                self.lose_once("part_unknown", "", part.type)

    def reasoning(self, delta: Delta) -> None:
        """Tell the reasoning of a delta once, whatever the number of fields it stands in."""
        readable = []
        self._note_field(delta)
        if is_given(delta.reasoning_details):
            try:
                readable = self._details.add(delta.reasoning_details)
            except Malformed:
                self.lose_once("part_unknown", "", "reasoning_details")
            self.careful = True
        for text, channel, part in readable:
            self.settle("reasoning")
            fresh = self._fresh("reasoning", text)
            if fresh:
                self._assembler.reasoning(fresh, channel, part)
        if not readable:
            self._think(delta.reasoning_content or delta.reasoning or "")

    def _note_field(self, delta: Delta) -> None:
        """Remember the field to give reasoning back in: the list, which may hold signatures, first."""
        if is_given(delta.reasoning_details):
            self.reasoning_field = "reasoning_details"
        elif not self.reasoning_field:
            if delta.reasoning_content:
                self.reasoning_field = "reasoning_content"
            elif delta.reasoning:
                self.reasoning_field = "reasoning"

    def refusal(self, text: str) -> None:
        self.settle("refusal")
        text = self._fresh("refusal", text)
        if text:
            self._assembler.refusal(text)
            self._refused_at = self.chars

    def token_records(self, logprobs: Logprobs, *, has_text: bool) -> Raw | None:
        """Return the token records for a text delta."""
        records = logprobs.content or ()
        if is_given(logprobs.tokens) or logprobs.refusal or (records and not has_text):
            self.lose_once("logprobs_dropped")
        if not records or not has_text:
            return None
        return Raw(msgspec.json.encode(records))

    def settle(self, channel: str) -> None:
        """Get ready for something said in `channel`."""
        if channel != "content":
            self.text_base = self.chars
            self._refused_at = -1
        if self.finished:
            self.lose_once("content_after_finish")
        self._release(channel)

    def end(self) -> None:
        """Tell everything that waited."""
        self._release()
        self.give_up()

    def give_up(self) -> None:
        """Stop waiting for the other halves of characters."""
        self._tell_halves()

    def _text(self, text: str, logprobs: Raw | None) -> None:
        self.settle("content")
        text = self._fresh("content", text)
        if text:
            self.chars += len(text)
            self._assembler.text(text, logprobs)

    def _thinking(self, raw: Raw) -> None:
        """Tell the reasoning of a content part: a string, or parts again."""
        try:
            parts = decode(PARTS, bytes(raw))
        except Malformed:
            self.lose_once("part_unknown", "", "thinking")
            return
        for text in [parts] if isinstance(parts, str) else [part.text or "" for part in parts]:
            self._think(text)

    def _think(self, text: str) -> None:
        if not text:
            return
        self.settle("reasoning")
        text = self._fresh("reasoning", text)
        if text:
            self._assembler.reasoning(text)

    def _fresh(self, channel: str, text: str) -> str:
        """Return what of `text` is new and whole."""
        if self._cumulative:
            seen = self._seen.get(channel, 0)
            self._seen[channel] = max(seen, len(text))
            text = text[seen:]
        return self.halves.join(channel, text)

    def _release(self, channel: str = "") -> None:
        """Tell what waited in channels other than `channel`."""
        if self.halves:
            self._tell_halves(*(one for one in _CHANNELS if one != channel))
        if self._details and channel != "reasoning":
            self._assembler.opaque(OpaqueKind.DETAILS, self._details.take())

    def _tell_halves(self, *channels: str) -> None:
        for channel, text in self.halves.release(*channels):
            match channel:
                case "content":
                    self._assembler.text(text)
                case "reasoning":
                    self._assembler.reasoning(text)
                case "refusal":
                    self._assembler.refusal(text)
                case _ if self._assembler.knows_call(channel):
                    self._assembler.args(channel, text)
