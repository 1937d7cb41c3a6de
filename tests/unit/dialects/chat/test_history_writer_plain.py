"""The short way of plain histories says what the long one says."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.context import Target
from dragoman.dialects.chat.history_writer import Messages, plain_messages
from dragoman.errors import DragomanError
from dragoman.profiles import profile
from dragoman.turn.events import Flavor, OpaqueKind
from dragoman.turn.losses import Loss
from dragoman.turn.request import (
    CacheHint,
    OpaqueState,
    ReasoningPart,
    ReasoningSegment,
    Request,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Turn,
)
from tests.support.requests import RequestCase, cases

GENERIC = profile("generic")
IDS = st.sampled_from(["a", "b", "c", "", "gx-2e"])
TEXTS = st.builds(
    TextPart,
    st.sampled_from(["", "one", "two"]),
    st.sampled_from([None, CacheHint()]),
    st.sampled_from([(), (msgspec.Raw(b"{}"),)]),
)
CALLS = st.builds(
    ToolCallPart,
    IDS,
    st.sampled_from(["bash", "a name"]),
    st.sampled_from(['{"a":1}', "{}", "{", " {}", "[]", '{"a":"\ud800"}']),
    st.sampled_from([Flavor.FUNCTION, Flavor.FUNCTION, Flavor.CUSTOM]),
)
RESULTS = st.builds(ToolResultPart, IDS, st.tuples(TEXTS) | st.just(()), st.booleans())
THOUGHTS = st.builds(
    ReasoningPart,
    st.sampled_from([(), (ReasoningSegment("why"),)]),
    st.sampled_from([(), (OpaqueState(OpaqueKind.SIGNATURE, "s", "anthropic"),)]),
)
SAID = st.builds(
    Turn,
    st.just(Role.ASSISTANT),
    st.lists(THOUGHTS | TEXTS | CALLS, max_size=3).map(tuple),
    path=st.just("p"),
)
HEARD = st.builds(
    Turn,
    st.sampled_from([Role.USER, Role.USER, Role.USER, Role.SYSTEM]),
    st.lists(RESULTS | TEXTS, max_size=3).map(tuple),
    st.sampled_from(["", "", "Ann"]),
    path=st.just("p"),
)


def step(call_id: str) -> st.SearchStrategy[tuple[Turn, ...]]:
    """Return a call with its result, as an agent sends it, and perhaps an instruction."""
    call = ToolCallPart(call_id, "bash", "{}")
    said = st.lists(THOUGHTS | PLAIN, max_size=2).map(lambda parts: (*parts, call))
    result = st.builds(ToolResultPart, st.just(call_id), st.tuples(PLAIN), st.booleans())
    heard = st.tuples(result) | st.tuples(result, PLAIN)
    after = st.just(()) | st.builds(lambda part: (Turn(Role.SYSTEM, (part,)),), PLAIN)
    return st.builds(
        lambda said, heard, after: (Turn(Role.ASSISTANT, said), Turn(Role.USER, heard), *after),
        said,
        heard,
        after,
    )


PLAIN = st.sampled_from([TextPart("one"), TextPart("error two"), TextPart("three", CacheHint())])
STEPS = st.tuples(*(step(call_id) for call_id in "xyz")).map(lambda steps: sum(steps, ()))
HISTORIES = st.lists(SAID | HEARD, max_size=5).map(tuple) | STEPS


def long_way(request: Request, name: str) -> tuple[list[object], list[Loss]] | None:
    losses: list[Loss] = []
    target = Target(profile=profile(name))
    try:
        messages = Messages(request, target, losses).encode(["Be brief."], thinks=True)
    except DragomanError:
        return None
    return list(messages), losses


@pytest.mark.parametrize("name", ["generic", "vllm", "openai", "kimi", "deepseek"])
@given(turns=HISTORIES, system=st.lists(TEXTS, max_size=2).map(tuple))
def test_a_plain_history_is_written_alike_both_ways(
    name: str, turns: tuple[Turn, ...], system: tuple[TextPart, ...]
) -> None:
    request = Request(dialect="anthropic", model="m", turns=turns, system=system)
    losses: list[Loss] = []
    messages = plain_messages(request, profile(name), ["Be brief."], losses)

    assert messages is None or long_way(request, name) == (messages, losses)


@pytest.mark.parametrize("case", cases(), ids=str)
def test_agents_histories_are_written_alike_both_ways(case: RequestCase) -> None:
    request = case.sent("chat").request
    losses: list[Loss] = []
    messages = plain_messages(request, GENERIC, ["Be brief."], losses)

    assert long_way(request, "generic") == (messages, losses)


def test_calls_and_their_results_in_order_are_plain() -> None:
    turns = (
        Turn(Role.USER, (TextPart("Look."),)),
        Turn(Role.ASSISTANT, (TextPart("Now."), *(ToolCallPart(i, "bash", "{}") for i in "ab"))),
        Turn(Role.USER, (ToolResultPart("a", (TextPart("1"),)),)),
        Turn(Role.USER, (ToolResultPart("b", (TextPart("2"),)), TextPart("And?"), TextPart("Go."))),
    )
    messages = plain_messages(Request(dialect="chat", model="m", turns=turns), GENERIC, [], [])

    assert messages is not None
    assert ["user", "assistant", "tool", "tool", "user"] == [one.role for one in messages]


def test_empty_texts_of_the_user_are_left_out() -> None:
    said = (TextPart("One."), TextPart(""), TextPart("Two."))
    request = Request(dialect="chat", model="m", turns=(Turn(Role.USER, said),))
    losses: list[Loss] = []
    messages = plain_messages(request, GENERIC, ["Be brief."], losses)

    assert messages is not None
    assert long_way(request, "generic") == (messages, losses)
