"""A call's arguments while they stream: every prefix valid, every mistake repaired or reported."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import TooLargeError
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.turn.arguments import Ending, JsonArguments
from dragoman.wire.json_scanner import JsonScanner


def arguments(*fragments: str, limits: Limits = DEFAULT_LIMITS) -> tuple[str, Ending]:
    """Feed everything; return all that was forwarded, and the ending."""
    stream = JsonArguments(limits=limits)
    out = "".join([stream.feed(fragment) for fragment in fragments])
    ending = stream.end()
    return out + ending.text, ending


def in_every_way(text: str) -> list[list[str]]:
    """Whole, character by character, and in two at every place."""
    return [[text], list(text), *([text[:at], text[at:]] for at in range(1, len(text)))]


def is_prefix(text: str) -> bool:
    return JsonScanner().feed(text) == len(text)


# --- good arguments ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        '{"a":1}',
        '{"a": [1, 2, {"b": null}], "c": "x,}]"}',
        '{"a":"\\u00e9\\n\\"", "b" : -1.5e+3 }',
        '{\n  "a" : "é😀",\n  "a" : true\n}',
    ],
)
def test_a1_good_arguments_pass_byte_for_byte_however_they_are_cut(text: str) -> None:
    for fragments in in_every_way(text):
        assert arguments(*fragments) == (text, Ending())


def test_b10_every_value_leaves_as_soon_as_it_is_there() -> None:
    stream = JsonArguments()

    assert stream.feed('{"a": "xy') == '{"a": "xy'
    assert not stream.holding
    assert stream.feed('z", ') == 'z"'
    assert stream.holding
    assert stream.feed('"b') == ', "b'
    assert not stream.whole
    assert stream.feed('":1}') == '":1}'
    assert stream.whole


objects = st.dictionaries(
    st.text(max_size=5),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False)
        | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
        ),
        max_leaves=8,
    ),
    max_size=4,
).filter(lambda value: "Infinity" not in json.dumps(value))


@given(objects, st.sampled_from([None, 2]), st.sampled_from([True, False]), st.data())
def test_any_object_cut_anywhere_comes_out_byte_for_byte_and_every_prefix_is_valid(
    value: object, indent: int | None, ascii_only: object, data: st.DataObject
) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=bool(ascii_only))
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    stream = JsonArguments()
    out = ""

    for a, b in zip([0, *places], [*places, len(text)], strict=True):
        out += stream.feed(text[a:b])
        assert text.startswith(out)
        assert is_prefix(out)
    assert stream.end() == Ending()
    assert out == text


@given(objects, st.data())
def test_b10_any_object_that_stops_anywhere_is_not_whole_and_leaves_as_it_came(
    value: object, data: st.DataObject
) -> None:
    text = json.dumps(value)
    at = data.draw(st.integers(1, len(text) - 1))
    out, ending = arguments(text[:at])

    assert not ending.whole
    assert not ending.broken
    assert text[:at].rstrip() == out.rstrip()


# --- t9, t10, t11 -----------------------------------------------------------------------------------


@pytest.mark.parametrize("fragments", [[], [""], ["", ""], [" "], ["\n", "\t"], ["null"], ['""']])
def test_t9_b4_no_arguments_are_an_empty_object(fragments: list[str]) -> None:
    out, ending = arguments(*fragments)

    assert (out, ending.whole, ending.losses) == ("{}", True, ())


def test_t9_nothing_at_all_is_whole_only_if_nobody_was_cut_off() -> None:
    assert JsonArguments().end().open_ended
    assert not arguments("null")[1].open_ended


def test_white_space_before_the_arguments_goes() -> None:
    assert arguments("\n ", ' {"a":1}') == ('{"a":1}', Ending())


@pytest.mark.parametrize("inner", ['{"a":"b"}', '{"a": "\\n", "é": [1]}', "{}"])
def test_t10_arguments_encoded_twice_are_unwrapped(inner: str) -> None:
    for fragments in in_every_way(json.dumps(inner)):
        assert arguments(*fragments) == (inner, Ending(inner, losses=("args_repaired",)))


@pytest.mark.parametrize(
    "text", ["[1,2]", "5", '"ls -l"', "true", "ls -l", "'x'", '"{\\"a\\":"', "-"]
)
def test_t10_what_is_no_object_leaves_as_it_came(text: str) -> None:
    out, ending = arguments(*text)

    assert text == out
    assert ending.broken
    assert not ending.whole
    assert ending.losses in (("args_not_object",), ("args_invalid",))


@pytest.mark.parametrize("tail", ["}", "}}", " x", "\n```", '{"b":2}', ","])
def test_t11_what_follows_complete_arguments_goes_and_is_reported(tail: str) -> None:
    for fragments in in_every_way('{"a":1}' + tail):
        out, ending = arguments(*fragments)
        assert out.rstrip() == '{"a":1}'
        assert ending.losses == ("args_trailing",)
        assert ending.whole


def test_t11_white_space_after_complete_arguments_is_no_loss() -> None:
    assert arguments('{"a":1}', "\n", " ")[1].losses == ()


# --- b3 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "again", "expected"),
    [
        ('{"command":"pwd"', '{"command": "pwd"}', '{"command":"pwd"}'),
        ('{"command":"pwd","n":1', '{ "command" : "pwd" ,\n "n" : 1 }', '{"command":"pwd","n":1 }'),
        ('{"a": "x, y",', '{"a":"x, y","b":[1,2]}', '{"a": "x, y","b":[1,2]}'),
        ('{"a":1', '{"a":12}', '{"a":12}'),
        ('{"a":"\\"', '{"a":"\\"x"}', None),  # still inside the string: it is more of it
        ("{", '{"a":1}', '{"a":1}'),
    ],
)
def test_b3_arguments_sent_again_in_full_are_recognised(
    first: str, again: str, expected: str | None
) -> None:
    out, ending = arguments(first, again)

    if expected is None:
        assert "args_repeated" not in ending.losses
    else:
        assert (out, ending.whole, ending.losses) == (expected, True, ("args_repeated",))


def test_b3_a_second_copy_of_complete_arguments_goes() -> None:
    out, ending = arguments('{"command":"pwd"}', '{"command": "pwd"}')

    assert out == '{"command":"pwd"}'
    assert ending.whole


def test_b3_a_different_text_is_not_a_copy() -> None:
    assert arguments('{"a":1 ', '{"a":12}')[1].broken
    assert arguments('{"a":1 ', '{"b":1}')[1].broken
    assert arguments('{"a":1,"b":2 ', '{"a":1}')[1].broken


def test_b3_a_copy_beyond_the_window_is_not_recognised_but_reported() -> None:
    limits = Limits(resend_window_bytes=4)
    _, ending = arguments('{"command":"pwd"', '{"command":"pwd"}', limits=limits)

    assert ending.broken


# --- what models get wrong --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a":"x\ny\tz\x00"}', {"a": "x\ny\tz\x00"}),
        ('{"a\n":1}', {"a\n": 1}),
        ('{"a":"\\d+\\.\\s"}', {"a": "\\d+\\.\\s"}),
        ('{"a":"it\\\'s"}', {"a": "it's"}),
        ('{"a":"C:\\Program Files"}', {"a": "C:\\Program Files"}),
        ('{"a":"x\\\ny"}', {"a": "x\ny"}),
        ('{"a":"\\é"}', {"a": "\\é"}),
        ('{"a":NaN}', {"a": None}),
        ('{"a": [1, NaN, Infinity], "b": undefined}', {"a": [1, None, None], "b": None}),
        ('{"a": True, "b": [False, None]}', {"a": True, "b": [False, None]}),
        ('{"a":1,}', {"a": 1}),
        ('{"a":[1,2,],"b":{"c":1 , } ,\n}', {"a": [1, 2], "b": {"c": 1}}),
        ('{"a": None, "b": [1,],}', {"a": None, "b": [1]}),
        ('{"a": None, "b": "x\ny\\d"}', {"a": None, "b": "x\ny\\d"}),
        ("{'a': 'b', 'c': [1, None]}", {"a": "b", "c": [1, None]}),
        ('{"a": \'it\', "b": (1, 2)}', {"a": "it", "b": [1, 2]}),
        ('{"a": None} }', {"a": None}),
    ],
)
def test_c9_what_can_be_repaired_is_repaired_and_reported_however_it_is_cut(
    text: str, value: object
) -> None:
    for fragments in in_every_way(text):
        stream = JsonArguments()
        out = ""
        for fragment in fragments:
            out += stream.feed(fragment)
            assert is_prefix(out)
        ending = stream.end()

        assert value == json.loads(out + ending.text)
        assert ending.whole
        assert "args_repaired" in ending.losses


@pytest.mark.parametrize(
    "text",
    [
        '{"a": foo}',
        "{a: 1}",
        '{"a": "\\u12g4"}',
        '{"a" "b"}',
        '{"a": 1 2}',
        '{"a": -Infinity}',
        "{,}",
        '{"a": Nonesuch}',
    ],
)
def test_p_9_what_nobody_can_read_is_broken_and_leaves_as_it_came(
    text: str,
) -> None:
    for fragments in in_every_way(text):
        out, ending = arguments(*fragments)
        assert ending.broken
        assert not ending.whole
        assert ("args_invalid",) == ending.losses
        assert text == out


def test_b10_arguments_that_were_repaired_and_then_stop_are_not_whole() -> None:
    stream = JsonArguments()
    out = stream.feed('{"a": None, "b": "x')
    ending = stream.end()
    out += ending.text

    assert not ending.whole
    assert '{"a": null, "b": "x' == out
    assert not stream.may_close(frozenset(), frozenset())


@pytest.mark.parametrize(
    ("text", "closable"),
    [
        ('{"a":"x"', True),
        ('{"a": None', True),
        ('{"a":[1, 2]', True),
        ('{"a":"x" ', True),
        ('{"a":"x', False),
        ('{"a":1', False),  # more digits may follow
        ('{"a":tru', False),
        ('{"a"', False),
        ('{"a":', False),
        ('{"a":"x",', False),  # a comma announces more
        ('{"a": None,', False),
        ('{"a":[1', False),
        ('{"a":["x"', False),  # and so does an inner bracket
        ('{"a":{"b":"x"', False),
        ("{", False),
        ('{"a": foo', False),
    ],
)
def test_b10_only_the_last_bracket_may_be_added(text: str, closable: bool) -> None:
    for fragments in in_every_way(text):
        stream = JsonArguments()
        for fragment in fragments:
            stream.feed(fragment)
        stream.end()

        assert closable is stream.may_close(frozenset(), frozenset())


def test_b10_nothing_is_added_if_a_required_parameter_is_missing() -> None:
    stream = JsonArguments()
    stream.feed('{"path":"x","mode":"w"')

    assert stream.may_close(frozenset({"path"}), frozenset())
    assert not stream.may_close(frozenset({"path", "content"}), frozenset())


def test_b10_arguments_too_long_to_look_at_again_are_not_closed_if_anything_is_required() -> None:
    stream = JsonArguments(limits=Limits(resend_window_bytes=8))
    stream.feed('{"path":"a long name"')

    assert stream.may_close(frozenset(), frozenset())
    assert not stream.may_close(frozenset({"path"}), frozenset())


@pytest.mark.parametrize("text", ['{"a":1,', '{"a":1 , ', '{"a":[1,', '{"a":[{"b":2},\n'])
def test_b10_a_comma_that_waits_leaves_with_cut_arguments(text: str) -> None:
    for fragments in in_every_way(text):
        out, ending = arguments(*fragments)
        assert text == out
        assert not ending.whole


def test_c3_mending_many_mistakes_in_a_large_text_takes_no_longer_than_reading_it() -> None:
    text = '{"a":[' + "None," * 200_000 + "]}"
    out, ending = arguments(text)

    assert ending.whole
    assert len(json.loads(out)["a"]) == 200_000


def test_c3_a_comma_too_many_at_the_end_of_large_arguments_is_repaired() -> None:
    text = '{"a":"' + "x" * 200_000 + '",}'
    out, ending = arguments(*[text[at : at + 1000] for at in range(0, len(text), 1000)])

    assert json.loads(out) == {"a": "x" * 200_000}
    assert ending.losses == ("args_repaired",)


def test_halves_of_surrogate_pairs_raise_nothing() -> None:
    assert arguments('{"a":"\ud800"}')[0] == '{"a":"\ud800"}'
    assert arguments("x\ud800\ude00\ud800")[0] == "x\U00010200\ufffd"


@given(st.lists(st.text(st.sampled_from("{}[]\",:\\un0'NaTre \n\ud800x")), max_size=6))
def test_any_text_gives_prefixes_and_an_ending(fragments: list[str]) -> None:
    stream = JsonArguments()
    out = ""
    for fragment in fragments:
        out += stream.feed(fragment)
        assert is_prefix(out)
    ending = stream.end()

    if ending.whole:
        assert isinstance(json.loads(out + ending.text), dict)
    assert not (ending.whole and ending.broken)


# --- limits -----------------------------------------------------------------------------------------


def test_k2_7_arguments_past_their_limit_are_refused_by_name() -> None:
    machine = JsonArguments(limits=Limits(max_tool_args_bytes=20))
    machine.feed('{"input":"é')

    with pytest.raises(TooLargeError) as caught:
        machine.feed("12345678é")
    assert caught.value.limit == "max_tool_args_bytes"


def test_what_is_held_counts_too() -> None:
    machine = JsonArguments(limits=Limits(max_tool_args_bytes=20))
    machine.feed("no json " * 2)

    with pytest.raises(TooLargeError, match="max_tool_args_bytes"):
        machine.feed("12345")


def test_nesting_past_its_limit_is_refused_by_name() -> None:
    with pytest.raises(TooLargeError, match="max_json_depth"):
        JsonArguments(limits=Limits(max_json_depth=2)).feed('{"a":[[')
