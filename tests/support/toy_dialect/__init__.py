"""A fourth dialect, made up for a test: telegrams.

request   {"engine": "m", "live": true, "lines": [["me", "Hello"]], "devices": [{"name": "look", "form": {…}}]}
stream    data: {"say": "Hel"}   data: {"do": {"id": "d1", "name": "look", "with": "{}"}}   data: {"over": "done"}
body      {"said": "Hello", "done": [{"id": "d1", "name": "look", "with": "{}"}], "over": "done"}
failure   {"broke": "why"}, as an event or as a body
"""

from collections.abc import Iterator
from contextlib import contextmanager

from dragoman import dialects
from dragoman.dialects.dialect import Dialect
from tests.support.toy_dialect.answers import (
    ToyReader,
    ToyWriter,
    decode_fault,
    encode_body,
    encode_fault,
)
from tests.support.toy_dialect.requests import decode_request, encode_request

DIALECT = Dialect(
    name="toy",
    path="/telegrams",
    decode_request=decode_request,
    encode_request=encode_request,
    frame_reader=ToyReader,
    writer=ToyWriter,
    encode_body=encode_body,
    decode_fault=decode_fault,
    encode_fault=encode_fault,
    checker="tests.support.toy_dialect.rules",
    least_request=b'{"engine":"m","lines":%b,"devices":%b}',
    history_fields=("lines",),
    auth="x-api-key",
    request_headers=(("telegram-office", "1"),),
)


@contextmanager
def registered() -> Iterator[Dialect]:
    """Have the dialect in the registry, as a program would that brings its own."""
    dialects.register(DIALECT)
    try:
        yield DIALECT
    finally:
        del dialects._loaded[DIALECT.name]
