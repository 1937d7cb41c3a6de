"""How answers end: every fault of the simulator, and what a client then sees, kept as files.

python -m tools.endings [name]...      write what the gateway sends now; read it before you commit it
"""

import asyncio
import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Literal, NamedTuple

import aiohttp
from msgspec import structs

from dragoman.gateway.config.settings import Match, Route, Server, Settings, TimeoutChanges
from dragoman.limits import Limits
from tests.support.gateway import DIALECTS, Stand, settings_for
from tests.support.simulator import question, wire

ROOT = Path(__file__).parent.parent / "gateway" / "endings"
WEATHER = {
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string"}},
        "required": ["city"],
    },
}
TEXT = "sim: say Paris is the capital of France."
THOUGHT = "sim: think The user asks for a capital, and I know it."
CALL = 'sim: call weather {"city": "Paris, the capital"}'
# Long enough for its middle to stand behind the markers of a native call.
LONG_CALL = f'sim: call weather {{"city": "{"Paris, the capital of France, " * 6}on the Seine"}}'
CALLS = f'{CALL}\nsim: call weather {{"city": "Ulm"}}'
Way = Literal["stream", "whole"]
STREAM: tuple[Way, ...] = ("stream",)
BOTH: tuple[Way, ...] = ("stream", "whole")


class Seen(NamedTuple):
    """What a client received in one exchange, as its file shows it."""

    status: int
    headers: dict[str, str]
    body: str


class Ending(NamedTuple):
    """One fault, and how much of an answer it leaves."""

    name: str
    meaning: str  # what the upstream does, as docs/endings.md says it
    model: str
    said: str = TEXT
    ways: tuple[Way, ...] = BOTH
    fails: bool = True  # no client may take the answer for a complete one
    upstream: str = "chat"

    @property
    def piece(self) -> int:
        """How many characters an event of the upstream carries."""
        return 40 if self.said == LONG_CALL else 8


_STATUSES = (400, 401, 402, 403, 404, 408, 409, 413, 422, 429, 500, 502, 503, 504, 529)
ENDINGS: tuple[Ending, ...] = (
    *(
        Ending(f"error_{status}", f"status {status}", f"plain+error:{status}")
        for status in _STATUSES
    ),
    Ending("error_429_wait", "status 429 with `retry-after: 7`", "plain+error:429+retry-after:7"),
    Ending(
        "error_page",
        "status 502 with an HTML page instead of an error body",
        "plain+error-page:502",
    ),
    Ending("empty", "status 200 with no content at all", "plain+empty"),
    Ending(
        "error_first", "an error as the first event of the stream", "plain+error-first", ways=STREAM
    ),
    Ending(
        "error_first_401",
        "an error about the key as the first event of the stream",
        "plain+error-first:401",
        ways=STREAM,
    ),
    Ending("error_in", "an error inside the text", "plain+error-in", ways=STREAM),
    Ending(
        "error_in_401", "an error about the key inside the text", "plain+error-in:401", ways=STREAM
    ),
    Ending(
        "error_in_429",
        "an error about the rate limit inside the text",
        "plain+error-in:429",
        ways=STREAM,
    ),
    Ending(
        "error_in_529", "an error about overload inside the text", "plain+error-in:529", ways=STREAM
    ),
    Ending(
        "error_in_reasoning", "an error inside the reasoning", "plain+error-in", THOUGHT, STREAM
    ),
    Ending(
        "error_in_call",
        "an error inside the arguments of a tool call",
        "plain+error-in",
        CALL,
        STREAM,
    ),
    Ending(
        "error_in_native_call",
        "an error inside a tool call that the model writes as text",
        "kimi-k2+error-in",
        LONG_CALL,
        STREAM,
    ),
    Ending("error_200", "an error body with status 200", "plain+error-200"),
    Ending(
        "error_200_rate_limit",
        "an error body about the rate limit with status 200",
        "plain+error:429+error-200",
    ),
    Ending("cut_empty", "the connection closes before the first byte of the body", "plain+cut:0"),
    Ending("cut_before_content", "the connection closes before any content", "plain+cut:10"),
    Ending("cut_in_text", "the connection closes inside the text", "plain+cut"),
    Ending("cut_in_reasoning", "the connection closes inside the reasoning", "plain+cut", THOUGHT),
    Ending(
        "cut_in_call",
        "the connection closes inside the arguments of a tool call",
        "plain+cut",
        CALL,
    ),
    Ending(
        "cut_in_native_call",
        "the connection closes inside a tool call that the model writes as text",
        "kimi-k2+cut",
        LONG_CALL,
    ),
    Ending("reset_before_content", "the connection is reset before any content", "plain+reset:0"),
    Ending("reset_in_text", "the connection is reset inside the text", "plain+reset"),
    Ending(
        "reset_in_call",
        "the connection is reset inside the arguments of a tool call",
        "plain+reset",
        CALL,
    ),
    Ending("slow_first_byte", "no response before the timeout `first_byte`", "plain+slow:60000"),
    Ending(
        "stall_before_content",
        "the head of a response, then silence until the timeout",
        "plain+stall:0",
    ),
    Ending("stall_in_text", "silence inside the text until the timeout `idle`", "plain+stall"),
    Ending(
        "stall_in_call",
        "silence inside the arguments of a tool call until the timeout `idle`",
        "plain+stall",
        CALL,
    ),
    Ending(
        "garbage",
        "an event that is not JSON between good ones",
        "plain+garbage",
        ways=STREAM,
        fails=False,
    ),
    Ending(
        "garbage_strict",
        "the same, at an upstream with `strict = true`",
        "plain+garbage",
        ways=STREAM,
        upstream="strict",
    ),
    Ending("giant", "an event larger than `max_sse_event_bytes`", "plain+giant:1", ways=STREAM),
    Ending(
        "half_call",
        "a proper end of the stream inside the arguments of a tool call",
        "plain+half-call",
        CALL,
        STREAM,
    ),
    Ending(
        "clean_end_in_reasoning",
        "a proper end of the stream after the reasoning, without an answer",
        "plain+ends-in:first",
        THOUGHT,
        STREAM,
    ),
    Ending(
        "error_at_the_end",
        "an error about overload after all of the text",
        "plain+error-end:529",
        ways=STREAM,
    ),
    Ending(
        "half_native_call",
        "a proper end of the stream inside a tool call that the model writes as text",
        "kimi-k2+half-call",
        LONG_CALL,
        STREAM,
    ),
    Ending(
        "no_done",
        "a finish reason, but not the final event of the stream",
        "plain+no-done",
        ways=STREAM,
        fails=False,
    ),
    Ending("no_finish", "all of the text, but no finish reason", "plain+no-finish", ways=STREAM),
    Ending(
        "no_finish_after_call", "a tool call, but no finish reason", "plain+no-finish", CALL, STREAM
    ),
    Ending("finish_error", "the finish reason `error`", "plain+finish:error"),
    Ending(
        "json_instead",
        "a complete body although a stream was requested",
        "plain+json-instead",
        ways=STREAM,
        fails=False,
    ),
    Ending(
        "json_instead_call",
        "a complete body with a tool call although a stream was requested",
        "plain+json-instead",
        CALL,
        STREAM,
        fails=False,
    ),
    Ending(
        "sse_instead",
        "a stream although a complete body was requested",
        "plain+sse-instead",
        ways=("whole",),
        fails=False,
    ),
    Ending(
        "sse_instead_cut",
        "a stream without a finish reason although a complete body was requested",
        "plain+sse-instead+no-finish",
        ways=("whole",),
    ),
    Ending(
        "wrong_index",
        "two tool calls with the same index",
        "plain+index-zero",
        CALLS,
        STREAM,
        fails=False,
    ),
    Ending(
        "bad_json_arguments",
        "arguments that are not valid JSON",
        "plain+bad-json-args",
        CALL,
        fails=False,
    ),
    Ending(
        "cut_arguments",
        "arguments that end inside a value, with the finish reason of a complete call",
        "plain+cut-args",
        CALL,
        STREAM,
        fails=False,
    ),
    Ending(
        "quoted_arguments",
        "arguments that are a JSON string with the object in it",
        "plain+quoted-args",
        CALL,
        STREAM,
        fails=False,
    ),
    Ending(
        "bad_json_native",
        "a tool call as text, with arguments that are not valid JSON",
        "kimi-k2+bad-json-args",
        LONG_CALL,
        fails=False,
    ),
    Ending("refused", "the finish reason of a content filter", "plain+refuse", fails=False),
    Ending("length_in_text", "the token limit inside the text", "plain+length", fails=False),
    Ending(
        "length_in_call",
        "the token limit inside the arguments of a tool call",
        "plain+length",
        CALL,
        fails=False,
    ),
    Ending(
        "length_in_native_call",
        "the token limit inside a tool call that the model writes as text",
        "kimi-k2+length",
        LONG_CALL,
        fails=False,
    ),
)
# The same in the other dialects of upstreams, where the words on the wire differ.
_SAMPLED = (
    "error_401 error_429_wait error_529 error_first error_in error_in_529 error_in_call error_200 cut_in_text"
    " cut_in_reasoning cut_in_call stall_in_call garbage half_call no_done no_finish"
    " bad_json_arguments refused length_in_call"
)
ENDINGS += tuple(
    ending._replace(name=f"{ending.name}_from_{upstream}", upstream=upstream)
    for upstream in ("anthropic", "responses", "gemini")
    for ending in ENDINGS
    if ending.name in _SAMPLED.split()
)


def file_of(ending: Ending, dialect: str) -> Path:
    """Return the file with what a client of a dialect receives."""
    return ROOT / f"{ending.name}.{dialect}.txt"


def settings(url: str) -> Settings:
    """Return settings whose clocks run fast and whose bounds are near."""
    found = settings_for(url, server=Server(port=0, limits=Limits(max_sse_event_bytes=512 * 1024)))
    strict = structs.replace(found.upstreams["chat"], strict=True)
    routes = [Route(match=Match(model="strict/*"), to=("strict/*",))]
    quick = TimeoutChanges(first_byte=1.0, idle=1.0)
    routes += [
        # Nothing else is hurried: a busy machine takes its time.
        Route(match=Match(model=f"{name}/*+{fault}*"), to=(f"{name}/*",), timeouts=quick)
        for name in DIALECTS
        for fault in ("stall", "slow")
    ]
    return structs.replace(
        found, upstreams={**found.upstreams, "strict": strict}, routes=(*routes, *found.routes)
    )


async def seen(stand: Stand, ending: Ending, dialect: str) -> str:
    """Return what a client of a dialect sees, in the form of its file."""
    said = ending.said.replace("\n", "\n# ")
    parts = [f"# {ending.upstream}/{ending.model}\n# {said}\n"]
    texts = {way: await _asked(stand, ending, dialect, way) for way in ending.ways}
    if len(set(texts.values())) == 1:
        texts = {" and ".join(texts): next(iter(texts.values()))}
    parts += [f"\n=== {way}\n{text}\n" for way, text in texts.items()]
    return "".join(parts)


async def _asked(stand: Stand, ending: Ending, dialect: str, way: Way) -> str:
    base, _, quirks = ending.model.partition("+")
    # Each has a model of its own, for estimates of tokens learn from every answer of a model.
    model = f"{base}-{ending.name}-{dialect}-{way}+{quirks}+chunk:{ending.piece}"
    body = question(
        dialect,
        f"{ending.upstream}/{model}",
        ending.said,
        tools=[WEATHER],
        stream=way == "stream",
    )
    path, sent = wire(dialect, body)
    async with (
        aiohttp.ClientSession() as http,
        http.post(stand.url + path, json=sent) as response,
    ):
        received = await response.read()  # raises if the body has no proper end
    # What a stream's headers warn of depends on how much of it came with the first content.
    shown = ["content-type", "retry-after", *(["x-dragoman-warnings"] if way == "whole" else [])]
    head = [f"{name}: {response.headers[name]}" for name in shown if name in response.headers]
    return normal("\n".join((str(response.status), *head, "", received.decode())))


_IDS = re.compile(r"(?<![\w-])(req|chatcmpl|msg|resp|rs|fc|call|toolu)([_-])(\w{16,})")
_TIMES = re.compile(r'("(?:created|created_at|completed_at)":)[1-9][0-9]{9}')
_SEALED = re.compile(r"dgm1\.[\w.=-]+|ZGdtMS[\w+/=]+")
_RESPONSES = re.compile(r'("responseId":)"[^"]+"')


def normal(text: str) -> str:
    """Replace what is new in every exchange: ids by their order, times, and sealed state."""
    known: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        kind, joint, _ = found.groups()
        count = sum(1 for one in known.values() if one.startswith(kind))
        return known.setdefault(found[0], f"{kind}{joint}{count + 1}")

    text = _RESPONSES.sub(r'\g<1>"RESPONSE"', _IDS.sub(named, text))
    return _SEALED.sub("dgm1.SEALED", _TIMES.sub(r"\g<1>0", text))


def read(text: str) -> dict[str, Seen]:
    """Return what a file contains, by the way in which the client asked."""
    found: dict[str, Seen] = {}
    for part in text.split("\n=== ")[1:]:
        ways, _, rest = part.partition("\n")
        head, _, body = rest.partition("\n\n")
        status, *lines = head.split("\n")
        headers = dict(line.split(": ", 1) for line in lines)
        for way in ways.split(" and "):
            found[way] = Seen(int(status), headers, body)
    return found


async def ask_all(stand: Stand, names: Collection[str] = ()) -> dict[tuple[Ending, str], str]:
    """Return what clients see of some endings, of all if none is named; a few are asked at a time."""
    cases = [
        (ending, dialect)
        for ending in ENDINGS
        for dialect in DIALECTS
        if not names or ending.name in names
    ]
    gate = asyncio.Semaphore(16)

    async def one(ending: Ending, dialect: str) -> str:
        async with gate:
            return await seen(stand, ending, dialect)

    texts = await asyncio.gather(*(one(ending, dialect) for ending, dialect in cases))
    return dict(zip(cases, texts, strict=True))


# --- judges ---------------------------------------------------------------------------------------


def judge_failed_stream(dialect: str, body: str) -> list[str]:
    """Assert that a stream ends with an error of its dialect; return the arguments of calls that look complete."""
    lines = body.split("\n")
    return _JUDGES[dialect]([line[6:] for line in lines if line.startswith("data: ")])


def _failed_chat(lines: list[str]) -> list[str]:
    *content, error, done = lines

    assert "[DONE]" == done
    assert json.loads(error)["error"]["message"]
    for chunk in content:
        reasons = {choice["finish_reason"] for choice in json.loads(chunk)["choices"]}
        assert {None} == reasons  # without which no call is complete
    return []


def _failed_messages(lines: list[str]) -> list[str]:
    events = [json.loads(line) for line in lines]
    kinds = [event["type"] for event in events]
    opened = {
        event["index"]: event["content_block"]["type"]
        for event in events
        if event["type"] == "content_block_start"
    }
    closed = {event["index"] for event in events if event["type"] == "content_block_stop"}

    assert "error" == kinds[-1]
    assert not {"message_stop", "message_delta"} & set(kinds)
    assert set(opened) - closed <= {max(opened, default=0)}  # at most the block in which it broke
    return [
        "".join(
            event["delta"]["partial_json"]
            for event in events
            if event["type"] == "content_block_delta" and event["index"] == index
        )
        for index, kind in opened.items()
        if kind == "tool_use" and index in closed
    ]


def _failed_responses(lines: list[str]) -> list[str]:
    events = [json.loads(line) for line in lines]
    kinds = [event["type"] for event in events]
    last = events[-1]

    assert "response.failed" == last["type"]
    assert "failed" == last["response"]["status"]
    assert last["response"]["error"]["message"]
    assert not {"response.completed", "response.incomplete"} & set(kinds)
    assert kinds.count("response.output_item.done") == len(last["response"]["output"])
    return [
        event["arguments"]
        for event in events
        if event["type"] == "response.function_call_arguments.done"
    ]


def _failed_gemini(lines: list[str]) -> list[str]:
    *content, error = [json.loads(line) for line in lines]

    assert error["error"]["message"]
    assert isinstance(error["error"]["code"], int)
    for chunk in content:
        assert [None] == [one.get("finishReason") for one in chunk["candidates"]]
    return [
        json.dumps(part["functionCall"]["args"])
        for chunk in content
        for part in chunk["candidates"][0]["content"]["parts"]
        if "functionCall" in part
    ]


_JUDGES = {
    "chat": _failed_chat,
    "anthropic": _failed_messages,
    "responses": _failed_responses,
    "gemini": _failed_gemini,
}
