"""Checks tool calls: whether the model makes them, and in which form."""

from typing import Final

from dragoman.probe.calls import Made, is_kimi_id, leaked, made, structural
from dragoman.probe.finding import WITHOUT_GEMINI, Check, Finding, fails, ok, quirk, unknown
from dragoman.probe.probe import Probe
from dragoman.probe.questions import (
    AUTO,
    BOOK,
    BOOK_FORCED,
    BOOKING,
    BOTH,
    CLOCK,
    NAMED,
    NONE,
    ONE_AT_A_TIME,
    REQUIRED,
    TEXT,
    Question,
)
from dragoman.probe.response import Response, UnansweredError, printable
from dragoman.probe.trace import decoded, has_whole_arguments
from dragoman.toolcalls.schema_check import misfit

_FINISH_TEXT: Final = {
    "chat": "stop",
    "anthropic": "end_turn",
    "responses": "completed",
    "gemini": "STOP",
}
_FINISH_CALLS: Final = {
    "chat": "tool_calls",
    "anthropic": "tool_use",
    "responses": "completed",
    "gemini": "STOP",
}


async def need_tools(probe: Probe) -> None:
    """Make sure that the upstream accepts tools.

    Raises:
        UnansweredError: it refuses them.
    """
    if (await probe.ask(AUTO)).refused:
        raise UnansweredError("tools are refused")


async def _calls(probe: Probe, question: Question) -> tuple[Made, ...]:
    """Return the calls that a question leads to.

    Raises:
        UnansweredError: there is no complete answer, it was cut before a call, or no call is usable.
    """
    response = await probe.ask(question)
    found = made(response, question, probe.peer.model, probe.peer.own_formats)
    if _unusable(response):
        raise UnansweredError(_unusable(response))
    if not found and response.cut:
        raise UnansweredError("the token limit ended the answer before a call")
    return found


def _unusable(response: Response) -> str:
    """Return why no call is usable; empty if one is, or if the token limit is the cause."""
    calls = response.answer.call_blocks
    if not calls or response.cut or any(one.complete for one in calls):
        return ""
    return "the arguments are cut off or not JSON"


async def _structural(probe: Probe, question: Question) -> tuple[Made, ...]:
    """Return the structured calls.

    Raises:
        UnansweredError: there are none.
    """
    found = structural((await probe.ask(question)).whole)
    if not found:
        raise UnansweredError("there is no structured call")
    return found


async def auto(probe: Probe) -> Finding:
    response = await probe.ask(AUTO)
    if response.refused:
        return fails(f"tools are refused: {response.refused}")
    trouble = response.trouble or _unusable(response)
    if response.status == 200 and response.trace.arguments and trouble:
        return fails(f"a call that cannot be used: {trouble}")
    found = await _calls(probe, AUTO)
    if not found:
        return fails("no call, although the user asks for one")
    if not response.answer.call_blocks:
        return quirk("a call, but as text")
    names = {one.name for one in AUTO.tools}
    odd = [one.name for one in found if one.name not in names]
    return quirk(f"calls a tool that does not exist: {printable(odd[0])}") if odd else ok("a call")


async def required(probe: Probe) -> Finding:
    await need_tools(probe)
    response = await probe.ask(REQUIRED)
    if response.refused:
        return quirk(f"refused: {response.refused}", tool_choice="auto_only")
    if await _calls(probe, REQUIRED):
        return ok("a call")
    return quirk("ignored: no call", tool_choice="auto_only")


async def named(probe: Probe) -> Finding:
    await need_tools(probe)
    forced = await probe.ask(REQUIRED)
    weaker = {} if forced.refused else {"tool_choice": "strings_only"}
    if not forced.refused and not made(forced, REQUIRED, probe.peer.model, probe.peer.own_formats):
        weaker = {}
    response = await probe.ask(NAMED)
    if response.refused:
        return Finding(verdict="quirk", found=f"refused: {response.refused}", implies={**weaker})
    found = await _calls(probe, NAMED)
    if not found or any(one.name != CLOCK.name for one in found):
        outcome = "another tool was called" if found else "no call"
        return Finding(verdict="quirk", found=f"ignored: {outcome}", implies={**weaker})
    return ok("a call of that tool", **({"tool_choice": "full"} if weaker else {}))


async def none(probe: Probe) -> Finding:
    await need_tools(probe)
    response = await probe.ask(NONE)
    if response.refused:
        return quirk(f"refused: {response.refused}", tool_choice_none=False)
    if await _calls(probe, NONE):
        return quirk("ignored: it called a tool", tool_choice_none=False)
    return ok("no call", tool_choice_none=True)


async def parallel(probe: Probe) -> Finding:
    count = len(await _calls(probe, BOTH))
    match count:
        case 0:
            return unknown("no call")
        case 1:
            return ok("one call in an answer, although two were asked for")
        case _:
            return ok(f"{count} calls in one answer")


async def parallel_flag(probe: Probe) -> Finding:
    await need_tools(probe)
    response = await probe.ask(ONE_AT_A_TIME)
    if response.refused:
        return quirk(f"refused: {response.refused}", supports_parallel_flag=False)
    if len(await _calls(probe, ONE_AT_A_TIME)) > 1:
        return quirk("ignored: several calls", supports_parallel_flag=False)
    return ok("accepted", supports_parallel_flag=True)


async def interleaved(probe: Probe) -> Finding:
    response = await probe.ask(BOTH)
    if len(structural(response.whole)) < 2:
        return ok("no two calls to compare")
    order = [which for which, _ in response.trace.arguments]
    runs = [which for at, which in enumerate(order) if not at or order[at - 1] != which]
    if len(runs) > len(set(runs)):
        return quirk("the pieces of several calls alternate")
    return ok("one call after another")


async def _booking(probe: Probe) -> Question:
    """Return the question that leads to a call with many arguments."""
    response = await probe.ask(BOOK)
    if (
        response.trouble
        or response.cut
        or made(response, BOOK, probe.peer.model, probe.peer.own_formats)
    ):
        return BOOK
    return BOOK_FORCED


async def arguments(probe: Probe) -> Finding:
    question = await _booking(probe)
    response = await probe.ask(question)
    if response.status == 200 and not response.is_stream:
        raise UnansweredError("there is no stream")
    pieces = [piece for _, piece in response.trace.arguments]
    if any(not isinstance(piece, str) for piece in pieces):
        return quirk("come as an object, not as text")
    failed = response.answer.fault is not None
    if pieces and response.trace.finish and not failed and not has_whole_arguments(response.trace):
        if response.cut_at(question.limit):
            return unknown("the token limit truncated them")
        cut = any(loss.code == "call_cut" for loss in response.answer.losses)
        return fails("are cut off" if cut else "are not JSON")
    found = await _structural(probe, question)
    if len(pieces) == len(found):
        return quirk("come in one piece, at the end")
    return ok("come in pieces")


async def schema(probe: Probe) -> Finding:
    calls = await _calls(probe, await _booking(probe))
    if not calls:
        return unknown("no call")
    if not calls[0].complete:
        return unknown("the call was cut off")
    schema = _closed(decoded(BOOKING.schema.encode()))
    wrong = misfit(decoded(calls[0].arguments.encode()), schema)
    if wrong:
        return quirk(printable(wrong))
    return ok("nested, enumerated and required values are right")


def _closed(schema: object) -> object:
    """Return a schema whose objects allow no undeclared properties."""
    if isinstance(schema, list):
        return [_closed(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    inner = {name: _closed(one) for name, one in schema.items()}
    return inner | {"additionalProperties": False} if schema.get("type") == "object" else inner


async def call_ids(probe: Probe) -> Finding:
    first = await _structural(probe, AUTO)
    second = structural((await probe.ask(BOTH)).whole)
    ids = [one.id for one in (*first, *second)]
    if all(map(is_kimi_id, ids)):
        return ok("as `functions.NAME:NUMBER`", id_style="kimi")
    if len(set(ids)) < len(ids):
        return quirk("the same id for two calls")
    return ok("each call has its own")


async def native(probe: Probe) -> Finding:
    for question in (AUTO, REQUIRED, NAMED, BOTH, BOOK):
        response = await probe.ask(question)
        leak = (
            None
            if response.trouble
            else leaked(response, question, probe.peer.model, probe.peer.own_formats)
        )
        if leak is not None:
            where = "the text" if leak.place == "content" else "the reasoning"
            return Finding(
                verdict="quirk",
                found=f"calls are written in {where}, in the format {leak.family}",
                format=leak.family,
            )
    return ok("no markers of calls in text or reasoning")


async def finish(probe: Probe) -> Finding:
    text, called = await probe.ask(TEXT), await probe.ask(AUTO)
    judged = 0
    for response, question, expected in ((text, TEXT, _FINISH_TEXT), (called, AUTO, _FINISH_CALLS)):
        if not _has_finish(response) or (response is called and not response.answer.call_blocks):
            continue
        if response.cut_at(question.limit):
            continue
        judged += 1
        word, due = response.trace.finish, expected[probe.dialect]
        if word != due:
            kind = "a call" if response is called else "text"
            return quirk(f"`{printable(word)}` after {kind}, where `{due}` is expected")
    if not judged:
        raise UnansweredError("there is no finish reason")
    return ok("match the response")


def _has_finish(response: Response) -> bool:
    good = response.status == 200 and response.is_stream and response.answer.fault is None
    return good and bool(response.trace.finish)


ROWS: Final = (
    Check(
        name="tools-auto",
        asks="Does it call a tool when it should?",
        run=auto,
        questions=(AUTO,),
    ),
    Check(
        name="tools-required",
        asks="Does it call a tool when it must?",
        run=required,
        questions=(AUTO, REQUIRED),
    ),
    Check(
        name="tools-named",
        asks="Does it call the tool that the request names?",
        run=named,
        questions=(AUTO, REQUIRED, NAMED),
    ),
    Check(
        name="tools-none",
        asks="Does it call no tool when it must not?",
        run=none,
        questions=(AUTO, NONE),
    ),
    Check(
        name="parallel",
        asks="Does it make several calls at once?",
        run=parallel,
        questions=(BOTH,),
    ),
    Check(
        name="parallel-flag",
        asks="Can several calls at once be switched off?",
        run=parallel_flag,
        questions=(AUTO, ONE_AT_A_TIME),
        dialects=WITHOUT_GEMINI,
    ),
    Check(
        name="interleaved",
        asks="Do calls come one after another?",
        run=interleaved,
        questions=(BOTH,),
        dialects=WITHOUT_GEMINI,
    ),
    Check(
        name="arguments",
        asks="Are arguments streamed?",
        run=arguments,
        questions=(BOOK, BOOK_FORCED),
        dialects=WITHOUT_GEMINI,
    ),
    Check(
        name="schema",
        asks="Do arguments fit the schema?",
        run=schema,
        questions=(BOOK, BOOK_FORCED),
    ),
    Check(
        name="call-ids",
        asks="Which ids do calls have?",
        run=call_ids,
        questions=(AUTO, BOTH),
    ),
    Check(
        name="native",
        asks="Are calls written as text?",
        run=native,
        questions=(AUTO, REQUIRED, NAMED, BOTH, BOOK),
    ),
    Check(
        name="finish",
        asks="Are finish reasons correct?",
        run=finish,
        questions=(TEXT, AUTO),
    ),
)
