"""The events of one answer.

A stream is `Start`, blocks one after another (never two open), a `Usage`, and one terminal event:
`Finish` or `Fault`.  `Ping` and `Loss` may stand anywhere.  `turn/state.py` holds the order as tables.

Ids are those of the upstream, verbatim; writers make them legal for their client.
"""

import re
from collections.abc import Iterable
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from dragoman.turn.losses import Loss


class BlockKind(StrEnum):
    TEXT = "text"
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"  # arguments are a JSON object, as `ArgsDelta`
    CUSTOM_CALL = "custom_call"  # input is free text, as `InputDelta`
    REFUSAL = "refusal"
    SERVER_CALL = "server_call"  # a tool the vendor ran: whole in `raw`
    SERVER_RESULT = "server_result"  # its result: whole in `raw`
    OPAQUE = "opaque"  # a vendor's own block, whole in `raw` (compaction and the like)


_STRING: Final = msgspec.json.Decoder(str)
# What is escaped in a JSON string, or is not ASCII.
_NOT_PLAIN: Final = re.compile(rb'[\x00-\x1f"\\\x80-\xff]').search

# Blocks that are calls for the client to run.
CALL_KINDS: Final = frozenset({BlockKind.TOOL_CALL, BlockKind.CUSTOM_CALL})


class Flavor(StrEnum):
    """Which kind of client-run tool a call belongs to."""

    FUNCTION = "function"
    CUSTOM = "custom"  # free-form input
    LOCAL_SHELL = "local_shell"
    SHELL = "shell"
    APPLY_PATCH = "apply_patch"


class Channel(StrEnum):
    FULL = "full"  # the model's reasoning itself
    SUMMARY = "summary"  # a summary of it


class OpaqueKind(StrEnum):
    SIGNATURE = "signature"  # signs visible reasoning text
    REDACTED = "redacted"  # stands for reasoning that is not shown
    ENCRYPTED = "encrypted"  # reasoning, encrypted for its vendor
    DETAILS = "details"  # a vendor's own list of reasoning details, as JSON text
    TOOL_SIGNATURE = "tool_sig"  # signs a tool call
    PLAIN = "plain"  # unsigned reasoning that its upstream wants back


class FinishReason(StrEnum):
    STOP = "stop"
    STOP_SEQUENCE = "stop_sequence"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTEXT_FULL = "context_full"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    PAUSE = "pause"
    COMPACTION = "compaction"


# Reasons that must never be masked by tool calls, and under which a call may be cut.
CUT_REASONS = frozenset(
    {FinishReason.LENGTH, FinishReason.CONTEXT_FULL, FinishReason.CONTENT_FILTER}
)


# The arguments of a call that was truncated before any came.
NO_ARGUMENTS_YET = "{"
# The code of the fault that ends a stream whose upstream stopped before its end.
TRUNCATED = "upstream_truncated"


class FaultKind(StrEnum):
    BAD_REQUEST = "bad_request"
    CONTEXT_LENGTH = "context_length"
    CONTENT_POLICY = "content_policy"
    AUTH = "auth"
    BILLING = "billing"
    PERMISSION = "permission"
    NOT_FOUND = "not_found"
    CONFLICT = "conflict"
    TOO_LARGE = "too_large"
    RATE_LIMIT = "rate_limit"
    SERVER = "server"
    UPSTREAM_BAD = "upstream_bad"  # the upstream's answer cannot be read, or was cut
    OVERLOADED = "overloaded"
    TIMEOUT = "timeout"
    GATEWAY = "gateway"  # our own failure


class Start(Struct, frozen=True, gc=False, tag="start", tag_field="event"):
    """The answer begins.  Exactly first."""

    model: str = ""  # as the upstream calls it; empty if it did not say
    id: str = ""  # the upstream's id of the answer
    created: int = 0  # Unix seconds; 0 if the upstream did not say


class BlockStart(Struct, frozen=True, gc=False, tag="block_start", tag_field="event"):
    """A block opens."""

    index: int  # position among this answer's blocks, from 0
    kind: BlockKind
    call_id: str = ""  # calls: the upstream's id, verbatim
    name: str = ""  # calls: the tool's name as the client declared it
    namespace: str = ""  # calls: the tool's namespace, if it was declared in one
    flavor: Flavor = Flavor.FUNCTION
    vendor: str = ""  # server and opaque blocks: whose block `raw` is
    raw: Raw = Raw(b"null")  # server and opaque blocks: the whole block as JSON


class TextDelta(Struct, frozen=True, gc=False, tag="text", tag_field="event"):
    index: int
    text: str  # never empty
    logprobs: Raw | None = None  # a JSON list of token records, as OpenAI writes them


class TextRun(Struct, frozen=True, gc=False, tag="text_run", tag_field="event"):
    """Two or more text deltas of one block that arrived in one read, as one event.

    Readers emit it for upstreams that repeat one frame with other text in it, so that a stage or a writer
    does its work once per read instead of once per delta.  It means exactly what `deltas()` returns.
    Programs that read answers (`AnswerReader`, the client) never see it: they get the deltas.
    """

    index: int
    bodies: list[bytes]  # each delta's text as the inside of a JSON string, as `msgspec` writes it
    text: str  # of all deltas, joined

    def deltas(self) -> list["TextDelta"]:
        """Return the deltas one by one."""
        index, bodies = self.index, self.bodies
        if _NOT_PLAIN(b"".join(bodies)) is None:
            return [TextDelta(index, body.decode()) for body in bodies]
        return [TextDelta(index, _STRING.decode(b'"%b"' % body)) for body in bodies]


class ReasoningDelta(Struct, frozen=True, gc=False, tag="reasoning", tag_field="event"):
    index: int
    text: str  # never empty
    channel: Channel = Channel.FULL
    part: int = 0  # rises by one with each part of a summary


class ArgsDelta(Struct, frozen=True, gc=False, tag="args", tag_field="event"):
    """A fragment of a tool call's arguments.

    All fragments so far are a valid prefix of a JSON object; at `BlockEnd(complete)` they are one.  Only
    the last fragment of a call that ends incomplete may be anything else.
    """

    index: int
    json: str


class InputDelta(Struct, frozen=True, gc=False, tag="input", tag_field="event"):
    """A piece of a custom call's free-form input, not escaped."""

    index: int
    text: str


class RefusalDelta(Struct, frozen=True, gc=False, tag="refusal", tag_field="event"):
    index: int
    text: str


class Citation(Struct, frozen=True, gc=False, tag="citation", tag_field="event"):
    """A source for the text of the open text block."""

    index: int
    url: str = ""
    title: str = ""
    cited_text: str = ""
    start: int | None = None  # character offsets in the block, if known
    end: int | None = None
    vendor: str = ""  # whose shape `raw` has
    raw: Raw = Raw(b"null")  # the citation as the vendor wrote it


class Opaque(Struct, frozen=True, gc=False, tag="opaque", tag_field="event"):
    """State that only its vendor can read.  In reasoning and call blocks, before the block's end."""

    index: int
    kind: OpaqueKind
    data: str = ""
    origin: str = ""  # whose it is: `Exchange.origin` of the upstream that sent it
    item_id: str = ""


class BlockEnd(Struct, frozen=True, gc=False, tag="block_end", tag_field="event"):
    """The open block ends."""

    index: int
    complete: bool = True  # false: a call whose arguments were cut or are invalid; never to be run


class Usage(Struct, frozen=True, gc=False, tag="usage", tag_field="event"):
    """Token counts so far.  Cumulative: the last one counts, nothing is added up."""

    input_tokens: int = 0  # not from cache
    output_tokens: int = 0  # reasoning included
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False
    final: bool = False

    @property
    def prompt_tokens(self) -> int:
        """All input, cached or not."""
        return (
            self.input_tokens
            + self.cache_read_tokens
            + self.cache_write_5m_tokens
            + self.cache_write_1h_tokens
        )


class Finish(Struct, frozen=True, gc=False, tag="finish", tag_field="event"):
    """The answer ended as its reason says.  Terminal."""

    reason: FinishReason
    stop_sequence: str | None = None
    category: str = ""  # why it was filtered or refused, if the vendor says
    explanation: str = ""
    raw: str = ""  # the vendor's own word, where it differs in meaning


class Fault(Struct, frozen=True, gc=False, tag="fault", tag_field="event"):
    """The answer failed.  Terminal; also what an error body says."""

    kind: FaultKind
    message: str
    status: int = 0  # the upstream's HTTP status or numeric code, 0 if it gave none
    code: str = ""  # the vendor's own code, or ours
    param: str = ""  # the field at fault, in the client's dialect
    retry_after: float | None = None  # seconds


class Ping(Struct, frozen=True, gc=False, tag="ping", tag_field="event"):
    """The upstream is alive."""


Delta: TypeAlias = (
    TextDelta | TextRun | ReasoningDelta | ArgsDelta | InputDelta | RefusalDelta | Citation | Opaque
)
Event: TypeAlias = Start | BlockStart | Delta | BlockEnd | Usage | Finish | Fault | Ping | Loss


def expand_runs(events: Iterable[Event]) -> list[Event]:
    """Return the events with every `TextRun` replaced by its deltas."""
    expanded: list[Event] = []
    for event in events:
        if type(event) is TextRun:
            expanded += event.deltas()
        else:
            expanded.append(event)
    return expanded
