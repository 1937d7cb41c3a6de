"""The shapes of answers as they are read, whole or as a stream: what is not declared is passed over."""

from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.responses.schema import NULL, Environment, Part


class Annotation(Struct, frozen=True, gc=False):
    type: str = ""
    url: str | None = None
    title: str | None = None
    start_index: int | None = None
    end_index: int | None = None


class WriteDetails(Struct, frozen=True, gc=False):
    ttl_12h_tokens: int | None = None
    ttl_30m_tokens: int | None = None


class InputDetails(Struct, frozen=True, gc=False):
    cached_tokens: int | None = None
    cache_write_tokens: int | None = None
    cache_write_tokens_details: WriteDetails | None = None


class OutputDetails(Struct, frozen=True, gc=False):
    reasoning_tokens: int | None = None


class UsageObject(Struct, frozen=True, gc=False):
    input_tokens: int | None = None
    input_tokens_details: InputDetails | None = None
    output_tokens: int | None = None
    output_tokens_details: OutputDetails | None = None
    total_tokens: int | None = None


class IncompleteDetails(Struct, frozen=True, gc=False):
    reason: str | None = None


class ResponseObject(Struct, frozen=True):
    id: str | None = None
    model: str | None = None
    status: str | None = None
    created_at: float | None = None
    error: Raw = NULL
    incomplete_details: IncompleteDetails | None = None
    output: list[Raw] | None = None
    usage: UsageObject | None = None


class OutputItem(Struct, frozen=True):
    """Any item of an answer; which fields count depends on `type`."""

    type: str = ""
    id: str | None = None
    status: str | None = None
    call_id: str | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: object = None  # a string, but an object in the calls of some hosted tools
    input: object = None
    action: Raw = NULL
    operation: Raw = NULL
    environment: Environment | None = None
    content: list[Part] | None = None
    summary: list[Part] | None = None
    encrypted_content: str | None = None


# --- events of a stream -------------------------------------------------------------------------


class PartEvent(Struct, frozen=True, tag_field="type"):
    item_id: str | None = None
    output_index: int | None = None


class _Lifecycle(Struct, frozen=True, tag_field="type"):
    response: ResponseObject = ResponseObject()
    sequence_number: int | None = None


class Created(_Lifecycle, frozen=True, tag="response.created"): ...


class InProgress(_Lifecycle, frozen=True, tag="response.in_progress"): ...


class Queued(_Lifecycle, frozen=True, tag="response.queued"): ...


class Completed(_Lifecycle, frozen=True, tag="response.completed"): ...


class Incomplete(_Lifecycle, frozen=True, tag="response.incomplete"): ...


class Failed(_Lifecycle, frozen=True, tag="response.failed"): ...


class Cancelled(_Lifecycle, frozen=True, tag="response.cancelled"): ...


class ItemAdded(PartEvent, frozen=True, tag="response.output_item.added"):
    item: Raw = NULL


class ItemDone(PartEvent, frozen=True, tag="response.output_item.done"):
    item: Raw = NULL


class PartDone(PartEvent, frozen=True, tag="response.content_part.done"):
    content_index: int = 0
    part: Part | None = None


class TextDeltaEvent(PartEvent, frozen=True, tag="response.output_text.delta"):
    content_index: int = 0
    delta: str = ""
    logprobs: list[Raw] | None = None


class TextDone(PartEvent, frozen=True, tag="response.output_text.done"):
    content_index: int = 0
    text: str = ""


class AnnotationAdded(PartEvent, frozen=True, tag="response.output_text.annotation.added"):
    content_index: int = 0
    annotation: Raw = NULL


class RefusalDeltaEvent(PartEvent, frozen=True, tag="response.refusal.delta"):
    content_index: int = 0
    delta: str = ""


class RefusalDone(PartEvent, frozen=True, tag="response.refusal.done"):
    content_index: int = 0
    refusal: str = ""


class ArgumentsDelta(PartEvent, frozen=True, tag="response.function_call_arguments.delta"):
    delta: str = ""


class ArgumentsDone(PartEvent, frozen=True, tag="response.function_call_arguments.done"):
    arguments: str = ""
    name: str | None = None


class InputDeltaEvent(PartEvent, frozen=True, tag="response.custom_tool_call_input.delta"):
    delta: str = ""


class InputDone(PartEvent, frozen=True, tag="response.custom_tool_call_input.done"):
    input: str = ""


class SummaryDelta(PartEvent, frozen=True, tag="response.reasoning_summary_text.delta"):
    summary_index: int = 0
    delta: str = ""


class SummaryDone(PartEvent, frozen=True, tag="response.reasoning_summary_text.done"):
    summary_index: int = 0
    text: str = ""


class ReasoningTextDelta(PartEvent, frozen=True, tag="response.reasoning_text.delta"):
    content_index: int = 0
    delta: str = ""


class ReasoningTextDone(PartEvent, frozen=True, tag="response.reasoning_text.done"):
    content_index: int = 0
    text: str = ""


StreamEvent: TypeAlias = (
    Created
    | InProgress
    | Queued
    | Completed
    | Incomplete
    | Failed
    | Cancelled
    | ItemAdded
    | ItemDone
    | PartDone
    | TextDeltaEvent
    | TextDone
    | AnnotationAdded
    | RefusalDeltaEvent
    | RefusalDone
    | ArgumentsDelta
    | ArgumentsDone
    | InputDeltaEvent
    | InputDone
    | SummaryDelta
    | SummaryDone
    | ReasoningTextDelta
    | ReasoningTextDone
)


STREAM_EVENTS: Final = msgspec.json.Decoder[StreamEvent](StreamEvent)
# For peers that name the event on the `event:` line only.
STREAM_EVENTS_BY_NAME: Final[dict[str, msgspec.json.Decoder[StreamEvent]]] = {
    event.__struct_config__.tag: msgspec.json.Decoder(event) for event in StreamEvent.__args__
}
OUTPUT_ITEM: Final = msgspec.json.Decoder(OutputItem)
RESPONSE: Final = msgspec.json.Decoder(ResponseObject)
ANNOTATION: Final = msgspec.json.Decoder(Annotation)
