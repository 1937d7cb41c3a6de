"""Calls and results of a history: each id once, each call answered, in an order every dialect takes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import MalformedError
from dragoman.turn.history import NO_RESULT, normalize_history
from dragoman.turn.losses import Loss
from dragoman.turn.request import (
    ImagePart,
    Part,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Turn,
    UrlSource,
)


def call(one: str) -> ToolCallPart:
    return ToolCallPart(one, "f", "{}")


def result(one: str, text: str = "ok") -> ToolResultPart:
    return ToolResultPart(one, (TextPart(text),))


def user(*parts: Part, path: str = "") -> Turn:
    return Turn(Role.USER, parts, path=path)


def assistant(*parts: Part, path: str = "") -> Turn:
    return Turn(Role.ASSISTANT, parts, path=path)


def shape(turns: list[Turn]) -> list[tuple[str, list[str]]]:
    """Role and, in short, the parts of each turn."""

    def short(part: Part) -> str:
        match part:
            case ToolCallPart(id=one):
                return f"call {one}"
            case ToolResultPart(call_id=one, parts=(TextPart(text=text), *_)):
                return f"result {one} {text}"
            case TextPart(text=text):
                return text
            case _:
                return type(part).__name__

    return [(str(turn.role), [short(part) for part in turn.parts]) for turn in turns]


def normalized(*turns: Turn, **options: bool) -> tuple[list[tuple[str, list[str]]], list[Loss]]:
    losses: list[Loss] = []
    return shape(normalize_history(turns, losses, **options)), losses


def test_a_history_in_order_is_not_touched() -> None:
    turns = [
        user(TextPart("hi")),
        assistant(TextPart("so"), call("a"), call("b")),
        user(result("a"), result("b")),
        assistant(TextPart("done")),
    ]
    losses: list[Loss] = []

    assert turns == normalize_history(turns, losses)
    assert losses == []


def test_results_stand_in_call_order_before_everything_else() -> None:
    turns, losses = normalized(
        assistant(call("a"), call("b")),
        user(TextPart("look"), result("b"), TextPart("here"), result("a")),
    )

    assert turns == [
        ("assistant", ["call a", "call b"]),
        ("user", ["result a ok", "result b ok", "look", "here"]),
    ]
    assert losses == []


def test_results_over_several_turns_become_one_turn_and_the_users_text_joins_it() -> None:
    turns, _ = normalized(
        assistant(call("a"), call("b")),
        user(result("b")),
        user(result("a")),
        user(TextPart("and now")),
        assistant(TextPart("x")),
    )

    assert turns == [
        ("assistant", ["call a", "call b"]),
        ("user", ["result a ok", "result b ok", "and now"]),
        ("assistant", ["x"]),
    ]


def test_an_instruction_among_the_results_follows_them() -> None:
    turns, _ = normalized(
        assistant(call("a"), call("b")),
        user(result("a")),
        Turn(Role.SYSTEM, (TextPart("be brief"),)),
        user(result("b"), TextPart("go on")),
    )

    assert turns == [
        ("assistant", ["call a", "call b"]),
        ("user", ["result a ok", "result b ok"]),
        ("system", ["be brief"]),
        ("user", ["go on"]),
    ]


def test_user_turns_that_follow_no_results_stay_apart() -> None:
    turns, _ = normalized(user(TextPart("a")), user(TextPart("b")))

    assert turns == [("user", ["a"]), ("user", ["b"])]


def test_d6_an_id_used_in_each_turn_is_renumbered_with_its_results() -> None:
    turns, losses = normalized(
        assistant(call("call_0"), path="$.messages[0]"),
        user(result("call_0", "one")),
        assistant(call("call_0"), path="$.messages[2]"),
        user(result("call_0", "two")),
        assistant(call("call_0"), path="$.messages[4]"),
        user(result("call_0", "three")),
    )

    assert [parts[0] for _, parts in turns] == [
        "call call_0",
        "result call_0 one",
        "call call_0_1",
        "result call_0_1 two",
        "call call_0_2",
        "result call_0_2 three",
    ]
    assert losses == [
        Loss("call_id_renumbered", "$.messages[2]", "call_0 became call_0_1"),
        Loss("call_id_renumbered", "$.messages[4]", "call_0 became call_0_2"),
    ]


def test_d6_an_id_used_twice_in_one_turn_pairs_its_results_in_order() -> None:
    turns, losses = normalized(
        assistant(call("x"), call("y"), call("x")),
        user(result("x", "one"), result("x", "two"), result("y")),
    )

    assert turns == [
        ("assistant", ["call x", "call y", "call x_1"]),
        ("user", ["result x one", "result y ok", "result x_1 two"]),
    ]
    assert [loss.code for loss in losses] == ["call_id_renumbered"]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["a_1", "a", "a"], ["a_1", "a", "a_2"]),
        (["a", "a", "a_1"], ["a", "a_1", "a_1_1"]),
        (["a", "a", "a"], ["a", "a_1", "a_2"]),
    ],
)
def test_d6_a_new_id_is_never_one_that_is_taken(ids: list[str], expected: list[str]) -> None:
    turns = [turn for one in ids for turn in (assistant(call(one)), user(result(one)))]
    found, _ = normalized(*turns)

    assert [f"call {one}" for one in expected] == [parts[0] for _, parts in found[::2]]
    assert [f"result {one} ok" for one in expected] == [parts[0] for _, parts in found[1::2]]


def test_f9_a_call_without_a_result_gets_a_neutral_one_and_is_reported() -> None:
    losses: list[Loss] = []
    turns = normalize_history(
        [assistant(call("a"), call("b"), path="$.m[0]"), user(result("b"))], losses
    )

    assert shape(turns)[1] == ("user", [f"result a {NO_RESULT}", "result b ok"])
    assert isinstance(turns[1].parts[0], ToolResultPart)
    assert turns[1].parts[0].is_error
    assert losses == [Loss("tool_result_missing", "$.m[0]", "a")]


def test_f9_a_history_that_ends_in_a_call_is_answered() -> None:
    turns, losses = normalized(assistant(call("a")))

    assert turns[-1] == ("user", [f"result a {NO_RESULT}"])
    assert len(losses) == 1


def test_f9_a_call_without_a_result_is_refused_if_strict() -> None:
    with pytest.raises(MalformedError) as caught:
        normalized(assistant(call("a"), path="$.messages[3]"), strict=True)

    assert caught.value.path == "$.messages[3]"
    assert "`a`" in str(caught.value)


ORPHANS = [
    pytest.param([user(result("z"), path="$.messages[0]")], id="no call at all"),
    pytest.param(
        [assistant(call("a")), user(result("a"), result("z"), path="$.messages[0]")],
        id="another call",
    ),
    pytest.param(
        [
            assistant(call("z")),
            user(result("z")),
            assistant(TextPart("x")),
            user(result("z"), path="$.messages[0]"),
        ],
        id="a call of an earlier turn",
    ),
    pytest.param(
        [assistant(call("z")), user(result("z"), result("z"), path="$.messages[0]")],
        id="twice",
    ),
]


@pytest.mark.parametrize("turns", ORPHANS)
def test_p_7_f9_a_result_without_its_call_is_refused_with_its_path(turns: list[Turn]) -> None:
    with pytest.raises(MalformedError) as caught:
        normalize_history(turns, [])

    assert (caught.value.path, caught.value.code) == ("$.messages[0]", "tool_result_orphaned")
    assert "`z`" in str(caught.value)


@pytest.mark.parametrize("turns", ORPHANS)
def test_f9_a_result_without_its_call_becomes_text_if_repair_is_asked_for(
    turns: list[Turn],
) -> None:
    losses: list[Loss] = []
    found = normalize_history(turns, losses, repair=True)

    assert "[result of tool call z]\nok" in shape(found)[-1][1]
    assert losses == [Loss("tool_result_orphaned", "$.messages[0]", "z")]


def test_f9_images_of_an_orphan_stay() -> None:
    image = ImagePart(UrlSource("https://x"))
    losses: list[Loss] = []
    found = normalize_history(
        [user(ToolResultPart("z", (TextPart("t"), image)))], losses, repair=True
    )

    assert found == [user(TextPart("[result of tool call z]\nt"), image)]


ids = st.sampled_from(["a", "b", "a_1"])
turns = st.lists(
    st.one_of(
        st.lists(ids, max_size=3).map(lambda found: assistant(*map(call, found))),
        st.lists(ids, max_size=3).map(lambda found: user(*map(result, found))),
        st.just(user(TextPart("t"))),
        st.just(Turn(Role.SYSTEM, (TextPart("s"),))),
    ),
    max_size=8,
)


@given(turns)
def test_any_history_is_answered_so_that_each_call_has_its_own_id_and_its_result_next(
    history: list[Turn],
) -> None:
    found = normalize_history(history, [], repair=True)
    seen: set[str] = set()

    for turn, following in zip(found, [*found[1:], user()], strict=False):
        called = [part.id for part in turn.parts if isinstance(part, ToolCallPart)]
        answered = [part.call_id for part in following.parts if isinstance(part, ToolResultPart)]
        assert len(called) == len(set(called))
        assert not seen & set(called)
        seen |= set(called)
        if turn.role is Role.ASSISTANT:
            assert called == answered
            kinds = [isinstance(part, ToolResultPart) for part in following.parts]
            assert kinds == sorted(kinds, reverse=True)
    texts = [part for turn in history for part in turn.parts if isinstance(part, TextPart)]
    kept = [part for turn in found for part in turn.parts if isinstance(part, TextPart)]
    assert [part for part in kept if not part.text.startswith("[")] == texts
