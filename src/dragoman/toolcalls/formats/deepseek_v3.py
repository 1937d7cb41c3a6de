"""DeepSeek V3-0324 and R1-0528: special tokens, the arguments in a code fence."""

# ruff: noqa: RUF001 -- full-width characters are what the models write

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammars.deepseek import JSON_FIRST

FORMAT: Final = Format(
    key="deepseek_v3",
    opens=("<｜tool▁calls▁begin｜>",),
    says="DeepSeek V3-0324, R1-0528",
    models=("deepseek-v3", "deepseek-chat-v3-0324", "deepseek-r1*"),
    rules=JSON_FIRST,
    starts_thinking=True,
)
