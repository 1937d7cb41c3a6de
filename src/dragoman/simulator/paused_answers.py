"""Answers that need a second request: Moonshot's `$web_search`, turns that Anthropic pauses, and Google's `CONTINUATION`.

Moonshot searches when the call of its search comes back, with its arguments as the result.  Anthropic goes on when the
content of a paused answer comes back, and Google when the same request comes with the token of the answer.  All must
come back as they were sent; how far the answer is follows from the request, so the model keeps no state.
"""

import hashlib
from typing import Final

import msgspec
from msgspec import structs

from dragoman.errors import MalformedError
from dragoman.simulator.answer_writers.anthropic import search_blocks, thinking_block
from dragoman.simulator.answer_writers.gemini import continuation_token
from dragoman.simulator.play import Fields, Json, Play, Reply, SimulatedCall, SimulatedSearch

KIMI_SEARCH: Final = "$web_search"


def sent_back(dialect: str, fields: Fields) -> int:
    """Return how many messages at the end of a request hold an answer that was paused."""
    messages = fields.get("messages")
    if not isinstance(messages, list):
        return 0
    if dialect == "anthropic":
        return int(bool(messages) and bool(_server_calls(messages[-1])))
    count = 0
    while (size := _echo_size(messages[: len(messages) - count])) > 0:
        count += size
    return count


def pause(play: Play) -> Play:
    """Return the part of an answer that is due, if the vendor pauses it.

    Raises:
        MalformedError: what comes back is not what was sent.
    """
    request = play.asked.request
    if request.dialect == "chat" and any(tool.vendor == "kimi" for tool in request.tools):
        return structs.replace(play, reply=_moonshot(play))
    if request.dialect == "anthropic" and play.style.pauses:
        return structs.replace(play, reply=_anthropic(play))
    if request.dialect == "gemini" and play.style.pauses:
        return structs.replace(play, reply=_google(play))
    return play


# --- Moonshot -----------------------------------------------------------------------------------------


def _moonshot(play: Play) -> Reply:
    reply, back = play.reply, play.asked.sent_back
    thinking = play.asked.fields.get("thinking")
    if isinstance(thinking, dict) and thinking.get("type") == "enabled":
        raise MalformedError("`$web_search` needs thinking to be disabled", path="$.thinking")
    queries = [search.query for search in reply.searches]
    if queries and play.style.pauses:
        queries = queries[:1] * play.style.pauses
    _check_echoes(play)
    made = [call for message in back for call in _calls(message)]
    for number, one in enumerate(made):
        if number >= len(queries) or one.get("arguments") != _arguments(queries[number], number):
            raise MalformedError("this call of `$web_search` was never made", path="$.messages")
    if len(made) == len(queries):
        return structs.replace(reply, searches=())
    call = SimulatedCall(
        id=f"{KIMI_SEARCH}:0",  # Moonshot counts from 0 in each answer
        name=KIMI_SEARCH,
        arguments=_arguments(queries[len(made)], len(made)),
    )
    return Reply(reasoning=reply.reasoning, calls=(call, *reply.calls), finish="tool_calls")


def _arguments(query: str, number: int) -> str:
    """Return the arguments of a search, which no JSON encoder would write in this way."""
    search = hashlib.sha256(f"{number} {query}".encode()).hexdigest()[:24]
    used = 13_000 + number
    return (
        f'{{"search_result": {{"search_id": "\\u0072{search}"}},"usage":{{"total_tokens":{used}}}}}'
    )


def _check_echoes(play: Play) -> None:
    """Refuse a result of `$web_search` that differs from the arguments of its call.

    Raises:
        MalformedError: it does, or there is none.
    """
    messages = play.asked.fields.get("messages")
    waiting: dict[Json, Json] = {}
    for message in messages if isinstance(messages, list) else ():
        waiting |= {call["id"]: call["arguments"] for call in _calls(message)}
        if isinstance(message, dict) and message.get("role") == "tool":
            echo, content = message.get("tool_call_id"), message.get("content")
            if echo in waiting and waiting.pop(echo) != content:
                reason = "the result of `$web_search` differs from the arguments of its call"
                raise MalformedError(reason, path="$.messages", code="invalid_search")
    if waiting:
        raise MalformedError("a call of `$web_search` has no result", path="$.messages")


def _echo_size(messages: list[Json]) -> int:
    """Return the size of the last messages if they are calls of `$web_search` alone, and their results."""
    results = 0
    while results < len(messages) and _role(messages[-1 - results]) == "tool":
        results += 1
    if not 0 < results < len(messages):
        return 0
    asked = messages[-1 - results]
    searches = len(_calls(asked))
    total = asked.get("tool_calls") if isinstance(asked, dict) else None
    alone = isinstance(total, list) and len(total) == searches == results
    return results + 1 if alone else 0


def _role(message: Json) -> Json:
    return message.get("role") if isinstance(message, dict) else None


def _calls(message: Json) -> list[Fields]:
    """Return id and arguments of each call of `$web_search` in a message."""
    calls = message.get("tool_calls") if isinstance(message, dict) else None
    out: list[Fields] = []
    for one in calls if isinstance(calls, list) else ():
        call: Fields = one if isinstance(one, dict) else {}
        function = call.get("function")
        if isinstance(function, dict) and function.get("name") == KIMI_SEARCH:
            out.append({"id": call.get("id"), "arguments": function.get("arguments")})
    return out


# --- Google -------------------------------------------------------------------------------------------


def token_sent(fields: Fields) -> Json:
    """Return the token with which a request continues an answer; None if it has none."""
    config = fields.get("generationConfig")
    return config.get("continuationToken") if isinstance(config, dict) else None


def _google(play: Play) -> Reply:
    """Return the part of the text that is due; images and calls come with the last one."""
    reply, pauses = play.reply, play.style.pauses
    tokens = [continuation_token(number) for number in range(1, pauses + 1)]
    token = token_sent(play.asked.fields)
    if token is not None and token not in tokens:
        raise MalformedError("this token was never given", path="$.generationConfig")
    done = 0 if token is None else tokens.index(str(token)) + 1
    size = -(-len(reply.text) // (pauses + 1))
    part = structs.replace(
        reply,
        text=reply.text[done * size : (done + 1) * size]
        if done < pauses
        else reply.text[done * size :],
        reasoning="" if done else reply.reasoning,
        mcp_calls=() if done else reply.mcp_calls,
    )
    if done == pauses:
        return part
    return structs.replace(
        part, calls=(), searches=(), images=(), finish="pause", token=tokens[done]
    )


# --- Anthropic ----------------------------------------------------------------------------------------


def _anthropic(play: Play) -> Reply:
    """Return one search for each pause; the result of each comes with the next part of the answer."""
    reply, pauses = play.reply, play.style.pauses
    search = reply.searches[0] if reply.searches else SimulatedSearch("more")
    pairs = [search_blocks(f"{_digest(search.query)}{number}", search) for number in range(pauses)]
    given = play.asked.sent_back[0] if play.asked.sent_back else None
    done = len(_server_calls(given))
    before: list[Json] = [thinking_block(play)] if reply.reasoning else []
    before += [block for pair in pairs[: max(done - 1, 0)] for block in pair]
    before += [pairs[done - 1][0]] if 0 < done <= pauses else []
    if isinstance(given, dict) and (done > pauses or _normal(given.get("content")) != before):
        raise MalformedError("the paused content was changed", path="$.messages")
    first = pairs[done - 1][1:] if done else ()
    if done == pauses:
        return structs.replace(reply, reasoning="", searches=(), blocks=first)
    reasoning = "" if done else reply.reasoning
    return Reply(reasoning=reasoning, blocks=(*first, pairs[done][0]), finish="pause")


def _server_calls(message: Json) -> list[Json]:
    """Return the calls of vendor-run tools in a message of the model."""
    content = message.get("content") if isinstance(message, dict) else None
    if _role(message) != "assistant" or not isinstance(content, list):
        return []
    return [
        one for one in content if isinstance(one, dict) and one.get("type") == "server_tool_use"
    ]


def _normal(content: Json) -> Json:
    """Return blocks without the marks of prompt caching, which clients may add."""
    if not isinstance(content, list):
        return content
    return [
        {name: value for name, value in one.items() if name != "cache_control"}
        if isinstance(one, dict)
        else one
        for one in content
    ]


def _digest(text: str) -> str:
    return hashlib.sha256(msgspec.json.encode(text)).hexdigest()[:16]
