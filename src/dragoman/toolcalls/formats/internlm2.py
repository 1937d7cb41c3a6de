"""InternLM 2 to 3, Intern-S1: an object between special tokens."""

from typing import Final

from dragoman.toolcalls.format import BLANKS, Format, closes
from dragoman.toolcalls.grammars.json_objects import objects_after

FORMAT: Final = Format(
    key="internlm2",
    opens=("<|action_start|><|plugin|>",),
    says="InternLM2, 2.5, 3, Intern-S1",
    models=("internlm*", "intern-s1*"),
    rules=(
        *objects_after(("<|action_start|>", BLANKS, "<|plugin|>")),
        *closes(("<|action_end|>",)),
    ),
)
