"""Failures in any dialect: HTTP statuses, and the phrases that servers use where they have no code."""

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
# Kinds that say no more than that something was wrong: the words of the message may say more.
VAGUE_KINDS: Final = frozenset({FaultKind.BAD_REQUEST, FaultKind.TOO_LARGE, FaultKind.SERVER})
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

HTML: Final = "upstream_html"  # the code of a page in place of a response
_HTML_STARTS: Final = (
    b"<!doctype html", b"<html", b"<head", b"<body", b"<title", b"<meta", b"<center", b"<h1", b"<h2", b"<div",
    b"<p>", b"<script", b"<style",
)  # fmt: skip
_HTML_INSIDE: Final = re.compile(r"<!doctype html|<html", re.IGNORECASE)
_PAGE_BYTES: Final = 64 * 1024  # of a page that are searched for its title
_PROLOGUES: Final = ((b"<!--", b"-->"), (b"<?xml", b"?>"))
_TITLE_CHARS: Final = 120
_QUOTED_CHARS: Final = 100  # of HTML inside a message that are quoted as they are
_BLANKS: Final = b"\xef\xbb\xbf \t\r\n"
# Statuses that a wrong path gives: a page with one of them never comes from the API.
_WRONG_PATH: Final = frozenset({404, 405})


def kind_of_status(status: int) -> FaultKind:
    """Return the kind of an HTTP status.  One below 400 contradicts the error that came with it."""
    kind = KIND_OF_STATUS.get(status)
    if kind is not None:
        return kind
    if status >= 500:
        return FaultKind.SERVER
    return FaultKind.BAD_REQUEST if status >= 400 else FaultKind.UPSTREAM_BAD


def is_context_length(message: str) -> bool:
    """Return whether a message reports a prompt that exceeds the context."""
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


def html_fault(status: int, body: bytes) -> Fault | None:
    """Return the failure that an HTML page in place of a response means; None if the body is not HTML.

    With a status of success, or one for a wrong path, `base_url` is wrong and no retry helps.
    """
    if not _is_html(body):
        return None
    shown = _page(body)
    if status < 400 or status in _WRONG_PATH:
        message = (
            f"{shown} instead of an API response; check `base_url`, which usually ends in `/v1`"
        )
        return Fault(FaultKind.UPSTREAM_UNUSABLE, message, status if status >= 400 else 0, HTML)
    message = f"{shown} instead of an API error; a proxy in front of the API may have sent it, or `base_url` is wrong"
    return Fault(kind_of_status(status), message, status, HTML)


def message_of(*words: str | None) -> str:
    """Return the first of a peer's words for its failure that there is: bounded, an HTML page by its title."""
    found = next(filter(None, words), None) or "upstream reported an error without a message"
    return without_html(found)[:MAX_ERROR_CHARS]


def with_param(message: str, param: str) -> str:
    """Return a message that names the parameter at fault, for dialects without a field for it."""
    return f"{message} (at `{param}`)" if param and param not in message else message


def without_html(message: str) -> str:
    """Return an error message in which an HTML page is replaced by its title.

    Gateways quote the page that they got from the next server.  A few words of HTML stay: they may be the user's.
    """
    found = _HTML_INSIDE.search(message)
    if found is None:
        return message
    before, page = message[: found.start()], message[found.start() :]
    page, closer, after = page.partition("</html>")
    if len(page) < _QUOTED_CHARS:
        return message
    return f"{before}{_page(page.encode('utf-8', 'replace'))}{after.rstrip() if closer else ''}"


def _is_html(body: bytes) -> bool:
    """Return whether a body is a page, whatever its content type says."""
    head = body[:_PAGE_BYTES].lstrip(_BLANKS)
    for opener, closer in _PROLOGUES:
        if head[:5].lower().startswith(opener):
            head = head.partition(closer)[2].lstrip(_BLANKS)
    return head[:16].lower().startswith(_HTML_STARTS)


def _page(body: bytes) -> str:
    """Return what a page is called in a message: by its title, its heading or its first words."""
    page = body[:_PAGE_BYTES]
    shown = _element(page, b"<title") or _element(page, b"<h1") or _visible(page[:_EXCERPT_BYTES])
    if not shown:
        return "an HTML page"
    if len(shown) > _TITLE_CHARS:
        shown = f"{shown[: _TITLE_CHARS - 1]}…"
    return f'an HTML page ("{shown}")'


def _element(page: bytes, tag: bytes) -> str:
    """Return the text of the first element of a name, up to the next tag."""
    at = page.lower().find(tag)  # only ASCII letters change: positions stay
    begin = page.find(b">", at) + 1 if at >= 0 else 0
    if not begin:
        return ""
    return _plain(page[begin:].partition(b"<")[0])


def _visible(page: bytes) -> str:
    parts = page.split(b"<")
    return _plain(b" ".join(part.partition(b">")[2] for part in parts[1:]))


def _plain(text: bytes) -> str:
    from html import unescape  # noqa: PLC0415 -- only errors need it

    words = " ".join(unescape(text[:_EXCERPT_BYTES].decode("utf-8", "replace")).split())
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in words)


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

    LiteLLM answers so when a stream was asked for and nothing of it began.  Case: errors/oddity_litellm_error_as_event.
    """
    data = _DATA.search(body) if body.startswith((b"data:", b"event:")) else None
    return body if data is None else data[1]


def text_of(status: int, body: bytes) -> str:
    """Return the message of a failure whose body has none that can be read."""
    nothing = f"with status {status} and no body" if status else "with an error and no message"
    return excerpt(body) or f"upstream answered {nothing}"
