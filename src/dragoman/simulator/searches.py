"""How each vendor is asked for a web search, and what its answers show of one.

No two hosts of Chat Completions do it alike.  Without the quirk `search:HOST`, an answer has the shape of the host
whose fields the request uses, as `Profile.chat_search` names the hosts.  With it, the simulator is that host, and
accepts only its own fields.
"""

from collections.abc import Callable
from typing import Final

import msgspec
from msgspec import Struct, structs

from dragoman.simulator.play import Fields, Json, Play, Reply
from dragoman.turn.request import Request
from dragoman.turn.server_tools import ServerKind

NO_SEARCH: Final = "none"  # a host that ignores what asks for a search

# Hosts that search for every answer, if they are asked for a search at all.
_ALWAYS: Final = frozenset({"options", "zai"})
# What follows a text that cites its first source.
_MARKS: Final = {"zai": "[ref_1]", "perplexity": "[1]", "xai": " [[1]]({url})"}
_SNIPPET: Final = "A part of the page."
_DATE: Final = "2026-11-01"


def is_due(request: Request, fields: Fields, host: str) -> bool:
    """Return whether the vendor searches for a request; an empty host accepts the fields of every host."""
    if host == NO_SEARCH:
        return False
    if host == "perplexity":  # it searches unasked
        return fields.get("disable_search") is not True
    own = [
        tool
        for tool in request.tools
        if tool.does is ServerKind.WEB_SEARCH
        and (not host or request.dialect != "chat" or tool.vendor == host)
    ]
    needed = request.needed_tools
    return any(tool.vendor in _ALWAYS or tool in needed for tool in own)


def host_of(play: Play) -> str:
    """Return the host that the answer's searches look like; empty: its dialect's vendor."""
    if play.style.search or play.asked.request.dialect != "chat":
        return play.style.search
    searching = (tool for tool in play.asked.request.tools if tool.does is ServerKind.WEB_SEARCH)
    return next((tool.vendor for tool in searching if tool.vendor in _HOSTS), "options")


def marked(play: Play) -> Play:
    """Add what a host writes into the text to cite a source, if it writes anything."""
    mark, reply = _MARKS.get(host_of(play), ""), play.reply
    plain = reply.finish == "stop" and play.asked.request.format.kind == "text"
    if not mark or reply.cited is None or not plain:
        return play
    text = reply.text + mark.format(url=reply.cited[0])
    return structs.replace(play, reply=structs.replace(reply, text=text))


class Shown(Struct, frozen=True, kw_only=True):
    """What a Chat answer shows of its searches."""

    before: tuple[Fields, ...] = ()  # deltas before the text
    after: tuple[Fields, ...] = ()  # deltas after the text
    message: Fields = {}  # of the message of a complete answer
    beside: Fields = {}  # beside the choices
    repeated: bool = False  # that is in every chunk, not in the last alone
    counts: Fields = {}  # among the token counts
    last_object: str = "chat.completion.chunk"


def shown(play: Play) -> Shown:
    """Return what a Chat answer shows of its searches."""
    return _HOSTS[host_of(play)](play.reply) if play.reply.searches else Shown()


def _sources(reply: Reply) -> list[tuple[str, str]]:
    return [source for search in reply.searches for source in search.sources]


def _options(reply: Reply) -> Shown:
    """OpenAI's search models cite what they used, after the text."""
    if reply.cited is None:
        return Shown(message={"annotations": []})
    url, title = reply.cited
    span: Fields = {"start_index": 0, "end_index": len(reply.text), "title": title, "url": url}
    cited: Fields = {"annotations": [{"type": "url_citation", "url_citation": span}]}
    return Shown(after=({"content": "", **cited},), message=cited)


def _openrouter(reply: Reply) -> Shown:
    """OpenRouter lists all sources before the text, without a place in it."""
    place: Fields = {"content": _SNIPPET, "start_index": 0, "end_index": 0}
    listed: list[Json] = [
        {"type": "url_citation", "url_citation": {"url": url, "title": title, **place}}
        for url, title in _sources(reply)
        if reply.text
    ]
    number = len(reply.searches)
    counts: Fields = {
        "web_search_requests": number,
        "tool_calls_requested": number,
        "tool_calls_executed": number,
    }
    cited: Fields = {"annotations": listed}
    return Shown(
        before=({"content": "", **cited},) if listed else (),
        message=cited,
        counts={"server_tool_use_details": counts},
    )


def _zai(reply: Reply) -> Shown:
    """Z.ai lists what was found beside the choices, at the end."""
    found: list[Json] = [
        {
            "title": title,
            "link": url,
            "content": _SNIPPET,
            "media": "Example",
            "icon": "",
            "refer": f"ref_{number}",
            "publish_date": _DATE,
        }
        for number, (url, title) in enumerate(_sources(reply), 1)
    ]
    return Shown(beside={"web_search": found})


def _nothing(_reply: Reply) -> Shown:
    """Qwen's Chat API shows neither searches nor sources, Moonshot's the call alone (see `paused_answers`)."""
    return Shown()


def _xai(reply: Reply) -> Shown:
    """List the addresses beside the choices, at the end, as xAI's live search does."""
    urls: list[Json] = [url for url, _ in _sources(reply)]
    return Shown(beside={"citations": urls}, counts={"num_sources_used": len(urls)})


def _perplexity(reply: Reply) -> Shown:
    """Perplexity repeats what was found in every chunk, from the first on."""
    found: list[Json] = [
        {
            "title": title,
            "url": url,
            "date": _DATE,
            "last_updated": None,
            "snippet": _SNIPPET,
            "source": "web",
        }
        for url, title in _sources(reply)
    ]
    return Shown(
        beside={"citations": [url for url, _ in _sources(reply)], "search_results": found},
        repeated=True,
        counts={"num_search_queries": len(reply.searches), "search_context_size": "low"},
        last_object="chat.completion.done",
    )


def _groq(kind: str) -> Callable[[Reply], Shown]:
    """Groq shows each tool twice: what was asked, then the same with what was found."""

    def shown_by(reply: Reply) -> Shown:
        asked: list[Fields] = [
            {
                "index": number,
                "type": kind,
                "arguments": msgspec.json.encode({"query": search.query}).decode(),
            }
            for number, search in enumerate(reply.searches)
        ]
        ran: list[Json] = []
        for tool, search in zip(asked, reply.searches, strict=True):
            listed: list[Json] = [
                {"title": title, "url": url, "content": _SNIPPET, "score": 0.9}
                for url, title in search.sources
            ]
            results: Fields = {"results": listed, "images": []}
            ran.append({**tool, "output": _SNIPPET, "search_results": results})
        return Shown(
            before=({"executed_tools": [*asked]}, {"executed_tools": ran}),
            message={"executed_tools": ran},
        )

    return shown_by


_HOSTS: Final[dict[str, Callable[[Reply], Shown]]] = {
    "options": _options,
    "openrouter": _openrouter,
    "zai": _zai,
    "qwen": _nothing,
    "kimi": _nothing,
    "xai": _xai,
    "perplexity": _perplexity,
    "compound": _groq("search"),
    "browser": _groq("browser_search"),
}
HOSTS: Final = (*_HOSTS, NO_SEARCH)  # the values of the quirk
