"""Anthropic's Messages API."""

from typing import Final

from dragoman.dialects.anthropic.answer_reader import MessagesReader
from dragoman.dialects.anthropic.answer_writer import KEEP_ALIVE, MESSAGE_STOP, MessagesWriter
from dragoman.dialects.anthropic.body_writer import encode_body
from dragoman.dialects.anthropic.errors import decode_fault, encode_fault
from dragoman.dialects.anthropic.history_writer import without_instructions
from dragoman.dialects.anthropic.request_reader import decode_request
from dragoman.dialects.anthropic.request_writer import encode_request, fit_tools, misfits
from dragoman.dialects.dialect import Dialect

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
    any_tool=b'{"type":"any"}',
    misfits=misfits,
    fit_tools=fit_tools,
    without_instructions=without_instructions,
    kept_by_vendor=("thread",),
)
