"""Turns become contents that Google accepts."""

import json

import pytest
from msgspec import Raw, structs

from dragoman.dialects import dialect
from dragoman.dialects.gemini.schema import PLACEHOLDER
from dragoman.errors import UntranslatableError
from dragoman.profiles import profile
from dragoman.translate_requests import translate_request
from dragoman.turn.events import OpaqueKind
from dragoman.turn.request import (
    ASSISTANT,
    SYSTEM,
    USER,
    AudioPart,
    Base64Source,
    DocumentPart,
    FileSource,
    ImagePart,
    OpaquePart,
    OpaqueState,
    ReasoningPart,
    ReasoningSegment,
    Request,
    SearchResultPart,
    ServerToolPart,
    TextPart,
    TextSource,
    ToolCallPart,
    ToolResultPart,
    Turn,
    UrlSource,
)
from tests.unit.dialects.gemini.support import target, written

PNG = ImagePart(Base64Source("image/png", "aGk="))
SIGNED = OpaqueState(
    OpaqueKind.TOOL_SIGNATURE, '{"google":{"thought_signature":"U0lH"}}', "gemini-api"
)


def said(*turns, dialect="anthropic", **more):
    return Request(dialect=dialect, model="m", turns=tuple(turns), **more)


def user(*parts):
    return Turn(USER, tuple(TextPart(one) if isinstance(one, str) else one for one in parts))


def model(*parts):
    return Turn(ASSISTANT, tuple(TextPart(one) if isinstance(one, str) else one for one in parts))


def call(call_id="k1", name="look", *opaque):
    return ToolCallPart(call_id, name, '{"a":1}', opaque=opaque)


def result(call_id="k1", *parts, failed=False):
    return ToolResultPart(
        call_id, tuple(TextPart(one) if isinstance(one, str) else one for one in parts), failed
    )


def contents(request, to=None):
    body, losses = written(request, to)
    return body["contents"], losses


def test_calls_and_results_keep_their_ids_and_names():
    found, losses = contents(
        said(
            user("x"),
            model("Two.", call("k1", "look", SIGNED), call("k2", "find")),
            user(result("k2", "b"), result("k1", "no", failed=True), "And?"),
        )
    )

    assert [
        {"text": "Two."},
        {
            "functionCall": {"name": "look", "args": {"a": 1}, "id": "k1"},
            "thoughtSignature": "U0lH",
        },
        {"functionCall": {"name": "find", "args": {"a": 1}, "id": "k2"}},
    ] == found[1]["parts"]
    assert [
        {"functionResponse": {"name": "look", "response": {"error": "no"}, "id": "k1"}},
        {"functionResponse": {"name": "find", "response": {"output": "b"}, "id": "k2"}},
        {"text": "And?"},
    ] == found[2]["parts"]
    assert [] == losses


@pytest.mark.parametrize("source", ["chat", "gemini"])
def test_a_server_that_refuses_ids_gets_calls_and_results_in_one_order_without_ids(source):
    calls = model(call("k1", "look", SIGNED), call("k2", "look"))
    first = said(user("x"), calls, user(result("k2", "b"), result("k1", "a")))
    body = dialect(source).encode_request(first, target("m")).body
    without = structs.replace(profile("gemini-api"), send_ids=False)

    made = translate_request(
        body, source=source, target="gemini", profile=without, model="gemini-3-pro"
    )

    _, called, answered = json.loads(made.body)["contents"]
    found = [part["functionCall"] for part in called["parts"]]
    assert [{"name": "look", "args": {"a": 1}}] * 2 == found
    texts = [part["functionResponse"] for part in answered["parts"]]
    assert [{"name": "look", "response": {"output": text}} for text in "ab"] == texts


def test_only_the_current_turn_of_gemini_3_needs_signatures():
    request = said(
        user("x"), model(call("k0")), user(result("k0")), model("Done."),
        user("y"), model(call("k1"), call("k2")), user(result("k1"), result("k2")),
        model(call("k3", "look", SIGNED)), user(result("k3")),
    )  # fmt: skip
    found, losses = contents(request)
    signatures = [
        part.get("thoughtSignature")
        for one in found
        for part in one["parts"]
        if "functionCall" in part
    ]

    assert [None, PLACEHOLDER, None, "U0lH"] == signatures
    assert ["reasoning_filled"] == losses
    assert [] == contents(request, target("gemini-2.5-flash"))[1]


def test_a_signature_from_a_chat_client_returns_and_one_of_another_vendor_does_not():
    chat = OpaqueState(OpaqueKind.TOOL_SIGNATURE, SIGNED.data, "chat")
    other = OpaqueState(OpaqueKind.TOOL_SIGNATURE, SIGNED.data, "vertex")

    for state, expected in ((chat, "U0lH"), (other, PLACEHOLDER)):
        found, _ = contents(said(user("x"), model(call("k1", "f", state)), user(result())))
        assert expected == found[1]["parts"][0]["thoughtSignature"]


@pytest.mark.parametrize(
    ("origin", "model_name", "returns"),
    [
        ("gemini-api/3", "gemini-3-pro", True),
        ("gemini-api/3", "gemini-3.1-pro-preview", True),
        ("gemini-api/3", "gemini-2.5-pro", False),
        ("gemini-api/2.5", "gemini-3-pro", False),
        ("gemini-api/2.5", "gemini-2.0-flash", False),
        ("gemini-api/3", "gemini-flash-latest", True),  # whichever that is
        ("gemini-api", "gemini-3-pro", True),  # the upstream did not name its model
        ("vertex/3", "gemini-3-pro", False),
        ("google", "gemini-3-pro", False),  # only a client of the same dialect has it so
    ],
)
def test_a_signature_returns_to_its_own_front_and_family(origin, model_name, returns):
    call_state = OpaqueState(OpaqueKind.TOOL_SIGNATURE, SIGNED.data, origin)
    thought = OpaqueState(OpaqueKind.SIGNATURE, "QUE=", origin)
    reasoning = ReasoningPart((ReasoningSegment("Hm."),), (thought,))
    request = said(user("x"), model(reasoning, call("k1", "f", call_state)), user(result()))
    found, losses = contents(request, target(model_name))
    signatures = [part.get("thoughtSignature") for part in found[1]["parts"]]

    assert returns is ("U0lH" in signatures)
    assert returns is ("QUE=" in signatures)
    assert returns is ("opaque_dropped" not in losses)


def test_signatures_of_thoughts_and_texts_return_to_their_parts():
    thought = OpaqueState(OpaqueKind.SIGNATURE, "QUE=", "gemini-api")
    text = OpaqueState(OpaqueKind.ENCRYPTED, "QkI=", "gemini-api", "text")
    found, losses = contents(
        said(
            user("x"),
            model(
                ReasoningPart((ReasoningSegment("Hm."),), (thought,)),
                "Well.",
                ReasoningPart((), (text,)),
            ),
            user("y"),
        )
    )

    assert [
        {"text": "Hm.", "thought": True, "thoughtSignature": "QUE="},
        {"text": "Well.", "thoughtSignature": "QkI="},
    ] == found[1]["parts"]
    assert [] == losses


def test_reasoning_of_others_is_never_sent_as_thoughts():
    foreign = OpaqueState(OpaqueKind.SIGNATURE, "x", "anthropic")
    found, losses = contents(
        said(
            user("x"),
            model(
                ReasoningPart((ReasoningSegment("Hm."),), (foreign,)),
                ReasoningPart((ReasoningSegment("Ah."),)),
                "Well.",
            ),
            user("y"),
        )
    )

    assert [{"text": "Well."}] == found[1]["parts"]
    assert ["opaque_dropped", "reasoning_dropped"] == losses


def test_files_of_results_are_inside_with_gemini_3_and_behind_before():
    request = said(
        user("x"), model(call("k1"), call("k2")), user(result("k1", "ok", PNG), result("k2", "b"))
    )
    inline = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    found, losses = contents(request)

    assert [inline] == found[2]["parts"][0]["functionResponse"]["parts"]
    assert ["reasoning_filled"] == losses
    found, losses = contents(request, target("gemini-2.5-pro"))
    first, second, mark, image = found[2]["parts"]
    assert {"output": "ok\n[file 1 of call k1 follows]"} == first["functionResponse"]["response"]
    assert "functionResponse" in second
    assert ({"text": "[files of call k1]"}, inline) == (mark, image)
    assert ["tool_image_moved"] == losses


def test_users_come_first_and_last_and_neighbours_are_joined():
    found, losses = contents(said(model("Hi"), user("a"), user("b"), model("c"), dialect="chat"))

    assert ["user", "model", "user", "model", "user"] == [one["role"] for one in found]
    assert [{"text": "a"}, {"text": "b"}] == found[2]["parts"]
    assert ["turn_added", "user_turn_appended"] == losses


def test_instructions_between_turns_become_marked_text():
    found, losses = contents(
        said(user("x"), model("y"), Turn(SYSTEM, (TextPart("Be brief."),)), user("z"))
    )

    assert "<system-reminder>\nBe brief.\n</system-reminder>" == found[2]["parts"][0]["text"]
    assert ["system_midturn_emulated"] == losses


@pytest.mark.parametrize(
    ("part", "expected", "codes"),
    [
        (PNG, [{"inlineData": {"mimeType": "image/png", "data": "aGk="}}], []),
        (
            ImagePart(UrlSource("https://example.com/a")),
            [{"fileData": {"fileUri": "https://example.com/a", "mimeType": "image/jpeg"}}],
            [],
        ),
        (
            ImagePart(UrlSource("https://example.com/a.PNG?size=1#x")),
            [
                {
                    "fileData": {
                        "fileUri": "https://example.com/a.PNG?size=1#x",
                        "mimeType": "image/png",
                    }
                }
            ],
            [],
        ),
        (
            DocumentPart(UrlSource("https://example.com/a"), "A"),
            [
                {
                    "fileData": {
                        "fileUri": "https://example.com/a",
                        "mimeType": "application/pdf",
                        "displayName": "A",
                    }
                }
            ],
            [],
        ),
        (
            DocumentPart(FileSource("gs://a/b", "google", "text/csv"), "b"),
            [{"fileData": {"fileUri": "gs://a/b", "mimeType": "text/csv", "displayName": "b"}}],
            [],
        ),
        (
            DocumentPart(Base64Source("application/pdf", "aGk="), "a.pdf", "About."),
            [
                {"text": "About."},
                {
                    "inlineData": {
                        "mimeType": "application/pdf",
                        "data": "aGk=",
                        "displayName": "a.pdf",
                    }
                },
            ],
            [],
        ),
        (
            DocumentPart(TextSource("hi"), "t"),
            [{"text": '<document title="t">\nhi\n</document>'}],
            ["content_flattened"],
        ),
        (
            DocumentPart(FileSource("gs://a/b", "google")),
            [{"fileData": {"fileUri": "gs://a/b"}}],
            [],
        ),
        (
            SearchResultPart("https://e.com", "E", (TextPart("hi"),)),
            [{"text": '<search_result source="https://e.com" title="E">\nhi\n</search_result>'}],
            ["content_flattened"],
        ),
        (
            AudioPart("aGk=", "mp3"),
            [{"inlineData": {"mimeType": "audio/mpeg", "data": "aGk="}}],
            [],
        ),
    ],
)
def test_files_of_a_user(part, expected, codes):
    found, losses = contents(said(user(part)))

    assert expected == found[0]["parts"]
    assert codes == losses


RAN = Raw(b'{"executableCode":{"language":"PYTHON","code":"1"}}')


@pytest.mark.parametrize(
    ("part", "expected", "codes"),
    [
        (ServerToolPart("google", "[ran]", RAN), [json.loads(bytes(RAN))], []),
        (
            ServerToolPart("google", "[ran]", RAN, origin="vertex"),
            [{"text": "[ran]"}],
            ["content_flattened"],
        ),
        (ServerToolPart("openai", "[ran]", RAN), [{"text": "[ran]"}], ["content_flattened"]),
        (ServerToolPart("openai", "", RAN), [], ["content_flattened"]),
        (OpaquePart("google", RAN), [json.loads(bytes(RAN))], []),
        (OpaquePart("openai", RAN, text="What it said."), [{"text": "What it said."}], ["content_flattened"]),
        (OpaquePart("openai", RAN), [], ["content_dropped"]),
        (PNG, [], ["content_dropped"]),
    ],
)  # fmt: skip
def test_what_a_vendor_made_in_an_answer(part, expected, codes):
    found, losses = contents(said(user("x"), model("A", part), user("y")))

    assert [{"text": "A"}, *expected] == found[1]["parts"]
    assert codes == losses


def test_a_part_that_only_its_vendor_understands_is_refused_where_it_was_sent():
    with pytest.raises(UntranslatableError, match="cannot read this part") as caught:
        written(said(user(OpaquePart("openai", RAN, path="$.input[0]"))))

    assert "$.input[0]" == caught.value.path


def test_a_signature_of_a_text_that_a_client_left_out_has_a_part_alone():
    text = OpaqueState(OpaqueKind.ENCRYPTED, "QkI=", "gemini-api", "text")
    found, _ = contents(said(user("x"), model(call(), ReasoningPart((), (text,))), user(result())))

    assert {"text": "", "thoughtSignature": "QkI="} == found[1]["parts"][1]


def test_instructions_before_the_conversation_are_the_system_prompt():
    body, losses = written(
        said(Turn(SYSTEM, (TextPart("Be brief."),)), user("x"), system=(TextPart("A"),))
    )

    assert {"parts": [{"text": "A"}, {"text": "Be brief."}]} == body["systemInstruction"]
    assert [{"role": "user", "parts": [{"text": "x"}]}] == body["contents"]
    assert [] == losses


def test_documents_of_results_are_text_and_files():
    document = DocumentPart(TextSource("hi"), "t", cite=True)
    page = DocumentPart(UrlSource("https://e.com/a.pdf"))
    found, losses = contents(said(user("x"), model(call()), user(result("k1", document, page))))
    response = found[2]["parts"][0]["functionResponse"]

    assert {"output": '<document title="t">\nhi\n</document>'} == response["response"]
    pdf = {"fileUri": "https://e.com/a.pdf", "mimeType": "application/pdf"}
    assert [{"fileData": pdf}] == response["parts"]
    assert {"citations_dropped", "content_flattened", "reasoning_filled"} == set(losses)


def test_a_file_stored_at_another_vendor_is_refused():
    with pytest.raises(UntranslatableError, match="another vendor"):
        written(said(user(DocumentPart(FileSource("file-1", "openai")))))


def test_arguments_keep_their_order_and_their_digits():
    body = {
        "model": "m",
        "messages": [
            {"role": "user", "content": "x"},
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": "k1",
                        "type": "function",
                        "function": {
                            "name": "f",
                            "arguments": '{"b":1.0,"a":12345678901234567890}',
                        },
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "k1", "content": "y"},
        ],
    }
    out = translate_request(
        json.dumps(body).encode(), source="chat", target="gemini", profile="gemini-api"
    )

    assert b'"args":{"b":1.0,"a":12345678901234567890}' in out.body
