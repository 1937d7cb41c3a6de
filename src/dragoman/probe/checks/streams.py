"""Checks the form of answers: framing, order, ending, token counts."""

from itertools import pairwise
from typing import Final

from dragoman.probe.finding import CHAT, Check, Fact, Finding, fails, ok, quirk, unknown
from dragoman.probe.probe import Probe
from dragoman.probe.questions import (
    AUTO,
    BOTH,
    TEXT,
    TEXT_BODY,
    TEXT_UNASKED,
)
from dragoman.probe.response import Response, UnansweredError, printable
from dragoman.probe.trace import has_whole_arguments

_ENOUGH: Final = 3  # deltas that are needed to judge

# Rules of the strict checker that other checks report.
_ELSEWHERE: Final = frozenset(
    {
        "arguments-whole", "call-id-characters", "call-id-once", "call-id-unique", "done-marker",
        "event-name-matches-type", "finish-reason-fits-calls", "finish-reason-known", "no-comment",
        "partial-json-prefix", "status-fits", "stop-reason", "stop-reason-fits-calls", "truncated",
        "usage-counts", "usage-in-message-delta", "usage-in-message-start",
    }
)  # fmt: skip
_ELSEWHERE_PATHS: Final = ("arguments", "input", "usage", "finish_reason", "status")


async def streamed(probe: Probe) -> Response:
    """Return the first streamed answer.

    Raises:
        UnansweredError: there is no stream.
    """
    response = await probe.ask(TEXT)
    if response.status != 200 or not response.is_stream:
        raise UnansweredError(response.trouble or "there is no stream")
    return response


async def body(probe: Probe) -> Finding:
    response = await probe.ask(TEXT_BODY)
    if response.is_stream:
        return quirk("a stream, although none was requested")
    if response.trouble:
        return fails(response.trouble)
    if not response.answer.text.strip():
        return unknown("it has no content")
    return ok("fits the dialect")


async def framing(probe: Probe) -> Finding:
    response = await probe.ask(TEXT)
    if response.status == 200 and response.is_stream:
        if "text/event-stream" not in response.content_type:
            return quirk(f"events, but the content type is `{printable(response.content_type)}`")
        return ok("server-sent events")
    if response.trouble:
        return fails(response.trouble)
    return quirk("one complete body, although a stream was requested")


async def line_ends(probe: Probe) -> Finding:
    response = await streamed(probe)
    return quirk("lines end with CR and LF") if response.trace.crlf else ok("lines end with LF")


async def comments(probe: Probe) -> Finding:
    response = await streamed(probe)
    return quirk("there are comments between events") if response.trace.comments else ok("none")


async def event_lines(probe: Probe) -> Finding:
    seen = (await streamed(probe)).trace
    if seen.named == seen.events:
        return ok("every event has its name")
    return quirk(f"{seen.events - seen.named} of {seen.events} events have no `event:` line")


async def ending(probe: Probe) -> Finding:
    response = await streamed(probe)
    called = await probe.ask(AUTO)
    if response.failure is not None:
        return fails(response.failure.reason)
    if not response.trace.finish:
        # With `lenient_eof`, complete calls are accepted although the finish is missing.
        complete = has_whole_arguments(called.trace)
        return fails(
            f"no finish reason: {response.trouble}", **({"lenient_eof": True} if complete else {})
        )
    if response.trouble:
        return fails(f"the answer ends with a failure: {response.trouble}")
    if not response.trace.last:
        last = {"chat": "[DONE]", "anthropic": "message_stop"}.get(probe.dialect, "the last event")
        return quirk(f"`{last}` is missing")
    return ok("a finish reason and the dialect's last event")


async def order(probe: Probe) -> Finding:
    """Check all streams with the strict rules, except those that other checks report."""
    judged = 0
    for question in (TEXT, AUTO, BOTH):
        response = await probe.ask(question)
        if response.status != 200 or not response.is_stream or response.trouble:
            continue
        if response.verdict is None:
            return fails("the stream exceeds a limit")
        judged += 1
        for one in response.verdict.violations:
            last = one.path.rpartition(".")[2]
            if one.rule not in _ELSEWHERE and last not in _ELSEWHERE_PATHS:
                return quirk(f"{one.rule}: {printable(one.reason)}")
    return ok("legal") if judged else unknown("there is no stream")


async def usage(probe: Probe) -> Finding:
    whole = await probe.ask(TEXT_BODY)
    asked = await probe.ask(TEXT)
    places = [] if whole.is_stream else [("in the body", _counts(whole))]
    if probe.dialect != "chat":
        places.append(("in the stream", _counts(asked)))
    else:
        unasked = await probe.ask(TEXT_UNASKED)
        if not probe.habits.stream_options:
            found = "sent without a request" if _counts(unasked) else "never sent"
            return quirk(f"requesting it in the stream is refused; {found}", stream_usage=False)
        places.append(("in the stream if requested", _counts(asked)))
        if unasked.is_stream and _counts(unasked):
            return quirk("in the stream, requested or not", stream_usage=True)
    reported = [place for place, seen in places if seen]
    if len(reported) == len(places):
        return Finding(verdict="ok", found=", ".join(reported), implies=_stream_usage(probe))
    missing = [place for place, seen in places if not seen]
    return quirk(f"none {', none '.join(missing)}")


def _counts(response: Response) -> bool:
    counts = response.whole.usage
    return counts is not None and not counts.estimated


def _stream_usage(probe: Probe) -> dict[str, Fact]:
    return {"stream_usage": True} if probe.dialect == "chat" else {}


async def null_content(probe: Probe) -> Finding:
    response = await streamed(probe)
    return quirk("`content` is null where it is empty") if response.trace.nulls else ok("none")


async def cumulative(probe: Probe) -> Finding:
    texts = (await streamed(probe)).trace.texts
    if len(texts) < _ENOUGH:
        return unknown("the text came in too few pieces")
    if all(later.startswith(earlier) for earlier, later in pairwise(texts)):
        return quirk("each delta repeats the text so far", cumulative=True)
    return ok("each delta adds to the text", cumulative=False)


ROWS: Final = (
    Check(
        name="body",
        asks="Does an answer without streaming fit the dialect?",
        run=body,
        questions=(TEXT_BODY,),
    ),
    Check(
        name="framing",
        asks="Does a stream come as server-sent events?",
        run=framing,
        questions=(TEXT,),
    ),
    Check(name="line-ends", asks="How do lines end?", run=line_ends, questions=(TEXT,)),
    Check(name="comments", asks="Are there comments?", run=comments, questions=(TEXT,)),
    Check(
        name="event-lines",
        asks="Does every event have an `event:` line?",
        run=event_lines,
        questions=(TEXT,),
        dialects=("anthropic", "responses"),
    ),
    Check(
        name="order",
        asks="Do streams follow the dialect's rules?",
        run=order,
        questions=(TEXT, AUTO, BOTH),
    ),
    Check(
        name="ending",
        asks="Does the stream report why it ended?",
        run=ending,
        questions=(TEXT, AUTO),
    ),
    Check(
        name="usage",
        asks="Where are token counts reported?",
        run=usage,
        questions=(TEXT_BODY, TEXT, TEXT_UNASKED),
    ),
    Check(
        name="null-content",
        asks="Is empty content null?",
        run=null_content,
        questions=(TEXT,),
        dialects=CHAT,
    ),
    Check(
        name="cumulative",
        asks="Do deltas repeat the earlier text?",
        run=cumulative,
        questions=(TEXT,),
        dialects=CHAT,
    ),
)
