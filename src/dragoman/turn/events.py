"""The events of one answer.

A stream is `Start`, blocks one after another (never two open), a `Usage`, and one terminal event:
`Finish` or `Fault`.  `Ping` and `Loss` may come anywhere.  `turn/state.py` holds the order as tables.

Ids are those of the upstream, verbatim; writers make them legal for their client.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct, structs

from dragoman.turn.losses import Loss
from dragoman.turn.server_tools import ServerCall, ServerResult


class BlockKind(StrEnum):
    """What a block of an answer is.

    Attributes:
        TEXT: The text of the answer.
        REASONING: The model's reasoning, or a summary of it.
        TOOL_CALL: A call whose arguments are a JSON object, as `ArgsDelta`.
        CUSTOM_CALL: A call whose input is free text, as `InputDelta`.
        REFUSAL: The model declines, in its own words.
        SERVER_CALL: A call of a tool that the vendor ran; whole in `server` and `raw`.
        SERVER_RESULT: The result of such a call; whole in `server` and `raw`.
        OPAQUE: A vendor's own block, such as a compaction; whole in `raw`.
    """

    TEXT = "text"
    REASONING = "reasoning"
    TOOL_CALL = "tool_call"
    CUSTOM_CALL = "custom_call"
    REFUSAL = "refusal"
    SERVER_CALL = "server_call"
    SERVER_RESULT = "server_result"
    OPAQUE = "opaque"


_STRINGS: Final = msgspec.json.Decoder(list[str])

# Blocks that are calls for the client to run.
CALL_KINDS: Final = frozenset({BlockKind.TOOL_CALL, BlockKind.CUSTOM_CALL})


# An attribute of an enum costs ten times as much as a name: these two are asked for with every block.
TEXT: Final = BlockKind.TEXT
REASONING: Final = BlockKind.REASONING


class Flavor(StrEnum):
    """Which kind of tool a call belongs to.

    Attributes:
        FUNCTION: A function with JSON arguments.
        CUSTOM: A tool with free text as its input.
        LOCAL_SHELL: OpenAI's `local_shell`.
        SHELL: OpenAI's `shell`.
        APPLY_PATCH: OpenAI's `apply_patch`.
    """

    FUNCTION = "function"
    CUSTOM = "custom"
    LOCAL_SHELL = "local_shell"
    SHELL = "shell"
    APPLY_PATCH = "apply_patch"


class Channel(StrEnum):
    """Whether reasoning is the model's own or a summary.

    Attributes:
        FULL: The model's reasoning itself.
        SUMMARY: A summary of it.
    """

    FULL = "full"
    SUMMARY = "summary"


class OpaqueKind(StrEnum):
    """What a piece of vendor state is for.

    Attributes:
        SIGNATURE: Signs visible reasoning text.
        REDACTED: Replaces reasoning that is not shown.
        ENCRYPTED: Reasoning, encrypted for its vendor.
        DETAILS: A vendor's list of reasoning details, as JSON text.
        TOOL_SIGNATURE: Signs a tool call.
        PLAIN: Unsigned reasoning that its upstream expects back.
        SERVER: A vendor-run tool's call and result, as its vendor wrote them.
    """

    SIGNATURE = "signature"
    REDACTED = "redacted"
    ENCRYPTED = "encrypted"
    DETAILS = "details"
    TOOL_SIGNATURE = "tool_sig"
    PLAIN = "plain"
    SERVER = "server"


class FinishReason(StrEnum):
    """Why an answer ended, whatever the vendor calls it.

    Attributes:
        STOP: The model was done.
        STOP_SEQUENCE: A stop sequence was reached.
        TOOL_CALLS: The model waits for results of its calls.
        LENGTH: The output limit was reached; the last call may be truncated.
        CONTEXT_FULL: The model's context was full.
        CONTENT_FILTER: A filter ended the answer.
        REFUSAL: The model refused.
        PAUSE: The vendor paused a long turn: send the conversation again to continue.
        COMPACTION: The vendor compacted the conversation.
    """

    STOP = "stop"
    STOP_SEQUENCE = "stop_sequence"
    TOOL_CALLS = "tool_calls"
    LENGTH = "length"
    CONTEXT_FULL = "context_full"
    CONTENT_FILTER = "content_filter"
    REFUSAL = "refusal"
    PAUSE = "pause"
    COMPACTION = "compaction"


# As above: asked for at the end of every answer.
STOP: Final = FinishReason.STOP
TOOL_CALLS: Final = FinishReason.TOOL_CALLS

# Reasons that must never be masked by tool calls, and under which a call may be cut.
CUT_REASONS = frozenset(
    {FinishReason.LENGTH, FinishReason.CONTEXT_FULL, FinishReason.CONTENT_FILTER}
)


# The arguments of a call that was truncated before any came.
NO_ARGUMENTS_YET = "{"
# The code of the fault that ends a stream whose upstream stopped before its end.
TRUNCATED = "upstream_truncated"
# The code of the fault of an answer with a call that cannot be shown to the client and must not be run.
INVALID_ARGUMENTS = "invalid_arguments"
# The code of the fault of a request with calls that lack a signature which the upstream demands.
UNSIGNED_CALLS = "unsigned_calls"


class FaultKind(StrEnum):
    """What went wrong, whatever the vendor calls it.

    Attributes:
        BAD_REQUEST: The request is invalid.
        CONTEXT_LENGTH: The conversation is longer than the model's context.
        CONTENT_POLICY: The vendor's policy rejects the request.
        AUTH: The key is missing or wrong.
        BILLING: The account has no credit left.
        PERMISSION: The key may not do this.
        NOT_FOUND: No such model or resource.
        CONFLICT: The resource is in another state.
        TOO_LARGE: The request has too many bytes.
        RATE_LIMIT: Too many requests; see `retry_after`.
        SERVER: The upstream failed.
        UPSTREAM_BAD: The upstream's answer cannot be read, or was truncated.
        UPSTREAM_UNUSABLE: The upstream cannot be used as it is configured: its address, its TLS settings or the
            gateway's credential for it is wrong, or nothing listens there.  Retrying does not help.
        OVERLOADED: The upstream has no capacity.
        TIMEOUT: The upstream took too long.
        GATEWAY: A failure on this side.
    """

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
    UPSTREAM_BAD = "upstream_bad"
    UPSTREAM_UNUSABLE = "upstream_unusable"
    OVERLOADED = "overloaded"
    TIMEOUT = "timeout"
    GATEWAY = "gateway"


class Start(Struct, frozen=True, gc=False, tag="start", tag_field="event"):
    """The answer begins.  Always the first event of an answer.

    Attributes:
        model: The model, as the upstream calls it; empty if it did not say.
        id: The upstream's id of the answer.
        created: Unix seconds; 0 if the upstream did not say.
    """

    model: str = ""
    id: str = ""
    created: int = 0


class BlockStart(Struct, frozen=True, gc=False, tag="block_start", tag_field="event"):
    """A block opens.  The deltas that follow, up to its `BlockEnd`, belong to it.

    Attributes:
        index: Position among the blocks of this answer, from 0.
        kind: What the block holds, and so which deltas may follow.
        call_id: Calls: the upstream's id, verbatim.  A vendor-run tool's result has the id of its call.
        name: Calls: the tool's name as the client declared it.
        namespace: Calls: the tool's namespace, if it was declared in one.
        flavor: Calls: which kind of tool is called.
        vendor: Server and opaque blocks: the vendor whose JSON `raw` is.
        raw: Server and opaque blocks: the whole block as JSON.
        server: Server blocks: what the tool was asked, or what it found; None if only its vendor can read it.
    """

    index: int
    kind: BlockKind
    call_id: str = ""
    name: str = ""
    namespace: str = ""
    flavor: Flavor = Flavor.FUNCTION
    vendor: str = ""
    raw: Raw = Raw(b"null")
    server: ServerCall | ServerResult | None = None


class TextDelta(Struct, frozen=True, gc=False, tag="text", tag_field="event"):
    """More text of the open text block.

    Attributes:
        index: The block's position.
        text: Never empty.
        logprobs: A JSON list of token records, as OpenAI writes them.
    """

    index: int
    text: str
    logprobs: Raw | None = None


class ReasoningDelta(Struct, frozen=True, gc=False, tag="reasoning", tag_field="event"):
    """More of the reasoning in the open reasoning block.

    Attributes:
        index: The block's position.
        text: Never empty.
        channel: Whether this is the reasoning itself or a summary of it.
        part: Number of the summary part, from 0; rises by one with each part.
    """

    index: int
    text: str
    channel: Channel = Channel.FULL
    part: int = 0


class ArgsDelta(Struct, frozen=True, gc=False, tag="args", tag_field="event"):
    """A fragment of a tool call's arguments.

    All fragments so far are a valid prefix of a JSON object; at `BlockEnd(complete)` they are one.  Only
    the last fragment of a call that ends incomplete may be anything else.

    Attributes:
        index: The block's position.
        json: The fragment.
    """

    index: int
    json: str


class DeltaRun(Struct, frozen=True, gc=False, tag="run", tag_field="event"):
    """Two or more deltas of one block that arrived in one read, as one event: text, reasoning or arguments.

    Readers emit it for upstreams that repeat one frame with other text in it, so that a stage or a writer
    does its work once per read instead of once per delta.  It means exactly what `deltas()` returns.
    Programs that read answers (`AnswerReader`, the client, `ToolCallParser`) never see it: they get the deltas.
    Only the watchers of a `Translator` do.

    Attributes:
        index: The block's position.
        bodies: Each delta's text as the inside of a JSON string, as our encoder writes it.
        whole: All deltas, joined.
    """

    index: int
    bodies: list[bytes]
    whole: TextDelta | ReasoningDelta | ArgsDelta

    @property
    def text(self) -> str:
        """The text of all deltas, joined."""
        whole = self.whole
        return whole.json if isinstance(whole, ArgsDelta) else whole.text

    def deltas(self) -> list[TextDelta | ReasoningDelta | ArgsDelta]:
        """Return the deltas one by one."""
        index, whole = self.index, self.whole
        texts = inner_texts(self.bodies)
        if isinstance(whole, TextDelta):
            return [TextDelta(index, text) for text in texts]
        if isinstance(whole, ArgsDelta):
            return [ArgsDelta(index, text) for text in texts]
        return [ReasoningDelta(index, text, whole.channel, whole.part) for text in texts]

    def at(self, index: int) -> "DeltaRun":
        """Return the run as deltas of the block with another index."""
        return DeltaRun(index, self.bodies, structs.replace(self.whole, index=index))


class InputDelta(Struct, frozen=True, gc=False, tag="input", tag_field="event"):
    """More of a custom call's free-form input.

    Attributes:
        index: The block's position.
        text: Plain text, not escaped.
    """

    index: int
    text: str


class RefusalDelta(Struct, frozen=True, gc=False, tag="refusal", tag_field="event"):
    """More of the text with which the model refuses.

    Attributes:
        index: The block's position.
        text: The text.
    """

    index: int
    text: str


class Citation(Struct, frozen=True, gc=False, tag="citation", tag_field="event"):
    """A source for the text of the open text block.

    Attributes:
        index: The block's position.
        url: Address of the source.
        title: Its title.
        cited_text: The quoted part of the source.
        start: Offset in the block, in characters, where the cited text begins, if known.
        end: Offset after it, if known.
        vendor: The vendor whose JSON `raw` is.
        raw: The citation as the vendor wrote it.
    """

    index: int
    url: str = ""
    title: str = ""
    cited_text: str = ""
    start: int | None = None
    end: int | None = None
    vendor: str = ""
    raw: Raw = Raw(b"null")


class Opaque(Struct, frozen=True, gc=False, tag="opaque", tag_field="event"):
    """State that only its vendor can read.  Part of a reasoning or call block.

    Attributes:
        index: The block's position.
        kind: What the state is for.
        data: The state itself; empty for `PLAIN`.
        origin: Which upstream sent it (`Profile.origin`); it is sent back to that upstream alone.
        item_id: Responses: the id of the reasoning item.
    """

    index: int
    kind: OpaqueKind
    data: str = ""
    origin: str = ""
    item_id: str = ""


class BlockEnd(Struct, frozen=True, gc=False, tag="block_end", tag_field="event"):
    """The open block ends.

    Attributes:
        index: The block's position.
        complete: False for a call whose arguments were truncated or are invalid.  Such a call must not be run.
    """

    index: int
    complete: bool = True


class Usage(Struct, frozen=True, gc=False, tag="usage", tag_field="event"):
    """Token counts so far.  Cumulative: the last event counts, nothing is added up.

    Attributes:
        input_tokens: Tokens of the prompt that did not come from a cache.
        output_tokens: Tokens of the answer, reasoning included.
        cache_read_tokens: Tokens of the prompt that came from a cache.
        cache_write_5m_tokens: Tokens written to a cache that lasts five minutes.
        cache_write_1h_tokens: Tokens written to a cache that lasts an hour.
        reasoning_tokens: The part of `output_tokens` that is reasoning.
        estimated: The upstream did not report all counts: some are estimated.
        final: These are the last counts of the answer.
        cost: What the answer cost in US dollars, if the upstream reports it.
        searches: Web searches that the vendor ran for the answer.
        fetches: Pages that the vendor read.
        code_runs: Runs of code in the vendor's container.
        mcp_calls: Calls of MCP servers' tools that the vendor made.
        images: Images that the model or the vendor made.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False
    final: bool = False
    cost: float | None = None
    searches: int = 0
    fetches: int = 0
    code_runs: int = 0
    mcp_calls: int = 0
    images: int = 0

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
    """The answer ended normally, for the given reason.  The last event of an answer.

    Attributes:
        reason: Why it ended.
        stop_sequence: The stop sequence that ended it, if one did.
        category: Why it was filtered or refused, if the vendor says.
        explanation: The vendor's explanation of that.
        raw: The vendor's own word for the reason, where its meaning differs.
        token: What a request has to carry to continue a paused answer, if its vendor gives one.
    """

    reason: FinishReason
    stop_sequence: str | None = None
    category: str = ""
    explanation: str = ""
    raw: str = ""
    token: str = ""


class Fault(Struct, frozen=True, gc=False, tag="fault", tag_field="event"):
    """The answer failed.  The last event of an answer; error responses are read as a `Fault` too.

    Attributes:
        kind: What went wrong, independent of any vendor's words.
        message: For people.
        status: The upstream's HTTP status or numeric code; 0 if it gave none.
        code: The vendor's own code, or ours.
        param: The field at fault, in the client's dialect.
        retry_after: Seconds after which another attempt makes sense.
        details: What the vendor adds to the message, as JSON.  Only a client of the same dialect gets it.
    """

    kind: FaultKind
    message: str
    status: int = 0
    code: str = ""
    param: str = ""
    retry_after: float | None = None
    details: str = ""


class Ping(Struct, frozen=True, gc=False, tag="ping", tag_field="event"):
    """The upstream is alive; nothing else happened."""


Delta: TypeAlias = (
    TextDelta | ReasoningDelta | ArgsDelta | InputDelta | RefusalDelta | Citation | Opaque
)
# What programs get that read answers.
Event: TypeAlias = Start | BlockStart | Delta | BlockEnd | Usage | Finish | Fault | Ping | Loss
# What readers, stages and writers exchange.
EventOrRun: TypeAlias = Event | DeltaRun


def inner_texts(bodies: Sequence[bytes]) -> list[str]:
    """Return the texts of which these are the insides of JSON strings."""
    return _STRINGS.decode(b'["%b"]' % b'","'.join(bodies))


def expand_runs(events: Iterable[EventOrRun]) -> list[Event]:
    """Return the events with every `DeltaRun` replaced by its deltas."""
    expanded: list[Event] = []
    for event in events:
        if isinstance(event, DeltaRun):
            expanded += event.deltas()
        else:
            expanded.append(event)
    return expanded
