"""A client's request, read."""

from typing import Any

import msgspec
import pytest
from msgspec import Raw

from dragoman.context import Exchange
from dragoman.dialects.responses.request_reader import decode_request
from dragoman.dialects.sealing import seal
from dragoman.envelopes import Sealer
from dragoman.errors import MalformedError, TooLargeError, UntranslatableError
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.profiles import profile
from dragoman.turn.events import Channel, Flavor, Opaque, OpaqueKind
from dragoman.turn.losses import Loss
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
    ServerToolPart,
    TextPart,
    ToolCallPart,
    ToolChoice,
    ToolResultPart,
    UrlSource,
)
from dragoman.turn.tools import ToolTable

SEALER = Sealer(b"key")
CALL = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": '{"a": 1}'}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}


def decode(items: Any = "hi", **fields: Any) -> Request:
    body = msgspec.json.encode({"model": "m", "input": items, **fields})
    return decode_request(body, sealer=SEALER, limits=DEFAULT_LIMITS)


def refused(items: Any = "hi", **fields: Any) -> MalformedError:
    with pytest.raises(MalformedError) as caught:
        decode(items, **fields)
    return caught.value


def parts(items: Any) -> list[Any]:
    return [part for turn in decode(items).turns for part in turn.parts]


# --- turns --------------------------------------------------------------------------------------


def test_a_string_is_one_user_turn() -> None:
    (turn,) = decode("hello").turns

    assert Role.USER == turn.role
    assert (TextPart("hello"),) == turn.parts


def test_instructions_and_leading_messages_are_the_system_prompt() -> None:
    request = decode(
        [
            {"role": "developer", "content": "two"},
            {
                "type": "message",
                "role": "system",
                "content": [{"type": "input_text", "text": "three"}],
            },
            {"role": "user", "content": "hi"},
        ],
        instructions="one",
    )

    assert ["one", "two", "three"] == [part.text for part in request.system]
    assert 1 == len(request.turns)


def test_f4_a_later_system_message_stays_in_its_place() -> None:
    request = decode(
        [
            {"role": "user", "content": "a"},
            {"role": "developer", "content": "now brief"},
            {"role": "user", "content": "b"},
        ]
    )

    assert [Role.USER, Role.SYSTEM, Role.USER] == [turn.role for turn in request.turns]
    assert "$.input[1]" == request.turns[1].path


def test_e2_neighbouring_items_of_the_model_are_one_turn() -> None:
    request = decode(
        [
            {"role": "user", "content": "go"},
            {
                "type": "reasoning",
                "id": "rs_1",
                "summary": [],
                "content": None,
                "encrypted_content": "gA",
            },
            {
                "type": "message",
                "role": "assistant",
                "content": [{"type": "output_text", "text": "ok"}],
            },
            CALL,
            {**CALL, "call_id": "c2"},
            OUTPUT,
            {**OUTPUT, "call_id": "c2"},
            {"role": "user", "content": "more"},
        ]
    )

    assert [Role.USER, Role.ASSISTANT, Role.USER, Role.USER] == [
        turn.role for turn in request.turns
    ]
    kinds = [type(part) for part in request.turns[1].parts]
    assert [ReasoningPart, TextPart, ToolCallPart, ToolCallPart] == kinds
    assert ["c1", "c2"] == [part.call_id for part in request.turns[2].parts]  # type: ignore[union-attr]


def test_arguments_are_kept_byte_for_byte() -> None:
    (call,) = [part for part in parts([CALL, OUTPUT]) if isinstance(part, ToolCallPart)]

    assert '{"a": 1}' == call.arguments


def test_messages_of_different_phases_are_different_turns() -> None:
    request = decode(
        [
            {"role": "assistant", "content": "looking", "phase": "commentary"},
            {"role": "assistant", "content": "done", "phase": "final_answer"},
        ]
    )

    assert ["commentary", "final_answer"] == [turn.phase for turn in request.turns]


# --- parts --------------------------------------------------------------------------------------


def user(*content: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"role": "user", "content": list(content)}]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (
            {
                "type": "input_text",
                "text": "x",
                "prompt_cache_breakpoint": {"mode": "explicit", "ttl": "12h"},
            },
            TextPart("x", CacheHint(long=True)),
        ),
        (
            {"type": "input_image", "image_url": "data:image/jpeg;base64,/9j/AA", "detail": "high"},
            ImagePart(Base64Source("image/jpeg", "/9j/AA"), "high"),
        ),
        (
            {"type": "input_image", "image_url": "data:;base64,R0lGODlh"},
            ImagePart(Base64Source("image/gif", "R0lGODlh")),
        ),
        (
            {"type": "input_image", "image_url": "https://example.com/a.png"},
            ImagePart(UrlSource("https://example.com/a.png")),
        ),
        ({"type": "input_image", "file_id": "file_1"}, ImagePart(FileSource("file_1", "openai"))),
        (
            {
                "type": "input_file",
                "file_data": "data:application/pdf;base64,JVBE",
                "filename": "a.pdf",
            },
            DocumentPart(Base64Source("application/pdf", "JVBE"), "a.pdf"),
        ),
        (
            {"type": "input_file", "file_url": "https://example.com/a.pdf"},
            DocumentPart(UrlSource("https://example.com/a.pdf")),
        ),
        ({"type": "input_file", "file_id": "file_2"}, DocumentPart(FileSource("file_2", "openai"))),
        (
            {"type": "input_audio", "input_audio": {"data": "AA", "format": "wav"}},
            AudioPart("AA", "wav"),
        ),
    ],
)
def test_content_part_is_read(given: dict[str, Any], expected: Any) -> None:
    assert [expected] == parts(user(given))


def test_assistant_text_keeps_its_annotations_and_refusals_stay_refusals() -> None:
    note = {
        "type": "url_citation",
        "url": "https://example.com",
        "title": "t",
        "start_index": 0,
        "end_index": 1,
    }
    content = [
        {"type": "output_text", "text": "x", "annotations": [note]},
        {"type": "refusal", "refusal": "no"},
    ]

    text, refusal = parts([{"role": "assistant", "content": content}])

    assert "openai" == text.vendor
    assert note == msgspec.json.decode(text.citations[0])
    assert RefusalPart("no") == refusal


def test_f8_tool_output_may_hold_images() -> None:
    output = [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "https://example.com/i"},
    ]

    result = parts([CALL, {**OUTPUT, "output": output}])[-1]

    assert (TextPart("see"), ImagePart(UrlSource("https://example.com/i"))) == result.parts


def test_custom_call_and_its_output() -> None:
    call, result = parts(
        [
            {"type": "custom_tool_call", "call_id": "c", "name": "apply_patch", "input": "*** x"},
            {"type": "custom_tool_call_output", "call_id": "c", "output": "done"},
        ]
    )

    assert ToolCallPart("c", "apply_patch", "*** x", Flavor.CUSTOM) == call
    assert ToolResultPart("c", (TextPart("done"),), flavor=Flavor.CUSTOM) == result


def test_local_shell_pairs_by_item_id_or_call_id() -> None:
    action = {
        "type": "exec",
        "command": ["ls"],
        "env": {},
        "working_directory": "/w",
        "timeout_ms": None,
    }
    call, result = parts(
        [
            {
                "type": "local_shell_call",
                "id": "lsh_1",
                "call_id": "c",
                "action": action,
                "status": "completed",
            },
            {"type": "local_shell_call_output", "id": "lsh_1", "output": "a.txt"},
        ]
    )

    expected = '{"command":["ls"],"env":{},"workdir":"/w"}'
    assert ToolCallPart("c", "local_shell", expected, Flavor.LOCAL_SHELL) == call
    assert ToolResultPart("c", (TextPart("a.txt"),), flavor=Flavor.LOCAL_SHELL) == result


def test_shell_output_becomes_text_with_its_outcome() -> None:
    outputs = [
        {"stdout": "a\n", "stderr": "", "outcome": {"type": "exit", "exit_code": 2}},
        {"stdout": "", "stderr": "slow", "outcome": {"type": "timeout"}},
    ]
    call, result = parts(
        [
            {"type": "shell_call", "call_id": "c", "action": {"commands": ["ls"]}},
            {"type": "shell_call_output", "call_id": "c", "output": outputs},
        ]
    )

    assert '{"commands":["ls"]}' == call.arguments
    assert (TextPart("a\n[exit code 2]\nslow\n[timed out]"),) == result.parts


def test_failed_patch_is_an_error() -> None:
    operation = {"type": "delete_file", "path": "a"}
    call, result = parts(
        [
            {
                "type": "apply_patch_call",
                "call_id": "c",
                "operation": operation,
                "status": "completed",
            },
            {
                "type": "apply_patch_call_output",
                "call_id": "c",
                "status": "failed",
                "output": "no such file",
            },
        ]
    )

    assert {"operation": operation} == msgspec.json.decode(call.arguments)
    assert ToolResultPart("c", (TextPart("no such file"),), True, Flavor.APPLY_PATCH) == result


def test_hosted_items_are_carried_whole_with_a_line_about_them() -> None:
    item = {
        "type": "web_search_call",
        "id": "ws_1",
        "status": "completed",
        "action": {"type": "search", "query": "q"},
    }

    (part,) = parts([item])

    assert isinstance(part, ServerToolPart)
    assert ("openai", "[web_search: q]") == (part.vendor, part.summary)
    assert item == msgspec.json.decode(part.raw)


def test_compaction_is_carried_whole() -> None:
    (part,) = parts([{"type": "compaction", "encrypted_content": "gA"}])

    assert isinstance(part, OpaquePart)
    assert ("openai", "$.input[0]") == (part.vendor, part.path)


def test_tools_declared_inside_the_conversation_are_tools() -> None:
    request = decode(
        [
            {
                "type": "additional_tools",
                "role": "developer",
                "tools": [{"type": "function", "name": "late"}],
            }
        ]
    )

    assert ["late"] == [tool.name for tool in request.tools]


# --- reasoning ----------------------------------------------------------------------------------


def test_genuine_reasoning_keeps_its_encrypted_state() -> None:
    (part,) = parts(
        [
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "s"}],
                "content": [{"type": "reasoning_text", "text": "t"}],
                "encrypted_content": "gAAA",
            }
        ]
    )

    assert (ReasoningSegment("s", Channel.SUMMARY), ReasoningSegment("t")) == part.segments
    assert (OpaqueState(OpaqueKind.ENCRYPTED, "gAAA", "openai"),) == part.opaque


def sealed(opaque: Opaque, text: str, call_id: str = "") -> str:
    exchange = Exchange(profile=profile("anthropic"), sealer=SEALER)
    envelope = seal(exchange, [opaque], text, keep_text=True, call_id=call_id)
    assert envelope is not None
    return envelope


def test_e5_an_envelope_gives_back_what_was_sealed() -> None:
    envelope = sealed(Opaque(0, OpaqueKind.SIGNATURE, "sig", "anthropic"), "thought")

    (part,) = parts(
        [
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "other"}],
                "encrypted_content": envelope,
            }
        ]
    )

    assert "thought" == part.text
    assert (OpaqueState(OpaqueKind.SIGNATURE, "sig", "anthropic"),) == part.opaque


def test_d4_a_signature_returns_to_its_call() -> None:
    envelope = sealed(Opaque(0, OpaqueKind.TOOL_SIGNATURE, "x" * 2000, "gemini"), "", "c1")

    call, _ = parts(
        [{"type": "reasoning", "summary": [], "encrypted_content": envelope}, CALL, OUTPUT]
    )

    assert (OpaqueState(OpaqueKind.TOOL_SIGNATURE, "x" * 2000, "gemini"),) == call.opaque


def test_an_envelope_of_another_key_is_reported() -> None:
    other = Sealer(b"other")
    exchange = Exchange(profile=profile("anthropic"), sealer=other)
    envelope = seal(
        exchange, [Opaque(0, OpaqueKind.SIGNATURE, "sig", "anthropic")], "t", keep_text=True
    )

    request = decode([{"type": "reasoning", "summary": [], "encrypted_content": envelope}])

    assert () == request.turns
    assert ["opaque_invalid"] == [loss.code for loss in request.losses]


def test_a_reference_to_reasoning_is_dropped_and_reported() -> None:
    request = decode([{"role": "user", "content": "x"}, {"type": "item_reference", "id": "rs_1"}])

    assert 1 == len(request.turns)
    assert (Loss("reasoning_dropped", "$.input[1]", "rs_1 is a reference"),) == request.losses


@pytest.mark.parametrize("item", [{"type": "item_reference", "id": "msg_1"}, {"id": "msg_1"}])
def test_a_reference_to_anything_else_is_refused_with_advice(item: dict[str, str]) -> None:
    error = refused([{"role": "user", "content": "x"}, item])

    assert ("$.input[1].id", "item_not_found") == (error.path, error.code)
    assert "send the item itself" in error.reason


# --- tools --------------------------------------------------------------------------------------


def test_p_4_tools_of_every_kind_are_read() -> None:
    request = decode(
        tools=[
            {
                "type": "function",
                "name": "f",
                "description": "d",
                "parameters": {"type": "object"},
                "strict": True,
            },
            {
                "type": "custom",
                "name": "c",
                "format": {"type": "grammar", "syntax": "lark", "definition": "x: y"},
            },
            {"type": "local_shell"},
            {"type": "shell", "environment": {"type": "container_auto"}},
            {"type": "apply_patch"},
            {"type": "web_search", "external_web_access": True},
        ]
    )

    function, custom, local, hosted, patch, search = request.tools
    assert ("f", "d", True, Raw(b'{"type":"object"}')) == (
        function.name,
        function.description,
        function.strict,
        function.schema,
    )
    assert (Flavor.CUSTOM, ("lark", "x: y")) == (custom.flavor, custom.grammar)
    assert [Flavor.LOCAL_SHELL, Flavor.APPLY_PATCH] == [local.flavor, patch.flavor]
    assert local.schema is not None
    assert [(True, "shell"), (True, "web_search")] == [
        (one.server, one.kind) for one in (hosted, search)
    ]


def test_f6_tools_of_a_namespace_know_it() -> None:
    inner = [
        {"type": "function", "name": "spawn", "parameters": {}},
        {"type": "custom", "name": "say"},
    ]
    request = decode(
        tools=[{"type": "namespace", "name": "agents", "description": "d", "tools": inner}]
    )

    assert [("agents", "spawn"), ("agents", "say")] == [
        (one.namespace, one.name) for one in request.tools
    ]
    assert "$.tools[0].tools[1]" == request.tools[1].path


def test_f6_tools_that_collide_once_flattened_are_refused() -> None:
    request = decode(
        tools=[
            {"type": "function", "name": "a__b"},
            {"type": "namespace", "name": "a", "tools": [{"type": "function", "name": "b"}]},
        ]
    )

    with pytest.raises(UntranslatableError, match="flattened"):
        ToolTable(request.tools)


TOOLS = [{"type": "function", "name": "f"}, {"type": "web_search"}]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("auto", ToolChoice("auto")),
        ("required", ToolChoice("required")),
        ({"type": "function", "name": "f"}, ToolChoice("tool", "f")),
        ({"type": "web_search_preview"}, ToolChoice("tool", "web_search")),
        (
            {
                "type": "allowed_tools",
                "mode": "required",
                "tools": [{"type": "function", "name": "f"}],
            },
            ToolChoice("required", allowed=("f",)),
        ),
    ],
)
def test_tool_choice_is_read(given: Any, expected: ToolChoice) -> None:
    assert expected == decode(tools=TOOLS, tool_choice=given).tool_choice


# --- settings -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, ReasoningSettings(show="none")),
        (
            {"effort": "high", "summary": "auto"},
            ReasoningSettings(mode="effort", effort="high", show="summary"),
        ),
        ({"effort": "none"}, ReasoningSettings(mode="off", effort="none", show="none")),
        ({"generate_summary": "detailed"}, ReasoningSettings(show="full")),
    ],
)
def test_reasoning_settings_are_read(given: Any, expected: ReasoningSettings) -> None:
    assert expected == decode(reasoning=given).reasoning


def test_output_format_is_read() -> None:
    form = {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}
    request = decode(text={"format": form, "verbosity": "low"})

    assert (
        OutputFormat(kind="json_schema", name="n", schema=Raw(b'{"type":"object"}'), strict=True)
        == request.format
    )
    assert "low" == request.verbosity


def test_fields_without_a_place_are_kept_and_noise_is_not() -> None:
    request = decode(
        truncation="auto",
        client_metadata={"a": 1},
        max_tool_calls=None,
        unknown={"x": 1},
        previous_response_id="resp_1",
    )

    assert {"truncation": Raw(b'"auto"'), "unknown": Raw(b'{"x":1}')} == request.extensions
    assert "resp_1" == request.previous_id


def test_logprobs_are_asked_for_by_include() -> None:
    request = decode(include=["message.output_text.logprobs"], top_logprobs=3)

    assert (True, 3) == (request.logprobs, request.top_logprobs)


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "path"),
    [
        (
            [{"role": "user", "content": [{"type": "input_text", "text": 5}]}],
            "$.input[0].content[0].text",
        ),
        ([{"role": "user", "content": [{"type": "video"}]}], "$.input[0].content[0]"),
        ([{"role": "robot", "content": "x"}], "$.input[0].role"),
        ([{"type": "function_call", "name": "f"}], "$.input[0]"),
        (["x"], "$.input[0]"),
        (5, "$.input"),
        ([{"role": "user", "content": [{"type": "input_image"}]}], "$.input[0].content[0]"),
        ([{"role": "user", "content": [{"type": "input_file"}]}], "$.input[0].content[0]"),
        (
            [CALL, {**OUTPUT, "output": [{"type": "refusal", "refusal": "x"}]}],
            "$.input[1].output[0]",
        ),
        (
            [{"role": "system", "content": [{"type": "input_image", "file_id": "x"}]}],
            "$.input[0].content[0]",
        ),
        ([{"type": "local_shell_call", "action": {}}], "$.input[0]"),
    ],
)
def test_p_7_a_bad_item_is_refused_with_its_path(items: Any, path: str) -> None:
    assert path == refused(items).path


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"temperature": "hot"}, "$.temperature"),
        ({"tools": [{"type": "function"}]}, "$.tools[0]"),
        (
            {"tools": [{"type": "function", "name": "f", "parameters": "x"}]},
            "$.tools[0].parameters",
        ),
        ({"tools": [{"name": "f"}]}, "$.tools[0]"),
        ({"tools": TOOLS, "tool_choice": {"type": "function", "name": "g"}}, "$.tool_choice"),
        ({"tool_choice": "sometimes"}, "$.tool_choice"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "$.text.format"),
        ({"text": {"format": {"type": "xml"}}}, "$.text.format.type"),
    ],
)
def test_p_7_a_bad_field_is_refused_with_its_path(fields: Any, path: str) -> None:
    assert path == refused(**fields).path


@pytest.mark.parametrize(
    ("name", "value"), [("conversation", "conv_1"), ("background", True), ("prompt", {"id": "p"})]
)
def test_state_that_is_not_kept_here_is_refused(name: str, value: Any) -> None:
    error = refused(**{name: value})

    assert (f"$.{name}", "unsupported_parameter") == (error.path, error.code)


def test_a_request_past_the_limit_is_refused() -> None:
    with pytest.raises(TooLargeError, match="max_request_bytes"):
        decode_request(
            b'{"model":"m","input":"x"}', sealer=None, limits=Limits(max_request_bytes=10)
        )


def test_half_a_surrogate_pair_costs_no_request() -> None:
    body = b'{"model":"m","input":[{"role":"user","content":"a \\ud83d b"}],"tools":[]}'

    request = decode_request(body, sealer=None, limits=DEFAULT_LIMITS)

    assert 1 == len(request.turns)
