"""Google's Gemini API, `generateContent`.

A request is one JSON object here, with `model` and `stream` beside Google's own fields; on the wire both are in
the URL.
"""

from typing import Final

from dragoman.dialects.dialect import Dialect
from dragoman.dialects.gemini.answer_reader import GeminiReader
from dragoman.dialects.gemini.answer_writer import FINISH_WORDS, KEEP_ALIVE, answer_writer
from dragoman.dialects.gemini.body_writer import encode_body
from dragoman.dialects.gemini.errors import decode_fault, encode_fault
from dragoman.dialects.gemini.request_reader import decode_request
from dragoman.dialects.gemini.request_writer import encode_request, split_request

DIALECT: Final = Dialect(
    name="gemini",
    path="/models",
    keep_alive=KEEP_ALIVE,
    independent_frames=True,
    history_fields=("contents",),
    decode_request=decode_request,
    encode_request=encode_request,
    frame_reader=GeminiReader,
    writer=answer_writer,
    encode_body=encode_body,
    decode_fault=decode_fault,
    encode_fault=encode_fault,
    checker="dragoman.checker.gemini",
    least_request=b'{"model":"m","contents":%b,"tools":[{"functionDeclarations":%b}]}',
    tool_fields=frozenset({"parametersJsonSchema", "functionDeclarations"}),
    verbatim_ids=True,
    split_request=split_request,
    auth="x-goog-api-key",
    vendor="google",
    finish_word=FINISH_WORDS.__getitem__,
)
