"""The free-form input of custom tools: unescaped as it comes, and given as it is if it is not JSON."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import TooLargeError
from dragoman.limits import Limits
from dragoman.turn.arguments import ArgumentStream, CustomInput, Ending, RawInput


def run(stream: ArgumentStream, *fragments: str) -> tuple[str, Ending]:
    """Feed everything; return all that was forwarded, and the ending."""
    out = "".join([stream.feed(fragment) for fragment in fragments])
    ending = stream.end()
    return out + ending.text, ending


def in_every_way(text: str) -> list[list[str]]:
    """Whole, character by character, and in two at every place."""
    return [[text], list(text), *([text[:at], text[at:]] for at in range(1, len(text)))]


def custom(*fragments: str) -> tuple[str, Ending]:
    return run(CustomInput(), *fragments)


@pytest.mark.parametrize(
    "value",
    [
        "",
        '*** Begin Patch\n+\tx = "é"\n*** End Patch\n',
        '\\ \\\\ \\" / \b\f\r',
        "😀 \U0001f680",
        "\\ud83d \\\\ud83d",  # no surrogates: a backslash and letters
        '{"input":"x"}',
    ],
)
def test_f7_the_input_is_unescaped_wherever_it_is_cut(value: str) -> None:
    for text in (
        json.dumps({"input": value}),
        json.dumps({"input": value}, ensure_ascii=False),
        json.dumps({"input": value}, indent=2),
        json.dumps({"input": value, "other": [1, "x"]}),
    ):
        for fragments in in_every_way(text):
            out, ending = custom(*fragments)
            assert value == out
            assert ending.whole
            assert ending.losses == ()


def test_f7_the_input_leaves_as_it_comes() -> None:
    stream = CustomInput()

    assert stream.feed('{"input":"ab') == "ab"
    assert stream.feed("c\\") == "c"
    assert stream.feed("n\\ud8") == "\n"
    assert stream.feed("3d") == ""
    assert stream.feed("\\ude0") == ""
    assert stream.feed('0"') == "😀"
    assert stream.feed(', "x": 1}') == ""
    assert stream.whole


@given(st.text(), st.sampled_from([True, False]), st.data())
def test_f7_any_input_cut_anywhere_comes_out_the_same(
    value: str, ascii_only: object, data: st.DataObject
) -> None:
    text = json.dumps({"input": value}, ensure_ascii=bool(ascii_only))
    places = data.draw(st.lists(st.integers(0, len(text)), max_size=8).map(sorted))
    stream = CustomInput()
    out = ""

    for a, b in zip([0, *places], [*places, len(text)], strict=True):
        out += stream.feed(text[a:b])
        assert value.startswith(out)
    ending = stream.end()
    assert out + ending.text == value
    assert ending.whole


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"input":"a\\ud83d"}', "a\ufffd"),
        ('{"input":"\\ude00b"}', "\ufffdb"),
        ('{"input":"\\ud83d\\ud83d\\ude00"}', "\ufffd😀"),
        ('{"input":"\\ud83d\\n\\\\ud83d"}', "\ufffd\n\\ud83d"),
        ('{"input":"\\ud83dx\\ud83d\\u0041"}', "\ufffdx\ufffdA"),
    ],
)
def test_s16_half_a_surrogate_pair_is_replaced(text: str, value: str) -> None:
    for fragments in in_every_way(text):
        assert value == custom(*fragments)[0]


@pytest.mark.parametrize(
    ("text", "value", "losses"),
    [
        ('{"x":1,"input":"a\\nb"}', "a\nb", ()),
        ("{}", "", ()),
        ("", "", ()),
        ('{"patch":"a"}', '{"patch":"a"}', ("args_repaired",)),
        ('{"input":5}', '{"input":5}', ("args_repaired",)),
        ('{"input":null, "x": 1}', '{"input":null, "x": 1}', ("args_repaired",)),
        ('"{\\"input\\":\\"x\\"}"', "x", ("args_repaired",)),
        ("*** Begin Patch\n{", "*** Begin Patch\n{", ("args_repaired",)),
        ("{ not json }", "{ not json }", ("args_repaired",)),
        ('{"inputs": oh}', '{"inputs": oh}', ("args_repaired",)),
        ('{"input": oh}', '{"input": oh}', ("args_repaired",)),
        ("{'input': 'x'}", "x", ("args_repaired",)),
        ('{"input":"a\nb"}', "a\nb", ("args_repaired",)),
        ('{"input":"\\d"}', "\\d", ("args_repaired",)),
        ('{"input":"x",}', "x", ("args_repaired",)),
        ('{"input":"x" oh}', "x", ("args_trailing",)),
        ('{"input":"x"}}', "x", ("args_trailing",)),
    ],
)
def test_f7_another_shape_waits_for_the_end_and_is_read_or_given_as_it_is(
    text: str, value: str, losses: tuple[str, ...]
) -> None:
    for fragments in in_every_way(text) if text else [[]]:
        out, ending = custom(*fragments)
        assert value == out
        assert ending.whole
        assert losses == ending.losses


@pytest.mark.parametrize(
    "text", ['{"input":"ab', '{"inp', '{"input":"ab\\u12', '{"x":1,"input":"ab"']
)
def test_b10_an_input_that_stops_is_not_whole(text: str) -> None:
    _, ending = custom(text)

    assert not ending.whole
    assert not ending.broken


def test_b10_text_that_is_no_json_is_whole_only_if_nobody_was_cut_off() -> None:
    assert custom("*** Begin Patch")[1].open_ended
    assert custom("{ not json")[1].open_ended
    assert not custom('{"input":"x"}')[1].open_ended


def test_raw_input_passes_as_it_comes() -> None:
    assert run(RawInput(), "{", "\\n", "") == ("{\\n", Ending(open_ended=True))


@pytest.mark.parametrize("stream", [CustomInput, RawInput])
def test_k2_7_input_past_its_limit_is_refused_by_name(
    stream: type[CustomInput] | type[RawInput],
) -> None:
    machine = stream(limits=Limits(max_tool_args_bytes=20))
    machine.feed('{"input":"é')

    with pytest.raises(TooLargeError) as caught:
        machine.feed("12345678é")
    assert caught.value.limit == "max_tool_args_bytes"
