"""What is looked for in requests: calls that loop."""

import time
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.context import Target
from dragoman.dialects import dialect
from dragoman.gateway.guards import (
    loop_fault,
    with_note,
)
from dragoman.limits import DEFAULT_LIMITS
from dragoman.profiles import profile
from dragoman.turn.events import FaultKind
from dragoman.turn.repeats import Loop, find_loop
from dragoman.turn.request import (
    Base64Source,
    CacheHint,
    ImagePart,
    Part,
    Request,
    Role,
    SearchResultPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Turn,
)

# --- H6 ---


def call(name: str, arguments: str = "{}", one: str = "c") -> ToolCallPart:
    return ToolCallPart(one, name, arguments)


def result(text: str = "ok", one: str = "c", **options: Any) -> ToolResultPart:
    return ToolResultPart(one, (TextPart(text),), **options)


def user(*parts: Part) -> Turn:
    return Turn(Role.USER, parts)


def assistant(*parts: Part) -> Turn:
    return Turn(Role.ASSISTANT, parts)


def step(name: str, arguments: str = "{}", text: str = "ok") -> list[Turn]:
    return [assistant(call(name, arguments)), user(result(text))]


def request_of(*turns: Turn | list[Turn]) -> Request:
    flat: list[Turn] = [user(TextPart("Do it."))]
    for one in turns:
        flat += one if isinstance(one, list) else [one]
    return Request(dialect="anthropic", model="m", turns=tuple(flat))


def loop(*turns: Turn | list[Turn], repeats: int = 3, cycle: int = 4) -> Loop | None:
    return find_loop(request_of(*turns).turns, repeats=repeats, longest=cycle)


def test_h6_identical_calls_at_the_end_are_a_loop() -> None:
    read = step("Read", '{"path": "a"}')

    assert loop(step("Bash"), read, read) is None
    assert Loop(("Read",), 3) == loop(step("Bash"), read, read, read)
    assert Loop(("Read",), 90) == loop(step("Bash"), *[read] * 90)


def test_h6_the_defaults_ask_for_five() -> None:
    assert find_loop(request_of(*[step("A")] * 4).turns, repeats=5, longest=4) is None
    assert Loop(("A",), 5) == find_loop(request_of(*[step("A")] * 5).turns, repeats=5, longest=4)


@pytest.mark.parametrize("length", [2, 3, 4])
def test_h6_a_cycle_of_calls_is_a_loop(length: int) -> None:
    cycle = [turn for name in "ABCD"[:length] for turn in step(name)]

    assert loop(cycle, cycle) is None
    assert Loop(tuple("ABCD"[:length]), 3) == loop(step("X"), cycle, cycle, cycle)


def test_h6_a_cycle_may_end_in_its_middle() -> None:
    found = loop(step("B"), *[step("A"), step("B")] * 3, step("A"))

    assert Loop(("B", "A"), 4) == found


def test_h6_a_cycle_longer_than_looked_for_is_no_loop() -> None:
    cycle = [turn for name in "ABCDE" for turn in step(name)]

    assert loop(*[cycle] * 5) is None
    assert Loop(tuple("ABCDE"), 5) == loop(*[cycle] * 5, cycle=5)


def test_h6_the_shortest_cycle_is_reported() -> None:
    found = loop(*[step("A")] * 12)

    assert Loop(("A",), 12) == found


def test_h6_a_loop_that_was_left_is_none() -> None:
    assert loop(*[step("Read")] * 10, step("Bash")) is None


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ('{"a":1,"b":[1,{"x":2,"y":3}]}', '{ "b": [1, {"y":3, "x": 2}], "a": 1 }', True),
        ('{"a":"\\u0041"}', '{"a":"A"}', True),
        ('{"a":[1,2]}', '{"a":[2,1]}', False),
        ('{"a":"1"}', '{"a":1}', False),
        ('{"a":', '{"a":', True),
        ('{"a":', '{ "a":', False),
        ("*** Begin Patch", "*** Begin Patch", True),
        ("", "", True),
        ("[" * 3000, "[" * 3000, True),
        ("\ud800", "\ud800", True),
        ("1e999", "1e999", True),
        ("123456789012345678901234567890", "123456789012345678901234567891", False),
    ],
)
def test_h6_arguments_are_compared_by_meaning(first: str, second: str, same: bool) -> None:
    found = loop(step("T", first), step("T", second), step("T", first))

    assert same == (found is not None)


@pytest.mark.parametrize(
    "other",
    [
        user(result("other")),
        user(result("ok", is_error=True)),
        user(ToolResultPart("c", (TextPart("o"), TextPart("k")))),
        user(ToolResultPart("c", (TextPart("ok"), ImagePart(Base64Source("image/png", "AA"))))),
        user(),
    ],
)
def test_h6_another_result_is_progress(other: Turn) -> None:
    same = step("T")

    assert loop(same, [assistant(call("T")), other], same) is None


def test_h6_images_count_by_what_they_show() -> None:
    def shot(data: str, cache: CacheHint | None = None) -> list[Turn]:
        image = ImagePart(Base64Source("image/png", data), cache=cache)
        return [assistant(call("Shot")), user(ToolResultPart("c", (image,)))]

    assert loop(shot("AA"), shot("AB"), shot("AA")) is None
    assert Loop(("Shot",), 3) == loop(shot("AA"), shot("AA"), shot("AA", CacheHint()))


def test_h6_search_results_count_by_what_they_say() -> None:
    def search(text: str, cache: CacheHint | None = None) -> list[Turn]:
        hit = SearchResultPart("https://a.example", "A", (TextPart(text),), cache=cache)
        return [assistant(call("Search")), user(ToolResultPart("c", (hit,)))]

    assert loop(search("x"), search("y"), search("x")) is None
    assert Loop(("Search",), 3) == loop(search("x"), search("x"), search("x", CacheHint()))


def test_h6_a_cache_mark_that_wanders_hides_no_loop() -> None:
    marked = ToolResultPart("c", (TextPart("ok", cache=CacheHint()),), cache=CacheHint())

    assert Loop(("T",), 3) == loop(step("T"), step("T"), [assistant(call("T")), user(marked)])


def test_h6_parallel_calls_are_steps_of_their_own() -> None:
    pair = [
        assistant(call("A", one="1"), call("B", one="2")),
        user(result("a", "1"), result("b", "2")),
    ]

    assert Loop(("A", "B"), 3) == loop(pair, pair, pair)


def test_h6_results_may_come_in_turns_of_their_own() -> None:
    pair = [
        assistant(call("A", one="1"), call("A", one="2")),
        user(result("a", "2")),
        user(result("a", "1")),
    ]

    assert Loop(("A",), 4) == loop(pair, pair)


def test_h6_a_tool_of_another_namespace_is_another_tool() -> None:
    there = [assistant(ToolCallPart("c", "T", "{}", namespace="n")), user(result())]

    assert loop(step("T"), there, step("T")) is None


def test_h6_words_of_a_person_end_a_loop() -> None:
    say = user(TextPart("Stop that, read b instead."))

    assert loop(*[step("T")] * 5, say) is None
    assert loop(step("T"), step("T"), say, step("T"), step("T")) is None
    interrupted = [assistant(call("T")), user(result(), TextPart("No!"))]
    assert loop(*[step("T")] * 5, interrupted) is None
    shown = user(ImagePart(Base64Source("image/png", "AA")))
    assert loop(*[step("T")] * 5, shown) is None


def test_h6_an_answer_without_calls_ends_a_loop() -> None:
    again = [assistant(TextPart("Done.")), user(TextPart("Again, please."))]

    assert loop(*[step("T"), again] * 9, step("T")) is None


def test_h6_remarks_of_the_agent_end_nothing() -> None:
    reminder = TextPart("<system-reminder>\nGo on with the list.\n</system-reminder>\n")
    reminded = [assistant(TextPart("Hm."), call("T")), user(result(), reminder)]
    midturn = [*step("T"), Turn(Role.SYSTEM, (TextPart("Remember."),))]
    split = [assistant(TextPart("Let me look.")), *step("T")]
    blank = [assistant(call("T")), user(result(), TextPart(" \n"))]

    assert Loop(("T",), 7) == loop(reminded, midturn, split, blank, *[reminded] * 3)


def test_h6_ids_that_repeat_each_turn_do_not_hide_a_loop() -> None:
    def numbered(text: str) -> list[Turn]:
        return [assistant(call("T", one="call_0")), user(result(text, "call_0"))]

    assert loop(numbered("1"), numbered("2"), numbered("3")) is None
    assert Loop(("T",), 3) == loop(*[numbered("1")] * 3)


@pytest.mark.parametrize("turns", [[], [user()], [assistant()], [assistant(call("T"))]])
def test_h6_a_history_without_calls_and_results_has_no_loop(turns: list[Turn]) -> None:
    request = Request(dialect="chat", model="m", turns=tuple(turns))

    assert find_loop(request.turns, repeats=1, longest=4) is None


def test_h6_a_history_of_thousands_of_calls_takes_linear_time() -> None:
    text = "x" * 1000
    turns = [step(f"T{n % 3}", f'{{"n": {n % 3}}}', text) for n in range(20_000)]
    request = request_of(*turns)

    started = time.perf_counter()
    found = find_loop(request.turns, repeats=5, longest=4)

    assert time.perf_counter() - started < 5
    assert found is not None
    assert 6666 == found.repeats


def test_h6_a_long_history_without_a_loop_is_read_only_at_its_end() -> None:
    turns = [step("T", text=str(n)) for n in range(20_000)]
    request = request_of(*turns)

    started = time.perf_counter()
    assert find_loop(request.turns, repeats=5, longest=4) is None

    assert time.perf_counter() - started < 5


@given(
    names=st.lists(st.sampled_from("AB"), max_size=40),
    repeats=st.integers(2, 4),
    cycle=st.integers(1, 4),
)
def test_h6_a_loop_is_found_exactly_where_the_end_repeats(
    names: list[str], repeats: int, cycle: int
) -> None:
    found = loop(*[step(name) for name in names], repeats=repeats, cycle=cycle)

    def rounds(length: int) -> int:
        unit, count = names[-length:], 0
        while len(unit) == length and names[len(names) - length * (count + 1) :][:length] == unit:
            count += 1
            if length * (count + 1) > len(names):
                break
        return count

    expected = next((n for n in range(1, cycle + 1) if rounds(n) >= repeats), None)
    assert expected == (None if found is None else len(found.names))
    if found is not None and expected is not None:
        assert rounds(expected) == found.repeats
        assert tuple(names[-expected:]) == found.names


def test_h6_the_note_is_behind_the_results_and_changes_nothing_before() -> None:
    request = request_of(*[step("T")] * 5)

    noted = with_note(request, Loop(("T",), 5))

    assert request.turns[:-1] == noted.turns[:-1]
    assert request.turns[-1].parts == noted.turns[-1].parts[:-1]
    note = noted.turns[-1].parts[-1]
    assert isinstance(note, TextPart)
    assert "`T` was called 5 times in a row" in note.text


def test_h6_the_note_follows_an_instruction_that_comes_last() -> None:
    request = request_of(step("T"), Turn(Role.SYSTEM, (TextPart("Remember."),)))

    noted = with_note(request, Loop(("T", "U"), 5))

    assert request.turns == noted.turns[:-1]
    assert Role.USER is noted.turns[-1].role


@pytest.mark.parametrize("name", ["anthropic", "chat", "responses"])
def test_h6_every_dialect_can_carry_the_note_and_keeps_its_prefix(name: str) -> None:
    request = request_of(*[step("T")] * 5)
    target = Target(profile=profile("generic"), model="m")
    encode = dialect(name).encode_request
    plain = encode(request, target).body
    noted = encode(with_note(request, Loop(("T",), 5)), target).body

    at = noted.index(b"Note from the gateway")
    before = noted[:at].rindex(b'"ok"') + 4
    assert plain[:before] == noted[:before]


def test_h6_a_loop_is_refused_as_the_clients_mistake() -> None:
    fault = loop_fault(Loop(("Read", "Bash"), 7))

    assert (FaultKind.BAD_REQUEST, 400, "tool_loop") == (fault.kind, fault.status, fault.code)
    assert "the tools `Read`, `Bash` were called in the same order 7 times" in fault.message
    assert "[guards]" in fault.message


def test_h6_a_refusal_stays_short_whatever_tools_are_called() -> None:
    fault = loop_fault(Loop(tuple("x" * 1000 for _ in range(100)), 7))

    assert len(fault.message) < 1500


@pytest.mark.parametrize("name", ["chat", "responses"])
def test_h6_real_requests_of_every_dialect_show_their_loops(name: str) -> None:
    chat_messages: list[dict[str, Any]] = [{"role": "user", "content": "Do it."}]
    items: list[dict[str, Any]] = [{"role": "user", "content": "Do it."}]
    for n in range(5):
        asked = {"name": "Read", "arguments": '{"path":"a"}' if n % 2 else '{ "path": "a" }'}
        calls = [{"id": f"c{n}", "type": "function", "function": asked}]
        chat_messages.append({"role": "assistant", "content": None, "tool_calls": calls})
        chat_messages.append({"role": "tool", "tool_call_id": f"c{n}", "content": "same"})
        items.append({"type": "function_call", "call_id": f"c{n}", **asked})
        items.append({"type": "function_call_output", "call_id": f"c{n}", "output": "same"})
    bodies = {
        "chat": {"model": "m", "messages": chat_messages},
        "responses": {"model": "m", "input": items},
    }

    request = dialect(name).decode_request(
        msgspec.json.encode(bodies[name]), sealer=None, limits=DEFAULT_LIMITS
    )

    assert Loop(("Read",), 5) == find_loop(request.turns, repeats=5, longest=4)
