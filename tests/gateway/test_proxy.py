"""The gateway behind a forward proxy, which is a process: every dialect, streams, failures, secrets."""

import itertools
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from msgspec import structs

from dragoman.checker.checker import check
from dragoman.gateway.config.settings import Settings
from dragoman.transport import environment_rule
from tests.support.asking import get, post
from tests.support.certificates import certificate
from tests.support.forward_proxy import ForwardProxy, forward_proxy
from tests.support.gateway import DIALECTS, PATHS, UNUSABLE, Stand, settings_for, stand
from tests.support.odd_upstream import SSE, OddUpstream, Reply, odd_upstream
from tests.support.serving import serving, simulating
from tests.support.simulator import question, wire
from tests.support.tunnel import (
    FRAMES,
    check_that_a_stream_is_not_held_back,
    stream_under_way,
    tunnelled,
)
from tests.support.waiting import logged, until

HOST = "models.invalid"  # the proxy alone can look it up
PASSWORD = "correct-horse"


@pytest.fixture(scope="module")
def secured() -> Iterator[OddUpstream]:
    with odd_upstream(certificate("server.pem")) as found:
        yield found


@pytest.fixture(scope="module")
def proxy() -> Iterator[ForwardProxy]:
    with forward_proxy(credentials=f"ann:{PASSWORD}") as found:
        yield found


@pytest.fixture(scope="module")
def gateway(proxy: ForwardProxy, secured: OddUpstream) -> Iterator[Stand]:
    def make(_url: str) -> Settings:
        upstreams = {
            "tunnel": tunnelled(secured, proxy.url_for("ann", PASSWORD)),
            "unknown": tunnelled(secured, proxy.url),
            "wrong": tunnelled(secured, proxy.url_for("ann", "battery-staple")),
            "absent": tunnelled(secured, f"http://ann:{PASSWORD}@127.0.0.1:1", retries=0),
        }
        return structs.replace(settings_for(_url), upstreams=upstreams, routes=())

    with stand(make) as found:
        found.running.gateway.runtime.logger.secrets = found.running.gateway.plan.secrets
        yield found


# --- every dialect ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def forwarding() -> Iterator[tuple[Stand, ForwardProxy]]:
    """Yield a gateway whose upstreams only a proxy of the environment can reach."""
    with simulating() as simulator, forward_proxy(hosts={HOST: simulator.port}) as proxy:
        rule = environment_rule({"HTTP_PROXY": proxy.url, "NO_PROXY": "models.example"})

        def make(_url: str) -> Settings:
            made = settings_for(f"http://{HOST}")
            upstreams = {
                name: structs.replace(one, proxy=rule, models=())
                for name, one in made.upstreams.items()
            }
            return structs.replace(made, upstreams=upstreams)

        with stand(make) as found:
            yield found, proxy


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("upstream", "client"), list(itertools.product(DIALECTS, DIALECTS)))
def test_every_dialect_goes_through_the_proxy(
    forwarding: tuple[Stand, ForwardProxy], upstream: str, client: str, *, stream: bool
) -> None:
    gateway, proxy = forwarding
    before = len(proxy.requests)
    got = post(gateway, client, question(client, f"{upstream}/plain", stream=stream))

    assert 200 == got.status_code
    path, _ = wire(upstream, {"model": "plain", "stream": stream})
    assert f"POST http://{HOST}{path}" in proxy.targets[before:]
    if stream:
        assert () == check(client, got.content).violations


def test_model_list_and_token_counts_go_through_the_proxy(
    forwarding: tuple[Stand, ForwardProxy],
) -> None:
    gateway, proxy = forwarding
    listed = get(gateway, "/v1/models")
    count = question("anthropic", "anthropic/plain", stream=False)
    counted = post(gateway, "anthropic", count, path="/v1/messages/count_tokens")

    assert (200, 200) == (listed.status_code, counted.status_code)
    assert f"GET http://{HOST}/v1/models" in proxy.targets
    assert f"POST http://{HOST}/v1/messages/count_tokens" in proxy.targets


# --- streams through a tunnel -------------------------------------------------------------------------


@pytest.mark.parametrize("dialect", DIALECTS)
def test_stream_through_a_tunnel_is_not_held_back(
    gateway: Stand, secured: OddUpstream, dialect: str
) -> None:
    check_that_a_stream_is_not_held_back(gateway, secured, dialect)


ENDS = {
    "chat": b"stop",
    "anthropic": b"message_stop",
    "responses": b"response.completed",
    "gemini": b"finishReason",
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_client_learns_of_a_tunnel_that_was_cut(
    gateway: Stand, proxy: ForwardProxy, secured: OddUpstream, dialect: str
) -> None:
    with stream_under_way(gateway, secured, dialect) as stream:
        proxy.cut()
        text = stream.read_rest()
        line = logged(gateway, stream.headers["request-id"])

    assert b"upstream stream terminated unexpectedly" in text
    assert b"error" in text
    assert ENDS[dialect] not in text
    assert "upstream_truncated" == line["error_code"]


def test_client_that_leaves_closes_the_tunnel(
    gateway: Stand, proxy: ForwardProxy, secured: OddUpstream
) -> None:
    with stream_under_way(gateway, secured, "chat") as stream:
        until(lambda: proxy.open == 1)  # those of earlier tests have ended
        stream.leave()
        until(lambda: proxy.open == 0)


# --- failures -----------------------------------------------------------------------------------------

WANTED = "wants a user and a password (407); put `USER:PASSWORD@` before the host of its address"
FAILURES = {
    "unknown": ("proxy_auth", WANTED + "; see `proxy` of the upstream, or --proxy"),
    "wrong": ("proxy_auth", "rejects the user and password of its address (407)"),
    "absent": ("proxy_unreachable", "nothing accepts connections at the proxy 127.0.0.1:1"),
}


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("model", FAILURES)
def test_failure_of_the_proxy_is_final_and_names_it(
    gateway: Stand, proxy: ForwardProxy, model: str, dialect: str
) -> None:
    before = len(proxy.requests)
    got = post(gateway, dialect, question(dialect, f"{model}/m"))
    line = logged(gateway, got.headers["request-id"])
    code, says = FAILURES[model]

    assert UNUSABLE[dialect] == got.status_code
    assert "false" == got.headers["x-should-retry"]
    message = got.json()["error"]["message"]
    assert message.startswith(f"{model}: ")
    assert says in message
    assert "the proxy 127.0.0.1:" in message
    assert (code, 0) == (line["error_code"], line["retries"])
    assert len(proxy.requests) - before <= 1  # one attempt


# --- a gateway as a process, as people start it -------------------------------------------------------


def test_process_behind_a_proxy_of_the_environment_shows_no_password(tmp_path: Path) -> None:
    host = "other.example"
    options = ("--upstream", f"https://{host}/v1", "--proxy", "env")
    trust = ("--tls-ca", certificate("authority.pem"))
    with (
        odd_upstream(certificate("wrong-host.pem")) as upstream,
        forward_proxy(credentials=f"ann:{PASSWORD}", hosts={host: upstream.port}) as proxy,
    ):
        upstream.answer = lambda _asked: Reply(200, b"".join(FRAMES), SSE)
        variables = {"https_proxy": proxy.url_for("ann", PASSWORD), "DRAGOMAN_LOG_LEVEL": "debug"}
        with serving(tmp_path, *options, *trust, **variables) as served:
            address, body = served.url + PATHS["chat"], question("chat", "m")
            good = httpx2.post(address, json=body, timeout=60)
            targets = proxy.targets
            proxy.stop()
            bad = httpx2.post(address, json=body, timeout=60)
            until(lambda: len(served.notices("request")) == 2)
            text = served.text + "".join(served.said)

    assert [f"CONNECT {host}:443"] == targets
    assert "rains." in good.text
    assert f"nothing accepts connections at the proxy 127.0.0.1:{proxy.port}" in bad.text
    for shown in (text, bad.text):
        assert PASSWORD not in shown
        assert "YW5u" not in shown  # `ann` in base64
