"""A complete answer holds what its stream says."""

import json

from dragoman.dialects.gemini.body_writer import encode_body
from dragoman.translate import Translator, translate_body
from dragoman.translate_requests import read_request
from dragoman.turn.answer import fold
from dragoman.turn.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    Start,
    Usage,
)
from tests.support.corpus import SEALER
from tests.unit.dialects.gemini.support import exchange, parts_of


def body_of(*events: Event):
    return json.loads(encode_body(fold([Start("m", "i"), *events]), exchange()))


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
