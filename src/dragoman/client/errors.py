"""`ClientError`, and how each failure becomes one.

`stage` says how far an exchange had come, and so who has to act on the failure.
"""

from typing import ClassVar, Final, Literal, TypeAlias, get_args

from msgspec import structs

from dragoman.client.settings import Settings
from dragoman.errors import DragomanError, NotJsonError, PeerError, TooLargeError
from dragoman.limits import Limits
from dragoman.transport import Reply, TransportError
from dragoman.turn.answer import Answer
from dragoman.turn.events import Fault, FaultKind, Start

Stage: TypeAlias = Literal[
    "connect",  # no connection to the server
    "tls",  # the server's certificate is not trusted, or it does not trust ours
    "http",  # the server refuses the request, fails, or breaks HTTP
    "sse",  # the framing of the stream is broken
    "json",  # a frame or a body is not JSON
    "protocol",  # valid JSON that breaks the dialect: wrong order, a missing end
    "limit",  # one of `Limits` was exceeded
    "timeout",  # one of `Timeouts`, or the request's own `timeout`, ran out
    "cancelled",  # the stream or the client was closed while it was read
]
STAGES: Final[tuple[Stage, ...]] = get_args(Stage)


class ClientError(DragomanError):
    """A request was sent, or was about to be, and there is no complete answer.

    Nothing is retried: `kind`, `status` and `retry_after` are what a caller needs to retry.

    Attributes:
        stage: How far the exchange had come: `connect`, `tls`, `http`, `sse`, `json`, `protocol`, `limit`,
            `timeout` or `cancelled`.
        message: One sentence; secrets that the client was given are replaced by `[redacted]`.
        status: The HTTP status, or the one an error inside the stream names; 0 if there is none.
        request_id: The server's id of the request; empty if it sent none.
        retry_after: Seconds that the server asks to wait; None if it does not say.
        code: A stable word for programs: the vendor's own code, or ours (`first_byte_timeout`).
        kind: The meaning, whatever the vendor calls it: a value of `FaultKind` such as `rate_limit`.
        received: The answer as far as it had arrived, with a `fault`; None if nothing had.

    Example:
        try:
            answer = await client.create(request("Hello"))
        except ClientError as error:
            if error.kind == "rate_limit":
                await asyncio.sleep(error.retry_after or 1)
    """

    exit_code: ClassVar[int] = 3

    def __init__(  # noqa: PLR0913 -- all that is known of a failure
        self,
        stage: Stage,
        message: str,
        *,
        status: int = 0,
        request_id: str = "",
        retry_after: float | None = None,
        code: str = "",
        kind: str = "",
        received: Answer | None = None,
    ) -> None:
        self.stage: Stage = stage
        self.message: str = message
        self.status: int = status
        self.request_id: str = request_id
        self.retry_after: float | None = retry_after
        self.code: str = code
        self.kind: str = kind
        self.received: Answer | None = received
        super().__init__(f"{stage}: {message}")


# --- from a failure to an error ---------------------------------------------------------------------

_LIMITS: Final = frozenset(Limits.__struct_fields__)
# Codes of faults that our own readers find in an answer; all others come from the server.
_OURS: Final[dict[str, Stage]] = {
    "upstream_truncated": "protocol",
    "upstream_empty": "protocol",
    "upstream_html": "protocol",
    "upstream_malformed": "protocol",
    "call_without_name": "protocol",
    "invalid_arguments": "json",
}
_BY_READER: Final = (FaultKind.UPSTREAM_BAD, FaultKind.UPSTREAM_UNUSABLE)
_NO_SUCH_PATH: Final = frozenset({404, 405})


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
    """Return the error for an answer that its reader rejected; `broken` is the layer at fault."""
    stage: Stage
    match error:
        case TooLargeError(limit=limit):
            message = f"the server's answer is rejected: {error}"
            return ClientError("limit", message, code=limit, kind=FaultKind.UPSTREAM_BAD)
        case _ if broken == "sse":
            stage = "sse"
        case NotJsonError():
            stage = "json"
        case _:
            stage = "protocol"
    message = f"the server's answer violates its dialect: {error}"
    return ClientError(stage, message, code="upstream_malformed", kind=FaultKind.UPSTREAM_BAD)


def fault_error(fault: Fault, settings: Settings, broken: str = "") -> ClientError:
    """Return the error for an answer that ended with a fault, of the server or found by our reader."""
    stage: Stage = "http"
    # Test: test_s_2_an_answer_is_not_believed_for_its_status_alone.
    message = f"the server reports an error inside its answer: {fault.message}"
    if fault.kind in _BY_READER and not fault.status:
        if fault.code in _LIMITS:
            stage, message = "limit", fault.message
        elif fault.code in _OURS:
            stage, message = _OURS[fault.code], fault.message
            if broken in ("sse", "json"):
                stage = "sse" if broken == "sse" else "json"
    return ClientError(
        stage,
        settings.redact(message),
        status=fault.status,
        retry_after=fault.retry_after,
        code=fault.code,
        kind=fault.kind,
    )


def refusal(reply: Reply, body: bytes, settings: Settings) -> ClientError:
    """Return the error for a response whose status is not a success."""
    status = reply.status
    # Test: test_redirects_are_reported_and_never_followed.
    if 300 <= status < 400:
        where = reply.headers.get("location", "elsewhere")
        message = f"the server redirects to {where}, which is not followed; correct `base_url`"
        kind = FaultKind.UPSTREAM_BAD
        return ClientError(
            "http", settings.redact(message), status=status, code="redirected", kind=kind
        )
    fault = settings.dialect.decode_fault(status, body)
    wait = reply.retry_after
    if wait is not None:
        fault = structs.replace(fault, retry_after=wait)
    # Test: test_the_path_is_reported_where_no_server_answers.
    # Most often `base_url` is wrong: show the path.
    to = f" to {settings.url.path}" if status in _NO_SUCH_PATH else ""
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
    """Attach the answer so far to an error, if anything had arrived."""
    if answer.blocks or answer.usage is not None or answer.start != Start():
        error.received = structs.replace(answer, fault=as_fault(error))


def cancelled(why: str) -> ClientError:
    """Return the error for an exchange that this side gave up."""
    return ClientError("cancelled", why, code="cancelled")
