"""The tool loop against a server."""

import asyncio
import itertools
from typing import Any

import msgspec
import pytest
from msgspec import structs

from dragoman.client.client import Client
from dragoman.client.errors import ClientError
from dragoman.client.messages import request, tool, user
from dragoman.client.sync_client import SyncClient
from dragoman.client.tool_loop import ToolLoop
from dragoman.client.transcript import Transcript
from dragoman.dialects import DIALECT_NAMES
from dragoman.errors import MisuseError
from dragoman.turn.answer import CUT_CALL, INVALID_CALL
from dragoman.turn.events import Finish
from dragoman.turn.request import Request, ToolCallPart, ToolResultPart
from tests.support.loops import HANDLERS, STORY, TOOLS, Played, get_weather

DIALECTS = DIALECT_NAMES
MODELS = ("sim/plain", "sim/kimi-k2", "sim/glm-4.6")
FAMILIES = (*MODELS, "sim/qwen3-coder", "sim/deepseek-v3.1", "sim/minimax-m2")
HISTORY = {
    "chat": "messages",
    "anthropic": "messages",
    "responses": "input",
    "gemini": "contents",
}


def content_of(asked: Request) -> list[Any]:
    """Return what a conversation says, without the ids of its calls and its reasoning."""
    found: list[Any] = []
    for turn in asked.turns:
        for part in turn.parts:
            match part:
                case ToolCallPart():
                    arguments = msgspec.json.decode(part.arguments)
                    found.append((str(turn.role), part.name, arguments))
                case ToolResultPart():
                    found.append((str(turn.role), part.parts[0].text, part.is_error))
                case _:
                    found.append((str(turn.role), getattr(part, "text", "")))
    return found


def run(server: Played, asked: Request, model: str = "sim/plain", **options: Any) -> ToolLoop:
    """Run a loop to its end, by whichever bound."""
    with SyncClient(server.url, model=model) as client:
        loop = ToolLoop(client, asked, **options)
        loop.run(HANDLERS)
    return loop


# --- the same program everywhere -------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_s_8_a_caller_drives_the_loop_and_runs_its_tools_itself(
    server: Played, dialect: str, model: str, streamed: bool
) -> None:
    events: list[Any] = []
    ran: list[str] = []
    options = {"on_event": events.append} if streamed else {}
    with SyncClient(server.url, dialect=dialect, model=model) as client:
        loop = ToolLoop(client, request(user(STORY), tools=TOOLS), **options)
        for step in loop:
            for call in step.pending:
                ran.append(call.name)
                step.resolve(call, HANDLERS[call.name](**call.args))

    assert ["get_weather", "get_time", "get_weather"] == ran
    assert "It is sunny in both." == loop.answer.text
    assert (3, 3) == (loop.transcript.turns, loop.transcript.calls)
    assert loop.transcript.tokens > 0
    assert (3 if streamed else 0) == sum(isinstance(one, Finish) for one in events)


def test_transcripts_are_equal_in_all_dialects_families_and_faces(server: Played) -> None:
    asked = request(user(STORY), tools=TOOLS)
    found = []

    async def wait(dialect: str, model: str) -> Transcript:
        async with Client(server.url, dialect=dialect, model=model) as client:
            loop = ToolLoop(client, asked)
            await loop.run_async(HANDLERS)
            return structs.replace(loop.transcript, seconds=0.0)

    unsigned = [name for name in DIALECTS if name != "gemini"]  # whose calls carry a signature
    for dialect, model in itertools.product(unsigned, FAMILIES):
        with SyncClient(server.url, dialect=dialect, model=model) as client:
            loop = ToolLoop(client, asked)
            loop.run(HANDLERS)
        one = structs.replace(loop.transcript, seconds=0.0)

        assert one.encode() == asyncio.run(wait(dialect, model)).encode()
        found.append((content_of(one.request), one.turns, one.calls))

    assert 6 * len(unsigned) == len(found)
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("model", [*MODELS, "sim/plain+think", "sim/plain+ids:call_0"])
def test_s_9_messages_are_only_ever_appended(server: Played, dialect: str, model: str) -> None:
    with SyncClient(server.url, dialect=dialect, model=model) as client:
        ToolLoop(client, request(user(STORY), tools=TOOLS)).run(HANDLERS)
    bodies = [msgspec.json.decode(one, type=dict[str, msgspec.Raw]) for one in server.bodies()]

    assert 3 == len(bodies)
    for one, longer in itertools.pairwise(bodies):
        history = bytes(one.pop(HISTORY[dialect]))
        grown = bytes(longer[HISTORY[dialect]])
        assert grown.startswith(history[:-1] + b",")
        assert one == {name: value for name, value in longer.items() if name != HISTORY[dialect]}


def test_s_9_the_turns_of_a_request_begin_those_of_the_next(server: Played) -> None:
    seen: list[Request] = []
    with SyncClient(server.url, model="sim/plain") as client:
        loop = ToolLoop(client, request(user(STORY), tools=TOOLS))
        for step in loop:
            seen.append(loop.transcript.request)
            for call in step.pending:
                step.resolve(call, "yes")

    for one, longer in itertools.pairwise(seen):
        assert one.turns == longer.turns[: len(one.turns)]
        assert len(one.turns) < len(longer.turns)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_ids_are_unique_although_the_server_gives_the_same_each_time(
    server: Played, dialect: str
) -> None:
    with SyncClient(server.url, dialect=dialect, model="sim/plain+ids:call_0") as client:
        loop = ToolLoop(client, request(user(STORY), tools=TOOLS))
        ids = []
        for step in loop:
            for call in step.pending:
                ids.append(call.id)
                step.resolve(call, f"result of {call.id}")
        sent = server.bodies()[-1]

    assert 3 == len(ids) == len(set(ids))
    assert 0 == sent.count(b'"gx')
    for one in ids:
        assert f"result of {one}".encode() in sent


# --- calls that should not be run ------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_with_invalid_arguments_comes_back_with_the_reason(
    server: Played, dialect: str
) -> None:
    story = 'sim: call get_weather {"city": 5}\nsim: call rm {}\nsim: then\nsim: say Oh.'
    ran: list[str] = []
    with SyncClient(server.url, dialect=dialect, model="sim/plain") as client:
        loop = ToolLoop(client, request(user(story), tools=TOOLS))
        answer = loop.run({"get_weather": ran.append, "rm": ran.append})
    results = loop.transcript.request.turns[2].parts

    assert "Oh." == answer.text
    assert [] == ran
    assert ["`city` must be string", "there is no tool `rm`"] == [
        one.parts[0].text for one in results
    ]
    assert all(one.is_error for one in results)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_s_8_a_cut_call_is_never_run(server: Played, dialect: str, streamed: bool) -> None:
    options = {"on_event": lambda _: None} if streamed else {}
    with SyncClient(server.url, dialect=dialect, model="sim/plain+length") as client:
        loop = ToolLoop(client, request(user(STORY), tools=TOOLS), **options)
        step = next(iter(loop))
        again = ToolLoop.resume(client, loop.transcript.encode())

    assert ["", CUT_CALL] == [call.error for call in step.tool_calls]
    assert ["", CUT_CALL] == [call.error for call in next(iter(again)).tool_calls]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_s_8_a_call_whose_arguments_are_no_json_comes_back_with_the_reason(
    server: Played, dialect: str
) -> None:
    story = f"sim: say One moment.\n{STORY}"
    with SyncClient(server.url, dialect=dialect, model="sim/plain+bad-json-args") as client:
        loop = ToolLoop(client, request(user(story), tools=TOOLS))
        step = next(iter(loop))
        again = next(iter(ToolLoop.resume(client, loop.transcript.encode())))
        for call in step.pending:
            step.refuse(call)
        last = loop.run(HANDLERS)

    says = INVALID_CALL
    assert [says, says] == [call.error for call in step.tool_calls]
    assert [says, says] == [call.error for call in again.tool_calls]
    assert "One moment." == step.answer.text
    assert None is step.answer.fault
    assert "It is sunny in both." == last.text
    sent = server.bodies()[1]
    assert says.encode() in sent


def test_a_failed_request_changes_nothing_and_may_be_made_again(server: Played) -> None:
    asked = request(user(STORY), tools=TOOLS)
    with SyncClient(server.url, model="sim/plain+fail:1+error:503") as client:
        loop = ToolLoop(client, asked)
        with pytest.raises(ClientError) as caught:
            loop.run(HANDLERS)

        assert 503 == caught.value.status
        assert asked == loop.transcript.request
        step = next(iter(loop))

    assert 2 == len(step.tool_calls)


def test_an_answer_that_a_limit_ended_is_reported_as_such(server: Played) -> None:
    loop = run(server, request(user("sim: say A long answer."), tools=TOOLS), "sim/plain+length")

    assert "length" == loop.answer.finish.reason


# --- transcripts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("model", MODELS)
def test_a_loop_goes_on_in_a_new_client_from_its_transcript(
    server: Played, dialect: str, model: str
) -> None:
    whole, data = None, b""
    with SyncClient(server.url, dialect=dialect, model=model) as client:
        loop = ToolLoop(client, request(user(STORY), tools=TOOLS))
        loop.run(HANDLERS)
        whole = loop.transcript
        loop = ToolLoop(client, request(user(STORY), tools=TOOLS))
        step = next(iter(loop))
        step.resolve(step.tool_calls[0], get_weather("Rome"))
        data = loop.transcript.encode()
    with SyncClient(server.url, dialect=dialect, model=model) as client:
        again = ToolLoop.resume(client, data)
        step = next(iter(again))

        assert ["get_time"] == [call.name for call in step.pending]

        again.run(HANDLERS)

    assert content_of(whole.request) == content_of(again.transcript.request)
    assert (whole.turns, whole.calls) == (again.transcript.turns, again.transcript.calls)


def test_the_whole_conversation_is_in_the_transcript(server: Played) -> None:
    loop = run(server, request(user(STORY), tools=TOOLS), "sim/plain+think")
    kept = Transcript.decode(loop.transcript.encode())

    assert loop.transcript == kept
    assert ["user", "assistant", "user", "assistant", "user", "assistant"] == [
        str(turn.role) for turn in kept.request.turns
    ]


# --- running the caller's functions ----------------------------------------------------------------


def test_an_exception_of_a_function_is_sent_to_the_model(server: Played) -> None:
    def fails(city: str) -> str:
        raise LookupError(f"no {city} on the map")

    with SyncClient(server.url, model="sim/plain") as client:
        loop = ToolLoop(client, request(user(STORY), tools=TOOLS))
        loop.run(HANDLERS | {"get_weather": fails})
    failed = loop.transcript.request.turns[2].parts[0]

    assert "LookupError: no Rome on the map" == failed.parts[0].text
    assert failed.is_error


def test_coroutines_are_awaited_and_their_exceptions_reported(server: Played) -> None:
    async def look(city: str) -> dict[str, str]:
        await asyncio.sleep(0)
        if city == "Oslo":
            raise OSError("fog")
        return {"city": city}

    async def wait() -> ToolLoop:
        async with Client(server.url, model="sim/plain") as client:
            loop = ToolLoop(client, request(user(STORY), tools=TOOLS))
            await loop.run_async(HANDLERS | {"get_weather": look})
            return loop

    turns = asyncio.run(wait()).transcript.request.turns

    assert '{"city":"Rome"}' == turns[2].parts[0].parts[0].text
    assert "OSError: fog" == turns[4].parts[0].parts[0].text


def test_a_coroutine_needs_the_asynchronous_run(server: Played) -> None:
    async def look(city: str) -> str:
        return city

    with (
        SyncClient(server.url, model="sim/plain") as client,
        pytest.raises(MisuseError, match="`get_weather` is a coroutine"),
    ):
        ToolLoop(client, request(user(STORY), tools=TOOLS)).run(HANDLERS | {"get_weather": look})


def test_s_8_a_tool_without_a_function_is_refused(server: Played) -> None:
    with SyncClient(server.url, model="sim/plain") as client:
        loop = ToolLoop(client, request(user(STORY), tools=TOOLS))
        loop.run({"get_weather": get_weather})

    assert "there is no tool `get_time`" == loop.transcript.request.turns[2].parts[1].parts[0].text


def test_s_8_making_a_tool_of_a_function_does_not_run_it(server: Played) -> None:
    def explode(city: str) -> str:
        """Never to be run."""
        raise AssertionError(city)

    with SyncClient(server.url, model="sim/plain") as client:
        loop = ToolLoop(client, request(user("Please explode"), tools=[tool(explode)]))
        step = next(iter(loop))

    assert ["explode"] == [call.name for call in step.pending]
