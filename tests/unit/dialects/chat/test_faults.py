"""Errors, both ways."""

import msgspec
import pytest

from dragoman.dialects.chat import DIALECT
from dragoman.turn.events import Fault, FaultKind

KINDS = [
    (FaultKind.BAD_REQUEST, 400, "invalid_request_error", None),
    (FaultKind.CONTEXT_LENGTH, 400, "invalid_request_error", "context_length_exceeded"),
    (FaultKind.CONTENT_POLICY, 400, "invalid_request_error", "content_policy_violation"),
    (FaultKind.AUTH, 401, "authentication_error", "invalid_api_key"),
    (FaultKind.BILLING, 429, "insufficient_quota", "insufficient_quota"),
    (FaultKind.PERMISSION, 403, "permission_error", None),
    (FaultKind.NOT_FOUND, 404, "invalid_request_error", "model_not_found"),
    (FaultKind.CONFLICT, 409, "conflict", None),
    (FaultKind.TOO_LARGE, 413, "invalid_request_error", "request_too_large"),
    (FaultKind.RATE_LIMIT, 429, "rate_limit_exceeded", "rate_limit_exceeded"),
    (FaultKind.SERVER, 500, "server_error", None),
    (FaultKind.UPSTREAM_BAD, 502, "server_error", "upstream_error"),
    (FaultKind.OVERLOADED, 503, "server_error", "server_is_overloaded"),
    (FaultKind.TIMEOUT, 504, "server_error", "timeout"),
    (FaultKind.GATEWAY, 500, "server_error", "gateway_error"),
]


@pytest.mark.parametrize(("kind", "status", "word", "code"), KINDS)
def test_every_kind_has_its_status_type_and_code(
    kind: FaultKind, status: int, word: str, code: str | None
) -> None:
    answered, body = DIALECT.encode_fault(Fault(kind, "why", param="$.model"), "req_1")

    error = {"message": "why", "type": word, "param": "$.model", "code": code}
    assert status == answered
    assert {"error": error} == msgspec.json.decode(body)


@pytest.mark.parametrize(("kind", "status", "word", "code"), KINDS)
def test_every_kind_is_understood_again(
    kind: FaultKind, status: int, word: str, code: str | None
) -> None:
    answered, body = DIALECT.encode_fault(Fault(kind, "why"), "")

    assert kind == DIALECT.decode_fault(answered, body).kind


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (
            400,
            '{"error":{"message":"This model\'s maximum context length is 8 tokens"}}',
            FaultKind.CONTEXT_LENGTH,
        ),
        (413, '{"error":{"message":"prompt is too long: 9 > 8"}}', FaultKind.CONTEXT_LENGTH),
        (500, '{"error":"the input exceeds the available context size"}', FaultKind.CONTEXT_LENGTH),
        (404, '{"error":{"message":"see the context window docs"}}', FaultKind.NOT_FOUND),
        (429, '{"error":{"message":"x","type":"insufficient_quota"}}', FaultKind.BILLING),
        (429, '{"error":{"message":"x","type":"requests","code":null}}', FaultKind.RATE_LIMIT),
        (402, '{"error":{"message":"Insufficient Balance"}}', FaultKind.BILLING),
        (422, '{"detail":[{"loc":["body","x"],"msg":"field required"}]}', FaultKind.BAD_REQUEST),
        (503, "<html>busy</html>", FaultKind.OVERLOADED),
        (529, "", FaultKind.OVERLOADED),
        (418, "teapot", FaultKind.BAD_REQUEST),
        (599, "null", FaultKind.SERVER),
        (
            400,
            '[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]',
            FaultKind.BAD_REQUEST,
        ),
    ],
)
def test_s12_s13_errors_of_servers(status: int, body: str, kind: FaultKind) -> None:
    fault = DIALECT.decode_fault(status, body.encode())

    assert (kind, status) == (fault.kind, fault.status)
    assert fault.message


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please try again in 20s.", 20),
        ("Please try again in 1.5s.", 1.5),
        ("Please try again in 6m0s.", 360),
        ("try again in 500ms", 0.5),
        ("Retry after 30 seconds", 30),
        ("retry in 2m", 120),
        ("try again later", None),
    ],
)
def test_waiting_time_is_read_from_the_message(message: str, seconds: float | None) -> None:
    body = msgspec.json.encode({"error": {"message": message, "code": "rate_limit_exceeded"}})

    assert seconds == DIALECT.decode_fault(429, body).retry_after


def test_cause_behind_a_middleman_is_told() -> None:
    error = {
        "message": "Provider returned error",
        "code": 400,
        "metadata": {"raw": "input is too long"},
    }
    fault = DIALECT.decode_fault(400, msgspec.json.encode({"error": error}))

    assert "Provider returned error: input is too long" == fault.message
    assert FaultKind.CONTEXT_LENGTH == fault.kind


def test_s13_text_that_is_no_json_is_cut_short() -> None:
    fault = DIALECT.decode_fault(500, b"<p>" + b"x " * 2000)

    assert 500 == len(fault.message)


def test_half_a_character_in_a_message_can_be_written() -> None:
    fault = DIALECT.decode_fault(500, rb'{"error":{"message":"a\ud83d"}}')

    assert "a�" == fault.message
    DIALECT.encode_fault(fault, "")


def test_p_7_own_codes_and_paths_reach_the_client() -> None:
    fault = Fault(FaultKind.BAD_REQUEST, "no", code="tool_result_orphaned", param="$.messages[2]")

    error = msgspec.json.decode(DIALECT.encode_fault(fault, "")[1])["error"]

    assert ("tool_result_orphaned", "$.messages[2]") == (error["code"], error["param"])
