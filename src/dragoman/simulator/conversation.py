"""What the model needs to know of the conversation so far."""

from collections.abc import Iterable
from typing import Final

from msgspec import Struct

from dragoman.turn.request import (
    ASSISTANT,
    SYSTEM,
    Request,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Turn,
)

_ASIDE: Final = "<system-reminder>"  # agents put notes to the model beside what the user wrote


class Result(Struct, frozen=True):
    name: str  # of the tool
    text: str


class Prompt(Struct, frozen=True):
    """What stands between two answers: what the user said, what tools returned."""

    texts: tuple[str, ...]
    results: tuple[Result, ...]

    @property
    def text(self) -> str:
        """Return what the user said last, leaving notes of agents aside."""
        said = [text for text in self.texts if text.strip()]
        own = [text for text in said if not text.lstrip().startswith(_ASIDE)]
        return (own or said or [""])[-1]


def prompts(request: Request) -> list[Prompt]:
    """Return the prompts in order, one more than there are answers."""
    names = {
        part.id: part.name
        for turn in request.turns
        for part in turn.parts
        if isinstance(part, ToolCallPart)
    }
    out: list[Prompt] = []
    run: list[Turn] = []
    for turn in request.turns:
        if turn.role != ASSISTANT:
            run.append(turn)
        elif run or not out:
            out.append(_prompt(run, names))
            run = []
    out.append(_prompt(run, names))
    return out


def answers(request: Request) -> int:
    """Return how many answers the conversation already holds."""
    return len(prompts(request)) - 1


def calls_made(request: Request) -> int:
    """Return how many calls the conversation already holds."""
    return sum(isinstance(part, ToolCallPart) for turn in request.turns for part in turn.parts)


def _prompt(run: Iterable[Turn], names: dict[str, str]) -> Prompt:
    texts: list[str] = []
    results: list[Result] = []
    for turn in run:
        for part in turn.parts:
            if isinstance(part, TextPart) and turn.role != SYSTEM:
                texts.append(part.text)
            elif isinstance(part, ToolResultPart):
                text = "\n".join(one.text for one in part.parts if isinstance(one, TextPart))
                results.append(Result(names.get(part.call_id, "a tool"), text))
    return Prompt(tuple(texts), tuple(results))
