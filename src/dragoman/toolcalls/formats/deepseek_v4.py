"""DeepSeek V4: DSML tags in a section called `tool_calls`."""

# ruff: noqa: RUF001 -- full-width characters are what the models write

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammars.deepseek import DSML_FIRST

FORMAT: Final = Format(
    key="deepseek_v4",
    opens=("<｜DSML｜tool_calls>",),
    says="DeepSeek V4",
    models=("deepseek-v4*",),
    rules=DSML_FIRST,
    starts_thinking=True,
)
