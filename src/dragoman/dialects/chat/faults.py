"""Errors of Chat Completions: status and body to a fault, and back.

Compatible servers write errors in many shapes; all of them are read here, whether they come as the body
of an error status or inside an answer that began well.
"""

import re
from typing import Any, Final

import msgspec
from msgspec import Struct

from dragoman.dialects.decoding import decode
from dragoman.dialects.surrogates import mended
from dragoman.errors import Malformed
from dragoman.turn.events import Fault, FaultKind

_EXCERPT_CHARS: Final = 500
_ANY: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(Any)

# The vendor's own words for what went wrong, as code or type, where they say more than a status.
_WORDS: Final[dict[str, FaultKind]] = {
    "context_length_exceeded": FaultKind.CONTEXT_LENGTH,
    "exceed_context_size_error": FaultKind.CONTEXT_LENGTH,
    "content_policy_violation": FaultKind.CONTENT_POLICY,
    "content_filter": FaultKind.CONTENT_POLICY,
    "invalid_api_key": FaultKind.AUTH,
    "authentication_error": FaultKind.AUTH,
    "insufficient_quota": FaultKind.BILLING,
    "billing_error": FaultKind.BILLING,
    "permission_error": FaultKind.PERMISSION,
    "permission_denied": FaultKind.PERMISSION,
    "model_not_found": FaultKind.NOT_FOUND,
    "not_found_error": FaultKind.NOT_FOUND,
    "conflict": FaultKind.CONFLICT,
    "request_too_large": FaultKind.TOO_LARGE,
    "rate_limit_exceeded": FaultKind.RATE_LIMIT,
    "rate_limit_error": FaultKind.RATE_LIMIT,
    "rate_limit_reached_error": FaultKind.RATE_LIMIT,
    "server_is_overloaded": FaultKind.OVERLOADED,
    "slow_down": FaultKind.OVERLOADED,
    "overloaded_error": FaultKind.OVERLOADED,
    "engine_overloaded_error": FaultKind.OVERLOADED,
    "timeout": FaultKind.TIMEOUT,
    "timeout_error": FaultKind.TIMEOUT,
    "upstream_error": FaultKind.UPSTREAM_BAD,
    "upstream_truncated": FaultKind.UPSTREAM_BAD,
    "upstream_malformed": FaultKind.UPSTREAM_BAD,
    "upstream_empty": FaultKind.UPSTREAM_BAD,
    "gateway_error": FaultKind.GATEWAY,
}
# Words that say no more than a status does: they count where there is none.
_WEAK_WORDS: Final[dict[str, FaultKind]] = {
    "invalid_request_error": FaultKind.BAD_REQUEST,
    "badrequesterror": FaultKind.BAD_REQUEST,
    "server_error": FaultKind.SERVER,
    "api_error": FaultKind.SERVER,
    "internal_server_error": FaultKind.SERVER,
    "internalservererror": FaultKind.SERVER,
}
_STATUSES: Final[dict[int, FaultKind]] = {
    401: FaultKind.AUTH,
    402: FaultKind.BILLING,
    403: FaultKind.PERMISSION,
    404: FaultKind.NOT_FOUND,
    408: FaultKind.TIMEOUT,
    409: FaultKind.CONFLICT,
    413: FaultKind.TOO_LARGE,
    429: FaultKind.RATE_LIMIT,
    502: FaultKind.UPSTREAM_BAD,
    503: FaultKind.OVERLOADED,
    504: FaultKind.TIMEOUT,
    529: FaultKind.OVERLOADED,
}
# Wordings of a prompt that does not fit; servers have no common code for it.
_CONTEXT: Final = re.compile(
    r"context_length_exceeded|maximum context length|prompt is too long|context window"
    r"|exceeds the available context size|input is too long",
    re.IGNORECASE,
)
_CONTEXT_STATUSES: Final = frozenset({0, 400, 413, 422, 500})
_RETRY: Final = re.compile(
    r"(?:try again|retry)(?: after| in)? (?:(?P<minutes>\d+)m)?"
    r"(?P<number>\d+(?:\.\d+)?) ?(?P<unit>ms|milli|s|m)",
    re.IGNORECASE,
)
_UNITS: Final = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0}


class _Answer(Struct, frozen=True):
    """How a kind is told to a client."""

    status: int
    type: str
    code: str | None
    own_code: bool = False  # the fault's own code, if it has one, says more


_ANSWERS: Final[dict[FaultKind, _Answer]] = {
    FaultKind.BAD_REQUEST: _Answer(400, "invalid_request_error", None, own_code=True),
    FaultKind.CONTEXT_LENGTH: _Answer(400, "invalid_request_error", "context_length_exceeded"),
    FaultKind.CONTENT_POLICY: _Answer(400, "invalid_request_error", "content_policy_violation"),
    FaultKind.AUTH: _Answer(401, "authentication_error", "invalid_api_key"),
    FaultKind.BILLING: _Answer(429, "insufficient_quota", "insufficient_quota"),
    FaultKind.PERMISSION: _Answer(403, "permission_error", None),
    FaultKind.NOT_FOUND: _Answer(404, "invalid_request_error", "model_not_found"),
    FaultKind.CONFLICT: _Answer(409, "conflict", None),
    FaultKind.TOO_LARGE: _Answer(413, "invalid_request_error", "request_too_large"),
    FaultKind.RATE_LIMIT: _Answer(429, "rate_limit_exceeded", "rate_limit_exceeded"),
    FaultKind.SERVER: _Answer(500, "server_error", None),
    FaultKind.UPSTREAM_BAD: _Answer(502, "server_error", "upstream_error", own_code=True),
    FaultKind.OVERLOADED: _Answer(503, "server_error", "server_is_overloaded"),
    FaultKind.TIMEOUT: _Answer(504, "server_error", "timeout"),
    FaultKind.GATEWAY: _Answer(500, "server_error", "gateway_error"),
}


class _Error(Struct):
    """The body of an error, in the order the vendor writes it."""

    message: str
    type: str
    param: str | None
    code: str | None


def encode_fault(fault: Fault, request_id: str) -> tuple[int, bytes]:  # noqa: ARG001 -- goes into a header
    """Return the HTTP status and body that tell a client of this dialect."""
    return _ANSWERS[fault.kind].status, encode_error(fault)


def encode_error(fault: Fault) -> bytes:
    """Return the error object, which is the same in a body and in a stream."""
    answer = _ANSWERS[fault.kind]
    code = (fault.code if answer.own_code else "") or answer.code
    return msgspec.json.encode(
        {"error": _Error(mended(fault.message), answer.type, fault.param or None, code)}
    )


def decode_fault(status: int, body: bytes) -> Fault:
    """Read the answer to a failed request."""
    excerpt = " ".join(body.decode("utf-8", "replace").split())[:_EXCERPT_CHARS]
    try:
        value = decode(_ANY, body)
    except Malformed:
        value = None
    return _fault_of(value, status, excerpt or f"upstream answered {status} without a body")


def read_error(raw: bytes) -> Fault:
    """Read an error that stands inside an answer: an object, a string, or text that is no JSON."""
    return decode_fault(0, raw)


def finish_fault(reason: str) -> Fault:
    """Return the fault for an answer that ended, as its peer says, in an error."""
    message = f"the upstream ended the answer with `{reason}`"
    return Fault(FaultKind.UPSTREAM_BAD, message, code="upstream_error")


def _fault_of(value: Any, status: int, excerpt: str) -> Fault:
    """Return the fault that a decoded error tells; `status` is that of its answer, 0 inside one."""
    while isinstance(value, list) and value:
        value = value[0]
    outer = value if isinstance(value, dict) else {}
    error = outer.get("error") or outer.get("detail") or value
    while isinstance(error, list) and error:
        error = error[0]
    inner = error if isinstance(error, dict) else {}
    message = _message(inner, outer, error) or excerpt
    status = status or _status(inner) or _status(outer)
    code = _word(inner.get("code")) or _word(outer.get("code"))
    kind = _kind(status, (code, _word(inner.get("type")), _word(outer.get("type"))), message)
    return Fault(
        kind, message, status, code, _word(inner.get("param")), retry_after=_retry_after(message)
    )


def _message(inner: dict[str, Any], outer: dict[str, Any], error: Any) -> str:
    for holder in (inner, outer):
        for name in ("message", "msg", "detail"):
            found = holder.get(name)
            if isinstance(found, str) and found:
                return mended(found + _cause(inner))
    return mended(error) if isinstance(error, str) else ""


def _cause(error: dict[str, Any]) -> str:
    """Return what a vendor in the middle was told by the one behind it."""
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return f": {raw[:_EXCERPT_CHARS]}" if isinstance(raw, str) and raw else ""


def _status(error: dict[str, Any]) -> int:
    for name in ("code", "status", "status_code"):
        found = error.get(name)
        if isinstance(found, str) and found.isascii() and found.isdecimal():
            found = int(found[:4])
        if isinstance(found, int) and 400 <= found <= 599:
            return found
    return 0


def _word(value: Any) -> str:
    """Return a vendor's code or type; one that is a status says nothing more than that."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or _status({"code": value}):
        return ""
    return mended(value)


def _kind(status: int, words: tuple[str, ...], message: str) -> FaultKind:
    lowered = [word.lower() for word in words]
    for word in lowered:
        if word in _WORDS:
            return _WORDS[word]
    if status in _CONTEXT_STATUSES and _CONTEXT.search(message):
        return FaultKind.CONTEXT_LENGTH
    if status in _STATUSES:
        return _STATUSES[status]
    if status:
        return FaultKind.SERVER if status >= 500 else FaultKind.BAD_REQUEST
    return next(
        (_WEAK_WORDS[word] for word in lowered if word in _WEAK_WORDS), FaultKind.UPSTREAM_BAD
    )


def _retry_after(message: str) -> float | None:
    match = _RETRY.search(message)
    if match is None:
        return None
    return int(match["minutes"] or 0) * 60 + float(match["number"]) * _UNITS[match["unit"].lower()]
