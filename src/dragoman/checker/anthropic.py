"""What a client demands of a Messages stream: everything that decides its legality is in this file.

Theory of operation.  One machine for the message; blocks never overlap, so being inside one is a state
of it.  An absent key in `ORDER` is the violation.  Beside the table: block indexes count 0, 1, 2, …,
deltas fit the open block, and arguments are JSON at every cut.
"""

from enum import StrEnum
from typing import Final

from dragoman.checker.findings import (
    ANY,
    COUNT,
    EMPTY_LIST,
    EMPTY_OBJECT,
    EMPTY_TEXT,
    FRAMING_RULES,
    NAME,
    NULL,
    OBJECT,
    TEXT,
    Arguments,
    Ending,
    Field,
    Findings,
    Json,
    Position,
    UsedIds,
    check_call_id,
    check_fields,
    count_block,
    kind_of_event,
    nullable,
    number_at,
    object_at,
    one_of,
    refuse_done,
    shown,
    text_at,
)
from dragoman.limits import Limits

RULES: Final[dict[str, str]] = {
    **FRAMING_RULES,
    "event-name-matches-type": "each event has a name, and it is the `type` in its data: SDKs skip an"
    " event without one",
    "event-known": "the type of each event is one that Messages has",
    "done-marker": "there is no `[DONE]` in this dialect",
    "event-order": "`message_start` comes first and once, blocks one after another, then"
    " `message_delta` and `message_stop`",
    "required-field": "each event has the fields that its readers use, of their types",
    "message-id": "the message has an id: an agent merges its turns into one without it",
    "message-starts-empty": "`message_start` has no content and no stop reason yet",
    "usage-in-message-start": "`message_start` has `usage` with input and output tokens: SDKs crash"
    " without it",
    "usage-in-message-delta": "`message_delta` has `usage` with output tokens: SDKs crash without it",
    "usage-cumulative": "output tokens do not fall from one `message_delta` to the next",
    "block-index-contiguous": "blocks have the indexes 0, 1, 2, … in the order they start",
    "block-index-open": "a delta or stop names the block that is open",
    "block-starts-empty": "a block starts empty: SDKs drop or repeat content that its start contains",
    "delta-fits-block": "a delta is of a type that the open block takes; a block of unknown type takes none",
    "signature-last": "a thinking block has one signature, after all of its text: another one replaces it",
    "partial-json-prefix": "the input of a call is a prefix of a JSON object after every delta",
    "arguments-whole": "the input of a call is a complete object at its stop; only the last block of a message"
    " that a limit or a refusal ended may have less",
    "call-id-characters": "a call's id has 1 to 64 of the characters A-Z a-z 0-9 _ -",
    "call-id-once": "no two calls have the same id: an agent drops the second and loops",
    "stop-reason": "the last `message_delta` has a stop reason that Messages knows",
    "stop-reason-fits-calls": "`tool_use` is not sent without a call to run, nor `end_turn` with one",
}


class State(StrEnum):
    IDLE = "nothing has started"
    OPEN = "no block is open"
    BLOCK = "a block is open"
    CLOSING = "`message_stop` is expected"
    ENDED = "the message has ended"
    FAILED = "an error was sent"
    FAILED_ENDED = "an error was sent and the message has ended"


# A keep-alive may be needed before the model's first output, so `ping` may come before the start.
# `message_stop` after an error helps clients that wait for it; all others have left at the error.
ORDER: Final[dict[State, dict[str, State]]] = {
    State.IDLE: {"message_start": State.OPEN, "ping": State.IDLE, "error": State.FAILED},
    State.OPEN: {
        "content_block_start": State.BLOCK,
        "message_delta": State.CLOSING,
        "ping": State.OPEN,
        "error": State.FAILED,
    },
    State.BLOCK: {
        "content_block_delta": State.BLOCK,
        "content_block_stop": State.OPEN,
        "ping": State.BLOCK,
        "error": State.FAILED,
    },
    State.CLOSING: {
        "message_delta": State.CLOSING,
        "message_stop": State.ENDED,
        "ping": State.CLOSING,
        "error": State.FAILED,
    },
    State.FAILED: {"message_stop": State.FAILED_ENDED},
    State.ENDED: {},
    State.FAILED_ENDED: {},
}

# The state in which the checker continues after a misplaced event; other events change nothing.
RESUME: Final[dict[str, State]] = {
    "content_block_start": State.BLOCK,
    "message_delta": State.CLOSING,
    "message_stop": State.ENDED,
}

STOP_REASONS: Final = (
    "end_turn",
    "max_tokens",
    "stop_sequence",
    "tool_use",
    "pause_turn",
    "refusal",
    "model_context_window_exceeded",
    "compaction",
)
# Under these a call may be cut.
CUT_REASONS: Final = frozenset({"max_tokens", "model_context_window_exceeded", "refusal"})

FIELDS: Final[dict[str, tuple[Field, ...]]] = {
    "message_start": (
        Field("message", OBJECT),
        Field("message.id", NAME, "message-id"),
        Field("message.type", one_of("message")),
        Field("message.role", one_of("assistant")),
        Field("message.model", TEXT),
        Field("message.content", EMPTY_LIST, "message-starts-empty"),
        Field("message.stop_reason", NULL, "message-starts-empty"),
        Field("message.stop_sequence", NULL, "message-starts-empty"),
        Field("message.usage", OBJECT, "usage-in-message-start"),
        Field("message.usage.input_tokens", COUNT, "usage-in-message-start"),
        Field("message.usage.output_tokens", COUNT, "usage-in-message-start"),
    ),
    "content_block_start": (
        Field("index", COUNT),
        Field("content_block", OBJECT),
        Field("content_block.type", NAME),
    ),
    "content_block_delta": (
        Field("index", COUNT),
        Field("delta", OBJECT),
        Field("delta.type", NAME),
    ),
    "content_block_stop": (Field("index", COUNT),),
    "message_delta": (
        Field("delta", OBJECT),
        Field("delta.stop_reason", nullable(one_of(*STOP_REASONS)), "stop-reason"),
        Field("delta.stop_sequence", nullable(TEXT)),
        Field("usage", OBJECT, "usage-in-message-delta"),
        Field("usage.output_tokens", COUNT, "usage-in-message-delta"),
    ),
    "message_stop": (),
    "ping": (),
    "error": (Field("error", OBJECT), Field("error.type", NAME), Field("error.message", TEXT)),
}

_CALL: Final = (Field("id", NAME), Field("name", NAME))
_RESULT: Final = (Field("tool_use_id", NAME), Field("content", ANY))

# What `content_block` has for each type of block.
BLOCKS: Final[dict[str, tuple[Field, ...]]] = {
    "text": (Field("text", EMPTY_TEXT, "block-starts-empty"),),
    "thinking": (
        Field("thinking", EMPTY_TEXT, "block-starts-empty"),
        Field("signature", EMPTY_TEXT, "block-starts-empty"),
    ),
    "redacted_thinking": (Field("data", TEXT),),
    "tool_use": (*_CALL, Field("input", EMPTY_OBJECT, "block-starts-empty")),
    # Vendors' own tools may come whole.
    "server_tool_use": (*_CALL, Field("input", OBJECT)),
    "mcp_tool_use": (*_CALL, Field("input", OBJECT)),
    "web_search_tool_result": _RESULT,
    "web_fetch_tool_result": _RESULT,
    "code_execution_tool_result": _RESULT,
    "bash_code_execution_tool_result": _RESULT,
    "text_editor_code_execution_tool_result": _RESULT,
    "tool_search_tool_result": _RESULT,
    "mcp_tool_result": _RESULT,
    "advisor_tool_result": _RESULT,
    "container_upload": (Field("file_id", NAME),),
    "compaction": (),
    "fallback": (),
}

_JSON_BLOCKS: Final = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})

# Which delta fits which block, and the field it carries.
DELTAS: Final[dict[str, tuple[frozenset[str], Field]]] = {
    "text_delta": (frozenset({"text"}), Field("text", TEXT)),
    "citations_delta": (frozenset({"text"}), Field("citation", OBJECT)),
    "thinking_delta": (frozenset({"thinking"}), Field("thinking", TEXT)),
    "signature_delta": (frozenset({"thinking"}), Field("signature", TEXT)),
    "input_json_delta": (_JSON_BLOCKS, Field("partial_json", TEXT)),
    "compaction_delta": (frozenset({"compaction"}), Field("content", nullable(TEXT))),
}


class MessagesGrammar:
    """Judge one Messages stream."""

    def __init__(self, findings: Findings, limits: Limits, /) -> None:
        self.blocks: int = 0
        self.calls: int = 0
        self._findings = findings
        self._limits = limits
        self._state = State.IDLE
        self._next_index = 0
        self._index: int | None = None  # of the open block
        self._kind = ""  # of the open block
        self._signed = False  # the open block has its signature
        self._arguments = Arguments(limits)  # of the open block
        self._call_ids = UsedIds("call-id-once", "call")
        self._cut: list[tuple[int, Position]] = []  # calls that stopped half: block number, where
        self._stop_reason = ""
        self._output_tokens = 0

    def read(self, name: str, event: Json, /) -> None:
        """Judge one event."""
        kind = kind_of_event(name, event, self._findings)
        if kind not in FIELDS:
            self._findings.add("event-known", f"there is no event {shown(kind)}", "$.type")
            return
        before = self._state
        if not self._step(kind):
            return
        check_fields(FIELDS[kind], event, self._findings)
        match kind:
            case "content_block_start":
                self._start_block(event)
            case "content_block_delta" if before is State.BLOCK:
                self._read_delta(event)
            case "content_block_stop" if before is State.BLOCK:
                self._stop_block(event)
            case "message_delta":
                self._read_message_delta(event)
            case "message_stop":
                self._stop()
            case _:
                pass

    def read_done(self) -> None:
        """Judge the marker of another dialect."""
        refuse_done(self._findings)

    def end(self) -> Ending:
        """Judge the end of the input."""
        self._judge_cut_calls()
        match self._state:
            case State.ENDED:
                return Ending.FINISH
            case State.FAILED | State.FAILED_ENDED:
                return Ending.FAILURE
            case _:
                self._findings.add("truncated", f"the stream stops while {self._state}")
                return Ending.TRUNCATED

    def _step(self, kind: str) -> bool:
        """Follow the table; return whether the event is worth a closer look."""
        following = ORDER[self._state].get(kind)
        if following is None:
            if self._state in (State.ENDED, State.FAILED, State.FAILED_ENDED):
                self._findings.add("nothing-after-end", f"`{kind}` comes while {self._state}")
                return False
            self._findings.add("event-order", f"`{kind}` is not allowed while {self._state}")
            following = RESUME.get(kind, self._state)
        self._state = following
        return True

    def _start_block(self, event: Json) -> None:
        index = number_at(event, "index")
        if index is not None and index != self._next_index:
            reason = f"block {index} starts where {self._next_index} is next"
            self._findings.add("block-index-contiguous", reason, "$.index")
        self._index = index
        self._next_index = (self._next_index if index is None else index) + 1
        self._kind = text_at(event, "content_block.type")
        self._signed = False
        self._arguments = Arguments(self._limits)
        self.blocks = count_block(self.blocks, self._limits)
        block = object_at(event, "content_block")
        # Vendors add types of blocks, and clients ignore those they do not know.
        fields = BLOCKS.get(self._kind, ())
        check_fields(fields, block, self._findings, root="$.content_block")
        if self._kind == "tool_use":
            self._start_call(text_at(block, "id"))

    def _start_call(self, call_id: str) -> None:
        self.calls += 1
        check_call_id(call_id, self._findings, "$.content_block.id")
        self._call_ids.add(call_id, self._findings, "$.content_block.id")

    def _read_delta(self, event: Json) -> None:
        self._check_open(event)
        kind = text_at(event, "delta.type")
        if not kind or not self._kind:
            return
        blocks, field = DELTAS.get(kind, (frozenset(), None))
        if field is None or self._kind not in blocks:
            reason = f"{shown(kind)} does not fit a {shown(self._kind)} block"
            self._findings.add("delta-fits-block", reason, "$.delta.type")
            return
        delta = object_at(event, "delta")
        check_fields((field,), delta, self._findings, root="$.delta")
        if kind == "input_json_delta":
            fragment = text_at(delta, "partial_json")
            self._arguments.feed(fragment, self._findings, "$.delta.partial_json")
        elif self._kind == "thinking":
            if self._signed:
                reason = f"`{kind}` comes after the block's signature"
                self._findings.add("signature-last", reason, "$.delta.type")
            self._signed = self._signed or kind == "signature_delta"

    def _stop_block(self, event: Json) -> None:
        self._check_open(event)
        arguments = self._arguments
        if self._kind in _JSON_BLOCKS and not (
            arguments.empty or arguments.broken or arguments.whole
        ):
            self._cut.append((self.blocks, self._findings.here))

    def _check_open(self, event: Json) -> None:
        index = number_at(event, "index")
        if index is not None and self._index is not None and index != self._index:
            reason = f"block {index} is not open, {self._index} is"
            self._findings.add("block-index-open", reason, "$.index")

    def _read_message_delta(self, event: Json) -> None:
        self._stop_reason = text_at(event, "delta.stop_reason")
        tokens = number_at(event, "usage.output_tokens")
        if tokens is not None:
            if tokens < self._output_tokens:
                reason = f"{tokens} output tokens after {self._output_tokens}"
                self._findings.add("usage-cumulative", reason, "$.usage.output_tokens")
            self._output_tokens = max(0, tokens)
        if self._stop_reason:
            self._judge_cut_calls()

    def _stop(self) -> None:
        if self._state is not State.ENDED:
            return
        reason = self._stop_reason
        if not reason:
            self._findings.add("stop-reason", "the message ends without a stop reason")
        elif reason == "tool_use" and not self.calls:
            self._findings.add("stop-reason-fits-calls", "`tool_use` although there is no call")
        elif reason == "end_turn" and self.calls:
            self._findings.add("stop-reason-fits-calls", "`end_turn` although there are calls")

    def _judge_cut_calls(self) -> None:
        """Note calls that stopped half, but for the last block of a message that was cut."""
        for number, where in self._cut:
            if number != self.blocks or self._stop_reason not in CUT_REASONS:
                reason = "the call stops although its input is not a whole object"
                self._findings.add("arguments-whole", reason, at=where)
        self._cut.clear()


GRAMMAR: Final = MessagesGrammar
