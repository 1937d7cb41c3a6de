"""Checks parameters of a request: limits, stop sequences, sampling, reasoning."""

from typing import Final

from dragoman.probe.checks.history import HISTORIES, past
from dragoman.probe.finding import Check, Finding, ok, quirk, unknown
from dragoman.probe.probe import Probe
from dragoman.probe.questions import (
    HISTORY_REASONED,
    HOT,
    LIMIT,
    LIMIT_NEWER,
    LIMIT_OLDER,
    REASONED,
    REPLAYED,
    SMALL_TOKENS,
    STOP,
    TEXT,
    UNREASONED,
    WARM,
)
from dragoman.probe.response import Response, UnansweredError

_CHARACTERS: Final = 8  # upper bound for one token, when the answer counts numbers
_OPENING: Final = "<think>"
_CLOSING: Final = "</think>"


async def output_limit(probe: Probe) -> Finding:
    if probe.dialect != "chat":
        response = await probe.ask(LIMIT)
        return ok("respected") if _is_held(response) else quirk("ignored: the answer goes on")
    older, newer = await probe.ask(LIMIT_OLDER), await probe.ask(LIMIT_NEWER)
    if _is_held(older):
        if _is_held(newer):
            return ok("both fields are respected", max_tokens_field="max_tokens")
        how = "refused" if newer.refused else "ignored"
        return ok(f"`max_tokens`; the newer field is {how}", max_tokens_field="max_tokens")
    how = "refused" if older.refused else "ignored"
    if _is_held(newer):
        return quirk(
            f"`max_tokens` is {how}, `max_completion_tokens` is respected",
            max_tokens_field="max_completion_tokens",
        )
    return quirk("neither field limits the output")


def _is_held(response: Response) -> bool:
    """Return whether the limit ended an answer; the check `finish` judges the finish reason.

    Raises:
        UnansweredError: the answer is too short to decide.
    """
    if response.refused:
        return False
    usage = response.whole.usage
    if response.cut or (
        usage is not None and usage.output_tokens in (SMALL_TOKENS - 1, SMALL_TOKENS)
    ):
        return True
    if len(response.answer.text) + len(response.answer.reasoning) <= SMALL_TOKENS * _CHARACTERS:
        raise UnansweredError("the answer is too short to decide")
    return False


async def stop(probe: Probe) -> Finding:
    response = await probe.ask(STOP)
    if response.refused:
        return quirk(f"refused: {response.refused}", max_stop_sequences=0)
    text = response.whole.text.lower()
    if "gamma" in text:
        return quirk("ignored: the answer goes on", max_stop_sequences=0)
    return ok("respected") if "alpha" in text else unknown("the answer is not what was asked for")


async def temperature(probe: Probe) -> Finding:
    if probe.dialect != "anthropic":
        hot = await probe.ask(HOT)
        if not hot.refused:
            _ = hot.whole
            return ok("up to 2", drop_sampling=False)
    warm = await probe.ask(WARM)
    if warm.refused:
        return quirk(f"refused: {warm.refused}", drop_sampling=True)
    _ = warm.whole
    if probe.dialect == "anthropic":
        return ok("accepted", drop_sampling=False)
    return quirk("2 is refused, 0.7 is not", drop_sampling=False, max_temperature=1.0)


async def reasoning(probe: Probe) -> Finding:
    """Find where reasoning appears: by default, on request, or inside the text."""
    unasked = await probe.ask(TEXT)
    if unasked.status == 200 and not unasked.is_stream:
        return unknown("there is no stream")
    fields = unasked.trace.reasoning
    if fields:
        return _in_fields(probe, fields, "requested or not")
    text = unasked.whole.text
    if text.lstrip().startswith(_OPENING):
        return quirk("inside the text, between think tags", think_tags="auto")
    if _CLOSING in text:
        return quirk("inside the text, before a closing think tag", think_tags="implicit_open")
    asked = await probe.ask(REASONED)
    if asked.refused:
        known = probe.peer.profile.reasoning_control == "reasoning_effort"
        implied = {"reasoning_control": "none"} if known and probe.dialect == "chat" else {}
        return quirk(f"requesting it is refused: {asked.refused}", **implied)
    if asked.trace.reasoning:
        return _in_fields(probe, asked.trace.reasoning, "if requested")
    if asked.whole.text.lstrip().startswith(_OPENING):
        return quirk("inside the text, if requested", think_tags="auto")
    return ok("none was sent")


def _in_fields(probe: Probe, fields: list[str], when: str) -> Finding:
    named = " and ".join(f"`{one}`" for one in fields)
    implied = {"reasoning_field": fields[0]} if probe.dialect == "chat" else {}
    if len(fields) > 1:
        return quirk(f"in {named} at once, {when}", **implied)
    return ok(f"in {named}, {when}", **implied)


async def reasoning_replay(probe: Probe) -> Finding:
    response = await past(probe)
    if response.refused:
        return unknown("conversations with calls are refused")
    if probe.habits.reasoning:
        return quirk(
            "earlier calls must be sent with their reasoning",
            replay_reasoning="tool_turns",
            reasoning_filler=" ",
        )
    reasons = not (await probe.ask(REASONED)).refused
    if reasons and (bare := await probe.ask(UNREASONED)).refused:
        how = "always" if probe.dialect == "anthropic" else "tool_turns"
        found = f"required if reasoning is requested: {bare.refused}"
        return quirk(found, replay_reasoning=how, reasoning_filler=" ")
    if probe.dialect != "chat":
        return ok(
            "not required"
        )  # other models' reasoning cannot be sent: it needs their signatures
    given = await probe.ask(REPLAYED if reasons else HISTORY_REASONED)
    if given.refused:
        return quirk(f"earlier reasoning is refused: {given.refused}", replay_reasoning="never")
    _ = given.whole
    return ok("not required, but accepted")


ROWS: Final = (
    Check(
        name="reasoning",
        asks="Where does reasoning appear?",
        run=reasoning,
        questions=(TEXT, REASONED),
    ),
    Check(
        name="reasoning-replay",
        asks="Must requests send back earlier reasoning?",
        run=reasoning_replay,
        questions=(*HISTORIES, REASONED, UNREASONED, REPLAYED),
    ),
    Check(
        name="output-limit",
        asks="Which field limits the output?",
        run=output_limit,
        questions=(LIMIT, LIMIT_OLDER, LIMIT_NEWER),
    ),
    Check(
        name="stop",
        asks="Are stop sequences respected?",
        run=stop,
        questions=(STOP,),
        dialects=("chat", "anthropic", "gemini"),
    ),
    Check(
        name="temperature",
        asks="Which temperatures are accepted?",
        run=temperature,
        questions=(HOT, WARM),
    ),
)
