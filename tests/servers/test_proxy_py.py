"""The gateway behind proxy.py, a proxy that is not ours: tunnels, forwarded requests, credentials."""

import itertools
from collections.abc import Iterator

import httpx2
import pytest
from msgspec import structs

from dragoman.checker.checker import check
from dragoman.gateway.config.settings import Settings, Tls, Upstream
from dragoman.transport import fixed_rule
from tests.servers import proxy_py
from tests.support.asking import post
from tests.support.certificates import certificate
from tests.support.gateway import DIALECTS, PATHS, UNUSABLE, Stand, settings_for, stand
from tests.support.odd_upstream import SSE, Gate, OddUpstream, Told, chat_stream, odd_upstream
from tests.support.simulator import question

FRAMES = chat_stream("It ", "rains.")


@pytest.fixture(scope="module")
def secured() -> Iterator[OddUpstream]:
    with odd_upstream(certificate("server.pem")) as found:
        yield found


@pytest.fixture(scope="module")
def gateway(secured: OddUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    with proxy_py.running("ann:correct-horse", tmp_path_factory.mktemp("proxy")) as address:
        right = address.replace("://", "://ann:correct-horse@")

        def make(url: str) -> Settings:
            tunnelled = Upstream(
                base_url=f"{secured.url}/v1",
                tls=Tls(ca=certificate("authority.pem")),
                proxy=fixed_rule(right),
                cooldown=0,
            )
            upstreams = {
                "tunnel": tunnelled,
                "forward": Upstream(base_url=f"{url}/v1", proxy=fixed_rule(right), cooldown=0),
                "unknown": structs.replace(tunnelled, proxy=fixed_rule(address)),
                "unsent": Upstream(base_url=f"{url}/v1", proxy=fixed_rule(address), cooldown=0),
                "nowhere": structs.replace(tunnelled, base_url="https://127.0.0.1:1/v1", retries=0),
            }
            return structs.replace(settings_for(url), upstreams=upstreams, routes=())

        with stand(make) as found:
            yield found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_stream_through_a_tunnel_is_not_held_back(
    gateway: Stand, secured: OddUpstream, dialect: str
) -> None:
    gate = Gate()
    first, *rest = FRAMES
    secured.answer = lambda _asked: Told(200, itertools.chain([first], gate.each(rest)), SSE)
    with httpx2.stream(
        "POST", gateway.url + PATHS[dialect], json=question(dialect, "tunnel/m"), timeout=60
    ) as got:
        parts = got.iter_bytes()
        text = b""
        while b"It " not in text:
            text += next(parts)
        assert b"rains." not in text
        gate.open(len(rest))
        text += b"".join(parts)

    assert b"rains." in text
    assert () == check(dialect, text).violations


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_request_is_forwarded(gateway: Stand, dialect: str, *, stream: bool) -> None:
    got = post(gateway, dialect, question(dialect, "forward/plain", stream=stream))

    assert 200 == got.status_code
    if stream:
        assert () == check(dialect, got.content).violations


@pytest.mark.parametrize("model", ["unknown", "unsent"])
def test_missing_credentials_are_named(gateway: Stand, model: str) -> None:
    got = post(gateway, "anthropic", question("anthropic", f"{model}/m"))

    assert UNUSABLE["anthropic"] == got.status_code
    assert "wants a user and a password (407)" in got.json()["error"]["message"]


def test_upstream_that_the_proxy_cannot_reach_is_named(gateway: Stand) -> None:
    got = post(gateway, "chat", question("chat", "nowhere/m"))

    assert UNUSABLE["chat"] == got.status_code
    assert "cannot connect to 127.0.0.1:1 (" in got.json()["error"]["message"]
