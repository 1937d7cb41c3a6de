"""Writes the response object, which is a complete body and part of a stream's first and last events.

A response repeats the settings of its request.  They are taken from the request as the client wrote
them; a setting that it lacks has the dialect's own default.
"""

from typing import Final

from msgspec import Raw

from dragoman.context import Exchange
from dragoman.dialects.encoding import encode, one_line
from dragoman.dialects.identity import identity_of
from dragoman.dialects.responses.errors import stream_error
from dragoman.dialects.responses.request_reader import ResponsesRequest
from dragoman.dialects.responses.schema import NULL
from dragoman.ids import derived_id
from dragoman.turn.events import Citation, Fault, Start, Usage

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
    fields: list[bytes] = []
    for name, default in _ECHOES:
        value = given.get(name, NULL)
        fields.append(b',"%b":%b' % (name.encode(), default if value == NULL else one_line(value)))
    return b"".join(fields)


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
                "title": citation.title,
                "start_index": 0 if citation.start is None else citation.start,
                "end_index": length if citation.end is None else citation.end,
            }
        )
    if citation.vendor == "openai" and citation.raw != NULL:
        return one_line(citation.raw)
    return None
