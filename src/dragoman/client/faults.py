"""From what went wrong to what a program is told: the table of stages."""

from typing import Final

from msgspec import structs

from dragoman.client.errors import ClientError, Stage
from dragoman.client.settings import Settings
from dragoman.errors import NotJsonError, PeerError, TooLargeError
from dragoman.limits import Limits
from dragoman.transport import Reply, TransportError
from dragoman.turn.answer import Answer
from dragoman.turn.events import Fault, FaultKind, Start

_LIMITS: Final = frozenset(Limits.__struct_fields__)
# Faults that our own readers find in an answer; all others are told by the server itself.
_OURS: Final[dict[str, Stage]] = {
    "upstream_truncated": "protocol",
    "upstream_empty": "protocol",
    "upstream_malformed": "protocol",
    "call_without_name": "protocol",
    "invalid_arguments": "json",
}
_NOBODY_THERE: Final = frozenset({404, 405})


def transport_error(failed: TransportError, settings: Settings) -> ClientError:
    """Return the error for a connection that failed."""
    stage: Stage = failed.stage
    kind = FaultKind.UPSTREAM_BAD
    if failed.code == "connect_timeout":
        stage, kind = "timeout", FaultKind.TIMEOUT
    elif failed.code in _LIMITS:
        stage = "limit"
    return ClientError(stage, settings.redact(failed.reason), code=failed.code, kind=kind)


def peer_error(error: PeerError, broken: str = "") -> ClientError:
    """Return the error for an answer that its reader refused; `broken` is the layer that it names."""
    stage: Stage
    match error:
        case TooLargeError(limit=limit):
            said = f"the server's answer is refused: {error}"
            return ClientError("limit", said, code=limit, kind=FaultKind.UPSTREAM_BAD)
        case _ if broken == "sse":
            stage = "sse"
        case NotJsonError():
            stage = "json"
        case _:
            stage = "protocol"
    said = f"the server breaks its dialect: {error}"
    return ClientError(stage, said, code="upstream_malformed", kind=FaultKind.UPSTREAM_BAD)


def fault_error(fault: Fault, settings: Settings, broken: str = "") -> ClientError:
    """Return the error for an answer that ended with a fault: the server's word, or our reader's."""
    stage: Stage = "http"
    said = f"the server tells of an error inside its answer: {fault.message}"
    if fault.kind is FaultKind.UPSTREAM_BAD and not fault.status:
        if fault.code in _LIMITS:
            stage, said = "limit", fault.message
        elif fault.code in _OURS:
            stage, said = _OURS[fault.code], fault.message
            if broken in ("sse", "json"):
                stage = "sse" if broken == "sse" else "json"
    return ClientError(
        stage,
        settings.redact(said),
        status=fault.status,
        retry_after=fault.retry_after,
        code=fault.code,
        kind=fault.kind,
    )


def refusal(reply: Reply, body: bytes, settings: Settings) -> ClientError:
    """Return the error for an answer whose status is no success."""
    status = reply.status
    if 300 <= status < 400:
        where = reply.headers.get("location", "elsewhere")
        said = f"the server redirects to {where}, which is not followed; mend `base_url`"
        kind = FaultKind.UPSTREAM_BAD
        return ClientError(
            "http", settings.redact(said), status=status, code="redirected", kind=kind
        )
    fault = settings.dialect.decode_fault(status, body)
    wait = reply.retry_after
    if wait is not None:
        fault = structs.replace(fault, retry_after=wait)
    # Nobody at that path: most often it is `base_url` that is wrong.
    to = f" to {settings.url.path}" if status in _NOBODY_THERE else ""
    return ClientError(
        "http",
        settings.redact(f"the server answers {status}{to}: {fault.message}"),
        status=status,
        retry_after=fault.retry_after,
        code=fault.code,
        kind=fault.kind,
    )


def as_fault(error: ClientError) -> Fault:
    """Return an error as the ending of an answer."""
    kind = FaultKind(error.kind) if error.kind else FaultKind.GATEWAY
    return Fault(kind, error.message, error.status, error.code, "", error.retry_after)


def keep_received(error: ClientError, answer: Answer) -> None:
    """Put into an error what had come of the answer, if anything had."""
    if answer.blocks or answer.usage is not None or answer.start != Start():
        error.received = structs.replace(answer, fault=as_fault(error))
