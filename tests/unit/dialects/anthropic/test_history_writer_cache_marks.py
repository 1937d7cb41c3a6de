"""Cache marks."""

from dragoman.turn.request import (
    CacheHint,
    Role,
    TextPart,
    Tool,
    ToolCallPart,
    ToolResultPart,
    Turn,
)
from tests.support.messages import ask, codes, encode

MARK = CacheHint()


def test_the_last_four_marks_are_kept() -> None:
    request = ask(
        Turn(Role.USER, (TextPart("a", MARK), TextPart("b", CacheHint(long=True)))),
        system=(TextPart("s", MARK), TextPart("t", MARK)),
        tools=(Tool(name="x", cache=MARK),),
    )

    body = encode(request)

    assert "cache_control" not in body["tools"][0]
    assert [{"type": "ephemeral"}] * 2 == [block["cache_control"] for block in body["system"]]
    assert [{"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}] == [
        block["cache_control"] for block in body["messages"][0]["content"]
    ]
    assert ["cache_hint_dropped"] == codes(request)


def test_a_mark_on_the_whole_prefix_counts() -> None:
    texts = tuple(TextPart(str(at), MARK) for at in range(4))
    body = encode(ask(Turn(Role.USER, texts), cache_all=MARK))

    assert [False, True, True, True] == [
        "cache_control" in block for block in body["messages"][0]["content"]
    ]


def test_marks_on_and_in_results_count() -> None:
    request = ask(
        Turn(Role.USER, (TextPart("a"),)),
        Turn(Role.ASSISTANT, (ToolCallPart("t1", "x", "{}"),)),
        Turn(Role.USER, (ToolResultPart("t1", (TextPart("r", MARK),), cache=MARK),)),
    )

    (block,) = encode(request)["messages"][2]["content"]

    assert {"type": "ephemeral"} == block["cache_control"]
    assert [{"type": "text", "text": "r", "cache_control": {"type": "ephemeral"}}] == block[
        "content"
    ]
