"""Histories of any client as messages for Chat upstreams."""

import msgspec
import pytest
from msgspec import structs

from dragoman.errors import MalformedError, UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.turn.events import Channel, Flavor, OpaqueKind
from dragoman.turn.request import (
    AudioPart,
    Base64Source,
    CacheHint,
    DocumentPart,
    FileSource,
    ImagePart,
    OpaquePart,
    OpaqueState,
    Part,
    ReasoningPart,
    ReasoningSegment,
    RefusalPart,
    Role,
    SearchResultPart,
    ServerToolPart,
    TextPart,
    TextSource,
    ToolCallPart,
    ToolResultPart,
    Turn,
    UrlSource,
)
from tests.unit.dialects.chat.support import PLAIN, codes, decode, encode, foreign, user

PNG = ImagePart(Base64Source("image/png", "QUJD"))
PNG_OUT = {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUJD"}}
RAW = msgspec.Raw(b"{}")


def assistant(*parts: Part, path: str = "$.messages[1]") -> Turn:
    return Turn(Role.ASSISTANT, parts, path=path)


def said(*parts: Part, path: str = "$.messages[2]") -> Turn:
    return Turn(Role.USER, parts, path=path)


def messages(*turns: Turn, profile: Profile = PLAIN, **more: object) -> tuple[list, list[str]]:
    target = {k: more.pop(k) for k in ("strict", "repair_history", "prefill") if k in more}
    body, encoded = encode(foreign(*turns, **more), profile, **target)
    return body["messages"], codes(encoded.losses)


# --- reading ----------------------------------------------------------------------------------------


def test_messages_become_turns() -> None:
    request = decode(
        {
            "messages": [
                {"role": "system", "content": "one"},
                {"role": "developer", "content": [{"type": "text", "text": "two"}]},
                {"role": "user", "content": ""},
                {
                    "role": "user",
                    "content": [
                        {
                            "type": "text",
                            "text": "hi",
                            "cache_control": {"type": "ephemeral", "ttl": "1h"},
                        },
                        {"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}},
                    ],
                },
                {"role": "system", "content": "later"},
                {
                    "role": "assistant",
                    "content": [
                        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                        {"type": "text", "text": "a"},
                        {"type": "refusal", "refusal": "no"},
                    ],
                },
                {
                    "role": "assistant",
                    "content": None,
                    "refusal": "never",
                    "function_call": {"name": "f", "arguments": "{}"},
                },
                {"role": "function", "name": "f", "content": "42"},
                {
                    "role": "assistant",
                    "tool_calls": [
                        {"id": "c", "type": "custom", "custom": {"name": "p", "input": "free"}},
                        {"id": "d", "function": {"name": "f", "arguments": {"a": 1}}},
                    ],
                },
                {"role": "tool", "tool_call_id": "c", "content": [{"type": "text", "text": "ok"}]},
                {"role": "tool", "tool_call_id": "d", "content": None},
            ]
        }
    )

    assert ["one", "two"] == [part.text for part in request.system]
    assert [
        (Role.USER, "$.messages[3]"),
        (Role.SYSTEM, "$.messages[4]"),
        (Role.ASSISTANT, "$.messages[5]"),
        (Role.ASSISTANT, "$.messages[6]"),
        (Role.USER, "$.messages[7]"),
        (Role.ASSISTANT, "$.messages[8]"),
        (Role.USER, "$.messages[9]"),
        (Role.USER, "$.messages[10]"),
    ] == [(turn.role, turn.path) for turn in request.turns]
    turns = request.turns
    assert (TextPart("hi", CacheHint(long=True)), AudioPart("x", "wav")) == turns[0].parts
    assert (ReasoningPart((ReasoningSegment("hm"),)), TextPart("a"), RefusalPart("no")) == turns[
        2
    ].parts
    legacy = turns[3].parts[1]
    assert ToolResultPart(legacy.id, (TextPart("42"),)) == turns[4].parts[0]
    assert ToolCallPart("c", "p", "free", Flavor.CUSTOM) == turns[5].parts[0]
    assert ToolCallPart("d", "f", '{"a":1}') == turns[5].parts[1]
    assert ToolResultPart("c", (TextPart("ok"),), flavor=Flavor.CUSTOM) == turns[6].parts[0]


def test_files_of_clients() -> None:
    parts = [
        {
            "type": "file",
            "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,QQ=="},
        },
        {"type": "file", "file": {"file_data": "QQ=="}},
        {"type": "file", "file": {"file_id": "file_1"}},
        {"type": "image_url", "image_url": "https://x/y.png"},
    ]
    request = decode({"messages": [{"role": "user", "content": parts}]})

    assert (
        DocumentPart(Base64Source("application/pdf", "QQ=="), "a.pdf"),
        DocumentPart(Base64Source("application/pdf", "QQ==")),
        DocumentPart(FileSource("file_1", "openai")),
        ImagePart(UrlSource("https://x/y.png")),
    ) == request.turns[0].parts


# --- instructions -----------------------------------------------------------------------------------


def test_leading_instructions_are_one_message() -> None:
    system = (TextPart("one"), TextPart("two"))
    out, _ = messages(user(), system=system)
    newer, _ = messages(user(), system=system, profile=Profile(name="x", developer_role=True))

    assert {"role": "system", "content": "one\n\ntwo"} == out[0]
    assert "developer" == newer[0]["role"]


def test_f4_instructions_inside_the_conversation() -> None:
    later = Turn(Role.SYSTEM, (TextPart("now"),), path="$.messages[1]")
    folds = Profile(name="x", midturn_system=False)
    reminder = {"type": "text", "text": "<system-reminder>\nnow\n</system-reminder>"}

    kept, none = messages(user(), later)
    after, lost = messages(user(), later, profile=folds)
    before, _ = messages(user(), assistant(TextPart("a")), later, user("b"), profile=folds)
    alone, _ = messages(user(), assistant(TextPart("a")), later, profile=folds)

    assert ["user", "system"] == [one["role"] for one in kept]
    assert [] == none
    assert [{"role": "user", "content": [{"type": "text", "text": "hi"}, reminder]}] == after
    assert ["system_midturn_emulated"] == lost
    assert [reminder, {"type": "text", "text": "b"}] == before[2]["content"]
    assert reminder["text"] == alone[2]["content"]


# --- content ----------------------------------------------------------------------------------------


def test_parts_of_users() -> None:
    out, lost = messages(
        said(
            TextPart("a"),
            PNG,
            ImagePart(UrlSource("https://x/y.png"), "low"),
            AudioPart("x", "wav"),
            DocumentPart(Base64Source("application/pdf", "QQ=="), context="about"),
            DocumentPart(FileSource("f", "openai"), "t"),
            DocumentPart(TextSource("words"), "T"),
            DocumentPart(None, parts=(TextPart("in"), PNG)),
            SearchResultPart("https://s", "S", (TextPart("found"),)),
        )
    )

    assert [
        {"type": "text", "text": "a"},
        PNG_OUT,
        {"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}},
        {"type": "input_audio", "input_audio": {"data": "x", "format": "wav"}},
        {"type": "text", "text": "about"},
        {
            "type": "file",
            "file": {"filename": "document.pdf", "file_data": "data:application/pdf;base64,QQ=="},
        },
        {"type": "file", "file": {"filename": "t", "file_id": "f"}},
        {"type": "text", "text": '<document title="T">\nwords\n</document>'},
        {"type": "text", "text": "<document>\nin\n</document>"},
        PNG_OUT,
        {
            "type": "text",
            "text": '<search_result source="https://s" title="S">\nfound\n</search_result>',
        },
    ] == out[0]["content"]
    assert ["content_flattened"] * 3 == lost


@pytest.mark.parametrize(
    ("part", "profile"),
    [
        (PNG, Profile(name="x", images="none")),
        (PNG, Profile(name="x", content_parts="string")),
        (ImagePart(UrlSource("https://x")), Profile(name="x", images="base64_only")),
        (ImagePart(FileSource("f", "openai")), PLAIN),
        (DocumentPart(Base64Source("application/pdf", "")), Profile(name="x", documents=False)),
        (
            DocumentPart(Base64Source("application/pdf", "")),
            Profile(name="x", content_parts="string"),
        ),
        (DocumentPart(UrlSource("https://x")), PLAIN),
        (DocumentPart(FileSource("f", "anthropic")), PLAIN),
        (AudioPart("x", "wav"), Profile(name="x", content_parts="string")),
        (OpaquePart("openai", RAW, path="$.messages[2]"), PLAIN),
    ],
)
def test_what_the_upstream_cannot_take_is_refused(part: Part, profile: Profile) -> None:
    with pytest.raises(UntranslatableError) as caught:
        messages(said(part), profile=profile)

    assert "$.messages[2]" == caught.value.path


@pytest.mark.parametrize(
    ("media_type", "title", "name"),
    [
        ("application/zip", "", "document.zip"),
        ("application/x-unknown", "", "document"),
        ("application/zip", "a.zip", "a.zip"),
        ("", "", "document.pdf"),
    ],
)
def test_the_name_of_a_file_shows_its_kind(media_type: str, title: str, name: str) -> None:
    out, _ = messages(said(DocumentPart(Base64Source(media_type, "QQ=="), title)))

    assert name == out[0]["content"][0]["file"]["filename"]


def test_text_alone_for_upstreams_that_take_no_parts() -> None:
    out, _ = messages(
        said(TextPart("a"), TextPart("b")), profile=Profile(name="x", content_parts="string")
    )

    assert "a\nb" == out[0]["content"]


def test_cache_marks_where_they_are_understood() -> None:
    marked = said(TextPart("a", CacheHint()), TextPart("b", CacheHint(long=True)))
    control, _ = messages(
        marked, system=(TextPart("s", CacheHint()),), profile=Profile(name="x", cache_control=True)
    )
    points, _ = messages(marked, profile=Profile(name="x", cache_breakpoints=True))
    none, lost = messages(marked)

    assert [{"type": "text", "text": "s", "cache_control": {"type": "ephemeral"}}] == control[0][
        "content"
    ]
    assert {"type": "ephemeral", "ttl": "1h"} == control[1]["content"][1]["cache_control"]
    assert {"mode": "explicit", "ttl": "12h"} == points[0]["content"][1]["prompt_cache_breakpoint"]
    assert [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}] == none[0]["content"]
    assert [] == lost


def test_only_the_last_cache_marks_are_kept() -> None:
    marked = said(*(TextPart(str(at), CacheHint()) for at in range(6)))
    out, lost = messages(marked, profile=Profile(name="x", cache_control=True))

    assert [False, False, True, True, True, True] == [
        "cache_control" in one for one in out[0]["content"]
    ]
    assert ["cache_hint_dropped"] == lost


def test_mark_on_the_whole_prefix_and_on_results() -> None:
    profile = Profile(name="x", cache_control=True)
    whole, _ = messages(user(), profile=profile, cache_all=CacheHint())
    result = said(ToolResultPart("a", (TextPart("r"),), cache=CacheHint()))
    out, _ = messages(user(), assistant(ToolCallPart("a", "f", "{}")), result, profile=profile)

    assert "cache_control" in whole[0]["content"][0]
    assert "cache_control" in out[2]["content"][0]


# --- the assistant ----------------------------------------------------------------------------------


def test_f10_text_around_calls_is_joined() -> None:
    parts = (TextPart("a"), TextPart("b"), ToolCallPart("x", "f", '{"a":  1}'), TextPart("c"))
    out, _ = messages(user(), assistant(*parts), said(ToolResultPart("x", (TextPart("r"),))))

    function = {"name": "f", "arguments": '{"a":  1}'}
    assert {
        "role": "assistant",
        "content": "ab\n\nc",
        "tool_calls": [{"id": "x", "type": "function", "function": function}],
    } == out[1]


@pytest.mark.parametrize(
    ("policy", "rest"), [("null", {"content": None}), ("empty", {"content": ""}), ("omit", {})]
)
def test_calls_without_text(policy: str, rest: dict) -> None:
    profile = Profile(name="x", empty_assistant_content=policy)
    out, _ = messages(
        user(), assistant(ToolCallPart("x", "f", "{}")), said(ToolResultPart("x")), profile=profile
    )

    assert rest == {name: out[1][name] for name in out[1] if name == "content"}


def test_other_parts_of_the_assistant() -> None:
    parts = (
        RefusalPart("no"),
        ServerToolPart("anthropic", "[web_search: x]", RAW),
        OpaquePart("anthropic", RAW, text="summary"),
        OpaquePart("anthropic", RAW),
        TextPart("a", citations=(RAW,), vendor="anthropic"),
        PNG,
    )
    out, lost = messages(user(), assistant(*parts), user())
    own, _ = messages(
        user(), assistant(*parts), user(), profile=Profile(name="x", supports_store=True)
    )

    assert "no[web_search: x]\nsummarya" == out[1]["content"]
    assert [
        "refusal_as_text",
        "content_flattened",
        "content_flattened",
        "content_dropped",
        "citations_dropped",
        "content_dropped",
    ] == lost
    assert "no" == own[1]["refusal"]


def test_empty_turns_are_left_out() -> None:
    out, _ = messages(user(), assistant(TextPart("")), said(), user("b"))

    assert ["hi", "b"] == [one["content"] for one in out]


@pytest.mark.parametrize(
    ("arguments", "expected", "lost"),
    [
        ("", "{}", []),
        ('{"a":"b', '{"_raw":"{\\"a\\":\\"b"}', ["args_repaired"]),
        ('{"a":"b",}', '{"a":"b"}', ["args_repaired"]),
        ("[1]", '{"_raw":"[1]"}', ["args_repaired"]),
    ],
)
def test_arguments_of_the_history_are_objects(
    arguments: str, expected: str, lost: list[str]
) -> None:
    out, losses = messages(
        user(), assistant(ToolCallPart("x", "f", arguments)), said(ToolResultPart("x"))
    )

    assert expected == out[1]["tool_calls"][0]["function"]["arguments"]
    assert lost == losses


def test_f6_custom_calls_of_the_history() -> None:
    turns = (
        user(),
        assistant(ToolCallPart("x", "p", 'say "hi"', Flavor.CUSTOM)),
        said(ToolResultPart("x")),
    )
    out, _ = messages(*turns)
    native, _ = messages(*turns, profile=Profile(name="x", supports_custom_tools=True))

    assert '{"input":"say \\"hi\\""}' == out[1]["tool_calls"][0]["function"]["arguments"]
    assert {"name": "p", "input": 'say "hi"'} == native[1]["tool_calls"][0]["custom"]


def test_r8_signatures_return_to_their_origin_only() -> None:
    def sent(origin: str) -> tuple[dict, list[str]]:
        state = OpaqueState(
            OpaqueKind.TOOL_SIGNATURE, '{"google":{"thought_signature":"S"}}', origin
        )
        call = ToolCallPart("x", "f", "{}", opaque=(state,))
        out, lost = messages(
            user(), assistant(call), said(ToolResultPart("x")), profile=Profile(name="gemini")
        )
        return out[1]["tool_calls"][0], lost

    assert {"google": {"thought_signature": "S"}} == sent("gemini")[0]["extra_content"]
    assert {"google": {"thought_signature": "S"}} == sent("chat")[0]["extra_content"]
    assert "extra_content" not in sent("other")[0]
    assert ["opaque_dropped"] == sent("other")[1]


# --- ids --------------------------------------------------------------------------------------------


def two_calls(*ids: str) -> tuple[Turn, ...]:
    turns: list[Turn] = [user()]
    for at, one in enumerate(ids):
        turns.append(assistant(ToolCallPart(one, "f", "{}"), path=f"$.messages[{2 * at + 1}]"))
        turns.append(said(ToolResultPart(one, (TextPart("r"),)), path=f"$.messages[{2 * at + 2}]"))
    return tuple(turns)


@pytest.mark.parametrize(
    ("style", "ids", "expected"),
    [
        ("any", ("gx-functions-2ef-3a0", "call_1"), ["functions.f:0", "call_1"]),
        ("kimi", ("call_a", "gx-functions-2ef-3a7"), ["functions.f:0", "functions.f:1"]),
        ("any", ("call_0", "gx1-call_0"), ["call_0", "call_0_1"]),
        ("openai40", ("x" * 50, "b"), [None, "b"]),
        ("mistral9", ("call_long_one", "abcdefghi"), [None, "abcdefghi"]),
    ],
)
def test_d1_d3_d6_ids_in_the_upstream_s_style(
    style: str, ids: tuple[str, str], expected: list
) -> None:
    out, _ = messages(*two_calls(*ids), profile=Profile(name="x", id_style=style))

    called = [one["tool_calls"][0]["id"] for one in out if "tool_calls" in one]
    answered = [one["tool_call_id"] for one in out if one["role"] == "tool"]
    assert called == answered
    assert 2 == len(set(called))
    assert not any(one.startswith("gx") for one in called)
    for wanted, one in zip(expected, called, strict=True):
        assert wanted in (None, one)
        assert len(one) == 9 if style == "mistral9" else len(one) <= 40


# --- results ----------------------------------------------------------------------------------------


def result(*parts: Part, profile: Profile = PLAIN, **more: object) -> tuple[list, list[str]]:
    turns = (
        user(),
        assistant(ToolCallPart("x", "f", "{}")),
        said(ToolResultPart("x", parts, **more)),
    )
    out, lost = messages(*turns, profile=profile)
    return out[2:], lost


def test_results_come_first_and_in_call_order() -> None:
    out, _ = messages(
        user(),
        assistant(ToolCallPart("a", "f", "{}"), ToolCallPart("b", "f", "{}")),
        said(
            TextPart("and"),
            ToolResultPart("b", (TextPart("2"),)),
            ToolResultPart("a", (TextPart("1"),)),
        ),
    )

    assert [("tool", "1"), ("tool", "2"), ("user", "and")] == [
        (m["role"], m["content"]) for m in out[2:]
    ]


def test_text_of_results() -> None:
    parts = Profile(name="x", tool_content="parts")

    assert "a\nb" == result(TextPart("a"), TextPart("b"))[0][0]["content"]
    assert 2 == len(result(TextPart("a"), TextPart("b"), profile=parts)[0][0]["content"])
    assert "a" == result(TextPart("a"), profile=parts)[0][0]["content"]
    assert "<document>\nw\n</document>" == result(DocumentPart(TextSource("w")))[0][0]["content"]
    assert "found" in result(SearchResultPart("s", "t", (TextPart("found"),)))[0][0]["content"]


def test_failed_results_say_so_in_words() -> None:
    assert "Error: no file" == result(TextPart("no file"), is_error=True)[0][0]["content"]
    assert "error 5" == result(TextPart("error 5"), is_error=True)[0][0]["content"]
    assert "Error" == result(is_error=True)[0][0]["content"]


def test_empty_results() -> None:
    picky = Profile(name="x", refuses_empty_tool_content=True)

    assert "" == result()[0][0]["content"]
    assert "(no output)" == result(profile=picky)[0][0]["content"]
    assert ["empty_content_filled"] == result(profile=picky)[1]


def test_f8_pictures_in_results() -> None:
    follow, moved = result(TextPart("see"), PNG)
    native, none = result(TextPart("see"), PNG, profile=Profile(name="x", tool_images="native"))
    held, flat = result(PNG, profile=Profile(name="x", tool_images="placeholder"))
    blind, _ = result(PNG, profile=Profile(name="x", images="none"))

    assert "see\n[image 1 of call x follows]" == follow[0]["content"]
    assert {"role": "user", "content": [PNG_OUT]} == follow[1]
    assert ["tool_image_moved"] == moved
    assert [{"type": "text", "text": "see"}, PNG_OUT] == native[0]["content"]
    assert [] == none
    assert "[image omitted]" == held[0]["content"] == blind[0]["content"]
    assert ["tool_content_flattened"] == flat


def test_f8_pictures_of_several_results_follow_all_of_them() -> None:
    out, _ = messages(
        user(),
        assistant(ToolCallPart("a", "f", "{}"), ToolCallPart("b", "f", "{}")),
        said(ToolResultPart("a", (PNG,)), ToolResultPart("b", (TextPart("2"),)), TextPart("look")),
    )

    assert ["tool", "tool", "user"] == [one["role"] for one in out[2:]]
    assert [PNG_OUT, {"type": "text", "text": "look"}] == out[4]["content"]


def test_f9_calls_and_results_that_do_not_fit() -> None:
    orphan = (user(), said(ToolResultPart("zz", (TextPart("r"),)), path="$.messages[1]"))
    unanswered = (user(), assistant(ToolCallPart("a", "f", "{}")), user("go on"))

    with pytest.raises(MalformedError) as caught:
        messages(*orphan)
    repaired, lost = messages(*orphan, repair_history=True)
    filled, missing = messages(*unanswered)

    assert ("$.messages[1]", "tool_result_orphaned") == (caught.value.path, caught.value.code)
    assert "[result of tool call zz]\nr" == repaired[1]["content"]
    assert ["tool_result_orphaned"] == lost
    assert ("tool", "Error: [no result]") == (filled[2]["role"], filled[2]["content"])
    assert ["tool_result_missing"] == missing
    with pytest.raises(MalformedError):
        messages(*unanswered, strict=True)


# --- order ------------------------------------------------------------------------------------------


def test_f10_alternating_roles() -> None:
    profile = Profile(name="x", alternate_roles=True)
    out, lost = messages(
        assistant(TextPart("a")),
        assistant(TextPart("b")),
        user("c"),
        said(TextPart("d"), PNG),
        profile=profile,
    )

    assert ["user", "assistant", "user"] == [one["role"] for one in out]
    assert "a\n\nb" == out[1]["content"]
    assert [{"type": "text", "text": "c"}, {"type": "text", "text": "d"}, PNG_OUT] == out[2][
        "content"
    ]
    assert ["turn_added"] == lost


def test_f10_joined_turns_keep_reasoning_and_names() -> None:
    profile = Profile(
        name="x", alternate_roles=True, carry_reasoning=True, replay_reasoning="always"
    )
    thoughts = [
        ReasoningPart((ReasoningSegment(text, Channel.FULL),)) for text in ("first", "second")
    ]
    turns = (
        user(),
        assistant(thoughts[0], TextPart("a")),
        assistant(thoughts[1], TextPart("b")),
        structs.replace(user("c"), name="Ann"),
        structs.replace(user("d"), name="Ann"),
        assistant(TextPart("e")),
        structs.replace(user("f"), name="Ann"),
        structs.replace(user("g"), name="Bob"),
    )
    body, encoded = encode(structs.replace(foreign(*turns), dialect="chat"), profile)
    out = body["messages"]

    assert ["a\n\nb", "first\n\nsecond"] == [out[1]["content"], out[1]["reasoning_content"]]
    assert [("c\n\nd", "Ann"), ("f\n\ng", None)] == [
        (one["content"], one.get("name")) for one in (out[2], out[4])
    ]
    assert ["field_dropped"] == codes(encoded.losses)


def test_user_after_a_result_where_that_is_refused() -> None:
    profile = Profile(name="x", user_after_tool=False)
    turns = (
        user(),
        assistant(ToolCallPart("x", "f", "{}")),
        said(ToolResultPart("x"), TextPart("and")),
    )

    out, lost = messages(*turns, profile=profile)

    assert ["user", "assistant", "tool", "assistant", "user"] == [one["role"] for one in out]
    assert ["turn_added"] == lost


def test_prefill() -> None:
    turns = (user(), assistant(TextPart("The answer is")))

    with pytest.raises(UntranslatableError) as caught:
        messages(*turns)
    emulated, lost = messages(*turns, prefill="continue")
    native, _ = messages(*turns, profile=Profile(name="x", prefill="native"))
    prefix, _ = messages(*turns, profile=Profile(name="x", prefill="prefix"))
    partial, _ = messages(*turns, profile=Profile(name="x", prefill="partial"))

    assert ("$.messages", "prefill_not_supported") == (caught.value.path, caught.value.code)
    assert {"role": "user", "content": "Continue."} == emulated[-1]
    assert ["prefill_emulated"] == lost
    assert {"role": "assistant", "content": "The answer is"} == native[-1]
    assert prefix[-1]["prefix"]
    assert partial[-1]["partial"]


def test_client_of_the_dialect_may_end_with_the_assistant() -> None:
    given = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "The"}]

    assert given == encode(decode({"messages": given}))[0]["messages"]
