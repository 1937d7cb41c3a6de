"""Reads and writes failures of the Gemini API: error bodies, and the error event that ends a stream."""

import re
from collections.abc import Sequence
from typing import Final

import msgspec
from msgspec import Raw

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
from dragoman.dialects.gemini.schema import ErrorBody, ErrorDetail, ErrorIn
from dragoman.turn.events import UNSIGNED_CALLS, Fault, FaultKind
from dragoman.wire.json_values import decode_any

# The HTTP status and the name of the status that a client gets, by kind.
STATUS_AND_NAME: Final[dict[FaultKind, tuple[int, str]]] = {
    FaultKind.BAD_REQUEST: (400, "INVALID_ARGUMENT"),
    FaultKind.CONTEXT_LENGTH: (400, "INVALID_ARGUMENT"),
    FaultKind.CONTENT_POLICY: (400, "INVALID_ARGUMENT"),
    FaultKind.AUTH: (401, "UNAUTHENTICATED"),
    # Gemini CLI retries a 429 ten times; an empty account does not fill itself.
    FaultKind.BILLING: (400, "FAILED_PRECONDITION"),
    FaultKind.PERMISSION: (403, "PERMISSION_DENIED"),
    FaultKind.NOT_FOUND: (404, "NOT_FOUND"),
    FaultKind.CONFLICT: (409, "ABORTED"),
    FaultKind.TOO_LARGE: (413, "INVALID_ARGUMENT"),
    FaultKind.RATE_LIMIT: (429, "RESOURCE_EXHAUSTED"),
    FaultKind.SERVER: (500, "INTERNAL"),
    FaultKind.UPSTREAM_BAD: (502, "INTERNAL"),
    FaultKind.UPSTREAM_UNUSABLE: (424, "FAILED_PRECONDITION"),  # no SDK retries a 424
    FaultKind.OVERLOADED: (503, "UNAVAILABLE"),
    FaultKind.TIMEOUT: (504, "DEADLINE_EXCEEDED"),
    FaultKind.GATEWAY: (500, "INTERNAL"),
}

# What an upstream means by the names of its statuses; without one, the number decides.
_BY_NAME: Final[dict[str, FaultKind]] = {
    "INVALID_ARGUMENT": FaultKind.BAD_REQUEST,
    "OUT_OF_RANGE": FaultKind.BAD_REQUEST,
    "UNIMPLEMENTED": FaultKind.BAD_REQUEST,
    "FAILED_PRECONDITION": FaultKind.BILLING,
    "UNAUTHENTICATED": FaultKind.AUTH,
    "PERMISSION_DENIED": FaultKind.PERMISSION,
    "NOT_FOUND": FaultKind.NOT_FOUND,
    "ABORTED": FaultKind.CONFLICT,
    "ALREADY_EXISTS": FaultKind.CONFLICT,
    "RESOURCE_EXHAUSTED": FaultKind.RATE_LIMIT,
    "CANCELLED": FaultKind.SERVER,
    "INTERNAL": FaultKind.SERVER,
    "UNKNOWN": FaultKind.SERVER,
    "DATA_LOSS": FaultKind.SERVER,
    "UNAVAILABLE": FaultKind.OVERLOADED,
    "DEADLINE_EXCEEDED": FaultKind.TIMEOUT,
}
_BAD_REQUEST: Final = "type.googleapis.com/google.rpc.BadRequest"
_RETRY: Final = "type.googleapis.com/google.rpc.RetryInfo"
_TOO_LONG: Final = "The input token count exceeds the maximum number of tokens allowed"
_BAD_KEY: Final = re.compile(r"API_KEY_INVALID|API key not valid", re.IGNORECASE)
_CONTEXT: Final = re.compile(r"input token count|maximum number of tokens", re.IGNORECASE)
# Quotas that no short wait fills again.
_USED_UP: Final = re.compile(r"PerDay|limit: 0\b")
_DELAY: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)(ms|s)")
_MAX_DETAILS: Final = 32  # entries of an error's details that are read
# Bytes of them for a client; of a longer text the gateway would cut off the end.
_MOST_KEPT: Final = 4096

_BODY: Final[msgspec.json.Decoder[ErrorBody]] = msgspec.json.Decoder(ErrorBody)
_BODIES: Final[msgspec.json.Decoder[list[ErrorBody]]] = msgspec.json.Decoder(list[ErrorBody])
_ERROR: Final[msgspec.json.Decoder[ErrorIn | str | None]] = msgspec.json.Decoder(
    ErrorIn | str | None
)
_DETAIL: Final = msgspec.json.Decoder(ErrorDetail)


def decode_fault(status: int, body: bytes) -> Fault:
    """Return the fault in an error response of Google, a compatible server or a proxy.

    Without `alt=sse` the error of a stream is in a list.
    """
    body = unframed(body)
    page = html_fault(status, body)
    if page is not None:
        return page
    if body.lstrip()[:1] == b"[":
        wire = next(iter(decode_or_none(_BODIES, body) or ()), None)
    else:
        wire = decode_or_none(_BODY, body)
    error = None if wire is None else wire.error
    return _fault(status, text_of(status, body) if error is None else error)


def event_fault(raw: Raw) -> Fault:
    """Return what the error of a stream's chunk says."""
    error = decode_or_none(_ERROR, raw)
    return _fault(0, text_of(0, bytes(raw)) if error is None else error)


def _fault(status: int, error: ErrorIn | str) -> Fault:
    if isinstance(error, str):
        error = ErrorIn(message=error)
    number = error.code if isinstance(error.code, int) else 0
    status = status if status >= 400 else number
    given = (error.details or ())[:_MAX_DETAILS]
    details = [decode_or_none(_DETAIL, raw) or ErrorDetail() for raw in given]
    message = message_of(error.message, error.status)
    kind = _BY_NAME.get((error.status or "").upper())
    if kind is None or (kind is FaultKind.BAD_REQUEST and status == 413):
        kind = kind_of_status(status) if status >= 400 else FaultKind.SERVER
    reasons = " ".join(filter(None, (detail.reason for detail in details)))
    if kind in VAGUE_KINDS:
        if _BAD_KEY.search(f"{reasons} {message}"):
            kind = FaultKind.AUTH
        elif _CONTEXT.search(message) or is_context_length(message):
            kind = FaultKind.CONTEXT_LENGTH
    quotas = " ".join(one.quota_id or "" for detail in details for one in detail.violations or ())
    if kind is FaultKind.RATE_LIMIT and _USED_UP.search(f"{quotas} {message}"):
        kind = FaultKind.BILLING
    unsigned = kind is FaultKind.BAD_REQUEST and "thought_signature" in message
    fields = [one.field for detail in details for one in detail.fieldViolations or ()]
    return bounded_fault(
        Fault(
            kind,
            message,
            status,
            UNSIGNED_CALLS if unsigned else error.status or "",
            next((field for field in fields if field), ""),
            _delay(details) or retry_after(message),
            _kept(given),
        )
    )


def _kept(given: Sequence[Raw]) -> str:
    """Return an error's details for a client of Google's, as far as they fit; `retry_after` says when to retry."""
    fitting: list[Raw] = []
    left = _MOST_KEPT
    for raw in given:
        if len(bytes(raw)) <= left:
            left -= len(bytes(raw))
            fitting.append(raw)
    # Decoded, because escapes could hide a secret from the gateway.
    kept = [one for one in _objects(encode(fitting)) if one.get("@type") != _RETRY]
    return encode(kept).decode() if kept else ""


def _objects(details: str | bytes) -> list[dict[str, object]]:
    try:
        found = decode_any(details)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return []
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _delay(details: list[ErrorDetail]) -> float | None:
    for detail in details:
        found = _DELAY.fullmatch(detail.retryDelay or "")
        if found is not None:
            return float(found[1]) * (0.001 if found[2] == "ms" else 1.0)
    return None


def encode_fault(fault: Fault, request_id: str) -> tuple[int, bytes]:  # noqa: ARG001 -- Google's errors have no place for it
    """Return the status and the body that report a failure to a client."""
    status, _ = STATUS_AND_NAME[fault.kind]
    return status, error_object(fault)


def error_object(fault: Fault) -> bytes:
    """Return the JSON object of a failure: an error body, and the data of the event that ends a stream."""
    status, name = STATUS_AND_NAME[fault.kind]
    message = fault.message
    if fault.kind is FaultKind.CONTEXT_LENGTH and not _CONTEXT.search(message):
        message = f"{_TOO_LONG}: {message}"
    details = _objects(fault.details)
    if fault.param:
        message = with_param(message, fault.param)
        violation = {"field": fault.param, "description": message}
        if all(one.get("@type") != _BAD_REQUEST for one in details):
            details.append({"@type": _BAD_REQUEST, "fieldViolations": [violation]})
    if fault.retry_after is not None and fault.kind is FaultKind.RATE_LIMIT:
        delay = f"{fault.retry_after:.3f}".rstrip("0").rstrip(".")
        details.append({"@type": _RETRY, "retryDelay": f"{delay}s"})
    error: dict[str, object] = {"code": status, "message": message, "status": name}
    if details:
        error["details"] = details
    return encode({"error": error})
