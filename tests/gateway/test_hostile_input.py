"""No request and no answer within its limits keeps the gateway from its other clients.

Each case runs against a gateway process while a probe asks for `/health` every 10 ms.  The slowest answer of all
cases is printed at the end of the run, and how much of it was the gateway's own time: that is judged, whether the
gateway worked or slept.  For the rest other programs ran.
"""

import gzip
import http.client
import itertools
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import settings

from tests.support.gateway import FIXED_PATHS, PATHS
from tests.support.health_probe import Gap, idle_gap, probing
from tests.support.memory import resident_bytes
from tests.support.odd_upstream import SSE, OddUpstream, Reply, chat_stream, odd_upstream
from tests.support.serving import Served, serving
from tests.support.waiting import until

LONGEST_GAP = 0.250  # seconds; what one request may keep the event loop from the others
DECODE_SECONDS = 0.070  # see `slowdown`; on the build machine when nothing else runs
MOST_LEFT = 20_000_000  # bytes of memory
ATTEMPTS = 3  # other programs share the machine: the best of so many counts
MANY = 1_000_000
MIB = 1024 * 1024
JSON = {"content-type": "application/json"}


class Stand(NamedTuple):
    served: Served
    odd: OddUpstream
    idle: float  # seconds of the slowest answer of `/health` while nothing else was asked


@pytest.fixture(scope="module")
def stand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    folder: Path = tmp_path_factory.mktemp("hostile")
    with odd_upstream() as odd:
        lines: list[str] = ["[server]", "hold_headers = 0"]  # failures keep their status
        for name in FIXED_PATHS:
            lines += [f"[upstreams.{name}]", f'base_url = "{odd.url}/v1"', f'dialect = "{name}"']
            lines += ["retries = 0", 'key = "env:UPSTREAM_KEY"']  # which is looked for in responses
        lines += ["[upstreams.gemini]", f'base_url = "{odd.url}/v1beta"', 'dialect = "gemini"']
        lines += ["retries = 0", 'key = "env:UPSTREAM_KEY"']
        lines += ["[store]", 'responses = "off"']  # what is kept on purpose is not looked for here
        (folder / "dragoman.toml").write_text("\n".join(lines) + "\n")
        with serving(folder, UPSTREAM_KEY="upstream-key-0123456789") as served:
            yield Stand(served, odd, idle_gap(served.url))


class Case(NamedTuple):
    """One hostile exchange: what the client sends, and what the upstream answers."""

    client: str  # dialect
    upstream: str  # dialect
    body: Callable[[], bytes] = bytes
    reply: Callable[[], Reply] | None = None  # without one the upstream gives a short answer
    status: int = 200  # that the client must get
    says: str = ""  # a word of the client's answer
    path: str = ""  # if it is another than the dialect's own
    method: str = "POST"
    headers: dict[str, str] = {}


def ask(stand: Stand, case: Case) -> tuple[int, bytes]:
    """Send a case's request and return the status and body of its answer."""
    stand.odd.answer = lambda _asked: short_answer(case.upstream)
    if case.reply is not None:
        reply = case.reply()
        stand.odd.answer = lambda _asked: reply
    place = stand.served.url.removeprefix("http://")
    connection = http.client.HTTPConnection(place, timeout=110)
    try:
        headers = {"content-type": "application/json", **case.headers}
        path = case.path or PATHS[case.client]
        connection.request(case.method, path, case.body(), headers)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def gap_of(stand: Stand, case: Case) -> Gap:
    """Return the smallest worst gap of some attempts; the answer must be right in each."""
    gaps: list[Gap] = []
    while len(gaps) < ATTEMPTS and not any(one.busy < LONGEST_GAP for one in gaps):
        with probing(stand.served.url, stand.served.process.pid) as probe:
            status, body = ask(stand, case)
        assert case.status == status, body[:2000]
        assert case.says.encode() in body, body[:2000]
        gaps.append(Gap(stand.idle, probe.worst, probe.worst_busy))
    return min(gaps, key=lambda one: one.busy)


def slowdown() -> float:
    """Return how many times longer the machine takes at present than it would without other work."""
    text = b'"%b"' % (b"a" * (30 * MIB))
    began = time.process_time()
    for _ in range(3):
        json.loads(text)
    return max(1.0, (time.process_time() - began) / 3 / DECODE_SECONDS)


def short_answer(dialect: str) -> Reply:
    return Reply(200, complete(dialect, "Hello."))


def complete(dialect: str, text: str = "", arguments: str = "") -> bytes:
    """Return a complete answer that says a text, or makes one call with these arguments."""
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    body: dict[str, Any] = {"id": "a", "model": "m", "created": 1, "created_at": 1}
    match dialect:
        case "chat":
            message: dict[str, Any] = {"role": "assistant", "content": text}
            if arguments:
                function = {"name": "f", "arguments": arguments}
                message["tool_calls"] = [{"id": "c1", "type": "function", "function": function}]
            reason = "tool_calls" if arguments else "stop"
            choice = {"index": 0, "message": message, "finish_reason": reason}
            return dump(body | {"object": "chat.completion", "choices": [choice]})
        case "anthropic":
            block: dict[str, Any] = {"type": "text", "text": text}
            if arguments:
                call = {"type": "tool_use", "id": "c1", "name": "f"}
                block = {**call, "input": json.loads(arguments)}
            reason = "tool_use" if arguments else "end_turn"
            said = {"type": "message", "role": "assistant", "content": [block]}
            return dump(body | said | {"stop_reason": reason, "usage": usage})
        case "gemini":
            part: dict[str, Any] = {"text": text}
            if arguments:
                part = {"functionCall": {"name": "f", "args": json.loads(arguments)}}
            candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
            return dump({"responseId": "a", "modelVersion": "m", "candidates": [candidate]})
        case _:
            part = {"type": "output_text", "text": text, "annotations": []}
            item: dict[str, Any] = {"type": "message", "role": "assistant", "content": [part]}
            if arguments:
                call = {"type": "function_call", "call_id": "c1", "name": "f"}
                item = {**call, "arguments": arguments}
            item |= {"id": "i1", "status": "completed"}
            said = {"object": "response", "status": "completed", "output": [item]}
            return dump(body | said | {"usage": usage})


def dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def request(dialect: str, upstream: str, **fields: Any) -> bytes:
    """Return a request; `fields` are put in, bytes among them as the JSON that they are."""
    body: dict[str, Any] = {"model": f"{upstream}/m", "max_tokens": 100, "stream": False}
    if dialect == "responses":
        del body["max_tokens"]
    body["input" if dialect == "responses" else "messages"] = [{"role": "user", "content": "Hi"}]
    body |= fields
    parts = [
        b"%b:%b" % (dump(name), one if isinstance(one, bytes) else dump(one))
        for name, one in body.items()
    ]
    return b"{" + b",".join(parts) + b"}"


def many(one: bytes, count: int = MANY) -> bytes:
    return b"[" + b",".join([one] * count) + b"]"


FOLLOWING = {"chat": "anthropic", "anthropic": "responses", "responses": "chat"}
HISTORY = {"chat": "messages", "anthropic": "messages", "responses": "input"}
MESSAGE = b'{"role":"user","content":"a"}'
KEYS = "-eyJ" * MIB  # what a careless search for keys begins anew at every fourth character
PACKED = {"content-encoding": "gzip"}


def ids(dialect: str) -> bytes:
    """Return a megabyte of calls and results whose ids all decode to the same native id."""
    turns: list[Any] = []
    for k in range(4_000):
        call_id = f"gx{k}-a"
        match dialect:
            case "chat":
                function = {"name": "f", "arguments": "{}"}
                calls = [{"id": call_id, "type": "function", "function": function}]
                turns.append({"role": "assistant", "content": None, "tool_calls": calls})
                turns.append({"role": "tool", "tool_call_id": call_id, "content": "r" * 50})
            case "anthropic":
                call = {"type": "tool_use", "id": call_id, "name": "f", "input": {}}
                result = {"type": "tool_result", "tool_use_id": call_id, "content": "r" * 50}
                turns.append({"role": "assistant", "content": [call]})
                turns.append({"role": "user", "content": [result]})
            case _:
                call = {"call_id": call_id, "name": "f", "arguments": "{}"}
                turns.append({"type": "function_call", **call})
                output = {"call_id": call_id, "output": "r" * 100}
                turns.append({"type": "function_call_output", **output})
    return dump(turns)


def from_clients() -> dict[str, Case]:
    """Return what a hostile client may send."""
    found: dict[str, Case] = {}
    for client in FIXED_PATHS:
        other = "anthropic" if client == "chat" else "chat"
        name = HISTORY[client]
        plain = Case(client, other)
        sends = partial(request, client, other)
        tool = dump({"type": "function", "name": "f", "function": {"name": "f"}})
        if client == "anthropic":
            tool = b'{"name":"f","input_schema":{"type":"object"}}'
        found |= {
            f"{client}: a million messages": plain._replace(
                body=lambda sends=sends, name=name: sends(**{name: many(MESSAGE)}),
                status=413,
                says="max_json_items",
            ),
            f"{client}: 400,000 messages": plain._replace(
                body=lambda sends=sends, name=name: sends(**{name: many(MESSAGE, 400_000)}),
                status=413,
                says="max_messages",
            ),
            f"{client}: 90,000 messages": plain._replace(
                body=lambda sends=sends, name=name: sends(**{name: many(MESSAGE, 90_000)}),
            ),
            f"{client}: 200,000 tools": plain._replace(
                body=lambda sends=sends, tool=tool: sends(tools=many(tool, 200_000)),
                status=413,
                says="max_tools",
            ),
            f"{client}: a million fields": plain._replace(
                body=lambda sends=sends: sends()[:-1] + b',"":1' * 4 * MANY + b"}",
                status=413,
                says="max_json_items",
            ),
            f"{client}: a model's name of beginnings of keys": plain._replace(
                body=lambda client=client, other=other: request(
                    client, other, model=f"{other}/{KEYS}"
                ),
                status=400,
                says="max_name_chars",
            ),
            f"{client}: call ids that are all the same": plain._replace(
                body=lambda sends=sends, client=client, name=name: sends(**{name: ids(client)}),
            ),
            f"{client}: 60 MB of text, 7 MB of it escapes": plain._replace(
                body=lambda sends=sends, name=name: sends(
                    **{name: [{"role": "user", "content": ('"' + "a" * 14) * (7 * MIB // 2)}]}
                ),
            ),
            f"{client}: 60 MB of escaped text": plain._replace(
                body=lambda sends=sends, name=name: sends(
                    **{name: [{"role": "user", "content": '"' * (30 * MIB)}]}
                ),
                status=413,
                says="max_json_escapes",
            ),
            f"{client}: a packed body of 64 MB of blanks": plain._replace(
                body=lambda: gzip.compress(b" " * (65 * MIB)),
                headers=PACKED,
                status=413,
                says="max_request_bytes",
            ),
        }
    found["count_tokens: 90,000 messages"] = Case(
        "anthropic",
        "chat",
        lambda: request("anthropic", "chat", messages=many(MESSAGE, 90_000)),
        path="/v1/messages/count_tokens",
    )
    path = f"/v1/{'-eyJ' * 1900}"
    found["a path of beginnings of keys"] = Case("chat", "chat", path=path, status=404)
    for place, says in (("models", "max_name_chars"), ("responses", "max_name_chars")):
        path = f"/v1/{place}/{'-eyJ' * 1900}"
        found[f"{place}: a path of beginnings of keys"] = Case(
            "chat", "chat", path=path, method="GET", status=400, says=says
        )
    return found


def beginning_with(text: str, **more: Any) -> Reply:
    """Return a stream of Chat whose first event says a text, among other things."""
    frame = {"choices": [{"index": 0, "delta": {"content": text}, **more}]}
    return Reply(200, [b"data: %b\n\n" % dump(frame), *chat_stream("Hello.")], SSE)


def one_large_event(upstream: str, text: str) -> Reply:
    """Return a stream whose first delta is a large one; where its end repeats it, the end does not."""
    if upstream == "chat":
        return beginning_with(text)
    if upstream == "anthropic":
        usage = {"input_tokens": 1, "output_tokens": 1}
        message = {"id": "a", "type": "message", "role": "assistant", "model": "m", "content": []}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**message, "usage": usage}},
            {
                "type": "content_block_start",
                "index": 0,
                "content_block": {"type": "text", "text": ""},
            },
            {
                "type": "content_block_delta",
                "index": 0,
                "delta": {"type": "text_delta", "text": text},
            },
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
            {"type": "message_stop"},
        ]
    else:
        response = {"id": "r", "object": "response", "created_at": 1, "model": "m", "output": []}
        item = {"type": "message", "id": "i", "role": "assistant", "content": []}
        at = {"item_id": "i", "output_index": 0, "content_index": 0}
        events = [
            {"type": "response.created", "response": {**response, "status": "in_progress"}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_text.delta", **at, "delta": text},
            {"type": "response.completed", "response": {**response, "status": "completed"}},
        ]
    frames = [b"event: %b\ndata: %b\n\n" % (one["type"].encode(), dump(one)) for one in events]
    return Reply(200, frames, SSE)


def from_upstreams() -> dict[str, Case]:
    """Return what a hostile upstream may answer."""
    found: dict[str, Case] = {}
    for upstream, client in itertools.product(FIXED_PATHS, FIXED_PATHS):
        way = f"{upstream} to {client}"
        plain = Case(client, upstream, partial(request, client, upstream))
        stream = plain._replace(body=partial(request, client, upstream, stream=True))
        # Escaped twice where arguments are a string: three backslashes for a quotation mark.
        text = ("a" * 4 + '"') * (5 * MIB // 4)
        arguments = partial(complete, upstream, arguments=json.dumps({"a": text}))
        found[f"{way}: 10 MB of escaped arguments"] = plain._replace(
            reply=lambda arguments=arguments: Reply(200, arguments())
        )
        # Each reader and each writer once, and each dialect to itself.
        if client in (upstream, FOLLOWING[upstream]):
            found[f"{way}: one event of 30 MB"] = stream._replace(
                reply=partial(one_large_event, upstream, ("a" * 7 + '"') * (7 * MIB // 2))
            )
        if client != "chat":
            continue  # what follows fails in the reader, or before it
        found[f"{way}: a packed stream of a million empty events"] = stream._replace(
            reply=lambda: Reply(200, gzip.compress(b"\n\n" * MANY), {**SSE, **PACKED}),
            status=502,
        )
        found[f"{way}: a packed stream of events that are no JSON"] = stream._replace(
            reply=lambda: Reply(200, gzip.compress(b"data: 1\n\n" * 50_000), {**SSE, **PACKED}),
            status=502,
        )
        found[f"{way}: an error of beginnings of keys"] = plain._replace(
            reply=lambda: Reply(400, dump({"error": {"message": KEYS[:MIB], "code": KEYS[:1000]}})),
            status=400,
            says="[redacted]",
        )
        found[f"{way}: a packed complete answer of 65 MB"] = plain._replace(
            reply=lambda: Reply(200, gzip.compress(b"{" + b" " * (65 * MIB)), {**JSON, **PACKED}),
            status=502,
            says="max_complete_bytes",
        )
    found["responses: compact to 60 MB"] = Case(
        "responses",
        "responses",
        partial(request, "responses", "responses"),
        reply=lambda: Reply(200, complete("responses", ("a" * 15 + '"') * (7 * MIB // 2))),
        path="/v1/responses/compact",
    )
    for client in FIXED_PATHS:
        stream = Case(client, "chat", partial(request, client, "chat", stream=True))
        found |= {
            f"chat to {client}: one event of 30 MB of escaped text": stream._replace(
                reply=partial(beginning_with, '"' * (15 * MIB)), status=502, says="max_json_escapes"
            ),
            f"chat to {client}: one event of two million values": stream._replace(
                reply=partial(beginning_with, "", logprobs=[0] * 2 * MANY),
                status=502,
                says="max_json_items",
            ),
        }
    return found


GEMINI = "/v1beta/models/chat/m:generateContent"


def contents(value: bytes) -> bytes:
    """Return a request of Gemini."""
    return b'{"contents":%b}' % value


def of_gemini() -> dict[str, Case]:
    """Return a sample for Gemini: its request reader, its answer reader and writer, and its bytes forwarded."""
    client = Case("gemini", "chat", path=GEMINI)
    upstream = Case("chat", "gemini", partial(request, "chat", "gemini"))
    stream = Case("chat", "gemini", partial(request, "chat", "gemini", stream=True))
    escaped = ("a" * 7 + '"') * (7 * MIB // 2)
    frame = b"data: %b\n\n"
    many_parts = b'{"role":"user","parts":[{"text":"a"}]}'
    snake = b'{"role":"user","parts":[{"file_data":{"file_uri":"https://a.example/a","mime_type":"image/png"}}]}'
    text = dump([{"role": "user", "parts": [{"text": ('"' + "a" * 14) * (7 * MIB // 2)}]}])
    own = client._replace(
        upstream="gemini", path="/v1beta/models/gemini/m:streamGenerateContent?alt=sse"
    )
    large = Reply(200, [frame % complete("gemini", escaped)], SSE)
    return {
        "gemini: 90,000 contents": client._replace(
            body=lambda: contents(many(many_parts, 90_000)),
        ),
        "gemini: 30,000 contents in snake case": client._replace(
            body=lambda: contents(many(snake, 30_000)),
        ),
        "gemini: a million contents": client._replace(
            body=lambda: contents(many(many_parts)), status=413, says="max_json_items"
        ),
        "gemini: 60 MB of text, 7 MB of it escapes": client._replace(body=lambda: contents(text)),
        "gemini to chat: one event of 30 MB": stream._replace(reply=lambda: large),
        "gemini to gemini: one event of 30 MB": own._replace(
            body=lambda: contents(b"[%b]" % many_parts), reply=lambda: large
        ),
        "gemini to chat: 10 MB of escaped arguments": upstream._replace(
            reply=lambda: Reply(
                200, complete("gemini", arguments=json.dumps({"a": '"' * (5 * MIB // 2)}))
            )
        ),
    }


CASES = {**from_clients(), **from_upstreams(), **of_gemini()}


def by_kind() -> dict[str, list[str]]:
    """Return the names of the cases of each kind: the same in one dialect or another."""
    kinds: dict[str, list[str]] = {}
    for name in CASES:
        kinds.setdefault(name.partition(": ")[2] or name, []).append(name)
    return kinds


def chosen() -> list[str]:
    """Return one case of each kind, in changing dialects; `make fuzz-properties` runs all of them."""
    if settings.get_current_profile_name() == "fuzz":
        return list(CASES)
    return [names[at % len(names)] for at, names in enumerate(by_kind().values())]


@pytest.mark.parametrize("name", chosen())
def test_others_are_served_while_a_hostile_case_runs(
    stand: Stand, name: str, record_property: Callable[[str, object], None]
) -> None:
    gap = gap_of(stand, CASES[name])
    record_property("largest", ("/health while a hostile case runs", gap.busy, f"{name}: {gap}"))

    assert gap.busy < LONGEST_GAP * (slowdown() if gap.busy >= LONGEST_GAP else 1.0), gap


def at_most(most: int, size: int) -> int:
    return size if size <= most else 0


def test_memory_after_hostile_cases_is_as_before(
    stand: Stand, record_property: Callable[[str, object], None]
) -> None:
    process = stand.served.process.pid
    for client, upstream in itertools.product(
        FIXED_PATHS, FIXED_PATHS
    ):  # what is made once, and kept
        ask(stand, Case(client, upstream, partial(request, client, upstream)))
    before = resident_bytes(process)
    kinds = by_kind()
    for names in kinds.values():
        ask(stand, CASES[names[-1]])
        stand.odd.asked.clear()

    after = until(lambda: at_most(before + MOST_LEFT, resident_bytes(process)), 5.0)
    record_property(
        "measured",
        f"memory after {len(kinds)} hostile cases: {before / MIB:.0f} MiB before, {after / MIB:.0f} MiB after",
    )
