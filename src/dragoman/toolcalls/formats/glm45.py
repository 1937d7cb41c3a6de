"""GLM-4.5 and 4.6: keys and values in tags, a line each."""

from typing import Final

from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammars.glm import GLM

FORMAT: Final = Format(
    key="glm45",
    opens=("<tool_call>NAME",),
    says="GLM-4.5, GLM-4.6",
    models=("glm-4.5*", "glm-4.6*", "z-ai/*", "zai-org/*"),
    rules=GLM,
    starts_thinking=True,
)
