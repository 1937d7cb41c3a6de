"""Many streams at once through a gateway of two workers, each of them verified; and what follows an overload.

    python -m tools.load [--streams 1000] [--seconds 300]    streams with 1 % faults and 1 % of clients that leave
    python -m tools.load --overload                          ten times as many requests as are allowed at once
    python -m tools.load --soak [--seconds 1800]             the same streams for longer; memory as a picture

The simulator, the gateway and the clients are separate processes on this machine.  Exit code 1: a stream was not
what it should have been, or the memory or the descriptors of the gateway grew.
"""

import argparse
import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import aiohttp
from tests.support.gateway import DIALECTS, PATHS
from tests.support.serving import Served, serving, serving_process
from tests.support.simulator import question, wire
from tests.support.views import seen

ROOT: Final = Path(__file__).parent.parent
PICTURE: Final = ROOT / "docs" / "images" / "soak.svg"
WORDS: Final = "It rains in Ulm today, and the wind comes from the west. " * 6
PACE: Final = 400  # milliseconds between two chunks of a stream
CHUNK: Final = 12  # characters of a chunk
FAULTS: Final = ("reset", "cut", "error-in", "stall:0+pace:50")  # of 1 % of the streams
SHARE: Final = 0.01
# A client that does not run for 30 seconds after it connected; the gateway logs that it closed the connection.
CLOSED: Final = "not begun: the connection was closed"
# What may be more at the end than after the first minute: pools of connections grow for a while.
MORE_BYTES: Final = 20_000_000
MORE_DESCRIPTORS: Final = 50
ALLOWED: Final = 100  # requests at once, in the overload
RECOVERED: Final = 1.0  # seconds


class Sample(NamedTuple):
    """The gateway's processes at one moment."""

    seconds: float
    resident: int  # bytes
    descriptors: int


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.load")
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seconds", type=int, default=0)
    parser.add_argument("--overload", action="store_true")
    parser.add_argument("--soak", action="store_true")
    options = parser.parse_args()
    if options.overload:
        with gateway(f"max_requests = {ALLOWED}") as served:
            return asyncio.run(overload(served.url))
    seconds = options.seconds or (1800 if options.soak else 300)
    with gateway("workers = 2") as served:
        load = Load(served, options.streams, seconds)
        asyncio.run(load.run())
    if options.soak:
        PICTURE.write_text(picture(load.samples))
    return load.report()


@contextmanager
def gateway(setting: str) -> Iterator[Served]:
    """Run a simulator and a gateway before it, which stops reading a silent upstream after 30 seconds."""
    command = [sys.executable, "-m", "dragoman.cli.main", "simulate", "--port", "0"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with serving_process(command, folder) as simulator:
            lines = ["[server]", setting, "[upstreams.sim]", f'base_url = "{simulator.url}/v1"']
            lines += ["retries = 0", "cooldown = 0", "timeouts = { first_byte = 120, idle = 30 }"]
            lines += ["[[routes]]", 'match = { model = "*" }', 'to = "sim/*"']
            # What is kept on purpose would hide what is kept by mistake.
            lines += ["[log]", 'level = "warning"', "[store]", 'responses = "off"']
            (folder / "dragoman.toml").write_text("\n".join(lines) + "\n")
            with serving(folder) as served:
                yield served


class Load:
    """Keeps a number of streams open for a time; each is of a random dialect, and some break or are left."""

    def __init__(self, served: Served, streams: int, seconds: int) -> None:
        self._served = served
        self._streams = streams
        self._end = time.monotonic() + seconds
        self._begun = time.monotonic()
        self._chance = random.Random(1)
        self.outcomes: Counter[str] = Counter()
        self.firsts: list[float] = []  # seconds from a request to the first bytes of its stream
        self.samples: list[Sample] = []
        self.open = 0  # streams

    async def run(self) -> None:
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=None, sock_read=120)
        async with (
            aiohttp.ClientSession(connector=connector, timeout=timeout) as http,
            asyncio.TaskGroup() as group,
        ):
            for _ in range(self._streams):
                group.create_task(self._client(http))
            while time.monotonic() < self._end:
                await asyncio.sleep(5)
                self.samples.append(sample(self._served.process.pid, self._begun))
                last = self.samples[-1]
                print(
                    f"{last.seconds:5.0f} s  {last.resident / 1e6:4.0f} MB  {last.descriptors} descriptors"
                    f"  {self.open} open  {dict(self.outcomes)}",
                    flush=True,
                )

    async def _client(self, http: aiohttp.ClientSession) -> None:
        await asyncio.sleep(self._chance.random() * 10)  # so that not all begin at once
        while time.monotonic() < self._end:
            kind = self._chance.random()
            fault = self._chance.choice(FAULTS) if kind < SHARE else ""
            leaves = SHARE <= kind < 2 * SHARE
            self.open += 1
            try:
                self.outcomes[await self._stream(http, fault, leaves=leaves)] += 1
            except (
                aiohttp.ClientError,
                TimeoutError,
                AssertionError,
                LookupError,
                TypeError,  # a stream that failed has no answer where one is looked for
                ValueError,
            ) as error:
                self.outcomes[f"WRONG {type(error).__name__}: {str(error)[:100]}"] += 1
            finally:
                self.open -= 1

    async def _stream(self, http: aiohttp.ClientSession, fault: str, *, leaves: bool) -> str:
        dialect = self._chance.choice(DIALECTS)
        text = f"{self._chance.getrandbits(64)} {WORDS}"
        quirks = "".join(f"+{one}" for one in (f"chunk:{CHUNK}", f"pace:{PACE}", fault) if one)
        path, body = wire(dialect, question(dialect, f"plain{quirks}", f"sim: say {text}"))
        begun = time.monotonic()
        try:
            asked = await http.post(self._served.url + path, json=body)
        except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError):
            return CLOSED
        async with asked as response:
            data = await response.content.readany()
            self.firsts.append(time.monotonic() - begun)
            if leaves and response.status == 200:
                response.close()
                return "left"
            data += await response.read()
        if fault:
            assert response.status >= 500 or b"error" in data, "a broken response looks complete"
            return "broken, and reported as such"
        assert response.status == 200, response.status
        assert text.strip() == seen(dialect, data).text.strip(), "another text"
        return "complete and right"

    def report(self) -> int:
        """Print what happened; return 1 if something was wrong."""
        steady = [
            one for one in self.samples if one.seconds >= min(60, self.samples[-1].seconds / 2)
        ]
        first, last = steady[0], steady[-1]
        grown = last.resident - first.resident
        more = last.descriptors - first.descriptors
        wrong = sum(count for name, count in self.outcomes.items() if name.startswith("WRONG"))
        for name, count in self.outcomes.most_common():
            print(f"{count:8} {name}")
        closed = sum(one["count"] for one in self._served.notices("connections closed"))
        print(f"{closed:8} connections that the gateway closed, because their clients were late")
        firsts = sorted(self.firsts)
        median, late = firsts[len(firsts) // 2], firsts[len(firsts) * 99 // 100]
        print(f"first bytes: median {median:.3f} s, 99 of 100 within {late:.3f} s, the last after {firsts[-1]:.3f} s")  # fmt: skip
        print(
            f"memory {first.resident / 1e6:.0f} MB, {grown / 1e6:+.1f} MB, descriptors {more:+}"
            f" in {last.seconds - first.seconds:.0f} s"
        )
        return (
            wrong > 0
            or self.outcomes[CLOSED] > closed
            or grown > MORE_BYTES
            or more > MORE_DESCRIPTORS
        )


def sample(process: int, begun: float) -> Sample:
    """Add up a process and its children."""
    found = [process]
    for one in found:
        children = Path(f"/proc/{one}/task/{one}/children")
        found += [int(child) for child in children.read_text().split()]
    resident = sum(int(Path(f"/proc/{one}/statm").read_text().split()[1]) for one in found) * 4096
    descriptors = sum(len(list(Path(f"/proc/{one}/fd").iterdir())) for one in found)
    return Sample(time.monotonic() - begun, resident, descriptors)


async def overload(url: str) -> int:
    """Send ten times the allowed requests at once; then one alone, which is to be served within a second."""
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as http:

        async def ask(quirks: str) -> tuple[int, float]:
            begun = time.monotonic()
            body = question("chat", f"plain{quirks}", "sim: say Hello.")
            async with http.post(url + PATHS["chat"], json=body) as response:
                await response.read()
            assert response.status == 200 or "retry-after" in response.headers, response.headers
            return response.status, time.monotonic() - begun

        answers = await asyncio.gather(*(ask("+slow:3000") for _ in range(10 * ALLOWED)))
        status, seconds = await ask("")
    counts = Counter(code for code, _ in answers)
    refused = [took for code, took in answers if code != 200]
    print(
        f"{dict(counts)}; refused within {max(refused, default=0.0):.2f} s; then {status} in {seconds:.2f} s"
    )
    return set(counts) != {200, 503} or status != 200 or seconds > RECOVERED


def picture(samples: list[Sample]) -> str:
    """Return memory and descriptors over time as an SVG."""
    width, height, left = 720, 220, 60
    end = samples[-1].seconds

    def line(values: list[float], colour: str) -> str:
        top = max(values) * 1.2
        points = " ".join(
            f"{left + one.seconds / end * (width - left - 20):.1f},{height - 30 - value / top * (height - 60):.1f}"
            for one, value in zip(samples, values, strict=True)
        )
        return f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{points}"/>'

    memory = [one.resident / 1e6 for one in samples]
    descriptors = [float(one.descriptors) for one in samples]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        f'font-size="12" fill="#888">{line(memory, "#3b82f6")}{line(descriptors, "#f59e0b")}'
        f'<text x="{left}" y="16" fill="#3b82f6">memory, at most {max(memory):.0f} MB</text>'
        f'<text x="{left + 260}" y="16" fill="#f59e0b">descriptors, at most {max(descriptors):.0f}</text>'
        f'<text x="{left}" y="{height - 8}">0</text>'
        f'<text x="{width - 20}" y="{height - 8}" text-anchor="end">{end / 60:.0f} minutes</text></svg>\n'
    )


if __name__ == "__main__":
    sys.exit(main())
