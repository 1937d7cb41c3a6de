"""The error body of Chat Completions and Responses, which is the same: status and body to a fault, and back.

Compatible servers write errors in many shapes; all of them are read here, whether they come as the body
of an error status or inside an answer that began well.
"""

from typing import Any, Final

import msgspec
from msgspec import Struct

from dragoman.dialects.decoding import decode
from dragoman.dialects.encoding import encode
from dragoman.dialects.failures import (
    VAGUE_KINDS,
    bounded_fault,
    excerpt,
    html_fault,
    is_context_length,
    kind_of_status,
    message_of,
    retry_after,
    text_of,
    unframed,
)
from dragoman.errors import MalformedError
from dragoman.turn.events import Fault, FaultKind
from dragoman.wire.json_values import read_float
from dragoman.wire.surrogates import join_surrogates

_ANY: Final[msgspec.json.Decoder[Any]] = msgspec.json.Decoder(Any, float_hook=read_float)
_MAX_CAUSE_CHARS: Final = 500

# The vendors' own words for what went wrong, as code or type, where they say more than a status.
_WORDS: Final[dict[str, FaultKind]] = {
    "invalid_prompt": FaultKind.BAD_REQUEST,
    "invalid_value": FaultKind.BAD_REQUEST,
    "previous_response_not_found": FaultKind.BAD_REQUEST,
    "string_above_max_length": FaultKind.BAD_REQUEST,
    "unsupported_parameter": FaultKind.BAD_REQUEST,
    "unsupported_value": FaultKind.BAD_REQUEST,
    "context_length_exceeded": FaultKind.CONTEXT_LENGTH,
    "exceed_context_size_error": FaultKind.CONTEXT_LENGTH,
    "bio_policy": FaultKind.CONTENT_POLICY,
    "content_filter": FaultKind.CONTENT_POLICY,
    "content_policy_violation": FaultKind.CONTENT_POLICY,
    "cyber_policy": FaultKind.CONTENT_POLICY,
    "misalignment_policy_violation": FaultKind.CONTENT_POLICY,
    "authentication_error": FaultKind.AUTH,
    "invalid_api_key": FaultKind.AUTH,
    "billing_error": FaultKind.BILLING,
    "exceeded_current_quota_error": FaultKind.BILLING,
    "insufficient_quota": FaultKind.BILLING,
    "usage_not_included": FaultKind.BILLING,
    "data_residency_mismatch": FaultKind.PERMISSION,
    "permission_denied": FaultKind.PERMISSION,
    "permission_error": FaultKind.PERMISSION,
    "unsupported_country_region_territory": FaultKind.PERMISSION,
    "model_not_found": FaultKind.NOT_FOUND,
    "not_found_error": FaultKind.NOT_FOUND,
    "conflict": FaultKind.CONFLICT,
    "request_too_large": FaultKind.TOO_LARGE,
    "rate_limit_error": FaultKind.RATE_LIMIT,
    "rate_limit_exceeded": FaultKind.RATE_LIMIT,
    "rate_limit_reached_error": FaultKind.RATE_LIMIT,
    "engine_overloaded_error": FaultKind.OVERLOADED,
    "overloaded_error": FaultKind.OVERLOADED,
    "server_is_overloaded": FaultKind.OVERLOADED,
    "slow_down": FaultKind.OVERLOADED,
    "timeout": FaultKind.TIMEOUT,
    "timeout_error": FaultKind.TIMEOUT,
    "vector_store_timeout": FaultKind.TIMEOUT,
    "upstream_empty": FaultKind.UPSTREAM_BAD,
    "upstream_error": FaultKind.UPSTREAM_BAD,
    "upstream_html": FaultKind.UPSTREAM_UNUSABLE,
    "upstream_malformed": FaultKind.UPSTREAM_BAD,
    "upstream_truncated": FaultKind.UPSTREAM_BAD,
    "upstream_unusable": FaultKind.UPSTREAM_UNUSABLE,
    "gateway_error": FaultKind.GATEWAY,
}
# Words that say no more than a status does: they count where there is none.
_WEAK_WORDS: Final[dict[str, FaultKind]] = {
    "badrequesterror": FaultKind.BAD_REQUEST,
    "invalid_request_error": FaultKind.BAD_REQUEST,
    "api_error": FaultKind.SERVER,
    "internal_server_error": FaultKind.SERVER,
    "internalservererror": FaultKind.SERVER,
    "server_error": FaultKind.SERVER,
}
# What may turn out to be about a prompt that does not fit, once the message is read.
_VAGUE_KINDS: Final = VAGUE_KINDS | {FaultKind.UPSTREAM_BAD}
_VAGUE_STATUSES: Final = frozenset({0, 400, 413, 422, 500})


# --- reading --------------------------------------------------------------------------------------


def decode_fault(status: int, body: bytes) -> Fault:
    """Read the answer to a failed request, or with a status that is none an error inside an answer."""
    body = unframed(body)
    page = html_fault(status, body)
    return page or _fault(_decoded(body), status, text_of(status, body))


def error_fault(raw: bytes) -> Fault:
    """Read the value of an answer's `error`: an object or a string."""
    return _fault({"error": _decoded(raw)}, 0, text_of(0, raw))


def find_fault(body: bytes) -> Fault | None:
    """Return the failure that an answer reports, None if it reports none."""
    value = _first(_decoded(body))
    if not isinstance(value, dict) or not any(map(value.get, ("error", "detail", "message"))):
        return None
    return _fault(value, 0, excerpt(body))


def _decoded(data: bytes) -> Any:
    try:
        return decode(_ANY, data)
    except MalformedError:
        return None


def _first(value: Any) -> Any:
    while isinstance(value, list) and value:
        value = value[0]
    return value


def _fault(value: Any, status: int, otherwise: str) -> Fault:
    """Return the fault that a decoded error reports, with the message `otherwise` if it has none."""
    value = _first(value)
    outer = value if isinstance(value, dict) else {}
    reported = outer.get("error") or outer.get("detail") or value
    error = _first(reported)
    inner = error if isinstance(error, dict) else {}
    message = message_of(_complaints(reported), _message(inner, outer, error), otherwise)
    if status < 400:
        status = _status(inner) or _status(outer)
    code = _word(inner.get("code")) or _word(outer.get("code"))
    kind = _kind(status, (code, _word(inner.get("type")), _word(outer.get("type"))), message)
    param = _word(inner.get("param"))
    return bounded_fault(Fault(kind, message, status, code, param, retry_after(message)))


def _message(inner: dict[str, Any], outer: dict[str, Any], error: Any) -> str:
    for holder in (inner, outer):
        for name in ("message", "msg", "detail"):
            found = holder.get(name)
            if isinstance(found, str) and found:
                return join_surrogates(found + _cause(inner))
    return join_surrogates(error) if isinstance(error, str) else ""


def _complaints(reported: Any) -> str:
    """Return what a FastAPI server finds wrong with each field of a request."""
    complaints = []
    for one in reported if isinstance(reported, list) else ():
        if isinstance(one, dict) and isinstance(one.get("msg"), str):
            place = one.get("loc")
            field = ".".join(map(str, place)) if isinstance(place, list) else ""
            complaints.append(f"{field}: {one['msg']}" if field else one["msg"])
    return join_surrogates("; ".join(complaints))


def _cause(error: dict[str, Any]) -> str:
    """Return the original error that an intermediate vendor got from the vendor behind it."""
    metadata = error.get("metadata")
    raw = metadata.get("raw") if isinstance(metadata, dict) else None
    return f": {raw[:_MAX_CAUSE_CHARS]}" if isinstance(raw, str) and raw else ""


def _status(error: dict[str, Any]) -> int:
    for name in ("code", "status", "status_code"):
        found = error.get(name)
        if isinstance(found, str) and found.isascii() and found.isdecimal():
            found = int(found[:4])
        if isinstance(found, int) and 400 <= found <= 599:
            return found
    return 0


def _word(value: Any) -> str:
    """Return a vendor's code or type; empty if it only repeats an HTTP status."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or _status({"code": value}):
        return ""
    return join_surrogates(value)


def _is_image_code(word: str) -> bool:
    """Return whether a code is about an image that the model was to look at; there are many."""
    return "image" in word and word.replace("_", "a").isalnum()


def _kind(status: int, words: tuple[str, ...], message: str) -> FaultKind:
    """Return the kind of a failure: by its words (a code first), by the status, by vague words."""
    words = tuple(word.lower() for word in words)
    kind = next((_WORDS[word] for word in words if word in _WORDS), None)
    if kind is None and _is_image_code(words[0]):
        kind = FaultKind.BAD_REQUEST
    if kind is None and not status:
        kind = next((_WEAK_WORDS[word] for word in words if word in _WEAK_WORDS), None)
    if kind is None:
        kind = kind_of_status(status)
    vague = kind in _VAGUE_KINDS and status in _VAGUE_STATUSES
    return FaultKind.CONTEXT_LENGTH if vague and is_context_length(message) else kind


# --- writing --------------------------------------------------------------------------------------


class _ErrorForm(Struct, frozen=True):
    """How a kind is reported to a client."""

    status: int
    type: str
    code: str | None
    own_code: bool = False  # the fault's own code, if it has one, says more


_ANSWERS: Final[dict[FaultKind, _ErrorForm]] = {
    FaultKind.BAD_REQUEST: _ErrorForm(400, "invalid_request_error", None, own_code=True),
    FaultKind.CONTEXT_LENGTH: _ErrorForm(400, "invalid_request_error", "context_length_exceeded"),
    FaultKind.CONTENT_POLICY: _ErrorForm(
        400, "invalid_request_error", "content_policy_violation", own_code=True
    ),
    FaultKind.AUTH: _ErrorForm(401, "authentication_error", "invalid_api_key"),
    # OpenAI sends 429, which the AI SDK, opencode and Qwen Code retry for a minute.
    FaultKind.BILLING: _ErrorForm(402, "insufficient_quota", "insufficient_quota"),
    FaultKind.PERMISSION: _ErrorForm(403, "permission_error", None),
    FaultKind.NOT_FOUND: _ErrorForm(404, "invalid_request_error", "model_not_found"),
    FaultKind.CONFLICT: _ErrorForm(409, "conflict", None),
    FaultKind.TOO_LARGE: _ErrorForm(413, "invalid_request_error", "request_too_large"),
    FaultKind.RATE_LIMIT: _ErrorForm(429, "rate_limit_exceeded", "rate_limit_exceeded"),
    FaultKind.SERVER: _ErrorForm(500, "server_error", None),
    FaultKind.UPSTREAM_BAD: _ErrorForm(502, "server_error", "upstream_error", own_code=True),
    # No tested agent retries this status and type; opencode and Continue retry any `server_error`.
    FaultKind.UPSTREAM_UNUSABLE: _ErrorForm(424, "upstream_unusable", None, own_code=True),
    FaultKind.OVERLOADED: _ErrorForm(503, "server_error", "server_is_overloaded"),
    FaultKind.TIMEOUT: _ErrorForm(504, "server_error", "timeout"),
    FaultKind.GATEWAY: _ErrorForm(500, "server_error", "gateway_error"),
}


# What was not found, where it was no model.
_NO_MODELS: Final = frozenset(
    {
        "unknown_url",
        "response_not_found",
        "audio_not_found",
        "container_not_found",
        "conversation_not_found",
        "file_not_found",
        "item_not_found",
        "prompt_not_found",
        "skill_not_found",
        "vector_store_not_found",
    }
)


class _Error(Struct, frozen=True):
    """An error, in the order the vendor writes it."""

    message: str
    type: str
    param: str | None
    code: str | None


class _Body(Struct, frozen=True):
    error: _Error


_OVERLOADED_STATUS: Final = 529  # of Anthropic; other hosts use it too


def encode_fault(
    fault: Fault,
    request_id: str,  # noqa: ARG001 -- goes into a header
    *,
    code: str = "",
) -> tuple[int, bytes]:
    """Return the HTTP status and body that report a failure to a client; `code` replaces the usual one.

    An upstream's 529 stays: Qwen Code gives up after it, and retries a 503 for minutes.
    """
    status = fault.status if fault.status == _OVERLOADED_STATUS else _ANSWERS[fault.kind].status
    return status, encode_error(fault, code=code)


def encode_error(fault: Fault, *, code: str = "") -> bytes:
    """Return the error body, which is also an event in streams of Chat Completions."""
    answer = _ANSWERS[fault.kind]
    own = answer.own_code or fault.code in _NO_MODELS
    code = code or (fault.code if own else "") or answer.code or ""
    return encode(_Body(_Error(fault.message, answer.type, fault.param or None, code or None)))
