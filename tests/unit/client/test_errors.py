"""From what went wrong to a stage."""

import pytest

from dragoman.client.errors import (
    STAGES,
    ClientError,
    as_fault,
    fault_error,
    peer_error,
    transport_error,
)
from dragoman.client.settings import Settings
from dragoman.errors import (
    IllegalOrderError,
    MalformedError,
    NotJsonError,
    TooLargeError,
    TruncatedError,
)
from dragoman.transport import TransportError
from dragoman.turn.events import Fault, FaultKind

SETTINGS = Settings("http://127.0.0.1:1", api_key="sk-secret")


@pytest.mark.parametrize(
    ("error", "broken", "stage", "code"),
    [
        (TooLargeError("max_calls", 5), "", "limit", "max_calls"),
        (TooLargeError("max_calls", 5), "sse", "limit", "max_calls"),
        (NotJsonError("x"), "json", "json", "upstream_malformed"),
        (NotJsonError("x"), "sse", "sse", "upstream_malformed"),
        (MalformedError("x"), "", "protocol", "upstream_malformed"),
        (IllegalOrderError(state="a", event="b"), "", "protocol", "upstream_malformed"),
        (TruncatedError("x"), "", "protocol", "upstream_malformed"),
    ],
)
def test_an_answer_that_its_reader_refuses(error, broken: str, stage: str, code: str) -> None:
    found = peer_error(error, broken)

    assert (stage, code, "upstream_bad") == (found.stage, found.code, found.kind)
    assert "server" in found.message


@pytest.mark.parametrize(
    ("stage", "code", "expected"),
    [
        ("connect", "upstream_unreachable", "connect"),
        ("connect", "connect_timeout", "timeout"),
        ("tls", "upstream_tls", "tls"),
        ("http", "upstream_closed", "http"),
        ("http", "max_headers", "limit"),
    ],
)
def test_a_connection_that_failed(stage, code: str, expected: str) -> None:
    found = transport_error(TransportError(stage, code, "why sk-secret"), SETTINGS)

    assert (expected, code) == (found.stage, found.code)
    assert "why [redacted]" == found.message


@pytest.mark.parametrize(
    ("fault", "broken", "stage"),
    [
        (Fault(FaultKind.UPSTREAM_BAD, "x", code="upstream_truncated"), "", "protocol"),
        (Fault(FaultKind.UPSTREAM_BAD, "x", code="upstream_truncated"), "sse", "sse"),
        (Fault(FaultKind.UPSTREAM_BAD, "x", code="upstream_malformed"), "json", "json"),
        (Fault(FaultKind.UPSTREAM_BAD, "x", code="invalid_arguments"), "", "json"),
        (Fault(FaultKind.UPSTREAM_BAD, "x", code="max_calls"), "", "limit"),
        (Fault(FaultKind.UPSTREAM_BAD, "x", code="upstream_error"), "", "http"),
        (Fault(FaultKind.UPSTREAM_BAD, "x", 502, "upstream_truncated"), "sse", "http"),
        (Fault(FaultKind.SERVER, "x", code="upstream_truncated"), "", "http"),
        (Fault(FaultKind.RATE_LIMIT, "x", 429, "slow_down", retry_after=2.0), "", "http"),
    ],
)
def test_an_answer_that_ended_with_a_fault(fault: Fault, broken: str, stage: str) -> None:
    found = fault_error(fault, SETTINGS, broken)

    assert stage == found.stage
    assert (fault.code, fault.kind, fault.status, fault.retry_after) == (
        found.code,
        found.kind,
        found.status,
        found.retry_after,
    )
    assert fault.message in found.message


@pytest.mark.parametrize("stage", STAGES)
def test_an_error_begins_with_its_stage(stage) -> None:
    assert f"{stage}: why" == str(ClientError(stage, "why"))


def test_an_error_becomes_the_ending_of_what_had_come() -> None:
    error = ClientError("timeout", "late", code="idle_timeout", kind="timeout", retry_after=1.0)

    assert Fault(FaultKind.TIMEOUT, "late", 0, "idle_timeout", "", 1.0) == as_fault(error)
    assert FaultKind.GATEWAY is as_fault(ClientError("cancelled", "closed")).kind
