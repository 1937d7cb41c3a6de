"""DeepSeek V3.1, Terminus and V3.2-Exp: special tokens, bare JSON."""

# ruff: noqa: RUF001 -- full-width characters are what the models write

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammars.deepseek import JSON_FIRST

FORMAT: Final = Format(
    key="deepseek_v31",
    opens=("<｜tool▁calls▁begin｜>",),
    says="DeepSeek V3.1, V3.1-Terminus, V3.2-Exp",
    models=("deepseek-v3.1*", "deepseek-chat-v3.1", "*terminus*", "deepseek-v3.2-exp"),
    rules=JSON_FIRST,
    starts_thinking=True,
)
