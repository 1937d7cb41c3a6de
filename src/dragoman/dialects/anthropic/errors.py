"""Reads and writes failures of the Messages API: error bodies and error events."""

from typing import Final

import msgspec
from msgspec import Raw

from dragoman.dialects.anthropic.schema import (
    ErrorBody,
    ErrorBodyOut,
    ErrorDetailsOut,
    ErrorIn,
    ErrorOut,
)
from dragoman.dialects.decoding import decode_or_none
from dragoman.dialects.encoding import encode
from dragoman.dialects.failures import (
    VAGUE_KINDS,
    bounded_fault,
    html_fault,
    is_context_length,
    kind_of_status,
    message_of,
    retry_after,
    text_of,
    unframed,
    with_param,
)
from dragoman.turn.events import Fault, FaultKind

# The HTTP status and error type that a client gets, by kind.
STATUS_AND_TYPE: Final[dict[FaultKind, tuple[int, str]]] = {
    FaultKind.BAD_REQUEST: (400, "invalid_request_error"),
    FaultKind.CONTEXT_LENGTH: (400, "invalid_request_error"),
    FaultKind.CONTENT_POLICY: (400, "invalid_request_error"),
    FaultKind.AUTH: (401, "authentication_error"),
    FaultKind.BILLING: (402, "billing_error"),
    FaultKind.PERMISSION: (403, "permission_error"),
    FaultKind.NOT_FOUND: (404, "not_found_error"),
    FaultKind.CONFLICT: (409, "conflict_error"),
    FaultKind.TOO_LARGE: (413, "request_too_large"),
    FaultKind.RATE_LIMIT: (429, "rate_limit_error"),
    FaultKind.SERVER: (500, "api_error"),
    FaultKind.UPSTREAM_BAD: (502, "api_error"),
    FaultKind.UPSTREAM_UNUSABLE: (424, "api_error"),  # no SDK retries a 424
    FaultKind.OVERLOADED: (529, "overloaded_error"),
    FaultKind.TIMEOUT: (504, "timeout_error"),
    FaultKind.GATEWAY: (500, "api_error"),
}

# What an upstream means by its error types; without one, the status decides.
_BY_TYPE: Final[dict[str, FaultKind]] = {
    "invalid_request_error": FaultKind.BAD_REQUEST,
    "authentication_error": FaultKind.AUTH,
    "billing_error": FaultKind.BILLING,
    "permission_error": FaultKind.PERMISSION,
    "not_found_error": FaultKind.NOT_FOUND,
    "conflict_error": FaultKind.CONFLICT,
    "request_too_large": FaultKind.TOO_LARGE,
    "rate_limit_error": FaultKind.RATE_LIMIT,
    "api_error": FaultKind.SERVER,
    "timeout_error": FaultKind.TIMEOUT,
    "overloaded_error": FaultKind.OVERLOADED,
}

_PROMPT_TOO_LONG: Final = "prompt is too long: "  # clients look for the vendor's own words


_BODY: Final = msgspec.json.Decoder(ErrorBody)

_ERROR: Final[msgspec.json.Decoder[ErrorIn | str | None]] = msgspec.json.Decoder(
    ErrorIn | str | None
)


def decode_fault(status: int, body: bytes) -> Fault:
    """Return the fault in an error response of the vendor, a compatible server or a proxy."""
    body = unframed(body)
    page = html_fault(status, body)
    if page is not None:
        return page
    wire = decode_or_none(_BODY, body) or ErrorBody()
    error = wire.error
    if error is None:
        error = wire.message or wire.detail or text_of(status, body)
    return _fault(status, error)


def event_fault(raw: Raw) -> Fault:
    """Return what the error of a stream's event says."""
    error = decode_or_none(_ERROR, raw)
    return _fault(0, text_of(0, bytes(raw)) if error is None else error)


def _fault(status: int, error: ErrorIn | str) -> Fault:
    if isinstance(error, str):
        error = ErrorIn(message=error)
    number = error.code if isinstance(error.code, int) else 0
    status = status if status >= 400 else number
    kind = _BY_TYPE.get(error.type or "")
    if kind is None:
        kind = kind_of_status(status) if status >= 400 else FaultKind.SERVER
    message = message_of(error.message, error.type)
    if kind in VAGUE_KINDS and is_context_length(f"{error.code} {message}"):
        kind = FaultKind.CONTEXT_LENGTH
    code = error.code if isinstance(error.code, str) else ""
    if not code and error.details is not None:
        code = error.details.error_code or ""
    return bounded_fault(Fault(kind, message, status, code, retry_after=retry_after(message)))


# The vendor's SDK continues without a thread if an error has these details.
_NO_THREAD: Final = ErrorDetailsOut("thread_unsupported_request", ("thread",))


def encode_fault(fault: Fault, request_id: str) -> tuple[int, bytes]:
    """Return the status and the body that report a failure to a client."""
    status, _ = STATUS_AND_TYPE[fault.kind]
    return status, encode(ErrorBodyOut(_error_out(fault), request_id))


def error_event(fault: Fault) -> bytes:
    """Return the data of the event that ends a stream with a failure."""
    return encode(ErrorBodyOut(_error_out(fault)))


def _error_out(fault: Fault) -> ErrorOut:
    message = fault.message
    if fault.kind is FaultKind.CONTEXT_LENGTH and not message.startswith(_PROMPT_TOO_LONG):
        message = _PROMPT_TOO_LONG + message
    details = _NO_THREAD if fault.param == "thread" else None
    return ErrorOut(STATUS_AND_TYPE[fault.kind][1], with_param(message, fault.param), details)
