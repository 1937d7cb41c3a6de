"""OpenAI's Responses API."""

import re
from typing import Final

import msgspec

from dragoman.dialects.dialect import Dialect, ReasoningSigns, TokenCounting
from dragoman.dialects.openai_errors import decode_fault
from dragoman.dialects.responses.answer_reader import ResponsesReader, read_usage
from dragoman.dialects.responses.answer_writer import (
    FINISH_WORDS,
    KEEP_ALIVE,
    ResponsesWriter,
    encode_body,
)
from dragoman.dialects.responses.errors import encode_fault
from dragoman.dialects.responses.request_reader import decode_request
from dragoman.dialects.responses.request_writer import encode_request, fit_tools, misfits
from dragoman.dialects.responses.schema import FIELD_NAMES, VOCABULARY

DIALECT: Final = Dialect(
    name="responses",
    path="/responses",
    keep_alive=KEEP_ALIVE,
    last_word=b"",
    history_fields=("instructions", "input"),
    decode_request=decode_request,
    encode_request=encode_request,
    frame_reader=ResponsesReader,
    writer=ResponsesWriter,
    encode_body=encode_body,
    decode_fault=decode_fault,
    encode_fault=encode_fault,
    field_names=FIELD_NAMES,
    vocabulary=VOCABULARY,
    any_tool=b'"required"',
    misfits=misfits,
    fit_tools=fit_tools,
    checker="dragoman.checker.responses",
    least_request=b'{"model":"m","input":%b,"tools":%b}',
    verbatim_ids=True,
    own_types=frozenset({"input_text", "output_text", "input_image", "input_file"}),
    typed_messages=True,
    count_tokens=TokenCounting(
        path="/responses/input_tokens",
        fields=frozenset(
            {
                "model",
                "input",
                "instructions",
                "tools",
                "tool_choice",
                "parallel_tool_calls",
                "previous_response_id",
                "conversation",
                "reasoning",
                "text",
                "truncation",
            }
        ),
        count_field="input_tokens",
        encode=lambda tokens: msgspec.json.encode(
            {"object": "response.input_tokens", "input_tokens": tokens}
        ),
    ),
    vendor="openai",
    tools_vendor="openai",
    finish_word=lambda reason: FINISH_WORDS.get(reason, b"completed").decode(),
    stores_responses=True,
    read_usage=read_usage,
    reasoning_signs=ReasoningSigns(
        named=re.compile(r"(?<=[`'\".\]])reasoning(?=[`'\":,;\s]|\Z)"),
        sent=re.compile(rb'"type"\s*:\s*"reasoning"'),
    ),
)
