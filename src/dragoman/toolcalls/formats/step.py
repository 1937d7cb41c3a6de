"""Step-3: invokes between special tokens.  Step-3.5 is `qwen3_coder`."""

# ruff: noqa: RUF001, RUF003 -- full-width characters are what the models write

from typing import Final

from msgspec.structs import replace

from dragoman.toolcalls.format import (
    ANYWHERE,
    BLANKS,
    Action,
    Format,
    Pattern,
    Run,
    Where,
    closes,
    markers,
    one_of,
)
from dragoman.toolcalls.formats.invokes import invokes

# --- step3 --------------------------------------------------------------------------------------------
#
#     <｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜>
#     <steptml:invoke name="f"><steptml:parameter name="n">2</steptml:parameter></steptml:invoke>
#     <｜tool_call_end｜><｜tool_calls_end｜>
#
# DeepSeek's tokens (with ASCII underscores) around invokes.
# Cases: tests/corpus/toolcalls/step3.

# Full-width bars, but ASCII underscores.
_BAR: Final = Run("[｜|]", 1, 1)
_STEP_BEGIN: Final[Pattern] = ("<", _BAR, "tool_call_begin", _BAR, ">", BLANKS)
_STEP_END: Final[Pattern] = ("<", _BAR, "tool_call_end", _BAR, ">")
_SEP: Final[Pattern] = ("<", _BAR, "tool_sep", _BAR, ">", BLANKS)
_STEP_SEP: Final[Pattern] = ("function", *_SEP)
_INVOKES: Final = invokes(
    ("steptml:",),
    section=(
        ("<", _BAR, "tool_calls_begin", _BAR, ">"),
        ("<", _BAR, "tool_calls_end", _BAR, ">"),
    ),
    special_section=True,
    # No blanks are trimmed: the template writes none around a value.  Case: step3/blanks_of_a_file_stay.
    before=(*_STEP_BEGIN, one_of(_STEP_SEP, ("",))),
    after=_STEP_END,
)

STEP3: Final = Format(
    key="step3",
    opens=("<｜tool_calls_begin｜>",),
    description="Step-3",
    models=("step3", "step-3"),
    rules=(
        # A bare invoke is a call, except after a type other than `function`.  Case: step3/other_type_word.
        *(
            replace(rule, at=rule.at - {Where.MESSAGE})
            if rule.action is Action.CALL and rule.pattern[:2] == ("<", "steptml:")
            else rule
            for rule in _INVOKES
        ),
        *markers(
            (*_STEP_BEGIN, Run("[a-z_]", 1, 32), *_SEP),
            action=Action.NOT_A_CALL,
            at=ANYWHERE - {Where.THINK},
            then=Where.MESSAGE,
        ),
        *closes(_STEP_END),
    ),
    starts_thinking=True,
    special=(
        ("<", _BAR, "tool_call_end", _BAR, ">"),
        ("<", _BAR, "tool_calls_end", _BAR, ">"),
    ),
    special_openers=(
        ("<", _BAR, "tool_call_begin", _BAR, ">"),
        ("<", _BAR, "tool_calls_begin", _BAR, ">"),
        ("<", _BAR, "tool_sep", _BAR, ">"),
    ),
)
