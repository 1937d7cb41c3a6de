"""Asks a gateway for `/health` every 10 ms from its own process, and measures the slowest answer.

The slowest answer shows for how long something else kept the gateway's event loop busy.

    with probing(served.url, served.process.pid) as probe:
        ...                      # the hostile case
    probe.worst                  # seconds
    probe.worst_busy             # of them, seconds for which no other program made the gateway wait

On a machine that many programs share an answer is slow because others run.  The kernel counts for how long the
threads of the gateway and of the probe were ready to run and did not: the rest is what the answer would have taken
on an idle machine, whether the gateway used a processor or slept.

The module runs as the probing process too, so it imports nothing but the standard library at its top.
"""

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

_EVERY = 0.010  # seconds between two questions
_LONGEST = 300.0  # seconds after which the gateway counts as dead


class Probe:
    """What the probe measured; filled in when the `with` block ends."""

    def __init__(self) -> None:
        self.worst = 0.0  # seconds of the slowest answer
        self.worst_busy = 0.0  # the longest one, without the time for which other programs ran
        self.asked = 0  # how many answers came


class Gap(NamedTuple):
    """The slowest answers, in seconds, of an idle gateway and under a hostile case."""

    idle: float
    worst: float
    busy: float  # see `Probe.worst_busy`

    def __str__(self) -> str:
        worst, busy, idle = (round(one * 1000) for one in (self.worst, self.busy, self.idle))
        return f"worst gap {worst} ms, {busy} ms of it the gateway's own time; idle {idle} ms"


@contextmanager
def probing(url: str, process: int = 0) -> Iterator[Probe]:
    """Ask the gateway at `url`, of that process id, for its health as long as the block runs."""
    process = subprocess.Popen(
        [sys.executable, "-S", str(Path(__file__)), url, str(process)],  # it needs no packages
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    probe = Probe()
    try:
        assert "ready\n" == process.stdout.readline(), "the probe got no answer from the gateway"
        yield probe
        process.stdin.close()  # the probe waits for its last answer, then reports
        found = json.loads(process.stdout.readline())
        probe.worst, probe.asked = found["worst"], found["asked"]
        probe.worst_busy = found["busy"]
    finally:
        process.stdin.close()
        process.stdout.close()
        if process.poll() is None:
            process.kill()
        process.wait(60)


def idle_gap(url: str, seconds: float = 0.5) -> float:
    """Return the slowest answer of a gateway that does nothing else: what the machine itself costs."""
    with probing(url) as probe:
        time.sleep(seconds)
    return probe.worst


def _ask(connection: socket.socket, request: bytes) -> None:
    connection.sendall(request)
    received = b""
    while b"\r\n\r\n" not in received or not received.endswith(b"}"):
        data = connection.recv(65536)
        if not data:
            raise ConnectionError("the gateway closed the probe's connection")
        received += data
    assert received.startswith(b"HTTP/1.1 200"), received


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


class _Times(NamedTuple):
    """Seconds of the threads of a process; those that ended do not count."""

    ran: float
    ready: float  # and did not run


def _times(process: str) -> _Times:
    ran = ready = 0
    for thread in Path(f"/proc/{process}/task").glob("*/schedstat"):
        try:
            one = thread.read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
        ran += int(one[0])
        ready += int(one[1])
    return _Times(ran / 1e9, ready / 1e9)


def _main(url: str, process: str) -> None:
    place = urlsplit(url)
    request = b"GET /health HTTP/1.1\r\nhost: %b\r\n\r\n" % place.netloc.encode()
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    worst, busiest, asked = 0.0, 0.0, 0
    with socket.create_connection((place.hostname, place.port), timeout=_LONGEST) as connection:
        _ask(connection, request)
        _say("ready")
        while not ended.wait(_EVERY):
            began, before, own = time.monotonic(), _times(process), _times("self")
            _ask(connection, request)
            gap = time.monotonic() - began
            after = _times(process)
            others = after.ready - before.ready + _times("self").ready - own.ready
            # Without the kernel's count the whole gap is taken for the gateway's.
            busy = min(gap, max(after.ran - before.ran, gap - others))
            worst, busiest = max(worst, gap), max(busiest, busy)
            asked += 1
    _say(json.dumps({"worst": worst, "busy": busiest, "asked": asked}))


if __name__ == "__main__":
    _main(*sys.argv[1:])
