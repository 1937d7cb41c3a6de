"""Corpus cases of native tool calls: one JSON file each.

tests/corpus/toolcalls/<family>/<case>.json
    {"says":  what this shows, in one line,
     "text":  the text as the model wrote it, or "chunks": the pieces in which it was seen,
     "channel": "content" (default) or "reasoning",  "start_in_reasoning": false,
     "tools": definitions {"name", "parameters"}, or null (default) if nothing is known of them,
     "content", "reasoning": what is left of the text,
     "calls": [{"name", "arguments", "id" if the format has one, "complete": false if cut}],
     "problems": codes, in order}
"""

import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import settings

from dragoman.toolcalls.parser import Parsed, ToolCallParser
from dragoman.turn.request import Tool
from tests.support.quick import is_quick

ROOT = Path(__file__).parent.parent / "corpus" / "toolcalls"
MOST_CUTS = 30  # of a text in an ordinary run


class ToolDefinition(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    parameters: msgspec.Raw = msgspec.Raw(b"{}")


class Call(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    name: str
    arguments: str
    id: str = ""
    complete: bool = True


class Case(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """One file of the corpus."""

    says: str
    text: str = ""
    chunks: list[str] = []
    channel: str = "content"
    start_in_reasoning: bool = False
    tools: list[ToolDefinition] | None = None
    content: str = ""
    reasoning: str = ""
    calls: list[Call] = []
    problems: list[str] = []
    cut_agrees: bool = True  # false: only the whole text tells what a cut one means otherwise
    family: str = ""
    name: str = ""

    def __str__(self) -> str:
        return f"{self.family}/{self.name}"

    @property
    def pieces(self) -> list[str]:
        return self.chunks or [self.text]

    @property
    def whole(self) -> str:
        return "".join(self.pieces)

    def parser(self, **options: Any) -> ToolCallParser:
        return ToolCallParser(
            format=self.family,
            tools=declared(self.tools),
            channel=self.channel,  # type: ignore[arg-type]
            start_in_reasoning=self.start_in_reasoning,
            seed="corpus",
            **options,
        )

    def expected(self) -> dict[str, Any]:
        return {
            "content": self.content,
            "reasoning": self.reasoning,
            "calls": [(one.name, one.arguments, one.complete) for one in self.calls],
            "problems": self.problems,
        }


def declared(definitions: list[ToolDefinition] | None) -> list[Tool] | None:
    if definitions is None:
        return None
    return [Tool(name=one.name, schema=one.parameters) for one in definitions]


def found(parsed: Parsed) -> dict[str, Any]:
    """Return what was parsed in the shape of `Case.expected`."""
    return {
        "content": parsed.content,
        "reasoning": parsed.reasoning,
        "calls": [(one.name, one.arguments, one.complete) for one in parsed.tool_calls],
        "problems": [problem.code for problem in parsed.problems],
    }


def run(parser: ToolCallParser, pieces: Iterable[str], *, cut: bool = False) -> Parsed:
    """Feed a parser and close it."""
    for piece in pieces:
        parser.feed(piece)
    parser.close(cut=cut)
    return parser.result


def cuts(text: str) -> list[int]:
    """Return where to cut a text: at every sign and blank, and at every fourth place inside a word or a number.

    A long text is cut at some of them, which depend on the text.  `make fuzz-properties` cuts everywhere,
    `make test-core` at every sixth place.
    """
    if is_quick() or settings.get_current_profile_name() == "fuzz":
        return list(range(1, len(text), 6 if is_quick() else 1))
    places = [
        at
        for at in range(1, len(text))
        if at % 4 == 0 or not (text[at - 1].isalnum() and text[at].isalnum())
    ]
    step = len(places) // MOST_CUTS + 1
    return places[zlib.crc32(text.encode("utf-8", "replace")) % step :: step]


def corpus(family: str) -> list[Case]:
    """Return all cases of one family."""
    cases = []
    for path in sorted((ROOT / family).glob("*.json")):
        case = msgspec.json.decode(path.read_bytes(), type=Case)
        cases.append(msgspec.structs.replace(case, family=family, name=path.stem))
    return cases
