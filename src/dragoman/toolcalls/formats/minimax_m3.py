"""MiniMax-M3: nested elements, each tag after a mark."""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    BLANKS,
    Do,
    Elements,
    Format,
    Pattern,
    Run,
    Where,
    call,
    closes,
    marks,
    opens_section,
)

_MARK: Final = "]<]minimax[>["
_INVOKE: Final[Pattern] = (_MARK, BLANKS, "<invoke name=", Run(r"[\"']", 0, 1))
_END: Final[Pattern] = (Run(r"[\"']", 0, 1), ">")

FORMAT: Final = Format(
    key="minimax_m3",
    opens=("]<]minimax[>[<tool_call>",),
    says="MiniMax-M3",
    models=("minimax-m3*",),
    rules=(
        *call((*_INVOKE, Run(r"[^\"'<>\s]", 1, 128, name="name"), *_END), body=Elements(_MARK)),
        *opens_section((_MARK, BLANKS, "<tool_call>", BLANKS, AHEAD, *_INVOKE)),
        *closes((_MARK, BLANKS, "</tool_call>"), section=True),
        *closes((_MARK, BLANKS, "</invoke>")),
        # A closer of thinking that was never opened.
        *marks(("</mm:think>",), do=Do.NOISE, at={Where.START}, then=Where.ANSWER),
    ),
    think=(("<mm:think>", "</mm:think>"), ("<think>", "</think>")),
    starts_thinking=True,
)
