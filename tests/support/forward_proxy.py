"""A forward proxy in a separate process, `forward_proxy_program.py`, as tests see it."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.waiting import until

_PROGRAM = Path(__file__).with_name("forward_proxy_program.py")


class ForwardProxy:
    """A running proxy, as a test sees it."""

    def __init__(self, process: subprocess.Popen[str], *, secure: bool) -> None:
        self._process = process
        self._secure = secure
        self._lines: list[dict[str, Any]] = []  # of its log
        self._marks = 0  # lines that were ordered, to know that all before them have arrived
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout:
            self._lines.append(json.loads(line))

    @property
    def port(self) -> int:
        return until(lambda: next((one["port"] for one in self._lines if "port" in one), 0))

    @property
    def url(self) -> str:
        return f"{'https' if self._secure else 'http'}://127.0.0.1:{self.port}"

    def url_for(self, user: str, password: str) -> str:
        return self.url.replace("://", f"://{user}:{password}@")

    @property
    def requests(self) -> list[dict[str, Any]]:
        """What was asked so far: `method`, `target`, `headers`."""
        self._marks += 1
        self._order("mark")
        until(lambda: sum("mark" in one for one in list(self._lines)) == self._marks)
        return [one for one in list(self._lines) if "method" in one]

    @property
    def targets(self) -> list[str]:
        return [f"{one['method']} {one['target']}" for one in self.requests]

    @property
    def closed(self) -> int:
        """How many tunnels have ended."""
        return sum("closed" in one for one in list(self._lines))

    @property
    def open(self) -> int:
        """How many tunnels have not ended."""
        return sum("opened" in one for one in list(self._lines)) - self.closed

    def cut(self) -> None:
        """Abort every connection."""
        self._order("cut")

    def _order(self, word: str) -> None:
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()

    def stop(self) -> None:
        if self._process.poll() is not None:
            return
        self._process.kill()
        self._process.wait(60)
        self._reader.join(60)
        for stream in (self._process.stdin, self._process.stdout):
            stream.close()


@contextmanager
def forward_proxy(
    *,
    credentials: str = "",
    scheme: str = "Basic",
    status: int = 0,
    silent: bool = False,
    certificate: str = "",
    hosts: dict[str, int] | None = None,
) -> Iterator[ForwardProxy]:
    """Run a proxy.  `hosts` are names that only it can resolve, with the loopback port that each means."""
    options = ["--credentials", credentials, "--scheme", scheme, "--status", str(status)]
    options += ["--certificate", certificate, "--hosts", json.dumps(hosts or {})]
    options += ["--silent"] if silent else []
    process = subprocess.Popen(
        [sys.executable, "-S", "-E", str(_PROGRAM), *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    proxy = ForwardProxy(process, secure=bool(certificate))
    try:
        assert proxy.port
        yield proxy
    finally:
        proxy.stop()
