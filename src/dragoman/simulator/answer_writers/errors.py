"""The error types and codes of each dialect, by HTTP status."""

from typing import Final

from msgspec import Struct


class Words(Struct, frozen=True):
    """The names of a status: Messages' type, Chat's type and code, the code inside a Responses stream."""

    messages: str
    chat: str
    code: str | None
    response: str
    message: str


_WORDS: Final[dict[int, Words]] = {
    400: Words(
        "invalid_request_error",
        "invalid_request_error",
        None,
        "invalid_prompt",
        "the simulator refuses this request",
    ),
    401: Words(
        "authentication_error",
        "authentication_error",
        "invalid_api_key",
        "server_error",
        "the simulator does not know this key",
    ),
    402: Words(
        "billing_error",
        "insufficient_quota",
        "insufficient_quota",
        "insufficient_quota",
        "the simulator's quota is spent",
    ),
    403: Words(
        "permission_error",
        "permission_error",
        None,
        "server_error",
        "the simulator does not permit this",
    ),
    404: Words(
        "not_found_error",
        "invalid_request_error",
        "model_not_found",
        "invalid_prompt",
        "the simulator has no such model",
    ),
    409: Words(
        "conflict_error", "conflict", None, "server_error", "the simulator meets a conflict"
    ),
    413: Words(
        "request_too_large",
        "invalid_request_error",
        "request_too_large",
        "invalid_prompt",
        "the request is too large for the simulator",
    ),
    429: Words(
        "rate_limit_error",
        "rate_limit_exceeded",
        "rate_limit_exceeded",
        "rate_limit_exceeded",
        "the simulator's rate limit is reached",
    ),
    500: Words("api_error", "server_error", None, "server_error", "the simulator failed"),
    503: Words(
        "overloaded_error",
        "server_error",
        "server_is_overloaded",
        "server_is_overloaded",
        "the simulator is overloaded",
    ),
    504: Words(
        "timeout_error", "server_error", "timeout", "server_error", "the simulator timed out"
    ),
    529: Words(
        "overloaded_error",
        "server_error",
        "server_is_overloaded",
        "server_is_overloaded",
        "the simulator is overloaded",
    ),
}


def words(status: int) -> Words:
    """Return the names of a status; an unlisted one gets those of 400 or 500."""
    return _WORDS.get(status) or _WORDS[400 if status < 500 else 500]
