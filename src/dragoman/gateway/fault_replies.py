"""Failures as responses in the client's dialect, without secrets; also responses that are complete at once."""

import math
import traceback
from collections.abc import Mapping, Sequence
from typing import Final

from aiohttp import web
from msgspec import structs

from dragoman.dialects import dialect as find_dialect
from dragoman.errors import DragomanError
from dragoman.gateway.capacity import OverloadedError
from dragoman.gateway.config.settings import Route
from dragoman.gateway.request_context import RequestContext
from dragoman.gateway.retry import may_client_retry
from dragoman.gateway.routing import Hop
from dragoman.translate import PRELUDE
from dragoman.translate_requests import fault_of_request
from dragoman.turn.events import EventOrRun, Fault, FaultKind

_STATUS: Final = {415: 415, 503: 503}  # statuses that the fault's kind does not have
# Test: test_refused_credentials_of_the_gateway_are_not_blamed_on_the_client.
# The gateway's own credential was refused, which the client cannot change.
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
    """Return a failure as a complete response; `status` overrides the one of its kind."""
    own, body = find_dialect(dialect).encode_fault(fault, headers.get("request-id", ""))
    extra: dict[str, str] = {}
    if fault.retry_after is not None:
        extra["retry-after"] = str(max(0, math.ceil(fault.retry_after)))
    if not may_client_retry(fault):
        extra["x-should-retry"] = "false"
    return JsonResponse(body, headers={**extra, **headers}, status=status or own)


def refused(context: RequestContext, fault: Fault, status: int = 0) -> web.Response:
    """Refuse a request: reply with a failure, and record it as the outcome."""
    context.outcome.ended = fault
    headers = context.response_headers()
    return fault_response(fault, dialect=context.dialect, headers=headers, status=status)


def fault_of_error(context: RequestContext, error: Exception) -> tuple[Fault, int]:
    """Return an exception's fault and status (0: the default of the fault's kind); our own bugs are logged."""
    if isinstance(error, OverloadedError):
        return error.fault, error.http_status
    if isinstance(error, DragomanError):
        return fault_of_request(error), _STATUS.get(error.http_status, 0)
    where = traceback.extract_tb(error.__traceback__)[-1]
    context.runtime.logger.notice(
        "gateway failed",
        level="error",
        id=context.id,
        error=type(error).__name__,
        at=f"{where.name}:{where.lineno}",
    )
    message = "the gateway failed; its log has more under this request's id"
    return Fault(FaultKind.GATEWAY, message, code="gateway_error"), 0


def upstream_fault(fault: Fault, hop: Hop, route: Route, context: RequestContext) -> Fault:
    """Return an upstream's failure as its client gets it: with the upstream's name, without secrets.

    Every text is redacted, because upstreams repeat what they were sent.  A refused credential of the gateway
    becomes an upstream failure; only the log names where the credential comes from.
    """
    name = hop.upstream_name
    message = context.redact(fault.message)
    if fault.kind in _CREDENTIALS and route.auth != "passthrough":
        source = hop.upstream.key.source if hop.upstream.key else "none"
        context.runtime.logger.notice(
            "credentials refused", level="error", upstream=name, credential=source
        )
        reason = f"{name}: upstream rejected the gateway's credentials: {message}"
        return Fault(
            FaultKind.UPSTREAM_UNUSABLE, reason, status=fault.status, code="upstream_credentials"
        )
    return structs.replace(
        fault,
        message=f"{name}: {message}",
        code=context.redact(fault.code),
        param=context.redact(fault.param),
        details=context.redact(fault.details),
    )


class FaultRedaction:
    """The last stage of a response: a failure after the first content reaches the client redacted.

    `UpstreamCall` handles a failure before that, which may lead to another attempt.  This stage must not refer
    to that call or to the client's stream: the stream refers to it by its translator.
    """

    __slots__ = ("_begun", "_context", "_hop", "_route")
    sees_text: Final = False  # the start of its block is enough

    def __init__(self, context: RequestContext, route: Route, hop: Hop) -> None:
        self._context = context
        self._route = route
        self._hop = hop
        self._begun = False

    def redact(self, fault: Fault) -> Fault:
        """Return an upstream's failure as the client gets it; one of the gateway itself is not changed."""
        context = self._context
        if fault == context.outcome.stopped:
            return fault
        return upstream_fault(fault, self._hop, self._route, context)

    @property
    def pending(self) -> bool:
        return False

    def feed(self, events: Sequence[EventOrRun], /) -> list[EventOrRun]:
        """Return the same events, but for a failure."""
        if events and type(events[-1]) is Fault:
            return [self._redacted(event) for event in events]
        if not self._begun:
            self._begun = any(type(event) not in PRELUDE for event in events)
        return events if isinstance(events, list) else list(events)

    def _redacted(self, event: EventOrRun) -> EventOrRun:
        if type(event) is Fault and self._begun:
            return self.redact(event)
        self._begun = self._begun or type(event) not in PRELUDE
        return event
