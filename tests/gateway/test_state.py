"""Two gateways on one Redis behave as one, and go on without it."""

import asyncio
import io
import json
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import httpx2
import pytest
from msgspec import structs

from dragoman.gateway.admission import Admission, Entrance, PlaceLimits
from dragoman.gateway.config.settings import Key, Match, Route, Secret, Server, Settings, Upstream
from dragoman.gateway.keys import Holder
from dragoman.gateway.logging import Logger
from dragoman.gateway.state import redis_link
from dragoman.gateway.state.state import RedisState
from tests.support.asking import get, post
from tests.support.certificates import certificate
from tests.support.event_loops import loop_in_thread
from tests.support.gateway import PATHS, Stand, settings_for, stand
from tests.support.received import received
from tests.support.redis import PASSWORD, RedisServer, redis_server
from tests.support.simulator import WEATHER, question
from tests.support.waiting import notices, until

KEYS = {
    "hundred": {"requests_per_minute": 100},
    "thrifty": {"tokens_per_minute": 1000},
    "double": {"concurrent": 2},
    "free": {},
}


@contextmanager
def gateways(url: str, number: int = 2) -> Iterator[list[Stand]]:
    """Run gateways that share a Redis server."""

    def make(simulator: str) -> Settings:
        keys = tuple(Key(key=Secret("env:K", f"sk-{name}"), name=name, **limits) for name, limits in KEYS.items())  # fmt: skip
        server = Server(port=0, keys=keys, state=Secret("env:STATE", url))
        plain = settings_for(simulator)
        down = Upstream(base_url=f"{simulator}/v1", retries=0, failures=1, cooldown=60)
        narrow = structs.replace(plain.upstreams["chat"], max_concurrent=2, max_queue=0)
        patient = structs.replace(narrow, max_concurrent=1, max_queue=9)
        thinks = Upstream(base_url=f"{simulator}/v1", retries=0, profile="deepseek")
        more = {"down": down, "narrow": narrow, "patient": patient, "thinks": thinks}
        routes = (
            *(
                Route(name=one, match=Match(model=f"{one}/*"), to=(f"{one}/*",))
                for one in ("narrow", "patient", "thinks")
            ),
            Route(name="down", match=Match(model="down/*"), to=("down/*",)),
            Route(name="both", match=Match(model="both"), to=("down/plain", "chat/plain")),
        )
        return structs.replace(
            plain,
            server=server,
            upstreams={**plain.upstreams, **more},
            routes=(*routes, *plain.routes),
        )

    with ExitStack() as stack:
        yield [stack.enter_context(stand(make)) for _ in range(number)]


@pytest.fixture
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@pytest.fixture
def two(redis: RedisServer) -> Iterator[list[Stand]]:
    with gateways(redis.url) as found:
        yield found


async def ask_all(stands: list[Stand], key: str, model: str, number: int) -> list[int]:
    """Ask gateways in turn, all at once; return the statuses.  One that is listed twice is asked twice as often."""
    headers = {"authorization": f"Bearer sk-{key}"}
    body = question("chat", model, stream=False)
    limits = httpx2.Limits(max_connections=number)
    async with httpx2.AsyncClient(timeout=60, headers=headers, limits=limits) as client:
        asked = (client.post(stands[n % len(stands)].url + PATHS["chat"], json=body) for n in range(number))  # fmt: skip
        return [one.status_code for one in await asyncio.gather(*asked)]


def ask(gateway: Stand, key: str, model: str = "chat/plain") -> httpx2.Response:
    headers = {"authorization": f"Bearer sk-{key}"}
    return post(gateway, "chat", question("chat", model, stream=False), headers=headers)


def levels_read_at(gateway: Stand, key: str) -> float:
    """Return when a gateway last learned how much of its limits a key has used."""
    holder = gateway.running.gateway.plan.keyring.identify({"x-api-key": f"sk-{key}"})
    assert isinstance(holder, Holder)
    assert holder.entrance.shared_meter is not None
    levels = holder.entrance.shared_meter.levels
    return 0.0 if levels is None else levels.at


def level_in(redis: RedisServer) -> float:
    """Return how much of its requests per minute the only key in Redis had used when it was last asked for."""
    with redis.client() as client:
        found = [client.hget(name, "requests") for name in client.keys("dragoman:limits:*")]
    return float(found[0]) if found and found[0] is not None else 0.0


def ready(gateway: Stand) -> object:
    found = get(gateway, "/ready", headers={"authorization": "Bearer sk-free"})
    assert 200 == found.status_code
    return found.json()["state"]


def upstreams(gateway: Stand) -> Any:
    found = get(gateway, "/ready", headers={"authorization": "Bearer sk-free"}).json()
    return found["upstreams"]


# --- the connection -------------------------------------------------------------------------------------


@contextmanager
def tls_before(port: int) -> Iterator[int]:
    """Run a TLS server that forwards to a port; return its own."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate("server.pem"))

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        writer.close()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, behind[1]), copy(behind[0], writer))

    with loop_in_thread() as do:
        server = do(asyncio.start_server(forward, "127.0.0.1", 0, ssl=context))
        yield server.sockets[0].getsockname()[1]
        server.close()


def test_redis_behind_tls_is_used_if_its_authority_is_trusted(redis: RedisServer) -> None:
    with tls_before(redis.port) as port:
        url = f"rediss://gateway:{PASSWORD}@localhost:{port}/0"
        trust = f"?ssl_ca_certs={certificate('authority.pem')}"
        with gateways(url + trust, 1) as (trusting,), redis.client() as client:
            until(lambda: "connected" == ready(trusting))
            until(lambda: respond(trusting, "Hello") and client.keys("dragoman:response:*"))
            until(lambda: ask(trusting, "hundred") and client.keys("dragoman:limits:*"))
        with gateways(url, 1) as (wary,):
            distrusted = ready(wary)

    assert "away" == distrusted


def test_user_with_a_wrong_password_is_reported_without_it(redis: RedisServer) -> None:
    with gateways(redis.url.replace(PASSWORD, "pass-word-of-another"), 1) as (gateway,):
        (notice,) = notices(gateway, "state away")
        log = gateway.log.getvalue()

    assert "invalid username-password pair" in notice["why"]
    assert "pass-word" not in log


# --- limits of keys -----------------------------------------------------------------------------------


def test_requests_per_minute_hold_over_both_for_160_at_once(two: list[Stand]) -> None:
    begin = time.monotonic()
    statuses = asyncio.run(ask_all(two, "hundred", "chat/plain", 160))
    drained = (time.monotonic() - begin) * 100 / 60  # while they were asked

    assert {200, 429} == set(statuses)
    assert 98 <= statuses.count(200) <= (100 + drained) * 1.02


def test_requests_per_minute_hold_while_redis_does_not_respond(
    redis: RedisServer, two: list[Stand]
) -> None:
    begin = time.monotonic()
    statuses = asyncio.run(ask_all(two, "hundred", "chat/plain", 40))
    asked = time.monotonic()
    until(lambda: all(levels_read_at(gateway, "hundred") > asked for gateway in two))
    with redis.paused():
        statuses += asyncio.run(ask_all(two, "hundred", "chat/plain", 120))
        away = [ready(gateway) for gateway in two]
    for gateway in two:
        until(lambda gateway=gateway: "connected" == ready(gateway))
    statuses += asyncio.run(ask_all(two, "hundred", "chat/plain", 20))
    drained = (time.monotonic() - begin) * 100 / 60

    assert ["away", "away"] == away
    assert {200, 429} == set(statuses)
    assert 98 <= statuses.count(200) <= (100 + drained) * 1.02


def test_requests_that_redis_was_sent_before_it_hung_are_not_counted_twice(
    redis: RedisServer, two: list[Stand]
) -> None:
    ask(two[0], "hundred")
    until(lambda: all(levels_read_at(gateway, "hundred") for gateway in two[:1]))
    begin = time.monotonic()
    with redis.paused():
        statuses = asyncio.run(ask_all(two, "hundred", "chat/plain", 40))
    for gateway in two:
        until(lambda gateway=gateway: "connected" == ready(gateway))
    until(lambda: level_in(redis) > 20)  # what was admitted without Redis is charged
    admitted = 1 + statuses.count(200)
    drained = (time.monotonic() - begin) * 100 / 60

    assert {200} == set(statuses)
    assert admitted - drained - 1 <= level_in(redis) <= admitted


def test_clock_of_redis_is_read_again_before_it_has_drifted_away(
    redis: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_link, "_CLOCK_SECONDS", -1.0)  # with every command
    with gateways(redis.url, 1) as (gateway,):
        state = gateway.running.gateway.runtime.state
        assert isinstance(state, RedisState)
        link = state._link
        link._offset += 100
        until(lambda: abs(link._offset + time.monotonic() - time.time()) < 2)
        statuses = asyncio.run(ask_all([gateway], "double", "chat/plain+slow:500", 6))

    assert [200] * 2 + [429] * 4 == sorted(statuses)


@pytest.mark.parametrize("turn", [1, -1], ids=["first", "second"])
def test_requests_per_minute_hold_when_redis_loses_its_memory(
    redis: RedisServer, two: list[Stand], turn: int
) -> None:
    """Nine of ten requests reach one gateway before, and the same or the other one afterwards."""
    begin = time.monotonic()
    statuses = asyncio.run(ask_all([two[0]] * 9 + [two[1]], "hundred", "chat/plain", 60))
    asked = time.monotonic()
    until(lambda: all(levels_read_at(gateway, "hundred") > asked for gateway in two))
    redis.kill()
    until(lambda: all("away" == ready(gateway) for gateway in two))
    first, second = two[::turn]
    statuses += asyncio.run(ask_all([first] * 9 + [second], "hundred", "chat/plain", 60))
    redis.start()
    for gateway in two:
        until(lambda gateway=gateway: "connected" == ready(gateway))
    statuses += asyncio.run(ask_all([first] * 9 + [second], "hundred", "chat/plain", 60))
    drained = (time.monotonic() - begin) * 100 / 60

    assert {200, 429} == set(statuses)
    assert statuses.count(200) <= (100 + drained) * 1.02


def test_tokens_per_minute_hold_over_both(two: list[Stand]) -> None:
    first = ask(two[0], "thrifty", "chat/plain+text:8")
    until(lambda: 429 == ask(two[0], "thrifty").status_code)

    refused = ask(two[1], "thrifty")

    assert 200 == first.status_code
    assert 429 == refused.status_code
    assert "1000 tokens per minute" in refused.text


def test_concurrent_requests_hold_over_both_and_end(redis: RedisServer, two: list[Stand]) -> None:
    statuses = asyncio.run(ask_all(two, "double", "chat/plain+slow:700", 8))

    assert [200] * 2 + [429] * 6 == sorted(statuses)
    until(lambda: 200 == ask(two[1], "double").status_code)
    with redis.client() as client:
        until(lambda: not client.keys("dragoman:running:*"))


def test_places_of_an_upstream_hold_over_both(two: list[Stand]) -> None:
    statuses = asyncio.run(ask_all(two, "free", "narrow/plain+slow:700", 8))

    assert [200] * 2 + [503] * 6 == sorted(statuses)


def test_place_that_the_other_gateway_gives_back_is_found(two: list[Stand]) -> None:
    statuses = asyncio.run(ask_all(two, "free", "patient/plain+slow:50", 4))

    assert [200] * 4 == statuses


def test_every_key_in_redis_has_our_prefix_and_expires(
    redis: RedisServer, two: list[Stand]
) -> None:
    for key in ("hundred", "thrifty", "double"):
        ask(two[0], key)

    with redis.client() as client:
        names = client.keys("*")
        assert names
        assert all(name.startswith(b"dragoman:") for name in names)
        assert all(client.ttl(name) > 0 for name in names)


# --- cool-downs ---------------------------------------------------------------------------------------


def test_cool_down_is_known_to_the_other_gateway_within_a_second(two: list[Stand]) -> None:
    failed = ask(two[0], "free", "down/plain+error:500")
    begin = time.monotonic()
    until(lambda: "resting" == upstreams(two[1])["down"]["state"])
    seconds = time.monotonic() - begin
    both = [ask(gateway, "free", "both") for gateway in two]

    assert 500 <= failed.status_code
    assert 1.0 > seconds
    assert ["chat", "chat"] == [one.headers["x-dragoman-upstream"] for one in both]


def test_upstream_that_is_well_again_is_known_too(two: list[Stand]) -> None:
    ask(two[0], "free", "down/plain+error:500")
    until(lambda: "resting" == upstreams(two[1])["down"]["state"])

    assert 200 == ask(two[1], "free", "down/plain").status_code  # the only upstream of its route
    until(lambda: "well" == upstreams(two[0])["down"]["state"])


# --- stored responses ---------------------------------------------------------------------------------


def respond(gateway: Stand, text: str, **fields: Any) -> httpx2.Response:
    body = {"model": "chat/plain", "input": text, **fields}
    return post(gateway, "responses", body, headers={"authorization": "Bearer sk-free"})


def test_response_of_one_gateway_continues_on_the_other(
    redis: RedisServer, two: list[Stand]
) -> None:
    first = respond(two[0], "My name is Ada.").json()
    second = respond(two[1], "Who am I?", previous_response_id=first["id"])
    third = respond(two[0], "And now?", previous_response_id=second.json()["id"])
    headers = {"authorization": "Bearer sk-free"}
    found = get(two[1], f"/v1/responses/{first['id']}", headers=headers)
    other = get(two[1], f"/v1/responses/{first['id']}", headers={"authorization": "Bearer sk-double"})  # fmt: skip

    assert (200, 200) == (second.status_code, third.status_code)
    asked = json.loads(two[0].simulator.exchanges[-1].body)["messages"]
    sent = [message["content"] for message in asked if message["role"] == "user"]
    assert ["My name is Ada.", "Who am I?", "And now?"] == sent
    assert first == found.json()
    assert 404 == other.status_code
    with redis.client() as client:
        assert all(client.ttl(name) > 0 for name in client.keys("*"))


def test_deleted_response_is_gone_on_both(two: list[Stand]) -> None:
    made = respond(two[0], "Hello").json()["id"]
    headers = {"authorization": "Bearer sk-free"}
    deleted = httpx2.delete(f"{two[1].url}/v1/responses/{made}", headers=headers)

    assert deleted.json()["deleted"]
    assert 404 == get(two[0], f"/v1/responses/{made}", headers=headers).status_code
    refused = respond(two[0], "More", previous_response_id=made)
    assert 400 <= refused.status_code < 500


def test_stored_responses_fail_clearly_while_redis_is_away(
    redis: RedisServer, two: list[Stand]
) -> None:
    made = respond(two[0], "Hello").json()["id"]
    redis.kill()
    until(lambda: "away" == ready(two[1]))

    refused = respond(two[1], "More", previous_response_id=made)
    fresh = respond(two[1], "Hello")

    assert 503 == refused.status_code
    assert "Redis does not respond" in refused.text
    assert 200 == fresh.status_code
    assert notices(two[1], "response not stored")


# --- what gateways learn --------------------------------------------------------------------------------


TOOLS = [{"type": "function", "function": WEATHER}]


def called(gateway: Stand, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Ask a model that thinks and calls a tool; return the conversation as a client that forgets reasoning sends it."""
    body = {"model": "thinks/plain+think", "messages": messages, "tools": TOOLS}
    answer = post(gateway, "chat", body, headers={"authorization": "Bearer sk-free"}).json()
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    said = {"role": "assistant", "content": None, "tool_calls": [call]}
    return [*messages, said, {"role": "tool", "tool_call_id": call["id"], "content": "sunny"}]


def thoughts(gateway: Stand, messages: list[dict[str, Any]]) -> list[str]:
    """Send a conversation; return the reasoning that the upstream received."""
    body = {"model": "thinks/plain+think", "messages": messages, "tools": TOOLS}
    post(gateway, "chat", body, headers={"authorization": "Bearer sk-free"})
    return list(received(gateway.simulator.exchanges[-1]).reasoning)


def test_reasoning_of_one_gateway_returns_on_the_other(
    redis: RedisServer, two: list[Stand]
) -> None:
    talk = called(two[0], [{"role": "user", "content": "How is it in Ulm?"}])
    own = thoughts(two[0], talk)
    with redis.client() as client:
        until(lambda: client.keys("dragoman:reasoning:*"))
        other = thoughts(two[1], talk)
        names = client.keys("*")
        assert all(client.ttl(name) > 0 for name in names)

    assert "Let me think" in own[0]
    assert own == other


def test_reasoning_is_remembered_alone_while_redis_is_away(
    redis: RedisServer, two: list[Stand]
) -> None:
    redis.kill()
    until(lambda: all("away" == ready(gateway) for gateway in two))
    talk = called(two[0], [{"role": "user", "content": "How is it in Ulm?"}])

    assert [True, False] == ["Let me think" in thoughts(gateway, talk)[0] for gateway in two]


def test_token_estimate_is_learned_from_the_other_gateway(two: list[Stand]) -> None:
    for _ in range(5):
        ask(two[0], "free", "chat/plain")

    def ratios() -> list[float]:
        return [one.running.gateway.runtime.calibration.ratio("chat/plain") for one in two]  # fmt: skip

    until(lambda: ratios()[0] == pytest.approx(ratios()[1]) != 1.1)


# --- Redis is away ------------------------------------------------------------------------------------


def test_gateway_starts_and_counts_alone_without_redis(redis: RedisServer) -> None:
    redis.kill()
    with gateways(redis.url, 1) as (gateway,):
        statuses = asyncio.run(ask_all([gateway], "double", "chat/plain+slow:500", 4))

        assert "away" == ready(gateway)
        redis.start()
        until(lambda: "connected" == ready(gateway))
        log = gateway.log.getvalue()

    assert [200] * 2 + [429] * 2 == sorted(statuses)
    assert PASSWORD not in log
    assert 1 == log.count('"state away"')


async def enter_after_an_outage(redis: RedisServer) -> tuple[list[bool], list[int]]:
    """Enter while Redis and this machine both count: one request whose client leaves, and three more.

    Return which of the three began, and how many requests are counted here: during and after the first, and during and
    after the three.
    """
    state = RedisState(redis.url, None, Logger(io.StringIO(), json=True))
    await state.start()
    entrance, limits = Entrance(state, b"0" * 16), PlaceLimits(2)
    assert entrance.shared_meter is not None
    meter, loop = entrance.meter, asyncio.get_running_loop()
    redis.kill()
    alone = await entrance.enter_shared(limits, loop.time(), 0)
    assert isinstance(alone, Admission)
    alone.leave()
    redis.start()
    await asyncio.to_thread(until, lambda: state.status == "connected")
    assert entrance.shared_meter.catching_up
    with redis.paused():
        leaving = asyncio.create_task(entrance.enter_shared(limits, loop.time(), 0))
        await asyncio.sleep(0.05)
        during = meter.running
        leaving.cancel()
        await asyncio.wait([leaving])
    counts = [during, meter.running]
    entered = [await entrance.enter_shared(limits, loop.time(), 0) for _ in range(3)]
    counts.append(meter.running)
    for one in entered:
        if isinstance(one, Admission):
            one.leave()
    counts.append(meter.running)
    await state.close()
    return [isinstance(one, Admission) for one in entered], counts


def test_request_that_redis_and_this_machine_count_is_counted_once(redis: RedisServer) -> None:
    entered, counts = asyncio.run(enter_after_an_outage(redis))

    assert [True, True, False] == entered
    assert [1, 0, 2, 0] == counts


async def stream_all(stands: list[Stand], number: int, redis: RedisServer) -> list[str]:
    """Stream from both gateways while Redis is killed and started again; return the ends of the streams."""
    headers = {"authorization": "Bearer sk-hundred"}
    body = question("chat", "chat/plain+pace:60", stream=True)

    async def one(n: int) -> str:
        await asyncio.sleep(n * 0.05)
        url = stands[n % len(stands)].url + PATHS["chat"]
        response = await client.post(url, json=body, headers=headers)
        return response.text[-16:]

    async with httpx2.AsyncClient(timeout=60) as client:
        tasks = [asyncio.create_task(one(n)) for n in range(number)]
        await asyncio.sleep(0.5)
        await asyncio.to_thread(redis.kill)
        await asyncio.sleep(1.0)
        await asyncio.to_thread(redis.start)
        return await asyncio.gather(*tasks)


def test_no_stream_fails_when_redis_is_killed_and_brought_back(
    redis: RedisServer, two: list[Stand]
) -> None:
    ends = asyncio.run(stream_all(two, 60, redis))

    assert {"data: [DONE]\n\n"} == {end[-14:] for end in ends}
    for gateway in two:
        until(lambda gateway=gateway: "connected" == ready(gateway))
        assert notices(gateway, "state away")
    # What was admitted without Redis is charged, and limits hold over both again.
    statuses = asyncio.run(ask_all(two, "hundred", "chat/plain", 100))
    at_once = asyncio.run(ask_all(two, "double", "chat/plain+slow:700", 8))
    assert 429 in statuses
    assert [200] * 2 + [429] * 6 == sorted(at_once)
