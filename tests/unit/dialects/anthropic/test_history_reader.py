"""Blocks of a client's history."""

from typing import Any

import pytest

from dragoman.dialects.server_tools import MARK
from dragoman.envelopes import Envelope, text_digest
from dragoman.errors import MalformedError
from dragoman.turn.events import Channel, OpaqueKind
from dragoman.turn.request import (
    Base64Source,
    CacheHint,
    DocumentPart,
    FileSource,
    ImagePart,
    OpaquePart,
    OpaqueState,
    ReasoningPart,
    ReasoningSegment,
    Role,
    SearchResultPart,
    ServerToolPart,
    TextPart,
    TextSource,
    ToolCallPart,
    ToolResultPart,
    UrlSource,
)
from tests.support.messages import SEALER, USER, decode, parts

CALL = {"type": "tool_use", "id": "t1", "name": "ls", "input": {}}


def sealed(kind: OpaqueKind, text: str = "", **fields: Any) -> str:
    envelope = Envelope("moonshot", kind, digest=text_digest(text), **fields)
    out = SEALER.seal(envelope)
    assert out is not None
    return out


def test_text_is_a_string_or_blocks() -> None:
    request = decode(USER, {"role": "assistant", "content": [{"type": "text", "text": "Yes."}]})

    assert (TextPart("Hi."),) == request.turns[0].parts
    assert (TextPart("Yes."),) == request.turns[1].parts
    assert (Role.USER, Role.ASSISTANT) == tuple(turn.role for turn in request.turns)


def test_empty_content_has_no_parts() -> None:
    assert () == decode({"role": "user", "content": ""}).turns[0].parts


def test_text_keeps_cache_marks_and_citations() -> None:
    mark = {"type": "ephemeral", "ttl": "1h"}
    cited = {
        "type": "text",
        "text": "a",
        "citations": [{"type": "char_location"}],
        "cache_control": mark,
    }

    (part,) = parts(cited)

    assert CacheHint(long=True) == part.cache
    assert "anthropic" == part.vendor
    assert b'{"type":"char_location"}' == bytes(part.citations[0])


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            {"type": "base64", "media_type": "image/png", "data": "AA=="},
            Base64Source("image/png", "AA=="),
        ),
        ({"type": "url", "url": "https://x.example/a"}, UrlSource("https://x.example/a")),
        ({"type": "file", "file_id": "file_1"}, FileSource("file_1", "anthropic")),
    ],
    ids=["base64", "url", "file"],
)
def test_image_and_document_have_the_same_sources(source: dict[str, str], expected: object) -> None:
    image, document = parts(
        {"type": "image", "source": source}, {"type": "document", "source": source}, role="user"
    )

    assert ImagePart(expected) == image
    assert DocumentPart(expected) == document


def test_document_may_be_text_or_parts() -> None:
    text, string, inner = parts(
        {
            "type": "document",
            "source": {"type": "text", "media_type": "text/plain", "data": "a"},
            "title": "T",
        },
        {
            "type": "document",
            "source": {"type": "content", "content": "b"},
            "citations": {"enabled": True},
        },
        {
            "type": "document",
            "source": {
                "type": "content",
                "content": [
                    {"type": "text", "text": "c"},
                    {"type": "image", "source": {"type": "url", "url": "https://x.example"}},
                ],
            },
            "context": "from the user",
        },
        role="user",
    )

    assert DocumentPart(TextSource("a"), "T") == text
    assert DocumentPart(None, cite=True, parts=(TextPart("b"),)) == string
    assert "from the user" == inner.context
    assert (TextPart("c"), ImagePart(UrlSource("https://x.example"))) == inner.parts


def test_search_result_is_kept() -> None:
    block = {
        "type": "search_result",
        "source": "s",
        "title": "t",
        "content": [{"type": "text", "text": "x"}],
    }

    assert (SearchResultPart("s", "t", (TextPart("x"),)),) == parts(block, role="user")
    cited = block | {"citations": {"enabled": True}}
    assert (SearchResultPart("s", "t", (TextPart("x"),), cite=True),) == parts(cited, role="user")


def test_call_keeps_its_arguments_byte_for_byte() -> None:
    from dragoman.dialects.anthropic import DIALECT
    from dragoman.limits import DEFAULT_LIMITS

    body = (
        b'{"model":"m","messages":[{"role":"assistant","content":[{"type":"tool_use","id":"t1",'
        b'"name":"ls","input":{"b": 1.0,\n "a":[ ]}}]}]}'
    )
    request = DIALECT.decode_request(body, sealer=None, limits=DEFAULT_LIMITS)

    assert (ToolCallPart("t1", "ls", '{"b": 1.0,\n "a":[ ]}'),) == request.turns[0].parts


def test_call_without_input_has_no_arguments() -> None:
    assert (ToolCallPart("t1", "ls", "{}"),) == parts(
        {"type": "tool_use", "id": "t1", "name": "ls"}
    )


@pytest.mark.parametrize(
    ("block", "path"),
    [
        (CALL | {"input": "text"}, "$.messages[1].content[1].input"),
        (CALL | {"name": ""}, "$.messages[1].content[1].name"),
        ({"type": "tool_use", "id": "t1"}, "$.messages[1].content[1]"),
        ({"type": "text", "text": 5}, "$.messages[1].content[1].text"),
        ({"text": "no type"}, "$.messages[1].content[1]"),
        ({"type": "image", "source": {"type": "ftp"}}, "$.messages[1].content[1].source.type"),
        ({"type": "image", "source": 1}, "$.messages[1].content[1].source"),
        ("text", "$.messages[1].content[1]"),
    ],
    ids=["input", "name", "missing", "text", "type", "source", "no source", "no block"],
)
def test_wrong_block_is_refused_with_its_path(block: Any, path: str) -> None:
    with pytest.raises(MalformedError) as raised:
        parts({"type": "text", "text": "a"}, block)

    assert path == raised.value.path


def test_f8_result_may_hold_text_images_documents_and_search_results() -> None:
    source = {"type": "base64", "media_type": "image/png", "data": "AA=="}
    result = {
        "type": "tool_result",
        "tool_use_id": "t1",
        "is_error": True,
        "content": [
            {"type": "text", "text": "a"},
            {"type": "image", "source": source},
            {"type": "document", "source": {"type": "text", "data": "d"}},
            {"type": "search_result", "source": "s", "title": "t", "content": []},
        ],
    }

    (part,) = parts(result, role="user")

    assert ("t1", True) == (part.call_id, part.is_error)
    assert [TextPart, ImagePart, DocumentPart, SearchResultPart] == [
        type(one) for one in part.parts
    ]


@pytest.mark.parametrize("content", [None, "", []])
def test_result_may_be_empty(content: Any) -> None:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": content}

    assert (ToolResultPart("t1"),) == parts(block, role="user")


def test_result_keeps_its_cache_mark() -> None:
    block = {"type": "tool_result", "tool_use_id": "t1", "cache_control": {"type": "ephemeral"}}

    assert (ToolResultPart("t1", cache=CacheHint()),) == parts(block, role="user")


def test_genuine_thinking_is_the_vendors_own_state() -> None:
    (part,) = parts({"type": "thinking", "thinking": "Hm.", "signature": "EqQB"}, CALL)[:1]

    state = OpaqueState(OpaqueKind.SIGNATURE, "EqQB", "anthropic")
    assert ReasoningPart((ReasoningSegment("Hm.", Channel.SUMMARY),), (state,)) == part


def test_e1_thinking_in_an_envelope_returns_to_its_origin() -> None:
    signature = sealed(OpaqueKind.PLAIN, "Hm.")

    (part,) = parts({"type": "thinking", "thinking": "Hm.", "signature": signature})

    assert (OpaqueState(OpaqueKind.PLAIN, "", "moonshot"),) == part.opaque
    assert (ReasoningSegment("Hm.", Channel.FULL),) == part.segments


def test_unsigned_thinking_is_kept_as_text() -> None:
    (part,) = parts({"type": "thinking", "thinking": "Hm."})

    assert ReasoningPart((ReasoningSegment("Hm.", Channel.SUMMARY),)) == part


def test_empty_thinking_without_signature_is_nothing() -> None:
    assert () == parts({"type": "thinking", "thinking": "", "signature": ""})


def test_e5_forged_envelope_is_reported_and_its_text_kept() -> None:
    request = decode(
        USER,
        {
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "Hm.", "signature": "dgm1.x.y"}],
        },
    )

    assert ["opaque_invalid"] == [loss.code for loss in request.losses]
    assert "$.messages[1].content[0].signature" == request.losses[0].path
    assert () == request.turns[1].parts[0].opaque


def test_redacted_thinking_is_genuine_or_an_envelope() -> None:
    envelope = sealed(OpaqueKind.ENCRYPTED, data="gAAA", item_id="rs_1")

    genuine, foreign = parts(
        {"type": "redacted_thinking", "data": "Emw"},
        {"type": "redacted_thinking", "data": envelope},
    )

    assert (OpaqueState(OpaqueKind.REDACTED, "Emw", "anthropic"),) == genuine.opaque
    assert (OpaqueState(OpaqueKind.ENCRYPTED, "gAAA", "moonshot", "rs_1"),) == foreign.opaque


def test_redacted_thinking_that_does_not_open_is_left_out_and_reported() -> None:
    content = [{"type": "redacted_thinking", "data": "dgm1.x.y"}, {"type": "text", "text": "a"}]
    request = decode(USER, {"role": "assistant", "content": content})

    assert (TextPart("a"),) == request.turns[1].parts
    assert ["opaque_invalid"] == [loss.code for loss in request.losses]


def test_d4_signature_of_a_call_returns_to_its_call() -> None:
    envelope = sealed(OpaqueKind.TOOL_SIGNATURE, data="sig", call_id="t2")

    first, second = parts(
        CALL, {"type": "redacted_thinking", "data": envelope}, CALL | {"id": "t2"}
    )

    assert () == first.opaque
    assert (OpaqueState(OpaqueKind.TOOL_SIGNATURE, "sig", "moonshot"),) == second.opaque


def test_signature_of_a_call_that_is_gone_is_reported() -> None:
    envelope = sealed(OpaqueKind.TOOL_SIGNATURE, data="sig", call_id="t9")
    content = [{"type": "redacted_thinking", "data": envelope}, CALL]

    request = decode(USER, {"role": "assistant", "content": content})

    assert ["opaque_invalid"] == [loss.code for loss in request.losses]


@pytest.mark.parametrize("role", ["user", "assistant"])
def test_unknown_block_of_a_user_is_refused_and_of_history_kept(role: str) -> None:
    block = {"type": "hologram", "shape": "cube"}
    if role == "user":
        with pytest.raises(MalformedError) as raised:
            parts(block, role=role)
        assert ("$.messages[1].content[0]", "unsupported_content_block") == (
            raised.value.path,
            raised.value.code,
        )
        return

    (part,) = parts(block, role=role)

    assert ("anthropic", b'{"type":"hologram","shape":"cube"}', "") == (
        part.vendor,
        bytes(part.raw),
        part.path,
    )


def test_unknown_block_inside_a_result_is_refused() -> None:
    block = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "browser_state"}]}

    with pytest.raises(MalformedError) as raised:
        parts(block, role="user")

    assert "unsupported_content_block" == raised.value.code
    assert "$.messages[1].content[0].content[0].type" == raised.value.path


def test_known_blocks_beside_rare_ones_are_read_as_ever() -> None:
    text, server, call = parts(
        {"type": "text", "text": "a"},
        {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {"query": "oslo"}},
        CALL,
    )

    assert (TextPart("a"), ToolCallPart("t1", "ls", "{}")) == (text, call)
    assert isinstance(server, ServerToolPart)
    assert "[web_search: oslo]" == server.summary


@pytest.mark.parametrize(
    ("block", "summary"),
    [
        (
            {"type": "server_tool_use", "name": "web_fetch", "input": {"url": "https://x.example"}},
            "[web_fetch: https://x.example]",
        ),
        (
            {"type": "server_tool_use", "name": "code_execution", "input": {"code": "1"}},
            '[code_execution: {"code":"1"}]',
        ),
        ({"type": "mcp_tool_use", "input": 5}, "[mcp_tool_use: 5]"),
        (
            {
                "type": "web_search_tool_result",
                "content": [{"title": "A", "url": "u"}, {"title": "B"}, 1],
            },
            "[web_search result: A u; B]",
        ),
        (
            {"type": "code_execution_tool_result", "content": {"stdout": "1"}},
            "[code_execution result: not shown]",
        ),
        ({"type": "web_search_tool_result"}, "[web_search result: not shown]"),
    ],
)
def test_vendor_run_tools_are_summed_up_in_a_line(block: dict[str, Any], summary: str) -> None:
    (part,) = parts(block)

    assert summary == part.summary


def test_compaction_is_readable_or_cannot_be_left_out() -> None:
    readable, opaque = parts(
        {"type": "compaction", "content": "So far."}, {"type": "compaction", "content": None}
    )

    assert ("So far.", "") == (readable.text, readable.path)
    assert ("", "$.messages[1].content[1]") == (opaque.text, opaque.path)


def test_uploads_and_tool_changes_are_the_vendors_own() -> None:
    (upload,) = parts({"type": "container_upload", "file_id": "f"}, role="user")
    (change,) = parts({"type": "tool_addition", "name": "x"}, role="system")

    assert isinstance(upload, OpaquePart)
    assert isinstance(change, OpaquePart)
    assert "$.messages[1].content[0]" == change.path


def test_f4_instruction_inside_the_conversation_keeps_its_place() -> None:
    request = decode(
        USER, {"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "Ok"}
    )

    assert [Role.USER, Role.SYSTEM, Role.ASSISTANT] == [turn.role for turn in request.turns]
    assert ["$.messages[0]", "$.messages[1]", "$.messages[2]"] == [
        turn.path for turn in request.turns
    ]


# --- vendor-run tools of other vendors, which were written for this client ----------------------------

MADE_CALL = f"srvtoolu_{MARK}1"
STATE = (
    '{"vendor":"openai","blocks":[["[web_search: q]",{"type":"web_search_call"}]],"reasoned":true}'
)


def search(sealed_state: object, *, call: bool = True) -> list[dict[str, Any]]:
    hit = {"type": "web_search_result", "url": "https://a", "encrypted_content": sealed_state}
    made = {
        "type": "server_tool_use",
        "id": MADE_CALL,
        "name": "web_search",
        "input": {"query": "q"},
    }
    result = {"type": "web_search_tool_result", "tool_use_id": MADE_CALL, "content": [hit]}
    return [made, result] if call else [result]


def envelope(**changes: Any) -> str:
    facts = {"kind": OpaqueKind.SERVER, "data": STATE, "call_id": MADE_CALL, **changes}
    out = SEALER.seal(Envelope("openai", **facts))
    assert out is not None
    return out


@pytest.mark.parametrize("call", [True, False])
def test_search_of_another_vendor_returns_to_it_from_its_envelope(call: bool) -> None:
    (part,) = parts(*search(envelope(), call=call))

    assert ("openai", "openai", True) == (part.vendor, part.origin, part.reasoned)
    assert b'{"type":"web_search_call"}' == bytes(part.raw)


@pytest.mark.parametrize(
    ("state", "reported"),
    [
        ("not an envelope", False),
        (None, False),
        (envelope(call_id="srvtoolu_other"), True),
        (envelope(kind=OpaqueKind.PLAIN), True),
        (envelope(data="not JSON"), False),
    ],
    ids=["no envelope", "nothing", "of another call", "of another kind", "unreadable"],
)
def test_search_that_cannot_be_restored_goes_to_no_vendor(state: object, reported: bool) -> None:
    request = decode(USER, {"role": "assistant", "content": search(state)})

    assert [("", ""), ("", "")] == [(one.vendor, one.origin) for one in request.turns[1].parts]
    assert (["opaque_invalid"] if reported else []) == [one.code for one in request.losses]


def test_search_result_of_an_unknown_shape_is_kept_as_words() -> None:
    (part,) = parts(
        {"type": "web_search_tool_result", "tool_use_id": MADE_CALL, "content": {"error_code": "e"}}
    )

    assert ("", "[web_search result: not shown]") == (part.vendor, part.summary)


@pytest.mark.parametrize(
    ("citation", "kept"),
    [
        ({"type": "web_search_result_location", "encrypted_index": "x"}, True),
        ({"type": "web_search_result_location", "encrypted_index": ""}, False),
        ({"type": "web_search_result_location"}, False),
        ({"type": "char_location"}, True),
        ({"type": 3}, True),
    ],
)
def test_citations_that_were_made_here_are_not_sent_to_the_vendor(
    citation: dict[str, Any], kept: bool
) -> None:
    (part,) = parts({"type": "text", "text": "a", "citations": [citation]})

    expected = (1, "anthropic") if kept else (0, "")
    assert expected == (len(part.citations), part.vendor)


def test_reference_to_a_deferred_tool_is_a_sentence_and_names_the_tool() -> None:
    request = decode(
        USER,
        {"role": "assistant", "content": [CALL]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "tool_reference", "tool_name": "grep"}],
                }
            ],
        },
    )

    (result,) = request.turns[2].parts
    assert (TextPart("The tool grep is now available."),) == result.parts
    (loss,) = request.losses
    assert ("tool_content_flattened", "$.messages[2].content[0].content[0]") == (
        loss.code,
        loss.path,
    )
