"""Reasoning comes back to the upstream that had it, though the client left it out."""

import asyncio
import json
import re
from collections.abc import Iterator, Sequence

import pytest
from msgspec.structs import replace

from dragoman.answer_reader import read_body
from dragoman.context import Exchange
from dragoman.gateway.reasoning_memory import AnswerObserver, ReasoningMemory
from dragoman.gateway.state.redis_link import StateAwayError
from dragoman.profiles import profile as find_profile
from dragoman.translate import Translator, translate_body
from dragoman.translate_requests import TranslatedRequest, read_request, write_request
from dragoman.turn.events import Event

TOOL = {"type": "object", "properties": {"path": {"type": "string"}}}
TOOLS = {
    "chat": [{"type": "function", "function": {"name": "ls", "parameters": TOOL}}],
    "anthropic": [{"name": "ls", "input_schema": TOOL}],
    "responses": [{"type": "function", "name": "ls", "parameters": TOOL}],
}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Session:
    """One client, one upstream, and a memory between them."""

    def __init__(
        self, client: str, upstream: str, profile: str, memory: ReasoningMemory | None = None
    ) -> None:
        self.client = client
        self.upstream = upstream
        self.profile = find_profile(profile)
        self.memory = memory or ReasoningMemory(entries=100, seconds=60.0)

    def ask(self, body: dict, owner: str = "me") -> TranslatedRequest:
        """Return what the upstream is asked."""
        client = read_request(json.dumps(body).encode(), source=self.client)
        self.request = client.request
        changed = self.memory.restore(
            client.request, owner, self.profile.origin, arguments=self.client != self.upstream
        )
        return write_request(
            client,
            target=self.upstream,
            changed=changed,
            profile=self.profile,
            known_ids=self.memory.known_ids(client.request, owner),
        )

    def answer(self, stream: bytes, owner: str = "me") -> bytes:
        """Return what the client gets."""
        translator = Translator(
            source=self.upstream,
            target=self.client,
            profile=self.profile,
            request=self.request,
            seed="s",
            watchers=self.memory.watchers(
                self.request, owner, self.profile, arguments=self.client != self.upstream
            ),
        )
        return translator.feed(stream) + translator.close()


def sse(*events: dict) -> bytes:
    return b"".join(b"data: %b\n\n" % json.dumps(event).encode() for event in events)


def messages_stream(*blocks: dict) -> bytes:
    """A Messages upstream's answer."""
    events: list[dict] = [{"type": "message_start", "message": {"id": "m", "usage": {}}}]
    for index, block in enumerate(blocks):
        start, deltas = dict(block), []
        match block["type"]:
            case "thinking":
                start |= {"thinking": "", "signature": ""}
                deltas.append({"type": "thinking_delta", "thinking": block["thinking"]})
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            case "text":
                start["text"] = ""
                deltas.append({"type": "text_delta", "text": block["text"]})
            case "tool_use":
                start["input"] = {}
                given = json.dumps(block["input"])
                deltas.append({"type": "input_json_delta", "partial_json": given})
        events.append({"type": "content_block_start", "index": index, "content_block": start})
        events += [{"type": "content_block_delta", "index": index, "delta": one} for one in deltas]
        events.append({"type": "content_block_stop", "index": index})
    events.append(
        {
            "type": "message_delta",
            "delta": {"stop_reason": "tool_use"},
            "usage": {"output_tokens": 1},
        }
    )
    events.append({"type": "message_stop"})
    return sse(*events)


def chat_stream(reasoning: str, *calls: tuple[str, str], text: str = "") -> bytes:
    """A Chat upstream's answer."""
    deltas: list[dict] = [{"role": "assistant", "reasoning_content": reasoning}]
    if text:
        deltas.append({"content": text})
    deltas += [
        {"tool_calls": [{"index": n, "id": name, "type": "function", "function": function}]}
        for n, (name, arguments) in enumerate(calls)
        for function in [{"name": "ls", "arguments": arguments}]
    ]
    chunks = [{"id": "c", "choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    end = {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    return sse(*chunks, end) + b"data: [DONE]\n\n"


def chat_body(*messages: dict, **fields: object) -> dict:
    first = {"role": "user", "content": fields.pop("first", "What is here?")}
    return {"model": "m", "tools": TOOLS["chat"], "messages": [first, *messages], **fields}


def calls_of(stream: bytes) -> list[dict]:
    """Return the calls that a Chat client got."""
    calls: list[dict] = []
    for line in stream.splitlines():
        if not line.startswith(b"data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            for piece in choice["delta"].get("tool_calls", ()):
                if "id" in piece:
                    calls.append({"id": piece["id"], "type": "function"} | piece)
                    calls[-1].pop("index")
                else:
                    calls[-1]["function"]["arguments"] += piece["function"]["arguments"]
    return calls


def said(calls: list[dict], content: str | None = None) -> Iterator[dict]:
    """The client's own account of an answer with calls, and their results."""
    yield {"role": "assistant", "content": content, "tool_calls": calls}
    for call in calls:
        yield {"role": "tool", "tool_call_id": call["id"], "content": "README"}


THINKING = {"type": "thinking", "thinking": "I must look.", "signature": "c2lnbmVk"}
TEXT = {"type": "text", "text": "Let me see."}
USE = {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {"path": "."}}
OTHER_USE = {"type": "tool_use", "id": "toolu_2", "name": "ls", "input": {"path": "src"}}


def loop_with_claude(*blocks: dict, budget: bool = False) -> tuple[Session, list[dict]]:
    session = Session("chat", "anthropic", "anthropic-budget" if budget else "anthropic")
    session.ask(chat_body(reasoning_effort="high", max_tokens=32000))
    calls = calls_of(session.answer(messages_stream(*blocks)))
    return session, calls


# --- an upstream that signs its thinking ----------------------------------------------------------


@pytest.mark.parametrize("budget", [True, False])
def test_signed_thinking_returns_though_a_chat_client_dropped_it(budget: bool) -> None:
    session, calls = loop_with_claude(THINKING, TEXT, USE, OTHER_USE, budget=budget)
    body = chat_body(*said(calls, "Let me see."), reasoning_effort="high", max_tokens=32000)
    written = session.ask(body)
    sent = json.loads(written.body)

    assert [THINKING, TEXT, USE, OTHER_USE] == sent["messages"][1]["content"]
    assert sent["thinking"]["type"] in ("enabled", "adaptive")
    expected = ["thinking_converted"] if budget else []  # an effort became a budget
    assert expected == [loss.code for loss in written.losses]


def test_signed_thinking_takes_the_place_of_its_text_that_came_back() -> None:
    session, calls = loop_with_claude(THINKING, USE)
    turn, *results = said(calls)
    turn["reasoning_content"] = "I must look."
    sent = json.loads(session.ask(chat_body(turn, *results, reasoning_effort="high")).body)

    assert [THINKING, USE] == sent["messages"][1]["content"]
    assert "disabled" != sent["thinking"]["type"]


def test_thinking_between_calls_returns_to_its_places() -> None:
    second = {"type": "thinking", "thinking": "And there.", "signature": "bW9yZQ=="}
    redacted = {"type": "redacted_thinking", "data": "aGlkZGVu"}
    blocks = [THINKING, redacted, TEXT, USE, second, OTHER_USE]
    session, calls = loop_with_claude(*blocks)
    sent = json.loads(session.ask(chat_body(*said(calls, "Let me see."))).body)

    assert blocks == sent["messages"][1]["content"]


def test_turn_is_the_same_on_every_later_request() -> None:
    session, calls = loop_with_claude(THINKING, TEXT, USE)
    history = [*said(calls, "Let me see.")]
    bodies = []
    for n in range(3):
        bodies.append(session.ask(chat_body(*history, reasoning_effort="high")).body)
        use = {"type": "tool_use", "id": f"toolu_x{n}", "name": "ls", "input": {}}
        thought = THINKING | {"thinking": f"Step {n}."}
        history += said(calls_of(session.answer(messages_stream(thought, use))))
    messages = [json.loads(body)["messages"] for body in bodies]

    assert messages[0] == messages[1][: len(messages[0])]
    assert messages[1] == messages[2][: len(messages[1])]
    assert ["thinking", "tool_use"] == [block["type"] for block in messages[2][5]["content"]]
    assert "Step 1." == messages[2][5]["content"][0]["thinking"]


def test_thinking_is_off_when_nobody_remembers_it() -> None:
    session, calls = loop_with_claude(THINKING, USE)
    session.memory = ReasoningMemory(entries=100, seconds=60.0)
    written = session.ask(
        chat_body(*said(calls), reasoning_effort="high", max_completion_tokens=100)
    )

    assert {"type": "disabled"} == json.loads(written.body)["thinking"]
    assert ["thinking_disabled_missing_blocks"] == [loss.code for loss in written.losses]


def test_history_with_an_unknown_call_beside_a_known_one_is_left_alone() -> None:
    session, calls = loop_with_claude(THINKING, USE)
    stranger = {"id": "call_9", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    sent = json.loads(session.ask(chat_body(*said([*calls, stranger]))).body)

    assert ["tool_use", "tool_use"] == [one["type"] for one in sent["messages"][1]["content"]]


@pytest.mark.parametrize("client", ["anthropic", "responses"])
def test_other_clients_that_dropped_it_get_it_back_too(client: str) -> None:
    session = Session(client, "anthropic", "anthropic")
    history: dict[str, list[dict]] = {
        "anthropic": [
            {"role": "user", "content": "What is here?"},
            {"role": "assistant", "content": [USE]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "a"}],
            },
        ],
        "responses": [
            {"role": "user", "content": "What is here?"},
            {
                "type": "function_call",
                "call_id": "toolu_1",
                "name": "ls",
                "arguments": '{"path":"."}',
            },
            {"type": "function_call_output", "call_id": "toolu_1", "output": "a"},
        ],
    }
    field = {"anthropic": "messages", "responses": "input"}[client]
    body: dict[str, object] = {"model": "m", "tools": TOOLS[client]}
    if client == "anthropic":
        body |= {"max_tokens": 9000, "thinking": {"type": "adaptive"}}
    session.ask(body | {field: history[client][:1]})
    session.answer(messages_stream(THINKING, USE))
    sent = json.loads(session.ask(body | {field: history[client]}).body)

    assert [THINKING, USE] == sent["messages"][1]["content"]


# --- upstreams that want their plain reasoning ----------------------------------------------------


@pytest.mark.parametrize("profile", ["moonshot", "deepseek", "zai"])
@pytest.mark.parametrize("client", ["chat", "responses"])
def test_plain_reasoning_returns_to_upstreams_that_want_it(client: str, profile: str) -> None:
    session = Session(client, "chat", profile)
    arguments = '{"path": "."}'
    if client == "chat":
        session.ask(chat_body())
        calls = calls_of(session.answer(chat_stream("I must look.", ("functions.ls:0", arguments))))
        sent = json.loads(session.ask(chat_body(*said(calls))).body)
    else:
        body = {"model": "m", "tools": TOOLS["responses"], "input": "What is here?"}
        session.ask(body)
        session.answer(chat_stream("I must look.", ("call_1", arguments)))
        call = {
            "type": "function_call",
            "call_id": "call_1",
            "name": "ls",
            "arguments": arguments,
        }
        result = {"type": "function_call_output", "call_id": "call_1", "output": "a"}
        first = {"role": "user", "content": "What is here?"}
        sent = json.loads(session.ask(body | {"input": [first, call, result]}).body)

    assert "I must look." == sent["messages"][1]["reasoning_content"]


@pytest.mark.parametrize("profile", ["moonshot", "deepseek"])
def test_upstream_gets_a_filler_when_nobody_remembers(profile: str) -> None:
    session = Session("chat", "chat", profile)
    call = {"id": "call_1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    written = session.ask(chat_body(*said([call])))

    assert " " == json.loads(written.body)["messages"][1]["reasoning_content"]
    assert "reasoning_filled" in [loss.code for loss in written.losses]


def test_reasoning_that_came_back_is_not_replaced() -> None:
    session = Session("chat", "chat", "moonshot")
    session.ask(chat_body())
    calls = calls_of(session.answer(chat_stream("I must look.", ("call_1", "{}"))))
    turn, *results = said(calls)
    turn["reasoning_content"] = "My own words."
    sent = json.loads(session.ask(chat_body(turn, *results)).body)

    assert "My own words." == sent["messages"][1]["reasoning_content"]


def test_last_piece_of_reasoning_alone_becomes_the_whole_again() -> None:
    # The stream helper of the `openai` package for Node keeps what the last event said.
    session = Session("chat", "chat", "vllm")
    session.ask(chat_body())
    calls = calls_of(session.answer(chat_stream("I must look.", ("call_1", "{}"))))
    turn, *results = said(calls)
    turn["reasoning_content"] = "look."
    sent = json.loads(session.ask(chat_body(turn, *results)).body)

    assert "I must look." == sent["messages"][1]["reasoning"]


def test_upstream_that_takes_no_reasoning_back_costs_no_memory() -> None:
    session = Session("chat", "chat", "mistral")
    session.ask(chat_body())
    session.answer(chat_stream("I must look.", ("call_1", "{}")))

    assert 0 == session.memory.held


def test_signature_of_a_call_returns() -> None:
    session = Session("chat", "chat", "gemini")
    session.ask(chat_body())
    extra = {"google": {"thought_signature": "c2ln"}}
    call = {"index": 0, "id": "call_1", "type": "function", "extra_content": extra}
    call["function"] = {"name": "ls", "arguments": "{}"}
    session.answer(
        sse(
            {"id": "c", "choices": [{"index": 0, "delta": {"tool_calls": [call]}}]},
            {"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
        )
    )
    kept = {"id": "call_1", "type": "function", "function": call["function"]}
    sent = json.loads(session.ask(chat_body(*said([kept]))).body)

    assert extra == sent["messages"][1]["tool_calls"][0]["extra_content"]


# --- which reasoning is whose ---------------------------------------------------------------------


def test_ids_that_repeat_over_turns_are_kept_apart() -> None:
    session = Session("chat", "chat", "deepseek")
    history: list[dict] = []
    for n in range(3):
        session.ask(chat_body(*history))
        calls = calls_of(session.answer(chat_stream(f"Thought {n}.", ("call_0", "{}"))))
        history += said(calls)
    sent = json.loads(session.ask(chat_body(*history)).body)
    thoughts = [one["reasoning_content"] for one in sent["messages"] if one["role"] == "assistant"]

    assert ["Thought 0.", "Thought 1.", "Thought 2."] == thoughts


@pytest.mark.parametrize("client", ["chat", "anthropic", "responses"])
def test_ids_are_those_that_the_client_gets(client: str) -> None:
    """The witness and the writers make ids by the same rules: whatever the writer wrote is known."""
    session = Session(client, "chat", "deepseek")
    long_id = "call_" + "x" * 80
    bodies = {
        "chat": chat_body(),
        "anthropic": {
            "model": "m",
            "max_tokens": 9,
            "tools": TOOLS["anthropic"],
            "messages": [{"role": "user", "content": "What is here?"}],
        },
        "responses": {"model": "m", "tools": TOOLS["responses"], "input": "What is here?"},
    }
    session.ask(bodies[client])
    out = session.answer(
        chat_stream("Hm.", ("functions.ls:0", "{}"), ("a b", "{}"), (long_id, "{}"))
    ).decode()
    known = [call_id for _, call_id in session.memory._slots]

    assert 3 == len(known)
    assert [] == [call_id for call_id in known if f'"{call_id}"' not in out]
    assert known == sorted(known, key=out.index)


def test_conversations_with_the_same_ids_are_kept_apart() -> None:
    memory = ReasoningMemory(entries=100, seconds=60.0)
    sessions = [Session("chat", "chat", "moonshot", memory) for _ in range(4)]
    asked = ["one", "two", "three", "three"]
    given = ['{"path":"a"}', '{"path":"a"}', '{"path":"a"}', '{"path":"b"}']
    calls = []
    for n, session in enumerate(sessions):
        session.ask(chat_body(first=asked[n]))
        out = session.answer(chat_stream(f"Thought {n}.", ("functions.ls:0", given[n])))
        calls.append(calls_of(out))
    thoughts = [
        json.loads(session.ask(chat_body(*said(calls[n]), first=asked[n])).body)["messages"][1][
            "reasoning_content"
        ]
        for n, session in enumerate(sessions)
    ]

    assert ["Thought 0.", "Thought 1.", "Thought 2.", "Thought 3."] == thoughts


def test_arguments_that_a_client_rewrites_are_the_same() -> None:
    session = Session("chat", "chat", "moonshot")
    session.ask(chat_body())
    out = session.answer(chat_stream("I must look.", ("call_1", '{"path":"a","n":1}')))
    calls = calls_of(out)
    calls[0]["function"]["arguments"] = '{"n": 1, "path": "\\u0061"}'
    sent = json.loads(session.ask(chat_body(*said(calls))).body)

    assert "I must look." == sent["messages"][1]["reasoning_content"]


def test_long_arguments_are_known_by_their_beginning() -> None:
    session = Session("chat", "chat", "moonshot")
    session.ask(chat_body())
    arguments = json.dumps({"path": "x" * 300_000})
    calls = calls_of(session.answer(chat_stream("I must write.", ("call_1", arguments))))
    sent = json.loads(session.ask(chat_body(*said(calls))).body)

    assert "I must write." == sent["messages"][1]["reasoning_content"]


def test_another_owner_and_another_upstream_get_nothing() -> None:
    session = Session("chat", "chat", "moonshot")
    session.ask(chat_body())
    calls = calls_of(session.answer(chat_stream("Secret.", ("call_1", "{}"))))
    stranger = session.ask(chat_body(*said(calls)), owner="other").body
    elsewhere = (
        Session("chat", "chat", "deepseek", session.memory).ask(chat_body(*said(calls))).body
    )

    assert b"Secret." not in stranger
    assert b"Secret." not in elsewhere


def test_complete_answers_are_remembered_like_streams() -> None:
    session = Session("chat", "anthropic", "anthropic")
    session.ask(chat_body())
    body = {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "content": [THINKING, USE],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    translated = translate_body(
        json.dumps(body).encode(),
        source="anthropic",
        target="chat",
        request=session.request,
        profile=session.profile,
        watchers=session.memory.watchers(session.request, "me", session.profile),
    )
    calls = json.loads(translated.body)["choices"][0]["message"]["tool_calls"]
    sent = json.loads(session.ask(chat_body(*said(calls))).body)

    assert [THINKING, USE] == sent["messages"][1]["content"]


def test_watching_leaves_the_bytes_of_a_relay_alone() -> None:
    session = Session("chat", "chat", "moonshot")
    session.ask(chat_body())
    stream = chat_stream("I must look.", ("call_1", "{}"), text="Well.")

    assert stream == session.answer(stream)
    assert 1 == session.memory.held


# --- bounds ---------------------------------------------------------------------------------------


def remembers(session: Session, calls: list[dict]) -> bool:
    return b"I must look." in session.ask(chat_body(*said(calls))).body


def test_memory_ends_some_time_after_its_last_use() -> None:
    clock = Clock()
    session = Session(
        "chat", "chat", "moonshot", ReasoningMemory(entries=9, seconds=60, clock=clock)
    )
    session.ask(chat_body())
    calls = calls_of(session.answer(chat_stream("I must look.", ("call_1", "{}"))))
    clock.now += 50
    used = remembers(session, calls)
    clock.now += 50
    used_again = remembers(session, calls)
    clock.now += 60

    assert used
    assert used_again
    assert not remembers(session, calls)
    assert 0 == session.memory.held


def test_what_was_not_used_longest_goes_first() -> None:
    session = Session("chat", "chat", "moonshot", ReasoningMemory(entries=3, seconds=60))
    calls = []
    for n in range(3):
        session.ask(chat_body())
        calls.append(calls_of(session.answer(chat_stream("I must look.", (f"call_{n}", "{}")))))
    remembers(session, calls[0])
    session.ask(chat_body())
    session.answer(chat_stream("I must look.", ("call_9", "{}")))

    assert [True, False, True] == [remembers(session, one) for one in calls]
    assert 3 == session.memory.held


def test_very_long_reasoning_is_not_remembered() -> None:
    session = Session("chat", "chat", "moonshot")
    session.ask(chat_body())
    session.answer(chat_stream("x" * 300_000, ("call_1", "{}"), ("call_2", "{}")))

    assert 0 == session.memory.held


def test_all_that_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.gateway.reasoning_memory._MAX_CHARS", 10_000)
    session = Session("chat", "chat", "moonshot")
    for n in range(50):
        session.ask(chat_body())
        session.answer(chat_stream("x" * 1000, (f"call_{n}", "{}")))

    assert 6 == session.memory.held


def test_memory_can_be_switched_off() -> None:
    session = Session("chat", "chat", "moonshot", ReasoningMemory(entries=0, seconds=60))
    session.ask(chat_body())
    session.answer(chat_stream("I must look.", ("call_1", "{}")))

    assert 0 == session.memory.held


def test_request_that_can_have_no_calls_is_not_watched() -> None:
    session = Session("chat", "chat", "moonshot")
    session.ask({"model": "m", "messages": [{"role": "user", "content": "hi"}]})

    assert () == session.memory.watchers(session.request, "me", session.profile)


def test_request_without_anything_to_restore_is_the_same_object() -> None:
    session, calls = loop_with_claude(THINKING, USE)
    body = json.dumps(chat_body(*said(calls), first="another")).encode()
    request = read_request(body, source="chat").request

    assert request is session.memory.restore(request, "me", "anthropic")


def test_client_that_sends_signed_thinking_back_is_left_alone() -> None:
    session = Session("anthropic", "anthropic", "anthropic")
    first = {"role": "user", "content": "What is here?"}
    body = {"model": "m", "max_tokens": 9000, "tools": TOOLS["anthropic"], "messages": [first]}
    session.ask(body)
    session.answer(messages_stream(THINKING, USE))
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "a"}
    body["messages"] += [
        {"role": "assistant", "content": [THINKING, USE]},
        {"role": "user", "content": [result]},
    ]

    assert json.dumps(body).encode() == session.ask(body).body
    assert 1 == session.memory.held


# --- shortened ids --------------------------------------------------------------------------------


def test_native_id_behind_a_shortened_one_is_known() -> None:
    native = "call_" + "x" * 80
    session = Session("chat", "chat", "vllm")
    session.ask(chat_body())
    calls = calls_of(session.answer(chat_stream("Hm.", (native, "{}"))))
    sent = json.loads(session.ask(chat_body(*said(calls))).body)["messages"]

    assert calls[0]["id"].startswith("gh-")
    assert native == sent[1]["tool_calls"][0]["id"] == sent[2]["tool_call_id"]
    assert {} == session.memory.known_ids(session.request, "other")


# --- arguments --------------------------------------------------------------------------------------

WRITTEN = '{ "path": "\\u00e9/a\\/b",\n  "all": true, "n": 1.50 }'
REWRITTEN = '{"all":true,"n":1.5,"path":"é/a/b"}'


def called(client: str, arguments: str, call_id: str = "c1") -> dict:
    """Return a client's next request: the call with these arguments, and its result."""
    if client == "responses":
        items = [
            {"type": "message", "role": "user", "content": "list"},
            {"type": "function_call", "call_id": call_id, "name": "ls", "arguments": arguments},
            {"type": "function_call_output", "call_id": call_id, "output": "a b"},
        ]
        return {"model": "m", "input": items, "tools": TOOLS[client]}
    use = {"type": "tool_use", "id": call_id, "name": "ls", "input": json.loads(arguments)}
    result = {"type": "tool_result", "tool_use_id": call_id, "content": "a b"}
    messages = [
        {"role": "user", "content": "list"},
        {"role": "assistant", "content": [use]},
        {"role": "user", "content": [result]},
    ]
    return {"model": "m", "max_tokens": 100, "messages": messages, "tools": TOOLS[client]}


def first(client: str) -> dict:
    said = {"input": "list"} if client == "responses" else {"max_tokens": 100}
    messages = {} if client == "responses" else {"messages": [{"role": "user", "content": "list"}]}
    return {"model": "m", "tools": TOOLS[client], **said, **messages}


def arguments_sent(done: TranslatedRequest, upstream: str) -> list[str]:
    body = json.loads(done.body)
    if upstream == "responses":
        return [item["arguments"] for item in body["input"] if item["type"] == "function_call"]
    calls = [one for message in body["messages"] for one in message.get("tool_calls", ())]
    return [one["function"]["arguments"] for one in calls]


@pytest.mark.parametrize("reasoning", ["", "hm"], ids=["plain", "thinking"])
@pytest.mark.parametrize("client", ["anthropic", "responses"])
def test_arguments_return_to_the_upstream_as_it_wrote_them(client: str, reasoning: str) -> None:
    session = Session(client, "chat", "generic")
    session.ask(first(client))
    session.answer(chat_stream(reasoning, ("c1", WRITTEN)))

    assert [WRITTEN] == arguments_sent(session.ask(called(client, REWRITTEN)), "chat")
    assert [WRITTEN] == arguments_sent(session.ask(called(client, REWRITTEN)), "chat")


@pytest.mark.parametrize(
    "other",
    [
        '{"all":true,"n":1.5,"path":"é/a/c"}',
        '{"all":1,"n":1.5,"path":"é/a/b"}',
        '{"all":true,"n":1.5}',
        '{"all":true,"n":1.5,"path":"é/a/b","more":null}',
    ],
)
def test_arguments_that_mean_something_else_are_the_clients(other: str) -> None:
    session = Session("responses", "chat", "generic")
    session.ask(first("responses"))
    session.answer(chat_stream("", ("c1", WRITTEN)))

    assert [other] == arguments_sent(session.ask(called("responses", other)), "chat")


@pytest.mark.parametrize(
    ("written", "sent", "same"),
    [
        ('{"n": 1.0}', '{"n":1}', True),
        ('{"n": 1e3}', '{"n":1000}', True),
        ('{"n": 0.10}', '{"n":0.1}', True),
        ('{"n": 12345678901234567890}', '{"n":12345678901234567000}', False),
        ('{"n": 1e400}', '{"n":null}', False),
        ('{"n": 1.5}', '{"n":"1.5"}', False),
    ],
)
def test_numbers_are_compared_by_their_value(written: str, sent: str, *, same: bool) -> None:
    session = Session("responses", "chat", "generic")
    session.ask(first("responses"))
    session.answer(chat_stream("", ("c1", written)))

    found = arguments_sent(session.ask(called("responses", sent)), "chat")

    assert [written if same else sent] == found


def test_arguments_are_not_given_to_another_owner() -> None:
    session = Session("responses", "chat", "generic")
    session.ask(first("responses"))
    session.answer(chat_stream("", ("c1", WRITTEN)))

    sent = session.ask(called("responses", REWRITTEN), owner="you")

    assert [REWRITTEN] == arguments_sent(sent, "chat")


def test_arguments_beyond_the_bound_are_the_clients() -> None:
    value = "x" * 70_000
    written, rewritten = json.dumps({"path": value}), f'{{"path":"{value}"}}'
    session = Session("responses", "chat", "generic")
    session.ask(first("responses"))
    session.answer(chat_stream("", ("c1", written)))

    assert [rewritten] == arguments_sent(session.ask(called("responses", rewritten)), "chat")
    assert [written] == arguments_sent(session.ask(called("responses", written)), "chat")


def test_arguments_of_a_call_in_text_return_as_they_were_made() -> None:
    session = Session("anthropic", "chat", "generic")
    session.ask(first("anthropic"))
    text = (
        '<tool_call>\n{"name": "ls", "arguments": {"path": "\\u00e9",  "n": [1, 2]}}\n</tool_call>'
    )
    translator = Translator(
        source="chat",
        target="anthropic",
        model="qwen3",
        native_format="hermes",
        request=session.request,
        watchers=session.memory.watchers(session.request, "me", session.profile, arguments=True),
    )
    delta = {"role": "assistant", "content": text}
    chunk = {"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": "stop"}]}
    out = (translator.feed(sse(chunk)) + translator.close()).decode()
    call_id = re.search(r'"id":"([^"]+)","name":"ls"', out)[1]

    sent = session.ask(called("anthropic", '{"n":[1,2],"path":"é"}', call_id))

    assert ['{"path": "\\u00e9",  "n": [1, 2]}'] == arguments_sent(sent, "chat")


def test_nothing_is_remembered_of_calls_that_pass_as_they_are() -> None:
    session = Session("chat", "chat", "generic")
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS["chat"]}
    session.ask(body)
    session.answer(chat_stream("", ("c1", WRITTEN)))

    assert 0 == session.memory.held


# --- ids: as the client gets them ---


def kimi(*arguments: str) -> bytes:
    """Return an answer whose text holds calls with the same native id."""
    head, then = "<|tool_call_begin|>functions.ls:0", "<|tool_call_argument_begin|>"
    calls = "".join(f"{head}{then}{one}<|tool_call_end|>" for one in arguments)
    text = f"<|tool_calls_section_begin|>{calls}<|tool_calls_section_end|>"
    return chat_stream("", text=text)


IDS = {
    "one native id twice": chat_stream("", ("a.b", "{}"), ("x", "{}"), ("a.b", "{}")),
    "the history used it": chat_stream("", ("call_0", "{}"), ("x.0", "{}")),
    "too long": chat_stream("", ("x" * 90, "{}"), ("y" * 90, "{}")),
    "calls in text": kimi("{}", "{}"),
    # A Messages body has a call with broken arguments as text: the next one keeps its number.
    "the first is broken": kimi('{"path": }', "{}"),
    "a stage drops the first": kimi("{}", "{}", "{}"),
}


class DropFirstCall:
    """A stage that removes the first block of an answer."""

    pending = False

    def feed(self, events: list[Event]) -> list[Event]:
        out: list[Event] = []
        for event in events:
            index = getattr(event, "index", None)
            if index is None:
                out.append(event)
            elif index > 0:
                out.append(replace(event, index=index - 1))
        return out


@pytest.mark.parametrize("whole", [False, True], ids=["stream", "body"])
@pytest.mark.parametrize("client", ["anthropic", "chat", "responses"])
@pytest.mark.parametrize("case", IDS)
def test_ids_are_remembered_as_the_client_got_them(client: str, case: str, whole: bool) -> None:
    stream = IDS[case]
    history = called("anthropic", "{}", "call_0")
    request = read_request(json.dumps(history).encode(), source="anthropic").request
    noted: list[str] = []

    def observe(exchange: Exchange) -> AnswerObserver:
        return AnswerObserver(
            exchange.call_ids, lambda one, _native: noted.append(one), None, replays=False
        )

    drops = (lambda _exchange: DropFirstCall(),) if "drops" in case else ()
    options = {
        "source": "chat",
        "target": client,
        "model": "kimi-k2",
        "request": request,
        "seed": "s",
        "watchers": (*drops, observe),
    }
    if whole:
        out = translate_body(stream, **options).body
    else:
        translator = Translator(**options)
        out = translator.feed(stream) + translator.close()
    got = [call.id for call in read_body(out, source=client, model="none").tool_calls]

    assert len(noted) >= 2
    assert len(set(noted)) == len(noted)
    assert "call_0" not in noted
    if whole and client == "anthropic" and case == "the first is broken":
        assert noted[1:] == got
    else:
        assert noted == got


# --- other processes ---


class Board:
    """Notes in this process; it counts the questions."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}
        self.questions = 0
        self.away = False

    async def find(self, names: Sequence[str], seconds: float) -> list[bytes | None]:
        self.questions += 1
        if self.away:
            raise StateAwayError("away")
        return [self.kept.get(name) for name in names]

    def put(self, name: str, value: bytes, seconds: float) -> None:
        self.kept[name] = value


def thinking_session(session: Session) -> dict:
    """Let an upstream think and call; return the client's next request."""
    session.ask(chat_body(reasoning_effort="high"))
    calls = calls_of(session.answer(messages_stream(THINKING, USE)))
    return chat_body(*said(calls), reasoning_effort="high")


def test_another_process_asks_once_for_calls_that_it_did_not_make() -> None:
    board, clock = Board(), Clock()
    memories = [ReasoningMemory(entries=9, seconds=60.0, notes=board, clock=clock) for _ in "ab"]
    one, other = (Session("chat", "anthropic", "anthropic", memory) for memory in memories)
    history = thinking_session(one)
    request = read_request(json.dumps(history).encode(), source="chat").request

    def fetch(session: Session) -> None:
        asyncio.run(session.memory.fetch(request, "me", session.profile.origin))

    fetch(one)
    own_questions = board.questions
    fetch(other)
    fetch(other)

    assert 0 == own_questions
    assert 1 == board.questions
    assert [THINKING, USE] == json.loads(other.ask(history).body)["messages"][1]["content"]


def test_what_no_process_knows_is_asked_again_only_after_a_minute() -> None:
    board, clock = Board(), Clock()
    board.away = True
    one = Session("chat", "anthropic", "anthropic", None)
    history = thinking_session(one)
    memory = ReasoningMemory(entries=9, seconds=600.0, notes=board, clock=clock)
    request = read_request(json.dumps(history).encode(), source="chat").request
    questions = []
    for step in ("away", "unknown", "unknown", "later"):
        board.away = step == "away"
        clock.now += 61.0 if step == "later" else 0.0
        asyncio.run(memory.fetch(request, "me", one.profile.origin))
        questions.append(board.questions)

    assert [1, 2, 2, 3] == questions


def test_a_note_of_another_version_is_ignored() -> None:
    board = Board()
    one = Session("chat", "anthropic", "anthropic", ReasoningMemory(entries=9, seconds=60.0, notes=board))  # fmt: skip
    history = thinking_session(one)
    board.kept = dict.fromkeys(board.kept, b"\xc1 of another version")
    other = Session("chat", "anthropic", "anthropic", ReasoningMemory(entries=9, seconds=60.0, notes=board))  # fmt: skip
    request = read_request(json.dumps(history).encode(), source="chat").request
    asyncio.run(other.memory.fetch(request, "me", one.profile.origin))

    assert 0 == other.memory.held


def test_other_processes_keep_what_is_in_use() -> None:
    board, clock = Board(), Clock()
    memory = ReasoningMemory(entries=9, seconds=60.0, notes=board, clock=clock)
    one = Session("chat", "anthropic", "anthropic", memory)
    history = thinking_session(one)
    board.kept.clear()
    one.ask(history)
    early = dict(board.kept)
    clock.now += 31.0
    one.ask(history)

    assert {} == early
    assert 1 == len(board.kept)
