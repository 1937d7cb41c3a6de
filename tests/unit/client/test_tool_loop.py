"""What a loop decides without asking anybody."""

import asyncio
import itertools

import pytest
from msgspec import structs

from dragoman.client.client import Client
from dragoman.client.messages import assistant, request, result, tool, user
from dragoman.client.sync_client import SyncClient
from dragoman.client.tool_loop import LoopLimits, LoopStoppedError, ToolLoop
from dragoman.client.transcript import Transcript
from dragoman.errors import DragomanError, MisuseError
from dragoman.turn.request import Request, ToolCallPart, Turn

NOWHERE = "http://127.0.0.1:9"  # whoever asks here gets an error of the stage `connect`
LOOK = tool("look", schema={"type": "object"})


def rounds(*calls: tuple[str, str, str], times: int) -> list[Turn]:
    """Return turns in which the same calls are made again and again: name, arguments, result."""
    turns, number = [user("Go")], itertools.count()
    for _ in range(times):
        for name, arguments, given in calls:
            call_id = f"c{next(number)}"
            turns.append(assistant(ToolCallPart(call_id, name, arguments)))
            turns.append(result(call_id, given))
    return turns


def stopped(asked: Request, **bounds: int) -> str:
    """Return why a loop stops before it asks; `connect`: it asks."""
    with SyncClient(NOWHERE, model="m") as client, pytest.raises(DragomanError) as caught:
        next(iter(ToolLoop(client, asked, limits=LoopLimits(**bounds))))
    error = caught.value
    return error.reason if isinstance(error, LoopStoppedError) else error.stage


@pytest.mark.parametrize(
    "calls",
    [
        [("look", '{"a":1,"b":2}', "same")],
        [("look", "{}", "1"), ("find", "{}", "2")],
        [("look", "{}", "1"), ("look", '{"x":1}', "1"), ("look", "{}", "2")],
        [("a", "{}", "1"), ("b", "{}", "1"), ("c", "{}", "1"), ("d", "{}", "1")],
    ],
    ids=["one", "two", "three", "four"],
)
def test_s_9_identical_calls_and_cycles_up_to_four_are_found(
    calls: list[tuple[str, str, str]],
) -> None:
    assert "repeats" == stopped(request(*rounds(*calls, times=5)))
    assert "connect" == stopped(request(*rounds(*calls, times=4)))
    assert "repeats" == stopped(request(*rounds(*calls, times=2)), repeats=2)
    assert "connect" == stopped(request(*rounds(*calls, times=5)), repeats=0)


def test_s_9_arguments_are_compared_by_what_they_say() -> None:
    turns = rounds(("look", '{"a":1,"b":2}', "x"), times=4)
    turns += rounds(("look", '{ "b": 2, "a": 1 }', "x"), times=1)[1:]

    assert "repeats" == stopped(request(*turns))


@pytest.mark.parametrize("last", [("look", "{}", "new"), ("look", '{"a":1}', "x")])
def test_s_9_another_result_or_argument_is_progress(last: tuple[str, str, str]) -> None:
    turns = rounds(("look", "{}", "x"), times=4) + rounds(last, times=1)[1:]

    assert "connect" == stopped(request(*turns))


def test_a_cycle_longer_than_the_bound_is_none() -> None:
    calls = [(name, "{}", "1") for name in "abcde"]

    assert "connect" == stopped(request(*rounds(*calls, times=5)))
    assert "repeats" == stopped(request(*rounds(*calls, times=5)), cycle=5)


@pytest.mark.parametrize(
    ("spent", "reason"),
    [
        ({"turns": 50}, "turns"),
        ({"tokens": 5_000_000}, "tokens"),
        ({"seconds": 3600.0}, "time"),
    ],
)
def test_s_9_what_was_spent_before_counts_after_a_resume(
    spent: dict[str, float], reason: str
) -> None:
    transcript = Transcript(request=request(user("Go")), **spent)
    with SyncClient(NOWHERE, model="m") as client, pytest.raises(LoopStoppedError) as caught:
        next(iter(ToolLoop.resume(client, transcript)))

    assert reason == caught.value.reason


def test_calls_that_wait_are_handed_out_before_anything_is_asked() -> None:
    asked = request(user("Go"), assistant(ToolCallPart("c1", "look", "{}")), tools=[LOOK])
    with SyncClient(NOWHERE, model="m") as client:
        loop = ToolLoop(client, asked)
        step = next(iter(loop))

    assert ["c1"] == [call.id for call in step.tool_calls]
    assert None is step.answer
    assert asked == loop.transcript.request


def test_s_8_a_missing_result_is_named_and_may_still_be_given() -> None:
    asked = request(
        user("Go"),
        assistant(ToolCallPart("c1", "look", "{}"), ToolCallPart("c2", "look", "{}")),
        tools=[LOOK],
    )
    with SyncClient(NOWHERE, model="m") as client:
        loop = ToolLoop(client, asked)
        steps = iter(loop)
        next(steps).resolve("c1", "one")
        with pytest.raises(MisuseError, match="no result for `c2` of `look`"):
            next(steps)
        again = next(iter(loop))

        assert ["c2"] == [call.id for call in again.pending]

        again.resolve("c2", "two")

    assert ["c1", "c2"] == [part.call_id for part in loop.transcript.request.turns[-1].parts]


def test_results_given_in_part_and_cut_calls_survive_a_transcript() -> None:
    asked = request(
        user("Go"),
        assistant(
            ToolCallPart("c1", "look", "{}"),
            ToolCallPart("c2", "look", "{}"),
            ToolCallPart("c3", "look", '{"half":null}'),
        ),
        tools=[LOOK],
    )
    kept = Transcript(request=asked, turns=1, calls=3, broken={"c3": "it was cut"})
    with SyncClient(NOWHERE, model="m") as client:
        loop = ToolLoop.resume(client, kept)
        next(iter(loop)).resolve("c1", "one")
        data = loop.transcript.encode()
        again = ToolLoop.resume(client, data)
        step = next(iter(again))

        assert ["c2", "c3"] == [call.id for call in step.pending]
        assert [False, True] == [bool(call.error) for call in step.pending]

        step.resolve("c2", "two")
        step.refuse(step.tool_calls[2])

    final = again.transcript
    assert ["one", "two"] == [part.parts[0].text for part in final.request.turns[-1].parts[:2]]
    assert ((), {}) == (final.given, final.broken)


def test_too_many_calls_are_not_handed_out() -> None:
    calls = [ToolCallPart(f"c{n}", "look", "{}") for n in range(3)]
    asked = request(user("Go"), assistant(*calls), tools=[LOOK])
    kept = Transcript(request=asked, turns=1, calls=3)
    with SyncClient(NOWHERE, model="m") as client:
        with pytest.raises(LoopStoppedError, match="3 calls of 2"):
            next(iter(ToolLoop.resume(client, kept, limits=LoopLimits(calls=2))))
        step = next(iter(ToolLoop.resume(client, kept, limits=LoopLimits(calls=3))))

    assert 3 == len(step.pending)


def test_a_conversation_that_ended_is_not_asked_again() -> None:
    kept = Transcript(request=request(user("Go"), assistant("Done.")), turns=1)
    with SyncClient(NOWHERE, model="m") as client:
        loop = ToolLoop.resume(client, kept)
        [step] = loop

        assert step.is_last
        with pytest.raises(MisuseError, match="there is no answer"):
            loop.run({})


def test_a_client_wants_its_own_kind_of_loop() -> None:
    async def wait() -> None:
        async for _ in ToolLoop(SyncClient(NOWHERE), request()):
            pass

    with pytest.raises(MisuseError, match="`async for`"):
        next(iter(ToolLoop(Client(NOWHERE), request())))
    with pytest.raises(MisuseError, match="needs `for`"):
        asyncio.run(wait())


def test_s_9_the_request_that_was_given_is_never_changed() -> None:
    asked = request(user("Go"), assistant(ToolCallPart("c1", "look", "{}")), tools=[LOOK])
    copy = structs.replace(asked)
    with SyncClient(NOWHERE, model="m") as client:
        loop = ToolLoop(client, asked)
        next(iter(loop)).resolve("c1", "one")

    assert copy == asked
    assert asked.turns == loop.transcript.request.turns[:-1]
