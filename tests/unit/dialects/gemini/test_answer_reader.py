"""What the corpus does not show of reading an answer: limits, speed, and answers in one piece."""

import json

import pytest
from msgspec import structs

from dragoman.context import Exchange, Rendering
from dragoman.dialects import DIALECT_NAMES
from dragoman.dialects.framing import StreamReader
from dragoman.errors import TooLargeError
from dragoman.limits import Limits
from dragoman.profiles import profile
from dragoman.translate import Translator, translate_body
from dragoman.translate_requests import translate_request
from dragoman.turn.answer import fold
from dragoman.turn.events import Citation, DeltaRun, Fault, FinishReason
from dragoman.turn.request import Request, Tool
from dragoman.turn.server_tools import ServerKind
from tests.support.corpus import ROOT, drive
from tests.support.tables import in_one_test
from tests.unit.dialects.gemini.support import GEMINI, exchange, read


def chunk(*parts, finish="", **more):
    candidate = {"content": {"parts": list(parts), "role": "model"}}
    return {"candidates": [candidate | ({"finishReason": finish} if finish else {})], **more}


def test_text_chunks_of_one_read_are_one_run():
    of = exchange("gemini-api")
    reader = StreamReader(GEMINI.frame_reader(of), of)
    stream = b"".join(
        b'data: {"candidates":[{"content":{"parts":[{"text":"w%d"}],"role":"model"}}],'
        b'"modelVersion":"m"}\n\n' % at
        for at in range(20)
    )

    assert any(isinstance(event, DeltaRun) for event in reader.feed(stream))


def test_a_stream_within_the_dialect_passes_byte_for_byte():
    stream = b"".join(
        b"data: %b\r\n\r\n" % json.dumps(one).encode()
        for one in (
            chunk({"text": "Hm.", "thought": True}),
            chunk({"text": "a"}),
            chunk({"functionCall": {"name": "f", "args": {"x": 1}, "id": "k"}}),
            chunk({"text": ""}, finish="STOP", usageMetadata={"promptTokenCount": 1}),
        )
    )
    relay = Translator(source="gemini", target="gemini", profile="gemini-api")
    out = b"".join(relay.feed(stream[at : at + 9]) for at in range(0, len(stream), 9))

    assert stream == out + relay.close()


def test_a_body_within_the_dialect_passes_byte_for_byte():
    body = json.dumps(
        chunk({"text": "a"}, finish="STOP", usageMetadata={"totalTokenCount": 3}, new=1)
    ).encode()

    assert body == translate_body(body, source="gemini", target="gemini").body


@pytest.mark.parametrize(
    "body",
    [
        b"{}",
        b'{"candidates":[]}',
        b'{"candidates":[{"content":{"parts":[{"text":"a"}]}}]}',
        b'{"candidates":7}',
    ],
)
def test_a_body_without_an_answer_is_a_failure(body):
    answer = translate_body(body, source="gemini", target="chat").answer

    assert "upstream_malformed" == (answer.fault.code if answer.fault else "")


def test_an_error_in_a_list_is_the_answers_failure():
    body = b'[{"error":{"code":404,"message":"no model","status":"NOT_FOUND"}}]'

    assert 404 == translate_body(body, source="gemini", target="anthropic").status


def test_limits_hold():
    calls = [chunk({"functionCall": {"name": "f", "args": {"x": "y" * 50}}}) for _ in range(4)]
    for limits, name in (
        (Limits(max_calls=3), "max_calls"),
        (Limits(max_turn_args_bytes=100), "max_turn_args_bytes"),
    ):
        of = Exchange(profile=profile("gemini-api"), limits=limits)
        reader = StreamReader(GEMINI.frame_reader(of), of)
        stream = b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in calls)
        with pytest.raises(TooLargeError, match=name):
            reader.feed(stream)


def test_sources_of_another_part_have_no_place_in_this_one():
    grounding = {
        "groundingChunks": [{"web": {"uri": "https://a.example", "title": "a"}}],
        "groundingSupports": [
            {"segment": {"endIndex": 3, "text": text}, "groundingChunkIndices": [0]}
            for text in ("One", "Two")
        ],
    }
    searches = Tool(name="web_search", server=True, does=ServerKind.WEB_SEARCH)
    asked = Request(dialect="chat", model="m", turns=(), tools=(searches,))
    end = chunk({"text": "Two"}, finish="STOP")
    end["candidates"][0]["groundingMetadata"] = grounding
    image = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    events = read(chunk({"text": "One"}), chunk(image), end, request=asked)

    cited = [(one.start, one.end) for one in events if isinstance(one, Citation)]
    assert [(None, None), (0, 3)] == cited


def test_a_call_without_a_name_is_a_failure():
    events = read(chunk({"functionCall": {"args": {}}}, finish="STOP"))

    assert isinstance(events[-1], Fault)
    assert "call_without_name" == events[-1].code


TEXT = {"text": "a"}
CALL = {"functionCall": {"id": "k", "name": "f", "args": {}}}
FILTERS = (
    *("SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE"),
    *("MODEL_ARMOR", "IMAGE_SAFETY", "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION"),
)
UNUSABLE = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS")
VAGUE = ("OTHER", "NO_IMAGE", "IMAGE_OTHER", "FINISH_REASON_UNSPECIFIED")
FAILS = "upstream_bad"
# What each word means at the end of nothing, of a text and of a call, and what is reported with content.
ENDINGS = [
    ("STOP", "stop", "stop", "tool_calls", ()),
    ("stop", "stop", "stop", "tool_calls", ()),
    ("MAX_TOKENS", "length", "length", "length", ()),
    *((word, *("content_filter",) * 3, ()) for word in FILTERS),
    *((word, FAILS, FAILS, "tool_calls", ("finish_reason_fixed",)) for word in UNUSABLE),
    *((word, FAILS, "stop", "tool_calls", ("finish_reason_unknown",)) for word in VAGUE),
    ("CONTINUATION", "length", "length", "length", ("continuation_capped",)),
    ("WEIRD_NEW", "stop", "stop", "tool_calls", ("finish_reason_unknown",)),
]


@in_one_test
@pytest.mark.parametrize(("word", "nothing", "text", "call", "codes"), ENDINGS)
def test_every_finish_reason_is_an_ending_or_a_failure(
    word: str, nothing: str, text: str, call: str, codes: tuple[str, ...]
) -> None:
    for parts, expected in (((), nothing), ((TEXT,), text), ((TEXT, CALL), call)):
        sent = chunk(*parts, finish=word, usageMetadata={"totalTokenCount": 1})
        sent["candidates"][0]["finishMessage"] = "Why."
        answer = fold(read(sent))
        if answer.fault is not None:
            assert expected == answer.fault.kind
            assert word in answer.fault.message
            continue
        assert expected == answer.finish.reason
        filtered = expected == "content_filter"
        assert (word.lower() if filtered else "") == answer.finish.category
        assert ("Why." if filtered else "") == answer.finish.explanation
        # Nothing shows whether the last call before a limit or a filter is whole.
        doubted = CALL in parts and expected in ("length", "content_filter")
        if parts:
            uncertain = {"input_uncertain", "call_cut"} if doubted else set()
            assert {*codes} | uncertain == {loss.code for loss in answer.losses}


@pytest.mark.parametrize(
    "word",
    [
        *("SAFETY", "OTHER", "BLOCKLIST", "PROHIBITED_CONTENT"),
        *("IMAGE_SAFETY", "MODEL_ARMOR", "JAILBREAK"),
    ],
)
@pytest.mark.parametrize("as_number", [False, True])
def test_a_blocked_prompt_is_filtered_for_its_reason(word: str, as_number: bool) -> None:
    numbers = {"SAFETY": 1, "OTHER": 2, "BLOCKLIST": 3, "PROHIBITED_CONTENT": 4}
    sent = numbers.get(word, word) if as_number else word
    feedback = {"blockReason": sent, "blockReasonMessage": "No."}

    finish = fold(read({"promptFeedback": feedback})).finish

    assert ("content_filter", word.lower(), "No.") == (
        finish.reason,
        finish.category,
        finish.explanation,
    )


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        ({"promptTokenCount": 9, "candidatesTokenCount": 4}, (9, 4, 0, 0)),
        ({"promptTokenCount": 9, "cachedContentTokenCount": 6}, (3, 0, 6, 0)),
        ({"promptTokenCount": 9, "toolUsePromptTokenCount": 2}, (11, 0, 0, 0)),
        ({"candidatesTokenCount": 4, "thoughtsTokenCount": 3}, (0, 7, 0, 3)),
        ({"promptTokenCount": 9, "totalTokenCount": 14}, (9, 5, 0, 0)),
        ({"promptTokenCount": "9", "candidatesTokenCount": None}, (9, 0, 0, 0)),
    ],
)
def test_token_counts(counts: dict[str, object], expected: tuple[int, ...]) -> None:
    usage = fold(read(chunk(TEXT, finish="STOP", usageMetadata=counts))).usage

    assert expected == (
        usage.input_tokens,
        usage.output_tokens,
        usage.cache_read_tokens,
        usage.reasoning_tokens,
    )


@in_one_test
@pytest.mark.parametrize(
    ("number", "reason", "category"),
    [
        (1, "stop", ""),
        (2, "length", ""),
        (3, "content_filter", "safety"),
        (4, "content_filter", "recitation"),
        (7, "content_filter", "safety"),  # another filter in each of Google's two APIs
        (11, "content_filter", "image_safety"),
    ],
)
def test_a_finish_reason_may_be_a_number(number: int, reason: str, category: str) -> None:
    answer = fold(read(chunk(TEXT, finish=number)))

    assert (reason, category) == (answer.finish.reason, answer.finish.category)
    assert ["usage_missing"] == [loss.code for loss in answer.losses]


def test_a_number_that_no_finish_reason_has_is_reported() -> None:
    answer = fold(read(chunk(TEXT, finish=99)))

    assert ["finish_reason_unknown", "usage_missing"] == [loss.code for loss in answer.losses]


@pytest.mark.parametrize("default", ["FINISH_REASON_UNSPECIFIED", 0])
def test_content_may_follow_the_default_of_the_finish_reason(default: str | int) -> None:
    def sent(text, finish=default):
        one = chunk({"text": text}, usageMetadata={"totalTokenCount": 1})
        one["candidates"][0]["finishReason"] = finish
        return one

    whole = fold(read(sent("a"), sent("b"), sent("c", "STOP"), sent("")))
    assert ("abc", FinishReason.STOP, ()) == (whole.text, whole.finish_reason, whole.losses)
    assert "upstream_truncated" == fold(read(sent("a"), sent("b"))).fault.code
    # Alone it may be the end, as far as anything shows.
    assert FinishReason.STOP is fold(read(chunk(TEXT), sent("b"))).finish_reason


@pytest.mark.parametrize("word", ["BLOCK_REASON_UNSPECIFIED", "BLOCKED_REASON_UNSPECIFIED", 0])
def test_the_default_of_the_block_reason_blocks_nothing(word: str | int) -> None:
    events = read({"promptFeedback": {"blockReason": word}}, chunk(TEXT))

    assert "upstream_truncated" == fold(events).fault.code


def test_only_a_gemini_client_gets_an_answer_to_continue() -> None:
    stream = (ROOT / "gemini" / "continuation" / "stream.sse").read_bytes()
    found = {}
    for target in DIALECT_NAMES:
        translator = Translator(source="gemini", target=target)
        out = translator.feed(stream) + translator.close()
        codes = {loss.code for loss in translator.losses}
        found[target] = (b"dG9rZW4=" in out, translator.outcome.reason, codes)

    cut = (False, FinishReason.LENGTH, {"continuation_capped"})
    own = (True, FinishReason.PAUSE, set())
    assert {**dict.fromkeys(DIALECT_NAMES, cut), "gemini": own} == found


def test_an_answer_to_continue_keeps_its_token_when_it_is_written_again() -> None:
    stream = (ROOT / "gemini" / "continuation" / "stream.sse").read_bytes()
    listed = Translator(source="gemini", target="gemini", rendering=Rendering(framing="list"))
    chunks = json.loads(listed.feed(stream) + listed.close())
    # Another id for a call makes the gateway write a body again.
    call = {"functionCall": {"id": "bad id", "name": "f", "args": {}}}
    last = {"finishReason": "CONTINUATION", "continuationToken": "dG9rZW4="}
    body = chunk(call, {"text": "a"})
    body["candidates"][0] |= last
    again = translate_body(json.dumps(body).encode(), source="gemini", target="gemini").body

    assert b"bad id" not in again
    for written in (chunks[-1], json.loads(again)):
        assert last.items() <= written["candidates"][0].items()


def test_fields_that_are_not_written_again_are_reported_once() -> None:
    more = {"createTime": "2026-01-01T00:00:00Z"}
    rated = {"safetyRatings": [], "citationMetadata": {}}
    # A relay writes the answer again from the call on, whose id no client could use.
    call = {"functionCall": {"id": "bad id", "name": "f", "args": {}}}
    chunks = [
        chunk({"text": "a"}, **more),
        chunk({"text": "b"}, **more),
        chunk(call, finish="STOP"),
    ]
    chunks[-1] |= more
    for one in chunks:
        one["candidates"][0] |= rated
    stream = b"".join(b"data: %b\n\n" % json.dumps(one).encode() for one in chunks)
    paths = ["$.createTime", *(f"$.candidates[0].{name}" for name in rated)]

    for framing in ("sse", "list"):
        to = Translator(source="gemini", target="gemini", rendering=Rendering(framing=framing))
        out = to.feed(stream) + to.close()
        assert b"bad id" not in out
        assert paths == [one.path for one in to.losses if one.code == "field_dropped"]
    body = json.dumps(chunks[-1]).encode()
    losses = translate_body(body, source="gemini", target="gemini").losses
    assert sorted(paths) == sorted(one.path for one in losses if one.code == "field_dropped")
    forwarded = Translator(source="gemini", target="gemini")
    forwarded.feed(stream.replace(b"bad id", b"good"))
    forwarded.close()
    assert "field_dropped" not in [one.code for one in forwarded.losses]


# --- whose signatures they are ------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_chat_client_gives_a_signature_back_to_its_own_family_alone(stream):
    part = {"functionCall": {"id": "k1", "name": "f", "args": {}}, "thoughtSignature": "U0lH"}
    candidate = {"content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    answer = {"candidates": [candidate], "modelVersion": "gemini-3-flash", "responseId": "r"}
    data = json.dumps(answer).encode()
    if stream:
        translator = Translator(source="gemini", target="chat", profile="gemini-api")
        out = translator.feed(b"data: %b\r\n\r\n" % data) + translator.close()
        chunks = [json.loads(one[6:]) for one in out.split(b"\n\n") if one.startswith(b"data: {")]
        calls = [one["choices"][0]["delta"].get("tool_calls") for one in chunks if one["choices"]]
        extra = next(one[0]["extra_content"] for one in calls if one and "extra_content" in one[0])
    else:
        body = translate_body(data, source="gemini", target="chat", profile="gemini-api").body
        extra = json.loads(body)["choices"][0]["message"]["tool_calls"][0]["extra_content"]
    call = {"id": "k1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [call | {"extra_content": extra}]},
        {"role": "tool", "tool_call_id": "k1", "content": "1"},
    ]
    history = json.dumps({"model": "m", "messages": messages}).encode()

    def sent(target, upstream, model):
        options = {"profile": upstream, "model": model}
        return translate_request(history, source="chat", target=target, **options)

    assert {"thought_signature": "U0lH"} == extra["google"]
    assert b'"thoughtSignature":"U0lH"' in sent("gemini", "gemini-api", "gemini-3.1-pro").body
    for upstream, model in (("gemini-api", "gemini-2.5-pro"), ("vertex", "gemini-3-pro")):
        other = sent("gemini", upstream, model)
        assert b"U0lH" not in other.body
        assert "opaque_dropped" in {loss.code for loss in other.losses}
    relayed = sent("chat", "openai", "gpt-5")
    assert b"dgm_" not in relayed.body
    assert b"U0lH" not in relayed.body


def test_a_lenient_upstream_may_end_after_its_calls():
    lenient = structs.replace(profile("gemini-api"), lenient_eof=True)
    of = structs.replace(exchange(), profile=lenient)
    call = chunk({"functionCall": {"name": "f", "args": {}}})

    answer = fold(
        drive(
            StreamReader(GEMINI.frame_reader(of), of), [b"data: %b\n\n" % json.dumps(call).encode()]
        )
    )
    assert FinishReason.TOOL_CALLS is answer.finish_reason
    assert "finish_reason_fixed" in [loss.code for loss in answer.losses]
    assert "upstream_truncated" == fold(read(call)).fault.code


def test_the_name_of_a_call_is_limited():
    def named(length):
        return chunk({"functionCall": {"name": "f" * length, "args": {}}}, finish="STOP")

    assert "f" * 1024 == fold(read(named(1024))).tool_calls[0].name
    with pytest.raises(TooLargeError, match="max_tool_name_chars"):
        read(named(1025))
