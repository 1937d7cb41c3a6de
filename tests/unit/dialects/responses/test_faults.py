"""Failures, both ways."""

import msgspec
import pytest

from dragoman.dialects.responses.faults import decode_fault, encode_fault, stream_error
from dragoman.turn.events import Fault, FaultKind


def body(**error: object) -> bytes:
    return msgspec.json.encode({"error": error})


@pytest.mark.parametrize(
    ("status", "data", "kind"),
    [
        (400, body(message="m", type="invalid_request_error", code=None), FaultKind.BAD_REQUEST),
        (400, body(message="m", code="context_length_exceeded"), FaultKind.CONTEXT_LENGTH),
        (
            400,
            body(message="This model's maximum context length is 8192"),
            FaultKind.CONTEXT_LENGTH,
        ),
        (500, body(message="prompt is too long: 3 > 2"), FaultKind.CONTEXT_LENGTH),
        (
            401,
            body(message="m", type="invalid_request_error", code="invalid_api_key"),
            FaultKind.AUTH,
        ),
        (
            429,
            body(message="m", type="insufficient_quota", code="insufficient_quota"),
            FaultKind.BILLING,
        ),
        (429, body(message="m", type="requests", code="rate_limit_exceeded"), FaultKind.RATE_LIMIT),
        (404, body(message="m", type="invalid_request_error", code=None), FaultKind.NOT_FOUND),
        (409, body(message="m"), FaultKind.CONFLICT),
        (413, body(message="m"), FaultKind.TOO_LARGE),
        (400, body(message="m", code="invalid_image_url"), FaultKind.BAD_REQUEST),
        (503, body(message="m", type="server_error"), FaultKind.SERVER),
        (503, body(message="m", code="slow_down"), FaultKind.OVERLOADED),
        (529, b"", FaultKind.OVERLOADED),
        (504, b"<html>gateway</html>", FaultKind.TIMEOUT),
        (418, b"{}", FaultKind.BAD_REQUEST),
        (502, b'[{"error":{"message":"m"}}]', FaultKind.UPSTREAM_BAD),
        (500, b'{"error":"text"}', FaultKind.SERVER),
        (422, b'{"detail":[{"loc":["body"]}]}', FaultKind.BAD_REQUEST),
        (0, b'{"object":"error","message":"m","code":429}', FaultKind.RATE_LIMIT),
    ],
)
def test_s12_s13_error_body_is_read_whatever_its_shape(
    status: int, data: bytes, kind: FaultKind
) -> None:
    fault = decode_fault(status, data)

    assert kind == fault.kind
    assert fault.message


def test_delay_is_read_from_the_words() -> None:
    fault = decode_fault(
        429, body(message="Please try again in 250ms.", code="rate_limit_exceeded")
    )

    assert 0.25 == fault.retry_after


def test_param_and_code_are_kept() -> None:
    fault = decode_fault(
        400, body(message="m", type="invalid_request_error", code="invalid_value", param="tools")
    )

    assert ("invalid_value", "tools", 400) == (fault.code, fault.param, fault.status)


@pytest.mark.parametrize("kind", list(FaultKind))
def test_every_kind_survives_the_way_out_and_back(kind: FaultKind) -> None:
    status, data = encode_fault(Fault(kind, "m"), "req_1")

    read = decode_fault(status, data)

    same = {FaultKind.GATEWAY: FaultKind.GATEWAY}
    assert same.get(kind, kind) == read.kind


def test_own_codes_are_told() -> None:
    fault = Fault(
        FaultKind.BAD_REQUEST, "m", code="previous_response_not_found", param="previous_response_id"
    )

    status, data = encode_fault(fault, "")

    expected = {
        "message": "m",
        "type": "invalid_request_error",
        "param": "previous_response_id",
        "code": "previous_response_not_found",
    }
    assert (400, {"error": expected}) == (status, msgspec.json.decode(data))


@pytest.mark.parametrize(
    ("fault", "code"),
    [
        (Fault(FaultKind.RATE_LIMIT, "m"), "rate_limit_exceeded"),
        (Fault(FaultKind.OVERLOADED, "m", code="slow_down"), "slow_down"),
        (Fault(FaultKind.OVERLOADED, "m", code="529"), "server_is_overloaded"),
        (Fault(FaultKind.CONTENT_POLICY, "m", code="content_policy_violation"), "invalid_prompt"),
        (Fault(FaultKind.CONTENT_POLICY, "m", code="bio_policy"), "bio_policy"),
        (Fault(FaultKind.AUTH, "m", code="invalid_api_key"), "server_error"),
        (Fault(FaultKind.CONTEXT_LENGTH, "m"), "context_length_exceeded"),
        (Fault(FaultKind.BILLING, "m", code="usage_not_included"), "usage_not_included"),
    ],
)
def test_code_of_a_failed_response_is_one_that_agents_know(fault: Fault, code: str) -> None:
    assert code == stream_error(fault).code


def test_delay_is_told_in_words_that_agents_read() -> None:
    error = stream_error(Fault(FaultKind.RATE_LIMIT, "Slow down.", retry_after=1.5))

    assert "Slow down. Please try again in 1.5s." == error.message
