"""GigaChat 3: one object after a marker."""

from typing import Final

from dragoman.toolcalls.format import CALLED, Do, Format, Where, closes, marks
from dragoman.toolcalls.grammars.json_objects import objects_after
from dragoman.toolcalls.patterns import AHEAD, BLANKS, Run

FORMAT: Final = Format(
    key="gigachat3",
    opens=("<|function_call|>", "function call<|role_sep|>"),
    says="GigaChat 3, 3.1",
    models=("gigachat3*", "gigachat-3*"),
    rules=(
        *objects_after(("<|function_call|>",)),
        *objects_after(("function call<|role_sep|>\n",)),
        *objects_after(("<|message_sep|>", BLANKS, "function call<|role_sep|>\n")),
        *marks(
            ("<|message_sep|>", Run("[^<]", 0, 64, name="noise"), AHEAD, "<|function_call|>"),
            do=Do.NOISE,
        ),
        *marks(("<|message_sep|>",), do=Do.NOISE, at=CALLED | {Where.TEXT}),
        *closes(("</s>",)),
    ),
)
