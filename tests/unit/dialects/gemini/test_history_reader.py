"""Contents of a client become turns: ids, results, thoughts and envelopes."""

import base64

import pytest

from dragoman.dialects.gemini.schema import PLACEHOLDERS
from dragoman.errors import MalformedError
from dragoman.turn.events import Channel, OpaqueKind
from dragoman.turn.request import (
    ASSISTANT,
    USER,
    AudioPart,
    Base64Source,
    DocumentPart,
    FileSource,
    ImagePart,
    OpaquePart,
    ReasoningPart,
    ReasoningSegment,
    ServerToolPart,
    TextPart,
    TextSource,
    ToolCallPart,
    ToolResultPart,
    UrlSource,
)
from tests.unit.dialects.gemini.support import asked, call, model, result, user, written


def test_chunks_that_a_client_replays_are_one_turn():
    request = asked(
        user("Hi"), model({"text": "Pl", "thought": True}), model({"text": "an", "thought": True}),
        model("I w"), model("ill"), user("a"), user("b"),
    )  # fmt: skip

    assert [USER, ASSISTANT, USER] == [turn.role for turn in request.turns]
    assert (
        ReasoningPart((ReasoningSegment("Plan", Channel.SUMMARY),)),
        TextPart("I will"),
    ) == request.turns[1].parts
    assert (TextPart("a"), TextPart("b")) == request.turns[2].parts


@pytest.mark.parametrize("role", ["function", "tool", None])
def test_old_names_of_the_user_are_known(role):
    content = {"parts": [{"text": "x"}], **({"role": role} if role else {})}

    assert USER is asked(content).turns[0].role


def test_a_role_that_does_not_exist_is_refused():
    with pytest.raises(MalformedError, match="system") as caught:
        asked({"role": "system", "parts": [{"text": "x"}]})
    assert "$.contents[0].role" == caught.value.path


def calls_and_results(*contents):
    """Return the ids of the calls, and the texts of the results behind the ids that they have."""
    parts = [part for turn in asked(*contents).turns for part in turn.parts]
    return (
        [part.id for part in parts if isinstance(part, ToolCallPart)],
        [
            (part.call_id, *(one.text for one in part.parts))
            for part in parts
            if isinstance(part, ToolResultPart)
        ],
    )


def piece(**more):
    return {"functionCall": more}


def test_a_call_that_is_replayed_in_pieces_is_one_call():
    begun = piece(name="f", id="k", willContinue=True) | {"thoughtSignature": "U0lH"}
    first = piece(partialArgs=[{"jsonPath": "$.a", "stringValue": "x"}], willContinue=True)
    second = piece(partial_args=[{"json_path": "$.a", "string_value": 'y"'}], will_continue=True)
    last = piece(partialArgs=[{"jsonPath": "$.b[0]", "numberValue": 1}])
    other = piece(name="g", args={"c": 1})
    parts = (begun, first, second, last, other)
    for contents in ([model(*parts)], [model(one) for one in parts]):
        request = asked(user("x"), *contents, user(result("f", "k"), result("g")))
        made, beside = request.turns[1].parts

        assert ("k", "f", '{"a":"xy\\"","b":[1]}') == (made.id, made.name, made.arguments)
        assert ['{"google":{"thought_signature":"U0lH"}}'] == [one.data for one in made.opaque]
        assert ("g", '{"c": 1}') == (beside.name, beside.arguments)
        assert () == request.losses


@pytest.mark.parametrize("path", ["a[", "$.a.b"])
def test_pieces_that_are_not_arguments_are_refused(path):
    first = {"jsonPath": "$.a", "stringValue": "x"}
    made = piece(name="f", partialArgs=[first, {"jsonPath": path, "stringValue": "y"}])
    with pytest.raises(MalformedError, match=r"parts\[0\]\.functionCall\.partialArgs"):
        asked(user("x"), model(made))


def test_calls_without_ids_are_numbered_and_results_pair_by_name_and_order():
    calls, results = calls_and_results(
        user("x"), model(call("a"), call("b"), call("a")),
        user(result("b", output="1"), result("a", output="2"), result("a", output="3")),
        model(call("a")), user(result("a", output="4")),
    )  # fmt: skip

    assert ["call_g1", "call_g2", "call_g3", "call_g4"] == calls
    assert [("call_g1", "2"), ("call_g2", "1"), ("call_g3", "3"), ("call_g4", "4")] == results


def test_results_pair_by_id_even_if_only_some_have_one():
    calls, results = calls_and_results(
        user("x"), model(call("a", "k1"), call("a", "k2")),
        user(result("a", output="1"), result("a", "k1", output="2")),
    )  # fmt: skip

    assert ["k1", "k2"] == calls
    assert [("k1", "2"), ("k2", "1")] == results


def test_results_without_ids_pair_with_calls_that_share_one():
    # Some servers give one id to all calls, and the Python SDK sends no ids of results.
    calls, results = calls_and_results(
        user("x"), model(call("a", "k"), call("b", "k"), call("a", "k")),
        user(result("b", output="1"), result("a", output="2"), result("a", output="3")),
    )  # fmt: skip

    assert ["k", "k", "k"] == calls
    assert [("k", "2"), ("k", "1"), ("k", "3")] == results


def test_the_id_of_a_call_that_has_none_is_not_one_that_another_has():
    calls, results = calls_and_results(
        user("x"), model(call("a"), call("a", "call_g1"), call("a", "call_g1_1")),
        user(result("a", "call_g1", output="2"), result("a", output="1"), result("a", output="3")),
    )  # fmt: skip

    assert ["call_g1_2", "call_g1", "call_g1_1"] == calls
    assert [("call_g1_2", "1"), ("call_g1", "2"), ("call_g1_1", "3")] == results


def test_the_id_with_its_tools_name_is_known():
    _, results = calls_and_results(
        user("x"), model(call("a", "k1")), user(result("a", "a__k1", output="1"))
    )

    assert [("k1", "1")] == results


@pytest.mark.parametrize(
    ("response", "text", "failed"),
    [
        ({"output": "done"}, "done", False),
        ({"result": 42}, "42", False),
        ({"return_value": {"a": [1, 2]}}, '{"a":[1,2]}', False),
        ({"name": "look", "content": "sunny"}, "sunny", False),
        ({"name": "notes.txt", "content": "x"}, '{"name":"notes.txt","content":"x"}', False),
        ({"error": "no such file"}, "no such file", True),
        ({"output": "x", "error": "y"}, '{"output":"x","error":"y"}', False),
        ({"temperature": 7}, '{"temperature":7}', False),
        ({"output": None}, "", False),
    ],
)
def test_the_output_of_a_result_is_found(response, text, failed):
    answered = {"functionResponse": {"name": "look", "response": response}}
    request = asked(user("x"), model(call()), user(answered))
    (found,) = request.turns[2].parts

    assert (tuple([TextPart(text)] if text else []), failed) == (found.parts, found.is_error)


def test_files_inside_and_directly_behind_a_result_are_part_of_it():
    image = {"inlineData": {"mimeType": "image/png", "data": "aGk"}}
    inside = result(output="ok")
    inside["functionResponse"]["parts"] = [image]
    request = asked(user("x"), model(call(), call()), user(inside, result(), image, "And?", image))
    first, second, text, own = request.turns[2].parts
    png = ImagePart(Base64Source("image/png", "aGk="))

    assert (TextPart("ok"), png) == first.parts
    assert (png,) == second.parts
    assert (TextPart("And?"), png) == (text, own)


@pytest.mark.parametrize(
    ("part", "expected"),
    [
        (
            {"inlineData": {"mimeType": "application/pdf", "data": "_-8", "displayName": "a.pdf"}},
            DocumentPart(Base64Source("application/pdf", "/+8="), "a.pdf"),
        ),
        (
            {"inlineData": {"mimeType": "text/markdown", "data": "aGk="}},
            DocumentPart(TextSource("hi")),
        ),
        ({"inlineData": {"mimeType": "audio/mpeg", "data": "aGk="}}, AudioPart("aGk=", "mp3")),
        (
            {"inlineData": {"mimeType": "audio/x-wav; codecs=1", "data": "aGk="}},
            AudioPart("aGk=", "wav"),
        ),
        (
            {"inlineData": {"mimeType": "audio/l16;rate=24000", "data": "aGk="}},
            AudioPart("aGk=", "l16;rate=24000"),
        ),
        (
            {"fileData": {"mimeType": "image/jpeg", "fileUri": "https://example.com/a"}},
            ImagePart(UrlSource("https://example.com/a", "image/jpeg")),
        ),
        (
            {"fileData": {"fileUri": "https://example.com/a.png"}},
            ImagePart(UrlSource("https://example.com/a.png", "image/png")),
        ),
        (
            {"fileData": {"mimeType": "application/pdf", "fileUri": "gs://b/c"}},
            DocumentPart(FileSource("gs://b/c", "google", "application/pdf")),
        ),
        (
            {"inlineData": {"mimeType": "application/zip", "data": "aGk="}},
            DocumentPart(Base64Source("application/zip", "aGk=")),
        ),
    ],
)
def test_files_of_a_user(part, expected):
    assert (expected,) == asked(user(part)).turns[0].parts


@pytest.mark.parametrize(
    "part",
    [
        {"fileData": {"fileUri": "https://youtu.be/x"}},
        {"inlineData": {"mimeType": "video/mp4", "data": "aGk="}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "https://example.com/a"}},
        {"fileData": {"mimeType": "audio/mpeg", "fileUri": "gs://b/c"}},
        {"fileData": {"fileUri": "https://example.com/a.mov"}},
    ],
)
def test_videos_and_sound_in_files_are_only_for_google(part):
    (found,) = asked(user(part)).turns[0].parts

    assert isinstance(found, OpaquePart)
    assert "$.contents[0].parts[0]" == found.path


def test_a_video_in_a_result_is_only_for_google():
    video = {"inlineData": {"mimeType": "video/mp4", "data": "aGk="}}
    inside = result(output="ok")
    inside["functionResponse"]["parts"] = [video]
    request = asked(user("x"), model(call()), user(inside))
    answer, found = request.turns[2].parts
    body, _ = written(request)

    assert (TextPart("ok"),) == answer.parts
    assert ("$.contents[2].parts[0]", OpaquePart) == (found.path, type(found))
    assert video == body["contents"][2]["parts"][1]


def test_what_google_ran_is_kept_with_a_summary():
    part = {"executableCode": {"language": "PYTHON", "code": "print(1)"}}
    request = asked(user("x"), model(part), user("y"))
    (found,) = request.turns[1].parts

    assert isinstance(found, ServerToolPart)
    assert "print(1)" in found.summary


@pytest.mark.parametrize(
    ("contents", "reason"),
    [
        ([user({"text": "x", "inlineData": {}})], "one payload"),
        ([user({"hologram": {}})], "hologram"),
        ([user({"inlineData": {"data": "aGk="}})], "needs a MIME type"),
        ([user({"fileData": {"mimeType": "image/png"}})], "needs a URI"),
        ([user(call())], "the model's"),
        ([user("x"), model(result())], "the user's"),
        ([user("x"), model({"functionCall": {"args": {}}})], "needs a name"),
        ([user("x"), model({"functionCall": {"name": "f", "args": "{}"}})], "an object"),
        ([user("x"), model(call()), user({"functionResponse": {"response": 7}})], "an object"),
    ],
)
def test_what_is_not_of_the_dialect_is_refused(contents, reason):
    with pytest.raises(MalformedError, match=reason):
        asked(*contents)


@pytest.mark.parametrize(
    "name", ["executableCode", "codeExecutionResult", "toolCall", "toolResponse", "fileData"]
)
def test_a_payload_that_is_null_is_none(name):
    (turn,) = asked(user({"text": "x", name: None})).turns

    assert (TextPart("x"),) == turn.parts
    with pytest.raises(MalformedError, match="hologram"):
        asked(user({"hologram": {}, name: None}))


def test_a_field_that_google_does_not_have_is_reported():
    content = user({"text": "x", "new": 1, "gone": None}) | {"name": "Ann"}
    answered = result(output="1")
    answered["functionResponse"] |= {"willContinue": True, "gone": None}
    made = call()
    made["functionCall"]["new"] = 1
    request = asked(
        content, model("y", {"thoughtSignature": "U0lH", "other": 1}, made), user(answered)
    )

    assert [
        ("field_dropped", "$.contents[0].name"),
        ("field_dropped", "$.contents[0].parts[0].new"),
        ("field_dropped", "$.contents[1].parts[1].other"),
        ("field_dropped", "$.contents[1].parts[2].functionCall.new"),
        ("field_dropped", "$.contents[2].parts[0].functionResponse.willContinue"),
    ] == sorted((loss.code, loss.path) for loss in request.losses)


def test_what_may_be_beside_a_payload_is_no_loss():
    beside = {
        "videoMetadata": {"fps": 1},
        "part_metadata": {"a": 1},
        "mediaProcessing": {},
        "audio_transcription": {},
        "speechMetadata": {},
    }

    assert () == asked(user({"text": "x", **beside})).losses


@pytest.mark.parametrize(
    ("level", "detail"),
    [
        ("MEDIA_RESOLUTION_LOW", "low"),
        ("media_resolution_high", "high"),
        ("MEDIA_RESOLUTION_MEDIUM", ""),
    ],
)
def test_the_resolution_of_an_image_is_that_of_its_part_or_of_the_request(level, detail):
    picture = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    own = asked(user(picture | {"mediaResolution": {"level": level}}))
    common = asked(user(picture), generationConfig={"mediaResolution": level})

    assert [detail, detail] == [one.turns[0].parts[0].detail for one in (own, common)]


@pytest.mark.parametrize("signature", sorted(PLACEHOLDERS))
def test_a_placeholder_is_no_state(signature):
    request = asked(user("x"), model(call(signature=signature)), user(result()))

    assert () == request.turns[1].parts[0].opaque


def test_googles_own_signatures_are_kept_where_they_are():
    request = asked(
        user("x"),
        model(
            {"text": "Hm.", "thought": True, "thoughtSignature": "QUE="},
            {"text": "Well.", "thoughtSignature": "QkI="},
            call(signature="Q0M="),
        ),
        user(result()),
    )
    thought, text, behind, made = request.turns[1].parts

    assert [(OpaqueKind.SIGNATURE, "QUE=")] == [(one.kind, one.data) for one in thought.opaque]
    assert TextPart("Well.") == text
    assert [(OpaqueKind.ENCRYPTED, "text")] == [(one.kind, one.item_id) for one in behind.opaque]
    assert ['{"google":{"thought_signature":"Q0M="}}'] == [one.data for one in made.opaque]


def test_an_envelope_that_does_not_open_is_reported():
    forged = base64.b64encode(b"dgm1.abc.def").decode()
    request = asked(user("x"), model(call(signature=forged)), user(result()))

    assert ["opaque_invalid"] == [loss.code for loss in request.losses]
    assert () == request.turns[1].parts[0].opaque


def test_instructions_are_text():
    assert (TextPart("a"), TextPart("b")) == (
        asked(user("x"), systemInstruction={"parts": [{"text": "a"}, {"text": "b"}]}).system
    )
    assert (TextPart("a"),) == asked(user("x"), systemInstruction="a").system
    with pytest.raises(MalformedError, match="text"):
        asked(user("x"), systemInstruction={"parts": [{"inlineData": {}}]})


@pytest.mark.parametrize(
    ("part", "kind"),
    [
        ({"inlineData": {"mimeType": "image/png", "data": "aGk="}}, ServerToolPart),
        ({"inlineData": {"mimeType": "audio/wav", "data": "aGk="}}, OpaquePart),
        ({"fileData": {"fileUri": "https://example.com/a.png"}}, OpaquePart),
        # An image among the thoughts is no image of the answer, and a signature is given back once.
        ({"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thought": True}, OpaquePart),
        (
            {"inlineData": {"mimeType": "image/png", "data": "aGk="}, "thoughtSignature": "U0lH"},
            ServerToolPart,
        ),
    ],
)
def test_media_that_the_model_made_return_to_google_unchanged(part, kind):
    (_, turn) = asked(user("Draw."), model(part)).turns
    body, losses = written(asked(user("Draw."), model(part), user("More.")))

    assert [kind] == [type(one) for one in turn.parts]
    assert [part] == body["contents"][1]["parts"]
    assert [] == losses


def test_a_thought_without_a_signature_returns_to_google():
    thought = {"text": "Hm.", "thought": True}
    body, losses = written(asked(user("x"), model(thought, "y"), user("z")))

    assert [thought, {"text": "y"}] == body["contents"][1]["parts"]
    assert [] == losses


@pytest.mark.parametrize("data", ["not base64!", "é"])
def test_text_of_a_file_that_is_no_base64_is_the_text(data):
    (turn,) = asked(user({"inlineData": {"mimeType": "text/plain", "data": data}})).turns

    assert (DocumentPart(TextSource(data)),) == turn.parts
