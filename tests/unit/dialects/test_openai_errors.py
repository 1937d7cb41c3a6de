"""The error body of Chat Completions and Responses, both ways."""

import msgspec
import pytest

from dragoman.dialects import chat, responses
from dragoman.dialects.dialect import Dialect
from dragoman.dialects.openai_errors import decode_fault, encode_fault, error_fault, find_fault
from dragoman.turn.events import Fault, FaultKind

KINDS = [
    (FaultKind.BAD_REQUEST, 400, "invalid_request_error", None),
    (FaultKind.CONTEXT_LENGTH, 400, "invalid_request_error", "context_length_exceeded"),
    (FaultKind.CONTENT_POLICY, 400, "invalid_request_error", "content_policy_violation"),
    (FaultKind.AUTH, 401, "authentication_error", "invalid_api_key"),
    (FaultKind.BILLING, 402, "insufficient_quota", "insufficient_quota"),
    (FaultKind.PERMISSION, 403, "permission_error", None),
    (FaultKind.NOT_FOUND, 404, "invalid_request_error", "model_not_found"),
    (FaultKind.CONFLICT, 409, "conflict", None),
    (FaultKind.TOO_LARGE, 413, "invalid_request_error", "request_too_large"),
    (FaultKind.RATE_LIMIT, 429, "rate_limit_exceeded", "rate_limit_exceeded"),
    (FaultKind.SERVER, 500, "server_error", None),
    (FaultKind.UPSTREAM_BAD, 502, "server_error", "upstream_error"),
    (FaultKind.UPSTREAM_UNUSABLE, 424, "upstream_unusable", None),
    (FaultKind.OVERLOADED, 503, "server_error", "server_is_overloaded"),
    (FaultKind.TIMEOUT, 504, "server_error", "timeout"),
    (FaultKind.GATEWAY, 500, "server_error", "gateway_error"),
]


def body(**error: object) -> bytes:
    return msgspec.json.encode({"error": error})


@pytest.mark.parametrize("dialect", [chat.DIALECT, responses.DIALECT], ids=lambda one: one.name)
def test_both_dialects_have_this_body(dialect: Dialect) -> None:
    same = [kind for kind in FaultKind if kind is not FaultKind.OVERLOADED]

    assert decode_fault is dialect.decode_fault
    for fault in (Fault(kind, "m", code="some_code") for kind in same):
        assert encode_fault(fault, "")[1] == dialect.encode_fault(fault, "")[1]


# --- writing --------------------------------------------------------------------------------------


def test_every_kind_is_in_the_table() -> None:
    assert set(FaultKind) == {row[0] for row in KINDS}


@pytest.mark.parametrize(("kind", "status", "word", "code"), KINDS)
def test_every_kind_has_its_status_type_and_code(
    kind: FaultKind, status: int, word: str, code: str | None
) -> None:
    answered, data = encode_fault(Fault(kind, "why", param="$.model"), "req_1")

    error = {"message": "why", "type": word, "param": "$.model", "code": code}
    assert status == answered
    assert {"error": error} == msgspec.json.decode(data)


@pytest.mark.parametrize("kind", list(FaultKind))
def test_every_kind_is_understood_again(kind: FaultKind) -> None:
    status, data = encode_fault(Fault(kind, "why"), "")

    assert kind == decode_fault(status, data).kind


@pytest.mark.parametrize(
    ("kind", "code"),
    [
        (FaultKind.BAD_REQUEST, "tool_result_orphaned"),
        (FaultKind.BAD_REQUEST, "previous_response_not_found"),
        (FaultKind.CONTENT_POLICY, "cyber_policy"),
        (FaultKind.UPSTREAM_BAD, "upstream_truncated"),
    ],
)
def test_p_7_own_codes_and_paths_reach_the_client(kind: FaultKind, code: str) -> None:
    fault = Fault(kind, "no", code=code, param="$.messages[2]")

    error = msgspec.json.decode(encode_fault(fault, "")[1])["error"]

    assert (code, "$.messages[2]") == (error["code"], error["param"])


def test_code_that_means_less_than_the_kind_is_not_reported() -> None:
    fault = Fault(FaultKind.OVERLOADED, "busy", code="overloaded_error")

    assert b'"code":"server_is_overloaded"' in encode_fault(fault, "")[1]


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "data", "kind"),
    [
        (400, body(message="m", type="invalid_request_error", code=None), FaultKind.BAD_REQUEST),
        (404, body(message="m", type="invalid_request_error", code=None), FaultKind.NOT_FOUND),
        (401, body(message="m", type="invalid_request_error"), FaultKind.AUTH),
        (
            401,
            body(message="m", type="invalid_request_error", code="invalid_api_key"),
            FaultKind.AUTH,
        ),
        (402, body(message="Insufficient Balance"), FaultKind.BILLING),
        (409, body(message="m"), FaultKind.CONFLICT),
        (413, body(message="m"), FaultKind.TOO_LARGE),
        (429, body(message="m", type="insufficient_quota"), FaultKind.BILLING),
        (429, body(message="m", type="exceeded_current_quota_error"), FaultKind.BILLING),
        (429, body(message="m", type="requests", code=None), FaultKind.RATE_LIMIT),
        (429, body(message="m", type="requests", code="rate_limit_exceeded"), FaultKind.RATE_LIMIT),
        (400, body(message="m", code="invalid_image_url"), FaultKind.BAD_REQUEST),
        (0, body(message="m", code="image_parse_error"), FaultKind.BAD_REQUEST),
        (0, body(message="m", code="cyber_policy"), FaultKind.CONTENT_POLICY),
        (500, body(message="m", code="invalid_prompt"), FaultKind.BAD_REQUEST),
        (500, body(message="m", type="invalid_request_error"), FaultKind.SERVER),
        (503, body(message="m", type="server_error"), FaultKind.OVERLOADED),
        (503, body(message="m", code="slow_down"), FaultKind.OVERLOADED),
        (504, body(message="m", type="server_error"), FaultKind.TIMEOUT),
        (529, b"", FaultKind.OVERLOADED),
        (504, b"<html>gateway</html>", FaultKind.TIMEOUT),
        (418, b"{}", FaultKind.BAD_REQUEST),
        (599, b"null", FaultKind.SERVER),
        (502, b'[{"error":{"message":"m"}}]', FaultKind.UPSTREAM_BAD),
        (
            400,
            b'[{"error":{"code":400,"message":"bad","status":"INVALID_ARGUMENT"}}]',
            FaultKind.BAD_REQUEST,
        ),
        (500, b'{"error":"text"}', FaultKind.SERVER),
        (422, b'{"detail":[{"loc":["body"]}]}', FaultKind.BAD_REQUEST),
    ],
)
def test_s12_s13_error_body_is_read_whatever_its_shape(
    status: int, data: bytes, kind: FaultKind
) -> None:
    fault = decode_fault(status, data)

    assert (kind, status) == (fault.kind, fault.status)
    assert fault.message


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (
            b'{"object":"error","message":"m","code":429}',
            Fault(FaultKind.RATE_LIMIT, "m", 429),
        ),
        (
            b'{"code":40003,"message":"m","data":null}',
            Fault(FaultKind.UPSTREAM_BAD, "m", code="40003"),
        ),
        (b'{"error":{"message":"m","code":"529"}}', Fault(FaultKind.OVERLOADED, "m", 529)),
        (b'{"error":"m","status":503}', Fault(FaultKind.OVERLOADED, "m", 503)),
        (b'{"error":"m"}', Fault(FaultKind.UPSTREAM_BAD, "m")),
        (b'"m"', Fault(FaultKind.UPSTREAM_BAD, "m")),
        (b'{"error":{"message":"m","type":"BadRequestError"}}', Fault(FaultKind.BAD_REQUEST, "m")),
        (
            b'{"error":{"message":"m","code":"server_error"}}',
            Fault(FaultKind.SERVER, "m", code="server_error"),
        ),
        (
            b'{"type":"error","code":"odd","message":"m","param":"input"}',
            Fault(FaultKind.UPSTREAM_BAD, "m", code="odd", param="input"),
        ),
        (b'{"error":{"code":true}}', Fault(FaultKind.UPSTREAM_BAD, '{"error":{"code":true}}')),
    ],
)
def test_s12_error_inside_an_answer_is_read_whatever_its_shape(
    data: bytes, expected: Fault
) -> None:
    assert expected == decode_fault(0, data) == decode_fault(200, data)


@pytest.mark.parametrize(
    ("status", "data", "kind"),
    [
        (400, body(message="m", code="context_length_exceeded"), FaultKind.CONTEXT_LENGTH),
        (400, body(message="the maximum context length is 8 tokens"), FaultKind.CONTEXT_LENGTH),
        (413, body(message="prompt is too long: 9 > 8"), FaultKind.CONTEXT_LENGTH),
        (500, b'{"error":"exceeds the available context size"}', FaultKind.CONTEXT_LENGTH),
        (0, body(message="input is too long"), FaultKind.CONTEXT_LENGTH),
        (
            400,
            body(message="exceeds the context window", code="invalid_prompt"),
            FaultKind.CONTEXT_LENGTH,
        ),
        (
            400,
            body(message="see the context window docs", code="content_filter"),
            FaultKind.CONTENT_POLICY,
        ),
        (404, body(message="see the context window docs"), FaultKind.NOT_FOUND),
        (502, body(message="see the context window docs"), FaultKind.UPSTREAM_BAD),
    ],
)
def test_prompt_that_does_not_fit_is_known_by_code_or_words(
    status: int, data: bytes, kind: FaultKind
) -> None:
    assert kind == decode_fault(status, data).kind


def test_param_code_and_delay_are_kept() -> None:
    data = body(
        message="Please try again in 250ms.", type="requests", code="invalid_value", param="tools"
    )

    fault = decode_fault(400, data)

    assert ("invalid_value", "tools", 0.25) == (fault.code, fault.param, fault.retry_after)


def test_type_is_not_taken_for_a_code() -> None:
    assert "" == decode_fault(400, body(message="m", type="ValidationError")).code


def test_each_complaint_of_a_fastapi_server_is_reported() -> None:
    complaints = [
        {"loc": ["body", "messages", 0], "msg": "field required", "input": {"secret": 1}},
        {"msg": "value is not a list"},
        "odd",
    ]

    fault = decode_fault(422, msgspec.json.encode({"detail": complaints}))

    assert "body.messages.0: field required; value is not a list" == fault.message


@pytest.mark.parametrize("detail", ["Not Found", {"message": "Not Found"}])
def test_detail_of_a_fastapi_server_is_the_message(detail: object) -> None:
    fault = decode_fault(404, msgspec.json.encode({"detail": detail}))

    assert (FaultKind.NOT_FOUND, "Not Found") == (fault.kind, fault.message)


def test_cause_behind_a_middleman_is_reported() -> None:
    data = body(message="Provider returned error", code=400, metadata={"raw": "input is too long"})

    fault = decode_fault(400, data)

    assert "Provider returned error: input is too long" == fault.message
    assert FaultKind.CONTEXT_LENGTH == fault.kind


def test_half_a_character_in_a_message_can_be_written() -> None:
    fault = decode_fault(500, rb'{"error":{"message":"a\ud83d"}}')

    assert "a\ufffd" == fault.message
    assert "a\ufffd".encode() in encode_fault(fault, "")[1]


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"message":"m","detail":"d"}', Fault(FaultKind.UPSTREAM_BAD, "m")),
        (b'"m"', Fault(FaultKind.UPSTREAM_BAD, "m")),
        (b"{}", Fault(FaultKind.UPSTREAM_BAD, "{}")),
    ],
)
def test_error_of_an_answer_is_read_by_itself(raw: bytes, expected: Fault) -> None:
    assert expected == error_fault(raw)


@pytest.mark.parametrize(
    "data", [b"no JSON", b"[]", b'"text"', b"{}", b'{"error":null}', b'{"id":"resp_1"}']
)
def test_answer_that_reports_no_failure_is_none(data: bytes) -> None:
    assert find_fault(data) is None


@pytest.mark.parametrize(
    "data", [b'[{"error":{"message":"m"}}]', b'{"detail":"m"}', b'{"message":"m"}']
)
def test_answer_that_reports_a_failure_is_one(data: bytes) -> None:
    assert Fault(FaultKind.UPSTREAM_BAD, "m") == find_fault(data)
