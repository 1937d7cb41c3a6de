"""Calls as `<invoke name="f"><parameter name="k">v</parameter></invoke>`: rules that several families share.

Also the families dots.llm and MiniCPM 5, which name functions and parameters by attributes.
"""

from typing import Final, Literal

from dragoman.toolcalls.format import (
    AHEAD,
    AHEAD_OR_END,
    BLANKS,
    Action,
    Format,
    OneOf,
    Pattern,
    Rule,
    Run,
    TagsSpec,
    call,
    closes,
    empty_pair,
    markers,
    one_of,
    opens_section,
)
from dragoman.toolcalls.formats.json_rules import tagged_objects

# --- shared rules: invokes ----------------------------------------------------------------------------
#
# DeepSeek, MiniMax-M2, Step-3 and Muse Glimmer use them, with different prefixes and sections.

_QUOTE: Final = Run(r"[\"']", 0, 1)
_GAP: Final = Run(" ", 0, 4)
_LINE: Final = Run(r"\n", 0, 1)
_NAME: Final = Run(r"[^\"'<>\s=]", 1, 128, name="name")
_ANY_NAME: Final = Run(r"[^\"'<>\s=]", 1, 128)
_KEY: Final = Run(r"[^\"'<>\n]", 1, 256, name="key")


def invokes(  # noqa: PLR0913 -- what differs between those who write invokes
    prefix: Pattern,
    *,
    section: tuple[Pattern, Pattern] | None,
    before: Pattern = (),
    after: Pattern = (),
    trim: Literal["none", "line", "blank"] = "none",
    flagged: bool = False,
    special: bool = False,
    special_section: bool = False,
    closers: tuple[str, ...] = ("parameter",),
) -> tuple[Rule, ...]:
    """Return rules for invokes whose tags begin with `<` and `prefix`.

    `section`: the markers around all invokes.  `before`, `after`: optional markers around each invoke.
    `flagged`: parameters state whether they are strings (`string="true"`).
    `special`: the tags are special tokens, so strays are dropped.  `special_section`: the section's markers are.
    """
    begin: Pattern = ("<", *prefix)
    end: Pattern = ("</", *prefix)
    param_ahead: Pattern = (*begin, "parameter")
    call_end: Pattern = (*end, "invoke", _GAP, ">")
    flag = Run("[a-z]", 1, 8, name="string")
    params: tuple[Pattern, ...] = ((*begin, "parameter name=", _QUOTE, _KEY, _QUOTE, _GAP, ">"),)
    if flagged:
        params += (
            (*begin, "parameter name=", _QUOTE, _KEY, _QUOTE, ' string="', flag, '"', _GAP, ">"),
        )
    outer: tuple[Pattern, ...] = tuple(
        marker for marker in (*(section or ()), before, after) if marker
    )
    header: Pattern = (*begin, "invoke", Run(" ", 1, 4), "name=", _QUOTE, _NAME, _QUOTE, _GAP)
    any_header: Pattern = (
        *begin,
        "invoke",
        Run(" ", 1, 4),
        "name=",
        _QUOTE,
        _ANY_NAME,
        _QUOTE,
        _GAP,
    )
    leads: tuple[Pattern, ...] = (before, ()) if before else ((),)
    body = TagsSpec(
        param=params,
        nameless=((*param_ahead, Run("[^<>]", 0, 128, name="attributes"), ">"),),
        value_end=(
            (
                *((BLANKS,) if trim == "blank" else ()),
                *end,
                one_of(*(f"{closer}>" for closer in closers)),
                BLANKS,
                AHEAD_OR_END,
                OneOf((param_ahead, (*end, "invoke"), (*begin, "invoke"), *outer)),
            ),
        ),
        value_cut=(
            # Without the line feed before the tag.  Case: deepseek_v32/n3_3_value_not_closed.
            *((_LINE, AHEAD, *param) for param in params),
            (_LINE, AHEAD, *call_end, BLANKS, AHEAD_OR_END, OneOf(((*begin, "invoke"), *outer))),
        ),
        next_call=tuple(
            (*lead, *any_header, ">", BLANKS, *param) for lead in leads for param in params
        ),
        call_end=(call_end,),
        special=special,
        skip=((*end, "parameter>"),),
        trim=trim,
        json=True,
    )
    continues = OneOf((param_ahead, call_end, ("{",)))
    rules: list[Rule] = []
    for lead in leads:
        rules += call((*lead, *header, ">", BLANKS, AHEAD_OR_END, continues), body=body)
        rules += call((*lead, *header, "/>"), body=body, empty=True)
    if section is not None:
        ahead = OneOf(tuple((*lead, *any_header, one_of(">", "/>")) for lead in leads))
        rules += empty_pair(*section, special=special or special_section)
        rules += opens_section((*section[0], BLANKS, AHEAD, ahead))
        rules += closes(section[1], section=True, stray=special)
    rules += closes(call_end, stray=special)
    if special:
        rules += markers((*begin, "invoke", Run("[^<>]", 0, 128), ">"), action=Action.NOT_A_CALL)
    return tuple(rules)


# --- dots ---------------------------------------------------------------------------------------------
#
#     <dots_function_call><invoke name="f"><parameter name="id">7</parameter></invoke></dots_function_call>
#
# Invokes, or JSON objects, in one section; blanks around values are trimmed.
# Cases: tests/corpus/toolcalls/dots.

_OPENER: Final = "<dots_function_call>"
_CLOSER: Final = "</dots_function_call>"

DOTS: Final = Format(
    key="dots",
    opens=("<dots_function_call>",),
    description="dots.llm",
    models=("dots.llm*", "dots-*", "rednote*"),
    rules=(
        *invokes((), section=((_OPENER,), (_CLOSER,)), trim="blank"),
        *tagged_objects(_OPENER, _CLOSER),
    ),
)

# --- minicpm5 -----------------------------------------------------------------------------------------
#
#     <function name="f"><param name="a">1</param></function>
#
# Names are attributes; a value may be a CDATA section.
# Cases: tests/corpus/toolcalls/minicpm5.

_PARAM_NAME: Final = Run(r"[^\"'<>\n]", 1, 80, name="key")
_MINICPM5_QUOTE: Final = Run(r"[\"']", 1, 1)
_PARAM: Final = (
    "<param",
    Run(" ", 0, 2),
    "name=",
    _MINICPM5_QUOTE,
    _PARAM_NAME,
    _MINICPM5_QUOTE,
    ">",
)
# The text of a CDATA section is used verbatim.  Case: minicpm5/cdata_is_verbatim.
_CDATA: Final = Run(r"\[", 1, 1, name="verbatim")
_FUNCTION: Final[Pattern] = ("<function", Run(" ", 0, 2), "name=", _MINICPM5_QUOTE)
_FUNCTION_NAME: Final = r"[^\"'<>\s]"
_ATTRIBUTES: Final = Run("[^<>]", 0, 128, name="attributes")
MINICPM5: Final = Format(
    key="minicpm5",
    opens=('<function name="',),
    description="MiniCPM 5",
    models=("minicpm5*",),
    rules=(
        *call(
            (
                *_FUNCTION,
                Run(_FUNCTION_NAME, 1, 128, name="name"),
                _MINICPM5_QUOTE,
                ">",
                BLANKS,
                AHEAD,
                one_of("<param", "</function>"),
            ),
            body=TagsSpec(
                param=((*_PARAM, Run(r"[ \n]", 0, 8), "<![CDATA", _CDATA), _PARAM),
                value_end=(
                    (
                        BLANKS,
                        "</param>",
                        BLANKS,
                        AHEAD_OR_END,
                        one_of("<param", "</function>", "<function"),
                    ),
                ),
                value_cut=(
                    (BLANKS, AHEAD, *_PARAM),
                    (BLANKS, AHEAD, "</function>", BLANKS, AHEAD_OR_END, "<function"),
                ),
                verbatim_end=(("]]>", BLANKS, "</param>"),),
                nameless=(
                    ("<param", _ATTRIBUTES, ">", Run(r"[ \n]", 0, 8), "<![CDATA", _CDATA),
                    ("<param", _ATTRIBUTES, ">"),
                ),
                next_call=(
                    (
                        *_FUNCTION,
                        Run(_FUNCTION_NAME, 1, 128),
                        _MINICPM5_QUOTE,
                        ">",
                        BLANKS,
                        *_PARAM,
                    ),
                ),
                call_end=(("</function>",),),
                trim="blank",
                # A repeated parameter gives one key.  Case: minicpm5/n8_param_repeated.
                replaces=True,
            ),
        ),
        *closes(("</function>",), stray=False),
    ),
)
