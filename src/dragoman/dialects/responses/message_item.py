"""The message item: text and refusals that follow each other are its parts."""

from typing import Final

from msgspec import Raw

from dragoman.dialects.encoding import encode
from dragoman.dialects.responses.answer import annotation, one_line
from dragoman.dialects.responses.output import Output
from dragoman.dialects.runs import TextRun
from dragoman.turn.events import Citation

# The hot path: one text delta.  What does not change while a part is open is filled in once.
_DELTA: Final = (
    b"event: response.output_text.delta\n"
    b'data: {"type":"response.output_text.delta","sequence_number":%%d,'
    b'"item_id":"%b","output_index":%d,"content_index":%d,"delta":%%b,"logprobs":%%b}\n\n'
)


class MessageWriter:
    """Write message items, one after another."""

    def __init__(self, output: Output) -> None:
        self.part_open = False
        self.open = False
        self._output = output
        self._id = ""
        self._at = b""  # the fields that say which part an event is about
        self._parts: list[bytes] = []  # those that are whole
        self._kind = ""  # of the open part: output_text or refusal
        self._template = b""  # of its text deltas
        self._texts: list[str] = []
        self._annotations: list[bytes] = []
        self._waiting: list[Citation] = []  # for the end of the part
        self._logprobs: list[bytes] = []

    def open_part(self, kind: str) -> bytes:
        """Begin a part, and the message if none is open."""
        output = self._output
        out = b""
        if not self.open:
            self.open = True
            self._id = output.new_id("msg_", "message")
            self._parts = []
            out = output.added(self._item(b"in_progress"))
        self.part_open = True
        self._kind = kind
        self._texts, self._annotations, self._waiting, self._logprobs = [], [], [], []
        where = (self._id.encode(), output.index, len(self._parts))
        self._template = _DELTA % where
        self._at = b'"item_id":"%b","output_index":%d,"content_index":%d' % where
        return out + self._event("response.content_part.added", b'"part":%b' % self._part(b'""'))

    def text(self, text: str, logprobs: Raw | None = None) -> bytes:
        """Add text to the open part."""
        self._texts.append(text)
        tokens = b"[]"
        if logprobs is not None:
            tokens = one_line(logprobs)
            self._logprobs.append(tokens.strip()[1:-1])
        output = self._output
        out = self._template % (output.sequence, encode(text), tokens)
        output.sequence += 1
        return out

    def run(self, run: TextRun) -> bytes:
        """Add texts to the open part, each with a delta of its own."""
        self._texts.append(run.text)
        output, template = self._output, self._template
        first = output.sequence
        output.sequence += len(run.bodies)
        deltas = enumerate(run.bodies, first)
        return b"".join([template % (at, b'"%b"' % body, b"[]") for at, body in deltas])

    def refuse(self, text: str) -> bytes:
        """Add to the open refusal; one that is shown as text is text."""
        if self._kind == "output_text":
            return self.text(text)
        self._texts.append(text)
        return self._event("response.refusal.delta", b'"delta":%b' % encode(text))

    def cite(self, citation: Citation) -> bytes | None:
        """Add a citation to the open part; None if it cannot be said here.

        One without a place is about the whole part and waits for its end, and so do those after it.
        """
        if annotation(citation, 0) is None:
            return None
        unplaced = citation.url and (citation.start is None or citation.end is None)
        if unplaced or self._waiting:
            self._waiting.append(citation)
            return b""
        return self._annotate(citation, 0)

    def _annotate(self, citation: Citation, length: int) -> bytes:
        note = annotation(citation, length)
        assert note is not None  # noqa: S101 -- `cite` looked
        fields = b'"annotation_index":%d,"annotation":%b' % (len(self._annotations), note)
        self._annotations.append(note)
        return self._event("response.output_text.annotation.added", fields)

    def close_part(self) -> bytes:
        """End the open part; the message stays open for more."""
        said = "".join(self._texts)
        out = b"".join(self._annotate(citation, len(said)) for citation in self._waiting)
        text = encode(said)
        whole = self._part(text)
        if self._kind == "refusal":
            out += self._event("response.refusal.done", b'"refusal":%b' % text)
        else:
            fields = b'"text":%b,"logprobs":[%b]' % (text, b",".join(self._logprobs))
            out += self._event("response.output_text.done", fields)
        out += self._event("response.content_part.done", b'"part":%b' % whole)
        self._parts.append(whole)
        self.part_open = False
        return out

    def close(self, *, cut: bool = False) -> bytes:
        """End the message, if one is open."""
        if not self.open:
            return b""
        self.open = False
        return self._output.done(self._item(b"incomplete" if cut else b"completed"))

    def _event(self, name: str, fields: bytes) -> bytes:
        return self._output.event(name, b"%b,%b" % (self._at, fields))

    def _item(self, status: bytes) -> bytes:
        return b'{"id":"%b","type":"message","role":"assistant","status":"%b","content":[%b]}' % (
            self._id.encode(),
            status,
            b",".join(self._parts),
        )

    def _part(self, text: bytes) -> bytes:
        """Return the open part as JSON; `text` is what it says, as JSON too."""
        if self._kind == "refusal":
            return b'{"type":"refusal","refusal":%b}' % text
        logprobs = b',"logprobs":[%b]' % b",".join(self._logprobs) if self._logprobs else b""
        return b'{"type":"output_text","text":%b,"annotations":[%b]%b}' % (
            text,
            b",".join(self._annotations),
            logprobs,
        )
