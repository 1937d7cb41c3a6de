"""Letters replaced, structure and markers kept; names that stay distinct."""

import pytest

from dragoman.recorder.masked_text import Names, mask_name, mask_text


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Oslo is 3 km", "Xxxx xx 3 xx"),
        ('{"city": "Oslo\\n\\u00e9", "n": 1e5, "b": true}', '{"qqqb": "Xxxx\\n\\u0436", "x": 1e5, "x": true}'),
        ("<|tool_call_begin|>functions.get_it:0", "<|tool_call_begin|>functions.qqq_qb:0"),
        ("<function=get_it><parameter=city>Oslo</parameter>", "<function=qqq_qb><parameter=qqqb>Xxxx</parameter>"),
        ("the parameter of a function", "xxx xxxxxxxxx xx x xxxxxxxx"),
        ("Zürich 杭州 😀", "Xжxxxx 字字 \U00020000"),
        ("https://oslo.example/a", "https://xxxx.xxxxxxx/x"),
    ],
)  # fmt: skip
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
