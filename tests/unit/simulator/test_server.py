"""The simulator on its socket: endings, time, records, and what it serves besides answers."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import aiohttp
import pytest

from dragoman.checker.checker import check
from dragoman.dialects import DIALECT_NAMES
from dragoman.errors import ConfigError
from dragoman.simulator.server import Simulator
from tests.support.simulator import PATHS, WEATHER, ask, post, question, wire

each_dialect = pytest.mark.parametrize("dialect", DIALECT_NAMES)


@each_dialect
@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 409, 413, 418, 429, 500, 503, 529])
def test_error_before_the_stream_has_the_dialect_s_body(dialect: str, status: int) -> None:
    from dragoman.dialects import dialect as find

    got = ask(dialect, question(dialect, f"plain+error:{status}+retry-after:7"))

    fault = find(dialect).decode_fault(got.status, got.body)

    assert (status, "7") == (got.status, got.headers["retry-after"])
    assert fault.message.startswith("the ")
    assert "application/json" == got.headers["content-type"]


@each_dialect
def test_error_body_with_status_200(dialect: str) -> None:
    got = ask(dialect, question(dialect, "plain+error-200"))

    assert 200 == got.status
    assert "the simulator failed" == got.json["error"]["message"]


@each_dialect
def test_error_may_be_a_page_of_a_proxy(dialect: str) -> None:
    got = ask(dialect, question(dialect, "plain+error-page:502"))

    assert (502, "text/html") == (got.status, got.headers["content-type"])
    assert b"<h1>Error 502</h1>" in got.body


@each_dialect
@pytest.mark.parametrize("stream", [True, False])
def test_body_may_be_empty(dialect: str, stream: bool) -> None:
    got = ask(dialect, question(dialect, "plain+empty", stream=stream))

    assert (200, b"", None) == (got.status, got.body, got.error)


@each_dialect
def test_error_may_be_all_that_a_stream_holds(dialect: str) -> None:
    got = ask(dialect, question(dialect, "plain+error-first:429"))

    assert 200 == got.status
    assert b"rate limit" in got.body
    assert "failure" == check(dialect, got.body).ended


@each_dialect
def test_fault_may_happen_to_the_first_requests_only(dialect: str) -> None:
    async def run() -> list[int]:
        async with Simulator() as sim:
            body = question(dialect, "plain+fail:2")
            return [(await post(sim, *wire(dialect, body))).status for _ in range(4)]

    overloaded = 529 if dialect == "anthropic" else 503

    assert [overloaded, overloaded, 200, 200] == asyncio.run(run())


def test_any_fault_may_happen_to_the_first_requests_only() -> None:
    async def run() -> list[Any]:
        async with Simulator() as sim:
            body = question("chat", "plain+fail:1+cut:100")
            return [await post(sim, PATHS["chat"], body) for _ in range(2)]

    first, second = asyncio.run(run())

    assert (100, True) == (len(first.body), first.error is not None)
    assert check("chat", second.body).legal


@each_dialect
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("fault", ["cut", "reset"])
def test_connection_ends_after_so_many_bytes(dialect: str, stream: bool, fault: str) -> None:
    got = ask(dialect, question(dialect, f"plain+{fault}:123", stream=stream))

    assert 123 == len(got.body)
    assert isinstance(got.error, aiohttp.ClientError)
    assert ("reset by peer" in str(got.error)) == (fault == "reset")


@each_dialect
@pytest.mark.parametrize("fault", ["cut", "reset"])
def test_connection_ends_after_everything_was_sent(dialect: str, fault: str) -> None:
    whole = ask(dialect, question(dialect, "plain+ends-in:text+chunk:9"))
    got = ask(dialect, question(dialect, f"plain+ends-in:text+{fault}:end+chunk:9"))

    assert (None, True) == (whole.error, isinstance(got.error, aiohttp.ClientError))
    assert whole.body.count(b"\n\n") == got.body.count(b"\n\n")


def test_cut_without_a_number_is_in_the_middle() -> None:
    whole = ask("chat", question("chat", "plain+cut:1000000"))
    half = ask("chat", question("chat", "plain+cut"))

    assert whole.error is None
    assert len(whole.body) // 4 < len(half.body) < len(whole.body)


@each_dialect
def test_stalled_answer_ends_when_the_client_leaves(dialect: str) -> None:
    async def run() -> tuple[bytes, Any]:
        async with Simulator() as sim:
            got = await post(sim, *wire(dialect, question(dialect, "plain+stall:99")), idle=0.1)
            return got.body, await sim.wait_for(lambda one: one.over)

    body, exchange = asyncio.run(run())

    assert (99, 99) == (len(body), exchange.written)
    assert (True, False) == (exchange.closed_early, exchange.finished)


def test_client_that_leaves_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> list[bool]:
        async with Simulator() as sim, aiohttp.ClientSession() as http:
            for model in (
                "plain+pace:1000",
                "plain+text:32768+chunk:all",
                "plain+text:32768+chunk:9999",
            ):
                async with http.post(
                    sim.url + PATHS["chat"], json=question("chat", model)
                ) as response:
                    await response.content.read(10)
                    response.close()
            for number in range(1, 4):
                await sim.wait_for(lambda one, number=number: one.number == number and one.over)
            return [one.closed_early for one in sim.exchanges]

    assert [True] * 3 == asyncio.run(run())
    assert [] == caplog.messages


def test_closing_gives_up_what_waits() -> None:
    async def run() -> list[Any]:
        async with aiohttp.ClientSession() as http:
            async with Simulator() as sim:
                models = ("plain+stall:9", "plain+slow:600000", "plain+pace:600000")
                tasks = [
                    asyncio.ensure_future(
                        http.post(sim.url + PATHS["chat"], json=question("chat", model))
                    )
                    for model in models
                ]
                for number in range(1, 4):
                    await sim.wait_for(lambda one, number=number: one.number == number)
                exchanges = list(sim.exchanges)
            for task in tasks:
                with suppress(aiohttp.ClientError):
                    (await task).close()
            return exchanges

    assert [True] * 3 == [one.over for one in asyncio.run(run())]


def test_slow_reader_holds_the_answer_back() -> None:
    async def run() -> tuple[int, int]:
        async with Simulator() as sim, aiohttp.ClientSession(read_bufsize=1024) as http:
            body = question("chat", "plain+text:8192+chunk:1000")
            async with http.post(sim.url + PATHS["chat"], json=body) as response:
                await sim.wait_for(lambda one: one.written > 0)
                for _ in range(50):  # time in which a server without manners writes all
                    async with http.get(f"{sim.url}/health") as health:
                        await health.read()
                held = sim.exchanges[0].written
                total = len(await response.read())
                return held, total

    held, total = asyncio.run(run())

    assert total > 8 * 1024 * 1024
    assert held < total


def test_pace_and_slow_are_kept() -> None:
    async def run() -> float:
        loop = asyncio.get_running_loop()
        async with Simulator() as sim:
            begun = loop.time()
            body = question("chat", "plain+slow:100+pace:20+batch:20", "sim: say " + "x" * 200)
            await post(sim, PATHS["chat"], body)
            return loop.time() - begun

    assert asyncio.run(run()) >= 0.14


@each_dialect
@pytest.mark.parametrize("stream", [True, False])
def test_other_form_than_was_asked_for(dialect: str, stream: bool) -> None:
    quirk = "json-instead" if stream else "sse-instead"
    got = ask(dialect, question(dialect, f"plain+{quirk}", stream=stream))

    kind = got.headers["content-type"]

    assert kind.startswith("application/json" if stream else "text/event-stream")
    assert got.json if stream else check(dialect, got.body).legal


@each_dialect
def test_half_a_character_is_replaced(dialect: str) -> None:
    got = ask(dialect, question(dialect, text="a\ud800", stream=False))

    assert 200 == got.status
    assert "You said: a\ufffd" in got.body.decode()


@each_dialect
@pytest.mark.parametrize(
    ("path", "value"),
    [("model", 7), ("tools", "none"), ("messages", 1), ("input", 1), ("contents", 1)],
)
def test_bad_request_is_refused_in_the_dialect(dialect: str, path: str, value: Any) -> None:
    body = question(dialect)
    if path not in {"tools", *body} or (dialect, path) == ("gemini", "model"):
        return  # another dialect's field; the URL of Gemini is text
    got = ask(dialect, body | {path: value})

    assert 400 == got.status
    assert path in got.json["error"]["message"]
    if dialect == "anthropic":
        assert "invalid_request_error" == got.json["error"]["type"]
    elif dialect == "gemini":
        assert "INVALID_ARGUMENT" == got.json["error"]["status"]
    else:
        assert got.json["error"]["param"].startswith(path)


@each_dialect
@pytest.mark.parametrize("model", ["plain+nosuch", "plain+parallel", "plain+cut:x", "plain+crlf:1"])
def test_unknown_or_wrong_quirk_is_refused(dialect: str, model: str) -> None:
    got = ask(dialect, question(dialect, model))

    assert 400 == got.status
    assert "quirk" in got.json["error"]["message"]


def test_what_is_kept_nowhere_cannot_be_continued() -> None:
    got = ask("responses", question("responses", previous_response_id="resp_1"))

    assert (400, "previous_response_not_found") == (got.status, got.json["error"]["code"])


def test_paths_work_without_the_version() -> None:
    async def run() -> list[int]:
        async with Simulator() as sim:
            return [
                (await post(sim, path.removeprefix("/v1"), question(dialect))).status
                for dialect, path in PATHS.items()
            ]

    assert [200, 200, 200] == asyncio.run(run())


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/v1/messages/count_tokens", question("anthropic"), "input_tokens"),
        ("/v1/responses/input_tokens", question("responses"), "input_tokens"),
        ("/tokenize", question("chat"), "count"),
        ("/tokenize", {"model": "m", "prompt": "twelve chars"}, "count"),
        ("/tokenize", {"content": "twelve chars"}, "count"),
    ],
)
def test_tokens_are_counted_as_in_the_usage(path: str, body: Any, field: str) -> None:
    body = {key: value for key, value in body.items() if key not in ("max_tokens", "stream")}

    async def run() -> tuple[int, int]:
        async with Simulator() as sim:
            counted = (await post(sim, path, body)).json[field]
            dialect = next((name for name, one in PATHS.items() if path.startswith(one)), "chat")
            if "messages" not in body and "input" not in body:
                return counted, 3
            asked = body | ({"max_tokens": 99} if dialect == "anthropic" else {})
            usage = (await post(sim, PATHS[dialect], asked)).json["usage"]
            return counted, usage.get("input_tokens", usage.get("prompt_tokens"))

    counted, used = asyncio.run(run())

    assert used == counted


@pytest.mark.parametrize("path", ["/tokenize", "/v1/messages/count_tokens"])
@pytest.mark.parametrize("body", [b"{", b"[]", b"{}"])
def test_what_cannot_be_counted_is_refused(path: str, body: bytes) -> None:
    async def run() -> int:
        async with Simulator() as sim:
            return (await post(sim, path, body)).status

    assert 400 == asyncio.run(run())


def test_models_health_and_what_is_not_served() -> None:
    async def run() -> tuple[Any, list[int]]:
        async with Simulator() as sim, aiohttp.ClientSession(sim.url) as http:
            async with http.get("/v1/models") as response:
                models = await response.json()
            statuses = []
            for method, path in [
                ("GET", "/health"),
                ("HEAD", "/"),
                ("GET", "/v1/models/sim/kimi-k2"),
                ("GET", "/v1/nothing"),
                ("DELETE", "/v1/messages"),
            ]:
                async with http.request(method, path) as response:
                    statuses.append(response.status)
            return models, statuses

    models, statuses = asyncio.run(run())

    ids = [one["id"] for one in models["data"]]
    assert ["sim/plain", "sim/kimi-k2"] == ids[:2]
    assert "leak-reasoning" in [one["quirk"] for one in models["quirks"]]
    assert [200, 200, 200, 404, 404] == statuses


def test_exchanges_record_what_came_and_what_became_of_it() -> None:
    async def run() -> tuple[Any, Any]:
        headers = {"authorization": "Bearer sk-secret-of-mine", "x-api-key": "sk-other-secret"}
        async with Simulator() as sim, aiohttp.ClientSession(sim.url) as http:
            body = question("anthropic", stream=False)
            async with http.post("/v1/messages?beta=true", json=body, headers=headers) as response:
                written = len(await response.read())
            async with http.get("/sim/exchanges") as response:
                listed = (await response.json())["exchanges"]
            assert [body] == [one.json for one in sim.exchanges]
            async with http.delete("/sim/exchanges") as response:
                assert 200 == response.status
            assert 0 == len(sim.exchanges)
            return written, listed

    written, [exchange] = asyncio.run(run())

    assert "/v1/messages?beta=true" == exchange["path"]
    assert ("Bearer sk-s…", "sk-o…") == (
        exchange["headers"]["authorization"],
        exchange["headers"]["x-api-key"],
    )
    assert "secret" not in json.dumps(exchange)
    assert (200, written, True, False) == (
        exchange["status"],
        exchange["written"],
        exchange["finished"],
        exchange["closed_early"],
    )


def test_pages_in_a_browser_may_not_look_at_exchanges() -> None:
    async def run() -> list[int]:
        async with Simulator() as sim, aiohttp.ClientSession(sim.url) as http:
            statuses = []
            for headers in ({"origin": "http://127.0.0.1"}, {"host": "evil.example"}, {}):
                async with http.get("/sim/exchanges", headers=headers) as response:
                    statuses.append(response.status)
            return statuses

    assert [403, 403, 200] == asyncio.run(run())


def test_exchanges_are_bounded() -> None:
    async def run() -> list[int]:
        async with Simulator() as sim:
            for _ in range(1_003):
                sim.exchanges.open("POST", "/", {})
            return [one.number for one in sim.exchanges]

    assert list(range(4, 1_004)) == asyncio.run(run())


def test_waiting_for_what_does_not_come_ends() -> None:
    async def run() -> None:
        async with Simulator() as sim:
            await sim.wait_for(lambda _one: True, timeout=0.01)

    with pytest.raises(TimeoutError):
        asyncio.run(run())


def test_address_in_use_is_the_operator_s_mistake() -> None:
    async def run() -> None:
        async with Simulator() as first, Simulator(port=first.port):
            pass

    with pytest.raises(ConfigError, match=r"port \d+ on 127.0.0.1 is in use"):
        asyncio.run(run())


def test_many_streams_at_once_are_each_their_own() -> None:
    async def run() -> list[bytes]:
        async with Simulator() as sim, aiohttp.ClientSession() as http:

            async def one(number: int) -> bytes:
                body = question("chat", "plain+pace:1", f"sim: say number {number} of many")
                async with http.post(sim.url + PATHS["chat"], json=body) as response:
                    return await response.read()

            return await asyncio.gather(*(one(number) for number in range(50)))

    for number, stream in enumerate(asyncio.run(run())):
        pieces = [
            json.loads(line[6:])["choices"][0]["delta"].get("content", "")
            for line in stream.decode().splitlines()
            if line.startswith("data: {") and '"choices":[]' not in line
        ]
        assert f"number {number} of many" == "".join(pieces)


def test_every_byte_may_be_its_own_write() -> None:
    async def run() -> tuple[bytes, int]:
        async with Simulator() as sim, aiohttp.ClientSession() as http:
            body = question("chat", "plain+chunk:byte+pace:1", "sim: say é")
            sizes = []
            async with http.post(sim.url + PATHS["chat"], json=body) as response:
                async for piece, _ in response.content.iter_chunks():
                    sizes.append(piece)
            return b"".join(sizes), max(map(len, sizes))

    stream, largest = asyncio.run(run())

    assert check("chat", stream).legal
    assert largest < 30
    assert WEATHER["name"] not in stream.decode()
