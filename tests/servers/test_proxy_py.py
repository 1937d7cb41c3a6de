"""The gateway behind proxy.py, a proxy that is not ours: tunnels, forwarded requests, credentials."""

from collections.abc import Iterator

import pytest
from msgspec import structs

from dragoman.checker.checker import check
from dragoman.gateway.config.settings import Settings, Upstream
from dragoman.transport import fixed_rule
from tests.servers import proxy_py
from tests.support.asking import post
from tests.support.certificates import certificate
from tests.support.gateway import FIXED_PATHS, UNUSABLE, Stand, settings_for, stand
from tests.support.odd_upstream import OddUpstream, odd_upstream
from tests.support.simulator import question
from tests.support.tunnel import check_that_a_stream_is_not_held_back, tunnelled


@pytest.fixture(scope="module")
def secured() -> Iterator[OddUpstream]:
    with odd_upstream(certificate("server.pem")) as found:
        yield found


@pytest.fixture(scope="module")
def gateway(secured: OddUpstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stand]:
    with proxy_py.running("ann:correct-horse", tmp_path_factory.mktemp("proxy")) as address:
        right = address.replace("://", "://ann:correct-horse@")

        def make(url: str) -> Settings:
            tunnel = tunnelled(secured, right)
            upstreams = {
                "tunnel": tunnel,
                "forward": Upstream(base_url=f"{url}/v1", proxy=fixed_rule(right), cooldown=0),
                "unknown": tunnelled(secured, address),
                "unsent": Upstream(base_url=f"{url}/v1", proxy=fixed_rule(address), cooldown=0),
                "nowhere": structs.replace(tunnel, base_url="https://127.0.0.1:1/v1", retries=0),
            }
            return structs.replace(settings_for(url), upstreams=upstreams, routes=())

        with stand(make) as found:
            yield found


@pytest.mark.parametrize("dialect", FIXED_PATHS)
def test_stream_through_a_tunnel_is_not_held_back(
    gateway: Stand, secured: OddUpstream, dialect: str
) -> None:
    check_that_a_stream_is_not_held_back(gateway, secured, dialect)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", FIXED_PATHS)
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
