"""Decodes a client's Chat Completions request into a `Request`."""

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import msgspec
from msgspec import Raw

from dragoman.dialects.chat.history_reader import HistoryReader
from dragoman.dialects.chat.schema import (
    MESSAGES,
    OPENROUTER,
    REQUEST,
    TEMPLATE,
    THINKING,
    RequestIn,
    ResponseFormat,
    is_given,
)
from dragoman.dialects.chat.tools_reader import TOOL_LISTS, decode_choice, decode_tools
from dragoman.dialects.decoding import check_messages, check_size, decode, decode_at, decode_fields
from dragoman.dialects.encoding import encode
from dragoman.envelopes import Sealer
from dragoman.errors import MalformedError
from dragoman.limits import Limits
from dragoman.turn.losses import Loss
from dragoman.turn.request import OutputFormat, ReasoningSettings, Request, Sampling, Tool

# --- reasoning effort -----------------------------------------------------------------------------
# The dialect has one field for it; vendors have their own, and clients use any of them.

T = TypeVar("T")


def decode_reasoning(effort: str | None, fields: Mapping[str, Raw]) -> ReasoningSettings:
    """Return the thinking that the client asks for, in any of the known fields."""
    if effort:
        return _thinking(effort)
    if "reasoning" in fields:
        asked = _read(OPENROUTER, fields["reasoning"])
        if asked is not None and asked.enabled is not False:
            if asked.effort:
                return _thinking(asked.effort)
            if asked.max_tokens is not None:
                return _budget(asked.max_tokens)
        if asked is not None and asked.enabled is not None:
            return ReasoningSettings(mode="auto" if asked.enabled else "off")
    if "thinking" in fields:
        thinking = _read(THINKING, fields["thinking"])
        if thinking is not None and thinking.budget_tokens is not None:
            return _budget(thinking.budget_tokens)
        if thinking is not None and thinking.type:
            return ReasoningSettings(mode="off" if thinking.type == "disabled" else "auto")
    switch = _switch(fields)
    return (
        ReasoningSettings()
        if switch is None
        else ReasoningSettings(mode="auto" if switch else "off")
    )


def _thinking(effort: str) -> ReasoningSettings:
    return ReasoningSettings(mode="off" if effort == "none" else "effort", effort=effort)


def _budget(tokens: int) -> ReasoningSettings:
    """Return the thinking for a budget; several vendors document a number below 0 as "the model decides"."""
    return (
        ReasoningSettings(mode="auto")
        if tokens < 0
        else ReasoningSettings(mode="budget", budget=tokens)
    )


def _switch(fields: Mapping[str, Raw]) -> bool | None:
    word = bytes(fields.get("enable_thinking", Raw(b"")))
    if word in (b"true", b"false"):
        return word == b"true"
    template = fields.get("chat_template_kwargs")
    arguments = None if template is None else _read(TEMPLATE, template)
    if arguments is None:
        return None
    return arguments.thinking if arguments.enable_thinking is None else arguments.enable_thinking


def _read(decoder: msgspec.json.Decoder[T], raw: Raw) -> T | None:
    """Read a vendor's field; one of an unknown shape is ignored."""
    try:
        return decode(decoder, bytes(raw))
    except MalformedError:
        return None


# --- the request ----------------------------------------------------------------------------------

_PLACED: Final = frozenset(RequestIn.__struct_fields__)

# Settings of a search beside the field that asks for it.
_BESIDE: Final = {"enable_search": "search_options", "compound_custom": "search_settings"}

_NO_MESSAGES: Final = Raw(b"[]")

_FORMATS: Final = frozenset({"text", "json_object", "json_schema"})


def decode_request(body: bytes, /, *, sealer: Sealer | None, limits: Limits) -> Request:
    """Read a client's request.

    Raises:
        MalformedError: it is not of the dialect; carries the path.
        TooLargeError: it passes a limit, which the error names.
    """
    check_size(body, limits)
    fields = decode_fields(body)
    given = _decode_settings(fields)
    losses: list[Loss] = []
    history = HistoryReader(sealer, losses)
    messages = decode_at(MESSAGES, fields["messages"], "$.messages")
    check_messages(len(messages), limits)
    history.read(messages)
    listed = TOOL_LISTS.read(fields["tools"]) if "tools" in fields else ()
    tools = decode_tools(given, listed, fields)
    extensions: dict[str, Raw] = {}
    if not fields.keys() <= _PLACED:
        placed = _PLACED | _searched(tools)
        extensions = {name: raw for name, raw in fields.items() if name not in placed}
    output = OutputFormat()
    if given.response_format is not None:
        if given.response_format.type in _FORMATS:
            output = _decode_format(given.response_format)
        else:
            extensions["response_format"] = fields["response_format"]
    max_output = given.max_completion_tokens
    stop = given.stop
    options = given.stream_options
    return Request(
        dialect="chat",
        model=given.model,
        stream=bool(given.stream),
        system=tuple(history.system),
        turns=tuple(history.turns),
        tools=tools,
        tool_choice=decode_choice(given, tools),
        parallel=given.parallel_tool_calls,
        max_output=given.max_tokens if max_output is None else max_output,
        sampling=_decode_sampling(given),
        stop=(stop,) if isinstance(stop, str) else tuple(stop or ()),
        count=1 if given.n is None else given.n,
        reasoning=decode_reasoning(given.reasoning_effort, fields),
        format=output,
        verbosity=given.verbosity or "",
        user_id=given.safety_identifier or given.user or "",
        tier=given.service_tier or "",
        cache_key=given.prompt_cache_key or "",
        logprobs=bool(given.logprobs),
        top_logprobs=given.top_logprobs,
        include_usage=options is not None and bool(options.include_usage),
        store=given.store,
        metadata=given.metadata if is_given(given.metadata) else None,
        extensions=extensions,
        losses=tuple(losses),
    )


def _searched(tools: Sequence[Tool]) -> frozenset[str]:
    """Return the fields that are read as a search: they are not fields without a meaning."""
    names = {tool.path.removeprefix("$.") for tool in tools if tool.server}
    beside = {name for field, name in _BESIDE.items() if field in names}
    return frozenset(names | beside)


def _decode_settings(fields: dict[str, Raw]) -> RequestIn:
    """Decode the fields of a request but its messages and tools, which are large and are decoded elsewhere."""
    small = fields.copy()
    small.pop("tools", None)
    if "messages" in small:
        small["messages"] = _NO_MESSAGES
    return decode(REQUEST, encode(small))


def _decode_sampling(given: RequestIn) -> Sampling:
    return Sampling(
        temperature=given.temperature,
        top_p=given.top_p,
        top_k=given.top_k,
        seed=given.seed,
        frequency_penalty=given.frequency_penalty,
        presence_penalty=given.presence_penalty,
        logit_bias=given.logit_bias if is_given(given.logit_bias) else None,
    )


def _decode_format(given: ResponseFormat) -> OutputFormat:
    asked = given.json_schema
    if given.type != "json_schema":
        return msgspec.convert({"kind": given.type}, OutputFormat)
    if asked is None:
        reason = "a format of type json_schema needs its `json_schema`"
        raise MalformedError(reason, path="$.response_format")
    return OutputFormat(
        kind="json_schema",
        name=asked.name,
        description=asked.description or "",
        schema=asked.schema if is_given(asked.schema) else None,
        strict=asked.strict,
    )
