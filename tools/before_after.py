"""Write docs/images/before-after.svg, the README's picture of one exchange, for light and dark pages.

    python -m tools.before_after

The left side is what the simulator streams as a Kimi model whose server leaves tool calls in the reasoning;
the right side is what the library's Translator writes for a Messages client.
`tests/docs/test_before_after.py` fails while the pictures are not what this program draws.
"""

import json
import re
import urllib.request
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, NamedTuple

from dragoman import Translator, decode_tools
from dragoman.testing import Simulator
from dragoman.toolcalls.formats import FORMATS

IMAGES = Path(__file__).parent.parent / "docs" / "images"

MODEL = "sim/kimi-k2+leak-reasoning+chunk:27"
PROMPT = """sim: think The test fails. I run it first.
sim: call Bash {"command": "pytest -q tests/test_dates.py"}"""
TOOL = {
    "name": "Bash",
    "parameters": {
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
    },
}


# --- one exchange -------------------------------------------------------------------------------------


class Exchange(NamedTuple):
    chunks: list[str]  # the `reasoning_content` of each chunk that has one
    finish_reason: str  # as the upstream wrote it
    blocks: list[dict[str, Any]]  # the content of the client's message
    stop_reason: str  # as the client received it


def exchange() -> Exchange:
    """Stream a response from the simulator, and translate it as it arrives."""
    tools = [{"type": "function", "function": TOOL}]
    request = {
        "model": MODEL,
        "stream": True,
        "tools": tools,
        "messages": [{"role": "user", "content": PROMPT}],
    }
    translator = Translator(
        source="chat",
        target="anthropic",
        model=MODEL,
        tools=decode_tools(json.dumps(tools).encode()),
    )
    received, written = b"", b""
    with Simulator() as simulator:
        url = f"{simulator.base_url}/chat/completions"
        with urllib.request.urlopen(url, json.dumps(request).encode(), timeout=30) as response:
            while piece := response.read1():
                received += piece
                written += translator.feed(piece)
    written += translator.close()
    choices = [chunk["choices"][0] for chunk in events(received)]
    return Exchange(
        [
            one["delta"]["reasoning_content"]
            for one in choices
            if "reasoning_content" in one["delta"]
        ],
        choices[-1]["finish_reason"],
        *message(list(events(written))),
    )


def events(stream: bytes) -> Iterator[Any]:
    """Yield the JSON data of server-sent events."""
    for line in stream.decode().splitlines():
        if line.startswith("data: {"):
            yield json.loads(line.removeprefix("data: "))


def message(found: list[Any]) -> tuple[list[dict[str, Any]], str]:
    """Put the blocks of a Messages stream together, as a client does; also return its stop reason."""
    blocks: list[dict[str, Any]] = []
    arguments: dict[int, str] = {}
    stop_reason = ""
    for event in found:
        match event:
            case {"type": "content_block_start", "content_block": block}:
                blocks.append(block)
            case {"delta": {"type": "input_json_delta", "partial_json": piece}, "index": at}:
                arguments[at] = arguments.get(at, "") + piece
            case {"delta": {"type": "thinking_delta", "thinking": piece}, "index": at}:
                blocks[at]["thinking"] += piece
            case {"delta": {"type": "text_delta", "text": piece}, "index": at}:
                blocks[at]["text"] += piece
            case {"delta": {"stop_reason": reason}}:
                stop_reason = reason
    for at, text in arguments.items():
        blocks[at]["input"] = json.loads(text)
    return blocks, stop_reason


# --- the picture --------------------------------------------------------------------------------------


class Theme(NamedTuple):
    panel: str
    sunken: str
    line: str
    ink: str
    soft: str  # keys and punctuation
    faint: str  # labels
    reasoning: str
    call: str
    call_fill: str


LIGHT = Theme(
    "#ffffff",
    "#f7f8fa",
    "#dfe3e9",
    "#171a21",
    "#454d5b",
    "#606876",
    "#6c3fb2",
    "#066a64",
    "#e0f3f1",
)
DARK = Theme(
    "#161a21",
    "#11151b",
    "#2b323d",
    "#e7eaf0",
    "#b0b8c5",
    "#8b94a3",
    "#bd9ff6",
    "#4fc6b4",
    "#12302e",
)
THEMES = {"before-after.svg": LIGHT, "before-after-dark.svg": DARK}

WIDTH, HEIGHT = 880, 372
LEFT, LEFT_END = 20, 330  # of the panels
RIGHT, RIGHT_END = 390, 860
TOP, ROW, ROWS = 74, 25, 9
ADVANCE = 7.5  # of a character; `textLength` holds it for every font
PADDING = 14

# Text with its class: r reasoning, m marker, a argument, k key, v value of the call.
Run = tuple[str, str]

_MARKER = re.compile(r"<\|\w+\|>")


def picture(found: Exchange, theme: Theme) -> str:
    """Draw an exchange."""
    middle = (LEFT_END + RIGHT) // 2
    bottom = TOP + ROWS * ROW + 2 * PADDING
    parts = [
        (
            f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="10" '
            f'fill="{theme.panel}" stroke="{theme.line}"/>'
        ),
        _heading(
            LEFT,
            "The model's server sends text",
            f"Chat Completions, {len(found.chunks)} chunks of reasoning",
        ),
        _heading(RIGHT, "Your client gets a tool call", "Anthropic Messages, while it streams"),
        _panel(LEFT, LEFT_END, bottom, theme),
        _panel(RIGHT, RIGHT_END, bottom, theme),
        *_upstream(found, theme),
        _logo(middle, theme),
        *_client(found, theme),
        (
            f'<text class="s" x="{LEFT}" y="{bottom + 27}">The server left the call in the reasoning, and the '
            f'chunks cut its markers. Dragoman reads <tspan class="b">{len(FORMATS)} formats</tspan> of such '
            "calls.</text>"
        ),
    ]
    return "\n".join([*_head(theme), *parts, "</svg>", ""])


def _head(theme: Theme) -> list[str]:
    return [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" '
            f'viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="t d">'
        ),
        '<title id="t">One exchange, before and after Dragoman</title>',
        (
            '<desc id="d">Left: a server streams a Kimi tool call as text in the reasoning and finishes with '
            "stop. Right: the client receives the reasoning, and a tool_use block with a name and parsed "
            "input.</desc>"
        ),
        (
            "<style>"
            'text{font-family:-apple-system,"Segoe UI",Roboto,"Noto Sans","Liberation Sans",Arial,sans-serif;'
            f"fill:{theme.ink}}}"
            '.c{font-family:ui-monospace,"SF Mono","Cascadia Mono",Menlo,Consolas,"DejaVu Sans Mono",'
            '"Liberation Mono",monospace;font-size:12.5px;white-space:pre}'
            ".h{font-size:15px;font-weight:600}"
            f".s{{font-size:12.5px;fill:{theme.faint}}}"
            f".b{{font-weight:600;fill:{theme.soft}}}"
            f".n{{font-size:11px;fill:{theme.faint}}}"
            f".r{{fill:{theme.reasoning}}}"
            f".m,.v{{fill:{theme.call};font-weight:700}}"
            f".a{{fill:{theme.ink}}}"
            f".k{{fill:{theme.soft}}}"
            "</style>"
        ),
    ]


def _heading(x: int, title: str, below: str) -> str:
    return f'<text class="h" x="{x}" y="36">{title}</text><text class="s" x="{x}" y="57">{below}</text>'


def _panel(left: int, right: int, bottom: int, theme: Theme) -> str:
    return (
        f'<rect x="{left}" y="{TOP}" width="{right - left}" height="{bottom - TOP}" rx="6" '
        f'fill="{theme.sunken}" stroke="{theme.line}"/>'
    )


def _logo(middle: int, theme: Theme) -> str:
    """Draw Dragoman's mark over an arrow."""
    y = TOP + 126
    return (
        f'<path d="M{middle - 20} {y}h40m-8-7 8 7-8 7" fill="none" stroke="{theme.faint}" '
        'stroke-width="1.5" stroke-linecap="round" stroke-linejoin="round"/>'
        f'<g transform="translate({middle - 13} {y - 42}) scale(1.3)" fill="none" stroke="{theme.call}" '
        'stroke-width="2" stroke-linecap="round" stroke-linejoin="round">'
        '<path d="M7 4 2.5 10 7 16"/><path d="M13 4l4.5 6L13 16" opacity=".55"/>'
        f'<circle cx="10" cy="10" r="1.8" fill="{theme.call}" stroke="none"/></g>'
    )


def _baseline(row: float) -> int:
    return TOP + PADDING + int(row * ROW) + 17


def _line(x: float, row: float, runs: list[Run]) -> Iterator[str]:
    """Yield texts beside each other; spaces have no glyph and only move what follows."""
    for text, kind in runs:
        shown = text.strip(" ")
        start = x + (len(text) - len(text.lstrip(" "))) * ADVANCE
        if shown:
            yield (
                f'<text class="c {kind}" x="{start:g}" y="{_baseline(row)}" '
                f'textLength="{len(shown) * ADVANCE:g}" lengthAdjust="spacingAndGlyphs">'
                f"{escape(shown, quote=False)}</text>"
            )
        x += len(text) * ADVANCE


def _upstream(found: Exchange, theme: Theme) -> Iterator[str]:
    """Yield the chunks, one in each row, with the call marked, and the finish reason."""
    text = "".join(found.chunks)
    markers = [match.span() for match in _MARKER.finditer(text)]
    call = range(markers[0][0], markers[-1][1])
    in_marker = {at for first, last in markers for at in range(first, last)}
    x = LEFT + PADDING + 26
    start = 0
    for row, chunk in enumerate(found.chunks):
        runs: list[Run] = []
        shaded = [-1, -1]  # first and last column of the call
        column = 0
        for at, character in enumerate(chunk, start):
            kind = "m" if at in in_marker else "a" if at in call else "r"
            shown = json.dumps(character)[1:-1] if character < " " else character
            if at in call:
                shaded = [column if shaded[0] < 0 else shaded[0], column + len(shown)]
            column += len(shown)
            if runs and runs[-1][1] == kind:
                runs[-1] = (runs[-1][0] + shown, kind)
            else:
                runs.append((shown, kind))
        y = _baseline(row)
        yield f'<text class="n" x="{x - 14}" y="{y}" text-anchor="end">{row + 1}</text>'
        if shaded[0] >= 0:
            yield (
                f'<rect x="{x + shaded[0] * ADVANCE - 2:g}" y="{y - 15}" '
                f'width="{(shaded[1] - shaded[0]) * ADVANCE + 4:g}" height="21" rx="3" '
                f'fill="{theme.call_fill}"/>'
            )
        yield from _line(x, row, runs)
        start += len(chunk)
    yield from _line(x, ROWS - 1, [('"finish_reason": ', "k"), (_json(found.finish_reason), "a")])


def _client(found: Exchange, theme: Theme) -> Iterator[str]:
    """Yield the blocks of the client's message and its stop reason; calls have a background."""
    x = RIGHT + PADDING
    row = 0.0
    for number, block in enumerate(found.blocks):
        is_call = block["type"] == "tool_use"
        row += 0.5 * bool(number)
        if is_call:
            yield (
                f'<rect x="{RIGHT + 6}" y="{_baseline(row) - 19}" width="{RIGHT_END - RIGHT - 12}" '
                f'height="{len(block) * ROW + 4}" rx="4" fill="{theme.call_fill}"/>'
            )
        for at, (key, value) in enumerate(block.items()):
            kind = "r" if key == "thinking" else "v" if is_call and key != "id" else "k"
            end = " }" if at == len(block) - 1 else ","
            opening = "{ " if at == 0 else "  "
            runs = [(f"{opening}{_json(key)}: ", "k"), (_json(value), kind), (end, "k")]
            yield from _line(x, row, runs)
            row += 1
    yield from _line(x, ROWS - 1, [('"stop_reason": ', "k"), (_json(found.stop_reason), "v")])


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def pictures() -> dict[Path, str]:
    """Return the pictures, by file."""
    found = exchange()
    return {IMAGES / name: picture(found, theme) for name, theme in THEMES.items()}


def main() -> None:
    IMAGES.mkdir(exist_ok=True)
    for path, text in pictures().items():
        path.write_text(text, "utf-8")


if __name__ == "__main__":
    main()
