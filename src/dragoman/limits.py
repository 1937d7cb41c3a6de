"""Every limit on what a peer may send, with its reason.

Exceeding one raises `TooLargeError`, which names the field of `Limits`.
"""

from typing import Final

from msgspec import Struct

KIB: Final = 1024
MIB: Final = 1024 * KIB


class Limits(Struct, frozen=True, kw_only=True, gc=False):
    """What one exchange may hold in memory.  The defaults fit real coding agents with room to spare.

    Exceeding a limit raises `TooLargeError` with the field's name.

    Attributes:
        max_request_bytes: The body of one request.  A coding agent's request with images is a few MiB; vendors stop at 32 MB.
        max_json_items: Values of one JSON text, counted by the commas outside its strings.  A value costs
            a decoder a hundred times what a byte of text does, and nothing can interrupt a decoder.  The
            largest requests of coding agents hold some ten thousand.
        max_json_escapes: Backslashes of one JSON text.  An escape costs a decoder several times what a
            byte of text does; the longest prompts that models take, all of it source code, hold some
            hundred thousand.
        max_messages: Messages or items of a request; a vendor stops at the same number.
        max_parts: Parts of all messages of a request: texts, pictures, calls, results.
        max_tools: Tools of a request; vendors stop at 128, or at 10,000 where tools are searched for.
        max_name_chars: A name in a request: of a model, a tool, a user.  Names are compared, logged and
            shown.
        max_id_chars: An id in a request; some gateways carry signed state in their ids.
        max_response_bytes: The whole of one answer, streamed or not.
        max_complete_bytes: A complete answer, which is decoded in one piece.
        max_sse_event_bytes: One server-sent event; generated images arrive as one event of many MiB.
        max_sse_buffer_bytes: Bytes of a stream that wait for the end of their event: never more than a
            large event needs.
        max_events: Events of one stream, comments among them.  The longest answers have some hundred
            thousand; a peer that sends empty events without end keeps a reader busy without
            exceeding any other limit.
        max_tool_args_bytes: Arguments of one tool call.  They are counted, not buffered.  A limit of some KiB
            would truncate real `Write` calls; without a limit, a peer could fill the client's memory.
        max_turn_args_bytes: Arguments of all calls of one answer: a program that collects an answer holds all of
            them.
        max_calls: Calls of one answer; agents make a few dozen at most, and the client runs each of them.
        max_waiting_bytes: What may wait while the call before it is still open (parallel calls whose
            parts alternate).
        max_tool_name_chars: A tool name that arrives in pieces; nearly all servers send it whole.
        max_blocks: Blocks of one answer, tool calls among them.
        max_json_depth: Nesting of JSON in arguments; deeper input exists only to exhaust a parser.
        max_header_bytes: The value of one header of an HTTP answer; the same for its name, and for the
            status line.
        max_headers: Headers of an HTTP answer; proxies add a few dozen.
        resend_window_bytes: How much of a call's arguments is remembered to recognise a peer that sends
            them twice.
        max_envelope_bytes: An envelope of foreign reasoning state; it is part of every later request.
    """

    max_request_bytes: int = 64 * MIB
    max_json_items: int = 1_000_000
    max_json_escapes: int = 4_000_000
    max_messages: int = 100_000
    max_parts: int = 200_000
    max_tools: int = 10_000
    max_name_chars: int = 1024
    max_id_chars: int = 64 * KIB
    max_response_bytes: int = 256 * MIB
    max_complete_bytes: int = 64 * MIB
    max_sse_event_bytes: int = 32 * MIB
    max_sse_buffer_bytes: int = 32 * MIB
    max_events: int = 1_000_000
    max_tool_args_bytes: int = 16 * MIB
    max_turn_args_bytes: int = 64 * MIB
    max_calls: int = 1000
    max_waiting_bytes: int = 16 * MIB
    max_tool_name_chars: int = 1024
    max_blocks: int = 10_000
    max_json_depth: int = 256
    max_header_bytes: int = 16 * KIB
    max_headers: int = 128
    resend_window_bytes: int = 64 * KIB
    max_envelope_bytes: int = 256 * KIB


# What exceeded a limit, and the unit it is counted in: the two halves of an error message.
MEASURES: Final[dict[str, tuple[str, str]]] = {
    "max_request_bytes": ("the request has", "bytes"),
    "max_json_items": ("a JSON text has", "values"),
    "max_json_escapes": ("a JSON text has", "backslashes"),
    "max_messages": ("the request has", "messages"),
    "max_parts": ("the request has", "parts of messages"),
    "max_tools": ("the request has", "tools"),
    "max_name_chars": ("a name has", "characters"),
    "max_id_chars": ("an id has", "characters"),
    "max_response_bytes": ("the response has", "bytes"),
    "max_complete_bytes": ("the response, which is not a stream, has", "bytes"),
    "max_sse_event_bytes": ("an event of the stream has", "bytes"),
    "max_sse_buffer_bytes": ("an unfinished event of the stream has", "bytes"),
    "max_events": ("the stream has", "events"),
    "max_tool_args_bytes": ("the arguments of a tool call have", "bytes"),
    "max_turn_args_bytes": ("the arguments of all tool calls have", "bytes"),
    "max_calls": ("the response has", "tool calls"),
    "max_waiting_bytes": ("parallel tool calls that wait for the first have", "bytes"),
    "max_tool_name_chars": ("the name of a tool call has", "characters"),
    "max_blocks": ("the response has", "blocks"),
    "max_json_depth": ("a JSON text has", "levels"),
    "max_header_bytes": ("a header of the response has", "bytes"),
    "max_headers": ("the response has", "headers"),
    "max_envelope_bytes": ("an envelope of reasoning has", "bytes"),
    "resend_window_bytes": ("repeated arguments have", "bytes"),
}


def describe_excess(limit: str, allowed: int) -> str:
    """Return what exceeded a limit, by which unit, and which setting raises it."""
    subject, unit = MEASURES.get(limit, ("the input has", "units"))
    size = f" ({_binary(allowed)})" if unit == "bytes" and allowed >= KIB else ""
    return (
        f"{subject} more than {allowed} {unit}{size}; "
        f"raise the limit `{limit}` in `[server.limits]` of the gateway or `Limits` of the library"
    )


def _binary(size: int) -> str:
    unit, name = (MIB, "MiB") if size >= MIB else (KIB, "KiB")
    return f"{size / unit:.4g} {name}"


# Characters that are kept of an error's message, and of a word in it (a code, the name of a parameter).
# Servers repeat whole requests in their errors; more of it helps no reader.
MAX_ERROR_CHARS: Final = 16 * KIB
MAX_ERROR_WORD_CHARS: Final = 256

DEFAULT_LIMITS: Final = Limits()
