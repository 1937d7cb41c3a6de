"""Failures: HTTP error bodies, `error` events and `response.failed`, both ways.

Three tables decide: what a code says, what an HTTP status says, and how a kind is told to a client.
"""

import re
from typing import Final

import msgspec
from msgspec import Struct

from dragoman.dialects.surrogates import mended
from dragoman.turn.events import Fault, FaultKind

# What codes and types say, wherever they stand.
_KINDS: Final[dict[str, FaultKind]] = {
    "authentication_error": FaultKind.AUTH,
    "bio_policy": FaultKind.CONTENT_POLICY,
    "conflict": FaultKind.CONFLICT,
    "content_filter": FaultKind.CONTENT_POLICY,
    "content_policy_violation": FaultKind.CONTENT_POLICY,
    "context_length_exceeded": FaultKind.CONTEXT_LENGTH,
    "cyber_policy": FaultKind.CONTENT_POLICY,
    "data_residency_mismatch": FaultKind.PERMISSION,
    "exceeded_current_quota_error": FaultKind.BILLING,
    "gateway_error": FaultKind.GATEWAY,
    "insufficient_quota": FaultKind.BILLING,
    "invalid_api_key": FaultKind.AUTH,
    "invalid_prompt": FaultKind.BAD_REQUEST,
    "invalid_request_error": FaultKind.BAD_REQUEST,
    "invalid_value": FaultKind.BAD_REQUEST,
    "misalignment_policy_violation": FaultKind.CONTENT_POLICY,
    "model_not_found": FaultKind.NOT_FOUND,
    "not_found_error": FaultKind.NOT_FOUND,
    "overloaded_error": FaultKind.OVERLOADED,
    "permission_error": FaultKind.PERMISSION,
    "previous_response_not_found": FaultKind.BAD_REQUEST,
    "rate_limit_error": FaultKind.RATE_LIMIT,
    "rate_limit_exceeded": FaultKind.RATE_LIMIT,
    "request_too_large": FaultKind.TOO_LARGE,
    "server_error": FaultKind.SERVER,
    "server_is_overloaded": FaultKind.OVERLOADED,
    "slow_down": FaultKind.OVERLOADED,
    "string_above_max_length": FaultKind.BAD_REQUEST,
    "timeout": FaultKind.TIMEOUT,
    "unsupported_country_region_territory": FaultKind.PERMISSION,
    "unsupported_parameter": FaultKind.BAD_REQUEST,
    "unsupported_value": FaultKind.BAD_REQUEST,
    "upstream_error": FaultKind.UPSTREAM_BAD,
    "usage_not_included": FaultKind.BILLING,
    "vector_store_timeout": FaultKind.TIMEOUT,
}
# Those of them that `response.error.code` may have: agents choose what to do by them.
_STREAM_CODES: Final = frozenset(
    {
        "bio_policy",
        "context_length_exceeded",
        "cyber_policy",
        "data_residency_mismatch",
        "insufficient_quota",
        "invalid_prompt",
        "misalignment_policy_violation",
        "rate_limit_exceeded",
        "server_error",
        "server_is_overloaded",
        "slow_down",
        "usage_not_included",
        "vector_store_timeout",
    }
)
# Codes about an image that the model was to look at.
_IMAGE_CODE: Final = re.compile(r"(invalid_|unsupported_|empty_|failed_to_download_)?\w*image\w*")

_STATUSES: Final[dict[int, FaultKind]] = {
    400: FaultKind.BAD_REQUEST,
    401: FaultKind.AUTH,
    402: FaultKind.BILLING,
    403: FaultKind.PERMISSION,
    404: FaultKind.NOT_FOUND,
    408: FaultKind.TIMEOUT,
    409: FaultKind.CONFLICT,
    413: FaultKind.TOO_LARGE,
    422: FaultKind.BAD_REQUEST,
    429: FaultKind.RATE_LIMIT,
    500: FaultKind.SERVER,
    502: FaultKind.UPSTREAM_BAD,
    503: FaultKind.OVERLOADED,
    504: FaultKind.TIMEOUT,
    529: FaultKind.OVERLOADED,
}
_CONTEXT_TEXT: Final = re.compile(
    r"context_length_exceeded|maximum context length|prompt is too long|context window"
    r"|exceeds the available context size|input is too long",
    re.IGNORECASE,
)
# Kinds that may turn out to be about the context's length, once the message is read.
_VAGUE: Final = frozenset(
    {FaultKind.BAD_REQUEST, FaultKind.TOO_LARGE, FaultKind.SERVER, FaultKind.UPSTREAM_BAD}
)
_TRY_AGAIN: Final = re.compile(r"try again in ([0-9]+(?:\.[0-9]+)?) ?(ms|s)\b", re.IGNORECASE)
_EXCERPT_CHARS: Final = 500  # of a body that is no error object


class Told(Struct, frozen=True):
    """How a kind of fault is told to a client."""

    status: int
    type: str
    code: str | None
    stream_code: str  # in `response.error.code`


_TOLD: Final[dict[FaultKind, Told]] = {
    FaultKind.BAD_REQUEST: Told(400, "invalid_request_error", None, "invalid_prompt"),
    FaultKind.CONTEXT_LENGTH: Told(
        400, "invalid_request_error", "context_length_exceeded", "context_length_exceeded"
    ),
    FaultKind.CONTENT_POLICY: Told(
        400, "invalid_request_error", "content_policy_violation", "invalid_prompt"
    ),
    FaultKind.AUTH: Told(401, "authentication_error", "invalid_api_key", "server_error"),
    FaultKind.BILLING: Told(429, "insufficient_quota", "insufficient_quota", "insufficient_quota"),
    FaultKind.PERMISSION: Told(403, "permission_error", None, "server_error"),
    FaultKind.NOT_FOUND: Told(404, "invalid_request_error", "model_not_found", "invalid_prompt"),
    FaultKind.CONFLICT: Told(409, "conflict", None, "server_error"),
    FaultKind.TOO_LARGE: Told(413, "invalid_request_error", "request_too_large", "invalid_prompt"),
    FaultKind.RATE_LIMIT: Told(
        429, "rate_limit_exceeded", "rate_limit_exceeded", "rate_limit_exceeded"
    ),
    FaultKind.SERVER: Told(500, "server_error", None, "server_error"),
    FaultKind.UPSTREAM_BAD: Told(502, "server_error", "upstream_error", "server_error"),
    FaultKind.OVERLOADED: Told(503, "server_error", "server_is_overloaded", "server_is_overloaded"),
    FaultKind.TIMEOUT: Told(504, "server_error", "timeout", "server_error"),
    FaultKind.GATEWAY: Told(500, "server_error", "gateway_error", "server_error"),
}
# Kinds whose own code says more than the table's.
_OWN_CODE: Final = frozenset(
    {FaultKind.BAD_REQUEST, FaultKind.CONTENT_POLICY, FaultKind.UPSTREAM_BAD}
)


class _Error(Struct, frozen=True):
    message: str
    type: str
    param: str | None
    code: str | None


class _ErrorBody(Struct, frozen=True):
    error: _Error


class StreamError(Struct, frozen=True):
    """The `error` of a failed response."""

    code: str
    message: str


# --- reading ------------------------------------------------------------------------------------


def decode_fault(status: int, body: bytes) -> Fault:
    """Read an error body, whatever its shape."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        value = None
    fault = find_fault(value, status)
    if fault is not None:
        return fault
    text = body[:_EXCERPT_CHARS].decode("utf-8", "replace").strip()
    return _fault(status, text or f"HTTP status {status} with an empty body", "", "", "")


def find_fault(value: object, status: int = 0) -> Fault | None:
    """Return the failure that a JSON value tells: nested, flat, a bare string, or the first of a list."""
    if isinstance(value, list) and value:
        value = value[0]
    if not isinstance(value, dict):
        return None
    error = value.get("error")
    if isinstance(error, str) and error:
        return _fault(
            status or _number(value.get("status")), error, _word(value.get("code")), "", ""
        )
    if isinstance(error, dict):
        return error_fault(error, status)
    if value.get("detail"):  # FastAPI servers
        detail = value["detail"]
        text = detail if isinstance(detail, str) else msgspec.json.encode(detail).decode()
        return _fault(status, text, "", "", "")
    if isinstance(value.get("message"), str):
        return error_fault(value, status)
    return None


def error_fault(error: dict[str, object], status: int = 0) -> Fault:
    """Return the failure that an error object tells."""
    code = error.get("code")
    number = _number(code) or _number(error.get("status")) or _number(error.get("status_code"))
    message = error.get("message")
    return _fault(
        status or number,
        message if isinstance(message, str) and message else "the upstream gave no reason",
        "" if _number(code) else _word(code),
        _word(error.get("type")),
        _word(error.get("param")),
    )


def _fault(status: int, message: str, code: str, kind: str, param: str) -> Fault:
    wait = _TRY_AGAIN.search(message)
    seconds = None
    if wait:
        seconds = float(wait[1]) / (1000 if wait[2].lower() == "ms" else 1)
    return Fault(
        _kind(status, message, code, kind),
        mended(message),
        status,
        mended(code or ("" if kind in _KINDS else kind)),
        mended(param),
        seconds,
    )


def _kind(status: int, message: str, code: str, type_: str) -> FaultKind:
    kind = _KINDS.get(code)
    if kind is None and _IMAGE_CODE.fullmatch(code):
        kind = FaultKind.BAD_REQUEST
    # `invalid_request_error` is the type of nearly every 4xx: the status says more.
    if kind is None and type_ != "invalid_request_error":
        kind = _KINDS.get(type_)
    if kind is None:
        kind = _STATUSES.get(status)
    if kind is None:
        kind = _KINDS.get(type_)
    if kind is None and 400 <= status < 500:
        kind = FaultKind.BAD_REQUEST
    if kind is None:
        kind = FaultKind.SERVER if status >= 500 or not status else FaultKind.UPSTREAM_BAD
    if kind in _VAGUE and _CONTEXT_TEXT.search(message):
        return FaultKind.CONTEXT_LENGTH
    return kind


def _number(value: object) -> int:
    """Return a value that is an HTTP status of a failure, else 0."""
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) == 3:
        value = int(value)
    return value if isinstance(value, int) and 400 <= value < 600 else 0


def _word(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


# --- writing ------------------------------------------------------------------------------------


def encode_fault(fault: Fault, _request_id: str = "") -> tuple[int, bytes]:
    """Return the HTTP status and body that tell `fault`; the dialect has the id in a header only."""
    told = _TOLD[fault.kind]
    code = told.code
    if fault.kind in _OWN_CODE and fault.code:
        code = fault.code
    error = _Error(fault.message, told.type, fault.param or None, code)
    return told.status, msgspec.json.encode(_ErrorBody(error))


def stream_error(fault: Fault) -> StreamError:
    """Return the `error` of the failed response that tells `fault`."""
    code = _TOLD[fault.kind].stream_code
    if fault.code in _STREAM_CODES and _KINDS[fault.code] is fault.kind:
        code = fault.code  # a word of this dialect that says more
    message = fault.message
    # Agents read the delay from the text.
    if fault.retry_after is not None and not _TRY_AGAIN.search(message):
        message = f"{message.rstrip('.')}. Please try again in {fault.retry_after:g}s."
    return StreamError(code, message)
