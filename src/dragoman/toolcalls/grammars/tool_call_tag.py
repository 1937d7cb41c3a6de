"""What stands between `<tool_call>` and `</tool_call>`: one grammar for all who share the tag.

What follows the tag decides: `{` is a JSON object, `<function=` a function with parameters in tags, a
name one with keys and values in tags.
"""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    AHEAD_OR_END,
    BLANKS,
    OneOf,
    Part,
    Pattern,
    Rule,
    Run,
    Tags,
    Where,
    call,
    closes,
    one_of,
    opens_section,
)

NAME: Final = Run(r"[^<>{}\[\]()\"'=\\\s]", 1, 128, name="name")
_ANY_NAME: Final = Run(r"[^<>{}\[\]()\"'=\\\s]", 1, 128)
_LINE: Final = Run(r"\n", 0, 1)
# Blanks inside a tag, as some quantised models write them.
_GAP: Final = Run(" ", 0, 4)
# A line feed that was escaped once too often.
_ESCAPED: Final = one_of("\\n", "")
_KEY: Final = Run(r"[^<>\n]", 1, 256, name="key")


def xml_functions(opener: str, closer: str) -> tuple[Rule, ...]:
    """Return the rules of functions in tags: `<function=f><parameter=k>v</parameter></function>`."""
    body = Tags(
        param=(
            ("<", _GAP, "parameter", _GAP, "=", _GAP, _KEY, ">"),
            ('<parameter name="', Run(r'[^<>\n"]', 1, 256, name="key"), '">'),
        ),
        value_end=(
            (
                _LINE,
                one_of("</parameter>", "</content>"),
                BLANKS,
                AHEAD_OR_END,
                one_of("<parameter", "< parameter", "</function>", closer, opener, "<function="),
            ),
        ),
        value_cut=(
            (_LINE, AHEAD, "<parameter=", _KEY, ">"),
            (
                _LINE,
                AHEAD,
                "</function>",
                BLANKS,
                AHEAD_OR_END,
                one_of(closer, opener, "<function=", "</function>"),
            ),
            (_LINE, AHEAD, closer, BLANKS, AHEAD_OR_END, one_of(opener, "<function=")),
        ),
        call_end=(("</function>",),),
        skip=(("</parameter>",),),
        trim="line",
        json=True,
    )
    continues = one_of("<parameter", "< parameter", "</function>", "{")
    ahead = one_of(
        ("<function", _after_function(_ANY_NAME), BLANKS, continues),
        ("<function=", _ANY_NAME, "</function>"),
    )
    return (
        *opens_section(
            (opener, BLANKS, AHEAD, ahead), (opener, BLANKS, opener, BLANKS, AHEAD, ahead)
        ),
        *call(
            ("<function", _after_function(NAME), BLANKS, AHEAD, continues),
            ("<function=", NAME, AHEAD, "</function>"),
            body=body,
        ),
        *closes((closer,), section=True, stray=False),
        *closes(("</function>",), stray=False),
    )


def _after_function(name: Run) -> OneOf:
    """Return the ways in which a function's name is written."""
    return one_of(("=", name, _GAP, ">"), (' name="', name, '">'), (" ", name, ">"), (name, ">"))


def keyed_values(
    opener: Pattern,
    closer: Pattern,
    *,
    suffix: Part = "",
    separator: Pattern = (),
) -> tuple[Rule, ...]:
    """Return the rules of keys and values in tags: `<arg_key>k</arg_key><arg_value>v</arg_value>`.

    Each tag may end with `suffix`; `separator` stands between the name and the first key, if the
    format has such a thing.
    """
    key: Pattern = ("<arg_key", suffix, ">")
    key_end: Pattern = ("</arg_key", suffix, ">")
    value: Pattern = ("<arg_value", suffix, ">")
    value_end: Pattern = ("</arg_value", suffix, ">")
    named: Pattern = (*key, Run(r"[^<>]", 1, 256, name="key"), *key_end)
    param: Pattern = (*named, BLANKS, _ESCAPED, *value)
    body = Tags(
        param=(param,),
        value_end=(
            (*value_end, BLANKS, _ESCAPED, AHEAD_OR_END, one_of(key, value, closer, opener)),
        ),
        value_cut=((AHEAD, *param),),
        call_end=(closer,),
        # A key without its value, a value without its key.
        skip=(
            (*key, Run(r"[^<>]", 0, 256), *key_end, AHEAD, BLANKS, one_of(key, closer)),
            (*value, Run(r"[^<]", 0, 256), *value_end),
            value_end,
        ),
    )
    if separator:
        return call((*opener, BLANKS, NAME, BLANKS, *separator), body=body)
    any_key: Pattern = (*key, Run(r"[^<>]", 1, 256), *key_end, BLANKS, *value)
    return (
        *call((*opener, BLANKS, NAME, BLANKS, _ESCAPED, AHEAD, *key), body=body),
        # The opener left out: only where nothing else was said can a name be held for that.
        *call(
            (NAME, BLANKS, AHEAD, *any_key),
            body=body,
            at={Where.START, Where.ANSWER},
            declared=True,
        ),
        # Without arguments nothing but the name tells a call from prose.
        *call((*opener, BLANKS, NAME, BLANKS, *closer), body=body, declared=True, empty=True),
    )
