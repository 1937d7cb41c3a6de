"""Letters replaced, structure and markers kept; names that stay distinct."""

import pytest

from dragoman.recorder.masked_text import MaskedText, Names, mask_name, mask_text

CASES = (

    ("Oslo is 3 km", "Xxxx xx 3 xx"),
    ('{"city": "Oslo\\n\\u00e9", "n": 1e5, "b": true}', '{"qqqb": "Xxxx\\n\\u0436", "x": 1e5, "x": true}'),
    ("<|tool_call_begin|>functions.get_it:0", "<|tool_call_begin|>functions.qqq_qb:0"),
    ("<function=get_it><parameter=city>Oslo</parameter>", "<function=qqq_qb><parameter=qqqb>Xxxx</parameter>"),
    ("the parameter of a function", "xxx xxxxxxxxx xx x xxxxxxxx"),
    ("Zürich 杭州 😀", "Xжxxxx 字字 \U00020000"),
    ("https://oslo.example/a", "https://xxxx.xxxxxxx/x"),
    ("It is true, null or None.", "Xx xx xxxx, xxxx xx Xxxx."),
    ('{"a": [null, true ], "b":false}', '{"x": [null, true ], "x":false}'),
    ("get_it(city=None, b = True )", "qqq_qb(qqqb=None, x = True )"),
    ("<parameter=city>\ntrue\n</parameter>", "<parameter=qqqb>\ntrue\n</parameter>"),
    ("null", "null"),  # a whole argument may be one
)  # fmt: skip


@pytest.mark.parametrize(("text", "masked"), CASES)
def test_letters_are_replaced_and_structure_stays(text: str, masked: str) -> None:
    names = Names()
    for one in ("city", "get_it"):
        names.add(one)
    found = mask_text(text, names)
    assert masked == found
    assert len(text.encode()) == len(found.encode())


def test_a_name_is_the_same_in_every_spelling_and_differs_from_others() -> None:
    names = Names()
    masked = {
        one: mask_name(one, names) for one in ("get_weather", "getWeather", "set_weather", "x", "y")
    }
    assert masked["get_weather"].replace("_", "") == masked["getWeather"].lower()
    assert len(set(masked.values())) == len(masked)
    assert "call_" == mask_name("call_9fA", names)[:5]


TEXTS = (
    *(text for text, _ in CASES),
    "velocity city get_it.city, get-it",  # a name inside of a word is not one
    "call_9fA1 toolu_city city",
    "3e5, 2.5e-3 and 7e 1.5.city",
    "a\\\\nb \\u00e9\\u00 \\ud83d\\ude00 c:\\new",
    "see https://oslo.example and data:image/png;base64,iVBORw0KGgo= or data: city",
    '<tool_call>\n{"name": "get_it", "arguments": {"city": null}}\n</tool_call>',
    "<think>so</think><\uff5ctool\u2581calls\u2581begin\uff5c>function<\uff5ctool\u2581sep\uff5c>get_it",
    "true trueish None, null. falsehood",
    "is null" + " " * 40 + ", " + " " * 40 + "true, [true" + " " * 31 + "]",
    "\u676d\u5dde\u5728\u54ea\u91cc\uff1fcity\u676d",
)


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_in_pieces_is_masked_like_the_whole(text: str) -> None:
    names = Names()
    for one in ("city", "get_it", "call_9fA1"):
        names.add(one)
    masked = mask_text(text, names)
    for size in range(1, len(text) + 1):
        pieces = MaskedText(names)
        found = []
        for start in range(0, len(text), size):
            pieces.feed(text[start : start + size])
            found.append(pieces.take())
        found.append(pieces.take(ended=True))
        assert masked == "".join(found), size


def test_only_what_may_become_a_name_or_a_marker_waits() -> None:
    names = Names()
    names.add("get_weather")
    pieces = MaskedText(names)
    left = []
    for piece in ("Zzz", "get", "_wea", " get_wea", "ther", " zz", " <|tool", "_zz", " zz" * 99):
        pieces.feed(piece)
        left.append(len(pieces.take()))

    assert [3, 3, 4, 1, 0, 14, 3, 7, 297] == left
