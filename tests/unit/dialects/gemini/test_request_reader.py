"""What a client asks for beside the conversation."""

import json

import pytest

from dragoman.dialects.dialect import PathRequest
from dragoman.dialects.gemini.request_reader import joined_request, read_path
from dragoman.errors import MalformedError, TooLargeError
from dragoman.limits import Limits
from dragoman.translate_requests import read_request, translate_request
from dragoman.turn.request import ReasoningSettings
from tests.unit.dialects.gemini.support import GEMINI, asked, user


def settings(**config):
    return asked(user("x"), generationConfig=config)


def test_settings_are_read_under_both_spellings_and_numbers_from_strings():
    request = asked(
        user("x"),
        generationConfig={
            "temperature": 0.5, "top_p": 0.9, "topK": 64.0, "seed": 7, "presencePenalty": 0.1,
            "frequencyPenalty": 0.2, "max_output_tokens": "100", "stopSequences": ["a"],
            "candidateCount": 1, "responseLogprobs": True, "logprobs": 3,
        },
        serviceTier="FLEX",
        labels={"team": "x"},
    )  # fmt: skip
    sampling = request.sampling

    assert (0.5, 0.9, 64, 7) == (
        sampling.temperature, sampling.top_p, sampling.top_k, sampling.seed,
    )  # fmt: skip
    assert (0.1, 0.2) == (sampling.presence_penalty, sampling.frequency_penalty)
    assert (100, ("a",), 1, True, 3) == (
        request.max_output, request.stop, request.count, request.logprobs, request.top_logprobs,
    )  # fmt: skip
    assert ("flex", {"team": "x"}) == (request.tier, json.loads(bytes(request.metadata or b"")))
    assert () == request.losses


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"thinkingBudget": 0}, ReasoningSettings(mode="off")),
        ({"thinkingBudget": -1}, ReasoningSettings(mode="auto")),
        (
            {"thinkingBudget": 8192, "include_thoughts": True},
            ReasoningSettings(mode="budget", budget=8192, show="summary"),
        ),
        ({"thinkingLevel": "HIGH"}, ReasoningSettings(mode="effort", effort="high")),
        ({"includeThoughts": True}, ReasoningSettings(show="summary")),
        ({}, ReasoningSettings()),
    ],
)
def test_thinking(config, expected):
    assert expected == settings(thinkingConfig=config).reasoning


@pytest.mark.parametrize("word", ["nan", "inf", "-Infinity"])
@pytest.mark.parametrize(
    "name", ["temperature", "topP", "topK", "frequencyPenalty", "presencePenalty"]
)
def test_strings_that_are_no_finite_number_are_refused(name, word):
    with pytest.raises(MalformedError, match="a number") as caught:
        settings(**{name: word})
    assert f"$.generationConfig.{name}" == caught.value.path


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ({"thinkingBudget": 1, "thinkingLevel": "LOW"}, "exclude"),
        ({"thinkingLevel": "EXTREME"}, "EXTREME"),
    ],
)
def test_thinking_that_does_not_exist_is_refused(config, reason):
    with pytest.raises(MalformedError, match=reason):
        settings(thinkingConfig=config)


def test_formats_of_the_answer():
    shouted = {"type": "OBJECT", "properties": {"a": {"type": "STRING"}}}
    json_only = settings(responseMimeType="application/json").format
    with_schema = settings(responseMimeType="application/json", responseJsonSchema=shouted).format
    enum = settings(
        responseMimeType="text/x.enum", responseSchema={"type": "STRING", "enum": ["a", "b"]}
    )

    assert "json_object" == json_only.kind
    assert ("json_schema", "output") == (with_schema.kind, with_schema.name)
    assert {"type": "object", "properties": {"a": {"type": "string"}}} == json.loads(
        bytes(with_schema.schema or b"")
    )
    assert "text" == enum.format.kind
    assert enum.system[-1].text.endswith(": a, b")
    assert ["schema_not_enforced"] == [loss.code for loss in enum.losses]
    assert "text" == settings(responseMimeType="text/plain").format.kind


def test_what_has_no_place_is_an_extension_and_a_loss_elsewhere():
    body = {
        "model": "m", "contents": [user("x")], "store": True,
        "generationConfig": {"audioTimestamp": True},
        "safetySettings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_ONLY_HIGH"}],
        "toolConfig": {"retrievalConfig": {"languageCode": "de"}},
    }  # fmt: skip
    out = translate_request(json.dumps(body).encode(), source="gemini", target="chat")

    assert [
        "$.generationConfig.audioTimestamp", "$.safetySettings", "$.store",
        "$.toolConfig.retrievalConfig",
    ] == sorted(loss.path for loss in out.losses if loss.code == "field_dropped")  # fmt: skip


@pytest.mark.parametrize(
    "more",
    [
        {"safetySettings": []},
        {"safetySettings": [{"category": "x", "threshold": "BLOCK_NONE"}]},
        {"generationConfig": {"responseModalities": ["TEXT"]}},
        {"generationConfig": {}},
        {"model": "models/m"},
    ],
)
def test_what_asks_for_nothing_is_not_a_loss(more):
    body = {"model": "m", "contents": [user("x")], **more}
    out = translate_request(json.dumps(body).encode(), source="gemini", target="chat")

    assert () == out.losses
    assert "m" == json.loads(out.body)["model"]


@pytest.mark.parametrize(
    "more",
    [
        {"cachedContent": "cachedContents/1"},
        {"generationConfig": {"responseModalities": ["TEXT", "IMAGE"]}},
    ],
)
def test_what_only_google_can_do_passes_to_google_and_is_refused_elsewhere(more):
    body = json.dumps({"model": "m", "contents": [user("x")], **more}).encode()

    assert body == translate_request(body, source="gemini", target="gemini").body
    with pytest.raises(MalformedError):
        translate_request(body, source="gemini", target="chat")


def test_a_request_to_google_passes_byte_for_byte():
    body = b'{ "model":"m","contents" : [{"parts":[{"text":"x","partMetadata":{"a":1}}]}], "new_field":1 }'

    assert body == translate_request(body, source="gemini", target="gemini").body


def test_limits_hold():
    body = json.dumps({"model": "m", "contents": [user("x")] * 3}).encode()
    with pytest.raises(TooLargeError, match="max_messages"):
        GEMINI.decode_request(body, sealer=None, limits=Limits(max_messages=2))
    with pytest.raises(TooLargeError, match="max_request_bytes"):
        GEMINI.decode_request(body, sealer=None, limits=Limits(max_request_bytes=10))


@pytest.mark.parametrize(
    "body", [b"{}", b"[]", b'{"model":"m","contents":7}', b'{"model":"m","generationConfig":7}']
)
def test_what_is_not_a_request_is_refused(body):
    with pytest.raises(MalformedError):
        read_request(body, source="gemini")


@pytest.mark.parametrize(("more", "reason"), [("", "not specified"), (',"contents":[]', "empty")])
def test_a_request_without_contents_is_refused(more, reason):
    with pytest.raises(MalformedError, match=reason) as caught:
        translate_request(f'{{"model":"m"{more}}}'.encode(), source="gemini", target="gemini")

    assert "$.contents" == caught.value.path


def test_a_request_may_stream():
    body = {"model": "m", "stream": True, "contents": [user("x")]}

    assert read_request(json.dumps(body).encode(), source="gemini").request.stream


@pytest.mark.parametrize(
    ("path", "query", "asked"),
    [
        ("/v1beta/models/gemini-3-pro:generateContent", {}, ("answer", "gemini-3-pro", False)),
        ("/v1/models/m:generateContent", {"key": "k"}, ("answer", "m", False)),
        (
            "/v1beta/models/qwen3:8b:streamGenerateContent",
            {"alt": "sse"},
            ("answer", "qwen3:8b", True),
        ),
        ("/v1beta/models/m:streamGenerateContent", {}, ("answer", "m", True, "list")),
        ("/v1beta/models/m:streamGenerateContent", {"$alt": "sse"}, ("answer", "m", True)),
        ("/v1beta1/publishers/google/models/a%2Fb:countTokens", {}, ("count_tokens", "a/b", False)),
        (
            "/v1/projects/p/locations/l/publishers/g/models/m:streamGenerateContent",
            {"alt": "sse"},
            ("answer", "m", True),
        ),
        ("/v1/projects/p/locations/l/endpoints/7:generateContent", {}, ("answer", "7", False)),
        ("/base/v1beta/models/a/models/b:generateContent", {}, ("answer", "a/models/b", False)),
        *(
            (f"/v1beta/models/m:{verb}", {}, ("nothing",))
            for verb in ("embedContent", "batchEmbedContents", "generateAnswer", "predict")
        ),
        ("/upload/v1beta/files", {}, ("nothing",)),
        ("/v1beta/interactions", {}, ("nothing",)),
        ("/v1beta/cachedContents", {}, ("nothing",)),
    ],
)
def test_the_path_names_the_model_and_the_kind_of_answer(path, query, asked):
    found = read_path("POST", path, query)
    verb = path.rpartition(":")[2]

    assert found is not None
    assert PathRequest(*asked) == found._replace(route="")
    assert ("" if asked == ("nothing",) else f"/models/{{model}}:{verb}") == found.route


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/v1beta/models", ("models",)),
        ("/v1beta/models/", ("models",)),
        ("/v1beta/models/a%2Fb", ("models", "a/b")),
        ("/v1beta1/publishers/google/models", ("models",)),
        ("/v1beta/files", ("nothing",)),
    ],
)
def test_lists_of_models_have_paths_too(path, asked):
    found = read_path("GET", path, {})

    assert found is not None
    assert PathRequest(*asked) == found._replace(route="")
    assert found.route in ("", "/models", "/models/{model}")


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v1/messages"), ("GET", "/v1/models"), ("GET", "/v1/models/m:generateContent")],
)
def test_other_paths_are_not_of_the_dialect(method, path):
    assert read_path(method, path, {}) is None


def test_a_request_and_its_path_are_one_object():
    asked = PathRequest("answer", "m", stream=True)
    wrapped = b'{"generateContentRequest":{"model":"models/x","contents":[1]}}'

    assert {"contents": [], "model": "m", "stream": True} == json.loads(
        joined_request(asked, b'{"contents":[],"model":"another"}')
    )
    assert {"contents": [1], "model": "m", "stream": False} == json.loads(
        joined_request(PathRequest("count_tokens", "m"), wrapped)
    )


def test_a_body_that_is_not_an_object_is_refused():
    with pytest.raises(MalformedError):
        joined_request(PathRequest("answer", "m"), b"[]")
