"""MiniCPM 5: functions and parameters in tags with names as attributes."""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    AHEAD_OR_END,
    BLANKS,
    Format,
    Run,
    Tags,
    call,
    closes,
    one_of,
)

_PARAM_NAME: Final = Run(r"[^\"'<>\n]", 1, 80, name="key")
_QUOTE: Final = Run(r"[\"']", 1, 1)
_PARAM: Final = ("<param", Run(" ", 0, 2), "name=", _QUOTE, _PARAM_NAME, _QUOTE, ">")
# What stands in such a section is taken as it is.
_CDATA: Final = Run(r"\[", 1, 1, name="verbatim")
FORMAT: Final = Format(
    key="minicpm5",
    opens=('<function name="',),
    says="MiniCPM 5",
    models=("minicpm5*",),
    rules=(
        *call(
            (
                "<function",
                Run(" ", 0, 2),
                "name=",
                _QUOTE,
                Run(r"[^\"'<>\s]", 1, 128, name="name"),
                _QUOTE,
                ">",
                BLANKS,
                AHEAD,
                one_of("<param", "</function>"),
            ),
            body=Tags(
                param=((*_PARAM, Run(r"[ \n]", 0, 8), "<![CDATA", _CDATA), _PARAM),
                value_end=(
                    (
                        BLANKS,
                        "</param>",
                        BLANKS,
                        AHEAD_OR_END,
                        one_of("<param", "</function>"),
                    ),
                ),
                value_cut=(
                    (BLANKS, AHEAD, *_PARAM),
                    (BLANKS, AHEAD, "</function>", BLANKS, AHEAD_OR_END, "<function"),
                ),
                verbatim_end=(("]]>", BLANKS, "</param>"),),
                call_end=(("</function>",),),
                trim="blank",
            ),
        ),
        *closes(("</function>",), stray=False),
    ),
)
