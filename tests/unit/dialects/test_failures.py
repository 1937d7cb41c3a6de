"""What failures say in any dialect."""

import pytest

from dragoman.dialects.failures import (
    excerpt,
    html_fault,
    is_context_length,
    kind_of_status,
    message_of,
    retry_after,
    text_of,
    with_param,
    without_html,
)
from dragoman.limits import MAX_ERROR_CHARS
from dragoman.turn.events import FaultKind


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, FaultKind.BAD_REQUEST),
        (401, FaultKind.AUTH),
        (402, FaultKind.BILLING),
        (403, FaultKind.PERMISSION),
        (404, FaultKind.NOT_FOUND),
        (408, FaultKind.TIMEOUT),
        (409, FaultKind.CONFLICT),
        (413, FaultKind.TOO_LARGE),
        (418, FaultKind.BAD_REQUEST),
        (422, FaultKind.BAD_REQUEST),
        (429, FaultKind.RATE_LIMIT),
        (500, FaultKind.SERVER),
        (502, FaultKind.UPSTREAM_BAD),
        (503, FaultKind.OVERLOADED),
        (504, FaultKind.TIMEOUT),
        (529, FaultKind.OVERLOADED),
        (599, FaultKind.SERVER),
        (200, FaultKind.UPSTREAM_BAD),
        (0, FaultKind.UPSTREAM_BAD),
    ],
)
def test_status_shows_what_happened(status: int, kind: FaultKind) -> None:
    assert kind is kind_of_status(status)


@pytest.mark.parametrize(
    "message",
    [
        "litellm.BadRequestError: context_length_exceeded",
        "This model's maximum context length is 8192 tokens",
        "Prompt is too long: 9 > 8",
        "Your input exceeds the context window of this model.",
        "request (9000 tokens) exceeds the available context size (4096 tokens)",
        "Input is too long for requested model.",
    ],
)
def test_prompt_that_does_not_fit_is_known_by_the_words(message: str) -> None:
    assert is_context_length(message)


def test_other_words_are_about_something_else() -> None:
    assert not is_context_length("max_tokens is too large")


@pytest.mark.parametrize(
    ("message", "seconds"),
    [
        ("Please try again in 20s.", 20),
        ("Please try again in 1.5s.", 1.5),
        ("Please try again in 6m0s.", 360),
        ("Please try again in 7m12.5s.", 432.5),
        ("try again in 500ms", 0.5),
        ("try again in 250 milliseconds", 0.25),
        ("Retry after 30 seconds", 30),
        ("retry after 1 second", 1),
        ("retry in 2m", 120),
        ("Please retry in 3 minutes.", 180),
        ("try again later", None),
        ("we will retry 3 more times", None),
        ("retry 2 servers", None),
        ("try again in " + "9" * 5000 + "s", None),
    ],
)
def test_delay_is_read_from_the_words(message: str, seconds: float | None) -> None:
    assert seconds == retry_after(message)


def test_s13_excerpt_is_short_and_on_one_line() -> None:
    text = b"\n".join([b"the server", b"  is busy", *[b" x"] * 2000])

    shown = excerpt(text)

    assert shown.startswith("the server is busy x x")
    assert 500 == len(shown)


def test_s13_excerpt_counts_characters_and_shows_bytes_that_are_none() -> None:
    assert 500 == len(excerpt("é".encode() * 1000))
    assert "a\ufffd" == excerpt(b"a\xff")


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (502, b" bad\ngateway ", "bad gateway"),
        (504, b" \n", "upstream answered with status 504 and no body"),
        (0, b"", "upstream answered with an error and no message"),
    ],
)
def test_failure_without_a_message_gets_one(status: int, body: bytes, message: str) -> None:
    assert message == text_of(status, body)


TITLED = (
    b'<html><head><title lang="en">\n  Not &lt;here&gt;\x07 </title></head><body>x</body></html>'
)


@pytest.mark.parametrize(
    ("body", "shown"),
    [
        (TITLED, 'an HTML page ("Not <here>\ufffd")'),
        (b"\xef\xbb\xbf \r\n<!DocType HTML><Title>Up</TITLE>", 'an HTML page ("Up")'),
        (b"<!-- a -->\n<html><h1 class=a>Oops</h1>", 'an HTML page ("Oops")'),
        (b'<?xml version="1.0"?><!DOCTYPE html><title>X</title>', 'an HTML page ("X")'),
        (b"<html><body><p>Log in <b>here</b></p>", 'an HTML page ("Log in here")'),
        # Cut inside a tag, inside the title, before anything.
        (b"<html><head><titl", "an HTML page"),
        (b"<html><head><title>Gate", 'an HTML page ("Gate")'),
        (b"<html", "an HTML page"),
        (b"<html><title>" + b"a" * 9999, f'an HTML page ("{"a" * 119}\u2026")'),
        # A title behind the part that is searched is not found.
        (b"<html><!--" + b"a" * 99_999 + b"--><title>Late</title>", "an HTML page"),
    ],
)
def test_html_page_is_named_by_its_title(body: bytes, shown: str) -> None:
    fault = html_fault(404, body)

    assert fault is not None
    assert fault.message.startswith(f"{shown} instead of an API response; check `base_url`")
    assert len(fault.message) < 300


@pytest.mark.parametrize(
    "body", [b"", b" ", b"{}", b"busy", b"<", b"<tool_call>", b"data: <html>", b"\xff", b"<!-- a"]
)
def test_other_bodies_are_not_html(body: bytes) -> None:
    assert html_fault(200, body) is None


@pytest.mark.parametrize(
    ("status", "kind", "kept"),
    [
        (0, FaultKind.UPSTREAM_UNUSABLE, 0),
        (200, FaultKind.UPSTREAM_UNUSABLE, 0),
        (404, FaultKind.UPSTREAM_UNUSABLE, 404),
        (405, FaultKind.UPSTREAM_UNUSABLE, 405),
        (403, FaultKind.PERMISSION, 403),
        (502, FaultKind.UPSTREAM_BAD, 502),
        (503, FaultKind.OVERLOADED, 503),
    ],
)
def test_html_page_has_the_kind_of_its_status(status: int, kind: FaultKind, kept: int) -> None:
    fault = html_fault(status, TITLED)

    assert fault is not None
    assert (kind, kept, "upstream_html") == (fault.kind, fault.status, fault.code)


def test_html_page_inside_a_message_is_replaced_by_its_title() -> None:
    page = f"<!DOCTYPE html><html><title>502</title>{'<p>x</p>' * 30}</html>"

    assert 'APIError: an HTML page ("502") (code 7)' == without_html(f"APIError: {page} (code 7)")
    assert 'APIError: an HTML page ("502")' == without_html(f"APIError: {page[:200]}")
    assert "no <html> in it" == without_html("no <html> in it")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("too long", "api_error"), "too long"),
        ((None, "api_error"), "api_error"),
        (("", None), "upstream reported an error without a message"),
        (("x" * 100_000,), "x" * MAX_ERROR_CHARS),
    ],
)
def test_message_is_the_first_word_that_there_is(
    words: tuple[str | None, ...], message: str
) -> None:
    assert message == message_of(*words)


def test_parameter_is_named_once() -> None:
    assert "must be a number (at `temperature`)" == with_param("must be a number", "temperature")
    assert "`temperature` is wrong" == with_param("`temperature` is wrong", "temperature")
    assert "wrong" == with_param("wrong", "")
