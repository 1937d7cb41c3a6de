"""What an upstream or a model can and cannot do, as data.

Every field is a fact about a peer, with a line of prose; code reads the profile and never checks the
vendor's name.
"""

from typing import Final, Literal, TypeAlias

from msgspec import Struct

from dragoman.ids import IdStyle

# How hosts of Chat Completions are asked for a web search: no two vendors have the same field.
#   options     OpenAI's search models: `web_search_options`
#   openrouter  a tool `openrouter:web_search`
#   kimi        a tool `$web_search`, whose call the client has to send back
#   zai         a tool `web_search` with settings
#   qwen        `enable_search`
#   xai         `search_parameters`
#   perplexity  always, with settings beside the messages
#   compound    Groq's compound systems: `compound_custom`
#   browser     Groq's gpt-oss: a tool `browser_search`
ChatSearch: TypeAlias = Literal[
    "", "options", "openrouter", "kimi", "zai", "qwen", "xai", "perplexity", "compound", "browser"
]

# What else a host runs that is asked in this way.
_SEARCH: Final = frozenset({"web_search"})
_CHAT_KINDS: Final[dict[str, frozenset[str]]] = {
    "": frozenset(),
    "options": _SEARCH,
    "openrouter": _SEARCH | {"web_fetch", "code_execution", "image_generation"},
    "kimi": _SEARCH,
    "zai": _SEARCH,
    "qwen": _SEARCH,
    "xai": _SEARCH,
    "perplexity": _SEARCH,
    "compound": _SEARCH | {"web_fetch", "code_execution"},
    "browser": _SEARCH | {"code_execution"},
}

# Chat hosts whose search runs in a second request, which returns its call with the arguments as the result.
RETURNED_SEARCHES: Final[frozenset[str]] = frozenset({"kimi"})


class Profile(Struct, frozen=True, kw_only=True, cache_hash=True):
    """Facts about one upstream; a description without a subject is about it.

    The defaults are safe for an unknown Chat server.

    Attributes:
        name: The profile's name.
        description: One line: what this is.
        vendor: The vendor whose opaque state it understands; empty: its own name.
        think_tags: Whether `<think>` tags in the text are reasoning; `implicit_open`: it sends only the closing tag.
        cumulative: Repeats the whole text so far in each delta.
        lenient_eof: A stream that ends after complete tool calls counts as finished.
        truncation_unreported: Ends a response that reached its limit as if it were complete.
        signs_calls: May send state that signs a tool call, right after the call's header.
        requires_call_signatures: Refuses calls of the current turn without the state that signs them.
        pauses: May end any answer with a token that continues it.
        tool_calls: "whole" holds each call until it is complete.
        max_tokens_field: The Chat field of the output limit.
        max_output_tokens: Larger values are clamped to this.
        default_max_output: The output limit to send if the dialect demands one and the client gave none.
        stream_usage: Knows `stream_options.include_usage`.
        supports_store: Knows `store` and other fields of OpenAI's platform.
        user_field: The field for the user's id.
        id_style: Which call ids it accepts.
        send_ids: Takes ids of calls in the history, where the dialect can do without (Gemini).
        max_stop_sequences: Stop sequences it accepts; others are matched on the answer.
        extra_fields: Fields that go into every request as they are: name and JSON value.  A client's own
            field wins.
        developer_role: Takes `developer` where others take `system`.
        midturn_system: Takes instructions anywhere in the conversation.
        own_midturn_system: Only some of its models accept such instructions: those of a client of the same
            dialect are forwarded unchanged.
        merge_system: Wants one leading system message and no other.
        alternate_roles: Wants user and assistant to alternate.
        user_after_tool: Takes a user message directly after a tool's result.
        content_parts: "string": accepts only text, as one string.
        tool_content: The form of a tool message's content.
        tool_images: Where images of a tool result go: into the result, a user message after it, or a
            placeholder text.
        empty_assistant_content: How an assistant message without text is written.
        refuses_empty_tool_content: An empty tool result is rejected.
        images: Which images it accepts.
        documents: Takes PDF files.
        prefill: How it continues a last assistant turn.
        tool_choice: Which tool choices it accepts.
        tool_choice_none: Accepts `tool_choice: none`.
        supports_parallel_flag: Accepts a switch against parallel tool calls.
        supports_strict: Can enforce a tool's schema.
        supports_custom_tools: Accepts tools with free-form input.
        stream_args: Asks for the arguments of calls in pieces, where they are whole otherwise (Vertex).
        schema_dialect: Which part of JSON Schema it accepts; see `dragoman.profiles.schema`.
        server_tools: Kinds of vendor-run tools that it has, each behind the API that has it, such as
            `responses/web_search`; without an API: those of its Messages, Responses and Gemini APIs.
        server_tools_beside_functions: Takes vendor-run tools and functions in one request.
        search_options: Settings of a web search that its Responses or Gemini API takes, as `ServerOptions` names
            them.
        search_domains: How many domains a web search may be limited to; with more, it is not limited.
        chat_search: How its Chat API is asked for a web search; empty: it has none.
        mcp_credentials: May get the credentials that clients of other vendors have for MCP servers.  Only a route
            sets it.
        cached_search: What happens to a search that its client limits to the vendor's cache, if it has no such
            search: `drop`, or `live`.  Only a route sets it.
        vendor_tools: Has every tool of its dialect's vendor.
        vendor_models: Has the tools of its dialect's vendor for that vendor's models.
        betas: Takes the `anthropic-beta` header of a Messages client.
        json_schema: How a schema of the answer is sent.
        json_schema_with_tools: Takes a schema of the answer also if functions are declared.
        drop_sampling: Refuses temperature and top_p.
        max_temperature: Larger values are clamped to this.
        seed_field: The field for the seed.
        vendor_sampling: Takes `top_k` and similar parameters.
        supports_logprobs: Accepts `logprobs`.
        supports_verbosity: Accepts `verbosity`.
        supports_cache_key: Accepts a prompt cache key.
        cache_control: Takes Anthropic's cache marks on Chat content parts.
        cache_breakpoints: Takes OpenAI's explicit cache breakpoints.
        reasoning_control: How reasoning is switched on, and how its amount is set.
        supported_efforts: The reasoning efforts it knows.
        forced_tool_choice_with_thinking: Takes a forced tool and thinking in one request.
        forced_tool_choice_policy: What to do where a forced tool and thinking exclude each other.
        replay_reasoning: Which assistant turns get their reasoning back; "auto": as the model's family
            wants it.
        reasoning_field: The Chat field of its reasoning.
        reasoning_filler: Text to send as reasoning where it demands reasoning and the history has none.
        carry_reasoning: Later calls of a tool chain repeat its last reasoning.
        signed_reasoning: Messages, Responses: takes back only what it signed itself.
        refuses_reasoning: Answers 400 to reasoning in the history: what a client of the same dialect sends
            is removed.
    """

    name: str
    description: str = ""  # one line: what this is
    vendor: str = ""  # whose opaque state it understands; empty: its own name

    # --- reading its streams ---
    think_tags: Literal["off", "auto", "implicit_open"] = "auto"  # `<think>` inside the text
    cumulative: bool = False  # each delta repeats the whole text so far
    lenient_eof: bool = False  # a stream that ends after complete tool calls counts as finished
    truncation_unreported: bool = (
        False  # a response that reached its limit ends as one that is complete
    )
    signs_calls: bool = (
        False  # may send state that signs a tool call, right after the call's header
    )
    requires_call_signatures: bool = (
        False  # refuses calls of the current turn without the state that signs them
    )
    pauses: bool = False  # may end any answer with a token that continues it
    tool_calls: Literal["stream", "whole"] = (
        "stream"  # "whole" holds each call until it is complete
    )

    # --- requests: limits and names ---
    max_tokens_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    max_output_tokens: int | None = None  # larger values are clamped to this
    default_max_output: int = 32_000  # where the dialect demands a limit and the client gave none
    stream_usage: bool = True  # knows `stream_options.include_usage`
    supports_store: bool = False  # knows `store` and other fields of OpenAI's platform
    user_field: Literal["user", "safety_identifier", "none"] = "user"
    id_style: IdStyle = "any"
    send_ids: bool = True
    max_stop_sequences: int = 4
    # Fields that go into every request as they are: name and JSON value.  A client's own field wins.
    extra_fields: tuple[tuple[str, str], ...] = ()

    # --- requests: messages ---
    developer_role: bool = False  # takes `developer` where others take `system`
    midturn_system: bool = True  # takes instructions anywhere in the conversation
    # Some of its models do: instructions from a client of the same dialect are forwarded unchanged.
    own_midturn_system: bool = False
    merge_system: bool = False  # wants one leading system message and no other
    alternate_roles: bool = False  # wants user and assistant to alternate
    user_after_tool: bool = True  # takes a user message directly after a tool's result
    content_parts: Literal["parts", "string"] = "parts"  # "string": text only, joined
    tool_content: Literal["string", "parts"] = "string"  # content of a tool message
    tool_images: Literal["follow_up", "native", "placeholder"] = "follow_up"
    empty_assistant_content: Literal["null", "empty", "omit"] = "null"
    refuses_empty_tool_content: bool = False
    images: Literal["any", "base64_only", "none"] = "any"
    documents: bool = True  # takes PDF files
    prefill: Literal["no", "native", "prefix", "partial"] = (
        "no"  # a last assistant turn to go on from
    )

    # --- requests: tools ---
    tool_choice: Literal["full", "strings_only", "auto_only"] = "full"
    tool_choice_none: bool = True
    supports_parallel_flag: bool = True
    supports_strict: bool = False
    supports_custom_tools: bool = False
    stream_args: bool = False  # asks for arguments in pieces, where they are whole otherwise
    schema_dialect: Literal["any", "moonshot", "gemini", "plain"] = "any"  # see `profiles.schema`
    # Such as `responses/web_search`, or `web_search` of all APIs.
    server_tools: tuple[str, ...] = ()
    server_tools_beside_functions: bool = True  # takes both in one request
    # Settings of a web search that its Responses or Gemini API takes, as `ServerOptions` names them.
    search_options: tuple[str, ...] = ("allowed", "place", "context", "max_uses")
    search_domains: int = 20  # that a web search may be limited to; with more, it is not limited
    chat_search: ChatSearch = ""  # how its Chat API is asked for a web search
    mcp_credentials: bool = False  # of clients of other vendors; only a route sets it
    cached_search: Literal["drop", "live"] = "drop"  # where there is none; only a route sets it
    vendor_tools: bool = False  # has every tool of its dialect's vendor
    vendor_models: bool = False  # a model of its dialect's vendor brings the vendor's tools along
    betas: bool = True  # takes the `anthropic-beta` header of a Messages client

    # --- requests: output and sampling ---
    json_schema: Literal["native", "json_object", "instruction"] = "native"
    json_schema_with_tools: bool = True  # takes one also if functions are declared
    drop_sampling: bool = False  # refuses temperature and top_p
    max_temperature: float = 2.0  # larger values are clamped to this
    seed_field: Literal["seed", "random_seed", "none"] = "seed"
    vendor_sampling: bool = False  # takes `top_k` and similar parameters
    supports_logprobs: bool = True
    supports_verbosity: bool = False
    supports_cache_key: bool = False
    cache_control: bool = False  # takes Anthropic's cache marks on Chat content parts
    cache_breakpoints: bool = False  # takes OpenAI's explicit cache breakpoints

    # --- reasoning ---
    reasoning_control: Literal[
        "none",
        "reasoning_effort",
        "openrouter",
        "thinking_type",
        "chat_template_kwargs",
        "enable_thinking",  # a field of that name, and `thinking_budget`
        "adaptive",
        "budget",
    ] = "reasoning_effort"
    supported_efforts: tuple[str, ...] = ("low", "medium", "high")
    forced_tool_choice_with_thinking: bool = True  # takes both in one request
    forced_tool_choice_policy: Literal["error", "disable_thinking", "downgrade"] = (
        "disable_thinking"
    )
    # Which assistant turns get their reasoning back; "auto": as the model's family wants it.
    replay_reasoning: Literal["never", "tool_turns", "current_turn", "always", "auto"] = "never"
    reasoning_field: Literal["reasoning_content", "reasoning", "reasoning_details"] = (
        "reasoning_content"
    )
    reasoning_filler: str = ""  # put where the peer demands reasoning and there is none
    carry_reasoning: bool = False  # later calls of a tool chain repeat its last reasoning
    signed_reasoning: bool = False  # Messages, Responses: takes back only what it signed itself
    # Answers 400 to reasoning in the history: it is removed from requests of the same dialect too.
    refuses_reasoning: bool = False

    def runs(self, kind: str, dialect: str) -> bool:
        """Return whether it runs tools of this kind itself, in its API of this dialect.

        Args:
            kind: A value of `ServerKind`, such as `web_search`.
            dialect: The dialect in which the upstream is asked.
        """
        if dialect == "chat":
            return kind in _CHAT_KINDS[self.chat_search]
        return kind in self.server_tools or f"{dialect}/{kind}" in self.server_tools

    @property
    def origin(self) -> str:
        """The vendor whose opaque state this upstream sends and understands."""
        return self.vendor or self.name
