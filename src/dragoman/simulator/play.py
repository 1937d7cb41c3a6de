"""One answer as it is played: the request, what the model says, how it is written, how it is sent.

A quirk is a function from a `Play` to a changed `Play`; answer writers and the server only read it.
"""

import base64
import hashlib
import re
import struct
import zlib
from collections.abc import Callable
from typing import Final, Literal, TypeAlias

import msgspec
from msgspec import Struct

from dragoman.turn.events import Flavor
from dragoman.turn.request import Request
from dragoman.wire.json_scanner import JsonScanner

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
Fields: TypeAlias = dict[str, Json]

# Answers carry a time of creation; a fixed one keeps them the same for the same request.
CREATED: Final = 1_750_000_000
EVERYTHING: Final = 2**62  # for `Delivery.stop_at`: send everything, then stop without a clean end
TOKEN: Final = 4  # characters
_PNG: Final = b"\x89PNG\r\n\x1a\n"  # with which each PNG file begins
_WORD: Final = re.compile(r"[a-z0-9]+")
_MOST_PIECES: Final = 100_000  # a name may ask for texts of many MiB: they come in larger pieces
_READ: Final = (
    "system", "instructions", "systemInstruction", "messages", "input", "contents", "tools", "prompt",
)  # fmt: skip

Finish: TypeAlias = Literal[
    "stop", "stop_sequence", "tool_calls", "length", "content_filter", "pause"
]
FrameKind: TypeAlias = Literal[
    "start", "open", "delta", "close", "finish", "usage", "done", "error", "other"
]


class Frame(Struct, kw_only=True):
    """One event of a stream; `raw` bytes are sent unchanged in its place."""

    kind: FrameKind
    event: str = ""
    data: Fields = {}
    raw: bytes = b""


class ReceivedRequest(Struct, frozen=True, kw_only=True):
    """A request, and values derived from it."""

    request: Request
    fields: Fields  # the decoded body, for fields that the response repeats
    seed: str  # hexadecimal; the same for the same request
    family: str = ""  # the grammar of calls; empty: structured calls
    as_list: bool = False  # Gemini: the stream is one JSON list
    cached_tokens: int = 0  # of its beginning, as far as the server has read it before
    sent_back: tuple[Json, ...] = ()  # its last messages, if they are an answer that was paused

    @property
    def id(self) -> str:
        return self.seed[:24]


class SimulatedCall(Struct, frozen=True, kw_only=True):
    """One tool call."""

    id: str
    name: str
    arguments: str  # JSON text; free text if the tool is custom
    flavor: Flavor = Flavor.FUNCTION
    namespace: str = ""
    complete: bool = True  # false: the answer ends inside its arguments


class SimulatedSearch(Struct, frozen=True):
    """One web search that the simulated vendor runs itself."""

    query: str

    @property
    def sources(self) -> tuple[tuple[str, str], ...]:
        """What it found: address and title of each."""
        word = "-".join(_WORD.findall(self.query.lower())[:4]) or "nothing"
        return tuple(
            (f"https://source{number}.example/{word}", f"Result {number} for {word}")
            for number in (1, 2)
        )


class SimulatedMcpCall(Struct, frozen=True, kw_only=True):
    """One call of an MCP server's tool that the simulated vendor makes itself."""

    server: str
    name: str
    arguments: str  # a JSON object

    @property
    def output(self) -> str:
        return f"{self.name} of {self.server} returned 3 notes."


class SimulatedImage(Struct, frozen=True):
    """One image that the simulated vendor makes: a PNG of a single pixel, whose colour depends on the prompt."""

    prompt: str

    @property
    def data(self) -> str:
        """The file, in Base64."""
        colour = hashlib.sha256(self.prompt.encode()).digest()[:3]
        header = struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)  # 1 by 1, 8 bits of red, green, blue
        # Uncompressed, so that all versions of zlib write the same bytes.
        pixels = zlib.compress(b"\0" + colour, level=0)
        chunks = ((b"IHDR", header), (b"IDAT", pixels), (b"IEND", b""))
        return base64.b64encode(_PNG + b"".join(_png_chunk(*one) for one in chunks)).decode()


def _png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


class Reply(Struct, frozen=True, kw_only=True):
    """One answer: reasoning, then searches and calls of MCP servers, then text, then calls.

    Images come where the dialect has them: before the text in Responses, after it in Chat and Gemini.
    """

    reasoning: str = ""
    mcp_calls: tuple[SimulatedMcpCall, ...] = ()
    images: tuple[SimulatedImage, ...] = ()
    searches: tuple[SimulatedSearch, ...] = ()  # the text cites the first source of the first one
    blocks: tuple[Fields, ...] = ()  # Messages: what comes between reasoning and text
    text: str = ""
    calls: tuple[SimulatedCall, ...] = ()
    finish: Finish = "stop"
    stop_sequence: str = ""
    written: tuple[SimulatedCall, ...] = ()  # calls written as text, in the family's grammar
    leaked: bool = False  # they are written in the reasoning
    token: str = ""  # Gemini: with which the answer goes on

    @property
    def cited(self) -> tuple[str, str] | None:
        """Address and title of the source that the text cites, if there is one."""
        return self.searches[0].sources[0] if self.searches and self.text else None

    @property
    def reasoning_tokens(self) -> int:
        return count(self.reasoning)

    @property
    def output_tokens(self) -> int:
        """Return the number of tokens of the whole answer, at least one."""
        tokens = self.reasoning_tokens + count(self.text)
        return max(1, tokens + sum(count(call.name) + count(call.arguments) for call in self.calls))


class Style(Struct, frozen=True, kw_only=True):
    """How an answer is written."""

    piece: int = 4  # characters of one delta; 0: all in one
    usage: bool = True
    usage_unasked: bool = False  # Chat: on the chunk with the finish reason
    cumulative: bool = False  # Chat: each delta repeats the text so far
    whole_arguments: bool = False
    object_arguments: bool = False
    interleave: bool = False
    index_zero: bool = False
    null_content: bool = False
    event_lines: bool = True
    call_ids: bool = True  # Gemini
    signature_apart: bool = False  # Gemini: on a separate part at the end
    crlf: bool = False
    comments: bool = False
    reasoning_fields: tuple[str, ...] = ("reasoning_content",)  # of Chat
    finish: str = ""  # written unchanged, in place of the reply's finish
    leak: bool = False  # calls as text go into the reasoning
    search: str = ""  # the host whose searches these are; empty: as the request asks
    pauses: int = 0  # that the answer has
    edits: tuple["Edit", ...] = ()  # changes to the list of events, in order


class Delivery(Struct, frozen=True, kw_only=True):
    """How an answer is sent."""

    stream: bool = False
    error: int = 0  # answer with this HTTP status and the dialect's error body
    error_in_ok: bool = False  # the error body, but with status 200
    error_page: bool = False  # a page of HTML in place of the error body, as proxies send it
    empty: bool = False  # no body at all
    retry_after: str = ""
    writes: Literal["event", "all", "byte"] = "event"
    batch: int = 1  # events of one write
    pace: float = 0.0  # seconds between writes
    slow: float = 0.0  # seconds before the first byte
    stop_at: int = -1  # bytes after which `stop` happens; -1: after half of them
    stop: Literal["", "cut", "reset", "stall"] = ""


class Play(Struct, frozen=True, kw_only=True):
    asked: ReceivedRequest
    reply: Reply
    style: Style = Style()
    delivery: Delivery = Delivery()


Edit: TypeAlias = Callable[[list[Frame], Play], list[Frame]]


# --- tokens and arguments ---


def count(text: str) -> int:
    """Return the number of tokens of a text."""
    return -(-len(text) // TOKEN)


def pieces(text: str, size: int) -> list[str]:
    """Cut a text into pieces of `size` characters, or more if it is very long; 0 leaves it whole."""
    if not text:
        return []
    if size < 1 or size >= len(text):
        return [text]
    size = max(size, -(-len(text) // _MOST_PIECES))
    return [text[at : at + size] for at in range(0, len(text), size)]


def input_tokens(asked: ReceivedRequest) -> int:
    """Return the number of tokens of the JSON text that a model would read, at least one."""
    given = (asked.fields[name] for name in _READ if name in asked.fields)
    return max(1, sum(len(msgspec.json.encode(one)) // TOKEN for one in given))


def as_object(call: SimulatedCall) -> Json:
    """Return a call's decoded arguments; truncated JSON is closed, invalid JSON stays text."""
    if call.flavor is Flavor.CUSTOM:
        return {"input": call.arguments}
    text = call.arguments
    if not call.complete:
        scanner = JsonScanner()
        text = text[: scanner.feed(text)]
        text += scanner.closing()
    try:
        value: Json = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return call.arguments
    return value
