"""Failures, both ways."""

from typing import Any

import msgspec
import pytest

from dragoman.dialects.anthropic.errors import STATUS_AND_TYPE, decode_fault, encode_fault
from dragoman.turn.events import Fault, FaultKind


@pytest.mark.parametrize(
    ("kind", "status", "wire_type"),
    [
        (FaultKind.BAD_REQUEST, 400, "invalid_request_error"),
        (FaultKind.CONTENT_POLICY, 400, "invalid_request_error"),
        (FaultKind.AUTH, 401, "authentication_error"),
        (FaultKind.BILLING, 402, "billing_error"),
        (FaultKind.PERMISSION, 403, "permission_error"),
        (FaultKind.NOT_FOUND, 404, "not_found_error"),
        (FaultKind.CONFLICT, 409, "conflict_error"),
        (FaultKind.TOO_LARGE, 413, "request_too_large"),
        (FaultKind.RATE_LIMIT, 429, "rate_limit_error"),
        (FaultKind.SERVER, 500, "api_error"),
        (FaultKind.UPSTREAM_BAD, 502, "api_error"),
        (FaultKind.UPSTREAM_UNUSABLE, 424, "api_error"),
        (FaultKind.OVERLOADED, 529, "overloaded_error"),
        (FaultKind.TIMEOUT, 504, "timeout_error"),
        (FaultKind.GATEWAY, 500, "api_error"),
    ],
)
def test_p_8_p_9_fault_is_reported_with_status_and_type(
    kind: FaultKind, status: int, wire_type: str
) -> None:
    written, body = encode_fault(Fault(kind, "why"), "req_1")

    assert status == written
    assert {
        "type": "error",
        "error": {"type": wire_type, "message": "why"},
        "request_id": "req_1",
    } == msgspec.json.decode(body)


def test_every_kind_is_in_the_table() -> None:
    assert set(FaultKind) == set(STATUS_AND_TYPE)


@pytest.mark.parametrize("message", ["9 tokens > 5", "prompt is too long: 9 tokens > 5"])
def test_too_long_a_prompt_is_reported_in_the_vendors_words(message: str) -> None:
    status, body = encode_fault(Fault(FaultKind.CONTEXT_LENGTH, message), "")

    assert 400 == status
    assert {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 tokens > 5"},
    } == msgspec.json.decode(body)


@pytest.mark.parametrize("message", ["wrong type", "wrong type (at `$.messages[0]`)"])
def test_p_7_path_of_the_field_is_in_the_message_once(message: str) -> None:
    _, body = encode_fault(Fault(FaultKind.BAD_REQUEST, message, param="$.messages[0]"), "")

    assert "wrong type (at `$.messages[0]`)" == msgspec.json.decode(body)["error"]["message"]


def error(wire_type: str, message: str = "why", **fields: Any) -> bytes:
    return msgspec.json.encode(
        {"type": "error", "error": {"type": wire_type, "message": message, **fields}}
    )


@pytest.mark.parametrize(
    "kind",
    sorted(
        set(STATUS_AND_TYPE)
        - {
            FaultKind.CONTENT_POLICY,
            FaultKind.UPSTREAM_BAD,
            FaultKind.UPSTREAM_UNUSABLE,
            FaultKind.GATEWAY,
        }
    ),
)
def test_fault_that_was_reported_is_understood(kind: FaultKind) -> None:
    status, body = encode_fault(Fault(kind, "why"), "")

    assert kind is decode_fault(status, body).kind


@pytest.mark.parametrize(
    ("status", "body", "expected"),
    [
        (529, error("overloaded_error"), Fault(FaultKind.OVERLOADED, "why", 529)),
        (400, error("odd_error"), Fault(FaultKind.BAD_REQUEST, "why", 400)),
        (503, error("odd_error"), Fault(FaultKind.OVERLOADED, "why", 503)),
        (500, error("odd_error"), Fault(FaultKind.SERVER, "why", 500)),
        (
            400,
            error("invalid_request_error", "prompt is too long: 9 > 5"),
            Fault(FaultKind.CONTEXT_LENGTH, "prompt is too long: 9 > 5", 400),
        ),
        (
            500,
            b'{"error":{"code":500,"message":"exceeds the available context size","n_prompt_tokens":9}}',
            Fault(FaultKind.CONTEXT_LENGTH, "exceeds the available context size", 500),
        ),
        (
            400,
            b'{"error":{"code":"context_length_exceeded","message":"no"}}',
            Fault(FaultKind.CONTEXT_LENGTH, "no", 400, "context_length_exceeded"),
        ),
        (
            429,
            error("rate_limit_error", details={"error_code": "tokens_per_minute"}),
            Fault(FaultKind.RATE_LIMIT, "why", 429, "tokens_per_minute"),
        ),
        (
            429,
            error("rate_limit_error", "try again in 30 seconds"),
            Fault(FaultKind.RATE_LIMIT, "try again in 30 seconds", 429, retry_after=30),
        ),
        (404, b'{"detail":"Not Found"}', Fault(FaultKind.NOT_FOUND, "Not Found", 404)),
        (401, b'{"message":"no key"}', Fault(FaultKind.AUTH, "no key", 401)),
        (
            502,
            b"bad gateway",
            Fault(FaultKind.UPSTREAM_BAD, "bad gateway", 502),
        ),
        (504, b"", Fault(FaultKind.TIMEOUT, "upstream answered with status 504 and no body", 504)),
        (
            400,
            error("invalid_request_error", ""),
            Fault(FaultKind.BAD_REQUEST, "invalid_request_error", 400),
        ),
        (
            500,
            b'{"error":{}}',
            Fault(FaultKind.SERVER, "upstream reported an error without a message", 500),
        ),
        (0, b'{"error":{"code":429,"message":"slow"}}', Fault(FaultKind.RATE_LIMIT, "slow", 429)),
        (500, b"\xff", Fault(FaultKind.SERVER, "\ufffd", 500)),
    ],
)
def test_error_answer_of_anybody_is_understood(status: int, body: bytes, expected: Fault) -> None:
    assert expected == decode_fault(status, body)


def test_a_thread_that_nobody_holds_is_refused_in_words_that_clients_go_on_from() -> None:
    fault = Fault(FaultKind.BAD_REQUEST, "no", status=400, param="thread")

    _, body = encode_fault(fault, "req_1")

    error = msgspec.json.decode(body)["error"]
    assert {"error_code": "thread_unsupported_request", "unsupported": ["thread"]} == error[
        "details"
    ]
