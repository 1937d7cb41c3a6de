"""GLM-4.7, GLM-5 and Ling 3: keys and values in tags, without line feeds."""

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammars.glm import GLM

FORMAT: Final = Format(
    key="glm47",
    opens=("<tool_call>NAME",),
    says="GLM-4.7, GLM-5, Ling 3",
    models=("glm-4.7*", "glm-5*", "ling-3*"),
    rules=GLM,
    starts_thinking=True,
)
