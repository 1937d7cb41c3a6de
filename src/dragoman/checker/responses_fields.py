"""The fields that clients demand of each event and item of a Responses stream, as tables."""

from typing import Final

from dragoman.checker.findings import (
    COUNT,
    EMPTY_LIST,
    EMPTY_TEXT,
    LIST,
    NAME,
    NUMBER,
    OBJECT,
    TEXT,
    Field,
    nullable,
    one_of,
)

_OUTPUT: Final = Field("response.output", LIST)
_NO_OUTPUT: Final = Field("response.output", EMPTY_LIST, "response-starts-empty")


def _response(*statuses: str, output: Field = _OUTPUT) -> tuple[Field, ...]:
    return (
        Field("response", OBJECT),
        Field("response.id", NAME, "response-id"),
        Field("response.object", one_of("response")),
        Field("response.created_at", NUMBER),
        Field("response.model", TEXT),
        Field("response.status", one_of(*statuses), "status-fits"),
        output,
    )


_ITEM: Final = (Field("output_index", COUNT), Field("item", OBJECT), Field("item.type", NAME))
_OPEN: Final = (Field("item_id", NAME), Field("output_index", COUNT))
_CONTENT: Final = (*_OPEN, Field("content_index", COUNT))
_SUMMARY: Final = (*_OPEN, Field("summary_index", COUNT))
_PART: Final = (Field("part", OBJECT), Field("part.type", NAME))
_DELTA: Final = (Field("delta", TEXT),)
_LOGPROBS: Final = (Field("logprobs", LIST),)

# Required data of each event, by its type without `response.`.
EVENTS: Final[dict[str, tuple[Field, ...]]] = {
    "created": _response("in_progress", "queued", output=_NO_OUTPUT),
    "queued": _response("queued"),
    "in_progress": _response("in_progress"),
    "completed": _response("completed"),
    "incomplete": (
        *_response("incomplete"),
        Field("response.incomplete_details", OBJECT),
        Field("response.incomplete_details.reason", NAME),
    ),
    "failed": (
        *_response("failed"),
        Field("response.error", OBJECT),
        Field("response.error.code", NAME),
        Field("response.error.message", TEXT),
    ),
    "error": (
        Field("message", TEXT),
        Field("code", nullable(TEXT)),
        Field("param", nullable(TEXT)),
    ),
    "output_item.added": _ITEM,
    "output_item.done": _ITEM,
    "content_part.added": (*_CONTENT, *_PART),
    "content_part.done": (*_CONTENT, *_PART),
    "output_text.delta": (*_CONTENT, *_DELTA, *_LOGPROBS),
    "output_text.done": (*_CONTENT, Field("text", TEXT), *_LOGPROBS),
    "output_text.annotation.added": (
        *_CONTENT,
        Field("annotation_index", COUNT),
        Field("annotation", OBJECT),
    ),
    "refusal.delta": (*_CONTENT, *_DELTA),
    "refusal.done": (*_CONTENT, Field("refusal", TEXT)),
    "function_call_arguments.delta": (*_OPEN, *_DELTA),
    "function_call_arguments.done": (*_OPEN, Field("arguments", TEXT)),
    "custom_tool_call_input.delta": (*_OPEN, *_DELTA),
    "custom_tool_call_input.done": (*_OPEN, Field("input", TEXT)),
    "reasoning_summary_part.added": (*_SUMMARY, *_PART),
    "reasoning_summary_part.done": (*_SUMMARY, *_PART),
    "reasoning_summary_text.delta": (*_SUMMARY, *_DELTA),
    "reasoning_summary_text.done": (*_SUMMARY, Field("text", TEXT)),
    "reasoning_text.delta": (*_CONTENT, *_DELTA),
    "reasoning_text.done": (*_CONTENT, Field("text", TEXT)),
    "hosted": _OPEN,
}

# Of `response.usage`, if there is one.
USAGE: Final = (
    Field("input_tokens", COUNT, "usage-counts"),
    Field("input_tokens_details", OBJECT, "usage-counts"),
    Field("input_tokens_details.cached_tokens", COUNT, "usage-counts"),
    Field("output_tokens", COUNT, "usage-counts"),
    Field("output_tokens_details", OBJECT, "usage-counts"),
    Field("output_tokens_details.reasoning_tokens", COUNT, "usage-counts"),
    Field("total_tokens", COUNT, "usage-counts"),
)

_CALL: Final = (Field("id", NAME), Field("call_id", NAME), Field("name", NAME))
_ENDED: Final = one_of("completed", "incomplete")

# An item as it is added, by its type, and as it is done.
ADDED: Final[dict[str, tuple[Field, ...]]] = {
    "message": (
        Field("id", NAME),
        Field("role", one_of("assistant")),
        Field("status", one_of("in_progress")),
        Field("content", EMPTY_LIST, "item-starts-empty"),
    ),
    "reasoning": (Field("id", NAME), Field("summary", EMPTY_LIST, "item-starts-empty")),
    "function_call": (*_CALL, Field("arguments", EMPTY_TEXT, "item-starts-empty")),
    "custom_tool_call": (*_CALL, Field("input", EMPTY_TEXT, "item-starts-empty")),
    "hosted": (Field("id", NAME),),
}
DONE: Final[dict[str, tuple[Field, ...]]] = {
    "message": (
        Field("id", NAME),
        Field("role", one_of("assistant")),
        Field("status", _ENDED),
        Field("content", LIST),
    ),
    "reasoning": (Field("id", NAME), Field("summary", LIST)),
    "function_call": (*_CALL, Field("arguments", TEXT), Field("status", _ENDED, optional=True)),
    "custom_tool_call": (*_CALL, Field("input", TEXT)),
    "hosted": (Field("id", NAME),),
}

# A part as it is added, by its type, and as it is done.
PARTS: Final[dict[str, tuple[Field, ...]]] = {
    "output_text": (
        Field("text", EMPTY_TEXT, "item-starts-empty"),
        Field("annotations", LIST),
    ),
    "refusal": (Field("refusal", EMPTY_TEXT, "item-starts-empty"),),
    "summary_text": (Field("text", EMPTY_TEXT, "item-starts-empty"),),
    "reasoning_text": (Field("text", EMPTY_TEXT, "item-starts-empty"),),
}
DONE_PARTS: Final[dict[str, tuple[Field, ...]]] = {
    "output_text": (Field("text", TEXT), Field("annotations", LIST)),
    "refusal": (Field("refusal", TEXT),),
    "summary_text": (Field("text", TEXT),),
    "reasoning_text": (Field("text", TEXT),),
}

# Items whose events are the vendor's own: `response.` and the item's type begin their types.
HOSTED: Final = frozenset(
    {
        "apply_patch_call",
        "apply_patch_call_output",
        "code_interpreter_call",
        "compaction",
        "computer_call",
        "file_search_call",
        "image_generation_call",
        "local_shell_call",
        "mcp_approval_request",
        "mcp_call",
        "mcp_list_tools",
        "program",
        "program_output",
        "shell_call",
        "shell_call_output",
        "tool_search_call",
        "tool_search_output",
        "web_search_call",
    }
)
# Events that belong to no item and may come anywhere while the response is open.
LOOSE: Final = ("audio.",)

# Items that the client has to act on.
CALLS: Final = frozenset(
    {
        "apply_patch_call",
        "computer_call",
        "custom_tool_call",
        "function_call",
        "local_shell_call",
        "shell_call",
    }
)

# What an item must keep between `added` and `done`.
IDENTITY: Final = ("type", "id", "call_id", "name")
# What an item of the final output must have in common with the one that was done, beside its parts.
ESSENCE: Final = (*IDENTITY, "role", "status", "arguments", "input", "encrypted_content")
