"""The inspector over a gateway: which keys see which exchanges, and exchanges that are not recorded."""

import json
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from dragoman.gateway.config.settings import Key, Secret
from dragoman.gateway.inspection import KeyAccess
from dragoman.gateway.keys import Keyring
from dragoman.inspector.access import Viewer
from tests.support.asking import get, post
from tests.support.gateway import stand
from tests.support.serving import Served, serving, simulating
from tests.support.simulator import question
from tests.support.waiting import until


def test_a_gateway_without_keys_shows_nothing_to_other_machines() -> None:
    access = KeyAccess(lambda: Keyring(()))
    assert access.viewer({}, "127.0.0.1") == Viewer(all=True, owner="anonymous")
    assert access.viewer({}, "::1") is not None
    assert access.viewer({}, "192.0.2.7") is None
    assert access.viewer({}, "") is None
    assert access.viewer_of("anonymous") is None


def test_a_withdrawn_key_loses_its_session() -> None:
    keys = [Key(key=Secret("env:A", "key-of-alice"), name="alice", inspect=True)]
    access = KeyAccess(lambda: Keyring(tuple(keys)))
    assert access.viewer_of("name:alice") == Viewer(all=True, owner="name:alice")
    keys[0] = Key(key=Secret("env:A", "key-of-alice"), name="alice")
    assert access.viewer_of("name:alice") == Viewer(all=False, owner="name:alice")
    keys[0] = Key(key=Secret("env:B", "key-of-bob"), name="bob")
    assert access.viewer_of("name:alice") is None


def test_an_exchange_that_is_not_recorded_has_its_row_alone() -> None:
    with stand() as gateway:
        exchange = post(gateway, "chat").headers["x-request-id"]
        seen = get(gateway, f"/inspector/api/exchanges/{exchange}").json()
        assert (seen["row"]["recorded"], seen["upstream"]["rows"]) == (False, [])
        answer = get(gateway, f"/inspector/api/exchanges/{exchange}/recording")
        assert (answer.status_code, answer.json()["error"]["code"]) == (404, "not_recorded")


def test_every_worker_shows_the_exchanges_of_all_workers(tmp_path: Path) -> None:
    with simulating() as simulator:
        flags = ("--upstream", f"{simulator.url}/v1", "--record", str(tmp_path / "recordings"))
        with serving(tmp_path, "--workers", "2", *flags) as served:
            until(lambda: len(served.notices("started")) == 2)
            for _ in range(12):  # each on its own connection, so that both workers get some
                asked = question("anthropic", "plain")
                assert httpx2.post(f"{served.url}/v1/messages", json=asked).status_code == 200
            for _ in range(8):
                until(lambda: len(finished_rows(served)) == 12)
            for row in finished_rows(served):
                shown = inspected(served, f"exchanges/{row['id']}")
                assert shown["client"]["rows"]
            with socket.create_connection(("127.0.0.1", urlsplit(served.url).port)) as client:
                slow = json.dumps(question("anthropic", "plain+text:1+pace:50", stream=True))
                head = f"POST /v1/messages HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {len(slow)}\r\n\r\n"
                client.sendall((head + slow).encode())
                assert client.recv(1)
                for _ in range(8):
                    until(lambda: inspected(served, "exchanges")["rows"][0]["state"] == "streaming")
            served.send_signal("SIGTERM")
            assert 0 == served.end()


def inspected(served: Served, path: str) -> Any:
    """Ask the inspector on a new connection, which either worker may accept."""
    answer = httpx2.get(f"{served.url}/inspector/api/{path}")
    assert answer.status_code == 200, answer.text
    return answer.json()


def finished_rows(served: Served) -> list[Any]:
    rows = inspected(served, "exchanges")["rows"]
    return [row for row in rows if row["state"] == "done" and row["recorded"]]
