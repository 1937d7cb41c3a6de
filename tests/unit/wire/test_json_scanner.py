"""The incremental JSON scanner: what it accepts, where it stops, and what would close a prefix."""

import json

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.tables import in_one_test

from dragoman.errors import TooLargeError
from dragoman.limits import Limits
from dragoman.wire.json_scanner import JsonPlace, JsonScanner

VALID = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "-1",
    "10",
    "1.5",
    "0.1",
    "-0.0",
    "1e5",
    "1E+5",
    "1e-05",
    "123.456e+78",
    "1234567890123456789012345678901234567890",
    '""',
    '"a"',
    '" "',
    '"\\""',
    '"\\\\"',
    '"\\/\\b\\f\\n\\r\\t"',
    '"\\u0041"',
    '"\\ud83d\\ude00"',
    '"\\uD800"',
    '"\\uAbCd\\u0000"',
    '"\x7f"',
    '"\u2028\u2029"',
    '"é€😀"',
    "[]",
    "[ ]",
    "[1]",
    "[1,2]",
    "[ 1 , 2 ]",
    "[[],[[]]]",
    '[{"a":[]},"b",null]',
    "{}",
    "{ }",
    '{"a":1}',
    '{"a":1,"a":2}',
    '{"":0}',
    '{"a":{"b":{"c":[]}},"d":""}',
    '{ "a" : 1 , "b" : [ true , false ] }',
    '\t\n\r {"a"\n:\t1\r}\n\n ',
    '{"a":"}"}',
    '["]",",",":"]',
]

# Not JSON, and the offset of the first character that cannot stand where it stands.
INVALID = [
    ("]", 0),
    ("}", 0),
    (",", 0),
    (":", 0),
    ("'a'", 0),
    ("nul1", 3),
    ("True", 0),
    ("tru e", 3),
    ("NaN", 0),
    ("Infinity", 0),
    ("-Infinity", 1),
    ("nan", 1),
    ("+1", 0),
    (".5", 0),
    ("01", 1),
    ("-01", 2),
    ("1.e5", 2),
    ("1..5", 2),
    ("1.5.5", 3),
    ("1e", None),
    ("1e+", None),
    ("1e5.5", 3),
    ("1ea", 2),
    ("--1", 1),
    ("- 1", 1),
    ("0x10", 1),
    ("1 2", 2),
    ("1_000", 1),
    ('"a', None),
    ('"\\x41"', 2),
    ('"\\', None),
    ('"\\u12', None),
    ('"\\u12g4"', 5),
    ('"\\u 123"', 3),
    ('"\n"', 1),
    ('"\t"', 1),
    ('"\x00"', 1),
    ('"\x1f"', 1),
    ('""x', 2),
    ("[", None),
    ("[1", None),
    ("[1,", None),
    ("[1,]", 3),
    ("[,1]", 1),
    ("[1 2]", 3),
    ("[1}", 2),
    ("[1:2]", 2),
    ("[]]", 2),
    ('{"a":1', None),
    ('{"a":1,}', 7),
    ("{,}", 1),
    ("{a:1}", 1),
    ("{'a':1}", 1),
    ("{1:2}", 1),
    ("{null:1}", 1),
    ('{"a"}', 4),
    ('{"a",1}', 4),
    ('{"a" 1}', 5),
    ('{"a"::1}', 5),
    ('{"a":}', 5),
    ('{"a":1,,"b":2}', 7),
    ('{"a":1 "b":2}', 7),
    ('{"a":1]', 6),
    ('{"a":1}}', 7),
    ('{"a":1}{"a":1}', 7),
    ('{"a":1} // c', 8),
    ("/* c */ 1", 0),
    ("\ufeff1", 0),
    ("\u00a01", 0),
    ("[\u20281]", 1),
    ("\x0b1", 0),
    ("", None),
    ("   ", None),
    ("[１]", 1),
    ("[²]", 1),
]


def scanned(*pieces: str) -> JsonScanner:
    """Feed pieces that are all taken to the end."""
    scanner = JsonScanner()
    for piece in pieces:
        assert scanner.feed(piece) == len(piece)
    return scanner


def is_whole(scanner: JsonScanner) -> bool:
    """A number at the root does not mark its end; white space shows that it could end here."""
    return scanner.feed(" ") == 1 and scanner.done


@in_one_test
@pytest.mark.parametrize("text", VALID)
def test_a_valid_document_is_taken_whole_and_done(text: str) -> None:
    json.loads(text)

    assert is_whole(scanned(text))
    assert is_whole(scanned(*text))


@in_one_test
@pytest.mark.parametrize("text", VALID)
def test_every_prefix_of_a_valid_document_is_accepted_in_two_pieces(text: str) -> None:
    for at in range(len(text)):
        assert is_whole(scanned(text[:at], text[at:]))


@in_one_test
@pytest.mark.parametrize("text", VALID)
def test_what_closes_a_prefix_makes_it_valid(text: str) -> None:
    for at in range(len(text) + 1):
        json.loads(text[:at] + scanned(text[:at]).closing())


@in_one_test
@pytest.mark.parametrize(("text", "stop"), INVALID)
def test_an_invalid_document_is_refused_at_the_right_place_however_it_is_cut(
    text: str, stop: int | None
) -> None:
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(text)

    if stop is None:
        assert not is_whole(scanned(text))
        return
    for at in range(stop + 1):
        scanner = scanned(text[:at])
        assert at + scanner.feed(text[at:]) == stop
        assert scanner.feed(text[stop:]) == 0


@pytest.mark.parametrize(
    ("text", "closing"),
    [
        ("", "null"),
        ("{", "}"),
        ('{"', '":null}'),
        ('{"a', '":null}'),
        ('{"a"', ":null}"),
        ('{"a":', "null}"),
        ('{"a":t', "rue}"),
        ('{"a":"b', '"}'),
        ('{"a":"b\\', '\\"}'),
        ('{"a":"b\\u', '0000"}'),
        ('{"a":"b\\u12', '00"}'),
        ('{"a\\u1', '000":null}'),
        ('{"a":-', "0}"),
        ('{"a":1', "}"),
        ('{"a":1.', "0}"),
        ('{"a":1e-', "0}"),
        ('{"a":1,', '"":null}'),
        ("[", "]"),
        ("[1,", "null]"),
        ('[{"a":[', "]}]"),
        ('{"a":1}', ""),
    ],
)
def test_closing_invents_as_little_as_it_can(text: str, closing: str) -> None:
    assert closing == scanned(text).closing()


@pytest.mark.parametrize(
    ("text", "only"),
    [
        ('{"a":1 ', True),
        ('{"a":"x"', True),
        ('{"a":[{}]', True),
        ("{", False),  # a key may follow
        ("[", False),
        ('{"a":[{}', False),  # the list may go on
        ('{"a":1', False),  # more digits could follow
        ('{"a":1,', False),
        ('{"a":', False),
        ('{"a"', False),
        ('{"a":"x', False),
        ("", False),
        ("{}", False),
    ],
)
def test_only_the_closer_is_missing_when_every_value_is_whole(text: str, *, only: bool) -> None:
    assert only is scanned(text).only_closer_missing


def test_the_place_shows_what_was_just_read() -> None:
    places = {
        "": JsonPlace.VALUE,
        "{": JsonPlace.FIRST_KEY,
        '{"': JsonPlace.KEY_STRING,
        '{"\\': JsonPlace.ESCAPE,
        '{"\\u': JsonPlace.UNICODE,
        '{"a"': JsonPlace.COLON,
        '{"a":': JsonPlace.VALUE,
        '{"a":"': JsonPlace.STRING,
        '{"a":1': JsonPlace.NUMBER,
        '{"a":t': JsonPlace.LITERAL,
        '{"a":true': JsonPlace.AFTER,
        '{"a":true,': JsonPlace.KEY,
        "[": JsonPlace.FIRST_ELEMENT,
        "[0,": JsonPlace.ELEMENT,
        "{}": JsonPlace.DONE,
    }

    assert places == {text: scanned(text).place for text in places}
    assert scanned('{"a":"').in_string
    assert scanned('{"a').in_string
    assert not scanned('{"a\\').in_string


@pytest.mark.parametrize("opener", ["[", '{"a":'])
def test_nesting_past_the_limit_is_refused_by_name(opener: str) -> None:
    scanner = JsonScanner(limits=Limits(max_json_depth=3))
    scanner.feed(opener * 3)

    with pytest.raises(TooLargeError) as caught:
        scanner.feed(opener)
    assert (caught.value.limit, caught.value.allowed) == ("max_json_depth", 3)


def test_what_was_closed_does_not_count_as_nesting() -> None:
    scanner = JsonScanner(limits=Limits(max_json_depth=2))
    text = "[" + "[]," * 100 + "[]]"

    assert scanner.feed(text) == len(text)


json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(json_values, st.sampled_from([None, 1]), st.sampled_from([True, False]), st.data())
def test_any_value_is_accepted_in_any_pieces_and_closable_at_every_place(
    value: object, indent: int | None, ascii_only: object, data: st.DataObject
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=bool(ascii_only))
    at = data.draw(st.integers(0, len(text)))
    scanner = scanned(text[:at])

    json.loads(text[:at] + scanner.closing())
    assert scanner.feed(text[at:]) == len(text) - at
    assert is_whole(scanner)


@given(st.text(st.sampled_from('{}[]",:\\u0a1-+.eEtrufalsn \n\x01é')), st.data())
@example("1", None)
def test_the_scanner_agrees_with_a_whole_parser(text: str, data: st.DataObject | None) -> None:
    """For any text: taken whole and done just when it parses; taken so far just when closable."""
    scanner = JsonScanner()
    at = data.draw(st.integers(0, len(text))) if data else 0
    taken = scanner.feed(text[:at])
    if taken == at:
        taken += scanner.feed(text[at:])

    json.loads(text[:taken] + scanner.closing())
    try:
        json.loads(text)
    except ValueError:
        assert taken < len(text) or not is_whole(scanner)
    else:
        assert taken == len(text)
        assert is_whole(scanner)


@pytest.mark.parametrize("length", [64 * 1024 - 1, 64 * 1024, 64 * 1024 + 1, 200_000])
def test_a_long_string_is_one_value_however_many_steps_it_takes(length: int) -> None:
    text = f'{{"a": "{"x" * length}"}} and more'

    assert text.index("and") == JsonScanner().feed(text)
