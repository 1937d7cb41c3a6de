"""Failures of Google and for Google's clients."""

import json

import pytest

from dragoman.dialects.gemini.errors import decode_fault, encode_fault, error_object
from dragoman.turn.events import Fault, FaultKind

RPC = "type.googleapis.com/google.rpc."


def body(code, status, message="m", **details):
    error = {"code": code, "message": message, "status": status}
    listed = [{"@type": f"{RPC}{name}", **fields} for name, fields in details.items()]
    return json.dumps({"error": error | ({"details": listed} if listed else {})}).encode()


@pytest.mark.parametrize(
    ("status", "sent", "kind"),
    [
        (400, body(400, "INVALID_ARGUMENT"), FaultKind.BAD_REQUEST),
        (400, body(400, "INVALID_ARGUMENT", "API key not valid."), FaultKind.AUTH),
        (
            400,
            body(400, "INVALID_ARGUMENT", ErrorInfo={"reason": "API_KEY_INVALID"}),
            FaultKind.AUTH,
        ),
        (
            400,
            body(400, "INVALID_ARGUMENT", "The input token count (9) exceeds the maximum number"),
            FaultKind.CONTEXT_LENGTH,
        ),
        (400, body(400, "FAILED_PRECONDITION"), FaultKind.BILLING),
        (401, body(401, "UNAUTHENTICATED"), FaultKind.AUTH),
        (403, body(403, "PERMISSION_DENIED"), FaultKind.PERMISSION),
        (404, body(404, "NOT_FOUND"), FaultKind.NOT_FOUND),
        (409, body(409, "ABORTED"), FaultKind.CONFLICT),
        (413, body(413, "INVALID_ARGUMENT"), FaultKind.TOO_LARGE),
        (429, body(429, "RESOURCE_EXHAUSTED"), FaultKind.RATE_LIMIT),
        (
            429,
            body(
                429,
                "RESOURCE_EXHAUSTED",
                QuotaFailure={"violations": [{"quotaId": "RequestsPerDayPerProject"}]},
            ),
            FaultKind.BILLING,
        ),
        (
            429,
            body(429, "RESOURCE_EXHAUSTED", "Quota exceeded for metric: x, limit: 0"),
            FaultKind.BILLING,
        ),
        (400, body(400, "INVALID_ARGUMENT", "missing a thought_signature"), FaultKind.BAD_REQUEST),
        (499, body(499, "CANCELLED"), FaultKind.SERVER),
        (500, body(500, "INTERNAL"), FaultKind.SERVER),
        (501, body(501, "UNIMPLEMENTED"), FaultKind.BAD_REQUEST),
        (503, body(503, "UNAVAILABLE"), FaultKind.OVERLOADED),
        (504, body(504, "DEADLINE_EXCEEDED"), FaultKind.TIMEOUT),
        (503, b"upstream connect error", FaultKind.OVERLOADED),
        (429, b"[" + body(429, "RESOURCE_EXHAUSTED") + b"]", FaultKind.RATE_LIMIT),
        (502, b'{"error":"bad gateway"}', FaultKind.UPSTREAM_BAD),
        (500, b'{"error":{"code":500,"details":[7,{"violations":7}]}}', FaultKind.SERVER),
    ],
)
def test_what_google_means(status, sent, kind):
    assert kind is decode_fault(status, sent).kind


def test_a_request_with_unsigned_calls_has_its_own_code():
    message = "Function call is missing a thought_signature in functionCall parts."

    assert "unsigned_calls" == decode_fault(400, body(400, "INVALID_ARGUMENT", message)).code
    assert "INTERNAL" == decode_fault(500, body(500, "INTERNAL", message)).code


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [
        (body(429, "RESOURCE_EXHAUSTED", RetryInfo={"retryDelay": "51.8s"}), 51.8),
        (body(429, "RESOURCE_EXHAUSTED", RetryInfo={"retryDelay": "900ms"}), 0.9),
        (body(429, "RESOURCE_EXHAUSTED", "Please retry in 3.2s."), 3.2),
        (body(429, "RESOURCE_EXHAUSTED"), None),
    ],
)
def test_when_to_try_again(sent, seconds):
    assert seconds == decode_fault(429, sent).retry_after


@pytest.mark.parametrize("kind", FaultKind)
def test_every_failure_has_a_status_and_returns_as_itself_or_its_nearest(kind):
    status, sent = encode_fault(Fault(kind, "why"), "req")
    error = json.loads(sent)["error"]
    back = decode_fault(status, sent)

    assert status == error["code"]
    assert "why" in error["message"]
    nearest = {
        FaultKind.CONTENT_POLICY: FaultKind.BAD_REQUEST,
        FaultKind.UPSTREAM_BAD: FaultKind.SERVER,
        FaultKind.UPSTREAM_UNUSABLE: FaultKind.BILLING,
        FaultKind.GATEWAY: FaultKind.SERVER,
    }
    assert nearest.get(kind, kind) is back.kind


@pytest.mark.parametrize(
    ("kind", "status", "word"),
    [
        (FaultKind.BAD_REQUEST, 400, "INVALID_ARGUMENT"),
        (FaultKind.CONTENT_POLICY, 400, "INVALID_ARGUMENT"),
        (FaultKind.CONTEXT_LENGTH, 400, "INVALID_ARGUMENT"),
        (FaultKind.CONFLICT, 409, "ABORTED"),
        (FaultKind.AUTH, 401, "UNAUTHENTICATED"),
        (FaultKind.PERMISSION, 403, "PERMISSION_DENIED"),
        (FaultKind.NOT_FOUND, 404, "NOT_FOUND"),
        (FaultKind.TOO_LARGE, 413, "INVALID_ARGUMENT"),
        (FaultKind.BILLING, 400, "FAILED_PRECONDITION"),
        (FaultKind.RATE_LIMIT, 429, "RESOURCE_EXHAUSTED"),
        (FaultKind.SERVER, 500, "INTERNAL"),
        (FaultKind.GATEWAY, 500, "INTERNAL"),
        (FaultKind.UPSTREAM_BAD, 502, "INTERNAL"),
        (FaultKind.OVERLOADED, 503, "UNAVAILABLE"),
        (FaultKind.TIMEOUT, 504, "DEADLINE_EXCEEDED"),
    ],
)
def test_every_failure_has_googles_word(kind, status, word):
    given, sent = encode_fault(Fault(kind, "why"), "req")

    assert (status, word) == (given, json.loads(sent)["error"]["status"])
    # Gemini CLI takes these for final.
    for final in (b"ErrorInfo", b"quotaId", b"PerDay", b"limit: 0", b"capacity"):
        assert final not in sent


def test_a_prompt_that_is_too_long_is_named_as_google_names_it():
    _, sent = encode_fault(Fault(FaultKind.CONTEXT_LENGTH, "9 tokens"), "req")

    message = json.loads(sent)["error"]["message"]
    assert "input token count exceeds the maximum number of tokens allowed" in message
    assert "9 tokens" in message


def test_the_field_and_the_delay_are_in_the_details():
    bad = json.loads(error_object(Fault(FaultKind.BAD_REQUEST, "no", param="contents[0]")))
    slow = json.loads(error_object(Fault(FaultKind.RATE_LIMIT, "no", retry_after=1.5)))

    assert "contents[0]" == bad["error"]["details"][0]["fieldViolations"][0]["field"]
    assert {"@type": f"{RPC}RetryInfo", "retryDelay": "1.5s"} == slow["error"]["details"][0]


def test_a_client_of_google_gets_the_details_of_google():
    quota = {"violations": [{"quotaId": "PerMinute", "quotaValue": "5"}]}
    long = {"links": [{"url": "x" * 5000}]}
    sent = body(
        429, "RESOURCE_EXHAUSTED", RetryInfo={"retryDelay": "2s"}, Help=long, QuotaFailure=quota
    )
    fields = [{"field": "a", "description": "1"}, {"field": "b", "description": "2"}]
    bad = body(400, "INVALID_ARGUMENT", BadRequest={"fieldViolations": fields})
    (kept, wait), (both,) = (
        json.loads(error_object(decode_fault(status, one)))["error"]["details"]
        for status, one in ((429, sent), (400, bad))
    )

    assert {"@type": f"{RPC}QuotaFailure", **quota} == kept
    assert {"@type": f"{RPC}RetryInfo", "retryDelay": "2s"} == wait
    assert {"@type": f"{RPC}BadRequest", "fieldViolations": fields} == both


def test_details_that_are_no_json_are_left_out():
    fault = Fault(FaultKind.SERVER, "no", details='[{"a":"[redacted]…')

    assert "details" not in json.loads(error_object(fault))["error"]


def test_a_page_is_not_an_error_of_google():
    fault = decode_fault(404, b"<!doctype html><title>Nothing here</title>")

    assert FaultKind.UPSTREAM_UNUSABLE is fault.kind
    assert "Nothing here" in fault.message
