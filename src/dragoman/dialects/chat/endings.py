"""How an answer ends: finish reasons and token counts, both ways."""

from typing import Final

from msgspec import Raw, Struct

from dragoman.dialects.chat.schema import USAGE, PromptDetails, UsageCounts
from dragoman.dialects.decoding import decode
from dragoman.turn.events import FinishReason, Usage

# What servers of this dialect say, and what it means.
REASONS: Final[dict[str, FinishReason]] = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "eos_token": FinishReason.STOP,
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "model_length": FinishReason.LENGTH,
    "insufficient_system_resource": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.CONTEXT_FULL,
    "tool_calls": FinishReason.TOOL_CALLS,
    "tool_use": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.CONTENT_FILTER,
    "safety": FinishReason.CONTENT_FILTER,
    "recitation": FinishReason.CONTENT_FILTER,
    "sensitive": FinishReason.CONTENT_FILTER,
    "refusal": FinishReason.CONTENT_FILTER,
}
# Reasons that are no ending but a failure.
FAILURES: Final = frozenset({"error", "abort", "aborted", "network_error"})
# The reasons of the dialect itself: others are kept in `Finish.raw`.
_OWN: Final = frozenset({"stop", "length", "tool_calls", "function_call", "content_filter"})

_WORDS: Final[dict[FinishReason, str]] = {
    FinishReason.STOP: "stop",
    FinishReason.STOP_SEQUENCE: "stop",
    FinishReason.TOOL_CALLS: "tool_calls",
    FinishReason.LENGTH: "length",
    FinishReason.CONTEXT_FULL: "length",
    FinishReason.CONTENT_FILTER: "content_filter",
    FinishReason.REFUSAL: "stop",
    # The answer is not finished, and this is the one word that says so.
    FinishReason.PAUSE: "length",
    FinishReason.COMPACTION: "length",
}


def own_word(reason: str) -> str:
    """Return what to keep of a peer's word: nothing, if it is one of the dialect's own."""
    return "" if reason in _OWN else reason


def finish_word(reason: FinishReason) -> str:
    """Return the `finish_reason` that tells a client."""
    return _WORDS[reason]


def read_usage(raw: Raw) -> Usage:
    """Read token counts in any spelling.

    Raises:
        Malformed: they are no counts.
    """
    counts = decode(USAGE, bytes(raw))
    prompt = _count(counts.prompt_tokens, counts.input_tokens)
    output = _count(counts.completion_tokens, counts.output_tokens)
    details = counts.prompt_tokens_details or PromptDetails()
    read = _count(
        details.cached_tokens,
        counts.prompt_cache_hit_tokens,
        counts.cached_tokens,
        counts.cache_read_input_tokens,
    )
    written = _count(details.cache_write_tokens, counts.cache_creation_input_tokens)
    reasoning = _reasoning(counts)
    if reasoning and _count(counts.total_tokens) >= prompt + output + reasoning:
        output += reasoning  # this peer counts reasoning beside the answer, not in it
    return Usage(
        input=max(0, prompt - read - written),
        output=output,
        cache_read=read,
        cache_write_5m=written,
        reasoning=reasoning,
    )


def _reasoning(counts: UsageCounts) -> int:
    details = counts.completion_tokens_details
    return _count(details.reasoning_tokens if details else None, counts.reasoning_tokens)


def _count(*spellings: float | None) -> int:
    """Return the first count that is given and not 0."""
    return next((max(0, int(one)) for one in spellings if one), 0)


class _PromptDetails(Struct, omit_defaults=True):
    cached_tokens: int
    cache_write_tokens: int = 0


class _CompletionDetails(Struct):
    reasoning_tokens: int


class UsageOut(Struct):
    """Token counts as the dialect writes them."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: _PromptDetails
    completion_tokens_details: _CompletionDetails


def write_usage(usage: Usage) -> UsageOut:
    """Return the counts for a client."""
    return UsageOut(
        usage.prompt,
        usage.output,
        usage.prompt + usage.output,
        _PromptDetails(usage.cache_read, usage.cache_write_5m + usage.cache_write_1h),
        _CompletionDetails(usage.reasoning),
    )
