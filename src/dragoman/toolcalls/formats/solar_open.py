"""Solar Open: id, name and arguments between special tokens, in messages whose kind a token tells."""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    BLANKS,
    Do,
    Format,
    Json,
    Pattern,
    Run,
    Where,
    call,
    closes,
    marks,
    one_of,
    opens_section,
)

_BEGIN: Final[Pattern] = (one_of("<|begin|>assistant", ""),)
_END: Final[Pattern] = (one_of("<|end|>", "<|flush|>"),)
_BETWEEN: Final = frozenset({Where.START, Where.ANSWER, Where.AFTER})

FORMAT: Final = Format(
    key="solar_open",
    opens=("<|tool_call:begin|>",),
    says="Solar Open",
    models=("solar-open*",),
    rules=(
        *call(
            (
                "<|tool_call:begin|>",
                BLANKS,
                one_of((Run(r"[^<\s]", 1, 128, name="id"), BLANKS), ""),
                "<|tool_call:name|>",
                BLANKS,
                Run(r"[^<\s]", 1, 128, name="name"),
                BLANKS,
                "<|tool_call:args|>",
            ),
            body=Json(),
        ),
        *opens_section((*_BEGIN, "<|tool_calls|>", BLANKS, AHEAD, "<|tool_call:begin|>")),
        *closes(("<|tool_call:end|>",)),
        *closes(("<|calls|>",), _END, section=True),
        *marks((*_BEGIN, "<|think|>"), do=Do.REASON, at=_BETWEEN, then=Where.THINK),
        *marks((*_BEGIN, "<|content|>"), do=Do.SAY, at=_BETWEEN, then=Where.MESSAGE),
        *marks(_END, do=Do.SAY, at={Where.THINK}, then=Where.ANSWER),
        *marks(_END, do=Do.SKIP, at={Where.MESSAGE}, then=Where.ANSWER),
    ),
    think=(),
    starts_thinking=True,
)
