"""A request, independent of any dialect.

Readers build a whole `Request` or raise; writers never change it.  `Raw` fields hold JSON text exactly as the
client wrote it: key order, digits and blanks survive, so that upstreams' prefix caches match.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Literal, TypeAlias

from msgspec import Raw, Struct, structs

from dragoman.turn.events import Channel, Flavor, OpaqueKind
from dragoman.turn.losses import Loss
from dragoman.turn.server_tools import ServerKind, ServerOptions

# A name in the registry of `dragoman.dialects`: "chat", "anthropic", "responses", "gemini", or one that was registered.
DialectName: TypeAlias = str
BuiltInDialect: TypeAlias = Literal["chat", "anthropic", "responses", "gemini"]


class Role(StrEnum):
    """Who speaks in a turn.

    Attributes:
        USER: The user, or a tool whose result the turn holds.
        ASSISTANT: The model.
        SYSTEM: An instruction inside the conversation.
    """

    USER = "user"
    ASSISTANT = "assistant"
    SYSTEM = "system"


# Looking a member up in its class costs as much as making a part; hot loops use these names.
USER: Final = Role.USER
ASSISTANT: Final = Role.ASSISTANT
SYSTEM: Final = Role.SYSTEM


class CacheHint(Struct, frozen=True, gc=False):
    """The client marks the end of a prefix worth caching.

    An upstream without such marks gets the request without them.  If it takes fewer than there are, the first ones are
    dropped (`cache_hint_dropped`).

    Attributes:
        long: The prefix is to be kept for about an hour instead of minutes.
    """

    long: bool = False


class Base64Source(Struct, frozen=True, gc=False, tag="base64"):
    """A file inside the request.  Its size counts toward the upstream's limit of a request.

    Attributes:
        media_type: Its MIME type, such as `image/png`.
        data: Base64 text.  It is sent as it is, and never decoded as a whole.
    """

    media_type: str
    data: str


class UrlSource(Struct, frozen=True, gc=False, tag="url"):
    """A file at a URL, which the upstream downloads.  An upstream that takes no URLs raises `UntranslatableError`.

    Attributes:
        url: Its address.
        media_type: Its MIME type; empty: not given.
    """

    url: str
    media_type: str = ""


class FileSource(Struct, frozen=True, gc=False, tag="file"):
    """A file that is stored at a vendor.  For any other upstream the request raises `UntranslatableError`.

    Attributes:
        file_id: The vendor's id of it.
        vendor: The vendor: `anthropic`, `openai` or `google`.
        media_type: Its MIME type; empty: not given.
    """

    file_id: str
    vendor: str
    media_type: str = ""


class TextSource(Struct, frozen=True, gc=False, tag="text"):
    """A document given as plain text.

    Attributes:
        text: The text.
    """

    text: str


Source: TypeAlias = Base64Source | UrlSource | FileSource | TextSource


class TextPart(Struct, frozen=True, gc=False, tag="text"):
    """Text of a turn.

    Attributes:
        text: The text.
        cache: Marks the end of a prefix worth caching.
        citations: Sources of the text, each as the JSON that the vendor wrote.
        vendor: The vendor whose JSON `citations` are; an upstream of another one does not get them.
    """

    text: str
    cache: CacheHint | None = None
    citations: tuple[Raw, ...] = ()
    vendor: str = ""


class ImagePart(Struct, frozen=True, gc=False, tag="image"):
    """An image.  An upstream that takes none, or none of this kind, raises `UntranslatableError`.

    Attributes:
        source: Where the image is.
        detail: OpenAI's `low`, `high` or `auto`: how closely the model looks, and so how many tokens the image costs.
            Empty: not sent.
        cache: Marks the end of a prefix worth caching.
    """

    source: Base64Source | UrlSource | FileSource
    detail: str = ""
    cache: CacheHint | None = None


class DocumentPart(Struct, frozen=True, gc=False, tag="document"):
    """A document, such as a PDF.  An upstream that takes none of this kind raises `UntranslatableError`.

    Attributes:
        source: Where the document is; None: its content is in `parts`.
        title: Its title or file name.
        context: Text about the document, which the model reads but does not cite.
        cite: The model is asked to cite it.
        parts: The content, without a `source`.
        cache: Marks the end of a prefix worth caching.
    """

    source: Source | None
    title: str = ""
    context: str = ""
    cite: bool = False
    parts: tuple["TextPart | ImagePart", ...] = ()
    cache: CacheHint | None = None


class AudioPart(Struct, frozen=True, gc=False, tag="audio"):
    """Audio.  An upstream that takes none raises `UntranslatableError`.

    Attributes:
        data: Base64 text.
        format: `wav` or `mp3`.
    """

    data: str
    format: str


class SearchResultPart(Struct, frozen=True, gc=False, tag="search_result"):
    """A search result that the client gives to the model.  Only Messages has it; elsewhere it becomes text.

    Attributes:
        source: Where it is from, for example its address.
        title: Its title.
        parts: Its text.
        cache: Marks the end of a prefix worth caching.
        cite: The model is asked to cite it.
    """

    source: str
    title: str
    parts: tuple[TextPart, ...]
    cache: CacheHint | None = None
    cite: bool = False


class OpaqueState(Struct, frozen=True, gc=False):
    """Reasoning state that only its vendor can read, as found in the history.

    Attributes:
        kind: What the state is for.
        data: The state itself.
        origin: The vendor that can read it; no other upstream gets it.
        item_id: Responses: the id of the reasoning item.
    """

    kind: OpaqueKind
    data: str
    origin: str
    item_id: str = ""


class ReasoningSegment(Struct, frozen=True, gc=False):
    """A piece of reasoning.

    Attributes:
        text: Its text.
        channel: Whether it is the reasoning itself or one part of a summary.
    """

    text: str
    channel: Channel = Channel.FULL


class ReasoningPart(Struct, frozen=True, gc=False, tag="reasoning"):
    """Reasoning of an assistant turn.  Whether an upstream gets it back depends on its profile.

    Attributes:
        segments: What is readable.
        opaque: State that only its vendor can read.
    """

    segments: tuple[ReasoningSegment, ...] = ()
    opaque: tuple[OpaqueState, ...] = ()

    @property
    def text(self) -> str:
        """All that is readable; parts of a summary are set apart by a blank line."""
        return "\n\n".join(segment.text for segment in self.segments)


class ToolCallPart(Struct, frozen=True, gc=False, tag="tool_call"):
    """A tool call in the history.

    Attributes:
        id: The client's id of the call; writers turn it into the upstream's own.
        name: The tool's name, as the client declares it.
        arguments: JSON text exactly as received; for custom calls the free-form input.
        flavor: Which kind of tool is called.
        namespace: The tool's namespace, if it was declared in one.
        opaque: State that signs the call.
    """

    id: str
    name: str
    arguments: str
    flavor: Flavor = Flavor.FUNCTION
    namespace: str = ""
    opaque: tuple[OpaqueState, ...] = ()


class ToolResultPart(Struct, frozen=True, gc=False, tag="tool_result"):
    """The result of a tool call.  One without its call is refused, or becomes text with `repair_history`.

    Attributes:
        call_id: The `id` of the call.
        parts: What the tool returned.
        is_error: The tool failed.
        flavor: Which kind of tool was called.
        cache: Marks the end of a prefix worth caching.
    """

    call_id: str
    parts: tuple["TextPart | ImagePart | DocumentPart | SearchResultPart", ...] = ()
    is_error: bool = False
    flavor: Flavor = Flavor.FUNCTION
    cache: CacheHint | None = None


class ServerToolPart(Struct, frozen=True, gc=False, tag="server_tool"):
    """A vendor-run tool's call or result in the history.

    Attributes:
        vendor: The vendor whose JSON `raw` is.  Empty: no vendor takes it back, because the part was written by a
            translator whose envelope is lost.
        summary: What it was, in readable lines; all other upstreams get these.
        raw: The call or result as JSON.
        origin: The upstream that sent it, if it came in an envelope: only that one takes it back.
        reasoned: Its vendor refuses it without the reasoning before it.
    """

    vendor: str
    summary: str
    raw: Raw
    origin: str = ""
    reasoned: bool = False


class RefusalPart(Struct, frozen=True, gc=False, tag="refusal"):
    """The model refused to answer.

    Attributes:
        text: The text with which it refused.
    """

    text: str


class OpaquePart(Struct, frozen=True, gc=False, tag="opaque"):
    """A vendor's own block of the history, such as a compaction.

    Attributes:
        vendor: The vendor that can read it.
        raw: The block as JSON.
        text: What of it is readable.
        path: JSON path of the block in the client's request, for the error if a target cannot take it.
    """

    vendor: str
    raw: Raw
    text: str = ""
    path: str = ""


Part: TypeAlias = (
    TextPart
    | ImagePart
    | DocumentPart
    | AudioPart
    | SearchResultPart
    | ReasoningPart
    | ToolCallPart
    | ToolResultPart
    | ServerToolPart
    | RefusalPart
    | OpaquePart
)


class Turn(Struct, frozen=True, gc=False):
    """One message of a conversation.

    Attributes:
        role: Who speaks.
        parts: Texts, images, calls, results, in order.
        name: The speaker's name, where a dialect has one.
        phase: Responses: the phase of an assistant message.
        path: JSON path of the turn in the client's request.
    """

    role: Role
    parts: tuple[Part, ...]
    name: str = ""
    phase: str = ""
    path: str = ""  # of the turn in the client's request


class Tool(Struct, frozen=True, kw_only=True, gc=False):
    """One tool that the model may call.  `dragoman.tool` makes it of a function.

    Attributes:
        name: What the model calls.
        description: What it does, for the model.
        schema: JSON schema of the arguments.
        strict: The server must enforce the schema; None: not stated.
        flavor: Which kind of tool it is.
        namespace: The namespace it is declared in.
        grammar: Custom tools: syntax and definition.
        server: The vendor runs it.
        kind: Server and built-in tools: the vendor's type, such as `web_search`.
        vendor: Server and built-in tools: the vendor that defines it.
        raw: Server and built-in tools: the whole definition.
        does: Server tools: what the tool does, for any vendor.
        server_options: Server tools: how it is set up, independent of any vendor.
        examples: Examples of arguments.
        options: Names of options that no other dialect has.
        cache: A cache mark on the definition.
        path: JSON path of the tool in the client's request.
    """

    name: str
    description: str = ""
    schema: Raw | None = None  # JSON schema of the arguments
    strict: bool | None = None
    flavor: Flavor = Flavor.FUNCTION
    namespace: str = ""
    grammar: tuple[str, str] | None = None  # custom tools: syntax and definition
    server: bool = False  # the vendor runs it
    kind: str = ""  # server and built-in tools: the vendor's type, such as `web_search`
    vendor: str = ""  # server and built-in tools: whose it is
    raw: Raw | None = None  # server and built-in tools: the whole definition
    does: ServerKind | None = None
    server_options: ServerOptions | None = None
    examples: tuple[Raw, ...] = ()
    options: tuple[str, ...] = ()  # names of options that no other dialect has
    cache: CacheHint | None = None
    path: str = ""


class ToolChoice(Struct, frozen=True, gc=False):
    """Which tools the model may or must call.

    Attributes:
        mode: `auto`, `required` (any tool), `none`, or `tool` (the one with `name` and `namespace`).
        name: With mode `tool`: the tool's name.
        namespace: With mode `tool`: its namespace, if it was declared in one.
        allowed: The names of the only tools that may be used; empty: all.
    """

    mode: Literal["auto", "required", "none", "tool"]
    name: str = ""
    namespace: str = ""
    allowed: tuple[str, ...] = ()


class Sampling(Struct, frozen=True, gc=False, kw_only=True):
    """Sampling parameters.  None: not sent.

    What an upstream does not take is dropped, and what is out of its range is clamped; both are reported.

    Attributes:
        temperature: Sampling temperature.
        top_p: Nucleus sampling.
        top_k: How many of the likeliest tokens are considered.
        seed: For reproducible sampling.
        frequency_penalty: Makes tokens less likely the more often they occurred.
        presence_penalty: Makes tokens that occurred less likely.
        logit_bias: JSON that maps ids of tokens to numbers that are added to their logits.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    seed: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    logit_bias: Raw | None = None


class ReasoningSettings(Struct, frozen=True, gc=False, kw_only=True):
    """How much the model is to think, and how much of that the client wants to see.

    An upstream with another kind of setting gets the nearest one: a budget as an effort, or the reverse
    (`thinking_converted`).

    Attributes:
        mode: `default` (nothing is sent), `off`, `auto` (the model decides), `budget` or `effort`.
        effort: With mode `effort` or `auto`: `none`, `minimal`, `low`, `medium`, `high`, `xhigh` or `max`.
        budget: With mode `budget`: tokens.
        show: `none`, `summary` or `full`; empty: not sent.
    """

    mode: Literal["default", "off", "auto", "budget", "effort"] = "default"
    effort: str = ""
    budget: int | None = None
    show: Literal["", "none", "summary", "full"] = ""


class OutputFormat(Struct, frozen=True, kw_only=True, gc=False):
    """The format of the answer.

    Attributes:
        kind: `text`, `json_object` (any JSON object) or `json_schema` (JSON that matches `schema`).
        name: The schema's name.
        description: What the schema is for, for the model.
        schema: A JSON schema.  An upstream that cannot enforce it gets it as an instruction (`schema_not_enforced`).
        strict: The server must enforce the schema; None: not stated.
    """

    kind: Literal["text", "json_object", "json_schema"] = "text"
    name: str = ""
    description: str = ""
    schema: Raw | None = None
    strict: bool | None = None


class Request(Struct, frozen=True, kw_only=True):
    """One request, independent of any dialect.  Made by `dragoman.request`, or read from a client's body.

    Attributes:
        dialect: The dialect it was written in.
        model: The model's name.
        stream: The client asks for a stream.
        system: Instructions before the conversation.
        turns: The conversation.
        tools: What the model may call.
        tool_choice: Which tools it may or must call.
        parallel: Whether it may make several calls in one answer.
        max_output: Limit of the answer in tokens.
        sampling: Temperature and the like.
        stop: Texts before which the answer ends.
        count: How many answers are requested.
        reasoning: How much the model reasons.
        format: What format the answer must have.
        verbosity: How verbose the answer should be.
        user_id: An id of the end user.
        tier: The service tier: `auto`, `default`, `flex`, `scale`, `priority`, `fast` or `ultrafast`.
        cache_key: A key for the vendor's prompt cache.
        cache_all: A cache mark on the whole prefix.
        logprobs: Log probabilities are requested.
        top_logprobs: How many alternatives of each token.
        include_usage: The client wants token counts in its stream.
        include: Responses: what the answer is to include.
        previous_id: Responses: the answer that this request continues.
        store: Responses: whether the vendor stores the answer.
        metadata: The client's own data, as JSON.
        extensions: Fields of the client's dialect that have no place above, as written: for a target of
            the same dialect, for echoes, and to report what was lost.
        losses: What was lost while it was read.
        outlined_ids: Ids of calls in a history that is left out.
    """

    dialect: DialectName
    model: str
    stream: bool = False
    system: tuple[TextPart, ...] = ()
    turns: tuple[Turn, ...] = ()
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel: bool | None = None
    max_output: int | None = None
    sampling: Sampling = Sampling()
    stop: tuple[str, ...] = ()
    count: int = 1  # how many answers are asked for
    reasoning: ReasoningSettings = ReasoningSettings()
    format: OutputFormat = OutputFormat()
    verbosity: str = ""
    user_id: str = ""
    tier: str = ""  # auto, default, flex, scale, priority, fast, ultrafast
    cache_key: str = ""
    cache_all: CacheHint | None = None  # a mark on the whole prefix
    logprobs: bool = False
    top_logprobs: int | None = None
    include_usage: bool = True  # the client wants token counts in its stream
    include: tuple[str, ...] = ()
    previous_id: str = ""
    store: bool | None = None
    metadata: Raw | None = None
    # Fields of the client's dialect that have no place above, as written: for a target of the same
    # dialect, for echoes, and to say what was lost.
    extensions: dict[str, Raw] = {}
    losses: tuple[Loss, ...] = ()
    outlined_ids: tuple[str, ...] = ()  # of calls in a history that is left out

    @property
    def call_ids(self) -> tuple[str, ...]:
        """Ids of all calls in the history, in their order, as the client knows them."""
        return self.outlined_ids or tuple(
            [part.id for turn in self.turns for part in turn.parts if type(part) is ToolCallPart]
        )

    @property
    def has_calls(self) -> bool:
        """True if the history has tool calls."""
        return bool(self.outlined_ids) or any(
            type(part) is ToolCallPart for turn in self.turns for part in turn.parts
        )

    @property
    def has_reasoning(self) -> bool:
        """True if the history has reasoning."""
        return any(type(part) is ReasoningPart for turn in self.turns for part in turn.parts)

    @property
    def has_images(self) -> bool:
        """True if the history has images, also inside tool results."""
        for turn in self.turns:
            for part in turn.parts:
                if type(part) is ImagePart:
                    return True
                if type(part) is ToolResultPart:
                    for inner in part.parts:
                        if type(inner) is ImagePart:
                            return True
        return False

    @property
    def needed_tools(self) -> tuple[Tool, ...]:
        """The vendor-run tools without which the request is useless; often empty.

        A request needs a vendor-run tool if its choice forces the tool, if it declares no other tools, or if
        a setting runs the tool whatever the model decides.  A model without the tool would answer from memory,
        and Claude Code shows that as search results.
        """
        choice, tools = self.tool_choice, self.tools
        if not tools or (choice is not None and choice.mode == "none"):
            return ()
        if choice is not None and choice.mode == "tool":
            tools = tuple(tool for tool in tools if tool.name == choice.name)
        elif choice is not None and choice.allowed:
            tools = tuple(tool for tool in tools if tool.name in choice.allowed)
        if all(tool.server for tool in tools):
            return tools
        return tuple(
            tool for tool in tools if tool.server_options is not None and tool.server_options.always
        )

    @property
    def needed(self) -> frozenset[ServerKind]:
        """The kinds of `needed_tools`, such as a web search."""
        return frozenset(tool.does or ServerKind.OTHER for tool in self.needed_tools)

    @property
    def offered(self) -> frozenset[ServerKind]:
        """The kinds of all other vendor-run tools that the request declares."""
        declared = frozenset(tool.does or ServerKind.OTHER for tool in self.tools if tool.server)
        return declared - self.needed

    def outline(self) -> "Request":
        """Return the request without its conversation, which would take memory until the answer ends.

        What a translator needs stays: tools, settings and the ids of calls.
        """
        return structs.replace(
            self,
            system=(),
            turns=(),
            format=OutputFormat(),
            metadata=None,
            extensions={},
            outlined_ids=self.call_ids,
        )


def joined_text(parts: Sequence[Part], separator: str = "\n\n") -> str:
    """Return the text parts of `parts` as one string."""
    return separator.join(part.text for part in parts if isinstance(part, TextPart) and part.text)
