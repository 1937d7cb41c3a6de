"""What failures say in any dialect: their status, and the words that servers use for want of a code."""

import re
from typing import Final

from msgspec import structs

from dragoman.limits import MAX_ERROR_CHARS, MAX_ERROR_WORD_CHARS
from dragoman.turn.events import Fault, FaultKind

# The kinds of HTTP statuses that say more than client or server error.
KIND_OF_STATUS: Final[dict[int, FaultKind]] = {
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
# Servers have no common code for a prompt that does not fit.
_CONTEXT: Final = re.compile(
    r"context_length_exceeded|maximum context length|prompt is too long|context window"
    r"|exceeds the available context size|input is too long",
    re.IGNORECASE,
)
_DELAY: Final = re.compile(
    r"(?:try again|retry)(?: after| in)? (?:(?P<minutes>[0-9]{1,9})m)?"
    r"(?P<number>[0-9]{1,9}(?:\.[0-9]+)?) ?(?:(?P<unit>ms|s|m)|(?P<long>milli|sec|min)[a-z]*)\b",
    re.IGNORECASE,
)
_SECONDS: Final = {"ms": 0.001, "milli": 0.001, "s": 1.0, "sec": 1.0, "m": 60.0, "min": 60.0}
_DATA: Final = re.compile(rb"^data: ?(.*?)\r?$", re.MULTILINE)
_EXCERPT_CHARS: Final = 500  # of a body in no known error format, shown in the message
_EXCERPT_BYTES: Final = 8000  # that are looked at: pages of proxies are indented


def kind_of_status(status: int) -> FaultKind:
    """Return the kind of an HTTP status.  One below 400 contradicts the error that came with it."""
    kind = KIND_OF_STATUS.get(status)
    if kind is not None:
        return kind
    if status >= 500:
        return FaultKind.SERVER
    return FaultKind.BAD_REQUEST if status >= 400 else FaultKind.UPSTREAM_BAD


def is_context_length(message: str) -> bool:
    """Say whether a message reports a prompt that exceeds the context."""
    return _CONTEXT.search(message) is not None


def retry_after(message: str) -> float | None:
    """Return the seconds after which a message asks to try again, None if it does not say."""
    found = _DELAY.search(message)
    if found is None:
        return None
    unit = _SECONDS[(found["unit"] or found["long"]).lower()]
    return int(found["minutes"] or 0) * 60 + float(found["number"]) * unit


def excerpt(body: bytes) -> str:
    """Return the beginning of an answer that cannot be read, on one line."""
    return " ".join(body[:_EXCERPT_BYTES].decode("utf-8", "replace").split())[:_EXCERPT_CHARS]


def bounded_fault(fault: Fault) -> Fault:
    """Return a peer's failure with its message, code and parameter truncated to their limits."""
    if (
        len(fault.message) <= MAX_ERROR_CHARS
        and max(len(fault.code), len(fault.param)) <= MAX_ERROR_WORD_CHARS
    ):
        return fault
    return structs.replace(
        fault,
        message=fault.message[:MAX_ERROR_CHARS],
        code=fault.code[:MAX_ERROR_WORD_CHARS],
        param=fault.param[:MAX_ERROR_WORD_CHARS],
    )


def unframed(body: bytes) -> bytes:
    """Return the error of a body that is written as an event, any other body as it is.

    LiteLLM answers so when a stream was asked for and nothing of it began: errors/litellm_error_as_event.
    """
    data = _DATA.search(body) if body.startswith((b"data:", b"event:")) else None
    return body if data is None else data[1]


def text_of(status: int, body: bytes) -> str:
    """Return the message of a failure whose body has none that can be read."""
    nothing = f"with status {status} and no body" if status else "with an error and no message"
    return excerpt(body) or f"upstream answered {nothing}"
