"""Requests for a Responses upstream, from clients of any dialect."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw, structs

from dragoman.context import EncodedRequest, Target
from dragoman.dialects.responses.request_reader import decode_request
from dragoman.dialects.responses.request_writer import encode_request
from dragoman.errors import MalformedError, UntranslatableError
from dragoman.limits import DEFAULT_LIMITS
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
    OutputFormat,
    ReasoningPart,
    ReasoningSegment,
    ReasoningSettings,
    RefusalPart,
    Request,
    Role,
    Sampling,
    SearchResultPart,
    ServerToolPart,
    TextPart,
    TextSource,
    Tool,
    ToolCallPart,
    ToolChoice,
    ToolResultPart,
    Turn,
    UrlSource,
)
from dragoman.turn.server_tools import ServerKind, ServerOptions

CLONE = Profile(name="clone")
OPENAI = Profile(
    name="openai",
    supports_custom_tools=True,
    developer_role=True,
    supports_store=True,
    supports_verbosity=True,
    supports_cache_key=True,
    cache_breakpoints=True,
    user_field="safety_identifier",
    supported_efforts=("none", "minimal", "low", "medium", "high", "xhigh", "max"),
)
HI = Turn(Role.USER, (TextPart("hi"),), path="$.messages[0]")


def ask(*turns: Turn, **fields: Any) -> Request:
    return Request(**{"dialect": "chat", "model": "m", "turns": turns or (HI,), **fields})


def encode(request: Request, profile: Profile = CLONE, **known: Any) -> EncodedRequest:
    return encode_request(request, Target(profile=profile, **known))


def body(request: Request, profile: Profile = CLONE, **known: Any) -> dict[str, Any]:
    return msgspec.json.decode(encode(request, profile, **known).body)  # type: ignore[no-any-return]


def codes(request: Request, profile: Profile = CLONE, **known: Any) -> list[str]:
    return [loss.code for loss in encode(request, profile, **known).losses]


def refused(request: Request, profile: Profile = CLONE, **known: Any) -> UntranslatableError:
    with pytest.raises(UntranslatableError) as caught:
        encode(request, profile, **known)
    return caught.value


# --- always -------------------------------------------------------------------------------------


def test_nothing_is_kept_and_encrypted_reasoning_is_asked_for() -> None:
    sent = body(ask(stream=True), model="up")

    assert ("up", False, True) == (sent["model"], sent["store"], sent["stream"])
    assert ["reasoning.encrypted_content"] == sent["include"]


def test_h2_s_4_the_same_request_gives_the_same_bytes() -> None:
    request = ask(tools=(Tool(name="f", schema=Raw(b'{"b":1,"a":2}')),), system=(TextPart("s"),))

    assert encode(request).body == encode(request).body
    assert b'{"b":1,"a":2}' in encode(request).body


def test_system_text_is_the_instructions() -> None:
    sent = body(ask(system=(TextPart("a"), TextPart("b"))))

    assert "a\n\nb" == sent["instructions"]


def test_cache_marks_on_system_text_need_a_message() -> None:
    sent = body(ask(system=(TextPart("a", CacheHint(long=True)),)), OPENAI)

    assert "instructions" not in sent
    assert {"mode": "explicit", "ttl": "12h"} == sent["input"][0]["content"][0][
        "prompt_cache_breakpoint"
    ]
    assert "developer" == sent["input"][0]["role"]


# --- turns --------------------------------------------------------------------------------------


def called(
    *results: ToolResultPart, flavor: Flavor = Flavor.FUNCTION, **call: Any
) -> tuple[Turn, ...]:
    part = ToolCallPart(
        **{"id": "c1", "name": "f", "arguments": '{"a": 1}', "flavor": flavor, **call}
    )
    return (HI, Turn(Role.ASSISTANT, (part,)), Turn(Role.USER, results))


def test_assistant_items_keep_their_order_and_have_no_ids() -> None:
    state = OpaqueState(OpaqueKind.ENCRYPTED, "gAAA", "openai", "rs_1")
    turn = Turn(
        Role.ASSISTANT,
        (
            ReasoningPart((ReasoningSegment("why", Channel.SUMMARY),), (state,)),
            TextPart("a"),
            TextPart("b"),
            RefusalPart("no"),
            ToolCallPart("c1", "f", "{}"),
        ),
        phase="commentary",
    )
    result = Turn(Role.USER, (ToolResultPart("c1", (TextPart("ok"),)), TextPart("next")))

    items = body(ask(HI, turn, result), OPENAI)["input"]

    assert [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "why"}],
            "encrypted_content": "gAAA",
        },
        {
            "type": "message",
            "role": "assistant",
            "content": [
                {"type": "output_text", "text": "a"},
                {"type": "output_text", "text": "b"},
                {"type": "refusal", "refusal": "no"},
            ],
            "phase": "commentary",
        },
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "ok"},
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "next"}]},
    ] == items


@pytest.mark.parametrize(
    ("state", "code"),
    [
        (OpaqueState(OpaqueKind.ENCRYPTED, "x", "other"), "opaque_dropped"),
        (OpaqueState(OpaqueKind.SIGNATURE, "x", "clone"), "opaque_dropped"),
        (None, "reasoning_dropped"),
    ],
)
def test_reasoning_of_others_is_dropped_and_reported(state: OpaqueState | None, code: str) -> None:
    part = ReasoningPart((ReasoningSegment("t"),), (state,) if state else ())
    request = ask(HI, Turn(Role.ASSISTANT, (part, TextPart("x"))), HI)

    assert [code] == codes(request)
    assert ["message"] * 3 == [item["type"] for item in body(request)["input"]]


def test_d1_ids_are_what_the_upstream_takes() -> None:
    request = ask(*called(ToolResultPart("gx-functions-2ef-3a0"), id="gx-functions-2ef-3a0"))

    call, output = body(request)["input"][1:]

    assert call["call_id"] == output["call_id"]
    assert call["call_id"].startswith("gh-")


def test_f8_images_of_a_result_are_native_and_errors_are_marked() -> None:
    image = ImagePart(Base64Source("image/png", "AA"))
    request = ask(*called(ToolResultPart("c1", (TextPart("broken"), image), is_error=True)))

    output = body(request)["input"][-1]["output"]

    assert [
        {"type": "input_text", "text": "Error: broken"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA", "detail": "auto"},
    ] == output


@pytest.mark.parametrize(("text", "expected"), [("error: x", "error: x"), ("x", "Error: x")])
def test_an_error_is_marked_once(text: str, expected: str) -> None:
    request = ask(*called(ToolResultPart("c1", (TextPart(text),), is_error=True)))

    assert expected == body(request)["input"][-1]["output"]


@pytest.mark.parametrize("native", [False, True])
def test_f7_custom_calls_are_native_where_they_are_known(native: bool) -> None:
    tool = Tool(name="patch", flavor=Flavor.CUSTOM, grammar=("lark", "x: y"), description="d")
    result = ToolResultPart("c1", (TextPart("ok"),), flavor=Flavor.CUSTOM)
    turns = called(result, flavor=Flavor.CUSTOM, name="patch", arguments='a "b"')
    request = ask(*turns, tools=(tool,))
    sent = body(request, OPENAI if native else CLONE)

    _, call, output = sent["input"]
    if native:
        assert ("custom_tool_call", 'a "b"', "custom_tool_call_output") == (
            call["type"],
            call["input"],
            output["type"],
        )
        assert {"type": "grammar", "syntax": "lark", "definition": "x: y"} == sent["tools"][0][
            "format"
        ]
    else:
        assert ("function_call", {"input": 'a "b"'}) == (
            call["type"],
            msgspec.json.decode(call["arguments"]),
        )
        assert "function_call_output" == output["type"]
        assert ["input"] == sent["tools"][0]["parameters"]["required"]
        assert "lark grammar" in sent["tools"][0]["description"]
        assert ["grammar_not_enforced"] == codes(request)


def shell_request() -> Request:
    items = [
        {"role": "user", "content": "x"},
        {
            "type": "local_shell_call",
            "call_id": "a",
            "action": {"type": "exec", "command": ["ls"], "env": {}},
        },
        {"type": "shell_call", "call_id": "b", "action": {"commands": ["ls"]}},
        {
            "type": "apply_patch_call",
            "call_id": "c",
            "operation": {"type": "delete_file", "path": "p"},
        },
        {"type": "local_shell_call_output", "call_id": "a", "output": "1"},
        {
            "type": "shell_call_output",
            "call_id": "b",
            "output": [{"stdout": "2", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}}],
        },
        {"type": "apply_patch_call_output", "call_id": "c", "status": "failed", "output": "3"},
    ]
    tools = [{"type": "local_shell"}, {"type": "shell"}, {"type": "apply_patch"}]
    data = msgspec.json.encode({"model": "m", "input": items, "tools": tools})
    return decode_request(data, sealer=None, limits=DEFAULT_LIMITS)


def test_shells_are_native_where_they_are_known() -> None:
    sent = body(shell_request(), OPENAI)

    assert ["local_shell", "shell", "apply_patch"] == [tool["type"] for tool in sent["tools"]]
    assert [
        "message",
        "local_shell_call",
        "shell_call",
        "apply_patch_call",
        "local_shell_call_output",
        "shell_call_output",
        "apply_patch_call_output",
    ] == [item["type"] for item in sent["input"]]
    assert "failed" == sent["input"][-1]["status"]


def test_shells_are_functions_elsewhere() -> None:
    sent = body(shell_request())

    assert [("function", "local_shell"), ("function", "shell"), ("function", "apply_patch")] == [
        (tool["type"], tool["name"]) for tool in sent["tools"]
    ]
    kinds = {item["type"] for item in sent["input"]}
    assert {"message", "function_call", "function_call_output"} == kinds


def test_f9_a_missing_result_is_filled_in_and_reported() -> None:
    request = ask(*called())

    assert ["tool_result_missing"] == codes(request)
    assert "Error: [no result]" == body(request)["input"][-1]["output"]


def test_f9_a_result_without_a_call_is_refused_or_repaired() -> None:
    request = ask(Turn(Role.USER, (ToolResultPart("zzz", (TextPart("x"),)),)))

    with pytest.raises(MalformedError):
        encode(request)
    assert ["tool_result_orphaned"] == codes(request, repair_history=True)


@pytest.mark.parametrize("native", [True, False])
def test_f4_instructions_inside_the_conversation(native: bool) -> None:
    profile = structs.replace(CLONE, midturn_system=native)
    request = ask(HI, Turn(Role.SYSTEM, (TextPart("brief"),), path="$.messages[1]"), HI)

    items = body(request, profile)["input"]

    if native:
        assert "system" == items[1]["role"]
    else:
        assert ["user", "user"] == [item["role"] for item in items]
        assert "<system-reminder>\nbrief\n</system-reminder>" == items[0]["content"][1]["text"]
        assert ["system_midturn_emulated"] == codes(request, profile)


def test_f10_an_answer_that_the_client_began_is_refused_or_asked_to_go_on() -> None:
    began = Turn(Role.ASSISTANT, (TextPart("Once"),), path="$.messages[1]")
    request = ask(HI, began, dialect="anthropic")

    assert "$.messages" == refused(request).path
    assert "Continue." == body(request, prefill="continue")["input"][-1]["content"][0]["text"]


# --- parts --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (
            ImagePart(UrlSource("https://example.com/i"), "low"),
            {"type": "input_image", "image_url": "https://example.com/i", "detail": "low"},
        ),
        (
            ImagePart(FileSource("f", "openai")),
            {"type": "input_image", "file_id": "f", "detail": "auto"},
        ),
        (
            DocumentPart(Base64Source("application/pdf", "AA"), "a.pdf"),
            {
                "type": "input_file",
                "filename": "a.pdf",
                "file_data": "data:application/pdf;base64,AA",
            },
        ),
        (
            DocumentPart(UrlSource("https://example.com/d")),
            {"type": "input_file", "file_url": "https://example.com/d"},
        ),
        (DocumentPart(FileSource("f", "openai")), {"type": "input_file", "file_id": "f"}),
        (
            DocumentPart(TextSource("t"), "T"),
            {"type": "input_text", "text": '<document title="T">\nt\n</document>'},
        ),
        (
            AudioPart("AA", "wav"),
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
        ),
        (
            SearchResultPart("s", "t", (TextPart("x"),)),
            {
                "type": "input_text",
                "text": '<search_result source="s" title="t">\nx\n</search_result>',
            },
        ),
        (
            TextPart("x", CacheHint()),
            {
                "type": "input_text",
                "text": "x",
                "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"},
            },
        ),
    ],
)
def test_content_part_is_written(part: Any, expected: dict[str, Any]) -> None:
    (item,) = body(ask(Turn(Role.USER, (part,))), OPENAI)["input"]

    assert [expected] == item["content"]


def test_a_document_of_parts_keeps_its_context_and_images() -> None:
    image = ImagePart(UrlSource("https://example.com/i"))
    part = DocumentPart(None, "T", "about", True, (TextPart("x"), image))
    request = ask(Turn(Role.USER, (part,)))

    content = body(request)["input"][0]["content"]

    assert ["input_text", "input_text", "input_image"] == [one["type"] for one in content]
    assert ["citations_dropped", "content_flattened"] == codes(request)


@pytest.mark.parametrize(
    ("part", "profile"),
    [
        (
            ImagePart(UrlSource("https://example.com/i")),
            structs.replace(CLONE, images="base64_only"),
        ),
        (ImagePart(Base64Source("image/png", "AA")), structs.replace(CLONE, images="none")),
        (ImagePart(FileSource("f", "anthropic")), OPENAI),
        (
            DocumentPart(Base64Source("application/pdf", "AA")),
            structs.replace(CLONE, documents=False),
        ),
        (OpaquePart("openai", Raw(b"{}"), path="$.messages[3]"), CLONE),
    ],
)
def test_content_that_the_upstream_cannot_take_is_refused(part: Any, profile: Profile) -> None:
    error = refused(ask(Turn(Role.USER, (part,), path="$.messages[3]")), profile)

    assert "$.messages[3]" == error.path
    assert error.code.startswith("unsupported_")


def test_vendor_blocks_go_to_their_vendor_and_are_words_elsewhere() -> None:
    raw = Raw(b'{"type":"web_search_call","id":"ws_1"}')
    turn = Turn(
        Role.ASSISTANT,
        (ServerToolPart("openai", "[web_search: q]", raw), OpaquePart("openai", raw, "sum")),
    )
    request = ask(HI, turn, HI)

    assert {"type": "web_search_call", "id": "ws_1"} == body(request, OPENAI)["input"][1]
    assert "[web_search: q]" == body(request)["input"][1]["content"][0]["text"]
    assert ["content_flattened", "content_flattened"] == codes(request)


UNSIGNED = structs.replace(
    CLONE, replay_reasoning="always", reasoning_filler="(none)", signed_reasoning=False
)


def reasoned(*parts: Any) -> list[dict[str, Any]]:
    call = ToolCallPart("c1", "f", "{}")
    result = Turn(Role.USER, (ToolResultPart("c1", (TextPart("ok"),)),))
    items: list[dict[str, Any]] = body(
        ask(HI, Turn(Role.ASSISTANT, (*parts, call)), result), UNSIGNED
    )["input"]
    return items


@pytest.mark.parametrize(
    "opaque", [(), (OpaqueState(OpaqueKind.PLAIN, "", "clone"),)], ids=["bare", "marked"]
)
def test_unsigned_reasoning_goes_back_where_the_upstream_expects_it(
    opaque: tuple[OpaqueState, ...],
) -> None:
    items = reasoned(ReasoningPart((ReasoningSegment("why"),), opaque))

    content = [{"type": "reasoning_text", "text": "why"}]
    assert {"type": "reasoning", "summary": [], "content": content} == items[1]
    assert "function_call" == items[2]["type"]


def test_calls_without_reasoning_get_a_placeholder_where_the_upstream_demands_some() -> None:
    items = reasoned(TextPart("I look."))

    content = [{"type": "reasoning_text", "text": "(none)"}]
    assert {"type": "reasoning", "summary": [], "content": content} == items[1]
    assert ["message", "function_call"] == [one["type"] for one in items[2:4]]


@pytest.mark.parametrize("own", [True, False])
def test_citations_go_to_the_vendor_that_made_them(own: bool) -> None:
    cited = Raw(b'{"type":"url_citation","url":"https://a"}')
    part = TextPart("a", None, (cited,), "openai" if own else "anthropic")
    request = ask(HI, Turn(Role.ASSISTANT, (part,)), HI, dialect="responses")
    text = body(request, OPENAI)["input"][1]["content"][0]

    assert own == ("annotations" in text)
    assert ([] if own else ["citations_dropped"]) == codes(request, OPENAI)


def test_parts_that_an_assistant_cannot_have_are_reported() -> None:
    audio = Turn(Role.ASSISTANT, (AudioPart("AA", "wav"), TextPart("x")))

    assert ["content_dropped"] == codes(ask(HI, audio, HI))


def test_an_error_that_begins_with_an_image_gets_its_mark_before_it() -> None:
    image = ImagePart(UrlSource("https://example.com/i"))
    turns = called(ToolResultPart("c1", (image,), is_error=True))
    output = body(ask(*turns))["input"][2]["output"]

    assert ["input_text", "input_image"] == [one["type"] for one in output]
    assert "error" in output[0]["text"].lower()


# --- tools --------------------------------------------------------------------------------------

FUNCTION = Tool(
    name="f", description="d", schema=Raw(b'{"$schema":"x","type":"object"}'), path="$.tools[0]"
)


def test_functions_are_flat_and_say_whether_they_are_strict() -> None:
    (tool,) = body(ask(tools=(FUNCTION,)))["tools"]

    assert {
        "type": "function",
        "name": "f",
        "description": "d",
        "parameters": {"type": "object"},
        "strict": False,
    } == tool


def test_a_tool_without_a_schema_takes_no_arguments() -> None:
    (tool,) = body(ask(tools=(Tool(name="f", examples=(Raw(b'{"a":1}'),)),)))["tools"]

    assert {"type": "object", "properties": {}} == tool["parameters"]
    assert 'Examples of input:\n{"a":1}' == tool["description"]


def test_d5_long_names_are_shortened_and_reported() -> None:
    request = ask(
        tools=(Tool(name="mcp__" + "x" * 80),), tool_choice=ToolChoice("tool", "mcp__" + "x" * 80)
    )

    sent = body(request)

    assert 64 == len(sent["tools"][0]["name"])
    assert sent["tools"][0]["name"] == sent["tool_choice"]["name"]
    assert ["tool_renamed"] == codes(request)


def namespaced() -> Request:
    tools = [
        {
            "type": "namespace",
            "name": "agents",
            "description": "Agents",
            "tools": [{"type": "function", "name": "spawn"}],
        }
    ]
    items = [
        {"role": "user", "content": "x"},
        {
            "type": "function_call",
            "call_id": "c",
            "namespace": "agents",
            "name": "spawn",
            "arguments": "{}",
        },
        {"type": "function_call_output", "call_id": "c", "output": "ok"},
    ]
    data = msgspec.json.encode({"model": "m", "input": items, "tools": tools})
    return decode_request(data, sealer=None, limits=DEFAULT_LIMITS)


def test_f6_namespaces_are_flattened_for_upstreams_without_them() -> None:
    sent = body(namespaced())

    assert "agents__spawn" == sent["tools"][0]["name"]
    assert "agents__spawn" == sent["input"][1]["name"]


def test_f6_namespaces_stay_where_they_are_known() -> None:
    sent = body(namespaced(), OPENAI)

    (tool,) = sent["tools"]
    assert ("namespace", "agents", "Agents", "spawn") == (
        tool["type"],
        tool["name"],
        tool["description"],
        tool["tools"][0]["name"],
    )
    assert ("agents", "spawn") == (sent["input"][1]["namespace"], sent["input"][1]["name"])


SEARCH = Tool(
    name="web_search",
    server=True,
    does=ServerKind.WEB_SEARCH,
    server_options=ServerOptions(allowed=("a.example",), max_uses=3),
    kind="web_search_20250305",
    vendor="anthropic",
    raw=Raw(b'{"type":"web_search_20250305","allowed_domains":["a.example"],"max_uses":3}'),
    path="$.tools[0]",
)


def test_a_search_is_translated_where_there_is_one() -> None:
    request = ask(tools=(SEARCH,))
    profile = structs.replace(CLONE, server_tools=("web_search",))

    assert [{"type": "web_search", "filters": {"allowed_domains": ["a.example"]}}] == body(
        request, profile
    )["tools"]
    assert 3 == body(request, profile)["max_tool_calls"]
    assert ["server_tool_mapped"] == codes(request, profile)


def test_a_search_is_dropped_and_reported_where_there_is_none() -> None:
    request = ask(tools=(SEARCH, FUNCTION))

    assert ["f"] == [tool["name"] for tool in body(request)["tools"]]
    assert ["server_tool_dropped"] == codes(request)


def test_a_dropped_tool_that_must_be_used_is_refused() -> None:
    assert (
        "$.tool_choice"
        == refused(ask(tools=(SEARCH,), tool_choice=ToolChoice("tool", "web_search"))).path
    )


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (ToolChoice("auto"), "auto"),
        (ToolChoice("required"), "required"),
        (ToolChoice("none"), "none"),
        (ToolChoice("tool", "f"), {"type": "function", "name": "f"}),
        (
            ToolChoice("required", allowed=("f",)),
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "f"}],
            },
        ),
    ],
)
def test_tool_choice_is_written(choice: ToolChoice, expected: Any) -> None:
    assert expected == body(ask(tools=(FUNCTION,), tool_choice=choice))["tool_choice"]


def test_f3_a_choice_without_tools_is_dropped() -> None:
    request = ask(tool_choice=ToolChoice("auto"))

    assert "tool_choice" not in body(request)
    assert ["tool_choice_dropped"] == codes(request)


def test_t20_upstreams_that_know_words_only_get_the_one_tool() -> None:
    profile = structs.replace(CLONE, tool_choice="strings_only")
    request = ask(tools=(FUNCTION, Tool(name="g")), tool_choice=ToolChoice("tool", "g"))

    sent = body(request, profile)

    assert ("required", ["g"]) == (sent["tool_choice"], [tool["name"] for tool in sent["tools"]])


def test_weak_upstreams_get_what_they_take() -> None:
    profile = structs.replace(
        CLONE, tool_choice="auto_only", tool_choice_none=False, supports_parallel_flag=False
    )
    forced = ask(tools=(FUNCTION,), tool_choice=ToolChoice("required"), parallel=False)
    none = ask(tools=(FUNCTION,), tool_choice=ToolChoice("none"))

    assert ("auto", ["tool_choice_adjusted", "parallel_not_enforced"]) == (
        body(forced, profile)["tool_choice"],
        codes(forced, profile),
    )
    assert "tools" not in body(none, profile)


# --- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wish", "dialect", "expected"),
    [
        (ReasoningSettings(), "chat", None),
        (ReasoningSettings(mode="off"), "chat", {"effort": "none"}),
        (ReasoningSettings(mode="effort", effort="high"), "chat", {"effort": "high"}),
        (
            ReasoningSettings(mode="budget", budget=2_000),
            "anthropic",
            {"effort": "low", "summary": "auto"},
        ),
        (
            ReasoningSettings(mode="budget", budget=31_999),
            "anthropic",
            {"effort": "high", "summary": "auto"},
        ),
        (
            ReasoningSettings(mode="budget", budget=40_000, show="none"),
            "anthropic",
            {"effort": "xhigh"},
        ),
        (ReasoningSettings(mode="auto"), "anthropic", {"summary": "auto"}),
        (
            ReasoningSettings(mode="effort", effort="low", show="full"),
            "responses",
            {"effort": "low", "summary": "detailed"},
        ),
    ],
)
def test_reasoning_settings(wish: ReasoningSettings, dialect: str, expected: Any) -> None:
    assert expected == body(ask(reasoning=wish, dialect=dialect), OPENAI).get("reasoning")


@pytest.mark.parametrize(
    ("effort", "expected"), [("max", "high"), ("minimal", "low"), ("none", "low")]
)
def test_effort_is_moved_to_one_that_is_known(effort: str, expected: str) -> None:
    request = ask(reasoning=ReasoningSettings(mode="effort", effort=effort))

    assert {"effort": expected} == body(request)["reasoning"]
    assert ["effort_adjusted"] == codes(request)


@pytest.mark.parametrize(
    ("policy", "code"),
    [
        # The upstream has no effort `none`.
        ("disable_thinking", ["thinking_disabled_by_tool_choice", "effort_adjusted"]),
        ("downgrade", ["tool_choice_adjusted"]),
    ],
)
def test_f2_forced_tools_and_thinking(policy: Any, code: list[str]) -> None:
    profile = structs.replace(
        CLONE, forced_tool_choice_with_thinking=False, forced_tool_choice_policy=policy
    )
    request = ask(
        tools=(FUNCTION,),
        tool_choice=ToolChoice("required"),
        reasoning=ReasoningSettings(mode="effort", effort="low"),
    )

    assert code == codes(request, profile)


@pytest.mark.parametrize(
    ("schema", "strict"),
    [
        (
            b'{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}',
            True,
        ),
        (b'{"type":"object","properties":{"a":{"type":"string"}}}', False),
        (
            b'{"type":"object","additionalProperties":false,"properties":{"a":{"type":"object"}},"required":["a"]}',
            False,
        ),
    ],
)
def test_a_schema_is_strict_only_if_it_is_so_already(schema: bytes, strict: bool) -> None:
    request = ask(format=OutputFormat(kind="json_schema", schema=Raw(schema)))
    form = body(request, structs.replace(CLONE, supports_strict=True))["text"]["format"]

    assert ("json_schema", "output", strict) == (form["type"], form["name"], form["strict"])


@pytest.mark.parametrize(
    ("support", "sent"),
    [("json_object", {"format": {"type": "json_object"}}), ("instruction", None)],
)
def test_a_schema_that_cannot_be_enforced_is_an_instruction(support: Any, sent: Any) -> None:
    profile = structs.replace(CLONE, json_schema=support)
    request = ask(format=OutputFormat(kind="json_schema", schema=Raw(b'{"type":"object"}')))

    assert sent == body(request, profile).get("text")
    assert '{"type":"object"}' in body(request, profile)["instructions"]
    assert ["schema_not_enforced"] == codes(request, profile)


def test_json_mode_by_instruction() -> None:
    profile = structs.replace(CLONE, json_schema="instruction")

    assert ["json_object_emulated"] == codes(ask(format=OutputFormat(kind="json_object")), profile)


@pytest.mark.parametrize(("wish", "sent"), [(5, 16), (100, 100), (5000, 4000)])
def test_f11_output_limit_is_brought_into_range(wish: int, sent: int) -> None:
    profile = structs.replace(CLONE, max_output_tokens=4000)
    request = ask(max_output=wish)

    assert sent == body(request, profile)["max_output_tokens"]
    assert ([] if wish == sent else ["value_clamped"]) == codes(request, profile)


def test_stop_sequences_are_left_to_be_matched_on_the_answer() -> None:
    encoded = encode(ask(stop=("END",)))

    assert ("END",) == encoded.stop
    assert "stop" not in msgspec.json.decode(encoded.body)


def test_settings_that_the_dialect_lacks_are_reported() -> None:
    sampling = Sampling(
        temperature=0.5, top_k=3, seed=1, frequency_penalty=0.1, logit_bias=Raw(b"{}")
    )
    request = ask(
        sampling=sampling,
        verbosity="low",
        tier="flex",
        extensions={"prediction": Raw(b'{"type":"content"}')},
    )

    assert 0.5 == body(request)["temperature"]
    losses = encode(request).losses
    assert {
        "$.top_k",
        "$.seed",
        "$.frequency_penalty",
        "$.logit_bias",
        "$.verbosity",
        "$.service_tier",
        "$.prediction",
    } == {loss.path for loss in losses}


def test_fields_of_the_platform_go_where_they_are_known() -> None:
    request = ask(
        user_id='{"device_id":"x"}',
        cache_key="k",
        tier="flex",
        metadata=Raw(b'{"a":"b"}'),
        verbosity="low",
        logprobs=True,
        top_logprobs=2,
    )
    sent = body(request, OPENAI)

    assert ("k", "flex", {"a": "b"}, {"verbosity": "low"}, 2) == tuple(
        sent[name]
        for name in ("prompt_cache_key", "service_tier", "metadata", "text", "top_logprobs")
    )
    assert 64 == len(sent["safety_identifier"])
    assert "message.output_text.logprobs" in sent["include"]


def test_fields_of_its_own_dialect_pass() -> None:
    request = ask(
        dialect="responses", extensions={"truncation": Raw(b'"auto"'), "store": Raw(b"true")}
    )
    sent = body(request)

    assert ("auto", False) == (sent["truncation"], sent["store"])


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"count": 2}, "$.n"),
        ({"extensions": {"modalities": Raw(b'["text","audio"]')}}, "$.modalities"),
        ({"extensions": {"audio": Raw(b'{"voice":"v"}')}}, "$.audio"),
        ({"dialect": "anthropic", "extensions": {"thread": Raw(b"[{}]")}}, "$.thread"),
        ({"dialect": "anthropic", "max_output": 0}, "$.max_tokens"),
        ({"dialect": "responses", "previous_id": "resp_1"}, "$.previous_response_id"),
    ],
)
def test_what_no_upstream_of_this_dialect_can_do_is_refused(fields: Any, path: str) -> None:
    assert path == refused(ask(**fields)).path


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"sampling": Sampling(seed=1)}, "$.seed"),
        ({"tools": (SEARCH,)}, "$.tools[0]"),
        ({"verbosity": "low"}, "$.verbosity"),
        ({"format": OutputFormat(kind="json_schema", schema=Raw(b"{}"))}, "$.response_format"),
    ],
)
def test_a_strict_target_refuses_what_would_be_a_loss(fields: Any, path: str) -> None:
    profile = structs.replace(CLONE, json_schema="instruction")

    assert path == refused(ask(**fields), profile, strict=True).path
