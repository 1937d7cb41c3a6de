"""dots.llm: invokes, or one object, in a section of their own."""

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammars.invokes import invokes
from dragoman.toolcalls.grammars.json_objects import tagged_objects

_OPENER: Final = "<dots_function_call>"
_CLOSER: Final = "</dots_function_call>"

FORMAT: Final = Format(
    key="dots",
    opens=("<dots_function_call>",),
    says="dots.llm",
    models=("dots.llm*", "dots-*", "rednote*"),
    rules=(
        *invokes((), section=((_OPENER,), (_CLOSER,)), trim="blank"),
        *tagged_objects(_OPENER, _CLOSER),
    ),
)
