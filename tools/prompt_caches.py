"""How many input tokens come from prompt caches, with `choose = "sticky"` and with targets that take turns.

    .venv/bin/python -m tools.prompt_caches

Fifty conversations of one agent, in a random but fixed order, go through a gateway to four simulators, each with its
own prompt cache.  The figures are what
the client is reported, and the same on every machine.
"""

import asyncio
import io
import random
import sys
from contextlib import AsyncExitStack
from typing import Literal

import aiohttp
from msgspec import Struct

from dragoman.gateway.config.settings import Route, Server, Settings, Store, Upstream
from dragoman.gateway.logging import Logger
from dragoman.gateway.serve import Running
from dragoman.simulator.server import Simulator

MODEL = "plain+prompt-cache"
SYSTEM = "You are a coding agent. " * 200
RESULT = "one line of a file that was read\n" * 60


class Share(Struct, frozen=True):
    """Input tokens of all requests, and how many of them a cache had."""

    cached: int
    total: int


async def measure(
    choose: Literal["weighted", "sticky"],
    *,
    conversations: int = 50,
    turns: int = 6,
    upstreams: int = 4,
) -> Share:
    """Run the conversations; return how much of their input was cached."""
    async with AsyncExitStack() as stack:
        simulators = [await stack.enter_async_context(Simulator(port=0)) for _ in range(upstreams)]
        names = {f"sim{number}": one.url for number, one in enumerate(simulators)}
        settings = Settings(
            server=Server(port=0),
            upstreams={name: Upstream(base_url=f"{url}/v1") for name, url in names.items()},
            routes=(Route(to=tuple(f"{name}/{MODEL}" for name in names), choose=choose),),
            store=Store(responses="off"),
        )
        running = await stack.enter_async_context(Running(settings, logger=Logger(io.StringIO())))
        http = await stack.enter_async_context(aiohttp.ClientSession())
        cached = total = 0
        histories: list[list[dict[str, str]]] = [[] for _ in range(conversations)]
        order = [number for number in range(conversations) for _ in range(turns)]
        random.Random(17).shuffle(order)
        for number in order:
            history = histories[number]
            text = RESULT if history else f"Task {number}: "
            history.append({"role": "user", "content": text + str(len(history))})
            body = {"model": "m", "max_tokens": 100, "system": SYSTEM, "messages": history}
            async with http.post(f"{running.url}/v1/messages", json=body) as response:
                answer = await response.json()
            usage = answer["usage"]
            cached += usage["cache_read_input_tokens"]
            total += usage["input_tokens"] + usage["cache_read_input_tokens"]
            history.append({"role": "assistant", "content": answer["content"][0]["text"]})
        return Share(cached, total)


async def main() -> None:
    turns, sticky = await measure("weighted"), await measure("sticky")
    for name, share in (("weighted", turns), ("sticky", sticky)):
        part = share.cached / share.total
        sys.stdout.write(
            f"{name}: {share.cached} of {share.total} input tokens cached ({part:.0%})\n"
        )
    missed = (turns.total - turns.cached) / (sticky.total - sticky.cached)
    sys.stdout.write(
        f"sticky reads {sticky.cached / turns.cached:.2f} times as many tokens from caches,"
        f" and {missed:.1f} times fewer are computed\n"
    )


if __name__ == "__main__":
    asyncio.run(main())
