"""Decodes a client's Messages request into a `Request`."""

import re
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import Raw, Struct, structs

from dragoman.dialects.anthropic import schema
from dragoman.dialects.anthropic.history_reader import cache_hint, decode_messages, text_part
from dragoman.dialects.anthropic.tools_reader import (
    TOOL_LISTS,
    decode_choice,
    with_servers,
    without_deferred,
)
from dragoman.dialects.decoding import check_messages, check_size, decode
from dragoman.dialects.encoding import encode
from dragoman.dialects.request_policy import EFFORTS, NO_SAMPLING
from dragoman.envelopes import Sealer
from dragoman.errors import MalformedError
from dragoman.limits import Limits
from dragoman.turn.losses import Loss
from dragoman.turn.request import OutputFormat, ReasoningSettings, Request, Sampling, TextPart

# --- the billing line -----------------------------------------------------------------------------
# It differs from conversation to conversation and would spoil every prefix cache but the vendor's own, which
# knows it.  Nothing but the line is taken away.

_BILLING: Final = b"x-anthropic-billing-header:"

# The name and its pairs; what follows them on the line is the prompt, if a client joined its blocks.
# Without pairs, the pattern matches the whole line.
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

_BILLING_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])


def strip_billing_body(body: bytes) -> bytes:
    """Take the line from the bytes of a request that are passed on; all other fields stay as they are."""
    if _BILLING not in body:
        return body
    try:
        system = _SYSTEM.decode(body).system
        stripped = _stripped_system(system) if system else None
        if stripped is None:
            return body
        fields = _BILLING_FIELDS.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return body  # its reader reports what is wrong with it
    if stripped:
        fields["system"] = Raw(encode(stripped))
    else:
        del fields["system"]
    return encode(fields)


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
    block = _BILLING_FIELDS.decode(system[0])
    block["text"] = Raw(encode(rest))
    return [Raw(encode(block)), *system[1:]]


# --- thinking -------------------------------------------------------------------------------------

_SHOWN: Final = {"summarized": "summary", "omitted": "none"}


def decode_thinking(
    thinking: schema.Thinking | None, effort: str | None, losses: list[Loss]
) -> ReasoningSettings:
    """Return the requested reasoning.  An effort wins over a budget; disabled thinking has neither.

    Raises:
        MalformedError: an effort that does not exist, or a budget that is missing.
    """
    if effort is not None and effort not in EFFORTS:
        raise MalformedError(f"unknown effort `{effort}`", path="$.output_config.effort")
    if thinking is None:
        return ReasoningSettings(mode="effort", effort=effort) if effort else ReasoningSettings()
    show = _SHOWN.get(thinking.display or "", "")
    match thinking.type:
        case "disabled" | "between_tools":
            if effort:
                losses.append(Loss("effort_adjusted", "$.output_config.effort", "thinking is off"))
            return ReasoningSettings(mode="off")
        case "adaptive":
            return ReasoningSettings(mode="auto", effort=effort or "", show=show)  # type: ignore[arg-type]  # values of the table
        case "enabled":
            if thinking.budget_tokens is None:
                raise MalformedError("thinking needs a budget", path="$.thinking.budget_tokens")
            mode = "effort" if effort else "budget"
            return ReasoningSettings(
                mode=mode,  # type: ignore[arg-type]  # one of two literals
                effort=effort or "",
                budget=thinking.budget_tokens,
                show=show,  # type: ignore[arg-type]  # values of the table
            )


# --- the request ----------------------------------------------------------------------------------

_NO_CONFIG: Final = schema.OutputConfig()

_BODY: Final = msgspec.json.Decoder(schema.Request)

_RAW_MESSAGES: Final = msgspec.json.Decoder(schema.RawMessages)


def decode_request(body: bytes, /, *, sealer: Sealer | None, limits: Limits) -> Request:
    """Read a client's request.

    Raises:
        MalformedError: it is not of the dialect; carries the path.
        TooLargeError: it passes a limit, which the error names.
    """
    check_size(body, limits)
    losses: list[Loss] = []
    wire, messages = _decode_body(body)
    check_messages(len(messages), limits)
    turns, found = decode_messages(messages, sealer, losses)
    declared = TOOL_LISTS.read(wire.tools) if wire.tools else ()
    choice = None if wire.tool_choice is None else decode_choice(wire.tool_choice, declared)
    # Most requests set few fields: an absent one is skipped without a function call.
    reasoning, form = _NO_REASONING, wire.output_format
    if wire.thinking is not None or wire.output_config is not None:
        config = wire.output_config or _NO_CONFIG
        reasoning = decode_thinking(wire.thinking, config.effort, losses)
        form = config.format or form
    return Request(
        dialect="anthropic",
        model=wire.model,
        stream=bool(wire.stream),
        system=_decode_system(wire.system),
        turns=turns,
        tools=with_servers(without_deferred(declared, found), wire.mcp_servers),
        tool_choice=choice,
        parallel=None if wire.tool_choice is None else _parallel(wire.tool_choice),
        max_output=wire.max_tokens,
        sampling=NO_SAMPLING
        if wire.temperature is wire.top_p is wire.top_k is None
        else Sampling(temperature=wire.temperature, top_p=wire.top_p, top_k=wire.top_k),
        stop=tuple(wire.stop_sequences) if wire.stop_sequences else (),
        reasoning=reasoning,
        format=_PLAIN_TEXT
        if form is None
        else OutputFormat(kind="json_schema", schema=form.schema),
        user_id=(wire.metadata.user_id or "") if wire.metadata is not None else "",
        tier="" if wire.speed is wire.service_tier is None else _decode_tier(wire),
        cache_all=None if wire.cache_control is None else cache_hint(wire.cache_control),
        extensions=_decode_extensions(wire),
        losses=tuple(losses),
    )


def _decode_body(
    body: bytes,
) -> tuple[schema.Request, Sequence[schema.Message | schema.RawMessage]]:
    """Decode in one go; only a conversation with blocks of rare types is decoded block by block."""
    messages: Sequence[schema.Message | schema.RawMessage]
    try:
        wire = decode(_BODY, body)
        messages = wire.messages
    except MalformedError as error:
        if not error.path.startswith("$.messages["):
            raise
        messages = decode(_RAW_MESSAGES, body).messages
        emptied = decode(_FIELDS, body)
        emptied["messages"] = Raw(b"[]")
        wire = decode(_BODY, encode(emptied))
    return wire, messages


_NO_REASONING: Final = ReasoningSettings()

_PLAIN_TEXT: Final = OutputFormat()

_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])

_extensions_of: Final = attrgetter(*schema.EXTENSIONS)

_NO_EXTENSIONS: Final = (schema.NO_RAW,) * len(schema.EXTENSIONS)


def _decode_system(system: str | list[schema.TextBlock] | None) -> tuple[TextPart, ...]:
    if not system:
        return ()
    if isinstance(system, str):
        rest = without_billing(system)
        return (TextPart(rest),) if rest is system or rest.strip() else ()
    first = system[0]
    rest = without_billing(first.text)
    if rest is not first.text:
        others = system[1:]
        system = [structs.replace(first, text=rest), *others] if rest.strip() else others
    return tuple([text_part(block) for block in system if block.text])


def _decode_tier(wire: schema.Request) -> str:
    if wire.speed == "fast":
        return "fast"
    return schema.TIERS.get(wire.service_tier or "", "")


def _parallel(choice: schema.ToolChoice) -> bool | None:
    serial = choice.disable_parallel_tool_use
    return None if serial is None else not serial


def _decode_extensions(wire: schema.Request) -> dict[str, Raw]:
    values = _extensions_of(wire)
    if values == _NO_EXTENSIONS:
        return {}
    return {
        name: value
        for name, value in zip(schema.EXTENSIONS, values, strict=True)
        if value and bytes(value) != b"null"
    }
