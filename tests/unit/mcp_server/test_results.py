"""The library's values in the shapes that tools give back."""

from msgspec import Raw

from dragoman.client.errors import ClientError
from dragoman.errors import MalformedError, MisuseError, TooLargeError
from dragoman.mcp_server.results import Piece, chat_output, failure_of, pieces_of
from dragoman.mcp_server.tool_types import Failure, SourceEntry
from dragoman.turn.answer import Answer, Block, fold
from dragoman.turn.events import (
    ArgsDelta,
    BlockEnd,
    BlockKind,
    BlockStart,
    Citation,
    Finish,
    FinishReason,
    InputDelta,
    Ping,
    ReasoningDelta,
    RefusalDelta,
    Start,
    TextDelta,
)


def test_pieces_keep_channels_apart_and_what_came_in_order() -> None:
    pieces = pieces_of(
        [
            Start(),
            ReasoningDelta(0, "hm"),
            BlockEnd(0),
            BlockStart(1, BlockKind.TEXT),
            TextDelta(1, "a"),
            TextDelta(1, "b"),
            Ping(),
            BlockStart(2, BlockKind.TOOL_CALL, "c1", "look"),
            ArgsDelta(2, '{"x"'),
            ArgsDelta(2, ":1}"),
            BlockStart(3, BlockKind.TOOL_CALL, "c2", "wait"),
            BlockStart(4, BlockKind.CUSTOM_CALL, "c3", "patch"),
            InputDelta(4, "***"),
            TextDelta(5, "c"),
            ReasoningDelta(6, "so"),
        ]
    )

    assert [
        Piece("hm", "ab", "look", '{"x":1}'),
        Piece(call="wait"),
        Piece(call="patch", arguments="***"),
        Piece(text="c"),
        Piece("so"),
    ] == pieces


def test_events_that_say_nothing_make_no_piece() -> None:
    assert [] == pieces_of([Start(), Ping(), BlockStart(0, BlockKind.TEXT), BlockEnd(0)])


def test_everything_in_an_answer_is_reported() -> None:
    answer = Answer(
        Start(model="m"),
        (
            Block(BlockKind.TEXT, "Hi", citations=(Citation(0, "u", "t", "c"),)),
            Block(BlockKind.REFUSAL, "no"),
            Block(BlockKind.SERVER_CALL, raw=Raw(b'{"a":1}')),
            Block(BlockKind.OPAQUE, raw=Raw(b"[2]")),
            Block(BlockKind.TOOL_CALL, "{", call_id="functions.a:0", name="a", complete=False),
        ),
        finish=Finish(FinishReason.LENGTH),
    )
    output = chat_output(answer, {"functions.a:0"})

    assert ("Hi", "no", "length", "m") == (output.text, output.refusal, output.finish, output.model)
    assert [SourceEntry(url="u", title="t", cited_text="c")] == output.sources
    assert [b'{"a":1}', b"[2]"] == [bytes(one) for one in output.other]
    assert [("gx1-functions-2ea-3a0", False)] == [
        (one.id, one.complete) for one in output.tool_calls
    ]
    assert None is output.usage


def test_an_error_of_the_client_is_reported_field_for_field() -> None:
    received = fold(
        [
            Start(),
            BlockStart(0, BlockKind.REFUSAL),
            RefusalDelta(0, "no"),
            BlockEnd(0),
            Finish(FinishReason.REFUSAL),
        ]
    )
    error = ClientError(
        "http",
        "overloaded",
        status=529,
        request_id="r",
        retry_after=2.5,
        code="c",
        kind="overloaded",
        received=received,
    )

    assert Failure(
        error="ClientError",
        message="overloaded",
        stage="http",
        kind="overloaded",
        status=529,
        code="c",
        retry_after=2.5,
        request_id="r",
        received=chat_output(received),
    ) == failure_of(error)


def test_other_errors_report_their_class_and_path() -> None:
    assert Failure(error="MalformedError", message="bad (at `$.a`)", path="$.a") == failure_of(
        MalformedError("bad", path="$.a")
    )
    passed = failure_of(TooLargeError("max_events", 1))
    assert ("TooLargeError", "max_events") == (passed.error, passed.code)
    assert "MisuseError" == failure_of(MisuseError("no")).error
