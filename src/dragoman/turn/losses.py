"""Losses: what could not be translated, or had to be repaired.  Nothing is dropped silently.

Knows the codes; must not know any dialect's field names.
"""

from typing import Final

from msgspec import Struct

# Every code that a `Loss` may carry, with its meaning for the user.  A test checks that the code uses exactly these.
CODES: Final[dict[str, str]] = {
    # --- requests: something the target cannot express ---
    "field_dropped": "a field of a request has no counterpart in the target dialect, or one of an answer is not written again",
    "value_clamped": "a value was brought into the target's range",
    "sampling_dropped": "the target does not accept this sampling parameter",
    "system_midturn_emulated": "an instruction inside the conversation became marked user text",
    "schema_rewritten": "the schema of a tool or of the output was rewritten to what the target accepts",
    "schema_not_enforced": "the target cannot enforce the JSON schema; it was added as an instruction",
    "json_object_emulated": "JSON output is requested by an instruction only",
    "grammar_not_enforced": "a custom tool's grammar became part of its description",
    "server_tool_dropped": "a tool run by the vendor is not available at the target",
    "server_tool_mapped": "another vendor's tool of the same sort runs in place of the declared one",
    "tool_option_dropped": "an option of a tool definition has no counterpart",
    "tool_choice_adjusted": "the tool choice was changed to the nearest one that the target accepts",
    "tool_choice_narrowed": "the target cannot force a tool by name, so it is the only one declared",
    "tool_choice_dropped": "the request has a tool choice but no tools",
    "tool_renamed": "a tool name was made legal for the target; responses have the original name",
    "parallel_not_enforced": "the target cannot disable parallel tool calls",
    "thinking_disabled_by_tool_choice": "the target does not allow thinking with a forced tool, so thinking is off",
    "thinking_disabled_missing_blocks": "thinking is off: the history lacks its signed blocks",
    "thinking_dropped": "the thinking settings do not fit the target or its token limit",
    "thinking_converted": "the target has another kind of thinking setting: a budget became an effort, an effort a budget, or either a switch",
    "effort_adjusted": "the reasoning effort was changed to the nearest one that the target accepts",
    "reasoning_dropped": "reasoning in the history cannot be sent to this target",
    "reasoning_filled": "the target requires reasoning on this turn, and the history has none",
    "opaque_dropped": "reasoning state of one vendor is not sent to another",
    "opaque_invalid": "an envelope did not open: forged, damaged, or sealed with another key",
    "opaque_too_large": "reasoning state exceeded the envelope's limit and was dropped",
    "tool_loop": "the history repeats the same calls with the same results",
    "tool_result_missing": "a tool call had no result; a neutral one was inserted",
    "tool_result_orphaned": "a tool result without its call became user text",
    "tool_image_moved": "images of a tool result follow in a user message",
    "tool_content_flattened": "structured content of a tool result became text",
    "call_id_renumbered": "an id was used for two calls of the history; the later one was renamed",
    "citations_dropped": "citations have no counterpart in the target dialect",
    "content_flattened": "a content part became text",
    "content_dropped": "a part of the assistant's history has no counterpart",
    "cache_hint_dropped": "the request has more cache marks than the target accepts",
    "turn_added": "the target requires a user turn first; one was added",
    "prefill_emulated": "the target cannot continue an answer; a user turn asks it to continue",
    "user_turn_appended": "the target cannot continue from an assistant turn; a user turn was appended",
    "empty_content_filled": "the target refuses an empty content",
    "stop_emulated": "the target accepts fewer stop sequences; the others are matched by Dragoman",
    "user_id_dropped": "the target has no field for a user id",
    "max_tokens_defaulted": "the target requires an output limit, and the request has none",
    # --- streams and answers: mistakes of the peer that were repaired ---
    "chunk_malformed": "an event of the stream does not fit its dialect and was skipped",
    "choice_dropped": "only the first choice of a response is translated",
    "finish_reason_fixed": "the finish reason contradicted the answer",
    "finish_reason_unknown": "the finish reason is unknown and treated as a normal stop",
    "args_as_object": "a tool call's arguments arrived as an object where the dialect has a string",
    "args_as_text": "a tool call's arguments arrived as a string where the dialect has an object",
    "args_repaired": "a tool call's arguments were not valid JSON and were repaired",
    "args_trailing": "text after a tool call's complete arguments was dropped",
    "args_repeated": "a tool call's arguments arrived twice; the second copy was dropped",
    "args_not_object": "a tool call's arguments are JSON but not an object; they are forwarded unchanged",
    "args_invalid": "a tool call's arguments are not valid JSON; they are forwarded unchanged",
    "args_missing": "a tool call was truncated before its first argument; its arguments are `{`",
    "call_cut": "a tool call was truncated; the part of its arguments that arrived is forwarded",
    "input_uncertain": "the response ended at a limit or a filter after a call, whose input may be incomplete",
    "call_id_duplicate": "a tool-call id was used twice and was made unique",
    "tool_name_fixed": "a tool was called by another name than the declared one; the call has the declared name",
    "call_without_name": "a tool call never got a name",
    "late_delta_dropped": "a delta arrived for a block that had already ended",
    "content_after_finish": "content arrived after the finish reason",
    "held_content_lost": "the stream failed while content waited for a call to end",
    "part_unknown": "a content part of unknown type was dropped",
    "logprobs_dropped": "token probabilities cannot be translated",
    "server_block_dropped": "a block of a vendor-run tool cannot be translated",
    "continuation_capped": "the upstream paused more often than is allowed; the answer ends there",
    "server_tool_unused": "the request needs a vendor-run tool, and the answer shows no use of it",
    "server_tool_unrun": "the upstream returned a vendor-run tool as a call for the client; the call was dropped",
    "usage_missing": "the peer reported no token counts",
    "block_unclosed": "the peer did not end a block; it was ended here",
    "block_empty": "a block without content was dropped",
    "event_unnamed": "the peer omitted the names of its events, and clients skip events without a name",
    "event_incomplete": "the peer's events lack fields without which clients fail; they were added",
    "block_index_fixed": "the peer numbered its blocks wrongly; they count 0, 1, 2, …",
    "refusal_as_text": "a refusal became plain text",
    "surrogate_replaced": "half of a surrogate pair was replaced",
    # --- tool calls that models write as text ---
    "native_noise_dropped": "markup around native tool calls that belongs to no call was dropped",
    "native_blank_dropped": "white space around native tool calls was dropped",
    "native_closer_missing": "a native tool call ended without its closing marker",
    "native_call_invalid": "a native tool call could not be understood",
    "stream_not_sse": "the peer sent a single body although a stream was requested",
}


class Loss(Struct, frozen=True, gc=False, tag="loss", tag_field="event"):
    """One thing that was not carried over unchanged.  Also an event of a stream, allowed anywhere.

    Attributes:
        code: A key of `CODES`.
        path: JSON path of the field, in the dialect it came from; or the block.
        detail: Names and numbers of this case, which a log may show.
        limit: The field of `Limits` that was passed, if that is the reason.
        excerpt: The text that it is about.  This is content, and the gateway's log leaves it out.
    """

    code: str
    path: str = ""
    detail: str = ""
    limit: str = ""
    excerpt: str = ""

    @property
    def full_detail(self) -> str:
        """The detail and the excerpt, for a user who may see the content."""
        return ": ".join(filter(None, (self.detail, self.excerpt)))
