"""Step-3: invokes in tags of their own, between special tokens."""

# ruff: noqa: RUF001 -- full-width characters are what the models write
from typing import Final

from dragoman.toolcalls.format import Format, closes
from dragoman.toolcalls.grammars.invokes import invokes
from dragoman.toolcalls.patterns import BLANKS, Pattern, Run, one_of

# Full-width bars, but ASCII underscores.
_BAR: Final = Run("[｜|]", 1, 1)
_STEP_BEGIN: Final[Pattern] = ("<", _BAR, "tool_call_begin", _BAR, ">", BLANKS)
_STEP_SEP: Final[Pattern] = ("function", "<", _BAR, "tool_sep", _BAR, ">", BLANKS)

FORMAT: Final = Format(
    key="step3",
    opens=("<｜tool_calls_begin｜>",),
    says="Step-3",
    models=("step3", "step-3"),
    rules=(
        *invokes(
            ("steptml:",),
            section=(
                ("<", _BAR, "tool_calls_begin", _BAR, ">"),
                ("<", _BAR, "tool_calls_end", _BAR, ">"),
            ),
            before=(*_STEP_BEGIN, one_of(_STEP_SEP, ("",))),
            trim="blank",
        ),
        *closes(("<", _BAR, "tool_call_end", _BAR, ">")),
    ),
    starts_thinking=True,
)
