"""Google's Gemini API, `generateContent`.

A request is one JSON object here, with `model` and `stream` beside Google's own fields; on the wire both are in
the URL.
"""

from typing import Final

from dragoman.dialects.dialect import Dialect, ModelLists, ModelPaths, TokenCounting
from dragoman.dialects.gemini.answer_reader import GeminiReader
from dragoman.dialects.gemini.answer_writer import (
    FINISH_WORDS,
    KEEP_ALIVE,
    answer_writer,
    readable_frames,
)
from dragoman.dialects.gemini.body_writer import (
    encode_body,
    encode_count,
    encode_model,
    encode_models,
)
from dragoman.dialects.gemini.errors import decode_fault, encode_fault, error_object
from dragoman.dialects.gemini.request_reader import decode_request, joined_request, read_path
from dragoman.dialects.gemini.request_writer import (
    continue_request,
    count_question,
    encode_request,
    fit_tools,
    misfits,
    split_request,
)
from dragoman.dialects.gemini.schema import FIELD_NAMES, VOCABULARY, camel_request

DIALECT: Final = Dialect(
    name="gemini",
    path="/models",
    keep_alive=KEEP_ALIVE,
    readable_frames=readable_frames,
    fault_again=error_object,
    independent_frames=True,
    history_fields=("contents",),
    misfits=misfits,
    fit_tools=fit_tools,
    one_spelling=camel_request,
    continue_request=continue_request,
    continues_by_token=True,
    decode_request=decode_request,
    encode_request=encode_request,
    frame_reader=GeminiReader,
    writer=answer_writer,
    encode_body=encode_body,
    decode_fault=decode_fault,
    encode_fault=encode_fault,
    field_names=FIELD_NAMES,
    vocabulary=VOCABULARY,
    checker="dragoman.checker.gemini",
    least_request=b'{"model":"m","contents":%b,"tools":[{"functionDeclarations":%b}]}',
    tool_fields=frozenset({"parametersJsonSchema", "functionDeclarations"}),
    verbatim_ids=True,
    half_calls=False,  # `args` are an object, which cannot show that something is missing
    model_paths=ModelPaths(
        shown="/v1beta/models/MODEL:generateContent",
        read=read_path,
        join=joined_request,
        split=split_request,
    ),
    model_lists=ModelLists(
        path="/models?pageSize=1000", encode=encode_models, encode_one=encode_model
    ),
    auth="x-goog-api-key",
    own_headers=("x-goog-api-key", "x-goog-api-client"),
    key_parameters=("key", "access_token"),
    client_headers=("x-server-timeout",),
    timeout_header="x-server-timeout",
    count_tokens=TokenCounting(
        fields=frozenset(
            {"model", "contents", "systemInstruction", "tools", "toolConfig", "generationConfig"}
        ),
        count_field="totalTokens",
        encode=encode_count,
        question=count_question,
    ),
    vendor="google",
    tools_vendor="google",
    finish_word=FINISH_WORDS.__getitem__,
)
