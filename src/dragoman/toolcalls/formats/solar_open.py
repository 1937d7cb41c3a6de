"""Solar Open: id, name and arguments between special tokens."""

from typing import Final

from dragoman.toolcalls.format import Format, Json, call, closes, opens_section
from dragoman.toolcalls.patterns import AHEAD, BLANKS, Run, one_of

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
        *opens_section(("<|tool_calls|>", BLANKS, AHEAD, "<|tool_call:begin|>")),
        *closes(("<|tool_call:end|>",)),
    ),
)
