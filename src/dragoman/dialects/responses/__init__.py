"""OpenAI's Responses API."""

from typing import Final

from dragoman.dialects.dialect import Dialect
from dragoman.dialects.openai_errors import decode_fault
from dragoman.dialects.responses.faults import encode_fault
from dragoman.dialects.responses.reader import ResponsesReader
from dragoman.dialects.responses.relayed_tools import fit_tools, misfits
from dragoman.dialects.responses.request import decode_request
from dragoman.dialects.responses.upstream import encode_request
from dragoman.dialects.responses.writer import KEEP_ALIVE, ResponsesWriter, encode_body

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
