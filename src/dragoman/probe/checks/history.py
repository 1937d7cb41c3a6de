"""Checks what a conversation may hold: roles, parts, images, past calls."""

from typing import Final

from dragoman.probe.calls import is_kimi_id
from dragoman.probe.checks.tool_calls import need_tools
from dragoman.probe.finding import (
    CHAT,
    OPENAI,
    WITHOUT_GEMINI,
    Check,
    Fact,
    Finding,
    fails,
    ok,
    quirk,
    unknown,
)
from dragoman.probe.probe import Probe
from dragoman.probe.questions import (
    AUTO,
    COLOUR,
    DEVELOPER,
    FOREIGN,
    FOREIGN_CLAUDE,
    FOREIGN_KIMI,
    FOREIGN_LONG,
    HISTORY,
    HISTORY_EMPTY,
    HISTORY_OMITTED,
    HISTORY_REASONED,
    IMAGE,
    MIDTURN,
    OBEYED,
    PARTS,
    THOUGHT,
    TWO_SYSTEMS,
)
from dragoman.probe.response import Response

# The id style of each dialect's own vendor, which restricts characters or length.
_PLAIN_IDS: Final = {
    "chat": "openai40",
    "anthropic": "anthropic64",
    "responses": "responses64",
    "gemini": "any",
}
HISTORIES: Final = (AUTO, HISTORY, HISTORY_EMPTY, HISTORY_OMITTED, HISTORY_REASONED)


async def past(probe: Probe) -> Response:
    """Send a conversation with a call in it, in several forms, and learn the form that is accepted.

    Raises:
        UnansweredError: tools are refused.
    """
    await need_tools(probe)
    response = first = await probe.ask(HISTORY)
    if not response.refused:
        return response
    if probe.dialect == "chat":
        for question, empty in ((HISTORY_EMPTY, "empty"), (HISTORY_OMITTED, "omit")):
            response = await probe.ask(question)
            if not response.refused:
                probe.learn(empty_content=empty)
                return response
    response = await probe.ask(HISTORY_REASONED)
    if not response.refused:
        probe.learn(reasoning=THOUGHT)
        return response
    return first


async def history(probe: Probe) -> Finding:
    response = await past(probe)
    if response.refused:
        return fails(f"a conversation with a call in it is refused: {response.refused}")
    _ = response.whole
    if probe.dialect != "chat":
        return ok("accepted")
    match probe.habits.empty_content:
        case "null":
            return ok("accepted", empty_assistant_content="null")
        case "empty":
            return quirk('null beside calls is refused, "" is not', empty_assistant_content="empty")
        case "omit":
            return quirk(
                "content beside calls is refused if it is empty", empty_assistant_content="omit"
            )


async def foreign_ids(probe: Probe) -> Finding:
    if (await past(probe)).refused:
        return unknown("conversations with calls are refused")
    everything = await probe.ask(FOREIGN)
    if not everything.refused:
        _ = everything.whole
        # Kimi accepts any id, but writes calls as text after a foreign one: keep its own style.
        own = [one.call_id for one in (await probe.ask(AUTO)).answer.call_blocks]
        kimi = probe.peer.profile.id_style == "kimi" or any(map(is_kimi_id, own))
        return ok("any id is accepted", **({} if kimi else {"id_style": "any"}))
    if not (await probe.ask(FOREIGN_CLAUDE)).refused:
        refused = []
        if (await probe.ask(FOREIGN_KIMI)).refused:
            refused.append("dots and colons")
        if (await probe.ask(FOREIGN_LONG)).refused:
            refused.append("more than 40 characters")
        why = " and ".join(refused) or "several kinds at once"
        return quirk(f"{why} are refused", id_style=_PLAIN_IDS[probe.dialect])
    return quirk("only ids of nine letters and digits are accepted", id_style="mistral9")


def _accepted(response: Response, sign: str, **if_refused: Fact) -> Finding:
    """Report whether a request was accepted, and whether the answer shows that it was understood."""
    if response.refused:
        return quirk(f"refused: {response.refused}", **if_refused)
    if sign in response.whole.text.lower():
        return ok(
            "accepted and understood", **{name: not value for name, value in if_refused.items()}
        )
    return ok("accepted")


async def developer(probe: Probe) -> Finding:
    return _accepted(await probe.ask(DEVELOPER), OBEYED, developer_role=False)


async def midturn_system(probe: Probe) -> Finding:
    return _accepted(await probe.ask(MIDTURN), OBEYED, midturn_system=False)


async def two_systems(probe: Probe) -> Finding:
    return _accepted(await probe.ask(TWO_SYSTEMS), OBEYED, merge_system=True)


async def parts(probe: Probe) -> Finding:
    response = await probe.ask(PARTS)
    if response.refused:
        return quirk(f"refused: {response.refused}", content_parts="string")
    _ = response.whole
    return ok("accepted", content_parts="parts")


async def images(probe: Probe) -> Finding:
    if probe.dialect == "chat" and (await probe.ask(PARTS)).refused:
        return unknown("content may not be a list of parts")
    response = await probe.ask(IMAGE)
    if response.refused:
        return quirk(f"refused: {response.refused}", images="none", tool_images="placeholder")
    if COLOUR not in response.whole.text.lower():
        return ok("accepted")
    if probe.peer.profile.images == "none":
        return ok("accepted and seen", images="base64_only", tool_images="follow_up")
    return ok("accepted and seen")


ROWS: Final = (
    Check(
        name="history",
        asks="Is a conversation with calls accepted?",
        run=history,
        questions=HISTORIES,
    ),
    Check(
        name="foreign-ids",
        asks="Are ids of other vendors accepted?",
        run=foreign_ids,
        questions=(
            *HISTORIES,
            FOREIGN,
            FOREIGN_CLAUDE,
            FOREIGN_KIMI,
            FOREIGN_LONG,
        ),
    ),
    Check(
        name="developer",
        asks="Is the role `developer` accepted?",
        run=developer,
        questions=(DEVELOPER,),
        dialects=OPENAI,
    ),
    Check(
        name="midturn-system",
        asks="Are instructions inside the conversation accepted?",
        run=midturn_system,
        questions=(MIDTURN,),
        dialects=WITHOUT_GEMINI,
    ),
    Check(
        name="two-systems",
        asks="Are several instructions at the top accepted?",
        run=two_systems,
        questions=(TWO_SYSTEMS,),
        dialects=OPENAI,
    ),
    Check(
        name="parts",
        asks="May content be a list of parts?",
        run=parts,
        questions=(PARTS,),
        dialects=CHAT,
    ),
    Check(name="images", asks="Are images accepted?", run=images, questions=(PARTS, IMAGE)),
)
