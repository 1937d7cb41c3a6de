"""The gateway as a process: signals, reloads, several workers, and what it says when it cannot serve."""

import asyncio
import itertools
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import aiohttp
import httpx2
import pytest

from dragoman.checker.checker import check
from dragoman.simulator.server import Simulator
from tests.support.certificates import certificate
from tests.support.gateway import DIALECTS, FIXED_PATHS, PATHS, UNUSABLE
from tests.support.memory import resident_bytes
from tests.support.odd_upstream import (
    SSE,
    Asked,
    Gate,
    OddUpstream,
    Reply,
    chat_stream,
    odd_upstream,
)
from tests.support.raw_http import RawClient
from tests.support.serving import (
    Served,
    command,
    environment,
    serving,
    serving_process,
    simulating,
)
from tests.support.simulator import question, wire
from tests.support.waiting import until

SHORT = "sim: say It rains, and it rains."


@pytest.fixture(scope="module")
def simulator() -> Simulator:
    with simulating() as found:
        yield found


def config(folder: Path, upstream: Simulator | OddUpstream, **server: Any) -> Path:
    """Write settings with one upstream."""
    lines = ["[server]", *(f"{name} = {json.dumps(value)}" for name, value in server.items())]
    lines += ["[upstreams.sim]", f'base_url = "{upstream.url}/v1"', "retries = 0"]
    path = folder / "dragoman.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def ask(served: Served, dialect: str, model: str = "plain", **more: Any) -> httpx2.Response:
    body = question(dialect, model, SHORT, **more)
    path, sent = wire(dialect, body)
    return httpx2.post(f"{served.url}{path}", json=sent, timeout=60, verify=False)


# --- ends ---------------------------------------------------------------------------------------------


def client_of(number: int) -> str:
    """Return the dialect of one of many clients."""
    return DIALECTS[number % len(DIALECTS)]


async def fifty(
    served: Served, odd: OddUpstream, sent: str = "SIGTERM"
) -> tuple[list[bytes], dict[str, Any]]:
    """Begin fifty streams, tell the gateway to stop, try some more, and see what becomes of all."""
    gate = Gate()
    first, *rest = chat_stream("It ", "rains.")

    def half(_asked: Asked) -> Reply:
        return Reply(200, itertools.chain([first], gate.each(rest)), SSE)

    odd.answer = half
    heads = 0
    url = served.url
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as http:

        async def stream(number: int) -> bytes:
            nonlocal heads
            dialect = client_of(number)
            path, body = wire(dialect, question(dialect, "m"))
            async with http.post(url + path, json=body) as response:
                assert 200 == response.status
                heads += 1
                return await response.read()

        streams = [asyncio.create_task(stream(number)) for number in range(50)]
        await asyncio.to_thread(until, lambda: heads == 50)
        served.send_signal(sent)
        processes = len(served.notices("started"))
        await asyncio.to_thread(until, lambda: len(served.notices("draining")) == processes)
        refused = {}
        for dialect in DIALECTS:
            path, body = wire(dialect, question(dialect, "plain"))
            async with http.post(url + path, json=body) as late:
                refused[dialect] = (
                    late.status,
                    {name.lower(): one for name, one in late.headers.items()},
                    await late.json(),
                )
        async with http.get(url + "/ready") as ready, http.get(url + "/health") as health:
            states = (ready.status, health.status)
        assert (503, 200) == states
        assert not any(one.done() for one in streams)
        gate.open(50 * len(rest))
        return await asyncio.gather(*streams), refused


def test_sigterm_lets_fifty_streams_end_and_refuses_new_ones(tmp_path) -> None:
    with odd_upstream() as odd:
        config(tmp_path, odd, drain_seconds=100)
        with serving(tmp_path) as served:
            streams, refused = asyncio.run(fifty(served, odd))
            code = served.end()

    assert 0 == code
    assert 50 == len(odd.asked)
    for number, stream in enumerate(streams):
        verdict = check(client_of(number), stream)
        assert (True, "finish") == (verdict.legal, verdict.ended)
    for dialect, (status, headers, body) in refused.items():
        assert 503 == status, dialect
        assert "1" == headers["retry-after"]
        assert "shutting down" in body["error"]["message"]
    assert "overloaded_error" == refused["anthropic"][2]["error"]["type"]
    assert "server_is_overloaded" == refused["chat"][2]["error"]["code"]
    assert "Traceback" not in served.text
    assert [True] == [one["all_streams_ended"] for one in served.notices("stopped")]


def test_streams_that_outlast_the_grace_time_are_reported(tmp_path, simulator) -> None:
    config(tmp_path, simulator, drain_seconds=0.5)
    with serving(tmp_path) as served:
        with ExitStack() as stack:
            clients = {}
            for dialect in DIALECTS:
                asked = wire(dialect, question(dialect, "plain+stall", SHORT))
                clients[dialect] = stack.enter_context(RawClient(served.url, *asked))
                clients[dialect].head()
            served.send_signal("SIGTERM")
            streams = {dialect: bytes(client.whole()) for dialect, client in clients.items()}
        code = served.end()

    assert 0 == code
    for dialect, stream in streams.items():
        verdict = check(dialect, stream)
        assert (True, "failure") == (verdict.legal, verdict.ended), dialect
        assert b"the gateway is shutting down" in stream
        assert b"sim: the gateway" not in stream


def test_second_signal_ends_it_at_once_with_last_words(tmp_path, simulator) -> None:
    config(tmp_path, simulator, drain_seconds=100)
    with serving(tmp_path) as served:
        with RawClient(
            served.url, PATHS["anthropic"], question("anthropic", "plain+stall", SHORT)
        ) as client:
            client.head()
            served.send_signal("SIGTERM")
            until(lambda: served.notices("draining"))
            began = time.monotonic()
            served.send_signal("SIGTERM")
            stream = client.whole()
        code = served.end()

    assert 0 == code
    assert time.monotonic() - began < 60
    assert b"the gateway is shutting down" in stream


def test_connection_without_a_request_does_not_hold_up_the_end(tmp_path, simulator) -> None:
    config(tmp_path, simulator, drain_seconds=100)
    with serving(tmp_path) as served:
        place = served.url.removeprefix("http://").split(":")
        with socket.create_connection((place[0], int(place[1]))) as silent:
            silent.sendall(b"POST /v1/messages HTTP/1.1\r\nhost: localhost\r\n")
            began = time.monotonic()
            served.send_signal("SIGINT")
            code = served.end()

    assert 0 == code
    assert time.monotonic() - began < 60


# --- reloads ------------------------------------------------------------------------------------------


def test_sighup_changes_settings_without_dropping_a_stream(tmp_path) -> None:
    gate = Gate()
    frames = chat_stream("It ", "rains.")
    with odd_upstream() as odd:
        path = config(tmp_path, odd)
        odd.answer = lambda _asked: Reply(200, gate.each(frames), SSE)
        body = question("chat", "m", SHORT)
        with serving(tmp_path) as served, RawClient(served.url, PATHS["chat"], body) as client:
            gate.open()
            client.head()
            odd.answer = lambda _asked: Reply(200, frames, SSE)
            path.write_text(path.read_text() + '[aliases]\nfresh = "sim/plain-fresh"\n')
            served.send_signal("SIGHUP")
            until(lambda: served.notices("reloaded"))
            fresh = ask(served, "chat", "fresh", stream=False)
            gate.open(len(frames))
            stream = client.whole()

    assert "plain-fresh" == fresh.headers["x-upstream-model"]
    assert "finish" == check("chat", bytes(stream)).ended


def test_sighup_with_a_broken_file_keeps_the_old_one_and_logs_why(tmp_path, simulator) -> None:
    path = config(tmp_path, simulator)
    good = path.read_text()
    with serving(tmp_path) as served:
        assert served.url
        for wrong, why in {
            good + "[servre]\nport = 1\n": "servre",
            "this is no TOML": "TOML",
            "": "no upstream is left",
        }.items():
            path.write_text(wrong)
            count = len(served.notices("not reloaded"))
            served.send_signal("SIGHUP")
            until(lambda seen=count: len(served.notices("not reloaded")) > seen)
            said = served.notices("not reloaded")[-1]

            assert why in said["why"]
            assert 200 == ask(served, "chat", stream=False).status_code
        assert served.process.poll() is None


def test_sighup_without_an_upstream_keeps_the_simulator(tmp_path) -> None:
    (tmp_path / "dragoman.toml").write_text("[server]\ndrain_seconds = 1\n")
    with serving(tmp_path) as served:
        before = ask(served, "anthropic", "claude-x", stream=False)
        served.send_signal("SIGHUP")
        until(lambda: served.notices("reloaded"))
        after = ask(served, "anthropic", "claude-x", stream=False)

    assert (200, 200) == (before.status_code, after.status_code)


# --- several processes --------------------------------------------------------------------------------


@pytest.mark.parametrize(("sent", "ended"), [("SIGTERM", 0), ("SIGKILL", -signal.SIGKILL)])
def test_workers_share_the_port_and_drain(tmp_path, sent: str, ended: int) -> None:
    """Also when the process that made them is killed, which can no longer pass a signal on."""
    with odd_upstream() as odd:
        config(tmp_path, odd, drain_seconds=100)
        with serving(tmp_path, "--workers", "2") as served:
            until(lambda: len(served.notices("started")) == 2)
            streams, refused = asyncio.run(fifty(served, odd, sent))
            code = served.end()

    assert {503} == {status for status, _, _ in refused.values()}
    assert ended == code
    assert {"finish"} == {
        check(client_of(number), stream).ended for number, stream in enumerate(streams)
    }
    assert 2 == len({one["process"] for one in served.notices("stopped")})
    assert 1 == sum("serving on" in line for line in served.said)


def test_signals_reach_workers_that_only_just_begin(tmp_path, simulator) -> None:
    config(tmp_path, simulator)
    with serving(tmp_path, "--workers", "4") as served:
        until(lambda: served.notices("started"))
        served.send_signal("SIGHUP")
        served.send_signal("SIGTERM")
        code = served.end()

    assert 0 == code
    assert "ended with" not in served.text


def test_worker_that_takes_anothers_place_has_the_settings_of_the_last_reload(
    tmp_path, simulator
) -> None:
    path = config(tmp_path, simulator)
    good = path.read_text()
    with serving(tmp_path, "--workers", "2") as served:
        until(lambda: len(served.notices("started")) == 2)
        path.write_text(good + '[aliases]\nfresh = "sim/plain-fresh"\n')
        served.send_signal("SIGHUP")
        until(lambda: len(served.notices("reloaded")) == 2)
        path.write_text("this is no TOML")
        served.send_signal("SIGHUP")
        until(lambda: len(served.notices("not reloaded")) == 2)
        for one in served.notices("reloaded"):
            os.kill(one["process"], signal.SIGKILL)
        until(lambda: len(served.notices("started")) == 4)
        fresh = ask(served, "chat", "fresh", stream=False)
        served.send_signal("SIGTERM")
        code = served.end()

    assert "plain-fresh" == fresh.headers["x-upstream-model"]
    assert 2 == served.text.count("it is replaced")
    assert 0 == code


# --- what it says when it cannot serve ----------------------------------------------------------------


def run(folder: Path, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(*options),
        capture_output=True,
        text=True,
        cwd=folder,
        env=environment(folder, more),
        timeout=60,
        check=False,
    )


def failed(folder: Path, *options: str, warned: bool = False, **more: str) -> str:
    """Return the line that it said before it gave up, behind a warning perhaps."""
    done = run(folder, *options, **more)
    lines = done.stderr.splitlines()[1 if warned else 0 :]
    assert (2, "") == (done.returncode, done.stdout)
    assert 1 == len(lines), lines
    assert lines[0].startswith("dragoman: ")
    return lines[0]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_port_in_use_is_one_clear_line(tmp_path, workers: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])

        said = failed(tmp_path, "--port", port, "--workers", workers, warned=workers != "1")

    assert said.startswith(f"dragoman: port {port} on 127.0.0.1 is in use; ")
    assert f"`dragoman doctor --port {port}`" in said
    assert said.endswith("choose another port with --port")


def test_unknown_key_is_one_clear_line_with_its_path(tmp_path, simulator) -> None:
    path = config(tmp_path, simulator)
    path.write_text(path.read_text() + 'tmeouts = "x"\n')

    said = failed(tmp_path)

    assert "dragoman.toml" in said
    assert "upstreams.sim.tmeouts" in said
    assert "timeouts" in said


def test_missing_variable_is_one_clear_line(tmp_path, simulator) -> None:
    said = failed(
        tmp_path, "--upstream", simulator.url, "--upstream-key-env", "NO_SUCH_KEY", "--port", "0"
    )

    assert "NO_SUCH_KEY" in said


def test_public_address_without_keys_is_one_clear_line(tmp_path) -> None:
    said = failed(tmp_path, "--host", "0.0.0.0", "--port", "0")

    assert "keys" in said
    assert "insecure" in said


def test_address_that_cannot_be_had_is_one_clear_line(tmp_path, simulator) -> None:
    config(tmp_path, simulator, insecure=True)
    said = failed(tmp_path, "--host", "2001:db8::1", "--port", "8000", warned=True)

    assert "cannot listen on [2001:db8::1]:8000: " in said
    assert said.endswith("choose another address with --host")


def test_address_of_the_newer_protocol_is_served_and_shown_as_a_url(tmp_path, simulator) -> None:
    if not six_is_there():
        return
    config(tmp_path, simulator)
    with serving(tmp_path, "--host", "::1") as served:
        answer = ask(served, "anthropic", stream=False)

    assert served.url.startswith("http://[::1]:")
    assert 200 == answer.status_code


def six_is_there() -> bool:
    try:
        with socket.create_server(("::1", 0), family=socket.AF_INET6):
            return True
    except OSError:
        return False


def test_missing_file_and_bad_certificates_are_one_clear_line(tmp_path, simulator) -> None:
    missing = failed(tmp_path, "--config", "nowhere.toml")
    path = config(tmp_path, simulator)
    (tmp_path / "ca.pem").write_text("no certificate")
    text = path.read_text().replace("http://", "https://")
    path.write_text(text + '[upstreams.sim.tls]\nca = "ca.pem"\n')
    wrong = failed(tmp_path, "--port", "0")
    several = failed(tmp_path, "--port", "0", "--workers", "2", warned=True)

    assert "nowhere.toml" in missing
    assert "sim" in wrong
    assert "certificate" in wrong
    assert wrong == several


@pytest.mark.parametrize("workers", ["1", "3"])
def test_store_that_cannot_be_opened_at_the_start_ends_the_gateway_at_once(
    tmp_path, simulator, workers: str
) -> None:
    path = config(tmp_path, simulator)
    path.write_text(f'{path.read_text()}\n[store]\nresponses = "sqlite"\npath = "{tmp_path}"\n')
    done = run(tmp_path, "--port", "0", "--workers", workers)
    said = {line for line in done.stderr.splitlines() if line.startswith("dragoman: the response")}

    assert (2, "") == (done.returncode, done.stdout)
    assert 1 == len(said)
    assert "it is replaced" not in done.stderr


# --- upstreams that cannot be reached ------------------------------------------------------------------


def test_refused_upstream_is_reported_and_logged(tmp_path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (tmp_path / "dragoman.toml").write_text(
        f'[upstreams.sim]\nbase_url = "http://127.0.0.1:{port}/v1"\nretries = 0\n'
    )
    with serving(tmp_path) as served:
        answers = {dialect: ask(served, dialect) for dialect in DIALECTS}
        lines = until(lambda: len(found := served.notices("request")) == len(DIALECTS) and found)

    for dialect, got in answers.items():
        assert UNUSABLE[dialect] == got.status_code
        message = got.json()["error"]["message"]
        assert f"sim: nothing accepts connections at 127.0.0.1:{port}" == message
    assert {"upstream_unreachable"} == {one["error_code"] for one in lines}
    assert "Traceback" not in served.text


def test_failure_of_tls_is_reported_and_logged(tmp_path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate("server.pem"))

    async def run() -> tuple[httpx2.Response, list[dict[str, Any]]]:
        server = await asyncio.start_server(
            lambda _reader, writer: writer.close(), "127.0.0.1", 0, ssl=context
        )
        port = server.sockets[0].getsockname()[1]
        (tmp_path / "dragoman.toml").write_text(
            f'[upstreams.sim]\nbase_url = "https://127.0.0.1:{port}/v1"\n'
        )
        with serving(tmp_path) as served:
            got = await asyncio.to_thread(ask, served, "anthropic")
            lines = await asyncio.to_thread(until, lambda: served.notices("request"))
            text = served.text
        server.close()
        assert "Traceback" not in text
        return got, lines

    got, lines = asyncio.run(run())

    assert 424 == got.status_code
    message = got.json()["error"]["message"]
    assert message.startswith("sim: TLS to 127.0.0.1:")
    assert "unable to get local issuer certificate" in message
    assert "see `tls` of the upstream" in message
    assert "upstream_tls" == lines[0]["error_code"]
    assert 0 == lines[0]["retries"]  # no attempt will change it


# --- slow readers -------------------------------------------------------------------------------------


LAST = {"chat": b"[DONE]", "anthropic": b"message_stop", "responses": b'"user":null'}


@pytest.mark.parametrize("dialect", FIXED_PATHS)
def test_slow_reader_meets_backpressure_not_memory(tmp_path, simulator, dialect: str) -> None:
    config(tmp_path, simulator)
    # KB of text, more on the wire; a Responses stream repeats all of it at its end.  Each dialect has its own
    # size, by which its exchange is found.
    size = {"chat": 30 * 1024, "anthropic": 31 * 1024, "responses": 32 * 1024}[dialect]
    limit = {"max_tokens": 10**9} if dialect == "anthropic" else {}
    body = question(dialect, f"plain-{dialect}+text:{size}+chunk:16000", **limit)
    with serving(tmp_path) as served:
        ask(served, dialect)
        before = resident_bytes(served.process.pid)
        asked_for = f"text:{size}+".encode()  # the gateway may send other requests beside this one
        with RawClient(served.url, PATHS[dialect], body, buffer=65536) as client:
            client.head()  # a late answer's head may come before the upstream is asked
            exchange = until(
                lambda: next((one for one in simulator.exchanges if asked_for in one.body), None)
            )
            stands_still(exchange)
            waits, during = not exchange.over, resident_bytes(served.process.pid)
            stream = client.whole()
        after = resident_bytes(served.process.pid)

    assert waits, (exchange.fields() | {"body": None}, len(stream), stream[-300:])
    assert during - before < 24 * 1024 * 1024
    assert dialect == "responses" or after - before < 32 * 1024 * 1024
    assert len(stream) > size * 1024
    assert LAST[dialect] in stream[-500:]


def stands_still(exchange: Any) -> None:
    """Wait until an answer has not gone on for a while."""
    seen, since = -1, time.monotonic()

    def still() -> bool:
        nonlocal seen, since
        if exchange.written != seen:
            seen, since = exchange.written, time.monotonic()
        return seen > 0 and time.monotonic() - since > 0.7

    until(still)


# --- a socket of systemd ------------------------------------------------------------------------------

# What systemd does before it starts a service: the socket is file descriptor 3.
PASSING = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS=sys.argv[2])
os.execv(sys.argv[3], sys.argv[3:])
"""


def listening(host: str = "127.0.0.1") -> socket.socket:
    bound = socket.create_server((host, 0))
    bound.set_inheritable(True)
    return bound


def activated(bound: socket.socket, *options: str, number: str = "1") -> list[str]:
    return [sys.executable, "-c", PASSING, str(bound.fileno()), number, *command(*options)]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_socket_that_systemd_passes_is_served_and_stays_open(
    tmp_path, simulator, workers: str
) -> None:
    config(tmp_path, simulator, port=1)  # the socket's port is used
    with listening() as bound:
        url = f"http://127.0.0.1:{bound.getsockname()[1]}"
        statuses, urls, codes = [], [], []
        for _ in range(2):
            words = activated(bound, "--workers", workers)
            with serving_process(words, tmp_path, passed=(bound.fileno(),)) as served:
                # This connection waits until the gateway accepts.
                statuses.append(httpx2.get(f"{url}/health", timeout=60).status_code)
                urls.append(served.url)
                served.send_signal("SIGHUP")
                until(lambda served=served: served.notices("reloaded"))
                statuses.append(ask(served, "chat", stream=False).status_code)
                served.send_signal("SIGTERM")
                codes.append(served.end())

    assert [200] * 4 == statuses
    assert [url] * 2 == urls
    assert [0, 0] == codes


@pytest.mark.parametrize(
    ("host", "number", "why"),
    [
        ("0.0.0.0", "1", "can be reached from the network, and no key is required"),
        ("127.0.0.1", "2", "systemd passes 2 sockets"),
    ],
)
def test_socket_that_cannot_be_served_is_refused(tmp_path, simulator, host, number, why) -> None:
    config(tmp_path, simulator)
    with listening(host) as bound:
        words = activated(bound, number=number)
        with serving_process(words, tmp_path, passed=(bound.fileno(),)) as served:
            code = served.end()

    assert 2 == code
    assert why in served.text
