"""How failures are written for Responses clients: the `error` of a failed response, and HTTP bodies."""

import re
from typing import Final

from dragoman.dialects import openai_errors
from dragoman.dialects.responses.schema import StreamError
from dragoman.turn.events import Fault, FaultKind

# Codex retries after this code.  After `server_is_overloaded` and `slow_down`, OpenAI's own codes for
# overload, it reports that the model is at capacity and gives up, in streams and in HTTP bodies alike.
_RETRIED: Final = "server_error"
# After this one it gives up at once and shows the message.
_FATAL: Final = "invalid_prompt"

# Agents choose what to do by the code.  A fault keeps its own code if it is one of its kind's; otherwise
# it gets the first.
_CODES: Final[dict[FaultKind, tuple[str, ...]]] = {
    FaultKind.BAD_REQUEST: ("invalid_prompt",),
    FaultKind.CONTEXT_LENGTH: ("context_length_exceeded",),
    FaultKind.CONTENT_POLICY: (
        "invalid_prompt",
        "bio_policy",
        "cyber_policy",
        "misalignment_policy_violation",
    ),
    FaultKind.AUTH: (_FATAL,),
    FaultKind.BILLING: ("insufficient_quota", "usage_not_included"),
    FaultKind.PERMISSION: (_FATAL, "data_residency_mismatch"),
    FaultKind.NOT_FOUND: ("invalid_prompt",),
    FaultKind.CONFLICT: ("server_error",),
    FaultKind.TOO_LARGE: ("invalid_prompt",),
    FaultKind.RATE_LIMIT: ("rate_limit_exceeded",),
    FaultKind.SERVER: ("server_error",),
    FaultKind.UPSTREAM_BAD: ("server_error",),
    FaultKind.UPSTREAM_UNUSABLE: (_FATAL,),
    FaultKind.OVERLOADED: (_RETRIED,),
    FaultKind.TIMEOUT: ("server_error", "vector_store_timeout"),
    FaultKind.GATEWAY: ("server_error",),
}

_PERMANENT: Final = frozenset({FaultKind.BILLING, FaultKind.UPSTREAM_UNUSABLE})

# The one wording of a delay that agents read.
_TRY_AGAIN: Final = re.compile(r"try again in [0-9]+(?:\.[0-9]+)? ?(?:ms|s)\b", re.IGNORECASE)


def stream_error(fault: Fault) -> StreamError:
    """Return the `error` of the failed response that reports `fault`."""
    codes = _CODES[fault.kind]
    message = fault.message
    if fault.retry_after is not None and not _TRY_AGAIN.search(message):
        message = f"{message.rstrip('.')}. Please try again in {fault.retry_after:g}s."
    return StreamError(fault.code if fault.code in codes else codes[0], message)


def encode_fault(fault: Fault, request_id: str) -> tuple[int, bytes]:
    """Return the HTTP status and body for a failure: those of Chat Completions, except where Codex needs others.

    Codex retries every status of a permanent failure but 400.
    """
    code = _RETRIED if fault.kind is FaultKind.OVERLOADED else ""
    status, body = openai_errors.encode_fault(fault, request_id, code=code)
    return (400 if fault.kind in _PERMANENT else status), body
