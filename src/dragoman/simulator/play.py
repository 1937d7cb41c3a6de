"""One answer as it will be played: what was asked, what is said, how it is written, how it is sent.

A quirk is a function from a `Play` to a changed `Play`; voices and the server only read it.
"""

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from msgspec import Struct

from dragoman.simulator.reply import Reply
from dragoman.turn.request import Request

Json: TypeAlias = bool | int | float | str | list["Json"] | dict[str, "Json"] | None
Fields: TypeAlias = dict[str, Json]

# Answers carry a time of creation; a fixed one keeps them the same for the same request.
CREATED: Final = 1_750_000_000
EVERYTHING: Final = 2**62  # for `Delivery.stop_at`: the stop takes the place of a clean end

FrameKind: TypeAlias = Literal[
    "start", "open", "delta", "close", "finish", "usage", "done", "error", "other"
]


class Frame(Struct, kw_only=True):
    """One event of a stream; `raw` bytes stand for themselves."""

    kind: FrameKind
    event: str = ""
    data: Fields = {}
    raw: bytes = b""


class Asked(Struct, frozen=True, kw_only=True):
    """A request, and what follows from it."""

    request: Request
    fields: Fields  # the body as it came, for echoes
    seed: str  # hexadecimal; the same for the same request
    family: str = ""  # whose grammar calls are written in; empty: structural

    @property
    def id(self) -> str:
        return self.seed[:24]


class Style(Struct, frozen=True, kw_only=True):
    """How an answer is written."""

    piece: int = 4  # characters of one delta; 0: all in one
    usage: bool = True
    usage_unasked: bool = False  # Chat: on the chunk that tells the finish
    cumulative: bool = False  # Chat: each delta repeats the text so far
    whole_arguments: bool = False
    object_arguments: bool = False
    interleave: bool = False
    index_zero: bool = False
    null_content: bool = False
    event_lines: bool = True
    crlf: bool = False
    comments: bool = False
    reasoning_fields: tuple[str, ...] = ("reasoning_content",)  # of Chat
    finish: str = ""  # told as it is, whatever the reply's finish
    leak: bool = False  # calls as text go into the reasoning
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
    asked: Asked
    reply: Reply
    style: Style = Style()
    delivery: Delivery = Delivery()


Edit: TypeAlias = Callable[[list[Frame], Play], list[Frame]]
