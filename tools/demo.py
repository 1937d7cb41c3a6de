"""Show a Kimi stream whose tool call leaked into the reasoning, and what a client of each dialect gets.

python tools/demo.py [--bytes]
"""

import argparse
import sys

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dragoman import Sealer, Translator, decode_tools

TOOLS = b"""[{"type": "function", "function": {"name": "bash", "description": "Run a command",
  "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}}]"""

REASONING = (
    "The user wants the files.",
    " <|tool_calls_section_begin|>",
    " <|tool_call_begin|>",
    " functions",
    ".b",
    "ash",
    ":",
    "15",
    " <|tool_call_argument_begin|>",
    ' {"',
    'command": "ls',
    ' -la /tmp"}',
    " <|tool_call_end|>",
    " <|tool_calls_section_end|>",
)


def chunk(delta: dict[str, object], finish: str | None = None) -> bytes:
    """Return one event of the upstream."""
    return (
        b"data: "
        + msgspec.json.encode(
            {
                "id": "chatcmpl-demo",
                "object": "chat.completion.chunk",
                "created": 1700000000,
                "model": "moonshotai/kimi-k2-thinking",
                "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            }
        )
        + b"\n\n"
    )


def stream() -> list[bytes]:
    """Return what the upstream sends: the call is text, and the finish reason knows nothing of it."""
    usage = {"prompt_tokens": 812, "completion_tokens": 41, "total_tokens": 853}
    return [
        chunk({"role": "assistant", "content": ""}),
        *(chunk({"reasoning_content": text, "reasoning": text}) for text in REASONING),
        chunk({}, "stop"),
        b"data: " + msgspec.json.encode({"choices": [], "usage": usage}) + b"\n\n",
        b"data: [DONE]\n\n",
    ]


def translated(target: str) -> tuple[bytes, Translator]:
    """Return the same stream for a client of another dialect."""
    translator = Translator(
        source="chat",
        target=target,
        model="moonshotai/kimi-k2-thinking",
        tools=decode_tools(TOOLS),
        seed="demo",
        sealer=Sealer(b"demo"),
        created=1700000000,
    )
    out = b"".join(translator.feed(piece) for piece in stream()) + translator.close()
    return out, translator


def cell(data: bytes) -> str:
    """Return a stream for a table cell, one event a paragraph."""
    return escape(data.decode().strip())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--bytes",
        action="store_true",
        help="print the three streams one after another, as they are",
    )
    console = Console(width=None if sys.stdout.isatty() else 180)
    outputs = {target: translated(target) for target in ("chat", "anthropic", "responses")}
    if parser.parse_args().bytes:
        for out, _ in outputs.values():
            sys.stdout.write(out.decode())
        return
    console.rule(
        "[bold]in: a Kimi server, Chat Completions, the tool call leaked into the reasoning"
    )
    for piece in stream():
        console.print(
            escape(piece.decode().strip()), style="yellow", overflow="fold", highlight=False
        )
    console.rule("[bold]out: the same turn for a client of each dialect")
    table = Table(show_lines=False, expand=True)
    titles = {
        "chat": "Chat Completions",
        "anthropic": "Anthropic Messages",
        "responses": "OpenAI Responses",
    }
    for target in outputs:
        table.add_column(titles[target], ratio=1, overflow="fold")
    table.add_row(*(cell(out) for out, _ in outputs.values()))
    console.print(table, highlight=False)
    console.rule("[bold]mended on the way, and said")
    for loss in outputs["anthropic"][1].losses:
        console.print(f"{loss.code}  {loss.detail}", highlight=False)


if __name__ == "__main__":
    main()
