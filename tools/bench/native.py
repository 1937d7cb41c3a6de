"""Tool calls written as text: the cost of detecting and of parsing them."""

from tools.bench.chunks import chunk_payloads, floor_of, reads
from tools.bench.measure import Row, ratio_of

from dragoman.toolcalls.parser import ToolCallParser
from dragoman.translate import Translator
from dragoman.translate_requests import decode_tools

TOOLS = decode_tools(
    b'[{"name":"write","input_schema":{"type":"object","properties":{"text":{"type":"string"}}}}]'
)
# How a family of each style opens and closes a call with one long string argument.
STYLES = {
    "kimi_k2": (
        '<|tool_call_begin|>functions.write:0<|tool_call_argument_begin|>{"text": "',
        '"}<|tool_call_end|>',
    ),
    "qwen3_coder": (
        "<tool_call>\n<function=write>\n<parameter=text>\n",
        "\n</parameter>\n</function>\n</tool_call>",
    ),
    "pythonic": ('[write(text="', '")]'),
}
KIB = 1024
SIZES = {"1 KB": KIB, "64 KB": 64 * KIB, "4 MB": 4 * KIB * KIB}
PIECE = 4  # characters
# The budgets in microseconds hold for a machine on which decoding and encoding a chunk costs 0.75 µs.
FLOOR_MICROSECONDS = 0.75
PIECE_BUDGET = 3 / FLOOR_MICROSECONDS
CALL_BUDGET = 100 / FLOOR_MICROSECONDS
FLATNESS = 1.5  # the cost of a piece at 4 MB over that at 1 KB


def bench_native(rounds: int) -> list[Row]:
    """Measure native parsing."""
    rows = [quiet_row(rounds), call_row(rounds)]
    for family in STYLES:
        rows += piece_rows(family, rounds)
    return rows


def quiet_row(rounds: int, count: int = 20_000) -> Row:
    """Measure text without markers, with and without detection."""
    pieces = reads(chunk_payloads(count))

    def translate(native_format: str) -> None:
        translator = Translator(
            source="chat", target="anthropic", tools=TOOLS, native_format=native_format
        )
        for piece in pieces:
            translator.feed(piece)
        translator.close()

    timing = ratio_of(lambda: translate("kimi_k2"), lambda: translate("none"), rounds * 3)
    each, floor = timing.work / count * 1e6, timing.floor / count * 1e6
    return Row(
        name="looking for calls in plain text",
        values=timing.ratios,
        better="lower",
        limit=1.05,
        detail=f"{each:.2f} µs a chunk, not looking {floor:.2f} µs",
        guarded=True,
    )


def call_row(rounds: int, count: int = 300) -> Row:
    """Measure one whole Kimi call, from opener to closer, in one piece."""
    opener, closer = STYLES["kimi_k2"]
    text = f"{opener}hello{closer}"

    def parse() -> None:
        for _ in range(count):
            parser = ToolCallParser(format="kimi_k2", tools=TOOLS)
            parser.feed(text)
            parser.close()

    timing = ratio_of(parse, floor_of(chunk_payloads(count)), rounds)
    return Row(
        name="one Kimi call, in chunk floors",
        values=timing.ratios,
        better="lower",
        limit=round(CALL_BUDGET),
        detail=f"{timing.work / count * 1e6:.0f} µs a call",
        guarded=True,
    )


def piece_rows(family: str, rounds: int) -> list[Row]:
    """Measure arguments that arrive four characters at a time."""
    opener, closer = STYLES[family]
    rows: list[Row] = []
    costs: dict[str, float] = {}
    for label, size in SIZES.items():
        text = ("some text, and more of it " * (size // 26 + 1))[:size]
        pieces = [text[at : at + PIECE] for at in range(0, size, PIECE)]
        # Small sizes are repeated, so that each timing covers about as much work.
        repeats = max(1, 16 * KIB // len(pieces))
        count = len(pieces) * repeats

        def parse(pieces: list[str] = pieces, repeats: int = repeats) -> None:
            for _ in range(repeats):
                parser = ToolCallParser(format=family, tools=TOOLS)
                parser.feed(opener)
                for piece in pieces:
                    parser.feed(piece)
                parser.feed(closer)
                parser.close()

        timing = ratio_of(parse, floor_of(chunk_payloads(count)), min(rounds, 3))
        each, floor = timing.work / count * 1e6, timing.floor / count * 1e6
        row = Row(
            name=f"{family}, {PIECE}-character pieces, {label}",
            values=timing.ratios,
            better="lower",
            limit=PIECE_BUDGET,
            detail=f"{each:.2f} µs a piece, floor {floor:.2f} µs",
            guarded=True,
        )
        costs[label] = row.value
        rows.append(row)
    rows.append(
        Row(
            name=f"{family}, 4 MB over 1 KB",
            values=[costs["4 MB"] / costs["1 KB"]],
            better="lower",
            limit=FLATNESS,
            detail="cost of a piece",
            guarded=True,
        )
    )
    return rows
