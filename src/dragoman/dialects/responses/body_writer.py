"""Writes the response object, which is a complete body and part of a stream's first and last events, and its items.

A response repeats the settings of its request.  They are taken from the request as the client wrote
them; a setting that it lacks has the dialect's own default.

An item is written while its block arrives: as events, and in the end as the item that the response object has.
"""

from collections.abc import Sequence
from typing import Final, Literal

import msgspec
from msgspec import Raw

from dragoman.context import Exchange
from dragoman.dialects.decoding import entries_of
from dragoman.dialects.encoding import encode, one_line
from dragoman.dialects.identity import identity_of
from dragoman.dialects.responses.errors import stream_error
from dragoman.dialects.responses.request_reader import ResponsesRequest
from dragoman.dialects.responses.schema import NULL, RelayedItem
from dragoman.dialects.responses.tools_reader import BY_FLAVOR, content_of
from dragoman.ids import derived_id
from dragoman.turn.events import (
    BlockKind,
    BlockStart,
    Channel,
    Citation,
    DeltaRun,
    Fault,
    Flavor,
    Start,
    Usage,
)
from dragoman.turn.server_tools import ServerKind, host_of

# --- the response object --------------------------------------------------------------------------

# Settings that a response repeats, with their defaults.
_ECHOES: Final[tuple[tuple[str, bytes], ...]] = (
    ("background", b"false"),
    ("instructions", b"null"),
    ("max_output_tokens", b"null"),
    ("max_tool_calls", b"null"),
    ("metadata", b"{}"),
    ("parallel_tool_calls", b"true"),
    ("previous_response_id", b"null"),
    ("prompt_cache_key", b"null"),
    ("reasoning", b'{"effort":null,"summary":null}'),
    ("safety_identifier", b"null"),
    ("service_tier", b"null"),
    ("store", b"true"),
    ("temperature", b"null"),
    ("text", b'{"format":{"type":"text"}}'),
    ("tool_choice", b'"auto"'),
    ("tools", b"[]"),
    ("top_logprobs", b"null"),
    ("top_p", b"null"),
    ("truncation", b'"disabled"'),
    ("user", b"null"),
)


class ResponseHead:
    """What all response objects of one answer have in common."""

    def __init__(self, exchange: Exchange, start: Start) -> None:
        self.seed: str = exchange.seed or start.id
        who = identity_of(start, exchange, prefix="resp_", what="response")
        self._head = b'{"id":%b,"object":"response","created_at":%d,"model":%b' % (
            encode(who.id),
            who.created,
            encode(who.model),
        )
        self._echo = _echo(exchange)
        self._given = exchange.given if exchange.notes_ids else None
        self._note(who.id)

    def _note(self, one: str) -> None:
        """Record an id that the client gets."""
        if self._given is not None:
            self._given.add(one)

    def item_id(self, prefix: str, index: int) -> str:
        """Return the id of the item at an output index."""
        item_id = derived_id(prefix, self.seed, f"item {index}")
        self._note(item_id)
        return item_id

    def render(
        self,
        status: bytes,
        *,
        output: bytes = b"",
        usage: Usage | None = None,
        fault: Fault | None = None,
        incomplete: bytes = b"",
    ) -> bytes:
        """Return the response object in its current state."""
        head = b'%b,"status":"%b","error":%b,"incomplete_details":%b,"output":[' % (
            self._head,
            status,
            b"null" if fault is None else encode(stream_error(fault)),
            b'{"reason":"%b"}' % incomplete if incomplete else b"null",
        )
        tail = b'],"usage":%b%b}' % (b"null" if usage is None else _usage(usage), self._echo)
        return b"".join((head, output, tail))


def _echo(exchange: Exchange) -> bytes:
    request = exchange.request
    given = request.settings if isinstance(request, ResponsesRequest) else {}
    if exchange.previous_id:
        given = given | {"previous_response_id": Raw(encode(exchange.previous_id))}
    has_mcp = request is not None and any(tool.does is ServerKind.MCP for tool in request.tools)
    fields: list[bytes] = []
    for name, default in _ECHOES:
        value = given.get(name, NULL)
        if name == "tools" and has_mcp:
            value = _without_keys(value)
        fields.append(b',"%b":%b' % (name.encode(), default if value == NULL else one_line(value)))
    return b"".join(fields)


def _without_keys(tools: Raw) -> Raw:
    """Return the tools without the user's keys for MCP servers: responses may be stored, and the vendor's have none."""
    kept = [
        {name: value for name, value in _OBJECT.decode(one).items() if name not in _KEYS}
        for one in entries_of(tools)
    ]
    return Raw(encode(kept))


_KEYS: Final = frozenset({"authorization", "headers"})
_OBJECT: Final[msgspec.json.Decoder[dict[str, Raw]]] = msgspec.json.Decoder(dict[str, Raw])


def _usage(usage: Usage) -> bytes:
    return (
        b'{"input_tokens":%d,"input_tokens_details":{"cached_tokens":%d,"cache_write_tokens":%d},'
        b'"output_tokens":%d,"output_tokens_details":{"reasoning_tokens":%d},"total_tokens":%d}'
    ) % (
        usage.prompt_tokens,
        usage.cache_read_tokens,
        usage.cache_write_5m_tokens + usage.cache_write_1h_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
        usage.prompt_tokens + usage.output_tokens,
    )


def annotation(citation: Citation, length: int) -> bytes | None:
    """Return a citation as an annotation of a text that has `length` characters so far."""
    if citation.url:
        return encode(
            {
                "type": "url_citation",
                "url": citation.url,
                "title": citation.title or host_of(citation.url),
                "start_index": 0 if citation.start is None else citation.start,
                "end_index": length if citation.end is None else citation.end,
            }
        )
    if citation.vendor == "openai" and citation.raw != NULL:
        return one_line(citation.raw)
    return None


# --- numbered events ------------------------------------------------------------------------------


class Output:
    """Number the events of one answer and keep its items."""

    def __init__(self) -> None:
        self.head: ResponseHead | None = None  # known from the start of the answer on
        self.sequence: int = 0  # of the next event
        self.items: list[bytes] = []  # finished ones
        self.skipped = 0  # items that were forwarded and caused no events
        self.known: dict[int, RelayedItem] = {}  # by output index: items that the upstream added

    @property
    def index(self) -> int:
        """The output index of the item that is open, or of the next one."""
        return len(self.items) + self.skipped

    def new_id(self, prefix: str, kind: str) -> str:
        """Return the id of the item at the present index: the upstream's, if it added this item."""
        assert self.head is not None  # noqa: S101 -- items come after the start
        known = self.known.get(self.index)
        if known is not None and known.type == kind and known.id:
            return known.id
        return self.head.item_id(prefix, self.index)

    def event(self, name: str, *fields: bytes) -> bytes:
        """Return one event; `fields` are pieces of JSON that follow one another.

        Large bytes are joined and never formatted: `join` lets other threads run, `%` does not.
        """
        word = name.encode()
        head = b'event: %b\ndata: {"type":"%b","sequence_number":%d,' % (word, word, self.sequence)
        self.sequence += 1
        return b"".join((head, *fields, b"}\n\n"))

    def deltas(self, name: str, at: bytes, bodies: Sequence[bytes]) -> bytes:
        """Return an event for each text, the inside of a JSON string; `at` are its other fields."""
        word = name.encode()
        head = b'event: %b\ndata: {"type":"%b","sequence_number":' % (word, word)
        middle = b',%b,"delta":"' % at
        first = self.sequence
        self.sequence += len(bodies)
        numbered = enumerate(bodies, first)
        return b"".join([b'%b%d%b%b"}\n\n' % (head, one, middle, body) for one, body in numbered])

    def added(self, item: bytes) -> bytes:
        """Announce an item."""
        return self.event(
            "response.output_item.added", b'"output_index":%d,"item":' % self.index, item
        )

    def done(self, item: bytes) -> bytes:
        """Finish an item."""
        at = b'"output_index":%d,"item":' % self.index
        self.items.append(item)
        return self.event("response.output_item.done", at, item)

    def left_open(self, item: bytes) -> None:
        """Keep an item for the response at the end without finishing it."""
        self.items.append(item)

    def whole(self, item: bytes) -> bytes:
        """Write an item that is complete from the start: its `added` and `done` events."""
        return self.added(item) + self.done(item)


# --- message items --------------------------------------------------------------------------------

# The hot path: one text delta.  What does not change while a part is open is filled in once.
_DELTA: Final = (
    b"event: response.output_text.delta\n"
    b'data: {"type":"response.output_text.delta","sequence_number":%%d,'
    b'"item_id":"%b","output_index":%d,"content_index":%d,"delta":%%b,"logprobs":%%b}\n\n'
)


class MessageWriter:
    """Write message items, one after another."""

    def __init__(self, output: Output) -> None:
        self.part_open: bool = False
        self.open: bool = False
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

    def run(self, run: DeltaRun) -> bytes:
        """Add texts to the open part, each with its own delta."""
        self._texts.append(run.text)
        output, template = self._output, self._template
        first = output.sequence
        output.sequence += len(run.bodies)
        deltas = enumerate(run.bodies, first)
        return b"".join([template % (at, b'"%b"' % body, b"[]") for at, body in deltas])

    def keep(self, text: str) -> None:
        """Count text of the open part that was sent."""
        self._texts.append(text)

    def refuse(self, text: str) -> bytes:
        """Add text to the open refusal, or to the open text if refusals are shown as text."""
        if self._kind == "output_text":
            return self.text(text)
        self._texts.append(text)
        return self._event("response.refusal.delta", b'"delta":', encode(text))

    def cite(self, citation: Citation) -> bytes | None:
        """Add a citation to the open part; None if the dialect cannot express it.

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
        joined = "".join(self._texts)
        out = b"".join(self._annotate(citation, len(joined)) for citation in self._waiting)
        text = encode(joined)
        whole = self._part(text)
        if self._kind == "refusal":
            done = self._event("response.refusal.done", b'"refusal":', text)
        else:
            logprobs = b',"logprobs":[%b]' % b",".join(self._logprobs)
            done = self._event("response.output_text.done", b'"text":', text, logprobs)
        part_done = self._event("response.content_part.done", b'"part":', whole)
        self._parts.append(whole)
        self.part_open = False
        return b"".join((out, done, part_done))

    def close(self, *, cut: bool = False) -> bytes:
        """End the message, if one is open."""
        if not self.open:
            return b""
        self.open = False
        return self._output.done(self._item(b"incomplete" if cut else b"completed"))

    def _event(self, name: str, *fields: bytes) -> bytes:
        return self._output.event(name, self._at, b",", *fields)

    def _item(self, status: bytes) -> bytes:
        head = b'{"id":"%b","type":"message","role":"assistant","status":"%b","content":[' % (
            self._id.encode(),
            status,
        )
        return b"".join((head, b",".join(self._parts), b"]}"))

    def _part(self, text: bytes) -> bytes:
        """Return the open part as JSON; `text` is its text, as JSON too."""
        if self._kind == "refusal":
            return b'{"type":"refusal","refusal":%b}' % text
        logprobs = b',"logprobs":[%b]' % b",".join(self._logprobs) if self._logprobs else b""
        tail = b',"annotations":[%b]%b}' % (b",".join(self._annotations), logprobs)
        return b"".join((b'{"type":"output_text","text":', text, tail))


# --- reasoning items ------------------------------------------------------------------------------


class ReasoningWriter:
    """Write reasoning items, one after another."""

    def __init__(self, output: Output, shown_as: Literal["summary", "content"]) -> None:
        self.open: bool = False
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
        out = self._add(text, channel, part)
        return out + self._event(self._delta_name, b'"delta":', encode(text))

    def run(self, bodies: Sequence[bytes], text: str, channel: Channel, part: int) -> bytes:
        """Add reasoning in pieces, each with its own delta."""
        out = self._add(text, channel, part)
        return out + self._output.deltas(self._delta_name, self._at, bodies)

    def _add(self, text: str, channel: Channel, part: int) -> bytes:
        """Keep text for the end of its segment; return the events that open the segment."""
        out = b""
        if self._key != (channel, part):
            out = self._close_segment()
            self._key = (channel, part)
            out += self._open_segment(channel)
        self._texts.append(text)
        return out

    @property
    def _delta_name(self) -> str:
        name = "reasoning_summary_text" if self._in_summary else "reasoning_text"
        return f"response.{name}.delta"

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
        return self._event(names[0], b'"text":', text) + self._event(
            names[1], b'"part":{"type":"%b","text":%b}' % (kind, text)
        )

    def _event(self, name: str, *fields: bytes) -> bytes:
        return self._output.event(name, self._at, b",", *fields)


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


# --- call items -----------------------------------------------------------------------------------


class CallWriter:
    """Write one call."""

    def __init__(self, output: Output, start: BlockStart, call_id: str) -> None:
        self.call_id = call_id
        self.announced: bool = False
        self.waits: bool = (
            False  # its item is not finished, for its status follows from what comes next
        )
        self._output = output
        self._start = start
        self._custom = start.kind is BlockKind.CUSTOM_CALL
        # What a shell is to do is known at the end of the call only.
        self._shell = BY_FLAVOR.get(start.flavor)
        self._id = ""
        self._texts: list[str] = []

    def announce(self) -> bytes:
        """Add the call's item."""
        self.announced = True
        if self._shell is not None:
            return b""
        self._id = (
            self._output.new_id("ctc_", "custom_tool_call")
            if self._custom
            else self._output.new_id("fc_", "function_call")
        )
        return self._output.added(self._item("", "in_progress"))

    def arguments(self, text: str) -> bytes:
        """Add to the arguments, or to the free-form input."""
        self._texts.append(text)
        if self._shell is not None:
            return b""
        name = "custom_tool_call_input" if self._custom else "function_call_arguments"
        return self._event(f"response.{name}.delta", b'"delta":', encode(text))

    def run(self, bodies: Sequence[bytes], text: str) -> bytes:
        """Add to a function's arguments in pieces, each with its own delta."""
        self._texts.append(text)
        if self._shell is not None:
            return b""
        name = "response.function_call_arguments.delta"
        return self._output.deltas(name, self._at, bodies)

    def close(self, *, complete: bool) -> bytes:
        """End the call; one that was cut keeps its arguments as they are, and waits for `finish_item`.

        A client that reads done items runs free-form input whatever its status, so input that was cut
        is never done: only the response at the end has its item.
        """
        text = "".join(self._texts)
        out = b""
        if self._shell is not None:
            content = content_of(self._start.flavor, text) if complete else None
            if content is not None:
                return self._output.added(self._shell_item(content, "in_progress")) + (
                    self._output.done(self._shell_item(content, "completed"))
                )
            # It does not fit the tool's shape: emitted as a function's call, so that nothing is lost.
            self._shell = None
            self._texts = []
            out = self.announce() + self.arguments(text)
        if self._custom and not complete:
            self._output.left_open(self._item(text, "incomplete"))
            return out
        if self._custom:
            name, field = "response.custom_tool_call_input.done", b"input"
        else:
            name, field = "response.function_call_arguments.done", b"arguments"
        out += self._event(name, b'"%b":' % field, encode(text))
        self.waits = not complete
        return out if self.waits else out + self.finish_item("completed")

    def finish_item(self, status: str) -> bytes:
        """Finish the item of the call."""
        self.waits = False
        return self._output.done(self._item("".join(self._texts), status))

    def _event(self, name: str, *fields: bytes) -> bytes:
        return self._output.event(name, self._at, b",", *fields)

    @property
    def _at(self) -> bytes:
        return b'"item_id":"%b","output_index":%d' % (self._id.encode(), self._output.index)

    def _item(self, text: str, status: str) -> bytes:
        start = self._start
        item = {"id": self._id, "type": "custom_tool_call" if self._custom else "function_call"}
        if not self._custom or status == "incomplete":  # a custom call has one only if it was cut
            item["status"] = status
        item["call_id"] = self.call_id
        item["name"] = start.name
        if start.namespace:
            item["namespace"] = start.namespace
        item["input" if self._custom else "arguments"] = text
        return encode(item)

    def _shell_item(self, content: object, status: str) -> bytes:
        flavor = self._start.flavor
        shell = BY_FLAVOR[flavor]
        return encode(
            {
                "id": self._output.new_id(shell.id_prefix, shell.call_type),
                "type": shell.call_type,
                "status": status,
                "call_id": self.call_id,
                "operation" if flavor is Flavor.APPLY_PATCH else "action": content,
            }
        )
