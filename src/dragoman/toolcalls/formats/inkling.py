"""Inkling: messages whose kind a special token tells."""

from typing import Final

from dragoman.toolcalls.format import (
    Do,
    Format,
    Objects,
    Pattern,
    Run,
    Where,
    closes,
    marks,
    one_of,
)
from dragoman.toolcalls.grammars.json_objects import objects_after

_MODEL: Final[Pattern] = (one_of(("<|message_model|>", Run("[^<]", 0, 64)), ""),)
_END: Final[Pattern] = (one_of("<|end_message|>", "<|content_model_end_sampling|>"),)

FORMAT: Final = Format(
    key="inkling",
    opens=("<|content_invoke_tool_json|>",),
    says="Inkling",
    models=("inkling*",),
    rules=(
        *objects_after(
            (*_MODEL, "<|content_invoke_tool_json|>"),
            body=Objects(argument_keys=("args", "arguments")),
        ),
        *marks((*_MODEL, "<|content_thinking|>"), do=Do.REASON, then=Where.THINK),
        *marks((*_MODEL, "<|content_text|>"), do=Do.SAY, then=Where.MESSAGE),
        *marks(_END, do=Do.SAY, at={Where.THINK}, then=Where.ANSWER),
        *marks(_END, do=Do.SKIP, at={Where.MESSAGE, Where.ANSWER}, then=Where.ANSWER),
        *closes(_END),
    ),
    think=(),
)
