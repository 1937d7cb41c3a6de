"""Events become chunks that every SDK reads, and state that returns in its place."""

import base64
import json

import pytest
from msgspec import Raw, structs

from dragoman import Translator
from dragoman.checker.checker import check
from dragoman.context import Rendering
from dragoman.dialects import DIALECT_NAMES
from dragoman.dialects.framing import StreamReader
from dragoman.dialects.gemini.answer_writer import readable_frames
from dragoman.errors import IllegalOrderError
from dragoman.turn.events import (
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Channel,
    Citation,
    DeltaRun,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    Flavor,
    InputDelta,
    Opaque,
    OpaqueKind,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    Start,
    TextDelta,
    Usage,
)
from dragoman.turn.request import ReasoningPart, Request, TextPart
from tests.support.corpus import corpus, drive
from tests.support.tables import check_all, in_one_test
from tests.unit.dialects.gemini.support import (
    GEMINI,
    asked,
    chunks_of,
    exchange,
    model,
    parts_of,
    result,
    user,
)

START = Start("up-model", "up-id", 7)
USAGE = Usage(36, 32, 64, reasoning_tokens=12, final=True)
STOP = [USAGE, Finish(FinishReason.STOP)]
CALLED = [USAGE, Finish(FinishReason.TOOL_CALLS)]


def text(index, *pieces):
    deltas = [TextDelta(index, one) for one in pieces]
    return [BlockStart(index, BlockKind.TEXT), *deltas, BlockEnd(index)]


def thought(index, words, *opaque):
    delta = [ReasoningDelta(index, words, Channel.SUMMARY)] if words else []
    states = [Opaque(index, kind, data, origin) for kind, data, origin in opaque]
    return [BlockStart(index, BlockKind.REASONING), *delta, *states, BlockEnd(index)]


def call(index, call_id="k1", *opaque, arguments='{"a":1}', complete=True):
    states = [Opaque(index, kind, data, origin) for kind, data, origin in opaque]
    return [
        BlockStart(index, BlockKind.TOOL_CALL, call_id, "look"),
        *states,
        ArgsDelta(index, arguments),
        BlockEnd(index, complete),
    ]


SIGNED = (OpaqueKind.SIGNATURE, "c2ln", "anthropic")
CALL_SIGNED = (OpaqueKind.TOOL_SIGNATURE, '{"google":{"thought_signature":"U0lH"}}', "gemini")


def test_text_and_the_end():
    chunks = chunks_of([START, *text(0, "Hel", "lo"), *STOP])

    assert [{"text": "Hel"}, {"text": "lo"}, {"text": ""}] == parts_of(chunks)
    assert "STOP" == chunks[-1]["candidates"][0]["finishReason"]
    assert {
        "promptTokenCount": 100,
        "cachedContentTokenCount": 64,
        "candidatesTokenCount": 20,
        "thoughtsTokenCount": 12,
        "totalTokenCount": 132,
    } == chunks[-1]["usageMetadata"]
    assert {"up-model"} == {one["modelVersion"] for one in chunks}
    assert 1 == len({one["responseId"] for one in chunks})


def test_a_run_is_written_as_its_deltas():
    run = DeltaRun(0, [b"a", b'\\"b'], TextDelta(0, 'a"b'))
    known = Request(dialect="gemini", model="m")
    written = []
    for deltas in ([run], run.deltas()):
        writer = GEMINI.writer(exchange(request=known))
        events = [START, BlockStart(0, BlockKind.TEXT), *deltas, BlockEnd(0), *STOP]
        written.append(b"".join(writer.send(event) for event in events))

    assert written[0] == written[1]


def test_every_chunk_has_a_role_and_a_part_on_one_line():
    writer = GEMINI.writer(exchange())
    events = [START, *thought(0, "Hm.\n"), *text(1, "a\nb"), *call(2), *CALLED]
    out = b"".join(writer.send(event) for event in events)

    for frame in out.removesuffix(b"\n\n").split(b"\n\n"):
        assert frame.startswith(b"data: {")
        assert b"\n" not in frame
        content = json.loads(frame[6:])["candidates"][0]["content"]
        assert "model" == content["role"]
        assert content["parts"]


def test_a_call_is_whole_and_its_id_legal_and_unique():
    parts = parts_of(chunks_of([START, *call(0, "x"), *call(1, "x"), *call(2, ""), *CALLED]))
    ids = [part["functionCall"]["id"] for part in parts if "functionCall" in part]

    assert {"a": 1} == parts[0]["functionCall"]["args"]
    assert 3 == len(set(ids))
    assert "x" == ids[0]


def test_free_form_input_is_an_argument():
    events = [
        BlockStart(0, BlockKind.CUSTOM_CALL, "k", "patch", flavor=Flavor.CUSTOM),
        InputDelta(0, "a\n"),
        InputDelta(0, '"b'),
        BlockEnd(0),
    ]
    part = parts_of(chunks_of([START, *events, *CALLED]))[0]

    assert {"input": 'a\n"b'} == part["functionCall"]["args"]


@pytest.mark.parametrize("arguments", ['{"a":', "[1]", "nonsense"])
def test_half_a_call_is_text(arguments):
    length = [USAGE, Finish(FinishReason.LENGTH)]
    chunks = chunks_of([START, *call(0, arguments=arguments, complete=False), *length])

    assert not any("functionCall" in part for part in parts_of(chunks))
    assert arguments in parts_of(chunks)[0]["text"]
    assert "MAX_TOKENS" == chunks[-1]["candidates"][0]["finishReason"]


@pytest.mark.parametrize(
    ("finish", "word"),
    [
        (Finish(FinishReason.STOP), "STOP"),
        (Finish(FinishReason.STOP_SEQUENCE), "STOP"),
        (Finish(FinishReason.REFUSAL), "STOP"),
        (Finish(FinishReason.COMPACTION), "STOP"),
        (Finish(FinishReason.LENGTH), "MAX_TOKENS"),
        (Finish(FinishReason.CONTEXT_FULL), "MAX_TOKENS"),
        (Finish(FinishReason.PAUSE), "MAX_TOKENS"),
        (Finish(FinishReason.CONTENT_FILTER), "SAFETY"),
        (Finish(FinishReason.CONTENT_FILTER, category="recitation"), "RECITATION"),
        (Finish(FinishReason.CONTENT_FILTER, category="model_armor"), "MODEL_ARMOR"),
    ],
)
def test_finish_words(finish, word):
    chunks = chunks_of([START, *text(0, "a"), USAGE, finish])

    assert word == chunks[-1]["candidates"][0]["finishReason"]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (Usage(9, 4), (9, None, 4, None, 13)),
        (Usage(3, 7, 6, reasoning_tokens=3), (9, 6, 4, 3, 16)),
        (Usage(3, 7, 0, 5, 1), (9, None, 7, None, 16)),  # cache writes are part of the prompt
    ],
)
def test_token_counts(usage, expected):
    names = ("prompt", "cachedContent", "candidates", "thoughts", "total")
    last = structs.replace(usage, final=True)
    chunks = chunks_of([START, *text(0, "a"), last, Finish(FinishReason.STOP)])

    counts = chunks[-1]["usageMetadata"]
    assert expected == tuple(counts.get(f"{name}TokenCount") for name in names)


@pytest.mark.parametrize(
    ("category", "block", "word"),
    [
        ("cyber", "SAFETY", "SAFETY"),
        ("model_armor", "MODEL_ARMOR", "MODEL_ARMOR"),
        ("jailbreak", "JAILBREAK", "SAFETY"),  # no finish reason
    ],
)
def test_an_answer_that_was_refused_as_a_whole_has_both_reports(category, block, word):
    filtered = Finish(FinishReason.CONTENT_FILTER, category=category, explanation="No.")
    (chunk,) = chunks_of([START, USAGE, filtered])

    assert {"blockReason": block, "blockReasonMessage": "No."} == chunk["promptFeedback"]
    assert (word, "No.") == (
        chunk["candidates"][0]["finishReason"],
        chunk["candidates"][0]["finishMessage"],
    )


def test_a_failure_is_an_event_and_a_sign_of_life_a_blank_line():
    writer = GEMINI.writer(exchange())

    assert b"\r\n" == writer.send(Ping())
    failed = writer.send(Fault(FaultKind.OVERLOADED, "too much"))
    assert failed.startswith(b'data: {"error":{"code":503,"message":"too much"')
    with pytest.raises(IllegalOrderError):
        writer.send(START)


def test_thoughts_are_shown_only_if_they_were_asked_for():
    events = [START, *thought(0, "Hm."), *text(1, "Yes."), *STOP]
    quiet = asked(user("x"))
    curious = asked(user("x"), generationConfig={"thinkingConfig": {"includeThoughts": True}})

    assert {"text": "Yes."} == parts_of(chunks_of(events, exchange(request=quiet)))[0]
    assert {"text": "Hm.", "thought": True} == (
        parts_of(chunks_of(events, exchange(request=curious)))[0]
    )


def test_refusals_and_blocks_of_others():
    writer = GEMINI.writer(exchange())
    raw = Raw(b'{"type":"x"}')
    events = [
        START,
        BlockStart(0, BlockKind.REFUSAL),
        RefusalDelta(0, "No."),
        BlockEnd(0),
        BlockStart(1, BlockKind.SERVER_CALL, vendor="anthropic", raw=raw),
        BlockEnd(1),
        BlockStart(2, BlockKind.SERVER_CALL, vendor="google", raw=Raw(b'{"toolCall":{}}')),
        BlockEnd(2),
        *STOP,
    ]
    out = b"".join(writer.send(event) for event in events)

    assert b'{"text":"No."}' in out
    assert b'{"toolCall":{}}' in out
    assert ["refusal_as_text", "server_block_dropped"] == [loss.code for loss in writer.losses]


def test_citations_and_probabilities_come_with_the_end():
    records = Raw(b'[{"token":"a","logprob":-0.5,"top_logprobs":[{"token":"b","logprob":-1}]}]')
    events = [
        BlockStart(0, BlockKind.TEXT),
        TextDelta(0, "Ünder the sun.", records),
        Citation(0, "https://e.com", "E", start=6, end=9),
        BlockEnd(0),
    ]
    candidate = chunks_of([START, *events, *STOP])[-1]["candidates"][0]

    assert {
        "groundingChunks": [{"web": {"uri": "https://e.com", "title": "E"}}],
        "groundingSupports": [
            {
                "segment": {"startIndex": 7, "endIndex": 10, "text": "the"},
                "groundingChunkIndices": [0],
            }
        ],
    } == candidate["groundingMetadata"]
    assert {
        "chosenCandidates": [{"token": "a", "logProbability": -0.5}],
        "topCandidates": [{"candidates": [{"token": "b", "logProbability": -1}]}],
    } == candidate["logprobsResult"]


# --- state that travels through the client ----------------------------------------------------------


def returned(chunks, *, drop_thoughts=False, urlsafe=False):
    """Send an answer's parts back as a client does, with results for its calls."""
    parts = [part for part in parts_of(chunks) if part != {"text": ""}]
    if drop_thoughts:
        parts = [part for part in parts if not part.get("thought")]
    for part in parts:
        if urlsafe and "thoughtSignature" in part:
            raw = base64.b64decode(part["thoughtSignature"])
            part["thoughtSignature"] = base64.urlsafe_b64encode(raw).decode()
    made = [part["functionCall"] for part in parts if "functionCall" in part]
    results = [result(one["name"], one["id"], output="ok") for one in made]
    return asked(user("x"), *(model(part) for part in parts), user(*results, "And?"))


@pytest.mark.parametrize("drop_thoughts", [True, False])
@pytest.mark.parametrize("urlsafe", [True, False])
def test_reasoning_returns_to_its_place_even_through_a_client_that_drops_it(drop_thoughts, urlsafe):
    chunks = chunks_of(
        [
            START, *thought(0, "First.", SIGNED), *text(1, "Hi."), *thought(2, "Then.", SIGNED),
            *call(3, "k1"), *call(4, "k2", CALL_SIGNED), *thought(5, "Last.", SIGNED),
            *call(6, "k3"), *CALLED,
        ]
    )  # fmt: skip
    turn = returned(chunks, drop_thoughts=drop_thoughts, urlsafe=urlsafe).turns[1]
    shown = [
        part.text if isinstance(part, ReasoningPart | TextPart) else part.id for part in turn.parts
    ]

    assert ["First.", "Hi.", "Then.", "k1", "k2", "Last.", "k3"] == shown
    states = [one for part in turn.parts if not isinstance(part, TextPart) for one in part.opaque]
    assert [SIGNED, SIGNED, CALL_SIGNED, SIGNED] == [
        (one.kind, one.data, one.origin) for one in states
    ]


def test_reasoning_without_a_call_behind_it_returns_from_the_last_part():
    chunks = chunks_of([START, *thought(0, "Hm.", SIGNED), *text(1, "Yes."), *STOP])
    last = parts_of(chunks)[-1]
    turn = returned(chunks, drop_thoughts=True).turns[1]

    assert base64.b64decode(last["thoughtSignature"]).startswith(b"dgm1.")
    assert [ReasoningPart, TextPart] == [type(part) for part in turn.parts]
    assert "Hm." == turn.parts[0].text


def test_without_a_key_state_is_dropped_and_reported():
    writer = GEMINI.writer(exchange(sealer=None))
    events = [START, *thought(0, "Hm.", SIGNED), *call(1, "k", CALL_SIGNED), *CALLED]
    out = b"".join(writer.send(event) for event in events)

    assert b"thoughtSignature" not in out
    assert ["opaque_dropped", "opaque_dropped"] == [loss.code for loss in writer.losses]


# --- a list instead of events -----------------------------------------------------------------------

LIST = Rendering(framing="list")


def pieces_of(events, of):
    writer = GEMINI.writer(of)
    return [writer.send(event) for event in events]


@pytest.mark.parametrize("name", DIALECT_NAMES)
def test_a_list_holds_the_chunks_of_the_stream(name):
    check_all(corpus(name), holds_the_chunks_of_the_stream)


def holds_the_chunks_of_the_stream(case):
    events = drive(case.reader(), [case.stream])
    framed = chunks_of(events, case.exchange("gemini"))

    listed = b"".join(pieces_of(events, structs.replace(case.exchange("gemini"), rendering=LIST)))

    assert framed == json.loads(listed)
    assert () == check("gemini", listed).violations


def test_a_list_grows_by_whole_chunks_and_is_closed_by_its_end_alone():
    events = [START, *text(0, "Hel", "lo"), Ping(), *call(1), *CALLED]

    pieces = pieces_of(events, exchange(rendering=LIST))

    written = [one for one in pieces if one]
    assert written[0].startswith(b"[{")
    assert b"\r\n" in written
    for at in range(1, len(written)):
        so_far = b"".join(written[:at])
        assert at - (b"\r\n" in written[:at]) == len(json.loads(so_far + b"]"))
        with pytest.raises(json.JSONDecodeError):
            json.loads(so_far)
    assert b"".join(written).endswith(b"}]")


def test_a_run_is_several_chunks_of_a_list():
    run = DeltaRun(0, (b"Hel", b"lo"), TextDelta(0, "Hello"))
    events = [START, BlockStart(0, BlockKind.TEXT), run, BlockEnd(0), *STOP]

    chunks = json.loads(b"".join(pieces_of(events, exchange(rendering=LIST))))

    assert [{"text": "Hel"}, {"text": "lo"}, {"text": ""}] == parts_of(chunks)


@pytest.mark.parametrize("before", [[], [START, *text(0, "Half")[:-1]]], ids=["first", "later"])
def test_a_failure_is_the_last_element_of_a_list(before):
    events = [*before, Fault(FaultKind.OVERLOADED, "too much")]

    chunks = json.loads(b"".join(pieces_of(events, exchange(rendering=LIST))))

    assert {"code": 503, "message": "too much", "status": "UNAVAILABLE"} == chunks[-1]["error"]
    assert bool(before) == (len(chunks) == 2)


def test_a_list_that_breaks_off_never_looks_complete():
    events = [START, *text(0, "Hello"), *call(1), *CALLED]
    whole = b"".join(pieces_of(events, exchange(rendering=LIST)))

    for at in range(len(whole)):
        of = exchange("gemini-api")
        ended = drive(StreamReader(GEMINI.frame_reader(of), of), [whole[:at]])[-1]
        assert isinstance(ended, Fault), whole[:at]
    of = exchange("gemini-api")
    assert (
        Finish(FinishReason.TOOL_CALLS)
        == (drive(StreamReader(GEMINI.frame_reader(of), of), [whole])[-1])
    )


def test_an_upstream_of_the_dialect_is_written_again_for_a_client_that_wants_a_list():
    case = next(one for one in corpus("gemini") if one.name == "thought_text_two_calls")
    whole = Translator(source="gemini", target="gemini", rendering=LIST, profile="gemini-api")

    chunks = json.loads(whole.feed(case.stream) + whole.close())

    calls = [one["functionCall"] for one in parts_of(chunks) if "functionCall" in one]
    signed = [one for one in parts_of(chunks) if "thoughtSignature" in one]
    assert [("k1", "add"), ("k2", "add")] == [(one["id"], one["name"]) for one in calls]
    assert ["U0lH"] == [one["thoughtSignature"] for one in signed]
    assert "STOP" == chunks[-1]["candidates"][0]["finishReason"]


def test_pages_that_were_read_are_listed_at_the_end():
    case = next(one for one in corpus("gemini") if one.name == "pages_read")
    again = Translator(source="gemini", target="gemini", rendering=LIST, profile="gemini-api")

    chunks = json.loads(again.feed(case.stream) + again.close())

    pages = chunks[-1]["candidates"][0]["urlContextMetadata"]["urlMetadata"]
    words = [one["urlRetrievalStatus"].removeprefix("URL_RETRIEVAL_STATUS_") for one in pages]
    assert ["SUCCESS", "ERROR", "ERROR"] == words
    assert "https://a.example/news" == pages[0]["retrievedUrl"]


# --- what is forwarded of an upstream ---------------------------------------------------------------


@in_one_test
@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"\r\n",
        b"\n\n",
        b'data: {"a":1}\r\n\r\n',
        b'data: {"a":1}\n\n\r\ndata: { "b": 2}\n\n',
        'data: {"a":"it’s 天气 \xa0"}\n\n'.encode() * 3,
        b'data: {"a":1}\r\n\r\n' * 1000,
    ],
)
def test_frames_that_every_client_reads_are_forwarded_as_they_are(raw):
    assert raw is readable_frames(raw)


@in_one_test
@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b": hi\n\n", b"\r\n"),
        (b"id: 7\n\n", b"\r\n"),
        (b"retry: 9\r\n\r\n", b"\r\n"),
        (b"data: [DONE]\n\n", b"\r\n"),
        (b"data: {}\n\n", b"\r\n"),
        (b"data: { }\r\n\r\n", b"\r\n"),
        (b"data: : PROCESSING\n\n", b"\r\n"),
        (b"\r\r", b"\r\n"),
        (b'data: {"half', b"\r\n"),
        (b'data:{"a":1}\n\n', b'data: {"a":1}\r\n\r\n'),
        (b'event: x\nid: 7\n: hi\ndata: {"a":1}\n\n', b'data: {"a":1}\r\n\r\n'),
        (b'data: {"a":\ndata: 1}\n\n', b'data: {"a":1}\r\n\r\n'),
        (b'data: {"a":1}\r\r', b'data: {"a":1}\r\n\r\n'),
        (b'data: {"a":\rdata: 1}\n\n', b'data: {"a":1}\r\n\r\n'),
        (b'data: {"a":1}', b'data: {"a":1}\r\n\r\n'),
        (b'{\r\n"error":{}}\r\n\r\n', b'data: {"error":{}}\r\n\r\n'),
        (b'data: [{"a":1},{"b":2}]\n\n', b'data: {"a":1}\r\n\r\ndata: {"b":2}\r\n\r\n'),
        (
            'data: {"a":"\u2028\u2029\x85"}\n\n'.encode(),
            b'data: {"a":"\\u2028\\u2029\\u0085"}\r\n\r\n',
        ),
        (b'data:{"a":"\xff"}\n\n', 'data: {"a":"\ufffd"}\r\n\r\n'.encode()),
        (
            b'data: {"a":1}\n\n: hi\n\ndata: {"b":2}\n\ndata: [DONE]\n\n',
            b'data: {"a":1}\n\n\r\ndata: {"b":2}\n\n\r\n',
        ),
    ],
)
def test_other_frames_are_forwarded_in_the_form_that_every_client_reads(raw, expected):
    assert expected == readable_frames(raw)
    assert expected is readable_frames(expected)
