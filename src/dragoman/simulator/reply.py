"""What the played model says in one answer, free of any dialect."""

from typing import Literal, TypeAlias

from msgspec import Struct

from dragoman.simulator.tokens import count
from dragoman.turn.events import Flavor

Finish: TypeAlias = Literal["stop", "stop_sequence", "tool_calls", "length", "content_filter"]


class Call(Struct, frozen=True, kw_only=True):
    """One tool call."""

    id: str
    name: str
    arguments: str  # JSON text; free text if the tool is custom
    flavor: Flavor = Flavor.FUNCTION
    namespace: str = ""
    complete: bool = True  # false: the answer ends inside its arguments


class Reply(Struct, frozen=True, kw_only=True):
    """One answer: reasoning, then text, then calls."""

    reasoning: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()
    finish: Finish = "stop"
    stop_sequence: str = ""
    written: tuple[Call, ...] = ()  # calls that stand in text or reasoning, in the family's grammar
    leaked: bool = False  # they stand in the reasoning

    @property
    def reasoning_tokens(self) -> int:
        return count(self.reasoning)

    @property
    def output_tokens(self) -> int:
        """Return how many tokens the whole answer is, at least one."""
        said = self.reasoning_tokens + count(self.text)
        return max(1, said + sum(count(call.name) + count(call.arguments) for call in self.calls))
