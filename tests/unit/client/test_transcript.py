"""A tool loop as a value."""

import msgspec
import pytest
from msgspec import Raw

from dragoman.client.messages import assistant, request, result, system, tool, user
from dragoman.client.transcript import Transcript
from dragoman.errors import MalformedError
from dragoman.turn.events import Flavor, OpaqueKind
from dragoman.turn.request import (
    Base64Source,
    ImagePart,
    OpaquePart,
    OpaqueState,
    ReasoningPart,
    ReasoningSegment,
    RefusalPart,
    Request,
    ServerToolPart,
    TextPart,
    Tool,
    ToolCallPart,
    ToolResultPart,
)

REQUEST = request(
    system("Be brief."),
    user("Look", ImagePart(Base64Source("image/png", "aGk="))),
    assistant(
        ReasoningPart(
            (ReasoningSegment("hm"),), (OpaqueState(OpaqueKind.SIGNATURE, "sig", "anthropic"),)
        ),
        TextPart("so", citations=(Raw(b'{"url": 1}'),), vendor="anthropic"),
        ServerToolPart("anthropic", "server_call", Raw(b'{"a":  1.0}')),
        OpaquePart("openai", Raw(b"null")),
        RefusalPart("no"),
        ToolCallPart("c1", "look", '{"b": 1, "a": 2}'),
        ToolCallPart("c2", "patch", "***", Flavor.CUSTOM),
    ),
    result("c1", "done", is_error=True),
    tools=[
        tool("look", description="Look.", schema='{"type":  "object", "x": 1e3}'),
        Tool(name="patch", flavor=Flavor.CUSTOM, examples=(Raw(b"1"),)),
        Tool(name="search", server=True, vendor="openai", raw=Raw(b'{"type":"web_search"}')),
    ],
    max_tokens=5,
    temperature=0.5,
    stop=["x"],
    reasoning="high",
    schema={"type": "object"},
)
WHOLE = Transcript(
    request=REQUEST,
    turns=3,
    calls=4,
    tokens=500,
    seconds=1.5,
    given=(ToolResultPart("c1", (TextPart("done"),)),),
    broken={"c2": "cut"},
)


@pytest.mark.parametrize(
    "transcript",
    [
        Transcript(request=Request(dialect="chat", model="")),
        WHOLE,
        Transcript(
            request=Request(
                dialect="responses",
                model="m",
                metadata=Raw(b'{"k":"v"}'),
                extensions={"x": Raw(b"[1, 2]")},
            )
        ),
    ],
)
def test_s_9_a_transcript_is_read_as_it_was_written(transcript: Transcript) -> None:
    data = transcript.encode()

    assert transcript == Transcript.decode(data)
    assert data == Transcript.decode(data).encode()


def test_schemas_and_arguments_keep_their_blanks_and_digits() -> None:
    read = Transcript.decode(WHOLE.encode())

    assert b'{"type":  "object", "x": 1e3}' == bytes(read.request.tools[0].schema)
    assert '{"b": 1, "a": 2}' == read.request.turns[1].parts[5].arguments


def test_half_a_character_does_not_keep_a_transcript_from_being_written() -> None:
    transcript = Transcript(request=request(user("half \ud83d")))

    assert "half �" == Transcript.decode(transcript.encode()).request.turns[0].parts[0].text


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff",
        b"[" * 10_000,
        b'{"version":1}',
        b'{"version":"1"}',
        WHOLE.encode()[:-1],
        WHOLE.encode().replace(b'"schemas":[', b'"schemas":[1,'),
    ],
)
def test_anything_else_is_no_transcript(data: bytes) -> None:
    with pytest.raises(MalformedError, match="not a transcript"):
        Transcript.decode(data)


def test_a_later_version_is_reported_as_such() -> None:
    with pytest.raises(MalformedError, match="version 2, not 1"):
        Transcript.decode(WHOLE.encode().replace(b'"version":1', b'"version":2'))


def test_it_is_plain_json() -> None:
    assert 1 == msgspec.json.decode(WHOLE.encode())["version"]
