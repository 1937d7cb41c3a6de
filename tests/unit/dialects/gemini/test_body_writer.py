"""A complete answer holds what its stream says."""

import json

import pytest
from msgspec import Raw

from dragoman.dialects.dialect import ListedModel
from dragoman.dialects.gemini.body_writer import (
    encode_body,
    encode_count,
    encode_model,
    encode_models,
)
from dragoman.translate import Translator, translate_body
from dragoman.translate_requests import read_request
from dragoman.turn.answer import fold
from dragoman.turn.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Channel,
    Citation,
    Event,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    InputDelta,
    Opaque,
    OpaqueKind,
    ReasoningDelta,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.server_tools import ServerCall, ServerKind, ServerResult, SourceRef
from tests.support.corpus import SEALER
from tests.unit.dialects.gemini.support import chunks_of, exchange, parts_of

END = (Usage(final=True), Finish(FinishReason.STOP))


def body_of(*events: Event, of=None):
    return json.loads(encode_body(fold([Start("m", "i"), *events]), of or exchange(), []))


def parts_in(*events: Event, of=None):
    return body_of(*events, *END, of=of)["candidates"][0]["content"]["parts"]


def test_an_answer_without_content_has_a_part():
    body = body_of(Usage(5, final=True), Finish(FinishReason.STOP))

    assert [{"text": ""}] == body["candidates"][0]["content"]["parts"]
    assert {"promptTokenCount": 5, "candidatesTokenCount": 0, "totalTokenCount": 5} == (
        body["usageMetadata"]
    )


def test_a_failure_is_an_error_body():
    assert "UNAVAILABLE" == body_of(Fault(FaultKind.OVERLOADED, "no"))["error"]["status"]


def test_half_a_call_is_text():
    body = body_of(
        BlockStart(0, BlockKind.TOOL_CALL, "k", "look"),
        BlockEnd(0, complete=False),
        Usage(final=True),
        Finish(FinishReason.LENGTH),
    )
    (part,) = body["candidates"][0]["content"]["parts"]

    assert part["text"].startswith("[incomplete call of the tool `look`")
    assert "MAX_TOKENS" == body["candidates"][0]["finishReason"]


def test_an_answer_as_a_body_equals_its_stream():
    stream = b"".join(
        b"data: %b\n\n" % one
        for one in (
            b'{"choices":[{"index":0,"delta":{"role":"assistant","reasoning_content":"Hm."}}]}',
            b'{"choices":[{"index":0,"delta":{"content":"Hi."}}]}',
            (
                b'{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"k1","type":"function",'
                b'"function":{"name":"look","arguments":"{\\"a\\":1}"}}]}}]}'
            ),
            (
                b'{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}],'
                b'"usage":{"prompt_tokens":5,"completion_tokens":6,"total_tokens":11}}'
            ),
            b"[DONE]",
        )
    )
    body = (
        b'{"id":"1","model":"m","choices":[{"index":0,"message":{"role":"assistant",'
        b'"content":"Hi.","reasoning_content":"Hm.","tool_calls":[{"id":"k1","type":"function",'
        b'"function":{"name":"look","arguments":"{\\"a\\":1}"}}]},"finish_reason":"tool_calls"}],'
        b'"usage":{"prompt_tokens":5,"completion_tokens":6,"total_tokens":11}}'
    )
    asked_body = (
        b'{"model":"m","contents":[{"parts":[{"text":"x"}]}],'
        b'"generationConfig":{"thinkingConfig":{"includeThoughts":true}}}'
    )
    request = read_request(asked_body, source="gemini").request
    live = Translator(source="chat", target="gemini", request=request, sealer=SEALER, seed="s")
    out = live.feed(stream) + live.close()
    whole = translate_body(
        body, source="chat", target="gemini", request=request, sealer=SEALER, seed="s"
    )
    chunks = [json.loads(line[6:]) for line in out.decode().splitlines() if line]
    parts = [part for part in parts_of(chunks) if part != {"text": ""}]
    candidate = json.loads(whole.body)["candidates"][0]

    assert parts == candidate["content"]["parts"]
    assert "STOP" == candidate["finishReason"]
    assert chunks[-1]["usageMetadata"] == json.loads(whole.body)["usageMetadata"]


def test_a_filtered_answer_has_its_reason_and_an_empty_one_a_report_on_the_prompt():
    finish = Finish(FinishReason.CONTENT_FILTER, category="recitation", explanation="Copied.")
    text = (BlockStart(0, BlockKind.TEXT), TextDelta(0, "a"), BlockEnd(0))
    some, none = (body_of(*one, Usage(final=True), finish) for one in (text, ()))

    assert ("RECITATION", "Copied.") == (
        some["candidates"][0]["finishReason"],
        some["candidates"][0]["finishMessage"],
    )
    assert "promptFeedback" not in some
    assert {"blockReason": "SAFETY", "blockReasonMessage": "Copied."} == none["promptFeedback"]
    assert [{"text": ""}] == none["candidates"][0]["content"]["parts"]


def test_sources_and_probabilities_are_beside_the_content():
    (candidate,) = body_of(
        BlockStart(0, BlockKind.TEXT),
        TextDelta(0, "é is", Raw(b'[{"token":"x","logprob":-1.0}]')),
        Citation(0, "https://a.example", "A", start=0, end=1),
        BlockEnd(0),
        *END,
    )["candidates"]
    (support,) = candidate["groundingMetadata"]["groundingSupports"]

    assert {"endIndex": 2, "text": "é"} == support["segment"]
    assert [{"token": "x", "logProbability": -1.0}] == (
        candidate["logprobsResult"]["chosenCandidates"]
    )


def test_a_citation_names_its_part_and_one_without_a_place_is_a_source_alone():
    code = Raw(b'{"executableCode":{}}')
    events = [
        Start("m", "i"),
        BlockStart(0, BlockKind.REASONING),
        ReasoningDelta(0, "Hm.", Channel.FULL, 0),
        BlockEnd(0),
        BlockStart(1, BlockKind.SERVER_CALL, vendor="google", raw=code),
        BlockEnd(1),
        BlockStart(2, BlockKind.TEXT),
        TextDelta(2, "On"),
        TextDelta(2, "e."),
        Citation(2, "https://a.example", "A", start=0, end=3),
        Citation(2, "https://b.example", "B"),
        BlockEnd(2),
        *END,
    ]
    streamed = chunks_of(events)[-1]["candidates"][0]["groundingMetadata"]
    metadata = body_of(*events[1:])["candidates"][0]["groundingMetadata"]
    (support,) = metadata["groundingSupports"]

    assert metadata == streamed
    assert {"partIndex": 2, "endIndex": 3, "text": "One"} == support["segment"]
    assert ["A", "B"] == [one["web"]["title"] for one in metadata["groundingChunks"]]


def test_blocks_of_vendors_are_parts_sources_or_left_out():
    own = Raw(b'{"executableCode":{"language":"PYTHON","code":"1"}}')
    search = ServerCall(ServerKind.WEB_SEARCH, ("q",))
    found = ServerResult(ServerKind.WEB_SEARCH, (SourceRef("https://a.example", "A"),))
    code = ServerCall(ServerKind.CODE, arguments=Raw(b'{"code":"2"}'))
    printed = ServerResult(ServerKind.CODE, output="3", return_code=1)
    blocks = [
        BlockStart(0, BlockKind.SERVER_CALL, vendor="google", raw=own),
        BlockStart(1, BlockKind.SERVER_CALL, vendor="openai", raw=Raw(b"{}"), server=search),
        BlockStart(2, BlockKind.SERVER_RESULT, vendor="openai", raw=Raw(b"{}"), server=found),
        BlockStart(3, BlockKind.SERVER_CALL, vendor="openai", raw=Raw(b"{}"), server=code),
        BlockStart(4, BlockKind.SERVER_RESULT, vendor="openai", raw=Raw(b"{}"), server=printed),
        BlockStart(5, BlockKind.OPAQUE, vendor="openai", raw=Raw(b"{}")),
    ]
    events = [event for start in blocks for event in (start, BlockEnd(start.index))]
    (candidate,) = body_of(*events, *END)["candidates"]

    assert [
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"executableCode": {"language": "PYTHON", "code": "2"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_FAILED", "output": "3"}},
    ] == candidate["content"]["parts"]
    assert ["q"] == candidate["groundingMetadata"]["webSearchQueries"]


def test_a_free_form_call_has_its_input_as_an_argument():
    body = body_of(
        BlockStart(0, BlockKind.CUSTOM_CALL, "k", "patch"),
        InputDelta(0, "a\nb"),
        BlockEnd(0),
        Usage(final=True),
        Finish(FinishReason.TOOL_CALLS),
    )
    (part,) = body["candidates"][0]["content"]["parts"]

    assert {"name": "patch", "args": {"input": "a\nb"}, "id": "k"} == part["functionCall"]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ("", {"text": "Hm.", "thought": True, "thoughtSignature": "U0lH"}),
        ("text", {"text": "", "thoughtSignature": "U0lH"}),
    ],
)
def test_signatures_of_google_return_as_they_are_within_the_dialect(item, expected):
    kind = OpaqueKind.ENCRYPTED if item else OpaqueKind.SIGNATURE
    events = (
        BlockStart(0, BlockKind.REASONING),
        ReasoningDelta(0, "Hm.", Channel.SUMMARY),
        Opaque(0, kind, "U0lH", "gemini-api", item),
        BlockEnd(0),
    )

    assert [expected] == parts_in(*events, of=exchange(keep_identity=True))


def test_state_of_others_that_no_call_carries_is_in_a_last_part():
    thought, carrier = parts_in(
        BlockStart(0, BlockKind.REASONING),
        ReasoningDelta(0, "Hm.", Channel.FULL),
        Opaque(0, OpaqueKind.SIGNATURE, "x", "anthropic"),
        BlockEnd(0),
    )

    assert {"text": "Hm.", "thought": True} == thought
    assert "" == carrier["text"]
    assert carrier["thoughtSignature"].startswith("ZGdtMS")


def test_counts_and_pages_of_models():
    models = [ListedModel(f"m{at}", f"M{at}", at * 10, 0) for at in range(3)]
    first = json.loads(encode_models(models, {"pageSize": "2"}))
    rest = json.loads(encode_models(models, {"pageToken": first["nextPageToken"]}))

    assert ["models/m0", "models/m1"] == [one["name"] for one in first["models"]]
    assert (["models/m2"], None) == (
        [one["name"] for one in rest["models"]],
        rest.get("nextPageToken"),
    )
    assert "inputTokenLimit" not in first["models"][0]
    assert 20 == json.loads(encode_model(models[2]))["inputTokenLimit"]
    assert {"totalTokens": 7, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 7}]} == (
        json.loads(encode_count(7))
    )
    assert encode_models(models, {}) == encode_models(models, {"pageSize": "0"})
    for query in ({"pageSize": "-1"}, {"pageSize": "x"}, {"pageToken": "m9"}):
        fault = encode_models(models, query)
        assert isinstance(fault, Fault)
        assert fault.param in query
