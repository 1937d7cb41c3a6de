"""Requests from a dialect into itself: what passes, byte by byte."""

import re

import msgspec
import pytest
from msgspec import Raw, structs

from dragoman.dialects import DIALECT_NAMES
from dragoman.ids import encode_id
from dragoman.profiles.profile import Profile
from dragoman.translate_requests import (
    TranslatedRequest,
    read_request,
    translate_request,
    write_request,
)
from dragoman.turn.request import Sampling, TextPart, ToolChoice

FIRST = [
    b'{"content": [{"text":"Hello","type":"text"}], "role": "user"}',
    b'{"role":"system","content":"Be brief."}',
]


PLAIN = Profile(name="plain")


class _Body(msgspec.Struct):
    messages: list[Raw]


def body(*messages: bytes) -> bytes:
    return b'{"model":"a","max_tokens":9,"messages":[' + b",".join(messages) + b"]}"


def sent(request: bytes) -> list[bytes]:
    out = translate_request(
        request, source="anthropic", target="anthropic", model="b", profile=PLAIN
    ).body
    return [bytes(one) for one in msgspec.json.decode(out, type=_Body).messages]


def test_messages_before_the_first_call_keep_their_bytes_once_ids_were_made_here() -> None:
    made = encode_id("functions.Bash:0").encode()
    call = (
        b'{"role":"assistant","content":[{"type":"tool_use","id":"%b","name":"Bash","input":{}}]}'
    )
    result = (
        b'{"role":"user","content":[{"tool_use_id":"%b","type":"tool_result","content":"done"}]}'
    )

    before = sent(body(*FIRST))
    after = sent(body(*FIRST, call % made, result % made))

    assert FIRST == before
    assert FIRST == after[:2]
    assert b'"functions.Bash:0"' in after[2]
    assert b'"functions.Bash:0"' in after[3]
    assert made not in b"".join(after)


def test_messages_that_nobody_changed_keep_their_bytes() -> None:
    said = b'{"role":"assistant","content": [{"type":"text","text":"Yes."}]}'
    client = read_request(body(*FIRST, said, FIRST[0]), source="anthropic")
    turns = list(client.request.turns)
    turns[2] = structs.replace(turns[2], parts=(TextPart("No."),))
    changed = structs.replace(client.request, turns=tuple(turns))

    out = write_request(client, target="anthropic", changed=changed, model="b", profile=PLAIN).body
    after = [bytes(one) for one in msgspec.json.decode(out, type=_Body).messages]

    assert [*FIRST, FIRST[0]] == [after[0], after[1], after[3]]
    assert b'"No."' in after[2]


# --- ids of calls ---------------------------------------------------------------------------------------

NATIVE = "functions.bash:15"


def chat_history(call_id: str) -> bytes:
    call = {"id": call_id, "type": "function", "function": {"name": "bash", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call_id, "content": "done"},
    ]
    return msgspec.json.encode({"model": "m", "messages": messages})


@pytest.mark.parametrize("call_id", [NATIVE, encode_id(NATIVE), encode_id(NATIVE, 1)])
@pytest.mark.parametrize("client", DIALECT_NAMES)
def test_d1_the_native_id_is_restored_from_either_form_and_from_any_dialect(
    client: str, call_id: str
) -> None:
    moved = chat_history(call_id)
    if client != "chat":
        # Another client continues the conversation, with the ids that it has.
        other = translate_request(chat_history("call_1"), source="chat", target=client).body
        moved = other.replace(b"call_1", call_id.encode())
    out = translate_request(moved, source=client, target="chat", profile=PLAIN).body

    assert 2 == out.count(b'"%b"' % NATIVE.encode())


def test_d1_two_forms_of_one_native_id_stay_two_calls() -> None:
    first, second = chat_history(NATIVE), chat_history(encode_id(NATIVE))
    body = first[:-2] + b"," + second[second.index(b'{"role":"assistant"') :]

    out = translate_request(body, source="chat", target="chat", profile=PLAIN).body

    assert 2 == out.count(b'"%b"' % NATIVE.encode())
    assert 2 == out.count(b'"%b_1"' % NATIVE.encode())


def test_d2_an_id_as_the_model_wrote_it_passes_unchanged_to_an_upstream_that_takes_any() -> None:
    body = chat_history(NATIVE)

    assert body == translate_request(body, source="chat", target="chat", profile=PLAIN).body


@pytest.mark.parametrize("call_id", [NATIVE, "chatcmpl-tool-" + "5f" * 16])
def test_d2_d4_an_upstream_with_limits_gets_an_id_that_it_takes(call_id: str) -> None:
    out = translate_request(chat_history(call_id), source="chat", target="chat", profile="openai")

    ids = re.findall(rb'"(?:id|tool_call_id)":"([^"]*)"', out.body)
    assert 1 == len(set(ids))
    assert 2 == len(ids)
    assert re.fullmatch(rb"[A-Za-z0-9_-]{1,40}", ids[0])


# --- what an upstream would refuse or misread ---------------------------------------------------------

SYSTEM = b'{"role":"system","content":"Be brief."}'
SAID = b'{"role": "assistant", "content": "Yes."}'
REMINDER = "<system-reminder>\nBe brief.\n</system-reminder>"
LLAMA = "llama-server"

CHAT_TOOLS = (
    b'[{"type":"function","function":{"name":"f","parameters":{}},"x": 1},'
    b'{"type":"function", "function": {"name":"g","parameters":{ },"strict":true},"x": 2}]'
)
FLAT_TOOLS = (
    b'[{"type":"function","name":"f","parameters":{}},'
    b'{"type":"function", "name":"g", "strict":true, "x": 2}]'
)
MESSAGES_TOOLS = b'[{"name":"f","input_schema":{}},{"name":"g", "input_schema":{ }, "eager_input_streaming":true}]'


def forwarded(request: bytes, dialect: str, profile: str) -> TranslatedRequest:
    return translate_request(request, source=dialect, target=dialect, profile=profile)


@pytest.mark.parametrize("profile", ["generic", "llama-server", "vllm", "anthropic-budget"])
def test_instructions_between_messages_become_marked_text_where_none_are_taken(
    profile: str,
) -> None:
    first = b'{"role":"user","content": "Hello"}'
    out = forwarded(body(first, SAID, first, SYSTEM, SAID, first), "anthropic", profile)
    messages = msgspec.json.decode(out.body, type=_Body).messages

    assert [first, SAID] == [bytes(one) for one in messages[:2]]
    assert {
        "role": "user",
        "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": REMINDER}],
    } == msgspec.json.decode(messages[2])
    assert [SAID, first] == [bytes(one) for one in messages[3:]]
    assert [("system_midturn_emulated", "$.messages[3]")] == [
        (loss.code, loss.path) for loss in out.losses
    ]


@pytest.mark.parametrize("profile", ["anthropic", "openai"])
def test_instructions_pass_where_they_may_be_taken(profile: str) -> None:
    request = body(FIRST[0], SYSTEM, SAID, FIRST[0])

    assert request == forwarded(request, "anthropic", profile).body


def test_request_without_such_instructions_keeps_its_bytes() -> None:
    request = body(FIRST[0], SAID, FIRST[0])

    assert (request, ()) == (
        (out := forwarded(request, "anthropic", "generic")).body,
        out.losses,
    )


@pytest.mark.parametrize(
    ("dialect", "tools", "choice", "expected"),
    [
        ("chat", CHAT_TOOLS, b'{"type":"function","function":{"name":"g"}}', b'"required"'),
        ("responses", FLAT_TOOLS, b'{"type":"function","name":"g"}', b'"required"'),
        (
            "anthropic",
            MESSAGES_TOOLS,
            b'{"type":"tool","name":"g","disable_parallel_tool_use":true}',
            b'{"type":"any","disable_parallel_tool_use":true}',
        ),
    ],
)
def test_oddity_llama_cpp_calls_the_forced_tool_when_no_other_is_declared(
    dialect: str, tools: bytes, choice: bytes, expected: bytes
) -> None:
    history = b'"input":"hi"' if dialect == "responses" else b'"messages":[%b]' % FIRST[0]
    request = b'{"model":"a","max_tokens":9,%b,"tools":%b,"tool_choice":%b}' % (
        history,
        tools,
        choice,
    )
    fields = msgspec.json.Decoder(dict[str, Raw])
    second = msgspec.json.decode(tools, type=list[Raw])[1]

    out = forwarded(request, dialect, LLAMA)
    sent = fields.decode(out.body)

    assert b"[%b]" % bytes(second) == bytes(sent["tools"])
    assert expected == bytes(sent["tool_choice"])
    assert [("tool_choice_narrowed", "$.tool_choice", "g")] == [
        (loss.code, loss.path, loss.detail) for loss in out.losses
    ]
    # Everything else is unchanged, also requests to upstreams that support the setting.
    changed = {"tools", "tool_choice"}
    assert {name: one for name, one in fields.decode(request).items() if name not in changed} == {
        name: one for name, one in sent.items() if name not in changed
    }
    assert request == forwarded(request, dialect, "openai").body


def test_forced_tool_that_is_not_declared_is_the_upstreams_affair() -> None:
    choice = b'{"type":"function","function":{"name":"g"}}'
    request = b'{"model":"a","messages":[%b],"tool_choice":%b}' % (FIRST[0], choice)

    assert request == forwarded(request, "chat", LLAMA).body


@pytest.mark.parametrize("target", DIALECT_NAMES)
def test_bytes_that_are_not_utf8_never_reach_an_upstream(target: str) -> None:
    schema = b'{"type":"object","description":"a\xe4\xe4b","properties":{"p":{}}}'
    body = b'{"model":"m","messages":[{"role":"user","content":"Hi"}],"tools":[{"type":"function","function":{"name":"f","parameters":%b}}]}'

    written = translate_request(body % schema, source="chat", target=target).body

    assert "a\N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}b" in written.decode()


# --- fields with two names ----------------------------------------------------------------------------

SNAKE = {
    "contents": [{"role": "user", "parts": [{"text": "x", "new_field": 1}]}],
    "system_instruction": {"parts": [{"text": "Be brief."}]},
    "generation_config": {
        "top_k": 3,
        "media_resolution": "MEDIA_RESOLUTION_LOW",
        "response_mime_type": "text/x.enum",
        "response_schema": {"type": "STRING", "enum": ["a"]},
    },
    "tool_config": {"retrieval_config": {"language_code": "de"}},
    "labels": {"team": "a"},
}


def relayed(change: dict[str, object] | None) -> TranslatedRequest:
    client = read_request(msgspec.json.encode({"model": "m", **SNAKE}), source="gemini")
    changed = None if change is None else structs.replace(client.request, **change)
    return write_request(
        client, target="gemini", changed=changed, profile="gemini-api", model="gemini-3-pro"
    )


def test_fields_in_snake_case_pass_as_they_are_and_nothing_is_reported_as_lost() -> None:
    done = relayed(None)

    assert {"model": "gemini-3-pro", **SNAKE} == msgspec.json.decode(done.body)
    assert () == done.losses


def test_a_changed_setting_replaces_the_clients_in_either_spelling_and_keeps_its_neighbours() -> (
    None
):
    sampled = msgspec.json.decode(relayed({"sampling": Sampling(temperature=0.5)}).body)
    silent = msgspec.json.decode(relayed({"system": ()}).body)

    assert {
        "mediaResolution": "MEDIA_RESOLUTION_LOW",
        "responseMimeType": "text/x.enum",
        "responseSchema": {"type": "STRING", "enum": ["a"]},
        "temperature": 0.5,
    } == sampled["generationConfig"]
    assert {"retrievalConfig": {"language_code": "de"}} == sampled["toolConfig"]
    assert {"team": "a"} == sampled["labels"]
    assert not {"systemInstruction", "system_instruction"} & silent.keys()
    assert "generation_config" not in sampled


def test_a_changed_choice_keeps_other_settings_of_tools() -> None:
    asked = {
        "contents": SNAKE["contents"],
        "tools": [{"functionDeclarations": [{"name": "a.b"}]}],
        "tool_config": {
            "function_calling_config": {"mode": "ANY"},
            "retrieval_config": {"language_code": "de"},
        },
    }
    client = read_request(msgspec.json.encode({"model": "m", **asked}), source="gemini")
    for choice, expected in (
        (ToolChoice("none"), {"functionCallingConfig": {"mode": "NONE"}}),
        (None, {}),
    ):
        changed = structs.replace(client.request, tool_choice=choice)
        done = write_request(client, target="gemini", changed=changed, profile="gemini-api")
        sent = msgspec.json.decode(done.body)

        assert {"retrievalConfig": {"language_code": "de"}, **expected} == sent["toolConfig"]
        assert asked["tools"] == sent["tools"]


def test_a_function_keeps_the_name_that_only_google_takes_in_a_history_that_is_rewritten() -> None:
    made = encode_id("functions.look:0")
    call = {"functionCall": {"id": made, "name": "a.b", "args": {}}}
    result = {"functionResponse": {"id": made, "name": "a.b", "response": {"output": "1"}}}
    asked = {
        "model": "gemini-3-pro",
        "contents": [
            {"role": "user", "parts": [{"text": "x"}]},
            {"role": "model", "parts": [call]},
            {"role": "user", "parts": [result]},
        ],
        "tools": [{"functionDeclarations": [{"name": "a.b"}]}],
    }
    done = translate_request(
        msgspec.json.encode(asked), source="gemini", target="gemini", profile="gemini-api"
    )
    _, called, answered = msgspec.json.decode(done.body)["contents"]

    assert ("functions.look:0", "a.b") == (
        called["parts"][0]["functionCall"]["id"],
        called["parts"][0]["functionCall"]["name"],
    )
    assert "a.b" == answered["parts"][0]["functionResponse"]["name"]


TALK = {
    "model": "m",
    "max_tokens": 2000,
    "system": "Be brief.",
    "messages": [
        {"role": "user", "content": "Hi@"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "Looking."},
                {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"a": "@"}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "toolu_1", "content": "@"},
                {"type": "text", "text": "Go on."},
            ],
        },
    ],
    "tools": [{"name": "look", "input_schema": {"type": "object", "properties": {}}}],
}


@pytest.mark.parametrize("broken", [rb"\ud800", b"\xff"])
@pytest.mark.parametrize("target", DIALECT_NAMES)
@pytest.mark.parametrize("source", DIALECT_NAMES)
def test_a_broken_character_changes_nothing_but_itself(
    source: str, target: str, broken: bytes
) -> None:
    """A user's message once became an instruction: its role was read as text, not as the enumeration's member."""
    talk = translate_request(msgspec.json.encode(TALK), source="anthropic", target=source).body

    def out(character: bytes) -> bytes:
        return translate_request(
            talk.replace(b"@", character), source=source, target=target, model="m"
        ).body

    found = out(broken)
    replaced = "\ufffd".encode()
    assert broken in found or replaced in found
    for one in (b"\\" + broken, broken, replaced):  # arguments are JSON in JSON
        found = found.replace(one, b"@")
    assert msgspec.json.decode(out(b"@")) == msgspec.json.decode(found)
