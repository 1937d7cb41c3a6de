"""A line that one agent puts before its system prompt for the vendor's accounting.

It differs from conversation to conversation and would spoil every prefix cache but the vendor's own, which
knows it.  Nothing but the line is taken away.
"""

import re
from typing import Final

import msgspec
from msgspec import Raw, Struct

_BILLING: Final = b"x-anthropic-billing-header:"
# The name and its pairs; what follows them on the line is the prompt, if a client joined its blocks.
# Where there are no pairs the whole line is meant.
_BILLING_LINE: Final = re.compile(
    r"x-anthropic-billing-header:"
    r"(?:(?:[ \t]*\w+=[^;\s]*(?:;|(?=\s|\Z)))+[ \t]*|[^\n]*)(?:\r?\n)?",
    re.IGNORECASE,
)


class _System(Struct):
    system: str | list[Raw] | None = None


class _Block(Struct):
    text: str = ""


_SYSTEM: Final = msgspec.json.Decoder(_System)
_BLOCK: Final = msgspec.json.Decoder(_Block)
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])


def strip_billing_body(body: bytes) -> bytes:
    """Take the line from the bytes of a request that are passed on; all other fields stay as they are."""
    if _BILLING not in body:
        return body
    try:
        system = _SYSTEM.decode(body).system
        stripped = _stripped_system(system) if system else None
        if stripped is None:
            return body
        fields = _FIELDS.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return body  # whoever reads it says what is wrong with it
    if stripped:
        fields["system"] = Raw(msgspec.json.encode(stripped))
    else:
        del fields["system"]
    return msgspec.json.encode(fields)


def without_billing(text: str) -> str:
    """Return a text without the accounting line at its very beginning."""
    if text[:1] not in ("x", "X"):
        return text
    match = _BILLING_LINE.match(text)
    return text if match is None else text[match.end() :]


def _stripped_system(system: str | list[Raw]) -> str | list[Raw] | None:
    """Return the system prompt without the line, or None if there is none."""
    if isinstance(system, str):
        rest = without_billing(system)
        return None if rest == system else rest if rest.strip() else ""
    text = _BLOCK.decode(system[0]).text
    rest = without_billing(text)
    if rest == text:
        return None
    if not rest.strip():
        return system[1:]
    block = _FIELDS.decode(system[0])
    block["text"] = Raw(msgspec.json.encode(rest))
    return [Raw(msgspec.json.encode(block)), *system[1:]]
