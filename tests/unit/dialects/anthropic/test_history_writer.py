"""Conversations of any client, as a Messages upstream takes them."""

from typing import Any

import pytest
from msgspec import Raw

from dragoman.errors import MalformedError, UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.turn.events import Flavor, OpaqueKind
from dragoman.turn.request import (
    AudioPart,
    ImagePart,
    OpaquePart,
    OpaqueState,
    Part,
    ReasoningPart,
    ReasoningSegment,
    RefusalPart,
    Role,
    ServerToolPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Turn,
    UrlSource,
)
from tests.support.messages import ask, codes, decode, encode

NATIVE_SYSTEM = Profile(name="anthropic", id_style="anthropic64")
PREFILLS = Profile(name="anthropic", prefill="native")


def user(*parts: Part | str) -> Turn:
    return Turn(
        Role.USER,
        tuple(TextPart(one) if isinstance(one, str) else one for one in parts),
        path="$.u",
    )


def assistant(*parts: Part | str) -> Turn:
    given = tuple(TextPart(one) if isinstance(one, str) else one for one in parts)
    return Turn(Role.ASSISTANT, given, path="$.a")


def system(text: str) -> Turn:
    return Turn(Role.SYSTEM, (TextPart(text),), path="$.s")


def call(call_id: str = "t1", arguments: str = "{}", **fields: Any) -> ToolCallPart:
    return ToolCallPart(call_id, "ls", arguments, **fields)


def result(call_id: str = "t1", text: str = "ok") -> ToolResultPart:
    return ToolResultPart(call_id, (TextPart(text),) if text else ())


def signed(text: str, data: str = "sig", origin: str = "anthropic") -> ReasoningPart:
    state = OpaqueState(OpaqueKind.SIGNATURE, data, origin)
    return ReasoningPart((ReasoningSegment(text),) if text else (), (state,))


def messages(
    *turns: Turn, profile: Profile | str = "anthropic", **target: Any
) -> list[tuple[str, list[Any]]]:
    body = encode(ask(*turns), profile, **target)
    return [(message["role"], message["content"]) for message in body["messages"]]


def texts(content: list[Any]) -> list[str]:
    return [block["text"] for block in content]


def test_f10_turns_of_one_role_are_merged() -> None:
    (first, second) = messages(user("a"), user("b"), assistant("c"), assistant("d"), user("e"))[:2]

    assert ("user", ["a", "b"]) == (first[0], texts(first[1]))
    assert ("assistant", ["c", "d"]) == (second[0], texts(second[1]))


def test_f10_blank_text_and_empty_turns_are_left_out() -> None:
    turns = messages(user("", " \n", "a"), assistant("", RefusalPart(" ")), user("b"))

    assert [("user", [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}])] == turns


def test_a_user_comes_first() -> None:
    turns = messages(assistant("Hello."), user("a"))

    assert ("user", [{"type": "text", "text": "(continued)"}]) == turns[0]
    assert "turn_added" in codes(ask(assistant("Hello."), user("a")))


def test_empty_conversation_gets_a_turn() -> None:
    assert [("user", [{"type": "text", "text": "(continued)"}])] == messages(system("only this"))


def test_f9_results_come_first_and_in_the_order_of_their_calls() -> None:
    turns = messages(
        user("a"),
        assistant(call("t1"), call("t2")),
        user("beside", result("t2", "two"), result("t1", "one")),
        user("after"),
    )

    assert [
        {"type": "tool_result", "tool_use_id": "t1", "content": "one"},
        {"type": "tool_result", "tool_use_id": "t2", "content": "two"},
        {"type": "text", "text": "beside"},
        {"type": "text", "text": "after"},
    ] == turns[2][1]


def test_f9_missing_result_is_put_in() -> None:
    turns = messages(user("a"), assistant(call()), user("b"))

    expected = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "content": "[no result]",
        "is_error": True,
    }
    assert expected == turns[2][1][0]
    assert ["tool_result_missing"] == codes(ask(user("a"), assistant(call()), user("b")))


def test_f9_p_7_result_of_an_unknown_call_is_refused_or_repaired() -> None:
    turns = (user("a"), assistant("b"), user(result("t9")))
    with pytest.raises(MalformedError) as raised:
        messages(*turns)
    mended = messages(*turns, repair_history=True)

    assert "$.u" == raised.value.path
    assert ["[result of tool call t9]\nok"] == texts(mended[-1][1])


def test_d2_ids_are_legal_and_pair() -> None:
    turns = messages(user("a"), assistant(call("functions.ls:0")), user(result("functions.ls:0")))

    call_id = turns[1][1][0]["id"]
    assert call_id == turns[2][1][0]["tool_use_id"]
    assert call_id.replace("-", "").isalnum()


def test_d2_ids_that_were_made_legal_for_the_client_return_as_they_were() -> None:
    turns = messages(
        user("a"), assistant(call("gx-t-2e1")), user(result("gx-t-2e1")), profile=Profile(name="p")
    )

    assert ("t.1", "t.1") == (turns[1][1][0]["id"], turns[2][1][0]["tool_use_id"])


def test_d6_an_id_used_in_two_turns_is_kept_apart() -> None:
    turns = messages(
        user("a"),
        assistant(call("c0")),
        user(result("c0")),
        assistant(call("c0")),
        user(result("c0", "2")),
    )

    first, second = turns[1][1][0]["id"], turns[3][1][0]["id"]
    assert first != second
    assert (first, second) == (turns[2][1][0]["tool_use_id"], turns[4][1][0]["tool_use_id"])


def test_d5_long_and_namespaced_names_are_legal() -> None:
    long = ToolCallPart("t1", "mcp__" + "x" * 90, "{}")
    spaced = ToolCallPart("t2", "spawn", "{}", namespace="agents")

    names = [
        block["name"]
        for block in messages(user("a"), assistant(long, spaced), user(result()))[1][1]
    ]

    assert 64 >= len(names[0])
    assert "agents__spawn" == names[1]


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (call(arguments='{"b": 1,\n"a":2}'), {"b": 1, "a": 2}),
        (call(arguments=""), {}),
        (call(arguments='{"a":"half'), {"_raw": '{"a":"half'}),
        (call(arguments="[1]"), {"_raw": "[1]"}),
        (call(arguments="free\ntext", flavor=Flavor.CUSTOM), {"input": "free\ntext"}),
        (call(arguments='{"commands":["ls"]}', flavor=Flavor.SHELL), {"commands": ["ls"]}),
    ],
    ids=["object", "empty", "cut", "no object", "custom", "shell"],
)
def test_arguments_of_the_history_are_an_object(part: ToolCallPart, expected: object) -> None:
    assert expected == messages(user("a"), assistant(part), user(result()))[1][1][0]["input"]


def test_broken_arguments_are_reported() -> None:
    turns = (user("a"), assistant(call(arguments='{"a":"half')), user(result()))

    assert ["args_repaired"] == codes(ask(*turns))


def test_empty_result_has_no_content() -> None:
    turns = messages(user("a"), assistant(call()), user(result(text="")))

    assert {"type": "tool_result", "tool_use_id": "t1"} == turns[2][1][0]


def test_f8_result_with_an_image_is_native() -> None:
    shown = ToolResultPart("t1", (TextPart("see"), ImagePart(UrlSource("https://x.example"))))
    turns = messages(user("a"), assistant(call()), user(shown))

    assert ["text", "image"] == [block["type"] for block in turns[2][1][0]["content"]]


def test_refusal_of_the_history_is_text() -> None:
    assert ["No."] == texts(messages(user("a"), assistant(RefusalPart("No.")), user("b"))[1][1])


# --- thinking ---------------------------------------------------------------------------------------


def test_e5_signed_thinking_returns_byte_for_byte() -> None:
    turns = messages(user("a"), assistant(signed("Hm. ", "EqQ/B+=="), "b"), user("c"))

    assert {"type": "thinking", "thinking": "Hm. ", "signature": "EqQ/B+=="} == turns[1][1][0]


def test_redacted_and_omitted_thinking_return() -> None:
    redacted = ReasoningPart((), (OpaqueState(OpaqueKind.REDACTED, "Emw", "anthropic"),))
    content = messages(user("a"), assistant(redacted, signed(""), "b"), user("c"))[1][1]

    assert {"type": "redacted_thinking", "data": "Emw"} == content[0]
    assert {"type": "thinking", "thinking": "", "signature": "sig"} == content[1]


@pytest.mark.parametrize(
    ("part", "code"),
    [
        (ReasoningPart((ReasoningSegment("Hm."),)), "reasoning_dropped"),
        (signed("Hm.", origin="moonshot"), "opaque_dropped"),
        (
            ReasoningPart((), (OpaqueState(OpaqueKind.ENCRYPTED, "gAAA", "anthropic"),)),
            "opaque_dropped",
        ),
    ],
    ids=["unsigned", "foreign", "not this kind"],
)
def test_e4_e5_thinking_that_the_vendor_did_not_sign_is_never_sent(
    part: ReasoningPart, code: str
) -> None:
    turns = (user("a"), assistant(part, "b"), user("c"))

    assert ["b"] == texts(messages(*turns)[1][1])
    assert [code] == codes(ask(*turns))


def test_a_turn_does_not_end_with_thinking() -> None:
    turns = (user("a"), assistant(signed("Hm.")), user("b"))

    assert [("user", ["a", "b"])] == [(role, texts(content)) for role, content in messages(*turns)]
    assert ["reasoning_dropped"] == codes(ask(*turns))


def test_signature_of_a_call_means_nothing_here() -> None:
    state = OpaqueState(OpaqueKind.TOOL_SIGNATURE, "sig", "gemini")

    assert ["opaque_dropped"] == codes(
        ask(user("a"), assistant(call(opaque=(state,))), user(result()))
    )


# --- instructions inside the conversation --------------------------------------------------------------


def test_f4_instruction_becomes_marked_user_text() -> None:
    turns = (user("a"), system("Be brief."), assistant("b"), user("c"))

    assert ["a", "<system-reminder>\nBe brief.\n</system-reminder>"] == texts(
        messages(*turns)[0][1]
    )
    assert ["system_midturn_emulated"] == codes(ask(*turns))


def test_f4_emulated_instruction_is_behind_results() -> None:
    turns = messages(user("a"), assistant(call()), system("Be brief."), user(result()))

    assert ["tool_result", "text"] == [block["type"] for block in turns[2][1]]


def test_f4_instruction_keeps_its_place_where_the_model_takes_it() -> None:
    turns = messages(
        user("a"), system("x"), system("y"), assistant("b"), user("c"), profile=NATIVE_SYSTEM
    )

    assert ["user", "system", "assistant", "user"] == [role for role, _ in turns]
    assert ["x", "y"] == texts(turns[1][1])


def test_f4_instruction_behind_an_assistant_waits_for_the_user() -> None:
    turns = messages(user("a"), assistant("b"), system("x"), user("c"), profile=NATIVE_SYSTEM)

    assert ["user", "assistant", "user", "system"] == [role for role, _ in turns]


def test_f4_instruction_that_no_user_follows_is_marked_text() -> None:
    turns = messages(user("a"), assistant("b"), system("x"), profile=NATIVE_SYSTEM)

    assert ["user", "assistant", "user"] == [role for role, _ in turns]


# --- the last turn -----------------------------------------------------------------------------------


def test_f10_prefill_is_refused_where_the_model_cannot_go_on() -> None:
    prefilled = ask(user("a"), assistant("So "), dialect="anthropic")

    with pytest.raises(UntranslatableError) as raised:
        encode(prefilled, "anthropic")
    emulated = encode(prefilled, "anthropic", prefill="continue")["messages"]

    assert "prefill_not_supported" == raised.value.code
    assert ["So ", "Continue."] == [texts(one["content"])[0] for one in emulated[1:]]


def test_f10_prefill_loses_its_trailing_blanks() -> None:
    assert ["So"] == texts(messages(user("a"), assistant("So \n"), profile=PREFILLS)[1][1])


def test_paused_turn_of_the_vendors_tools_goes_on() -> None:
    paused = ServerToolPart("anthropic", "s", Raw(b'{"type":"server_tool_use","id":"s1"}'))

    assert {"type": "server_tool_use", "id": "s1"} == messages(user("a"), assistant("b", paused))[
        -1
    ][1][-1]


# --- other vendors' parts --------------------------------------------------------------------------


def test_vendor_run_tools_of_others_become_a_line_of_text() -> None:
    turns = (
        user("a"),
        assistant(ServerToolPart("openai", "[web_search: oslo]", Raw(b"{}"))),
        user("b"),
    )

    assert ["[web_search: oslo]"] == texts(messages(*turns)[1][1])
    assert ["content_flattened"] == codes(ask(*turns))


def test_vendors_own_blocks_return_as_they_were() -> None:
    part = OpaquePart("anthropic", Raw(b'{"type":"compaction","content":"x"}'), "x")

    assert [{"type": "compaction", "content": "x"}] == messages(
        user("a"), assistant(part), user("b")
    )[1][1]


def test_foreign_blocks_are_text_or_dropped_or_refused() -> None:
    readable = OpaquePart("openai", Raw(b"{}"), "So far.")
    dropped = OpaquePart("openai", Raw(b"{}"))
    needed = OpaquePart("openai", Raw(b"{}"), path="$.input[1]")

    assert ["So far."] == texts(messages(user("a"), assistant(readable), user("b"))[1][1])
    assert ["content_dropped"] == codes(ask(user("a"), assistant("b", dropped), user("c")))
    with pytest.raises(UntranslatableError) as raised:
        messages(user("a"), assistant(needed), user("b"))
    assert "$.input[1]" == raised.value.path


def test_audio_is_refused_and_images_of_the_assistant_dropped() -> None:
    with pytest.raises(UntranslatableError):
        messages(user(AudioPart("AA==", "wav")))
    turns = (user("a"), assistant("b", ImagePart(UrlSource("https://x.example"))), user("c"))

    assert ["content_dropped"] == codes(ask(*turns))


def test_citations_of_others_are_reported_and_own_ones_kept() -> None:
    foreign = TextPart("a", citations=(Raw(b"{}"),), vendor="openai")
    own = TextPart("a", citations=(Raw(b'{"type":"char_location"}'),), vendor="anthropic")

    assert ["citations_dropped"] == codes(ask(user("x"), assistant(foreign), user("y")))
    assert [{"type": "char_location"}] == messages(user("x"), assistant(own), user("y"))[1][1][0][
        "citations"
    ]


def test_history_of_a_messages_client_comes_back_as_it_was() -> None:
    history = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "EqQB"},
                {"type": "text", "text": "b"},
                {"type": "tool_use", "id": "toolu_1", "name": "ls", "input": {"path": "."}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "c"}],
        },
    ]

    assert history == encode(decode(*history))["messages"]
