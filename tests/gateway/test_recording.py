"""Which exchanges the gateway records, and where."""

import asyncio
import gc
import io
import json
import time
import warnings
from pathlib import Path
from typing import Any

import pytest

from dragoman.gateway.config.settings import Key, Record, Secret, Server, Settings
from dragoman.gateway.logging import Logger
from dragoman.gateway.recording import Recorder
from dragoman.redaction import Secrets
from tests.support.asking import post
from tests.support.event_loops import OnLoop
from tests.support.gateway import settings_for, stand
from tests.support.recordings import recorded, recording_gateway
from tests.support.simulator import WEATHER, question, wire
from tests.support.waiting import until


def test_only_problems_are_kept_where_only_they_are_wanted(tmp_path: Path) -> None:
    with recording_gateway(tmp_path, when="problems") as found:
        for model in ("chat/plain", "chat/plain+bad-json-args", "chat/plain+cut:400", "chat/plain"):
            post(found, "anthropic", question("anthropic", model, tools=[WEATHER]))
        post(found, "anthropic", b"not JSON")
    kept = recorded(tmp_path)
    models = [one.attempts[0].sent.model if one.attempts else "" for one in kept]
    assert models == ["plain+bad-json-args", "plain+cut:400", ""]
    assert all(one.outcome is not None for one in kept)


def test_a_loss_is_a_problem_if_the_settings_name_it(tmp_path: Path) -> None:
    """A Chat upstream has no `top_k`; the loss has a code, which a glob names."""
    asked = question("anthropic", "chat/plain") | {"top_k": 5}
    for problems, count in (((), 0), (("no_such_*",), 0), (("*dropped*",), 1)):
        folder = tmp_path / str(len("".join(problems)))
        with recording_gateway(folder, when="problems", problems=problems) as found:
            post(found, "anthropic", asked)
        kept = recorded(folder)
        assert count == len(kept), problems


def test_a_long_exchange_that_may_be_a_problem_is_held_up_to_the_limit(tmp_path: Path) -> None:
    with recording_gateway(tmp_path, when="problems", max_file_bytes=8192) as found:
        model = "chat/plain+text:64+bad-json-args"
        post(found, "anthropic", question("anthropic", model, tools=[WEATHER], stream=True))
        model = "chat/plain+text:64"
        post(found, "anthropic", question("anthropic", model, stream=True))
    (one,) = recorded(tmp_path)
    assert one.outcome is not None
    assert one.outcome.dropped > 64 * 1024


def test_half_a_character_in_a_request_costs_no_recording(tmp_path: Path) -> None:
    """The warning about the tool has its type, which text in UTF-8 cannot hold."""
    _, body = wire("chat", question("chat", "chat/plain", tools=[WEATHER]))
    body["tools"][0]["type"] = "\ud83dfunction"
    with recording_gateway(tmp_path, when="always") as found:
        response = post(found, "chat", json.dumps(body).encode())
    (one,) = recorded(tmp_path)

    assert 400 == response.status_code  # from the simulator, which knows no such tool
    assert one.outcome is not None


def test_a_header_that_is_not_utf8_costs_no_recording(tmp_path: Path) -> None:
    with recording_gateway(tmp_path, when="always") as found:
        post(found, "chat", headers=[(b"x-name", b"caf\xe9")])
    (one,) = recorded(tmp_path)

    assert one.outcome is not None
    assert "caf?" == one.opening.headers["x-name"]


def test_an_exchange_is_recorded_because_its_client_asks(tmp_path: Path) -> None:
    with recording_gateway(tmp_path, when="asked") as found:
        post(found, "chat")
        post(found, "chat", headers={"x-dragoman-record": "1"})
    assert len(recorded(tmp_path)) == 1


def test_a_key_without_the_right_cannot_ask_for_a_recording(tmp_path: Path) -> None:
    def make(url: str) -> Settings:
        keys = (
            Key(key=Secret("env:A", "key-without-the-right")),
            Key(key=Secret("env:B", "key-with-the-right"), record=True),
        )
        record = Record(dir=str(tmp_path), when="asked")
        return settings_for(url, server=Server(port=0, keys=keys), record=record)

    with stand(make) as found:
        for key in ("key-without-the-right", "key-with-the-right"):
            headers = {"authorization": f"Bearer {key}", "x-dragoman-record": "1"}
            assert post(found, "chat", headers=headers).status_code == 200
    assert len(recorded(tmp_path)) == 1


def test_changed_settings_are_used_without_a_restart(tmp_path: Path) -> None:
    def recording_to(url: str, **record) -> Settings:
        return settings_for(url, record=Record(**record))

    first, second = tmp_path / "first", tmp_path / "second"
    with stand(recording_to) as found:
        post(found, "chat")
        found.running.reload(recording_to(found.simulator.url, dir=str(first)))
        until(lambda: post(found, "chat").status_code == 200 and first.exists())
        found.running.reload(
            recording_to(found.simulator.url, dir=str(second), content="shape", when="asked")
        )
        until(second.exists)
        post(found, "chat", headers={"x-dragoman-record": "1"})
        found.running.reload(recording_to(found.simulator.url))
        time.sleep(0.05)
        post(found, "chat", headers={"x-dragoman-record": "1"})
    assert recorded(first)
    (only,) = recorded(second)
    assert only.opening.masked


@pytest.mark.parametrize("killed", [False, True], ids=["stopped", "killed"])
def test_pipes_of_the_writer_are_closed_with_it(
    tmp_path: Path, on_loop: OnLoop, *, killed: bool
) -> None:
    problems: list[dict[str, Any]] = []
    log = io.StringIO()

    async def work() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, found: problems.append(found))
        recorder = Recorder(Logger(log, json=True))
        await recorder.configure(Record(dir=str(tmp_path)), Secrets(()))
        if killed:
            first = recorder._process
            assert first is not None
            first.kill()
            await asyncio.to_thread(
                until, lambda: recorder._pipe and recorder._process not in (None, first)
            )
        await recorder.stop()

    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always", ResourceWarning)
        on_loop(work())
        gc.collect()

    assert [] == problems
    assert [] == [str(one.message) for one in warned]
    assert killed == ("recording stopped" in log.getvalue())
