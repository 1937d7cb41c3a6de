"""What clients are told when something failed, in their dialect."""

import math
from collections.abc import Mapping
from typing import Final

from aiohttp import web
from msgspec import structs

from dragoman.dialects import dialect as find_dialect
from dragoman.gateway.call import Call
from dragoman.gateway.config.settings import Route
from dragoman.gateway.headers import answer_headers
from dragoman.gateway.logging import Logger
from dragoman.gateway.plan import Plan
from dragoman.gateway.routing import Hop
from dragoman.turn.events import Fault, FaultKind

# The gateway's own credential was refused: that is no fault of the client's.
_CREDENTIALS: Final = frozenset({FaultKind.AUTH, FaultKind.PERMISSION})


class JsonResponse(web.Response):
    """A complete response.  It drops its body once that is sent: an idle connection keeps its last response."""

    def __init__(self, body: bytes, *, headers: Mapping[str, str], status: int = 200) -> None:
        super().__init__(body=body, content_type="application/json", headers=headers, status=status)

    async def write_eof(self, data: bytes = b"") -> None:
        try:
            await super().write_eof(data)
        finally:
            self.body = None


def fault_response(
    fault: Fault, *, dialect: str, headers: Mapping[str, str], status: int = 0
) -> web.Response:
    """Return a failure as a complete answer; `status` takes the place of the one that its kind has."""
    own, body = find_dialect(dialect).encode_fault(fault, headers.get("request-id", ""))
    extra: dict[str, str] = {}
    if fault.retry_after is not None:
        extra["retry-after"] = str(max(0, math.ceil(fault.retry_after)))
    return JsonResponse(body, headers={**headers, **extra}, status=status or own)


def refused(call: Call, fault: Fault, status: int = 0) -> web.Response:
    """Refuse a request before any upstream was asked."""
    call.fault = fault
    choice = call.choice
    headers = answer_headers(
        call.id,
        route="" if choice is None else choice.route_name,
        upstream_model="" if choice is None else choice.hops[0].model,
        extra=call.cors,
    )
    return fault_response(fault, dialect=call.dialect, headers=headers, status=status)


def upstream_fault(fault: Fault, hop: Hop, route: Route, plan: Plan, logger: Logger) -> Fault:
    """Return an upstream's failure as a client may see it: with its name, without secrets or blame.

    Upstreams repeat what they were sent in any field.  Where the gateway's credential comes from is for
    the log alone.
    """
    name = hop.upstream_name
    message = plan.redact(fault.message)
    if fault.kind in _CREDENTIALS and route.auth != "passthrough":
        source = hop.upstream.key.source if hop.upstream.key else "none"
        logger.notice("credentials refused", level="error", upstream=name, credential=source)
        said = f"{name}: upstream rejected the gateway's credentials: {message}"
        return Fault(FaultKind.UPSTREAM_BAD, said, status=fault.status, code="upstream_credentials")
    return structs.replace(
        fault,
        message=f"{name}: {message}",
        code=plan.redact(fault.code),
        param=plan.redact(fault.param),
    )
