"""Where a client of any dialect keeps a setting: the path that a loss or a refusal names."""

from collections.abc import Mapping, Sequence
from typing import Final, Literal

from dragoman.turn.request import DialectName, Request

# By what the field means; in the order Messages, Chat, Responses.  None: the dialect has no such field.
_FIELDS: Final[dict[str, tuple[str | None, str | None, str | None]]] = {
    "model": ("model", "model", "model"),
    "max_output": ("max_tokens", "max_completion_tokens", "max_output_tokens"),
    "temperature": ("temperature", "temperature", "temperature"),
    "top_p": ("top_p", "top_p", "top_p"),
    "top_k": ("top_k", "top_k", "top_k"),
    "seed": (None, "seed", None),
    "frequency_penalty": (None, "frequency_penalty", None),
    "presence_penalty": (None, "presence_penalty", None),
    "logit_bias": (None, "logit_bias", None),
    "stop": ("stop_sequences", "stop", None),
    "count": (None, "n", None),
    "logprobs": (None, "logprobs", "top_logprobs"),
    "verbosity": (None, "verbosity", "text.verbosity"),
    "tier": ("service_tier", "service_tier", "service_tier"),
    "user_id": ("metadata.user_id", "user", "user"),
    "metadata": (None, "metadata", "metadata"),
    "store": (None, "store", "store"),
    "cache_key": (None, "prompt_cache_key", "prompt_cache_key"),
    "previous_id": (None, None, "previous_response_id"),
    "format": ("output_config.format", "response_format", "text.format"),
    "thinking": ("thinking", "reasoning_effort", "reasoning.effort"),
    "tools": ("tools", "tools", "tools"),
    "tool_choice": ("tool_choice", "tool_choice", "tool_choice"),
    "parallel": (
        "tool_choice.disable_parallel_tool_use",
        "parallel_tool_calls",
        "parallel_tool_calls",
    ),
    "messages": ("messages", "messages", "input"),
}
_COLUMN: Final[Mapping[DialectName, int]] = {"anthropic": 0, "chat": 1, "responses": 2}


# The paths of the entries of most conversations and lists of tools: formatting a path costs more than
# reading the entry.
_ENTRIES: Final = {
    field: tuple(f"$.{field}[{at}]" for at in range(500))
    for field in ("messages", "input", "tools")
}


def entry_paths(field: Literal["messages", "input", "tools"], count: int) -> Sequence[str]:
    """Return the paths of a list's entries: at least `count` of them."""
    known = _ENTRIES[field]
    return known if count <= len(known) else [f"$.{field}[{at}]" for at in range(count)]


def path_of(request: Request, meaning: str) -> str:
    """Return the JSON path of a field in the dialect of the request's client."""
    column = _COLUMN.get(request.dialect)
    name = None if column is None else _FIELDS[meaning][column]
    return f"$.{name or meaning}"
