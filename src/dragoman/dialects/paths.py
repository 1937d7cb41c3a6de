"""Where a client of any dialect keeps a setting: the path that a loss or a refusal names."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from dragoman.turn.request import DialectName, Request

# By what the field means; in the order Messages, Chat, Responses, Gemini.  None: the dialect has no such field.
_FIELDS: Final[dict[str, tuple[str | None, str | None, str | None, str | None]]] = {
    "model": ("model", "model", "model", "model"),
    "max_output": (
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "generationConfig.maxOutputTokens",
    ),
    "temperature": ("temperature", "temperature", "temperature", "generationConfig.temperature"),
    "top_p": ("top_p", "top_p", "top_p", "generationConfig.topP"),
    "top_k": ("top_k", "top_k", "top_k", "generationConfig.topK"),
    "seed": (None, "seed", None, "generationConfig.seed"),
    "frequency_penalty": (None, "frequency_penalty", None, "generationConfig.frequencyPenalty"),
    "presence_penalty": (None, "presence_penalty", None, "generationConfig.presencePenalty"),
    "logit_bias": (None, "logit_bias", None, None),
    "stop": ("stop_sequences", "stop", None, "generationConfig.stopSequences"),
    "count": (None, "n", None, "generationConfig.candidateCount"),
    "logprobs": (None, "logprobs", "top_logprobs", "generationConfig.responseLogprobs"),
    "verbosity": (None, "verbosity", "text.verbosity", None),
    "tier": ("service_tier", "service_tier", "service_tier", "serviceTier"),
    "user_id": ("metadata.user_id", "user", "user", None),
    "metadata": (None, "metadata", "metadata", "labels"),
    "store": (None, "store", "store", "store"),
    "cache_key": (None, "prompt_cache_key", "prompt_cache_key", None),
    "previous_id": (None, None, "previous_response_id", None),
    "format": (
        "output_config.format",
        "response_format",
        "text.format",
        "generationConfig.responseSchema",
    ),
    "thinking": (
        "thinking",
        "reasoning_effort",
        "reasoning.effort",
        "generationConfig.thinkingConfig",
    ),
    "tools": ("tools", "tools", "tools", "tools"),
    "tool_choice": ("tool_choice", "tool_choice", "tool_choice", "toolConfig"),
    "parallel": (
        "tool_choice.disable_parallel_tool_use",
        "parallel_tool_calls",
        "parallel_tool_calls",
        None,
    ),
    "messages": ("messages", "messages", "input", "contents"),
}
_COLUMN: Final[Mapping[DialectName, int]] = {
    "anthropic": 0,
    "chat": 1,
    "responses": 2,
    "gemini": 3,
}


# The paths of the entries of most conversations and lists of tools: formatting a path costs more than
# reading the entry.
_ENTRIES: Final = {
    field: tuple(f"$.{field}[{at}]" for at in range(500))
    for field in ("messages", "input", "contents", "tools")
}


def entry_paths(
    field: Literal["messages", "input", "contents", "tools"], count: int
) -> Sequence[str]:
    """Return the paths of a list's entries: at least `count` of them."""
    known = _ENTRIES[field]
    return known if count <= len(known) else [f"$.{field}[{at}]" for at in range(count)]


def path_of(request: Request, meaning: str) -> str:
    """Return the JSON path of a field in the dialect of the request's client."""
    column = _COLUMN.get(request.dialect)
    name = None if column is None else _FIELDS[meaning][column]
    return f"$.{name or meaning}"
