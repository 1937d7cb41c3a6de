"""`dragoman tail`: the exchanges of a running gateway."""

import subprocess
import sys
import time

from dragoman.gateway.config.settings import Key, Secret, Server, Settings
from tests.support.asking import post
from tests.support.commands import run
from tests.support.gateway import settings_for, stand
from tests.support.simulator import WEATHER, question


def test_tail_prints_an_exchange_and_needs_the_key() -> None:
    def make(url: str) -> Settings:
        keys = (Key(key=Secret("env:A", "the-key-of-a-tail"), inspect=True),)
        return settings_for(url, server=Server(port=0, keys=keys))

    headers = {"authorization": "Bearer the-key-of-a-tail"}
    with stand(make) as gateway:
        assert run("tail", "--url", gateway.url).code == 2
        command = (
            sys.executable, "-m", "dragoman.cli.main", "tail", "--url", gateway.url, "--key-env", "TAIL_KEY",
            "--count", "1",
        )  # fmt: skip
        environ = {"TAIL_KEY": "the-key-of-a-tail", "PATH": "/usr/bin"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, env=environ | _path()) as process:
            asked = question("anthropic", "chat/plain", tools=[WEATHER])
            for _ in range(200):
                post(gateway, "anthropic", asked, headers=headers)
                if process.poll() is not None:
                    break
                time.sleep(0.1)
            assert process.stdout is not None
            line = process.stdout.read().decode()
    assert process.returncode == 0
    assert "200  anthropic" in line
    assert "chat/plain" in line


def _path() -> dict[str, str]:
    import os

    return {name: os.environ[name] for name in ("PYTHONPATH",) if name in os.environ}


def test_tail_reports_a_gateway_that_is_gone() -> None:
    assert run("tail", "--url", "http://127.0.0.1:9").code == 3
