"""JSON of a peer into declared types: paths of mistakes, broken characters, and sizes."""

import msgspec
import pytest
from msgspec import Raw, Struct

from dragoman.dialects.decoding import (
    check_complete,
    check_messages,
    check_size,
    decode,
    decode_at,
    decode_fields,
    decode_or_none,
    entries_of,
)
from dragoman.errors import MalformedError, NotJsonError, TooLargeError
from dragoman.limits import Limits


class Part(Struct):
    text: str
    rest: Raw = Raw(b"null")


class Message(Struct):
    parts: list[Part]


DECODER = msgspec.json.Decoder(Message)


def test_a_mistake_is_reported_with_its_path() -> None:
    with pytest.raises(MalformedError) as error:
        decode(DECODER, b'{"parts": [{"text": "a"}, {"text": 5}]}')

    assert "$.parts[1].text" == error.value.path
    assert "expected `str`, got `int`" == error.value.reason


def test_a_mistake_inside_of_a_larger_document_has_the_whole_path() -> None:
    with pytest.raises(MalformedError) as error:
        decode_at(DECODER, Raw(b'{"parts": [{}]}'), "$.messages[3]")

    assert "$.messages[3].parts[0]" == error.value.path


@pytest.mark.parametrize("data", [b"", b"{", b"nothing", b"[" * 100_000])
def test_what_is_not_json_is_reported_as_such(data: bytes) -> None:
    with pytest.raises(NotJsonError):
        decode(msgspec.json.Decoder(), data)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a\xffb", "a\ufffdb"),  # not UTF-8
        (rb"\ud83d", "\ud83d"),  # the first half of a pair; the other half may follow
        (rb"\ude00 and \ud83d\ude00", "\ude00 and \U0001f600"),
        (rb"\\ud83d \ud83d", "\\ud83d \ud83d"),  # an escaped backslash starts no escape
    ],
)
def test_broken_characters_do_not_cost_the_document(text: bytes, expected: str) -> None:
    found = decode(DECODER, b'{"parts": [{"text": "%b", "rest": ["%b"]}]}' % (text, text))

    assert expected == found.parts[0].text
    assert [expected] == decode(msgspec.json.Decoder(list[str]), bytes(found.parts[0].rest))


def test_a_mistake_beside_broken_characters_is_reported_with_its_path() -> None:
    with pytest.raises(MalformedError) as error:
        decode(DECODER, rb'{"parts": [{"text": "\ud83d"}, {"text": 5}]}')

    assert "$.parts[1].text" == error.value.path


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'{"parts": 5}',
        b'{"parts": [{"text": "\xff"}]}',
        '{"parts": [{"text": "\ud800"}]}',
        b'{"other": ' + b"[" * 100_000,
        Raw(b"null"),
    ],
    ids=["nothing", "cut", "list", "type", "UTF-8", "surrogate", "depth", "null"],
)
def test_what_cannot_be_read_and_is_not_needed_is_none(data: Raw | bytes | str) -> None:
    assert decode_or_none(DECODER, data) is None


def test_what_can_be_read_is_returned() -> None:
    assert decode(DECODER, b'{"parts": [{"text": "a"}]}') == decode_or_none(
        DECODER, Raw(b'{"parts": [{"text": "a"}]}')
    )


def test_fields_and_entries_are_given_as_they_are_written() -> None:
    fields = decode_fields(b'{"a": [1.50, { }], "b": null}')

    assert [b"1.50", b"{ }"] == [bytes(one) for one in entries_of(fields["a"])]
    assert [] == entries_of(fields["b"])
    with pytest.raises(MalformedError):
        decode_fields(b"[]")


@pytest.mark.parametrize(
    ("limit", "value", "body"),
    [
        ("max_request_bytes", 4, b"[1,2]"),
        ("max_json_items", 2, b"[1,2,3,4]"),
        ("max_json_escapes", 1, rb'["\n\n"]'),
    ],
)
def test_a_request_beyond_a_limit_is_refused_by_its_name(
    limit: str, value: int, body: bytes
) -> None:
    with pytest.raises(TooLargeError) as error:
        check_size(body, Limits(**{limit: value}))

    assert (limit, value) == (error.value.limit, error.value.allowed)


def test_an_answer_and_a_conversation_have_their_own_limits() -> None:
    with pytest.raises(TooLargeError, match="max_complete_bytes"):
        check_complete(b"[1,2]", Limits(max_complete_bytes=4))
    with pytest.raises(TooLargeError, match="max_messages"):
        check_messages(3, Limits(max_messages=2))
    check_messages(2, Limits(max_messages=2))
