"""DeepSeek V3.2: DSML tags in a section called `function_calls`."""

# ruff: noqa: RUF001 -- full-width characters are what the models write

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammars.deepseek import DSML_FIRST

FORMAT: Final = Format(
    key="deepseek_v32",
    opens=("<｜DSML｜function_calls>",),
    says="DeepSeek V3.2",
    models=("deepseek-v3.2*",),
    rules=DSML_FIRST,
    starts_thinking=True,
)
