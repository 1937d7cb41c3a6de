"""Checks whether the upstream searches the web itself, and which fields ask for a search."""

from typing import Final

from dragoman.probe.finding import Check, Finding, ok, quirk, unknown
from dragoman.probe.probe import Probe
from dragoman.probe.questions import SEARCH as SEARCH_QUESTION
from dragoman.probe.questions import SEARCHES
from dragoman.probe.response import Response
from dragoman.profiles import for_model
from dragoman.toolcalls.detection import bare_name
from dragoman.turn.server_tools import ServerCall, ServerKind

_TOOL: Final = str(ServerKind.WEB_SEARCH)
_CALLS: Final = frozenset({_TOOL, "$web_search"})  # of the client, if a host does not run them


async def search(probe: Probe) -> Finding:
    """Ask for a search, and look for evidence of one in the answer: a call, sources or a count."""
    if probe.dialect == "chat":
        return await _chat(probe)
    known = probe.peer.profile.runs(_TOOL, probe.dialect)
    here = (_TOOL, f"{probe.dialect}/{_TOOL}")
    without = tuple(one for one in probe.peer.profile.server_tools if one not in here)
    response = await probe.ask(SEARCH_QUESTION)
    if response.refused:
        found = f"none; a request for one is refused: {response.refused}"
        return quirk(found, server_tools=without) if known else ok(found)
    if _searched(response):
        return ok("the upstream searches", server_tools=(*without, _TOOL))
    if _returned(response):
        return quirk("none: the search is returned as a call for the client", server_tools=without)
    return unknown("accepted, but no search was seen") if known else ok("none was seen")


async def _chat(probe: Probe) -> Finding:
    """Ask with the fields of one host after the other, those of the profile first."""
    model = bare_name(probe.peer.model)
    known = for_model(probe.peer.profile, model, None, "chat").chat_search
    if _searched(await probe.ask(SEARCH_QUESTION)):
        return ok("for every answer, even if not requested", chat_search="perplexity")
    if known == "qwen":
        return unknown("answers of this host do not show whether it searched")
    for host in sorted(SEARCHES, key=lambda one: one != known):
        response = await probe.ask(SEARCHES[host])
        if response.refused:
            continue
        if _searched(response) or (host == "kimi" and _returned(response)):
            return ok(f"requested with the fields of `{host}`", chat_search=host)
    return quirk("none was seen", chat_search="") if known else ok("none was seen")


def _searched(response: Response) -> bool:
    """Return whether an answer shows a search.

    Raises:
        UnansweredError: there is no complete answer, although the request was not refused.
    """
    if response.refused:
        return False
    answer = response.whole
    counted = answer.usage is not None and answer.usage.searches > 0
    calls = (block.server for block in answer.blocks if isinstance(block.server, ServerCall))
    return counted or any(one.does is ServerKind.WEB_SEARCH for one in calls)


def _returned(response: Response) -> bool:
    """Return whether the search is a call that the client is to run."""
    return any(block.name in _CALLS for block in response.whole.blocks)


SEARCH: Final = Check(
    name="search",
    asks="Does it search the web itself?",
    run=search,
    questions=(SEARCH_QUESTION, *SEARCHES.values()),
)
