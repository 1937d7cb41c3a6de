"""OpenAI's Responses API."""

from typing import Final

from dragoman.dialects.dialect import Dialect
from dragoman.dialects.openai_errors import decode_fault
from dragoman.dialects.responses.answer_reader import ResponsesReader
from dragoman.dialects.responses.answer_writer import KEEP_ALIVE, ResponsesWriter
from dragoman.dialects.responses.body_writer import encode_body
from dragoman.dialects.responses.errors import encode_fault
from dragoman.dialects.responses.request_reader import decode_request
from dragoman.dialects.responses.request_writer import encode_request, fit_tools, misfits

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
    any_tool=b'"required"',
    misfits=misfits,
    fit_tools=fit_tools,
)
