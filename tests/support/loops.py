"""A simulator beside a test that waits, and tools for loops."""

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from dragoman.client.messages import tool
from dragoman.simulator.server import Simulator

T = TypeVar("T")


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def get_time(zone: str) -> dict[str, str]:
    """The time in a zone."""
    return {"zone": zone, "time": "12:00"}


TOOLS = (tool(get_weather), tool(get_time))
HANDLERS = {"get_weather": get_weather, "get_time": get_time}
# Two calls at once, then one more, then an answer.
STORY = """What is it like there?
sim: think I need two tools.
sim: call get_weather {"city": "Rome"}
sim: call get_time {"zone": "CET"}
sim: then
sim: call get_weather {"city": "Oslo"}
sim: then
sim: say It is sunny in both."""


class Played:
    """A simulator in a thread with its own event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.simulator = self.do(self._start())
        self.url = f"{self.simulator.url}/v1"

    async def _start(self) -> Simulator:
        simulator = Simulator()
        await simulator.start()
        return simulator

    def do(self, work: Coroutine[Any, Any, T], timeout: float = 30.0) -> T:
        """Run something in the simulator's event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout)

    def bodies(self) -> list[bytes]:
        """Return the requests that were received, and forget them."""
        found = [one.body for one in self.simulator.exchanges]

        async def forget() -> None:
            self.simulator.exchanges.clear()

        self.do(forget())
        return found

    def close(self) -> None:
        self.do(self.simulator.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(30)
        self._loop.close()


@contextmanager
def played() -> Iterator[Played]:
    found = Played()
    try:
        yield found
    finally:
        found.close()
