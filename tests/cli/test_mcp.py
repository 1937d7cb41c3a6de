"""`dragoman mcp` before it serves."""

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from msgspec import structs

from dragoman.cli.mcp import RoutedUpstreams
from dragoman.errors import ConfigError
from dragoman.gateway.config.load import Flags, from_flags
from dragoman.gateway.config.settings import Match, Route, Secret, Settings, Upstream
from dragoman.mcp_server.server import serve_http

PROGRAM = """
import sys
for name in {missing!r}: sys.modules[name] = None
from dragoman.cli.main import main
main({args!r})
"""


def run(
    folder: Path, *args: str, missing: tuple[str, ...] = ()
) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(missing=missing, args=["mcp", *args])
    env = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    return subprocess.run(
        [sys.executable, "-c", program],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        stdin=subprocess.DEVNULL,
    )


@pytest.mark.parametrize("missing", ["mcp", "uvicorn"])
def test_without_the_sdk_one_line_explains_how_to_install_it(missing: str, tmp_path: Path) -> None:
    done = run(tmp_path, missing=(missing,))

    assert 2 == done.returncode
    assert (
        "dragoman: this command needs the MCP SDK; install it with: pip install 'dragoman[mcp]'\n"
        == done.stderr
    )
    assert "" == done.stdout


def test_a_wrong_address_is_reported_before_anything_is_served(tmp_path: Path) -> None:
    done = run(tmp_path, "--upstream", "nowhere")

    assert 2 == done.returncode
    assert "--upstream" in done.stderr
    assert "" == done.stdout


def test_a_port_in_use_is_reported() -> None:
    async def serve(port: int) -> None:
        await serve_http(RoutedUpstreams(Settings()), port, announce=print)

    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(ConfigError, match=r"is in use; .*another port with --http"),
    ):
        asyncio.run(serve(taken.getsockname()[1]))


# --- who answers ------------------------------------------------------------------------------------

ONE = Upstream(base_url="http://127.0.0.1:9/v1", key=Secret("env:K", "secret-key"))


def client_of(upstream: Upstream, **route: object) -> object:
    routes = (Route(match=Match(model="m"), to=("one/m",), **route),)
    return RoutedUpstreams(Settings(upstreams={"one": upstream}, routes=routes)).target("m").client


@pytest.mark.parametrize(
    ("dialect", "auth", "shown"),
    [
        ("chat", "auto", {"authorization": "Bearer secret-key"}),
        ("responses", "bearer", {"authorization": "Bearer secret-key"}),
        ("anthropic", "auto", {"x-api-key": "secret-key"}),
        ("anthropic", "bearer", {"authorization": "Bearer secret-key"}),
        ("chat", "x-api-key", {"x-api-key": "secret-key"}),
        ("chat", "none", {}),
    ],
)
def test_a_key_is_shown_as_the_upstream_wants_it(
    dialect: str, auth: str, shown: dict[str, str]
) -> None:
    client = client_of(structs.replace(ONE, dialect=dialect, auth=auth))
    headers = client._settings.headers

    assert shown == {
        name: headers[name] for name in ("authorization", "x-api-key") if name in headers
    }


def test_headers_and_timeouts_of_the_settings_are_used() -> None:
    upstream = structs.replace(ONE, headers={"X-Team": "a", "authorization": "own"})
    settings = client_of(upstream, headers={"x-route": "b"})._settings

    assert ("a", "b", "own") == tuple(
        settings.headers[name] for name in ("x-team", "x-route", "authorization")
    )
    assert 300.0 == settings.timeouts.first_byte


def test_one_client_serves_all_models_of_a_route() -> None:
    upstreams = RoutedUpstreams(Settings(upstreams={"one": ONE}))
    first, second = upstreams.target("a"), upstreams.target("b")

    assert first.client is second.client
    assert ("a", "b") == (first.model, second.model)


@pytest.mark.parametrize("asked", ["", "claude-opus", "other/name"])
def test_a_model_that_is_set_answers_for_all_names(asked: str, tmp_path: Path) -> None:
    flags = Flags(upstream="http://127.0.0.1:9/v1", model="moonshotai/kimi-k2")
    settings = from_flags(flags, environ={}, cwd=tmp_path)

    assert "moonshotai/kimi-k2" == RoutedUpstreams(settings).target(asked).model


def test_a_model_must_be_named_where_none_is_set() -> None:
    with pytest.raises(ConfigError, match="no default model is set"):
        RoutedUpstreams(Settings(upstreams={"one": ONE})).target("")


def test_settings_without_effect_are_named() -> None:
    upstream = structs.replace(ONE, body={"a": 1})
    route = Route(to=("one/m",), params={"temperature": 1}, body={"b": 1}, auth="passthrough")
    found = RoutedUpstreams(Settings(upstreams={"one": upstream}, routes=(route,)))

    assert (
        "`upstreams.one.body` has no effect here",
        "`routes[1].body` has no effect here",
        "`routes[1].params` has no effect here",
        "`routes[1].auth` has no effect here",
    ) == found.warnings


def test_the_package_is_a_program_too(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dragoman", "mcp", "--help"],
        cwd=tmp_path,
        env=os.environ | {"HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )

    assert "Usage: python -m dragoman mcp [OPTIONS]" in done.stdout
