"""`dragoman parse`: extract the tool calls that a model wrote as text."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal

import click
import msgspec
from msgspec import Raw, Struct

from dragoman.cli.options import (
    InputCommand,
    config_option,
    own_formats,
    read_tools,
    warn_if_terminal,
)
from dragoman.dialects.decoding import decode
from dragoman.errors import DragomanError
from dragoman.toolcalls.format import Format
from dragoman.toolcalls.format_names import choose_format
from dragoman.toolcalls.parser import Parsed, ToolCallParser
from dragoman.toolcalls.stage import PLAIN
from dragoman.translate_requests import decode_tools
from dragoman.turn.request import Tool


class Line(Struct):
    """One line of `--jsonl` input."""

    id: Raw = Raw(b"null")
    format: str | None = None
    model: str | None = None
    text: str | None = None
    chunks: list[str] | None = None
    tools: Raw = Raw(b"null")  # null: everything that looks like a call is one; []: nothing is
    channel: Literal["content", "reasoning"] | None = None
    start_in_reasoning: bool | None = None


_LINE = msgspec.json.Decoder(Line)


_HELP: Final = """Extract the tool calls and the reasoning from text that a model wrote.

Reads the text from standard input and prints one JSON object:

\b
  {"content": "...", "reasoning": "...",
   "tool_calls": [{"id": "...", "name": "...", "arguments": "{...}"}],
   "problems": [...]}

`arguments` is a string: the JSON text of the arguments.  Any text can be parsed; what had to be repaired,
or could not be, is listed in `problems`.

With --jsonl each input line is a JSON object, and its `id` is copied to the output line:

\b
  {"id": 1, "format" or "model": "...", "text": "..." or "chunks": [...],
   "tools"?: [...], "channel"?: "content" or "reasoning", "start_in_reasoning"?: true}

\b
Exit codes:
  0  the text was parsed
  1  --tools cannot be read as tools, or a line of --jsonl is not valid (standard error names
     it, and the other lines are parsed)
  2  wrong usage

\b
Examples:
  echo '[TOOL_CALLS]ls[ARGS]{"path": "."}' | dragoman parse --model mistral-large
  echo '<tool_call>{"name": "ls", "arguments": {"path": "."}}</tool_call>' |
    dragoman parse --format hermes
  echo '{"id": 1, "model": "kimi-k2", "text": "No call."}' | dragoman parse --jsonl
  dragoman parse --format qwen3_coder --tools tools.json --split 1 < answer.txt
"""


@click.command(
    "parse",
    cls=InputCommand,
    help=_HELP,
    short_help="Extract tool calls that a model wrote as text.",
)
@click.option(
    "--format",
    "family",
    default="auto",
    show_default=True,
    help="The format's name (see `dragoman formats`), or `auto`.",
)
@click.option("--model", default="", help="The model's id, for --format auto.")
@click.option(
    "--tools",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A JSON file with the list of declared tools, in any dialect.  Without it, everything that looks "
    "like a call is one.",
)
@click.option(
    "--split", type=click.IntRange(min=1), help="Feed the text in pieces of N characters."
)
@click.option("--jsonl", is_flag=True, help="Read and print one JSON object per line.")
@config_option
def command(  # noqa: PLR0913 -- one parameter for each option
    *,
    family: str,
    model: str,
    tools: Path | None,
    split: int | None,
    jsonl: bool,
    path: Path | None,
) -> None:
    own = own_formats(path)
    default_format = choose_format(model, family, own)
    declared = read_tools(tools) if tools else None
    warn_if_terminal()
    if not jsonl:
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
        _print(_render(_parse(default_format, _cut([text], split), declared)))
        return
    bad = False
    for number, raw in enumerate(sys.stdin.buffer, 1):
        if not raw.strip():
            continue
        try:
            _print(_parse_line(raw, default_format, declared, split, own))
        except DragomanError as error:
            bad = True
            print(f"dragoman: line {number}: {error}", file=sys.stderr)
    sys.exit(bad)


def _parse_line(
    raw: bytes,
    default_format: Format | None,
    declared: Sequence[Tool] | None,
    split: int | None,
    own: tuple[Format, ...],
) -> bytes:
    line = decode(_LINE, raw)
    family = default_format
    if line.format is not None or line.model is not None:
        family = choose_format(line.model or "", line.format or "auto", own)
    if bytes(line.tools) != b"null":
        declared = decode_tools(bytes(line.tools))
    chunks = line.chunks if line.chunks is not None else [line.text or ""]
    found = _parse(
        family,
        _cut(chunks, split),
        declared,
        channel=line.channel or "content",
        start_in_reasoning=bool(line.start_in_reasoning),
    )
    return _render(found, line.id)


def _cut(chunks: list[str], split: int | None) -> Iterator[str]:
    """Yield the pieces to feed: the chunks, or their joined text cut into pieces of one size."""
    if split is None:
        yield from chunks
        return
    text = "".join(chunks)
    for at in range(0, len(text), split):
        yield text[at : at + split]


def _parse(
    family: Format | None,
    pieces: Iterator[str],
    tools: Sequence[Tool] | None,
    *,
    channel: Literal["content", "reasoning"] = "content",
    start_in_reasoning: bool = False,
) -> Parsed:
    if family is None and start_in_reasoning:
        family, tools = PLAIN, ()  # only the end of the reasoning is searched for
    if family is None:  # the model's server returns structured calls: the text is unchanged
        text = "".join(pieces)
        return Parsed(text) if channel == "content" else Parsed(reasoning=text)
    parser = ToolCallParser(
        format=family,
        tools=tools,
        channel=channel,
        start_in_reasoning=start_in_reasoning,
        seed="parse",
    )
    for piece in pieces:
        parser.feed(piece)
    parser.close()
    return parser.result


def _render(found: Parsed, line_id: Raw | None = None) -> bytes:
    calls = [
        {"id": one.id, "name": one.name, "arguments": one.arguments} for one in found.tool_calls
    ]
    problems = [
        {"code": one.code, "where": one.path, "detail": one.full_detail} for one in found.problems
    ] + [
        {"code": "call_cut", "where": f"call {one.id}", "detail": one.name}
        for one in found.tool_calls
        if not one.complete and not any(p.code == "call_cut" for p in found.problems)
    ]
    result = {
        "content": found.content,
        "reasoning": found.reasoning,
        "tool_calls": calls,
        "problems": problems,
    }
    try:
        rendered = msgspec.json.encode(result)
    except UnicodeEncodeError:  # half of a surrogate pair can only be written as an escape
        rendered = json.dumps(result).encode()
    return rendered if line_id is None else b'{"id":%b,%b' % (line_id, rendered[1:])


def _print(line: bytes) -> None:
    """Print a line and flush it, as UTF-8 whatever the terminal's encoding is."""
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
