"""Which models the upstreams say they have; asked when a client wants the list, and kept for a while."""

import asyncio
import math
from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct, structs

from dragoman.gateway.config.settings import Route
from dragoman.gateway.plan import Plan, upstream_headers
from dragoman.gateway.routing import Hop
from dragoman.gateway.upstream import fault_of_transport
from dragoman.transport import Connector, TransportError
from dragoman.turn.events import Fault, FaultKind

_KEPT_SECONDS: Final = 300.0
_FAILED_SECONDS: Final = 5.0  # until an upstream that did not answer is asked again
_ASK_SECONDS: Final = 5.0
_MAX_BYTES: Final = 8 * 1024 * 1024
_MAX_MODELS: Final = 2000  # of one upstream
_ROUTE: Final = Route(to=())  # what headers a question needs does not depend on a route


class _Named(Struct):
    id: str


class _Listing(Struct):
    data: list[_Named]


_NEVER: Final[tuple[float, list[str]]] = (-math.inf, [])
_DECODER: Final = msgspec.json.Decoder(_Listing)


async def ask_models(connector: Connector, plan: Plan, hop: Hop) -> list[str] | Fault:
    """Return the names of an upstream's models, or why it does not tell."""
    name = hop.upstream_name
    try:
        async with asyncio.timeout(_ASK_SECONDS):
            reply = await connector.open(
                "GET",
                plan.url(name, "/models"),
                headers=upstream_headers(hop, _ROUTE, {}, same_dialect=False),
                body=None,
                connect_seconds=hop.timeouts.connect,
                tls=plan.tls(name),
            )
            async with reply:
                body = await reply.read_all(_MAX_BYTES, lambda: None)
                status = reply.status
    except TimeoutError:
        return Fault(FaultKind.TIMEOUT, f"{name}: no answer within {_ASK_SECONDS:g} s")
    except TransportError as failed:
        fault = fault_of_transport(failed)
        return structs.replace(fault, message=f"{name}: {fault.message}")
    if status in (401, 403):
        return Fault(FaultKind.AUTH, f"{name}: the key was refused with status {status}", status)
    try:
        listing = _DECODER.decode(body or b"")
    except msgspec.MsgspecError:
        said = f"{name}: no list of models came, but status {status}"
        return Fault(FaultKind.UPSTREAM_BAD, said, status)
    return [one.id for one in listing.data[:_MAX_MODELS]]


class Catalogue:
    """What was told, and when."""

    def __init__(self, connector: Connector) -> None:
        self._connector = connector
        self._told: dict[str, tuple[float, list[str]]] = {}  # until when, and which models

    def forget(self) -> None:
        """Ask again: the upstreams may be others."""
        self._told.clear()

    async def told(self, plan: Plan) -> Mapping[str, list[str]]:
        """Return the models of every upstream whose settings list none; those that do not tell have none."""
        now = asyncio.get_running_loop().time()
        missing = [
            hop
            for hop in plan.router.upstreams()
            if not hop.upstream.models and now >= self._told.get(hop.upstream_name, _NEVER)[0]
        ]
        asked = (ask_models(self._connector, plan, hop) for hop in missing)
        for hop, answer in zip(missing, await asyncio.gather(*asked), strict=True):
            name = hop.upstream_name
            if isinstance(answer, Fault):  # what was known before is better than nothing
                self._told[name] = (now + _FAILED_SECONDS, self._told.get(name, _NEVER)[1])
            else:
                self._told[name] = (now + _KEPT_SECONDS, answer)
        return {name: models for name, (_, models) in self._told.items()}
