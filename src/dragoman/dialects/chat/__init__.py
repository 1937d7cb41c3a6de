"""OpenAI Chat Completions, and the many servers that call themselves compatible with it."""

import re
from typing import Final

from dragoman.dialects.chat.answer_reader import ChatReader
from dragoman.dialects.chat.answer_writer import DONE, FINISH_WORDS, KEEP_ALIVE, ChatWriter
from dragoman.dialects.chat.body_writer import encode_body
from dragoman.dialects.chat.request_reader import decode_request
from dragoman.dialects.chat.request_writer import (
    continue_request,
    encode_request,
    fit_tools,
    misfits,
)
from dragoman.dialects.chat.schema import FIELD_NAMES, VOCABULARY
from dragoman.dialects.dialect import Dialect, ReasoningSigns
from dragoman.dialects.openai_errors import decode_fault, encode_fault

DIALECT: Final = Dialect(
    name="chat",
    path="/chat/completions",
    keep_alive=KEEP_ALIVE,
    last_word=DONE,
    history_fields=("messages",),
    decode_request=decode_request,
    encode_request=encode_request,
    frame_reader=ChatReader,
    writer=ChatWriter,
    encode_body=encode_body,
    decode_fault=decode_fault,
    encode_fault=encode_fault,
    field_names=FIELD_NAMES,
    vocabulary=VOCABULARY,
    any_tool=b'"required"',
    misfits=misfits,
    fit_tools=fit_tools,
    continue_request=continue_request,
    independent_frames=True,
    checker="dragoman.checker.chat",
    least_request=b'{"model":"m","messages":%b,"tools":%b}',
    verbatim_ids=True,
    own_types=frozenset({"image_url", "input_audio", "file"}),
    tool_fields=frozenset({"function", "custom"}),
    vendor="openai",
    host_fields=True,
    finish_word=FINISH_WORDS.__getitem__,
    # A bare word `reasoning` counts only in quotes or at the end of a path: messages about the request's own
    # settings use it too.
    reasoning_signs=ReasoningSigns(
        named=re.compile(
            r"reasoning_content|reasoning_details|(?<=[`'\".\]])reasoning(?=[`'\":,;\s]|\Z)"
        ),
        # A quote inside a JSON string is escaped, so text never matches.
        sent=re.compile(rb'"(?:reasoning_content|reasoning_details|reasoning)"\s*:'),
        names_field=True,
    ),
)
