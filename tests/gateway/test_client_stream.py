"""Streams in time: signs of life, held headers, deadlines, clients that leave, and many at once."""

import asyncio
import json
import re
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import aiohttp
import openai
import pytest
from msgspec import structs

from dragoman.checker.checker import check
from dragoman.dialects import dialect as find_dialect
from dragoman.gateway.config.settings import (
    Match,
    Route,
    Server,
    Settings,
    TimeoutChanges,
    Timeouts,
    Upstream,
)
from dragoman.transport import Connector, TransportError
from tests.support import endings
from tests.support.asking import post
from tests.support.gateway import DIALECTS, FIXED_PATHS, PATHS, Stand, settings_for, stand
from tests.support.odd_upstream import SSE, Gate, OddUpstream, Reply, chat_stream
from tests.support.raw_http import RawClient
from tests.support.simulator import WEATHER, question, wire
from tests.support.views import seen_body
from tests.support.waiting import logged, logged_with, until

SHORT = "sim: say It rains."
KEEP_ALIVE = {
    "chat": b": keep-alive\n",
    "anthropic": b'event: ping\ndata: {"type":"ping"}\n\n',
    "responses": b": keep-alive\n",
    "gemini": b"\r\n",
}


def make(url: str, odd: str) -> Settings:
    plain = settings_for(url, server=Server(port=0, keep_alive=0.25, hold_headers=0.5))
    plain.upstreams["odd"] = Upstream(base_url=f"{odd}/v1", retries=0, timeouts=Timeouts(idle=1.0))
    quick = {
        "first": TimeoutChanges(first_byte=1.0, idle=0.0),
        "idle": TimeoutChanges(first_byte=0.0, idle=1.0),
        "total": TimeoutChanges(total=1.0),
    }
    routes = tuple(
        Route(name=name, match=Match(model=f"{name}/*"), to=("chat/*",), timeouts=changes)
        for name, changes in quick.items()
    )
    tail = Route(match=Match(model="tail/*"), to=("chat/*",), stream_error_tail="message_stop")
    odd = Route(match=Match(model="odd"), to=("odd/m",), format="kimi_k2")
    return structs.replace(plain, routes=(*routes, tail, odd, *plain.routes))


@pytest.fixture(scope="module")
def gateway(odd: OddUpstream) -> Stand:
    with stand(lambda url: make(url, odd.url)) as found:
        yield found


# --- signs of life ------------------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_g6_signs_of_life_come_before_the_first_content(gateway, odd, dialect: str) -> None:
    body, sign = question(dialect, "odd", SHORT), KEEP_ALIVE[dialect]
    reply = Reply(200, b"".join(chat_stream("It ", "rains.")), SSE)
    odd.answer = lambda _asked: reply
    quick = post(gateway, dialect, body).text
    gate = Gate()
    odd.answer = lambda _asked: gate.wait() or reply
    with RawClient(gateway.url, *wire(dialect, body)) as client:
        head = client.head()
        client.body_with(sign * 3)
        gate.open()
        slow = client.whole()

    assert 200 == head
    assert () == check(dialect, bytes(slow)).violations
    assert endings.normal(quick) == endings.normal(slow.replace(sign, b"").decode())


@pytest.mark.parametrize(
    ("dialect", "upstream"),
    [(dialect, "chat") for dialect in DIALECTS] + [(same, same) for same in DIALECTS[1:]],
)
def test_g5_signs_of_life_stand_between_events(gateway, dialect: str, upstream: str) -> None:
    # Gemini needs fewer events for an answer.
    batch = 1 if upstream == "gemini" else 4
    model = f"{upstream}/middle-{dialect}+chunk:8+batch:{batch}"
    quick = post(gateway, dialect, question(dialect, model, SHORT)).text
    slow = post(gateway, dialect, question(dialect, f"{model}+pace:600", SHORT)).text
    sign = KEEP_ALIVE[dialect].decode()

    assert sign in slow
    assert () == check(dialect, slow.encode()).violations
    without = endings.normal(slow.replace(sign, "")).replace("+pace:600", "")
    assert endings.normal(quick) == without


def test_g5_sdk_sees_no_event_in_a_sign_of_life(gateway) -> None:
    asked = {"messages": [{"role": "user", "content": SHORT}], "stream": True}
    with openai.OpenAI(base_url=f"{gateway.url}/v1", api_key="x", max_retries=0) as client:
        quick = list(client.chat.completions.create(model="anthropic/sdk+batch:4", **asked))
        slow = list(client.chat.completions.create(model="anthropic/sdk+batch:4+pace:600", **asked))

    assert [one.choices for one in quick] == [one.choices for one in slow]


def test_g5_forms_of_signs_are_those_of_the_dialects() -> None:
    assert {name: find_dialect(name).keep_alive for name in DIALECTS} == KEEP_ALIVE


@pytest.mark.parametrize("dialect", DIALECTS)
def test_failure_after_the_status_has_left_is_reported_in_the_stream(gateway, dialect: str) -> None:
    got = post(gateway, dialect, question(dialect, "chat/plain+slow:900+error:429"))
    quick = post(gateway, dialect, question(dialect, "chat/plain+error:429"))

    assert (200, 429) == (got.status_code, quick.status_code)
    assert got.content.startswith(KEEP_ALIVE[dialect])
    assert "chat: the simulator's rate limit is reached" in got.text
    assert () == check(dialect, got.content).violations
    assert "text/event-stream; charset=utf-8" == got.headers["content-type"]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_answer_that_arrives_at_once_leaves_in_one_write(gateway, odd, dialect: str) -> None:
    odd.answer = lambda _asked: Reply(200, b"".join(chat_stream("It ", "rains.")), SSE)
    with RawClient(gateway.url, *wire(dialect, question(dialect, "odd", SHORT))) as client:
        received = client.socket.recv(1 << 20)

    assert received.startswith(b"HTTP/1.1 200 OK\r\n")
    assert received.endswith(b"\r\n0\r\n\r\n")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_answers_in_one_piece_get_no_signs_of_life(gateway, dialect: str) -> None:
    body = question(dialect, "chat/plain+slow:900", SHORT, stream=False)

    assert "It rains." in json.dumps(post(gateway, dialect, body).json())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_g_5_every_event_leaves_as_it_comes(gateway, odd, dialect: str) -> None:
    words = ("One ", "two ", "three ", "four.")
    gate = Gate()
    odd.answer = lambda _asked: Reply(200, gate.each(chat_stream(*words)), SSE)
    with RawClient(gateway.url, *wire(dialect, question(dialect, "odd"))) as client:
        for word in words:
            gate.open()
            if word == words[0]:
                client.head()
            # The upstream says nothing more before this has come.
            client.body_with(word.encode())
        gate.open(9)
        stream = client.whole()

    assert "finish" == check(dialect, bytes(stream)).ended


# --- deadlines ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream", [True, False])
def test_g8_first_byte_has_its_own_limit(gateway, stream: bool) -> None:
    late = post(gateway, "chat", question("chat", "first/plain+slow:60000", stream=stream))
    slow = post(gateway, "chat", question("chat", "first/plain+batch:8+pace:1400", SHORT))

    # The status may have left before; a stream that goes on slowly is no concern of this limit.
    assert "no answer within 1 s" in late.text
    assert "[DONE]" in slow.text
    assert "error" not in slow.text
    assert "first_byte_timeout" == logged(gateway, late.headers["request-id"])["error_code"]


@pytest.mark.parametrize("stream", [True, False])
def test_g8_silence_within_an_answer_has_its_own_limit(gateway, stream: bool) -> None:
    silent = post(gateway, "chat", question("chat", "idle/plain+stall", stream=stream))
    late = post(gateway, "chat", question("chat", "idle/plain+slow:1800", SHORT, stream=stream))

    assert "the stream was silent for 1 s" in silent.text
    assert 200 == late.status_code
    assert "error" not in late.text
    assert "idle_timeout" == logged(gateway, silent.headers["request-id"])["error_code"]


@pytest.mark.parametrize("stream", [True, False])
def test_g_8_total_time_may_be_limited(gateway, stream: bool) -> None:
    model = "total/plain+pace:100" if stream else "total/plain+slow:60000"
    cut = post(gateway, "anthropic", question("anthropic", model, stream=stream))
    free = post(gateway, "anthropic", question("anthropic", "chat/plain+batch:6+pace:500"))

    assert "no complete answer within 1 s" in cut.text
    assert "timeout_error" in cut.text
    assert "message_stop" in free.text


def test_comments_of_the_upstream_are_signs_of_its_life(gateway, odd) -> None:
    def slowly(frames: list[bytes]) -> Iterator[bytes]:
        yield frames[0]
        for _ in range(16):  # twice as long as it may be silent
            time.sleep(0.125)
            yield b": still here\n\n"
        yield from frames[1:]

    odd.answer = lambda _asked: Reply(200, slowly(chat_stream("It ", "rains.")), SSE)
    got = post(gateway, "anthropic", question("anthropic", "odd"))

    assert "finish" == check("anthropic", got.content).ended


@pytest.mark.parametrize("dialect", FIXED_PATHS)
def test_g8_reader_that_rests_is_not_the_upstreams_silence(gateway, dialect: str) -> None:
    limit = {"max_tokens": 10**9} if dialect == "anthropic" else {}
    body = question(dialect, "idle/plain+text:12000+chunk:16000", **limit)
    with RawClient(gateway.url, *wire(dialect, body), buffer=65536) as client:
        client.head()
        own = client.headers["request-id"]
        streams = gateway.running.gateway.runtime.deadlines.streams
        # A request of an earlier test may end late.
        sent = until(lambda: next((one for one in list(streams) if one._context.id == own), None))
        rested = sent.last_read + 2.0  # twice the limit
        until(lambda: time.monotonic() > rested and sent._writing)
        stream = client.whole()

    assert b"timed out" not in stream[-2000:]
    assert len(stream) > 12000 * 1024


@contextmanager
def full_backlog() -> Iterator[int]:
    """Give a port on loopback where connections are neither taken nor refused."""
    with socket.socket() as full:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        waiting = [socket.socket() for _ in range(4)]
        for one in waiting:
            one.setblocking(False)
            one.connect_ex(full.getsockname())
        try:
            yield full.getsockname()[1]
        finally:
            for one in waiting:
                one.close()


@pytest.mark.parametrize("dialect", FIXED_PATHS)
def test_g8_connecting_has_its_own_limit(dialect: str) -> None:
    with full_backlog() as port:

        def unreachable(url: str) -> Settings:
            plain = settings_for(url)
            chat = structs.replace(
                plain.upstreams["chat"],
                base_url=f"http://127.0.0.1:{port}/v1",
                timeouts=Timeouts(connect=0.4),
            )
            return structs.replace(plain, upstreams={**plain.upstreams, "chat": chat})

        with stand(unreachable) as found:
            began = time.monotonic()
            got = post(found, dialect, question(dialect, "chat/plain"))
            seconds = time.monotonic() - began
            line = logged(found, got.headers["request-id"])

    assert 504 == got.status_code
    assert f"no connection to 127.0.0.1:{port} in time" in got.text
    assert seconds < 30
    assert "connect_timeout" == line["error_code"]


# --- clients that leave -------------------------------------------------------------------------------

MOMENTS = {
    "in_the_stream": ("stall", True),
    "before_the_first_byte": ("slow:60000", True),
    "while_the_answer_is_made": ("slow:60000", False),
    "in_the_body": ("stall", False),
    "of_another_upstream": ("stall", True),
}


def leave(gateway: Stand, dialect: str, moment: str, attempt: int) -> float:
    """Leave, check the log line, and return how long it took until the upstream saw it."""
    quirks, stream = MOMENTS[moment]
    upstream = "anthropic" if moment == "of_another_upstream" else "chat"
    mark = f"leaving {moment} {dialect} {attempt}."
    model = f"{upstream}/left-{moment}-{dialect}-{attempt}+{quirks}"  # no other request's
    body = question(dialect, model, mark, stream=stream)

    def found():
        return next((one for one in gateway.simulator.exchanges if mark.encode() in one.body), None)

    with RawClient(gateway.url, *wire(dialect, body)) as client:
        exchange = until(found)
        if moment in ("in_the_stream", "of_another_upstream"):
            assert 200 == client.head()
        elif moment == "in_the_body":
            until(lambda: exchange.written)
    left = time.monotonic()
    until(lambda: exchange.over)

    seconds = time.monotonic() - left

    line = logged_with(gateway, model=model)
    assert exchange.closed_early
    assert (499, "client_left") == (line["status"], line["ended"])
    return seconds


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("moment", MOMENTS)
def test_g7_client_that_leaves_ends_its_upstream(gateway, dialect: str, moment: str) -> None:
    # The best of a few counts: others may use this machine.
    seconds = (leave(gateway, dialect, moment, attempt) for attempt in range(5))

    assert any(one < 1.0 for one in seconds)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_g7_client_that_leaves_after_the_last_event_is_logged_as_served(
    gateway, odd: OddUpstream, dialect: str
) -> None:
    gate = Gate()
    last = {
        "chat": b"[DONE]",
        "anthropic": b"message_stop",
        "responses": b"response.completed",
        "gemini": b'"finishReason":"STOP"',
    }

    def lingering() -> Iterator[bytes]:
        yield b"".join(chat_stream("It", " rains."))
        gate.wait()  # the connection stays open behind the end of the stream

    odd.answer = lambda _asked: Reply(200, lingering(), SSE)
    with RawClient(gateway.url, *wire(dialect, question(dialect, "odd"))) as client:
        client.head()
        client.body_with(last[dialect])
    line = logged(gateway, client.headers["request-id"])
    gate.open()

    assert (200, "stop") == (line["status"], line["ended"])


def test_g7_client_that_leaves_between_attempts_is_forgotten() -> None:
    def patient(url: str) -> Settings:
        plain = settings_for(url)
        chat = structs.replace(plain.upstreams["chat"], retries=1)
        return structs.replace(plain, upstreams={**plain.upstreams, "chat": chat})

    with stand(patient) as found:
        body = question("chat", "chat/plain+error:429+retry-after:20")
        with RawClient(found.url, PATHS["chat"], body):
            until(lambda: len(found.simulator.exchanges) and found.simulator.exchanges[0].over)
        until(lambda: "client_left" in found.log.getvalue())

        assert 1 == len(found.simulator.exchanges)
        assert 0 == len(found.running.gateway.runtime.deadlines.streams)


# --- what came, and what is left ----------------------------------------------------------------------


def test_g_6_what_came_before_a_connection_broke_is_not_lost() -> None:
    pieces = b"".join(b"%x\r\n%b\r\n" % (len(one), one) for one in (b"one ", b"two ", b"three"))
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"

    async def run() -> bytes:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(head + pieces)
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        url = aiohttp.client.URL(f"http://127.0.0.1:{port}/")
        how: Any = {"headers": {}, "body": b"", "connect_seconds": 60.0, "tls": True}
        connector = Connector()
        received = b""
        try:
            async with asyncio.timeout(60):
                reply = await connector.open("POST", url, **how)
                for _ in range(3):  # meanwhile the first has broken
                    with await connector.open("POST", url, **how):
                        pass
                with reply, suppress(TransportError):
                    while data := await reply.read():
                        received += data
                    pytest.fail("the answer looks complete")
        finally:
            await connector.close()
            server.close()
        return received

    assert b"one two three" == asyncio.run(run())


def test_p_10_error_may_be_followed_by_a_last_word(gateway) -> None:
    got = post(gateway, "anthropic", question("anthropic", "tail/plain+cut"))
    kinds = re.findall("event: (.*)", got.text)

    assert ["content_block_stop", "error", "message_stop"] == kinds[-3:]
    assert "message_delta" not in kinds


def closing(url: str) -> Settings:
    plain = settings_for(url, server=Server(port=0, stream_error_tail="close"))
    ajar = Route(match=Match(model="ajar/*"), to=("chat/*",), stream_error_tail="open")
    return structs.replace(plain, routes=(ajar, *plain.routes))


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize("fault", ["cut", "reset", "error-in"])
def test_p_10_block_in_which_a_stream_breaks_stays_open(gateway, upstream: str, fault: str) -> None:
    asked = question("anthropic", f"{upstream}/plain+{fault}")

    kinds = re.findall("event: (.*)", post(gateway, "anthropic", asked).text)

    assert ["content_block_delta", "error"] == kinds[-2:]
    assert "content_block_stop" not in kinds


def test_p_10_how_streams_break_is_the_servers_to_say_and_a_routes_to_change() -> None:
    with stand(closing) as other:
        kinds = {
            name: re.findall(
                "event: (.*)", post(other, "anthropic", question("anthropic", name)).text
            )
            for name in ("chat/plain+cut", "anthropic/plain+cut", "ajar/plain+cut")
        }

    assert ["content_block_stop", "error"] == kinds["chat/plain+cut"][-2:]
    assert ["content_block_stop", "error"] == kinds["anthropic/plain+cut"][-2:]
    assert ["content_block_delta", "error"] == kinds["ajar/plain+cut"][-2:]


@pytest.mark.parametrize("upstream", DIALECTS)
@pytest.mark.parametrize(
    ("fault", "agent", "failed"),
    [
        ("ends-in:text", "QwenCode/0.15.10 (linux; x64)", False),
        ("ends-in:text", "openai-python", True),
        ("error-in", "QwenCode/0.15.10 (linux; x64)", True),  # the upstream has said more than that
    ],
)
def test_p_10_truncated_stream_has_no_error_event_for_a_client_that_retries_without_one(
    gateway, upstream: str, fault: str, agent: str, *, failed: bool
) -> None:
    asked = question("chat", f"{upstream}/plain+{fault}")

    got = post(gateway, "chat", asked, headers={"user-agent": agent}).text

    assert failed is ('"error"' in got)
    assert failed is ("[DONE]" in got)
    assert '"finish_reason":"' not in got


@pytest.mark.parametrize("dialect", DIALECTS[1:])
def test_g4_comments_and_line_ends_of_the_upstream_are_not_passed_on(gateway, dialect) -> None:
    plain = post(gateway, dialect, question(dialect, "chat/g4+chunk:8", SHORT))
    odd = post(gateway, dialect, question(dialect, "chat/g4+chunk:8+comments+crlf", SHORT))

    assert endings.normal(plain.text) == endings.normal(odd.text).replace("+comments+crlf", "")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_p_9_broken_answer_is_502_before_the_stream_and_an_error_in_it(
    gateway, dialect: str
) -> None:
    call = 'sim: call get_weather {"city": "Ulm"}'
    whole = question(dialect, "chat/plain+cut:10", call, tools=[WEATHER], stream=False)
    early = question(dialect, "chat/plain+cut:10", call, tools=[WEATHER])
    late = question(dialect, "chat/plain+half-call", call, tools=[WEATHER])

    assert 502 == post(gateway, dialect, whole).status_code
    assert 502 == post(gateway, dialect, early).status_code
    got = post(gateway, dialect, late)
    # Where a dialect cannot show a call that has begun, nothing was sent yet.
    assert (200 if find_dialect(dialect).half_calls else 502) == got.status_code
    assert "unexpectedly inside a tool call" in got.text


@pytest.mark.parametrize("dialect", FIXED_PATHS)
def test_p_9_arguments_that_are_no_json_are_passed_on_and_cannot_be_run(gateway, dialect) -> None:
    call = 'sim: call get_weather {"city": "Ulm"}'
    asked = question(dialect, "chat/plain+bad-json-args", call, tools=[WEATHER], stream=False)

    got = post(gateway, dialect, asked)

    assert 200 == got.status_code
    assert "args_invalid" in got.headers["x-dragoman-warnings"].split(",")
    seen = seen_body(dialect, got.content)
    assert {"anthropic": 0}.get(dialect, 1) == len(seen.calls)
    for *_, arguments in seen.calls:
        with pytest.raises(json.JSONDecodeError):
            json.loads(arguments)
    assert "Ulm" in got.text


@pytest.mark.parametrize("dialect", ["anthropic", "responses"])
@pytest.mark.parametrize("native", [False, True])
def test_p_9_arguments_that_can_be_repaired_are_repaired_and_announced(
    gateway, odd, dialect: str, native: bool
) -> None:
    # A comma too many, a bracket too few.
    written = '{"city": "Ulm", "unit": "celsius", "days": [1, 2,]'
    function = {"name": WEATHER["name"], "arguments": written}
    call = {"id": "c1", "type": "function", "function": function}
    text = f"<|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{written}"
    message = {"content": text + "<|tool_call_end|>"} if native else {"tool_calls": [call]}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    odd.answer_with(200, {"id": "x", "model": "m", "choices": [choice]})
    got = post(gateway, dialect, question(dialect, "odd", tools=[WEATHER], stream=False))
    body = got.json()
    found = (
        body["content"][0]["input"]
        if dialect == "anthropic"
        else json.loads(body["output"][0]["arguments"])
    )

    assert 200 == got.status_code
    assert {"city": "Ulm", "unit": "celsius", "days": [1, 2]} == found
    assert "args_repaired" in got.headers["x-dragoman-warnings"].split(",")


def test_p_11_format_that_was_looked_for_is_logged_with_the_model(gateway) -> None:
    got = post(gateway, "anthropic", question("anthropic", "chat/kimi-k2", tools=[WEATHER]))
    line = logged(gateway, got.headers["request-id"])

    assert ("kimi-k2", "kimi_k2") == (line["upstream_model"], line["native_format"])
    assert ["get_weather"] == line["call_names"]
    assert "Paris" not in gateway.log.getvalue()


# --- many ---------------------------------------------------------------------------------------------

MANY = 500


def test_many_streams_at_once_are_each_as_if_alone() -> None:
    silent = Server(port=0, keep_alive=0, hold_headers=0)  # on a busy machine it may take long
    with stand(lambda url: settings_for(url, server=silent)) as found:
        baseline = found.do(count_tasks())
        alone = {
            dialect: endings.normal(found.do(fetch_all(found, dialect, [0], 100))[0])
            for dialect in FIXED_PATHS
        }
        for slowly in (2_500, 10_000, 25_000):  # a busy machine takes longer to ask them all
            received, most = asyncio.run(fetch_many(found, slowly))
            if most == MANY:
                break
        gateway = found.running.gateway
        until(lambda: not gateway._requests and not gateway.runtime.deadlines.streams)
        until(lambda: found.do(count_tasks()) <= baseline)

    assert MANY == most  # all of them were under way together
    for number, (dialect, text) in received.items():
        expected = alone[dialect].replace("00000000+slow:100", f"{number:08}+slow:{slowly}")
        expected = expected.replace("00000000", f"{number:08}")
        assert expected == endings.normal(text)


async def count_tasks() -> int:
    """Count tasks, but for those that wait for another request on a connection."""
    names = [task.get_coro().__qualname__ for task in asyncio.all_tasks()]
    return sum(name != "RequestHandler.start" for name in names)


def body_of(dialect: str, number: int, slowly: int) -> dict:
    # The number is a piece of its own, and each has a model of its own to learn estimates from.
    model = f"chat/many-{number:08}+slow:{slowly}+chunk:8+pace:40"
    return question(dialect, model, f"sim: say {number:08} and so on, and so on, and on.")


async def fetch_all(found: Stand, dialect: str, numbers: list[int], slowly: int) -> list[str]:
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:

        async def fetch(number: int) -> str:
            url = found.url + PATHS[dialect]
            async with http.post(url, json=body_of(dialect, number, slowly)) as response:
                return (await response.read()).decode()

        return await asyncio.gather(*map(fetch, numbers))


async def fetch_many(found: Stand, slowly: int) -> tuple[dict[int, tuple[str, str]], int]:
    shares = {dialect: list(range(at + 1, MANY + 1, 3)) for at, dialect in enumerate(FIXED_PATHS)}
    most = 0

    async def look() -> None:
        nonlocal most
        while True:
            open_now = [one for one in list(found.simulator.exchanges) if not one.over]
            most = max(most, len(open_now))
            await asyncio.sleep(0.05)

    looking = asyncio.create_task(look())
    texts_of_all = await asyncio.gather(
        *(fetch_all(found, dialect, numbers, slowly) for dialect, numbers in shares.items())
    )
    looking.cancel()
    received = {}
    for (dialect, numbers), texts in zip(shares.items(), texts_of_all, strict=True):
        received |= {number: (dialect, text) for number, text in zip(numbers, texts, strict=True)}
    return received, most
