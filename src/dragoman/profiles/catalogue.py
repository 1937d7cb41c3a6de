"""The profiles that come with the package: facts about upstreams, each surprising one with its reason.

A profile describes a server, not one model behind it; where the models of a server differ, the value
is the one that no model refuses.  Other fields have the defaults of `Profile`.
"""

import re
from typing import Final, Literal

from msgspec import structs

from dragoman.profiles.profile import ChatSearch, Profile

# For servers that set no bound themselves.
_MANY_STOPS: Final = 64

_OPENAI: Final = Profile(
    name="openai",
    description="OpenAI's own API, Chat Completions or Responses",
    think_tags="off",  # reasoning never comes inside the text; a tag there is text about tags
    max_tokens_field="max_completion_tokens",  # reasoning models refuse the older field
    supports_store=True,
    user_field="safety_identifier",
    id_style="openai40",
    developer_role=True,
    tool_content="parts",
    supports_strict=True,
    supports_custom_tools=True,
    server_tools=(
        "responses/web_search",
        "responses/code_execution",
        "responses/mcp",
        "responses/image_generation",
    ),
    chat_search="options",  # of its search models only, see `for_model`
    vendor_tools=True,
    supports_verbosity=True,
    supports_cache_key=True,
    cache_breakpoints=True,
    supported_efforts=("none", "minimal", "low", "medium", "high", "xhigh", "max"),
)

_ANTHROPIC: Final = Profile(
    name="anthropic",
    description="Anthropic's own API, for models that decide themselves how long to think",
    think_tags="off",
    user_field="none",  # the dialect has its own place for it
    id_style="anthropic64",
    max_stop_sequences=_MANY_STOPS,
    # Only the newest models take a system message between turns, and only behind a user turn.
    midturn_system=False,
    own_midturn_system=True,
    alternate_roles=True,
    tool_content="parts",
    tool_images="native",
    supports_strict=True,
    server_tools=(
        "anthropic/web_search",
        "anthropic/web_fetch",
        "anthropic/code_execution",
        "anthropic/mcp",
    ),
    vendor_tools=True,
    drop_sampling=True,  # recent models answer 400
    max_temperature=1.0,
    vendor_sampling=True,
    supports_logprobs=False,
    cache_control=True,
    reasoning_control="adaptive",
    supported_efforts=("low", "medium", "high", "xhigh", "max"),
    forced_tool_choice_with_thinking=False,
    replay_reasoning="always",  # signed blocks; without them a tool turn is refused
    signed_reasoning=True,
)

_GEMINI_API: Final = Profile(
    name="gemini-api",
    description="Gemini models through Google's own API with an API key (AI Studio)",
    think_tags="off",
    signs_calls=True,
    requires_call_signatures=True,  # Gemini 3; see _GEMINI_MODELS for the others
    pauses=True,  # `CONTINUATION`
    user_field="none",
    max_stop_sequences=5,
    max_output_tokens=65_536,
    midturn_system=False,  # the dialect has no role for it
    alternate_roles=True,
    tool_content="parts",
    tool_images="native",
    supports_parallel_flag=False,
    server_tools=("gemini/web_search", "gemini/web_fetch", "gemini/code_execution", "gemini/mcp"),
    search_options=(),
    vendor_tools=True,
    vendor_sampling=True,
    supported_efforts=("minimal", "low", "medium", "high"),
    # Its state is a signature on each call, kept with the call; there is no text to give back.
    replay_reasoning="never",
    signed_reasoning=True,
)

_VLLM: Final = Profile(
    name="vllm",
    description="vLLM's OpenAI-compatible server",
    max_stop_sequences=_MANY_STOPS,
    # Templates of Qwen, Gemma and others raise on any system message but one at the top.
    midturn_system=False,
    merge_system=True,
    documents=False,
    vendor_sampling=True,
    reasoning_control="chat_template_kwargs",
    replay_reasoning="always",  # the template keeps what its model wants and drops the rest
    reasoning_field="reasoning",  # the older name is read, but no longer written
)

_ALL: Final = (
    Profile(
        name="generic",
        description="any server that calls itself OpenAI-compatible",
        signs_calls=True,  # Gemini may be behind it
        midturn_system=False,  # refused by the templates of many open models
        replay_reasoning="auto",  # any model may run there
        vendor_models=True,  # Anthropic or OpenAI may be behind it
    ),
    _OPENAI,
    structs.replace(
        _OPENAI,
        name="openai-reasoning",
        description="OpenAI's reasoning models, which refuse sampling settings and stop sequences",
        vendor="openai",
        drop_sampling=True,
        max_stop_sequences=0,
        supports_logprobs=False,
    ),
    _ANTHROPIC,
    structs.replace(
        _ANTHROPIC,
        name="anthropic-budget",
        description="older Claude models, which think up to a token budget",
        vendor="anthropic",
        own_midturn_system=False,
        drop_sampling=False,
        prefill="native",
        json_schema="instruction",  # structured output came later
        reasoning_control="budget",
        supported_efforts=("minimal", "low", "medium", "high", "xhigh", "max"),
    ),
    Profile(
        name="openrouter",
        description="OpenRouter, in front of many vendors",
        signs_calls=True,  # Gemini may be behind it
        midturn_system=False,  # passed on as it is, and refused by some of the vendors
        prefill="native",
        supports_strict=True,
        server_tools=("anthropic/web_search", "responses/web_search"),
        chat_search="openrouter",
        vendor_sampling=True,
        supports_verbosity=True,
        cache_control=True,  # passed on to Claude and Gemini
        reasoning_control="openrouter",
        supported_efforts=("none", "minimal", "low", "medium", "high", "xhigh", "max"),
        # Signatures and encrypted reasoning come in the details and must return unchanged.
        replay_reasoning="always",
        reasoning_field="reasoning_details",
        signed_reasoning=True,  # Claude may be behind it
    ),
    Profile(
        name="deepseek",
        description="DeepSeek's own API",
        max_stop_sequences=16,
        documents=False,
        images="none",
        tool_images="placeholder",  # a screenshot in a tool result must not end the session
        prefill="prefix",
        supports_parallel_flag=False,
        server_tools=("anthropic/web_search", "responses/web_search"),
        search_options=("allowed",),  # size and place are ignored
        json_schema="json_object",
        reasoning_control="thinking_type",
        supported_efforts=("low", "high", "max"),  # `medium` is read as `high`
        # Forced tool use while thinking is a 400; thinking is on unless the request turns it off.
        forced_tool_choice_with_thinking=False,
        # With thinking on, every earlier assistant turn that called a tool must bring its reasoning,
        # and an empty string counts as none.
        replay_reasoning="tool_turns",
        reasoning_filler=" ",
        carry_reasoning=True,
    ),
    Profile(
        name="moonshot",
        description="Moonshot's own API for Kimi models",
        max_tokens_field="max_completion_tokens",
        user_field="safety_identifier",
        # Kimi falls back to writing its calls as text when the history has ids of another shape.
        id_style="kimi",
        max_stop_sequences=5,
        refuses_empty_tool_content=True,
        images="base64_only",  # or files uploaded before; no addresses
        documents=False,
        prefill="partial",
        schema_dialect="moonshot",
        chat_search="kimi",
        json_schema="json_object",
        drop_sampling=True,  # fixed by the platform; other values answer 400
        max_temperature=1.0,
        supports_logprobs=False,
        supports_cache_key=True,
        reasoning_control="thinking_type",
        supported_efforts=("low", "high", "max"),
        forced_tool_choice_with_thinking=False,
        # Some Kimi models cannot stop thinking: weakening the choice is what all of them take.
        forced_tool_choice_policy="downgrade",
        replay_reasoning="tool_turns",
        reasoning_filler=" ",  # an empty string is refused, a blank is not
        carry_reasoning=True,
    ),
    Profile(
        name="qwen",
        description="Alibaba's Model Studio (DashScope) in its OpenAI-compatible mode",
        user_field="none",
        midturn_system=False,
        merge_system=True,
        empty_assistant_content="empty",  # null is refused beside tool calls
        documents=False,
        prefill="partial",
        tool_choice="auto_only",  # `required` is refused, and any forcing while thinking
        server_tools=("responses/web_search", "responses/web_fetch", "responses/code_execution"),
        chat_search="qwen",
        json_schema="json_object",  # schemas only with a few models
        vendor_sampling=True,
        reasoning_control="enable_thinking",
        replay_reasoning="tool_turns",
    ),
    Profile(
        name="zai",
        description="Z.ai's own API for GLM models",
        stream_usage=False,  # counts come in the last chunk without being asked for
        user_field="none",
        max_stop_sequences=1,
        # Without it a call's arguments arrive in one piece after minutes of silence.
        extra_fields=(("tool_stream", "true"),),
        documents=False,
        tool_choice="auto_only",
        tool_choice_none=False,
        supports_parallel_flag=False,
        chat_search="zai",
        json_schema="json_object",
        max_temperature=1.0,
        seed_field="none",
        supports_logprobs=False,
        reasoning_control="thinking_type",
        supported_efforts=("low", "high", "max"),
        replay_reasoning="always",
    ),
    Profile(
        name="minimax",
        description="MiniMax's own API in its OpenAI-compatible mode",
        max_tokens_field="max_completion_tokens",
        user_field="none",
        # Otherwise reasoning comes as `<think>` inside the text, and would have to return there.
        extra_fields=(("reasoning_split", "true"),),
        midturn_system=False,  # the template ignores all but the first
        merge_system=True,
        documents=False,
        tool_choice="auto_only",
        tool_choice_none=False,
        supports_parallel_flag=False,
        json_schema="instruction",
        max_temperature=1.0,
        seed_field="none",
        supports_logprobs=False,
        reasoning_control="none",  # older models always think, newer ones decide themselves
        replay_reasoning="always",  # interleaved thinking: the chain breaks without it
        reasoning_field="reasoning_details",
    ),
    Profile(
        name="mistral",
        description="Mistral's own API",
        # Unknown fields are a 422 here, so each of these matters.
        stream_usage=False,  # counts come in the last chunk without being asked for
        user_field="none",
        id_style="mistral9",
        midturn_system=False,
        alternate_roles=True,
        user_after_tool=False,  # "Unexpected role 'user' after role 'tool'"
        tool_images="placeholder",  # they could only follow in a user message
        empty_assistant_content="empty",
        prefill="prefix",
        supports_strict=True,
        max_temperature=1.5,
        seed_field="random_seed",
        supports_logprobs=False,
        supported_efforts=("none", "high"),
        replay_reasoning="never",  # `reasoning_content` in the history is a 422
        refuses_reasoning=True,
    ),
    Profile(
        name="gemini",
        description="Gemini through Google's OpenAI-compatible endpoint",
        signs_calls=True,  # and refuses a history without the signatures
        user_field="none",
        max_stop_sequences=5,
        midturn_system=False,  # all system text is moved to the top
        alternate_roles=True,
        refuses_empty_tool_content=True,
        supports_parallel_flag=False,
        schema_dialect="gemini",
        supports_logprobs=False,
        supported_efforts=("none", "minimal", "low", "medium", "high"),
        # Its state is a signature on each call, kept with the call; there is no text to give back.
        replay_reasoning="never",
    ),
    _GEMINI_API,
    structs.replace(
        _GEMINI_API,
        name="vertex",
        description="Gemini models on Google Cloud's Vertex AI",
        server_tools=("gemini/web_search", "gemini/web_fetch", "gemini/code_execution"),
        search_options=("blocked",),  # AI Studio refuses `excludeDomains`
    ),
    Profile(
        name="groq",
        description="Groq's own API",
        max_tokens_field="max_completion_tokens",
        midturn_system=False,
        documents=False,
        supports_strict=True,
        server_tools=("responses/mcp",),
        chat_search="browser",  # or "compound", see `for_model`
        supports_logprobs=False,  # a 400 if asked for
        replay_reasoning="never",
        reasoning_field="reasoning",
    ),
    Profile(
        name="xai",
        description="xAI's own API for Grok models",
        user_field="user",
        documents=False,
        supports_strict=True,
        server_tools=("responses/web_search", "responses/code_execution", "responses/mcp"),
        chat_search="xai",
        search_options=("allowed", "blocked", "max_uses"),
        search_domains=5,
        supported_efforts=("low", "high"),
        replay_reasoning="never",
    ),
    Profile(
        name="perplexity",
        description="Perplexity's Sonar models, which search the web for every answer",
        user_field="none",
        midturn_system=False,
        alternate_roles=True,  # a 400 otherwise
        documents=False,
        tool_choice="auto_only",
        tool_choice_none=False,
        supports_parallel_flag=False,
        server_tools=("responses/web_search",),
        chat_search="perplexity",
        seed_field="none",
        supports_logprobs=False,
        supported_efforts=("minimal", "low", "medium", "high"),
        replay_reasoning="never",
    ),
    _VLLM,
    structs.replace(
        _VLLM,
        name="sglang",
        description="SGLang's OpenAI-compatible server",
        reasoning_field="reasoning_content",
    ),
    structs.replace(
        _VLLM,
        name="llama-server",
        description="llama.cpp's server",
        truncation_unreported=True,  # at `/v1/responses`
        tool_choice="strings_only",  # an object that names a tool is read as `auto`
        reasoning_field="reasoning_content",
    ),
    Profile(
        name="ollama",
        description="Ollama's OpenAI-compatible endpoint",
        user_field="none",
        max_stop_sequences=_MANY_STOPS,
        midturn_system=False,
        merge_system=True,
        images="base64_only",
        documents=False,
        tool_choice="auto_only",  # the field is ignored
        tool_choice_none=False,
        supports_parallel_flag=False,
        supported_efforts=("none", "low", "medium", "high", "max"),
        replay_reasoning="always",
        reasoning_field="reasoning",
    ),
    Profile(
        name="lm-studio",
        description="LM Studio's OpenAI-compatible server",
        max_stop_sequences=_MANY_STOPS,
        midturn_system=False,
        merge_system=True,
        empty_assistant_content="empty",  # null is refused
        images="base64_only",
        documents=False,
        tool_choice="strings_only",  # an object is a 400
        supports_parallel_flag=False,
        vendor_sampling=True,
        replay_reasoning="always",
    ),
    Profile(
        name="transformers",
        description="`transformers serve`",
        truncation_unreported=True,  # at `/v1/responses`
        stream_usage=False,  # counts come in the last chunk without being asked for
        user_field="none",
        max_stop_sequences=_MANY_STOPS,
        midturn_system=False,
        merge_system=True,
        documents=False,
        # What it does not know is a 422, and many known fields are ignored.
        tool_choice="auto_only",
        tool_choice_none=False,
        supports_parallel_flag=False,
        json_schema="instruction",
        supports_logprobs=False,
        reasoning_control="chat_template_kwargs",
        replay_reasoning="always",
    ),
    Profile(
        name="litellm",
        description="a LiteLLM proxy, in front of many vendors",
        signs_calls=True,  # Gemini may be behind it
        midturn_system=False,
        vendor_sampling=True,
        cache_control=True,
        supported_efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
        replay_reasoning="tool_turns",
        signed_reasoning=True,  # Claude may be behind it
        vendor_models=True,  # Anthropic or OpenAI may be behind it
    ),
)

PROFILES: Final[dict[str, Profile]] = {profile.name: profile for profile in _ALL}

# Chat hosts of which only some models search, and what they are asked with: the first that fits counts.
SEARCHING_MODELS: Final[dict[str, tuple[tuple[re.Pattern[str], ChatSearch], ...]]] = {
    "options": ((re.compile(r"-search(?:-|\Z)"), "options"),),
    "browser": (
        (re.compile(r"\Acompound"), "compound"),
        (re.compile(r"\Agpt-oss"), "browser"),
    ),
}

# The APIs in which a vendor has all of its tools; one that it offers for compatibility has them not.
VENDOR_DIALECTS: Final[dict[str, tuple[str, ...]]] = {
    "anthropic": ("anthropic",),
    "openai": ("chat", "responses"),
    "gemini-api": ("gemini",),
    "vertex": ("gemini",),
}

# How the names of models begin that a dialect's own vendor makes.
VENDOR_MODELS: Final[dict[str, re.Pattern[str]]] = {
    "anthropic": re.compile(r"claude"),
    "responses": re.compile(r"gpt-(?!oss)|chatgpt|codex|o[134](?:-|\Z)|computer-use"),
    "gemini": re.compile(r"gemini-"),
}

# What the models of one API differ in, by its dialect and by how their names begin; the first that fits counts.
_GEMINI_MODELS: Final[tuple[tuple[re.Pattern[str], dict[str, object]], ...]] = (
    # Models that make images.
    (
        re.compile(r"gemini-2\.5-[a-z-]*image"),
        {
            "reasoning_control": "none",
            "json_schema_with_tools": False,
            "requires_call_signatures": False,
            "server_tools": ("gemini/image_generation",),
            "server_tools_beside_functions": False,  # a 400
            "tool_images": "follow_up",
        },
    ),
    (
        re.compile(r"gemini-(?:[3-9]|\d\d)[.0-9]{0,4}-[a-z-]*image"),
        {"server_tools": ("gemini/web_search", "gemini/image_generation")},
    ),
    (
        re.compile(r"gemini-2\.5"),
        {
            "reasoning_control": "budget",
            "json_schema_with_tools": False,
            "requires_call_signatures": False,
            "server_tools_beside_functions": False,  # a 400
            "tool_images": "follow_up",
        },
    ),
    # A level that a model lacks is a 400, and only Flash models have `MINIMAL`.
    (
        re.compile(r"gemini-(?:[3-9]|\d\d)[.0-9]{0,4}-pro"),
        {"supported_efforts": ("low", "medium", "high")},
    ),
    (re.compile(r"gemini-(?:[3-9]|\d\d)"), {}),
    # Older ones, and models of others behind the same API: a thinking setting is a 400 there.
    (
        re.compile(r""),
        {
            "reasoning_control": "none",
            "json_schema_with_tools": False,
            "requires_call_signatures": False,
            "server_tools_beside_functions": False,  # a 400
            "tool_images": "follow_up",
        },
    ),
)
DIFFERING_MODELS: Final = {"gemini": _GEMINI_MODELS}

# Families of models that lose their thread, or are refused, without the reasoning of earlier turns:
# which turns it goes back with, as on the vendor's own servers.
FAMILIES_WANTING_REASONING: Final[dict[str, Literal["tool_turns", "always"]]] = {
    "kimi_k2": "tool_turns",
    "kimi_k3": "tool_turns",
    "deepseek_v31": "tool_turns",
    "deepseek_v32": "tool_turns",
    "deepseek_v4": "tool_turns",
    "hermes": "tool_turns",  # Qwen 3
    "qwen3_coder": "tool_turns",  # Qwen 3.5 and later, MiMo, Nemotron 3, Step 3.5
    "gpt_oss": "tool_turns",
    "glm45": "always",
    "glm47": "always",
    "minimax_m1": "always",
    "minimax_m2": "always",
    "minimax_m3": "always",
}

# Other names that people use for the same upstream.
ALIASES: Final[dict[str, str]] = {
    "claude": "anthropic",
    "dashscope": "qwen",
    "alibaba": "qwen",
    "kimi": "moonshot",
    "moonshotai": "moonshot",
    "glm": "zai",
    "z.ai": "zai",
    "zhipu": "zai",
    "google": "gemini",
    "llama.cpp": "llama-server",
    "llamacpp": "llama-server",
    "lmstudio": "lm-studio",
    "mistralai": "mistral",
    "grok": "xai",
    "sonar": "perplexity",
    "openai-compatible": "generic",
}
