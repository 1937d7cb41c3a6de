"""An answer that its upstream pauses is one answer for the client, whatever the gateway sends for it."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import httpx2
import pytest
from msgspec import structs

from dragoman.gateway.config.settings import (
    Continuations,
    Match,
    Record,
    Route,
    Settings,
    Timeouts,
)
from dragoman.inspector.columns import take_apart
from dragoman.recorder.case import corpus_files
from dragoman.recorder.replay import different_bytes, recorded_differences, replay
from dragoman.simulator.answer import answer, read
from dragoman.simulator.answer_writers.gemini import continuation_token
from tests.gateway.test_server_tools import WAYS
from tests.support.asking import post
from tests.support.gateway import DIALECTS, Stand, settings_for, stand
from tests.support.recordings import recorded
from tests.support.sdks import SDK_ERRORS, accumulate, parse_body
from tests.support.simulator import question
from tests.support.waiting import logged, until

KINDS = {
    "kimi": ("chat", "moonshot"),
    "claude": ("anthropic", "anthropic"),
    "google": ("gemini", "gemini-api"),
}
SEARCH: dict[str, dict[str, Any]] = {
    "anthropic": {"tools": [{"type": "web_search_20250305", "name": "web_search"}]},
    "responses": {"tools": [{"type": "web_search"}]},
    "chat": {"web_search_options": {}},
    "gemini": {"tools": [{"googleSearch": {}}]},
}
# A Messages client continues the pauses of Anthropic itself.
PAIRS = [
    *((client, "kimi") for client in DIALECTS),
    *((client, "claude") for client in DIALECTS if client != "anthropic"),
]
each_pair = pytest.mark.parametrize(("client", "upstream"), PAIRS)
each_way = pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
ASKED = "sim: search oslo weather\nsim: say It is 4 degrees in Oslo."
SAID = "It is 4 degrees in Oslo."
RUN = {"name": "run", "description": "Runs.", "input_schema": {"type": "object"}}


def make(url: str, **bounds: Any) -> Settings:
    """Moonshot and Anthropic: without retries, with one, with short timeouts; at most three further requests."""
    plain = settings_for(url)
    upstreams = {
        name: structs.replace(plain.upstreams[dialect], profile=profile)
        for name, (dialect, profile) in KINDS.items()
    }
    brief = Timeouts(first_byte=1.0, idle=1.0)
    for name in KINDS:
        upstreams[f"{name}-again"] = structs.replace(upstreams[name], retries=1)
        upstreams[f"{name}-brief"] = structs.replace(upstreams[name], timeouts=brief)
    routes = tuple(
        Route(name=name, match=Match(model=f"{name}/*"), to=(f"{name}/*",)) for name in upstreams
    )
    settings = Continuations(**({"max_requests": 3} | bounds))
    return structs.replace(plain, upstreams=upstreams, routes=routes, continuations=settings)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Stand]:
    with stand(make) as found:
        yield found


class Talk:
    """One request: what the client got, what the upstream was sent, and the line in the log."""

    def __init__(
        self,
        gateway: Stand,
        client: str,
        model: str,
        text: str = ASKED,
        *,
        stream: bool = True,
        **more: Any,
    ) -> None:
        before = len(gateway.simulator.exchanges)
        body = question(client, model, text, stream=stream) | SEARCH[client] | more
        got = post(gateway, client, body)
        self.client = client
        self.stream = stream
        self.status: int = got.status_code
        self.body: bytes = got.content
        self.sent: list[Any] = [one.json for one in gateway.simulator.exchanges][before:]
        self.line = logged(gateway, got.headers["x-request-id"])

    def read(self) -> dict[str, Any]:
        """Return what the vendor's SDK reads; it raises for a failure."""
        assert 200 == self.status, self.body
        return (accumulate if self.stream else parse_body)(self.client, self.body)


def text_of(client: str, message: dict[str, Any]) -> str:
    match client:
        case "anthropic":
            parts = [one.get("text", "") for one in message["content"]]
        case "chat":
            parts = [message["choices"][0]["message"]["content"]]
        case "gemini":
            parts = [one.get("text", "") for one in message["candidates"][0]["content"]["parts"]]
        case _:
            messages = [one for one in message["output"] if one["type"] == "message"]
            parts = [part["text"] for one in messages for part in one["content"]]
    return "".join(parts)


def tokens_of(client: str, message: dict[str, Any]) -> tuple[int, int]:
    if client == "gemini":
        counts = message["usageMetadata"]
        return counts["promptTokenCount"], counts["candidatesTokenCount"]
    counts = message["usage"]
    names = ("prompt_tokens", "completion_tokens") if client == "chat" else None
    return tuple(counts[name] for name in names or ("input_tokens", "output_tokens"))


def billed(upstream: str, sent: list[Any]) -> tuple[int, int]:
    """Return the tokens that the upstream counted for all of these requests."""
    dialect, _ = KINDS[upstream]
    read_tokens = written = 0
    for one in sent:
        model = one["model"].partition("+late")[0]
        whole = read(dialect, json.dumps(one | {"stream": False, "model": model}).encode())
        counts = tokens_of(dialect, json.loads(b"".join(answer(whole, 1).writes)))
        read_tokens, written = read_tokens + counts[0], written + counts[1]
    return read_tokens, written


@each_way
@each_pair
def test_the_client_sees_one_answer(
    gateway: Stand, client: str, upstream: str, stream: bool
) -> None:
    talk = Talk(gateway, client, f"{upstream}/plain+pause:2", stream=stream)
    message = talk.read()

    assert SAID == text_of(client, message)
    assert 3 == len(talk.sent)
    assert billed(upstream, talk.sent) == tokens_of(client, message)
    assert ("stop", 2, 2) == tuple(talk.line[one] for one in ("ended", "searches", "continued"))
    assert (talk.line["tokens_in"], talk.line["tokens_out"]) == tokens_of(client, message)


@each_pair
def test_the_answer_is_the_same_however_its_bytes_are_cut(
    gateway: Stand, client: str, upstream: str
) -> None:
    def shown(cut: str) -> tuple[Any, ...]:
        talk = Talk(gateway, client, f"{upstream}/plain+pause:2+{cut}")
        message = talk.read()
        facts = [talk.line[one] for one in ("ended", "searches", "continued", "warnings")]
        blocks = message.get("content") or message.get("output") or []
        return text_of(client, message), [one["type"] for one in blocks], *facts

    whole = shown("chunk:all")
    assert SAID == whole[0]
    for cut in ("chunk:byte", "chunk:1", "chunk:7", "batch:3", "batch:100", "crlf"):
        assert whole == shown(cut)


@each_way
def test_a_messages_client_continues_anthropics_pause_itself(gateway: Stand, stream: bool) -> None:
    talk = Talk(gateway, "anthropic", "claude/plain+pause:1", stream=stream)
    message = talk.read()

    assert "pause_turn" == message["stop_reason"]
    assert 1 == len(talk.sent)
    assert "continued" not in talk.line


@each_way
def test_a_client_that_declares_moonshots_search_sends_it_back_itself(
    gateway: Stand, stream: bool
) -> None:
    tool = {"type": "builtin_function", "function": {"name": "$web_search"}}
    more: dict[str, Any] = {"tools": [tool], "thinking": {"type": "disabled"}}
    body = question("chat", "kimi/plain", ASKED, stream=stream) | more
    before = len(gateway.simulator.exchanges)
    got = post(gateway, "chat", body)

    assert b'"name":"$web_search"' in got.content
    assert b'"finish_reason":"tool_calls"' in got.content
    assert before + 1 == len(gateway.simulator.exchanges)


@each_way
@pytest.mark.parametrize("way", [*WAYS])
def test_moonshot_searches_for_every_request_that_needs_it(
    gateway: Stand, way: str, stream: bool
) -> None:
    """Beside functions nothing forces its search: the model may call a function first."""
    client, fields, _ = WAYS[way]
    beside = "beside" in way
    body = question(client, "kimi/plain", "What is the news?", stream=stream) | fields
    got = post(gateway, client, body)
    line = logged(gateway, got.headers["x-request-id"])

    assert 200 == got.status_code, got.text
    assert (0 if beside else 1) == line.get("searches", 0) == line.get("continued", 0)
    assert (["run"] if beside else []) == line.get("call_names", [])
    assert "server_tool_unused" not in line["warnings"]


@pytest.mark.parametrize(
    "fields",
    [
        {"tool_choice": {"type": "tool", "name": "web_search"}, "thinking": {"type": "disabled"}},
        {"tool_choice": {"type": "auto"}},
    ],
    ids=["known as Claude", "other name"],
)
def test_claude_codes_web_search_works_with_moonshot(
    gateway: Stand, fields: dict[str, Any]
) -> None:
    tool = SEARCH["anthropic"]["tools"][0] | {"max_uses": 8}
    query = "Perform a web search for the query: weather in Oslo today"
    more = fields | {"tools": [tool], "output_config": {"effort": "high"}}
    message = Talk(gateway, "anthropic", "kimi/plain", query, **more).read()

    assert "weather in Oslo today" in text_of("anthropic", message)
    assert 1 == message["usage"]["server_tool_use"]["web_search_requests"]
    kinds = ["server_tool_use", "text", "web_search_tool_result"]
    assert kinds == [one["type"] for one in message["content"]]


# --- Google -------------------------------------------------------------------------------------------

OTHERS = [one for one in DIALECTS if one != "gemini"]


def asked_of_google(gateway: Stand, client: str, model: str, *, stream: bool) -> tuple[Any, ...]:
    """Return the client's answer, what Google was sent, and the line in the log."""
    before = len(gateway.simulator.exchanges)
    got = post(gateway, client, question(client, model, f"sim: say {SAID}", stream=stream))
    sent = [one.json for one in gateway.simulator.exchanges][before:]
    assert 200 == got.status_code, got.text
    message = (accumulate if stream else parse_body)(client, got.content)
    return message, sent, logged(gateway, got.headers["x-request-id"])


@each_way
@pytest.mark.parametrize("client", OTHERS)
def test_googles_token_is_sent_back_and_the_client_sees_one_answer(
    gateway: Stand, client: str, stream: bool
) -> None:
    message, sent, line = asked_of_google(gateway, client, "google/plain+pause:2", stream=stream)
    tokens = [one.get("generationConfig", {}).pop("continuationToken", None) for one in sent]
    requests = [{**one, "generationConfig": one.get("generationConfig") or None} for one in sent]

    assert SAID == text_of(client, message)
    assert [None, continuation_token(1), continuation_token(2)] == tokens
    assert requests[0] == requests[1] == requests[2]
    assert ("stop", 2) == (line["ended"], line["continued"])
    assert (line["tokens_in"], line["tokens_out"]) == tokens_of(client, message)


@each_way
def test_a_client_of_google_continues_the_answer_itself(gateway: Stand, stream: bool) -> None:
    body = question("gemini", "google/plain+pause:2", f"sim: say {SAID}", stream=stream)
    before = len(gateway.simulator.exchanges)
    got = post(gateway, "gemini", body)

    assert b'"CONTINUATION"' in got.content.replace(b": ", b":")
    assert continuation_token(1).encode() in got.content
    assert before + 1 == len(gateway.simulator.exchanges)


@each_way
@pytest.mark.parametrize("client", OTHERS)
def test_an_answer_of_google_that_never_ends_is_truncated(
    gateway: Stand, client: str, stream: bool
) -> None:
    _, sent, line = asked_of_google(gateway, client, "google/plain+pause:20", stream=stream)

    assert 4 == len(sent)
    assert "continuation_capped" in line["warnings"]
    assert ("length", 3) == (line["ended"], line["continued"])


# --- bounds -------------------------------------------------------------------------------------------


@each_way
@each_pair
def test_an_upstream_that_always_pauses_is_asked_no_more_than_allowed(
    gateway: Stand, client: str, upstream: str, stream: bool
) -> None:
    talk = Talk(gateway, client, f"{upstream}/plain+pause:50", stream=stream)
    talk.read()

    assert 4 == len(talk.sent)
    assert "continuation_capped" in talk.line["warnings"]
    assert ("stop", 3) == (talk.line["ended"], talk.line["continued"])


@each_way
def test_a_search_that_was_not_sent_back_has_failed(gateway: Stand, stream: bool) -> None:
    message = Talk(gateway, "anthropic", "kimi/plain+pause:50", stream=stream).read()

    found = [one["content"] for one in message["content"] if one["type"].endswith("_result")]
    assert [[], [], []] == found[:3]
    assert "max_uses_exceeded" == found[3]["error_code"]
    assert "end_turn" == message["stop_reason"]


@each_way
@pytest.mark.parametrize("uses", [1, 2])
def test_the_client_limits_how_often_moonshot_searches(
    gateway: Stand, uses: int, stream: bool
) -> None:
    tool = SEARCH["anthropic"]["tools"][0] | {"max_uses": uses}
    talk = Talk(gateway, "anthropic", "kimi/plain+pause:50", stream=stream, tools=[tool])
    talk.read()

    assert uses + 1 == len(talk.sent)
    assert "continuation_capped" in talk.line["warnings"]
    assert "tool_option_dropped" not in talk.line["warnings"]


@each_way
@pytest.mark.parametrize(
    "bounds", [{"max_tokens": 1}, {"max_seconds": 1e-9}], ids=["tokens", "seconds"]
)
def test_tokens_and_time_bound_an_answer(bounds: dict[str, Any], stream: bool) -> None:
    with stand(lambda url: make(url, **bounds)) as bounded:
        for client, upstream in PAIRS:
            talk = Talk(bounded, client, f"{upstream}/plain+pause:2", stream=stream)
            talk.read()
            assert 1 == len(talk.sent)
            assert "continuation_capped" in talk.line["warnings"]


@each_way
def test_time_bounds_a_request_that_is_under_way(stream: bool) -> None:
    """The upstream sends nothing, or a byte now and then: no timeout of the upstream passes."""
    with stand(lambda url: make(url, max_seconds=1.5)) as bounded:
        for client, upstream in PAIRS:
            model = f"{upstream}/plain+pause:1+late"
            silent = Talk(bounded, client, f"{model}+stall:0", stream=stream)
            silent.read()
            assert 2 == len(silent.sent)
            assert ("stop", 1) == (silent.line["ended"], silent.line["continued"])
            assert "continuation_capped" in silent.line["warnings"]
            assert silent.line["duration_ms"] < 10_000


def test_text_that_is_under_way_when_the_time_is_over_is_no_complete_answer() -> None:
    with stand(lambda url: make(url, max_seconds=1.5)) as bounded:
        talk = Talk(bounded, "anthropic", "kimi/plain+pause:1+late+stall:700")

    assert 2 == len(talk.sent)
    assert b'"text_delta"' in talk.body
    assert "fault" == talk.line["ended"]
    assert "max_seconds of [continuations]" in talk.line["reason"]
    with pytest.raises(SDK_ERRORS):
        talk.read()


def test_without_continuations_a_pause_passes_and_moonshot_has_no_search() -> None:
    with stand(lambda url: make(url, max_requests=0)) as single:
        refused = Talk(single, "anthropic", "kimi/plain")
        assert (400, []) == (refused.status, refused.sent)
        assert b"needs the tool `web_search`" in refused.body
        paused = Talk(single, "chat", "claude/plain+pause:1")
        assert "pause" == paused.line["ended"]
        assert 1 == len(paused.sent)


# --- failures -----------------------------------------------------------------------------------------

FAULTS = {
    "error:500": "simulator",
    "error:400": "simulator",
    "cut:0": "",
    "cut:150": "",
    "stall:0": "timed out",
}


@pytest.mark.parametrize("fault", [*FAULTS])
@each_way
@each_pair
def test_a_failure_of_a_later_request_reaches_the_client(
    gateway: Stand, client: str, upstream: str, stream: bool, fault: str
) -> None:
    name = f"{upstream}-brief" if "stall" in fault else upstream
    talk = Talk(gateway, client, f"{name}/plain+pause:1+late+{fault}", stream=stream)

    assert 2 == len(talk.sent)
    assert "fault" == talk.line["ended"]
    assert talk.line["failures"] or "cut:150" == fault
    assert FAULTS[fault] in talk.line["reason"]
    assert 1 == talk.line["reason"].count(f"{name}:")
    if stream and client == "responses":
        assert "failed" == talk.read()["status"]
    elif stream:
        with pytest.raises(SDK_ERRORS):
            talk.read()
    else:
        assert talk.status >= 400
        assert json.loads(talk.body)["error"]
    assert talk.line["tokens_in"] > 0


@each_way
@each_pair
def test_a_later_request_is_repeated_as_the_first_is(
    gateway: Stand, client: str, upstream: str, stream: bool
) -> None:
    model = f"{upstream}-again/plain+pause:1+late+fail:1"
    # The simulator counts requests of the same bytes.
    talk = Talk(gateway, client, model, f"{ASKED}\n({client})", stream=stream)

    assert SAID == text_of(client, talk.read())
    assert 3 == len(talk.sent)
    assert talk.sent[1] == talk.sent[2]
    assert (1, 1) == (talk.line["retries"], talk.line["continued"])


@pytest.mark.parametrize("client", ["anthropic", "chat", "responses"])
def test_a_later_request_that_breaks_off_before_content_is_repeated(
    gateway: Stand, client: str
) -> None:
    """The client has got nothing of it, so it sees no trace of the first attempt."""
    model = "kimi-again/plain+pause:1+late+cut:150+fail:1"
    talk = Talk(gateway, client, model, f"{ASKED}\n({client})")

    assert SAID == text_of(client, talk.read())
    assert 1 == talk.line["retries"]
    assert billed("kimi", [talk.sent[0], talk.sent[2]]) == (
        talk.line["tokens_in"],
        talk.line["tokens_out"],
    )


def test_a_client_that_leaves_ends_the_later_request(gateway: Stand) -> None:
    before = len(gateway.simulator.exchanges)
    body = question("anthropic", "kimi/plain+pause:1+pace:50", ASKED) | SEARCH["anthropic"]
    url = f"{gateway.url}/v1/messages"
    with httpx2.stream("POST", url, json=body, timeout=60, verify=False) as got:
        for line in got.iter_lines():
            if '"text_delta"' in line:
                break
    second = until(lambda: [*gateway.simulator.exchanges][before + 1 :])[0]
    until(lambda: second.over)

    assert second.closed_early
    line = logged(gateway, got.headers["x-request-id"])
    assert ("client_left", 1) == (line["ended"], line["continued"])


# --- beside functions ---------------------------------------------------------------------------------


@each_way
def test_calls_of_the_client_beside_a_search_reach_the_client(gateway: Stand, stream: bool) -> None:
    """The search runs when its call comes back with the results of the client's tools."""
    text = 'sim: search oslo\nsim: call run {"n": 1}\nsim: then\nsim: say Done.'
    more: dict[str, Any] = {"tools": [RUN, *SEARCH["anthropic"]["tools"]]}
    talk = Talk(gateway, "anthropic", "kimi/plain", text, stream=stream, **more)
    message = talk.read()

    assert 1 == len(talk.sent)
    assert "tool_use" == message["stop_reason"]
    (call,) = (one for one in message["content"] if one["type"] == "tool_use")
    assert ("run", {"n": 1}) == (call["name"], call["input"])
    (found,) = (one for one in message["content"] if one["type"] == "web_search_tool_result")
    assert [] == found["content"]

    result = {"type": "tool_result", "tool_use_id": call["id"], "content": "ran"}
    turns = [
        {"role": "user", "content": text},
        {"role": "assistant", "content": message["content"]},
        {"role": "user", "content": [result]},
    ]
    again = Talk(gateway, "anthropic", "kimi/plain", stream=stream, messages=turns, **more)
    assert "Done." == text_of("anthropic", again.read())
    (sent,) = again.sent
    check_echo(sent)


def check_echo(sent: dict[str, Any]) -> None:
    """Check that Moonshot gets its search back as it was, with its arguments as the result."""
    *_, asked, search, ran = sent["messages"]
    kept, run = asked["tool_calls"]
    assert ("builtin_function", "$web_search") == (kept["type"], kept["function"]["name"])
    assert {
        "role": "tool",
        "tool_call_id": kept["id"],
        "name": "$web_search",
        "content": kept["function"]["arguments"],
    } == search
    assert '"search_id": "\\u0072' in search["content"]
    assert (run["id"], "ran") == (ran["tool_call_id"], ran["content"])
    assert "[web search" not in str(asked.get("content"))


FUNCTIONS: dict[str, dict[str, Any]] = {
    "anthropic": RUN,
    "chat": {"type": "function", "function": {"name": "run", "parameters": {"type": "object"}}},
    "responses": {"type": "function", "name": "run", "parameters": {"type": "object"}},
    "gemini": {"functionDeclarations": [{"name": "run"}]},
}


def turns_after(client: str, text: str, message: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the next request: the answer as the client got it, and the result of its tool."""
    match client:
        case "anthropic":
            (call,) = (one for one in message["content"] if one["type"] == "tool_use")
            result = {"type": "tool_result", "tool_use_id": call["id"], "content": "ran"}
            answered = [
                {"role": "assistant", "content": message["content"]},
                {"role": "user", "content": [result]},
            ]
            return {"messages": [{"role": "user", "content": text}, *answered]}
        case "chat":
            said = message["choices"][0]["message"]
            result = {"role": "tool", "tool_call_id": said["tool_calls"][0]["id"], "content": "ran"}
            return {"messages": [{"role": "user", "content": text}, said, result]}
        case "gemini":
            said = message["candidates"][0]["content"]
            (call,) = (one["functionCall"] for one in said["parts"] if "functionCall" in one)
            answer = {"name": "run", "id": call["id"], "response": {"output": "ran"}}
            back = {"role": "user", "parts": [{"functionResponse": answer}]}
            return {"contents": [{"role": "user", "parts": [{"text": text}]}, said, back]}
        case _:
            (call,) = (one for one in message["output"] if one["type"] == "function_call")
            result = {"type": "function_call_output", "call_id": call["call_id"], "output": "ran"}
            return {"input": [{"role": "user", "content": text}, *message["output"], result]}


@each_way
@pytest.mark.parametrize("client", DIALECTS)
def test_moonshot_gets_its_search_back_with_the_results_of_the_client(
    gateway: Stand, client: str, stream: bool
) -> None:
    text = 'sim: search oslo\nsim: call run {"n": 1}\nsim: then\nsim: say Done.'
    search = SEARCH[client]
    more = search | {"tools": [FUNCTIONS[client], *search.get("tools", [])]}
    if client == "responses":
        more |= {"include": ["reasoning.encrypted_content"], "store": False}
    talk = Talk(gateway, client, "kimi/plain", text, stream=stream, **more)
    message = talk.read()
    assert ("tool_calls", ["run"]) == (talk.line["ended"], talk.line["call_names"])

    more |= turns_after(client, text, message)
    again = Talk(gateway, client, "kimi/plain", stream=stream, **more)
    assert "Done." == text_of(client, again.read())
    (sent,) = again.sent
    check_echo(sent)


@each_way
def test_a_search_before_calls_of_the_client_is_continued(gateway: Stand, stream: bool) -> None:
    text = 'sim: search oslo\nsim: call run {"n": 1}'
    run = {"type": "function", "name": "run", "parameters": {"type": "object"}}
    tools = [run, {"type": "web_search"}]
    talk = Talk(gateway, "responses", "claude/plain+pause:1", text, stream=stream, tools=tools)
    message = talk.read()

    kinds = [one["type"] for one in message["output"] if one["type"] != "reasoning"]
    assert ["web_search_call", "function_call"] == kinds
    assert "tool_calls" == talk.line["ended"]


# --- recordings ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("content", ["full", "shape"])
def test_recordings_have_each_request_and_replay_to_the_same_answer(
    tmp_path: Path, content: Literal["full", "shape"]
) -> None:
    """One of two pauses, one that a bound ends, one of which a later request fails, one that is repeated."""

    def recording(url: str) -> Settings:
        return structs.replace(make(url), record=Record(dir=str(tmp_path), content=content))

    ways = ("", "-again")
    quirks = ("pause:2", "pause:50", "pause:1+late+error:400", "pause:1+late+cut:150+fail:1")
    with stand(recording) as found:
        for turn, (client, upstream) in enumerate(PAIRS):
            for number, quirk in enumerate(quirks):
                name = f"{upstream}{ways[number == 3]}"
                stream = (turn + number) % 2 == 0
                Talk(found, client, f"{name}/plain+{quirk}", f"{ASKED} {client}", stream=stream)
    kept = recorded(tmp_path)

    assert len(PAIRS) * len(quirks) == len(kept), found.log.getvalue()
    for one in kept:
        attempt = one.answered
        assert attempt is not None
        again = replay(one, attempt)
        assert [] == recorded_differences(one, attempt, again)
        if "error:400" not in attempt.sent.model:
            assert different_bytes(one, again) is None
            assert len(one.attempts) == (4 if "pause:50" in attempt.sent.model else 3)
        if (
            attempt.reply is not None
            and attempt.reply.translation is not None
            and (attempt.reply.translation.stream and "error:400" not in attempt.sent.model)
        ):
            parts = [*one.continued(attempt), attempt]
            files = corpus_files(one, "case")
            streams = [files[f"case_{number}/stream.sse"] for number in range(1, len(parts) + 1)]
            assert [b"".join(part.pieces()) for part in parts] == streams
            assert b'"reason":"pause"' in files["case_1/events.json"]
        columns = take_apart(one, attempt)
        assert columns.upstream
        if attempt.reply is not None and attempt.reply.translation is not None:
            assert columns.linked.links or not attempt.reply.translation.stream
