"""What must never happen: pages that ask, secrets or content in the log, paths of other hosts."""

import json
import socket
from pathlib import Path

import pytest
from msgspec import structs

from dragoman.gateway.app import PROBES, all_endpoints
from dragoman.gateway.config.settings import Key, Record, Secret, Server, Settings, Store
from tests.support.asking import get, post
from tests.support.gateway import DIALECTS, Stand, settings_for, stand
from tests.support.simulator import WEATHER, question
from tests.support.waiting import logged, until

CLIENT_KEY = "client-key-0123456789"
UPSTREAM_KEY = "upstream-key-9876543210"


@pytest.fixture(scope="module")
def gateway() -> Stand:
    def make(url: str) -> Settings:
        keys = (Key(key=Secret("env:CLIENT", CLIENT_KEY), name="one"),)
        server = Server(port=0, keys=keys, allowed_origins=("https://app.example",))
        plain = settings_for(url, server=server)
        upstreams = {
            name: structs.replace(one, key=Secret("env:UP", UPSTREAM_KEY))
            for name, one in plain.upstreams.items()
        }
        return structs.replace(plain, upstreams=upstreams)

    with stand(make) as found:
        yield found


OURS = {"x-api-key": CLIENT_KEY}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize(
    ("headers", "says"),
    [
        ({"host": "evil.example"}, "allowed_hosts"),
        ({"host": "127.0.0.1.evil.example:8484"}, "allowed_hosts"),
        ({"origin": "https://evil.example"}, "allowed_origins"),
        ({"origin": "null"}, "allowed_origins"),
        ({"sec-fetch-site": "cross-site"}, "other sites"),
    ],
)
def test_pages_are_refused_in_the_dialect_of_their_path(gateway, dialect, headers, says) -> None:
    before = len(gateway.simulator.exchanges)

    got = post(gateway, dialect, headers={**OURS, **headers})
    error = got.json()["error"]

    refusal = error["status"] if dialect == "gemini" else error["type"]
    expected = "PERMISSION_DENIED" if dialect == "gemini" else "permission_error"
    assert (403, expected) == (got.status_code, refusal)
    assert says in error["message"]
    assert before == len(gateway.simulator.exchanges)
    assert "access-control-allow-origin" not in got.headers


@pytest.mark.parametrize("host", ["localhost:1", "127.0.0.1", "[::1]:9"])
def test_this_machine_is_known_by_its_names(gateway, host: str) -> None:
    assert 200 == post(gateway, "chat", headers={**OURS, "host": host}).status_code


def test_log_has_neither_secrets_nor_content(gateway) -> None:
    said = "the prompt nobody may read"
    for dialect in DIALECTS:
        for model in ("chat/plain", "chat/kimi-k2", "chat/plain+error:401", "anthropic/plain+cut"):
            body = question(dialect, model, said, tools=[WEATHER])
            got = post(gateway, dialect, body, headers=OURS)
            logged(gateway, got.headers["request-id"])
    wrong = post(gateway, "chat", headers={"x-api-key": "sk-wrong-1234567890"})
    logged(gateway, wrong.headers["request-id"])
    log = gateway.log.getvalue()

    for secret in (CLIENT_KEY, UPSTREAM_KEY, "sk-wrong", said, "Paris", "What is the weather"):
        assert secret not in log
    assert {"one"} == {json.loads(line).get("key", "one") for line in log.splitlines()}


def test_side_calls_of_agents_are_answered_here(gateway) -> None:
    before = len(gateway.simulator.exchanges)
    answers = [
        post(gateway, "chat", {"events": []}, path=path, headers=OURS)
        for path in ("/api/event_logging/batch", "/api/claude_code/metrics", "/v1/traces")
    ]

    assert [(200, {})] * 3 == [(one.status_code, one.json()) for one in answers]
    assert before == len(gateway.simulator.exchanges)


@pytest.mark.parametrize("path", PROBES)
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:8484"])
def test_probes_answer_no_page_of_another_host(gateway, path: str, host: str) -> None:
    got = get(gateway, path, headers={"host": host})

    assert (403, "permission_error") == (got.status_code, got.json()["error"]["type"])
    assert "dragoman" == got.headers["server"]
    assert "version" not in got.text


def test_probes_need_no_key(gateway) -> None:
    statuses = [get(gateway, path).status_code for path in ("/", "/health", "/ready")]

    assert [200, 200, 200] == statuses
    assert 401 == get(gateway, "/v1/models").status_code
    assert (
        b"" == raw(gateway, b"HEAD / HTTP/1.1\r\nhost: localhost\r\n\r\n").partition(b"\r\n\r\n")[2]
    )


def raw(gateway: Stand, sent: bytes) -> bytes:
    """Return the first that comes back."""
    host, port = gateway.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=60) as client:
        client.sendall(sent)
        return client.recv(65536)


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "HEAD", "DELETE", "PUT"])
def test_no_answer_names_the_programs_behind_it(gateway, method: str) -> None:
    paths = {one.path.replace("{id}", "a").replace("{rest}", "") for one in all_endpoints()}
    for path in (*paths, *PROBES, "/nowhere"):
        for origin in (b"", b"origin: https://app.example\r\n"):
            answer = raw(
                gateway,
                b"%b %b HTTP/1.1\r\nhost: localhost\r\nx-api-key: %b\r\n%bcontent-length: 0\r\n\r\n"
                % (method.encode(), path.encode(), CLIENT_KEY.encode(), origin),
            )

            assert b"\r\nserver: dragoman\r\n" in answer.lower(), answer


@pytest.mark.parametrize("upstream", DIALECTS)
def test_addresses_in_a_request_are_not_fetched(gateway, upstream: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.settimeout(0)
        address = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/picture.png"
        got = post(
            gateway,
            "anthropic",
            headers=OURS,
            body={
                "model": f"{upstream}/plain",
                "max_tokens": 64,
                "messages": [
                    {
                        "role": "user",
                        "content": [
                            {"type": "image", "source": {"type": "url", "url": address}},
                            {"type": "text", "text": f"What is at {address}?"},
                        ],
                    }
                ],
            },
        )

        assert 200 == got.status_code
        with pytest.raises(BlockingIOError):  # no connection waits to be accepted
            elsewhere.accept()


def test_files_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    def make(url: str) -> Settings:
        return settings_for(
            url,
            record=Record(dir=str(tmp_path / "recordings")),
            store=Store(responses="sqlite", path=str(tmp_path / "state" / "responses.sqlite")),
        )

    with stand(make) as found:
        assert 200 == post(found, "responses").status_code
        until(lambda: list((tmp_path / "recordings").glob("*.dragoman")))
        modes = {
            str(path.relative_to(tmp_path)): path.stat().st_mode & 0o077
            for path in tmp_path.rglob("*")
        }

    assert {"recordings", "state", "state/responses.sqlite"} <= set(modes)
    assert {} == {name: oct(mode) for name, mode in modes.items() if mode}
