"""Questions to an upstream, independent of dialects: small conversations with a few parameters.

Questions are values: two checks that ask the same question share one request.  The first half of this
module holds their types, the second half every question.
"""

import base64
import struct
import zlib
from typing import Final, Literal, TypeAlias

from msgspec import Struct, structs

EmptyContent: TypeAlias = Literal["null", "empty", "omit"]
LimitField: TypeAlias = Literal["max_tokens", "max_completion_tokens"]

TEXT_TOKENS: Final = 512  # reasoning models spend most of it on reasoning
CALL_TOKENS: Final = 1024
SMALL_TOKENS: Final = 16  # the smallest limit that every vendor accepts


class TextMessage(Struct, frozen=True):
    """A message of text, with an image if there is one."""

    role: Literal["system", "developer", "user", "assistant"]
    text: str
    image: str = ""  # a PNG, in base64
    parts: bool = False  # the content is a list of parts, even if there is only one


class HistoryCall(Struct, frozen=True):
    id: str
    name: str
    arguments: str  # JSON text


class CallMessage(Struct, frozen=True):
    """An assistant's turn that made calls."""

    calls: tuple[HistoryCall, ...]
    reasoning: str = ""


class ResultMessage(Struct, frozen=True):
    """What a tool returned."""

    id: str
    text: str


class Tool(Struct, frozen=True):
    name: str
    description: str
    schema: str  # JSON text


class Question(Struct, frozen=True, kw_only=True):
    messages: tuple[TextMessage | CallMessage | ResultMessage, ...]
    tools: tuple[Tool, ...] = ()
    choice: str = ""  # `auto`, `required`, `none`, or a tool's name; empty: not sent
    parallel: bool | None = None
    stream: bool = True
    usage: bool = True  # Chat: token counts are requested
    limit: int = TEXT_TOKENS  # of output tokens
    limit_field: LimitField | None = None  # Chat: None: the field that is known to be accepted
    empty_content: EmptyContent | None = None  # Chat: with calls; None: the known accepted one
    stop: tuple[str, ...] = ()
    temperature: float | None = None
    reason: bool = False  # reasoning is requested
    model: str = ""  # instead of the one that is probed
    search: str = ""  # a web search is requested: in Chat, with the fields of this host; `own`: with none of them
    malformed: bool = False  # the conversation is malformed


class Habits(Struct, frozen=True):
    """What an upstream was seen to accept, so that later questions are not refused for another reason."""

    limit_field: LimitField = "max_tokens"
    empty_content: EmptyContent = "null"
    stream_options: bool = True
    reasoning: str = ""  # that every assistant's turn with calls must carry


# --- the tools that questions declare ---

WEATHER: Final = Tool(
    "get_weather",
    "Get the current weather of a city.",
    '{"type":"object","properties":{"city":{"type":"string","description":"Name of the city"},'
    '"unit":{"type":"string","enum":["celsius","fahrenheit"]}},"required":["city","unit"]}',
)
CLOCK: Final = Tool(
    "get_time",
    "Get the current time in a time zone.",
    '{"type":"object","properties":{"zone":{"type":"string","description":"Such as UTC"}},'
    '"required":["zone"]}',
)
BOOKING: Final = Tool(
    "book_room",
    "Book a room in a hotel.",
    '{"type":"object","properties":{"nights":{"type":"integer","minimum":1},'
    '"guest":{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"}},'
    '"required":["name","age"]},"extras":{"type":"array","items":{"type":"string"}},'
    '"board":{"type":"string","enum":["none","breakfast","full"]}},'
    '"required":["nights","guest","extras","board"]}',
)
TOOLS: Final = (WEATHER, CLOCK)

_HELLO: Final = TextMessage("user", "Answer with one short sentence: what is a lighthouse?")
_ASK_WEATHER: Final = TextMessage(
    "user", "What is the weather in Paris, in celsius? Use the tool get_weather."
)
_ASK_BOTH: Final = TextMessage(
    "user",
    "What is the weather in Paris and in Rome, in celsius? Call get_weather once for each city, both "
    "calls in the same answer.",
)
_COUNT: Final = TextMessage("user", "Count from 1 to 60, one number a line, and say nothing else.")

# --- answers in text ---
TEXT_BODY: Final = Question(messages=(_HELLO,), stream=False)
TEXT_BODY_NEWER: Final = structs.replace(TEXT_BODY, limit_field="max_completion_tokens")
TEXT: Final = Question(messages=(_HELLO,))
TEXT_UNASKED: Final = structs.replace(TEXT, usage=False)
LIMIT_OLDER: Final = Question(messages=(_COUNT,), limit=SMALL_TOKENS, limit_field="max_tokens")
LIMIT_NEWER: Final = structs.replace(LIMIT_OLDER, limit_field="max_completion_tokens")
LIMIT: Final = structs.replace(LIMIT_OLDER, limit_field=None)
STOP: Final = Question(
    messages=(
        TextMessage("user", "Repeat these four words and nothing else: alpha beta gamma delta"),
    ),
    stop=("gamma",),
)
HOT: Final = Question(messages=(_HELLO,), temperature=2.0)
WARM: Final = structs.replace(HOT, temperature=0.7)
REASONED: Final = Question(
    messages=(
        TextMessage("user", "What is 17 times 23? Think first, then answer with the number."),
    ),
    reason=True,
    limit=2048,
)
LONG: Final = Question(messages=(_COUNT,), limit=CALL_TOKENS)
AFTER_LEAVING: Final = Question(
    messages=(TextMessage("user", "Answer with one short sentence: what is a harbour?"),),
    stream=False,
)

# --- tool calls ---
AUTO: Final = Question(messages=(_ASK_WEATHER,), tools=TOOLS, choice="auto", limit=CALL_TOKENS)
REQUIRED: Final = Question(
    messages=(_HELLO,), tools=TOOLS, choice="required", limit=CALL_TOKENS
)  # only the tool choice leads to a call
NAMED: Final = structs.replace(AUTO, choice=CLOCK.name)
NONE: Final = structs.replace(AUTO, choice="none")
BOTH: Final = Question(messages=(_ASK_BOTH,), tools=(WEATHER,), choice="auto", limit=CALL_TOKENS)
ONE_AT_A_TIME: Final = structs.replace(BOTH, parallel=False)
BOOK: Final = Question(
    messages=(
        TextMessage(
            "user",
            "Book a room for 3 nights with breakfast for Ada, who is 36, with the extras balcony and "
            "parking. Use the tool book_room.",
        ),
    ),
    tools=(BOOKING,),
    choice="auto",
    limit=CALL_TOKENS,
)
BOOK_FORCED: Final = structs.replace(BOOK, choice="required")  # if `auto` leads to no call

# --- conversations ---
OWN_ID: Final = "abcdefghi"  # every upstream accepts it
KIMI_ID: Final = "functions.get_weather:0"
LONG_ID: Final = "call_" + "0123456789" * 5
CLAUDE_ID: Final = "toolu_01abcdefghijklmnopqrstuv"


def history(*ids: str, reasoning: str = "", reason: bool = False) -> Question:
    """Return a conversation in which tools have answered; `ids` are those of the calls."""
    calls = tuple(
        HistoryCall(one, WEATHER.name, '{"city":"Paris","unit":"celsius"}') for one in ids
    )
    results = tuple(ResultMessage(one, "12 degrees, sunny") for one in ids)
    messages: tuple[TextMessage | CallMessage | ResultMessage, ...] = (
        _ASK_WEATHER,
        CallMessage(calls, reasoning),
        *results,
    )
    limit = 2048 if reason else CALL_TOKENS
    return Question(messages=messages, tools=TOOLS, reason=reason, limit=limit)


HISTORY: Final = structs.replace(history(OWN_ID), empty_content="null")
HISTORY_EMPTY: Final = structs.replace(HISTORY, empty_content="empty")
HISTORY_OMITTED: Final = structs.replace(HISTORY, empty_content="omit")
FOREIGN: Final = history(KIMI_ID, LONG_ID, CLAUDE_ID)
FOREIGN_KIMI: Final = history(KIMI_ID)
FOREIGN_LONG: Final = history(LONG_ID)
FOREIGN_CLAUDE: Final = history(CLAUDE_ID)
THOUGHT: Final = "The tool knows the weather."
HISTORY_REASONED: Final = history(OWN_ID, reasoning=THOUGHT)
UNREASONED: Final = history(OWN_ID, reason=True)
REPLAYED: Final = history(OWN_ID, reason=True, reasoning=THOUGHT)

# --- roles and parts ---
_WORD: Final = "zebra"
OBEYED: Final = _WORD
_INSTRUCTION: Final = f"Whatever the user asks, answer with the single word {_WORD}."
_POLITE: Final = "You are polite."
DEVELOPER: Final = Question(messages=(TextMessage("developer", _INSTRUCTION), _HELLO))
MIDTURN: Final = Question(
    messages=(
        _HELLO,
        TextMessage("assistant", "A tower with a light."),
        TextMessage("user", "And what is a pier?"),
        TextMessage("system", _INSTRUCTION),
        TextMessage("user", "Go on."),
    )
)
TWO_SYSTEMS: Final = Question(
    messages=(TextMessage("system", _POLITE), TextMessage("system", _INSTRUCTION), _HELLO)
)
PARTS: Final = Question(messages=(TextMessage("user", _HELLO.text, parts=True),))


def _png(width: int, height: int, colour: bytes) -> str:
    """Return a picture of one colour, in base64."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    rows = zlib.compress((b"\0" + colour * width) * height, 9)
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + data).decode()


COLOUR: Final = "red"
IMAGE: Final = Question(
    messages=(
        TextMessage(
            "user",
            "What is the colour of this picture? Answer with one word.",
            # Some models refuse pictures that are smaller than one of their tiles.
            image=_png(64, 64, b"\xff\0\0"),
        ),
    )
)

# --- web searches ---
SEARCH: Final = Question(
    messages=(
        TextMessage(
            "user",
            "Search the web for the weather in Oslo today, and answer with one short sentence.",
        ),
    ),
    search="own",
)
# With the fields of each Chat host that shows whether it searched, as `Profile.chat_search` names them.
SEARCHES: Final = {
    host: structs.replace(SEARCH, search=host)
    for host in ("openrouter", "zai", "compound", "browser", "xai", "options", "kimi")
}

# --- what must be refused ---
MALFORMED: Final = Question(messages=(_HELLO,), malformed=True, stream=False)
NO_MODEL: Final = Question(
    messages=(_HELLO,), model="dragoman-probe/no-such-model", stream=False, limit=SMALL_TOKENS
)
