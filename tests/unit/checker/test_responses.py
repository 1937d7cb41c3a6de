"""The strict grammar of Responses: legal streams, and every small way to spoil them."""

from typing import Any

import pytest

from dragoman.checker.checker import Ending
from tests.support.checker import (
    LEGAL,
    GrammarTests,
    changed,
    doubled,
    judge,
    outcome,
    removed,
    render,
    renumbered,
    swapped,
)

D = "responses"

Item = tuple[dict[str, Any], list[dict[str, Any]]]  # an item as it is done, and its events

USAGE = {
    "input_tokens": 30,
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens": 9,
    "output_tokens_details": {"reasoning_tokens": 0},
    "total_tokens": 39,
}


def event(kind: str, **fields: Any) -> dict[str, Any]:
    return {"type": f"response.{kind}", "sequence_number": -1, **fields}


def lifecycle(kind: str, status: str, **more: Any) -> dict[str, Any]:
    response = {
        "id": "resp_7",
        "object": "response",
        "created_at": 1700000000,
        "status": status,
        "model": "kimi",
        "output": [],
    }
    return event(kind, response={**response, **more})


def item(added: dict[str, Any], done: dict[str, Any], *body: dict[str, Any]) -> Item:
    inner = [{**one, "item_id": added["id"]} for one in body]
    first = event("output_item.added", item=added)
    return {**added, **done}, [first, *inner, event("output_item.done", item={**added, **done})]


def message(name: str, *pieces: str) -> Item:
    text = "".join(pieces)
    part = {"type": "output_text", "text": "", "annotations": []}
    return item(
        {
            "id": name,
            "type": "message",
            "role": "assistant",
            "status": "in_progress",
            "content": [],
        },
        {"status": "completed", "content": [{**part, "text": text}]},
        event("content_part.added", content_index=0, part=part),
        *(event("output_text.delta", content_index=0, delta=one, logprobs=[]) for one in pieces),
        event("output_text.done", content_index=0, text=text, logprobs=[]),
        event("content_part.done", content_index=0, part={**part, "text": text}),
    )


def refusal(name: str, text: str) -> Item:
    return item(
        {
            "id": name,
            "type": "message",
            "role": "assistant",
            "status": "in_progress",
            "content": [],
        },
        {"status": "completed", "content": [{"type": "refusal", "refusal": text}]},
        event("content_part.added", content_index=0, part={"type": "refusal", "refusal": ""}),
        event("refusal.delta", content_index=0, delta=text),
        event("refusal.done", content_index=0, refusal=text),
        event("content_part.done", content_index=0, part={"type": "refusal", "refusal": text}),
    )


def reasoning(name: str, *summaries: str) -> Item:
    body = []
    for at, text in enumerate(summaries):
        empty, part = ({"type": "summary_text", "text": one} for one in ("", text))
        body += [
            event("reasoning_summary_part.added", summary_index=at, part=empty),
            event("reasoning_summary_text.delta", summary_index=at, delta=text),
            event("reasoning_summary_text.done", summary_index=at, text=text),
            event("reasoning_summary_part.done", summary_index=at, part=part),
        ]
    summary = [{"type": "summary_text", "text": text} for text in summaries]
    done = {"summary": summary, "encrypted_content": "xyz"}
    return item({"id": name, "type": "reasoning", "summary": []}, done, *body)


def thought(name: str, text: str, *, part: bool) -> Item:
    whole = {"type": "reasoning_text", "text": text}
    body = [
        event("reasoning_text.delta", content_index=0, delta=text),
        event("reasoning_text.done", content_index=0, text=text),
    ]
    if part:
        first = event("content_part.added", content_index=0, part={**whole, "text": ""})
        body = [first, *body, event("content_part.done", content_index=0, part=whole)]
    return item({"id": name, "type": "reasoning", "summary": []}, {"content": [whole]}, *body)


def call(name: str, call_id: str, *fragments: str, status: str = "completed") -> Item:
    arguments = "".join(fragments)
    added = {"id": name, "type": "function_call", "call_id": call_id, "name": "weather"}
    return item(
        {**added, "status": "in_progress", "arguments": ""},
        {"arguments": arguments, "status": status},
        *(event("function_call_arguments.delta", delta=one) for one in fragments),
        event("function_call_arguments.done", arguments=arguments),
    )


def custom(name: str, call_id: str, *pieces: str) -> Item:
    text = "".join(pieces)
    added = {"id": name, "type": "custom_tool_call", "call_id": call_id, "name": "apply_patch"}
    return item(
        {**added, "input": ""},
        {"input": text},
        *(event("custom_tool_call_input.delta", delta=one) for one in pieces),
        event("custom_tool_call_input.done", input=text),
    )


def hosted(name: str) -> Item:
    added = {"id": name, "type": "web_search_call", "status": "in_progress"}
    return item(
        added,
        {"status": "completed"},
        event("web_search_call.in_progress"),
        event("web_search_call.searching"),
        event("web_search_call.completed"),
    )


def body(*items: Item) -> list[dict[str, Any]]:
    events = [lifecycle("created", "in_progress"), lifecycle("in_progress", "in_progress")]
    for index, (_, of_item) in enumerate(items):
        events += [{**one, "output_index": index} for one in of_item]
    return events


def stream(*items: Item, **more: Any) -> list[dict[str, Any]]:
    output = [done for done, _ in items]
    end = lifecycle("completed", "completed", output=output, usage=USAGE, **more)
    return renumbered([*body(*items), end])


def incomplete(*items: Item) -> list[dict[str, Any]]:
    output = [done for done, _ in items]
    details = {"reason": "max_output_tokens"}
    end = lifecycle("incomplete", "incomplete", output=output, incomplete_details=details)
    return renumbered([*body(*items), end])


FAILURE = lifecycle("failed", "failed", error={"code": "server_error", "message": "broken"})
ERROR = {"type": "error", "sequence_number": -1, "code": None, "message": "broken", "param": None}

TEXT = stream(message("msg_1", "Good ", "day."))
CALLS = stream(
    reasoning("rs_1", "Two towns.", "One more."),
    message("msg_2", "One moment."),
    call("fc_1", "call_1", '{"town":"Bergen"}'),
    call("fc_2", "call_2", '{"town":', '"Siena"}'),
)
CUSTOM = stream(custom("ctc_1", "call_p", "*** Begin\n", "*** End"))
FAILED = renumbered([*body(message("msg_1", "Half"))[:5], FAILURE])

LEGAL_STREAMS = {
    "text": TEXT,
    "calls": CALLS,
    "custom": CUSTOM,
    "failed": FAILED,
    "empty": stream(),
    "queued": renumbered(
        [TEXT[0], lifecycle("queued", "queued"), *TEXT[1:]],
    ),
    "refusal": stream(refusal("msg_1", "No.")),
    "reasoning without text": stream(reasoning("rs_1")),
    "reasoning text in a part": stream(thought("rs_1", "Hm.", part=True)),
    "reasoning text without a part": stream(thought("rs_1", "Hm.", part=False)),
    "a vendor's own tool": stream(hosted("ws_1"), message("msg_1", "Found.")),
    "an item of unknown type": stream(item({"id": "x_1", "type": "hologram"}, {})),
    "call cut by the limit": incomplete(call("fc_1", "c", '{"t":"ab', status="incomplete")),
    "no usage": renumbered(
        [*TEXT[:-1], lifecycle("completed", "completed", output=[TEXT[-2]["item"]])]
    ),
    "error event": renumbered([*TEXT[:4], ERROR]),
    "error before anything": renumbered([ERROR]),
    "failure before any item": renumbered([TEXT[0], FAILURE]),
}

SPOILED = [TEXT, CALLS, CUSTOM, FAILED]  # the streams that are mutated

# What the judge says when an event of this kind is removed, doubled, or changes places with the next,
# and the events are numbered anew.  `LEGAL` is text of a part that a failure left open.
REMOVED = {
    "created": {"event-order"},
    "in_progress": {"event-order"},
    "output_item.added/message": {"event-order"},
    "content_part.added/output_text": {"event-order"},
    "output_text.delta": {"done-equals-deltas", LEGAL},
    "output_text.done": {"event-order"},
    "content_part.done/output_text": {"event-order"},
    "output_item.done/message": {"item-done-before-completed", "one-item-open"},
    "completed": {"truncated"},
    "output_item.added/reasoning": {"event-order"},
    "reasoning_summary_part.added/summary_text": {"event-order"},
    "reasoning_summary_text.delta": {"done-equals-deltas"},
    "reasoning_summary_text.done": {"event-order"},
    "reasoning_summary_part.done/summary_text": {"event-order"},
    "output_item.done/reasoning": {"one-item-open"},
    "output_item.added/function_call": {"event-order"},
    "function_call_arguments.delta": {"done-equals-deltas", "partial-json-prefix"},
    "function_call_arguments.done": {"event-order"},
    "output_item.done/function_call": {"item-done-before-completed", "one-item-open"},
    "output_item.added/custom_tool_call": {"event-order"},
    "custom_tool_call_input.delta": {"done-equals-deltas"},
    "custom_tool_call_input.done": {"event-order"},
    "output_item.done/custom_tool_call": {"item-done-before-completed"},
    "failed": {"truncated"},
}
DOUBLED = {
    "created": {"event-order"},
    "in_progress": {"event-order"},
    "output_item.added/message": {"one-item-open"},
    "content_part.added/output_text": {"event-order"},
    "output_text.delta": {"done-equals-deltas", LEGAL},
    "output_text.done": {"event-order"},
    "content_part.done/output_text": {"event-order"},
    "output_item.done/message": {"event-order"},
    "completed": {"nothing-after-end"},
    "output_item.added/reasoning": {"one-item-open"},
    "reasoning_summary_part.added/summary_text": {"event-order"},
    "reasoning_summary_text.delta": {"done-equals-deltas"},
    "reasoning_summary_text.done": {"event-order"},
    "reasoning_summary_part.done/summary_text": {"event-order"},
    "output_item.done/reasoning": {"event-order"},
    "output_item.added/function_call": {"one-item-open"},
    "function_call_arguments.delta": {"done-equals-deltas", "partial-json-prefix"},
    "function_call_arguments.done": {"event-order"},
    "output_item.done/function_call": {"event-order"},
    "output_item.added/custom_tool_call": {"one-item-open"},
    "custom_tool_call_input.delta": {"done-equals-deltas"},
    "custom_tool_call_input.done": {"event-order"},
    "output_item.done/custom_tool_call": {"event-order"},
    "failed": {"nothing-after-end"},
}
SWAPPED = {
    "created | in_progress": {"event-order"},
    "in_progress | output_item.added/message": {"event-order"},
    "output_item.added/message | content_part.added/output_text": {"event-order"},
    "content_part.added/output_text | output_text.delta": {"event-order"},
    "output_text.delta | output_text.delta": {"done-equals-deltas"},
    "output_text.delta | output_text.done": {"done-equals-deltas"},
    "output_text.done | content_part.done/output_text": {"event-order"},
    "content_part.done/output_text | output_item.done/message": {"event-order"},
    "output_item.done/message | completed": {"item-done-before-completed"},
    "in_progress | output_item.added/reasoning": {"event-order"},
    "output_item.added/reasoning | reasoning_summary_part.added/summary_text": {"event-order"},
    "reasoning_summary_part.added/summary_text | reasoning_summary_text.delta": {"event-order"},
    "reasoning_summary_text.delta | reasoning_summary_text.done": {"done-equals-deltas"},
    "reasoning_summary_text.done | reasoning_summary_part.done/summary_text": {"event-order"},
    "reasoning_summary_part.done/summary_text | reasoning_summary_part.added/summary_text": {
        "event-order"
    },
    "reasoning_summary_part.done/summary_text | output_item.done/reasoning": {"event-order"},
    "output_item.done/reasoning | output_item.added/message": {"one-item-open"},
    "output_item.done/message | output_item.added/function_call": {"one-item-open"},
    "output_item.added/function_call | function_call_arguments.delta": {"event-order"},
    "function_call_arguments.delta | function_call_arguments.done": {"done-equals-deltas"},
    "function_call_arguments.done | output_item.done/function_call": {"event-order"},
    "output_item.done/function_call | output_item.added/function_call": {"one-item-open"},
    "function_call_arguments.delta | function_call_arguments.delta": {"partial-json-prefix"},
    "output_item.done/function_call | completed": {"item-done-before-completed"},
    "in_progress | output_item.added/custom_tool_call": {"event-order"},
    "output_item.added/custom_tool_call | custom_tool_call_input.delta": {"event-order"},
    "custom_tool_call_input.delta | custom_tool_call_input.delta": {"done-equals-deltas"},
    "custom_tool_call_input.delta | custom_tool_call_input.done": {"done-equals-deltas"},
    "custom_tool_call_input.done | output_item.done/custom_tool_call": {"event-order"},
    "output_item.done/custom_tool_call | completed": {"item-done-before-completed"},
    "output_text.delta | failed": {"nothing-after-end"},
}
# Fields whose absence breaks another rule than `required-field`.  `LEGAL` ones are optional, or repeat
# what other events tell.
FIELDS = {
    "created: response.id": "response-id",
    "created: response.status": "status-fits",
    "created: response.output": "response-starts-empty",
    "in_progress: response.id": "response-id",
    "in_progress: response.status": "status-fits",
    "output_item.added/message: item.content": "item-starts-empty",
    "content_part.added/output_text: part.text": "item-starts-empty",
    "completed: response.id": "response-id",
    "completed: response.status": "status-fits",
    "completed: response.output.content.annotations": LEGAL,
    "completed: response.usage": LEGAL,
    "completed: response.usage.input_tokens": "usage-counts",
    "completed: response.usage.input_tokens_details": "usage-counts",
    "completed: response.usage.input_tokens_details.cached_tokens": "usage-counts",
    "completed: response.usage.input_tokens_details.cache_write_tokens": LEGAL,
    "completed: response.usage.output_tokens": "usage-counts",
    "completed: response.usage.output_tokens_details": "usage-counts",
    "completed: response.usage.output_tokens_details.reasoning_tokens": "usage-counts",
    "completed: response.usage.total_tokens": "usage-counts",
    "output_item.added/reasoning: item.summary": "item-starts-empty",
    "reasoning_summary_part.added/summary_text: part.text": "item-starts-empty",
    "output_item.done/reasoning: item.encrypted_content": "output-equals-items",
    "output_item.added/function_call: item.status": LEGAL,
    "output_item.added/function_call: item.arguments": "item-starts-empty",
    "output_item.done/function_call: item.status": "output-equals-items",
    "output_item.added/custom_tool_call: item.input": "item-starts-empty",
    "failed: response.id": "response-id",
    "failed: response.status": "status-fits",
}

# One stream for each rule, which breaks it first.
TRIGGERS = {
    "event-name-matches-type": render(D, TEXT).replace(b"event: response.output_text.done\n", b""),
    "event-known": renumbered([*TEXT[:2], event("output_smell.delta"), *TEXT[2:]]),
    "done-marker": [*TEXT, "[DONE]"],
    "event-order": renumbered(TEXT[1:]),
    "sequence-number": changed(TEXT, 4, "sequence_number", 3),
    "required-field": changed(TEXT, 4, "logprobs", None),
    "response-id": changed(TEXT, 9, "response.id", "resp_8"),
    "response-starts-empty": changed(TEXT, 0, "response.output", [TEXT[-2]["item"]]),
    "status-fits": changed(TEXT, 9, "response.status", "in_progress"),
    "usage-counts": changed(TEXT, 9, "response.usage.total_tokens", None),
    "one-item-open": renumbered([*TEXT[:3], *CALLS[2:]]),
    "output-index-contiguous": changed(TEXT, 2, "output_index", 1),
    "part-index-contiguous": changed(TEXT, 3, "content_index", 1),
    "item-open": changed(TEXT, 4, "item_id", "msg_9"),
    "item-starts-empty": changed(TEXT, 3, "part.text", "Go"),
    "item-id-once": stream(call("fc_1", "a", "{}"), call("fc_1", "b", "{}")),
    "item-done-matches-added": changed(CALLS, -2, "item.call_id", "call_9"),
    "done-equals-deltas": changed(TEXT, 6, "text", "Good night."),
    "item-done-before-completed": renumbered([*TEXT[:-2], TEXT[-1]]),
    "output-equals-items": changed(TEXT, 9, "response.output", []),
    "partial-json-prefix": stream(call("fc_1", "a", "{'a':1}")),
    "arguments-whole": stream(call("fc_1", "a", '{"a":')),
    "call-id-characters": stream(call("fc_1", "functions weather:0", "{}")),
    "call-id-once": stream(call("fc_1", "a", "{}"), call("fc_2", "a", "{}")),
}
# How legal streams end: blocks and calls among them.
ENDINGS = (
    ("text", Ending.FINISH, 1, 0),
    ("calls", Ending.FINISH, 4, 2),
    ("custom", Ending.FINISH, 1, 1),
    ("failed", Ending.FAILURE, 1, 0),
    ("error event", Ending.FAILURE, 1, 0),
    ("call cut by the limit", Ending.FINISH, 1, 1),
)


class TestResponses(GrammarTests):
    dialect = D
    plain = TEXT
    legal = LEGAL_STREAMS
    spoiled = SPOILED
    removed = REMOVED
    doubled = DOUBLED
    swapped = SWAPPED
    fields = FIELDS
    triggers = TRIGGERS
    endings = ENDINGS

    @staticmethod
    def usual(field):
        if field.startswith("response.output."):
            return "output-equals-items"
        return "sequence-number" if field == "sequence_number" else GrammarTests.usual(field)


@pytest.mark.parametrize("mutate", [removed, doubled, swapped])
def test_every_change_of_events_shows_in_their_numbers(mutate):
    for events in SPOILED:
        for at, spoiled in mutate(events):
            found = {one.rule for one in judge(D, spoiled).violations}

            last = at == len(events) - 1
            assert found & {"sequence-number", "nothing-after-end"} or (
                last and "truncated" in found
            )


def test_b6_arguments_that_come_without_deltas_are_illegal():
    added, *_, finished = call("fc_1", "a", '{"a":1}')[1]

    assert outcome(D, stream((finished["item"], [added, finished]))) == "done-equals-deltas"


def test_b7_text_without_its_item_is_illegal():
    assert outcome(D, renumbered([*TEXT[:2], *TEXT[4:]])) == "event-order"


def test_g2_half_call_that_is_done_before_a_failure_is_illegal():
    cut = [*body(call("fc_1", "a", '{"a":')), FAILURE]

    assert outcome(D, renumbered(cut)) == "arguments-whole"


def test_half_call_that_is_marked_before_a_failure_is_legal():
    cut = [*body(call("fc_1", "a", '{"a":', status="incomplete")), FAILURE]

    assert outcome(D, renumbered(cut)) == LEGAL


def test_b10_half_call_that_does_not_say_so_is_illegal():
    assert outcome(D, incomplete(call("fc_1", "a", '{"a":'))) == "arguments-whole"


def test_g2_half_call_that_stays_open_before_a_failure_is_legal():
    cut = [*body(call("fc_1", "a", '{"a":'))[:-2], FAILURE]

    assert outcome(D, renumbered(cut)) == LEGAL


def test_half_call_in_a_response_that_completes_is_illegal():
    first = call("fc_1", "a", '{"a":', status="incomplete")

    assert outcome(D, stream(first)) == "arguments-whole"
    assert outcome(D, incomplete(first, call("fc_2", "b", "{}"))) == LEGAL


def test_event_of_another_hosted_tool_is_illegal():
    events = stream(hosted("ws_1"))
    events = changed(events, 3, "type", "response.file_search_call.in_progress")

    assert outcome(D, events) == "item-open"


def test_audio_belongs_to_no_item():
    audio = event("audio.delta", delta="AAAA")

    assert outcome(D, renumbered([*TEXT[:2], audio, *TEXT[2:]])) == LEGAL
