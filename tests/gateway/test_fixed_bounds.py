"""Bounds that no setting changes: each is exceeded by one.  SECURITY.md lists them with their values."""

import asyncio
import io
import os
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from msgspec import structs
from yarl import URL

from dragoman.dialects import dialect
from dragoman.gateway import inspection, models, reasoning_memory, recording
from dragoman.gateway.config.settings import Key, Record, Secret, Settings, Upstream
from dragoman.gateway.headers import _MAX_LIMIT_CHARS, _MAX_LIMITS, rate_limits
from dragoman.gateway.logging import _MAX_SHOWN, Logger
from dragoman.gateway.reasoning_hosts import _MAX_HOSTS, ReasoningHosts
from dragoman.gateway.reasoning_memory import ReasoningMemory
from dragoman.gateway.recording import Recorder
from dragoman.gateway.responses.store import _MAX_WAITING as MOST_TASKS
from dragoman.gateway.responses.store import ResponsesStore
from dragoman.gateway.routing import _CHOICES, Hop, Question, Router
from dragoman.gateway.state import notes
from dragoman.gateway.state.notes import WorkerNotes
from dragoman.gateway.state.redis_limits import _MAX_LOST, RedisMeter
from dragoman.gateway.state.redis_link import _MAX_WAITING, RedisLink, StateAwayError, script
from dragoman.gateway.token_counting import _MAX_MODELS, Calibration
from dragoman.inspector import api, live
from dragoman.inspector.live import Live
from dragoman.inspector.summary import LogRecord, Summary, summarize
from dragoman.limits import DEFAULT_LIMITS
from dragoman.profiles import profile
from dragoman.transport import Connector, TransportError, connector, reply
from dragoman.transport.connection import _MAX_INFORMATIONAL, Connection, Server
from dragoman.turn.events import TextDelta
from tests.support.asking import get, post
from tests.support.gateway import settings_for, stand
from tests.support.odd_upstream import odd_upstream
from tests.support.peers import Talk, http, nothing_left, peer
from tests.support.stored_responses import with_store

SCRIPT = script("return 1")
SAMPLE = Path(__file__).parents[1] / "recorder/recording.dragoman"

# --- what is remembered ---------------------------------------------------------------------------


def hop(model: str) -> Hop:
    upstream = Upstream(base_url="http://127.0.0.1:1/v1")
    return Hop(
        upstream_name="up",
        upstream=upstream,
        model=model,
        profile=profile("generic"),
        format_name="auto",
        timeouts=upstream.timeouts,
    )


def test_what_hosts_have_shown_is_remembered_of_so_many() -> None:
    hosts = ReasoningHosts()
    for number in range(_MAX_HOSTS + 1):
        hosts.note_field(hop(str(number)), "reasoning")
    fields = [hosts.profile_for(hop(model)).reasoning_field for model in ("0", "1")]

    assert [profile("generic").reasoning_field, "reasoning"] == fields


def test_token_counts_are_learned_of_so_many_models() -> None:
    calibration = Calibration()
    for number in range(_MAX_MODELS + 1):
        calibration.learn(str(number), 100, 200)

    assert calibration.ratio("0") == Calibration().ratio("0") < calibration.ratio("1")


def test_targets_are_remembered_of_so_many_models_of_a_route() -> None:
    upstream = Upstream(base_url="http://127.0.0.1:1/v1")
    router = Router(Settings(upstreams={"up": upstream}))
    for number in range(_CHOICES + 1):
        router.choose(Question(model=f"up/{number}"))

    assert _CHOICES == router._direct["up"].choice.cache_info().currsize


def test_shortened_ids_are_remembered_of_so_many_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reasoning_memory, "_MAX_IDS", 3)
    memory = ReasoningMemory(entries=10, seconds=60.0)
    for number in range(4):
        memory._note_id(("me", str(number)), "native")

    assert [("me", "1"), ("me", "2"), ("me", "3")] == list(memory._ids)


def test_texts_that_the_log_remembers_are_so_many() -> None:
    logger = Logger(io.StringIO())
    for number in range(_MAX_SHOWN + 1):
        logger.notice("text", name=str(number))

    assert 1 <= len(logger._shown) <= _MAX_SHOWN


def test_rate_limits_of_an_upstream_are_few_and_short() -> None:
    chat = dialect("chat")
    headers = {f"x-ratelimit-{number}": "1" for number in range(_MAX_LIMITS + 1)}
    long = {"x-ratelimit-a": "1" * (_MAX_LIMIT_CHARS + 1), "x-ratelimit-b": "1" * _MAX_LIMIT_CHARS}

    assert _MAX_LIMITS == len(rate_limits(headers, upstream=chat, client=chat))
    assert {"x-ratelimit-b"} == rate_limits(long, upstream=chat, client=chat).keys()


def test_models_of_an_upstream_are_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "_MAX_MODELS", 3)
    with odd_upstream() as odd:
        one = Upstream(base_url=f"{odd.url}/v1", retries=0)
        odd.answer_with(200, {"data": [{"id": str(number)} for number in range(4)]})
        with stand(
            lambda url: structs.replace(settings_for(url), upstreams={"odd": one}, routes=())
        ) as found:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(models, "_MAX_BYTES", 20)  # of the list
                listed = [len(get(found, "/v1/models").json()["data"])]
            found.running.gateway.runtime.catalogue.forget()
            listed.append(len(get(found, "/v1/models").json()["data"]))

    assert [0, 3] == listed


def test_rows_for_the_inspector_are_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inspection, "_MOST_ENDED", 2)
    with stand() as found:
        for _ in range(3):
            post(found, "chat")
        rows = get(found, "/inspector/api/exchanges").json()["rows"]

    assert 2 == len(rows)


def summary(number: int) -> Summary:
    record = LogRecord(id=f"req_{number}", time=float(number), upstream="x", model="m")
    return summarize(record, client="")


def test_events_for_listeners_are_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_KEPT_EVENTS", 3)

    async def changes() -> list[Summary]:
        return []

    one = Live(changes)
    for number in range(4):
        one._publish(summary(number))

    assert [2, 3, 4] == [event.number for event in one._events]
    assert ["req_1", "req_2", "req_3"] == list(one._sent)


# --- what waits -----------------------------------------------------------------------------------


def test_tasks_for_the_store_are_so_many() -> None:
    async def work(store: ResponsesStore) -> None:
        begun, go_on = threading.Event(), threading.Event()
        store._thread.submit(lambda: (begun.set(), go_on.wait(60)))
        await asyncio.to_thread(begun.wait, 60)
        tasks = [asyncio.create_task(store.cancel("resp", "me")) for _ in range(MOST_TASKS + 5)]
        for _ in range(5):
            await asyncio.sleep(0)
        waiting = store._thread._work_queue.qsize()
        go_on.set()

        assert MOST_TASKS == waiting
        assert [None] * len(tasks) == await asyncio.gather(*tasks)

    with_store(work)


def test_values_for_other_workers_are_so_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notes, "_MAX_WAITING", 3)
    workers, go_on = WorkerNotes(tmp_path), threading.Event()
    workers._thread.submit(go_on.wait, 60)
    for number in range(4):
        workers.put(str(number), b"x", 60.0)
    go_on.set()
    found = asyncio.run(workers.find([str(number) for number in range(4)], 60.0))
    workers.close()

    assert [b"x", b"x", b"x", None] == found


def test_commands_for_redis_are_so_many() -> None:
    async def run() -> None:
        link = RedisLink("redis://127.0.0.1:1", (), lambda _reason: None)
        link.available = True  # it does not respond
        for _ in range(_MAX_WAITING + 1):
            link.send(SCRIPT, ())

        assert _MAX_WAITING == len(link._waiting)
        with pytest.raises(StateAwayError):
            await link.call(SCRIPT, ())

    asyncio.run(run())


def test_requests_that_redis_may_have_counted_are_so_many() -> None:
    async def run() -> None:
        link = RedisLink("redis://127.0.0.1:1", (), lambda _reason: None)
        meter = RedisMeter(link, "d:", "key", "gateway")
        for _ in range(_MAX_LOST + 1):
            with pytest.raises(StateAwayError):
                await meter.enter(Key(key=Secret("env:A", "a")), 1)

        assert _MAX_LOST == len(meter._lost)

    asyncio.run(run())


def test_exchanges_that_are_recorded_are_so_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording, "_MOST_WAITING", 100_000)
    log = io.StringIO()

    async def run() -> None:
        recorder = Recorder(Logger(log, json=True))
        recorder.held_bytes = recording._MOST_HELD + 1
        assert not recorder.has_room()
        recorder.held_bytes = recording._MOST_HELD
        assert recorder.has_room()
        out, into = os.pipe()
        with os.fdopen(into, "wb") as file:
            pipe, _ = await asyncio.get_running_loop().connect_write_pipe(
                asyncio.BaseProtocol, file
            )
            recorder._pipe = pipe
            for _ in range(3):  # of which the pipe itself holds one
                recorder.send_events(1, [TextDelta(0, "x" * 80_000)])
                recorder._flush()
            assert not recorder.has_room()
            os.read(out, 1_000_000)
            pipe.abort()
            await asyncio.sleep(0)
        os.close(out)

    asyncio.run(run())

    assert 2 == log.getvalue().count("recordings incomplete")


# --- what the inspector takes ---------------------------------------------------------------------


def test_body_for_the_inspector_is_so_large() -> None:
    body = b'{"text":"' + b"x" * api._MAX_BODY + b'"}'
    with stand() as found:
        answer = httpx2.post(
            f"{found.url}/inspector/api/playground",
            content=body,
            headers={"content-type": "application/json", "origin": found.url},
        )

    assert (413, "too_large") == (answer.status_code, answer.json()["error"]["code"])


def test_archives_are_sent_so_many_at_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(api, "_MOST_ARCHIVES", 0)
    shutil.copy(SAMPLE, tmp_path / "one.dragoman")
    with stand(lambda url: settings_for(url, record=Record(dir=str(tmp_path)))) as found:
        answer = get(found, "/inspector/api/recordings")

    assert (429, "busy") == (answer.status_code, answer.json()["error"]["code"])


# --- what an upstream sends -----------------------------------------------------------------------


def test_informational_responses_are_so_many() -> None:
    async def feed(count: int) -> Connection:
        room = bytearray(b"HTTP/1.1 100 Continue\r\n\r\n" * count)
        where = Server(host="peer", port=1, tls=None)
        connection = Connection(where, DEFAULT_LIMITS, lambda _lost: None, memoryview(room))
        connection.buffer_updated(len(room))
        return connection

    assert asyncio.run(feed(_MAX_INFORMATIONAL)).take() is None
    with pytest.raises(TransportError, match="too many informational"):
        asyncio.run(feed(_MAX_INFORMATIONAL + 1)).take()


async def opened(made: Connector, url: str) -> Any:
    return await made.open("POST", URL(url), headers={}, body=b"{}", connect_seconds=30, tls=True)


def test_error_of_an_upstream_is_read_up_to_so_many_bytes() -> None:
    async def run() -> int:
        body = b"x" * (reply._ERROR_BYTES + 100_000)
        async with peer(http(body)) as server, nothing_left():
            made = Connector()
            with await opened(made, server.url) as answer:
                found = await answer.read_error()
            await made.close()
        return len(found)

    assert reply._ERROR_BYTES == asyncio.run(run())


def test_connections_to_an_upstream_are_kept_up_to_so_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connector, "_KEEP_CONNECTIONS", 2)

    async def run() -> int:
        async with peer(repeating(http(b"hello", keep=True))) as server, nothing_left():
            made = Connector()
            replies = [await opened(made, server.url) for _ in range(3)]
            for one in replies:
                with one:
                    await one.read_all(100, lambda: None)
                    await one.drain()
            kept = sum(map(len, made._idle.values()))
            await made.close()
        return kept

    assert 2 == asyncio.run(run())


def repeating(answer: bytes) -> Callable[[Talk], Any]:
    async def script(talk: Talk) -> None:
        await talk.say(answer)
        while await talk.next_request():
            await talk.say(answer)

    return script
