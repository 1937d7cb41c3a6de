"""Half of a surrogate pair, or a byte that is not UTF-8, in any string of a request or an answer costs neither."""

import random
import re
from collections.abc import Iterator
from contextlib import suppress

import pytest

from dragoman.dialects import DIALECT_NAMES
from dragoman.errors import DragomanError
from dragoman.translate import Translator, translate_body, translate_error
from dragoman.translate_requests import translate_request
from tests.support.corpus import corpus
from tests.support.requests import cases

HALVES = (rb"\ud83d", rb"\ude00", b"\xff")
PLACES = 10  # in each text
_STRING = re.compile(rb'"((?:[^"\\]|\\.)*)"')
each_dialect = pytest.mark.parametrize("name", DIALECT_NAMES)


def spoiled(data: bytes) -> Iterator[bytes]:
    """Yield JSON, or a stream of it, with half of a character at the start or end of one of its strings."""
    chance = random.Random(data)
    places = [at for found in _STRING.finditer(data) for at in found.span(1)]
    for at in chance.sample(places, min(PLACES, len(places))):
        yield data[:at] + chance.choice(HALVES) + data[at:]


@each_dialect
def test_a_stream_is_translated(name: str) -> None:
    for case in corpus(name):
        for stream in spoiled(case.stream):
            for target in DIALECT_NAMES:
                translator = Translator(source=name, target=target, model="kimi-k2", seed="s")
                written = translator.feed(stream) + translator.close()
                assert name == target or written.decode()


@each_dialect
def test_a_body_is_translated(name: str) -> None:
    for case in corpus(name):
        whole = translate_body(case.stream, source=name, target=name, native_format="none").body
        for body in spoiled(whole):
            for target in DIALECT_NAMES:
                translate_body(body, source=name, target=target, native_format="none")
                translate_error(500, body, source=name, target=target)


@pytest.mark.parametrize("profile", ["generic", "openai", "gemini", "anthropic"])
def test_a_request_is_translated_or_refused_by_name(profile: str) -> None:
    for case in cases():
        for body in spoiled(case.body):
            for target in DIALECT_NAMES:
                with suppress(DragomanError):
                    translate_request(body, source=case.dialect, target=target, profile=profile, model="m")  # fmt: skip
