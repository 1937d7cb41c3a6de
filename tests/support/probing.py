"""A probe over a simulator in the same process."""

import asyncio
from typing import Any

from dragoman.probe.probe import Peer
from dragoman.probe.run import Report, chosen, run
from dragoman.profiles.profile import Profile
from dragoman.simulator.server import Simulator
from dragoman.transport import Connector

# A model that behaves like `plain`, at a host without a search: most upstreams have none.
BASELINE = "plain+search:none"


def probe(
    model: str, dialect: str = "chat", *only: str, profile: str = "generic", **more: Any
) -> Report:
    """Probe a model of a fresh simulator."""

    async def work() -> Report:
        async with Simulator() as simulator:
            peer = Peer(
                url=f"{simulator.url}/v1",
                dialect=dialect,
                model=f"sim/{model}",
                timeout=more.pop("timeout", 20.0),
                pause=0.0,
                profile=Profile(name=profile),
                **more,
            )
            connector = Connector()
            try:
                return await run(peer, chosen(only, dialect), connector)
            finally:
                await connector.close()

    return asyncio.run(work())
