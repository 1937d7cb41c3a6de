"""Muse Glimmer: messages by recipient; invokes count only in messages to tools."""

from typing import Final

from msgspec.structs import replace

from dragoman.toolcalls.format import BLANKS, Do, Format, Pattern, Run, Where, closes, marks, one_of
from dragoman.toolcalls.grammars.invokes import invokes

_START: Final[Pattern] = (one_of(("<|start|>assistant", Run(" ", 0, 2)), ""),)
_END: Final[Pattern] = (one_of("<|eom|>", "<|eot|>"),)
_BETWEEN: Final = frozenset({Where.START, Where.ANSWER, Where.AFTER})
_IN_CALLS: Final = frozenset({Where.TAIL, Where.AFTER})

FORMAT: Final = Format(
    key="muse_glimmer",
    opens=('to=TOOL<|message|><atem:invoke name="',),
    says="Muse Glimmer",
    models=("muse*glimmer*",),
    rules=(
        *marks((*_START, "to=self<|message|>"), do=Do.REASON, at=_BETWEEN, then=Where.THINK),
        *marks(
            (*_START, one_of("to=user<|message|>", "<|message|>")),
            do=Do.SAY,
            at=_BETWEEN,
            then=Where.MESSAGE,
        ),
        *(
            rule if rule.section else replace(rule, at=rule.at & _IN_CALLS)
            for rule in invokes(
                ("atem:",),
                section=(
                    (
                        *_START,
                        "to=",
                        Run(r"[^<\s]", 1, 128),
                        "<|message|>",
                        BLANKS,
                        "<atem:function_calls>",
                    ),
                    ("</atem:function_calls>",),
                ),
            )
        ),
        *marks(_END, do=Do.SAY, at={Where.THINK}, then=Where.ANSWER),
        *marks(_END, do=Do.SKIP, at={Where.MESSAGE}, then=Where.ANSWER),
        *closes(_END),
    ),
    think=(),
)
