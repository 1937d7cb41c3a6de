"""What the model reads in the conversation so far: prompts, results of tools, and directives.

A directive is a line in the user's text that says exactly what the model answers:

    sim: think TEXT
    sim: say TEXT
    sim: search QUERY                         the vendor searches the web before it answers
    sim: mcp NAME {"json": "arguments"}       the vendor calls a tool of the request's first MCP server
    sim: image PROMPT                         the vendor makes an image
    sim: call NAME {"json": "arguments"}      several lines: parallel calls of one answer
    sim: then                                 the following lines are for the next answer, after the tools' results

A TEXT that begins with a quote is a JSON string, for line feeds and the like.  The whole prompt may be in quotes, as
`opencode run` sends it, or in a Markdown quote (`> sim: …`).  Which answer is due is counted from the history, so the
model keeps no state between requests.
"""

import re
from collections.abc import Iterable
from typing import Final

import msgspec
from msgspec import Struct

from dragoman.errors import MalformedError
from dragoman.simulator.play import Fields, Json
from dragoman.turn.request import (
    ASSISTANT,
    SYSTEM,
    Request,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Turn,
)

_LINE: Final = re.compile(r"^[ \t>]*sim:[ \t]*(\w+)[ \t]*+(.*)$", re.MULTILINE)
_QUOTES: Final = frozenset("\"'`")
_CALL: Final = re.compile(r"(\S+)[ \t]*(.*)", re.DOTALL)
_ASIDE: Final = "<system-reminder>"  # agents add notes to the model next to the user's text


class ToolResult(Struct, frozen=True):
    name: str  # of the tool
    text: str


class Prompt(Struct, frozen=True):
    """The input between two answers: the user's messages and the results of tools."""

    texts: tuple[str, ...]
    results: tuple[ToolResult, ...]

    @property
    def text(self) -> str:
        """Return the user's last text, without the notes that agents add."""
        texts = [text for text in self.texts if text.strip()]
        own = [text for text in texts if not text.lstrip().startswith(_ASIDE)]
        return (own or texts or [""])[-1]


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
    results: list[ToolResult] = []
    for turn in run:
        for part in turn.parts:
            if isinstance(part, TextPart) and turn.role != SYSTEM:
                texts.append(part.text)
            elif isinstance(part, ToolResultPart):
                text = "\n".join(one.text for one in part.parts if isinstance(one, TextPart))
                results.append(ToolResult(names.get(part.call_id, "a tool"), text))
    return Prompt(tuple(texts), tuple(results))


# --- directives ---


class DirectedCall(Struct, frozen=True):
    name: str
    arguments: Json  # an object, or text for a custom tool


class DirectedAnswer(Struct, frozen=True):
    """One answer that directives request."""

    think: str = ""
    text: str = ""
    searches: tuple[str, ...] = ()
    mcp_calls: tuple[DirectedCall, ...] = ()
    images: tuple[str, ...] = ()  # their prompts
    calls: tuple[DirectedCall, ...] = ()


def due_step(conversation: list[Prompt]) -> DirectedAnswer | None:
    """Return the step that is due now, or None without directives.

    Raises:
        MalformedError: a directive is not understood.
    """
    for back, prompt in enumerate(reversed(conversation)):
        steps = parse_directives("\n".join(map(_unquoted, prompt.texts)))
        if steps:
            return steps[back] if back < len(steps) else None
        if not prompt.results:
            return None
    return None


def _unquoted(text: str) -> str:
    """Return a prompt without the quotes that an agent put around all of it.

    `opencode run` does so for a prompt with blanks, and escapes the quotes inside.
    """
    inner = text.strip()
    if "sim:" not in inner or inner[0] not in _QUOTES or len(inner) < 2 or inner[-1] != inner[0]:
        return text
    return inner[1:-1].replace(f"\\{inner[0]}", inner[0])


def parse_directives(text: str) -> list[DirectedAnswer]:
    """Return the steps that the directives in a text request.

    Raises:
        MalformedError: a directive is not understood.
    """
    lines = _LINE.findall(text) if "sim:" in text else []
    if not lines:
        return []
    steps = [DirectedAnswer()]
    for verb, texts in lines:
        rest = texts.rstrip(" \t\r")
        last = steps[-1]
        match verb:
            case "then":
                steps.append(DirectedAnswer())
            case "say":
                steps[-1] = msgspec.structs.replace(last, text=_text(rest))
            case "think":
                steps[-1] = msgspec.structs.replace(last, think=_text(rest))
            case "search":
                searches = (*last.searches, _text(rest))
                steps[-1] = msgspec.structs.replace(last, searches=searches)
            case "mcp":
                steps[-1] = msgspec.structs.replace(last, mcp_calls=(*last.mcp_calls, _call(rest)))
            case "image":
                steps[-1] = msgspec.structs.replace(last, images=(*last.images, _text(rest)))
            case "call":
                steps[-1] = msgspec.structs.replace(last, calls=(*last.calls, _call(rest)))
            case _:
                raise MalformedError(
                    f"no directive `sim: {verb}`; "
                    "there are say, think, search, mcp, image, call and then"
                )
    return steps


def _text(rest: str) -> str:
    if not rest.startswith('"'):
        return rest
    try:
        return msgspec.json.decode(rest, type=str)
    except msgspec.DecodeError:
        return rest


def _call(rest: str) -> DirectedCall:
    found = _CALL.fullmatch(rest)
    if found is None:
        raise MalformedError("`sim: call` needs the name of a tool")
    name, arguments = found.groups()
    empty: Fields = {}
    try:
        value: Json = msgspec.json.decode(arguments) if arguments else empty
    except msgspec.DecodeError as error:
        raise MalformedError(
            f"the arguments of `sim: call {name}` are not JSON: {error}"
        ) from error
    if not isinstance(value, dict | str):
        raise MalformedError(
            f"the arguments of `sim: call {name}` are neither an object nor a string"
        )
    return DirectedCall(name, value)
