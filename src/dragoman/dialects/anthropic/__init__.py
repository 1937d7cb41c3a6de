"""Anthropic's Messages API."""

import re
from typing import Final

import msgspec

from dragoman.dialects.anthropic.answer_reader import MessagesReader
from dragoman.dialects.anthropic.answer_writer import (
    FINISH_WORDS,
    KEEP_ALIVE,
    MESSAGE_STOP,
    MessagesWriter,
)
from dragoman.dialects.anthropic.body_writer import encode_body
from dragoman.dialects.anthropic.errors import decode_fault, encode_fault
from dragoman.dialects.anthropic.request_reader import decode_request, strip_billing_body
from dragoman.dialects.anthropic.request_writer import (
    continue_request,
    encode_request,
    fit_tools,
    headers_for,
    misfits,
    without_instructions,
)
from dragoman.dialects.anthropic.schema import FIELD_NAMES, VOCABULARY
from dragoman.dialects.dialect import Dialect, ReasoningSigns, TokenCounting

DIALECT: Final = Dialect(
    name="anthropic",
    path="/messages",
    keep_alive=KEEP_ALIVE,
    last_word=MESSAGE_STOP,
    history_fields=("messages",),
    decode_request=decode_request,
    encode_request=encode_request,
    frame_reader=MessagesReader,
    writer=MessagesWriter,
    encode_body=encode_body,
    decode_fault=decode_fault,
    encode_fault=encode_fault,
    field_names=FIELD_NAMES,
    vocabulary=VOCABULARY,
    any_tool=b'{"type":"any"}',
    misfits=misfits,
    fit_tools=fit_tools,
    continue_request=continue_request,
    without_instructions=without_instructions,
    kept_by_vendor=("thread",),
    checker="dragoman.checker.anthropic",
    least_request=b'{"model":"m","max_tokens":1,"messages":%b,"tools":%b}',
    own_types=frozenset(
        {"tool_use", "tool_result", "thinking", "redacted_thinking", "document", "image"}
    ),
    tool_fields=frozenset({"input_schema"}),
    strip_billing=strip_billing_body,
    auth="x-api-key",
    request_headers=(("anthropic-version", "2023-06-01"),),
    headers_for=headers_for,
    own_headers=("anthropic-version",),
    client_headers=("anthropic-version",),
    beta_headers=("anthropic-beta",),
    rate_limits="anthropic-ratelimit-{what}-{which}",
    count_tokens=TokenCounting(
        path="/messages/count_tokens",
        fields=frozenset(
            {"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"}
        ),
        count_field="input_tokens",
        encode=lambda tokens: msgspec.json.encode({"input_tokens": tokens}),
    ),
    vendor="anthropic",
    tools_vendor="anthropic",
    pauses=True,
    finish_word=FINISH_WORDS.__getitem__,
    # A bare word `thinking` counts only in quotes or at the end of a path: messages about the request's own
    # settings use it too.
    reasoning_signs=ReasoningSigns(
        named=re.compile(r"(?<=[`'\".\]])(?:redacted_)?thinking(?=[`'\":,;\s]|\Z)"),
        sent=re.compile(rb'"thinking"\s*:\s*"'),
    ),
)
