"""The id of a request, and the headers that every answer carries."""

import os
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import quote

from dragoman.ids import base62

_LENGTH: Final = 24
_OWN: Final = re.compile(rf"req_[0-9A-Za-z]{{{_LENGTH}}}")
_MAX_WARNINGS_CHARS: Final = 1024  # some proxies refuse larger headers
_MAX_VALUE_CHARS: Final = 256
# Printable ASCII without the percent sign, which marks what was not.
_PLAIN: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


def new_request_id() -> str:
    """Return an id that no other request has."""
    # Eight bits more than needed leave no digit visibly likelier than another.
    return "req_" + base62(int.from_bytes(os.urandom(19)), _LENGTH)


def is_request_id(text: str) -> bool:
    """Say whether a text may be an id that was made here."""
    return _OWN.fullmatch(text) is not None


def answer_headers(  # noqa: PLR0913 -- one for each header
    request_id: str,
    *,
    route: str = "",
    upstream_model: str = "",
    upstream_id: str = "",
    warnings: Iterable[str] = (),
    extra: Mapping[str, str] | None = None,
) -> dict[str, str]:
    """Return the headers that say whose answer this is; what is not known is left out.

    `warnings` are codes of losses, `extra` what the answer carries beside.
    """
    headers = {"server": "dragoman", "request-id": request_id, "x-request-id": request_id}
    known = {
        "x-dragoman-route": route,
        "x-upstream-model": upstream_model,
        "x-upstream-request-id": upstream_id,
    }
    headers |= {name: header_value(value) for name, value in known.items() if value}
    told = warnings_value(warnings)
    if told:
        headers["x-dragoman-warnings"] = told
    return {**headers, **extra} if extra else headers


def warnings_value(codes: Iterable[str]) -> str:
    """Return each code once, in order, as many as fit; three dots stand for the rest."""
    told = ""
    for code in dict.fromkeys(codes):
        longer = f"{told},{code}" if told else code
        if len(longer) > _MAX_WARNINGS_CHARS - len(",..."):
            return f"{told},..." if told else "..."
        told = longer
    return told


def header_value(text: str) -> str:
    """Return a text as a header may carry it: other characters become `%XX`, and it is bounded."""
    if text.isascii() and text.isprintable() and "%" not in text:
        return text[:_MAX_VALUE_CHARS].strip()
    return quote(text, safe=_PLAIN, errors="replace")[:_MAX_VALUE_CHARS].strip()
