"""`dragoman parse`: the tool calls that a model wrote as text."""

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

import click
import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.decoding import decode
from dragoman.errors import DragomanError
from dragoman.toolcalls.format import Format
from dragoman.toolcalls.parser import Parsed, ToolCallParser
from dragoman.toolcalls.stage import PLAIN, choose_format
from dragoman.translate_requests import decode_tools
from dragoman.turn.request import Tool


class Line(Struct):
    """One line of `--jsonl` input."""

    id: Raw = Raw(b"null")
    format: str | None = None
    model: str | None = None
    text: str | None = None
    chunks: list[str] | None = None
    tools: Raw = Raw(b"null")  # null: whatever looks like a call; an empty list: none
    channel: Literal["content", "reasoning"] | None = None
    start_in_reasoning: bool | None = None


_LINE = msgspec.json.Decoder(Line)


@click.command(
    name="parse",
    epilog="Exit codes: 0 parsed (any text is); 1 a line of --jsonl could not be read (it is named, the others are parsed); 2 wrong usage.",
)
@click.option(
    "--format", "family", default="auto", show_default=True, help="a family's key, or `auto`"
)
@click.option("--model", default="", help="the model's id, for `auto`")
@click.option(
    "--tools",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON list of the declared tools, in any dialect's shape; without it, whatever looks like a "
    "call is one",
)
@click.option("--split", type=click.IntRange(min=1), help="feed the text in pieces of N characters")
@click.option("--jsonl", is_flag=True, help="read one JSON object a line, and print one a line")
def command(*, family: str, model: str, tools: Path | None, split: int | None, jsonl: bool) -> None:
    r"""Parse the text on standard input, and print what it holds as one JSON object.

    \b
    {"content": …, "reasoning": …, "tool_calls": [{"id", "name", "arguments"}], "problems": […]}

    `arguments` is the string as it was streamed.  With --jsonl each line is
    {"id", "format" or "model", "text" or "chunks", "tools"?, "channel"?, "start_in_reasoning"?}
    and its `id` comes back with the result.  No text makes it fail.

    \b
    Examples:
      dragoman parse --model kimi-k2 < answer.txt
      dragoman parse --format qwen3_coder --tools tools.json --split 1 < answer.txt
      dragoman parse --jsonl < cases.jsonl
    """
    default_format = choose_format(model, family)
    declared = decode_tools(tools.read_bytes()) if tools else None
    if not jsonl:
        text = sys.stdin.buffer.read().decode("utf-8", "replace")
        _print(_render(_parse(default_format, _cut([text], split), declared)))
        return
    bad = False
    for number, raw in enumerate(sys.stdin.buffer, 1):
        if not raw.strip():
            continue
        try:
            _print(_parse_line(raw, default_format, declared, split))
        except DragomanError as error:
            bad = True
            print(f"dragoman: line {number}: {error}", file=sys.stderr)
    sys.exit(bad)


def _parse_line(
    raw: bytes,
    default_format: Format | None,
    declared: Sequence[Tool] | None,
    split: int | None,
) -> bytes:
    line = decode(_LINE, raw)
    family = default_format
    if line.format is not None or line.model is not None:
        family = choose_format(line.model or "", line.format or "auto")
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
    """Give the pieces to feed: the chunks, or their text in pieces of one size."""
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
        family, tools = PLAIN, ()  # no calls to look for, but the end of the reasoning
    if family is None:  # a model whose server gives structured calls: nothing to look for
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
        {"code": one.code, "where": one.path, "detail": one.detail} for one in found.problems
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
    except UnicodeEncodeError:  # half of a surrogate pair: only an escape can say it
        rendered = json.dumps(result).encode()
    return rendered if line_id is None else b'{"id":%b,%b' % (line_id, rendered[1:])


def _print(line: bytes) -> None:
    """Print a line at once, whatever the terminal's encoding is."""
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()
