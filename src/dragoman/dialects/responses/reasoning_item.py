"""The reasoning item: parts of a summary, or reasoning text, and the state that goes with them."""

from typing import Literal

from dragoman.dialects.encoding import encode
from dragoman.dialects.responses.output import Output
from dragoman.turn.events import Channel


class ReasoningWriter:
    """Write reasoning items, one after another."""

    def __init__(self, output: Output, shown_as: Literal["summary", "content"]) -> None:
        self.open = False
        self._output = output
        self._shown_as = shown_as  # how the model's full reasoning is shown
        self._id = ""
        self._key: tuple[Channel, int] | None = None  # of the open segment
        self._in_summary = True  # the open segment is a part of the summary
        self._at = b""  # the fields that say which segment an event is about
        self._texts: list[str] = []  # of the open segment
        self._summary: list[str] = []  # segments that are whole
        self._content: list[str] = []
        self._all: list[str] = []

    def begin(self) -> bytes:
        """Open an item."""
        self.open = True
        self._id = self._output.new_id("rs_", "reasoning")
        self._key = None
        self._summary, self._content, self._all = [], [], []
        return self._output.added(reasoning_item(self._id, [], [], None))

    def text(self, text: str, channel: Channel, part: int) -> bytes:
        """Add reasoning."""
        out = b""
        if self._key != (channel, part):
            out = self._close_segment()
            self._key = (channel, part)
            out += self._open_segment(channel)
        self._texts.append(text)
        name = "reasoning_summary_text" if self._in_summary else "reasoning_text"
        return out + self._event(f"response.{name}.delta", b'"delta":%b' % encode(text))

    def end_text(self) -> tuple[bytes, str]:
        """End the last segment; return its events, and all text of the item."""
        out = self._close_segment()
        return out, "\n\n".join(self._all)

    def close(self, sealed: str | None) -> bytes:
        """End the item, with the state that its client is to send back."""
        self.open = False
        return self._output.done(reasoning_item(self._id, self._summary, self._content, sealed))

    def _open_segment(self, channel: Channel) -> bytes:
        self._texts = []
        self._in_summary = channel is Channel.SUMMARY or self._shown_as == "summary"
        if self._in_summary:
            index, number = b"summary_index", len(self._summary)
            name, kind = "response.reasoning_summary_part.added", b"summary_text"
        else:
            index, number = b"content_index", len(self._content)
            name, kind = "response.content_part.added", b"reasoning_text"
        self._at = b'"item_id":"%b","output_index":%d,"%b":%d' % (
            self._id.encode(),
            self._output.index,
            index,
            number,
        )
        return self._event(name, b'"part":{"type":"%b","text":""}' % kind)

    def _close_segment(self) -> bytes:
        if self._key is None:
            return b""
        self._key = None
        whole = "".join(self._texts)
        self._all.append(whole)
        if self._in_summary:
            self._summary.append(whole)
            kind = b"summary_text"
            names = ("response.reasoning_summary_text.done", "response.reasoning_summary_part.done")
        else:
            self._content.append(whole)
            kind = b"reasoning_text"
            names = ("response.reasoning_text.done", "response.content_part.done")
        text = encode(whole)
        return self._event(names[0], b'"text":%b' % text) + self._event(
            names[1], b'"part":{"type":"%b","text":%b}' % (kind, text)
        )

    def _event(self, name: str, fields: bytes) -> bytes:
        return self._output.event(name, b"%b,%b" % (self._at, fields))


def reasoning_item(
    item_id: str, summary: list[str], content: list[str], sealed: str | None
) -> bytes:
    """Return a reasoning item as JSON."""
    item: dict[str, object] = {
        "id": item_id,
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": text} for text in summary],
    }
    if content:
        item["content"] = [{"type": "reasoning_text", "text": text} for text in content]
    if sealed is not None:
        item["encrypted_content"] = sealed
    return encode(item)
