"""Guards: a line that spoils prefix caches, and calls that go round in circles."""

import itertools
from typing import Any

import msgspec
import pytest
from msgspec import Raw, structs

from dragoman.gateway.config.settings import Guards, Settings
from dragoman.simulator.exchanges import RecordedExchange
from tests.support.asking import post
from tests.support.gateway import DIALECTS, Stand, settings_for, stand
from tests.support.simulator import WEATHER, declared, question

NONCE = "x-anthropic-billing-header: cc_version=2.1.197.{0}; cc_entrypoint=cli; cch={0};"
FIELDS = msgspec.json.Decoder(dict[str, Raw])
HISTORIES = {"/v1/chat/completions": "messages", "/v1/messages": "messages"}


def turn_of_agent(model: str, number: int, *, stream: bool) -> dict[str, Any]:
    """Return the request of an agent's turn: the same as the one before, and a little more."""
    history: list[dict[str, Any]] = [{"role": "user", "content": "Look around, please."}]
    for at in range(number):
        call_id = f"toolu_{at}"
        call = {
            "type": "tool_use",
            "id": call_id,
            "name": "get_weather",
            "input": {"city": f"{at}"},
        }
        result = {"type": "tool_result", "tool_use_id": call_id, "content": f"result {at}"}
        history += [
            {"role": "assistant", "content": [{"type": "text", "text": "Looking."}, call]},
            {"role": "user", "content": [result]},
        ]
    nonce = NONCE.format(f"{number * 7919:05x}")
    return {
        "model": model,
        "max_tokens": 32000,
        "system": [
            {"type": "text", "text": nonce},
            {"type": "text", "text": "You are an agent.", "cache_control": {"type": "ephemeral"}},
        ],
        "messages": history,
        "tools": [declared("anthropic", WEATHER)],
        "metadata": {"user_id": '{"session":"s"}'},
        "stream": stream,
    }


def parts(exchange: RecordedExchange) -> tuple[bytes, dict[str, bytes]]:
    """Return the history without its last bracket, and the other fields, as the bytes they were."""
    fields = {name: bytes(raw) for name, raw in FIELDS.decode(exchange.body).items()}
    google = "contents" if "/models/" in exchange.path else "input"
    history = fields.pop(HISTORIES.get(exchange.path, google))
    return history.rstrip()[:-1], fields


def make_vendor(url: str) -> Settings:
    plain = settings_for(url)
    vendor = structs.replace(plain.upstreams["anthropic"], profile="anthropic")
    return structs.replace(plain, upstreams={**plain.upstreams, "vendor": vendor}, routes=())


@pytest.fixture(scope="module")
def guarded() -> Stand:
    with stand(make_vendor) as found:
        yield found


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("upstream", DIALECTS)
def test_h1_turns_of_an_agent_share_their_prefix_byte_by_byte(
    guarded: Stand, upstream: str, stream: bool
) -> None:
    bodies = []
    for number in range(4):
        body = turn_of_agent(f"{upstream}/plain", number, stream=stream)
        answer = post(guarded, "anthropic", body, path="/v1/messages?beta=true")
        assert 200 == answer.status_code
        bodies.append(parts(guarded.simulator.exchanges[-1]))

    for (before, settings), (after, same) in itertools.pairwise(bodies):
        assert settings == same
        assert after.startswith(before)
        assert len(after) > len(before)
    text = guarded.simulator.exchanges[-1].body
    assert b"x-anthropic-billing-header" not in text
    assert b"You are an agent." in text


def test_h1_order_of_fields_stays_too(guarded: Stand) -> None:
    orders = []
    for number in range(2):
        post(guarded, "anthropic", turn_of_agent("anthropic/plain", number, stream=True))
        orders.append([*FIELDS.decode(guarded.simulator.exchanges[-1].body)])

    assert orders[0] == orders[1]


def test_h1_vendor_of_the_line_gets_it(guarded: Stand) -> None:
    body = turn_of_agent("vendor/plain", 1, stream=False)
    post(guarded, "anthropic", body)
    received: Any = guarded.simulator.exchanges[-1].json

    assert body["system"] == received["system"]


def test_h1_line_stays_where_it_is_switched_to_stay() -> None:
    def make(url: str) -> Settings:
        return structs.replace(settings_for(url), guards=Guards(strip_billing=False))

    with stand(make) as found:
        post(found, "anthropic", turn_of_agent("anthropic/plain", 1, stream=False))
        received = found.simulator.exchanges[-1].body

    assert b"x-anthropic-billing-header" in received


# --- loops ------------------------------------------------------------------------------------------


def circling(dialect: str, rounds: int, *, cycle: int = 1, model: str = "chat/plain") -> Any:
    """Return the request of an agent that called the same tools with the same results, over and over."""
    body = question(dialect, model, tools=[WEATHER], stream=False)
    history = body[{"responses": "input", "gemini": "contents"}.get(dialect, "messages")]
    for number in range(rounds * cycle):
        history += exchange_of(dialect, f"call_{number}", f'{{"city":"Ulm {number % cycle}"}}')
    return body


def exchange_of(dialect: str, call_id: str, arguments: str) -> list[dict[str, Any]]:
    match dialect:
        case "chat":
            function = {"name": "get_weather", "arguments": arguments}
            call = {"id": call_id, "type": "function", "function": function}
            return [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": call_id, "content": "nothing new"},
            ]
        case "anthropic":
            given = msgspec.json.decode(arguments)
            call = {"type": "tool_use", "id": call_id, "name": "get_weather", "input": given}
            result = {"type": "tool_result", "tool_use_id": call_id, "content": "nothing new"}
            return [
                {"role": "assistant", "content": [call]},
                {"role": "user", "content": [result]},
            ]
        case "gemini":
            given = msgspec.json.decode(arguments)
            call = {"id": call_id, "name": "get_weather", "args": given}
            result = {"id": call_id, "name": "get_weather", "response": {"output": "nothing new"}}
            return [
                {"role": "model", "parts": [{"functionCall": call}]},
                {"role": "user", "parts": [{"functionResponse": result}]},
            ]
        case _:
            call = {"call_id": call_id, "name": "get_weather", "arguments": arguments}
            return [
                {"type": "function_call", **call},
                {"type": "function_call_output", "call_id": call_id, "output": "nothing new"},
            ]


@pytest.fixture(scope="module")
def guards() -> dict[str, Stand]:
    def making(loops: str):
        return lambda url: structs.replace(settings_for(url), guards=Guards(loops=loops))

    with (
        stand(making("warn")) as warn,
        stand(making("note")) as note,
        stand(making("stop")) as stop,
    ):
        yield {"warn": warn, "note": note, "stop": stop}


clients = pytest.mark.parametrize("dialect", DIALECTS)
loops = pytest.mark.parametrize("cycle", [1, 2], ids=["the same call", "a cycle of two"])


@clients
@loops
def test_h6_loop_is_warned_of(guards: dict[str, Stand], dialect: str, cycle: int) -> None:
    quiet = post(guards["warn"], dialect, circling(dialect, 4, cycle=cycle))
    loud = post(guards["warn"], dialect, circling(dialect, 5, cycle=cycle))

    assert (200, 200) == (quiet.status_code, loud.status_code)
    assert "tool_loop" not in quiet.headers.get("x-dragoman-warnings", "")
    assert "tool_loop" in loud.headers["x-dragoman-warnings"].split(",")
    assert b"Note from the gateway" not in guards["warn"].simulator.exchanges[-1].body


@clients
@loops
@pytest.mark.parametrize("upstream", DIALECTS)
def test_h6_model_gets_a_note_about_its_loop_behind_everything_else(
    guards: dict[str, Stand], dialect: str, cycle: int, upstream: str
) -> None:
    body = circling(dialect, 5, cycle=cycle, model=f"{upstream}/plain")
    answer = post(guards["note"], dialect, body)
    received = guards["note"].simulator.exchanges[-1]
    history, _ = parts(received)

    assert 200 == answer.status_code
    assert "tool_loop" in answer.headers["x-dragoman-warnings"].split(",")
    assert 1 == received.body.count(b"Note from the gateway")
    assert history.rindex(b"Note from the gateway") > history.rindex(b"nothing new")


@clients
@loops
def test_h6_loop_is_stopped(guards: dict[str, Stand], dialect: str, cycle: int) -> None:
    before = len(guards["stop"].simulator.exchanges)
    answer = post(guards["stop"], dialect, circling(dialect, 5, cycle=cycle))
    error = answer.json()["error"]

    assert 400 == answer.status_code
    assert before == len(guards["stop"].simulator.exchanges)
    assert "`get_weather`" in error["message"]
    assert "[guards]" in error["message"]
    if dialect in {"chat", "responses"}:
        assert "tool_loop" == error["code"]


def test_h6_loops_are_left_alone_unless_asked_for(gateway: Stand) -> None:
    answer = post(gateway, "chat", circling("chat", 20))

    assert 200 == answer.status_code
    assert "tool_loop" not in answer.headers.get("x-dragoman-warnings", "")
