"""The `error` of a failed response."""

import msgspec
import pytest

from dragoman.dialects.responses import DIALECT
from dragoman.dialects.responses.errors import stream_error
from dragoman.turn.events import Fault, FaultKind


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Fault(FaultKind.BAD_REQUEST, "m"), "invalid_prompt"),
        (Fault(FaultKind.CONTEXT_LENGTH, "m"), "context_length_exceeded"),
        (Fault(FaultKind.CONTENT_POLICY, "m", code="content_policy_violation"), "invalid_prompt"),
        (Fault(FaultKind.CONTENT_POLICY, "m", code="bio_policy"), "bio_policy"),
        (Fault(FaultKind.AUTH, "m", code="invalid_api_key"), "invalid_prompt"),
        (Fault(FaultKind.BILLING, "m"), "insufficient_quota"),
        (Fault(FaultKind.BILLING, "m", code="usage_not_included"), "usage_not_included"),
        (Fault(FaultKind.PERMISSION, "m"), "invalid_prompt"),
        (Fault(FaultKind.PERMISSION, "m", code="slow_down"), "invalid_prompt"),
        (Fault(FaultKind.NOT_FOUND, "m"), "invalid_prompt"),
        (Fault(FaultKind.CONFLICT, "m"), "server_error"),
        (Fault(FaultKind.TOO_LARGE, "m"), "invalid_prompt"),
        (Fault(FaultKind.RATE_LIMIT, "m"), "rate_limit_exceeded"),
        (Fault(FaultKind.SERVER, "m"), "server_error"),
        (Fault(FaultKind.UPSTREAM_BAD, "m", code="upstream_truncated"), "server_error"),
        (Fault(FaultKind.UPSTREAM_UNUSABLE, "m", code="upstream_tls"), "invalid_prompt"),
        (Fault(FaultKind.OVERLOADED, "m", code="slow_down"), "server_error"),
        (Fault(FaultKind.OVERLOADED, "m", code="server_is_overloaded"), "server_error"),
        (Fault(FaultKind.OVERLOADED, "m", code="529"), "server_error"),
        (Fault(FaultKind.TIMEOUT, "m"), "server_error"),
        (Fault(FaultKind.GATEWAY, "m"), "server_error"),
    ],
)
def test_code_of_a_failed_response_is_one_that_agents_know(fault: Fault, code: str) -> None:
    assert code == stream_error(fault).code


@pytest.mark.parametrize("kind", [FaultKind.BILLING, FaultKind.UPSTREAM_UNUSABLE])
def test_permanent_failure_has_the_one_status_that_codex_does_not_retry(kind: FaultKind) -> None:
    assert 400 == DIALECT.encode_fault(Fault(kind, "m"), "req_1")[0]


@pytest.mark.parametrize("status", [503, 529])
@pytest.mark.parametrize("code", ["", "server_is_overloaded", "slow_down", "overloaded_error"])
def test_overload_is_a_status_after_which_codex_retries(code: str, status: int) -> None:
    fault = Fault(FaultKind.OVERLOADED, "the model is busy", status, code)

    sent, body = DIALECT.encode_fault(fault, "req_1")
    error = msgspec.json.decode(body)["error"]

    assert status == sent
    assert ("the model is busy", "server_error", "server_error") == (
        error["message"],
        error["type"],
        error["code"],
    )


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Slow down.", "Slow down. Please try again in 1.5s."),
        ("Retry after 1.5 seconds", "Retry after 1.5 seconds. Please try again in 1.5s."),
        ("Please try again in 1.5s.", "Please try again in 1.5s."),
    ],
)
def test_delay_is_reported_in_words_that_agents_read(message: str, expected: str) -> None:
    error = stream_error(Fault(FaultKind.RATE_LIMIT, message, retry_after=1.5))

    assert expected == error.message
