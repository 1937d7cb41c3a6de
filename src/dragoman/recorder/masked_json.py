"""JSON without its content: which strings are content, and which belong to the protocol.

Works on bytes and keeps their number, so that a stream stays cut where it was cut.  JSON that is broken or cut is
masked as far as it goes.
"""

import re
from collections.abc import Iterator
from enum import Enum, auto
from functools import cache
from typing import Final

from msgspec import Struct

from dragoman.dialects import vocabulary
from dragoman.dialects.vocabulary import Vocabulary
from dragoman.recorder.masked_text import Names, mask_name, mask_text

_TOKEN: Final = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[{}\[\],:]|[^\s"{}\[\],:]+', re.DOTALL)
_BARE: Final = re.compile(rb"-?[0-9][0-9.eE+-]*|true|false|null")
_CHARACTER: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\.|[^\x80-\xff]"
    rb"|[\xc0-\xff][\x80-\xbf]*|.",
    re.DOTALL,
)
_ESCAPES: Final = {
    b"\\n": "\n", b"\\t": "\t", b"\\r": "\r", b"\\b": "\b", b"\\f": "\f", b'\\"': '"', b"\\\\": "\\", b"\\/": "/",
}  # fmt: skip
SYMBOL: Final = re.compile(r"[\w./:+@*-]{0,128}")

# The fields of events, of the log and of the lines of recordings.
_OWN: Final = Vocabulary(
    words=frozenset(
        {
            "event", "kind", "reason", "raw", "flavor", "channel", "category", "vendor", "code", "model", "phase",
            "dialect", "upstream", "upstream_model", "route", "ended", "error", "error_code", "native_format",
            "family", "warnings", "source", "target", "status",
        }
    ),
    names=frozenset(
        {"name", "namespace", "id", "call_id", "item_id", "request_id", "call_names", "stop"}
    ),
    parts=frozenset({"event", "index", "part"}),
    path_words=frozenset({"v1", "v2", "api", "models", "beta", "http", "https", "localhost"}),
)  # fmt: skip
# Fields whose values are our own sentences.
_OURS: Final = frozenset({"meaning", "program"})
_NAMED: Final = frozenset(
    {"properties", "$defs", "definitions", "patternProperties", "dependentSchemas"}
)
_SCHEMA_NAMES: Final = frozenset({"required", "$ref"})
_SCHEMA_VALUES: Final = frozenset({"default", "examples", "const", "enum"})
_SCHEMA_WORDS: Final = frozenset(
    {
        "type", "properties", "required", "items", "enum", "const", "anyOf", "oneOf", "allOf", "not",
        "description", "title", "default", "examples", "format", "pattern", "minimum", "maximum",
        "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems",
        "uniqueItems", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
        "maxProperties", "prefixItems", "contains", "if", "then", "else", "$ref", "$defs", "$id", "$schema",
        "$comment", "definitions", "dependentRequired", "dependentSchemas", "nullable", "readOnly", "writeOnly",
        "deprecated", "contentEncoding", "contentMediaType", "unevaluatedProperties",
    }
)  # fmt: skip


@cache
def fields() -> Vocabulary:
    """Return the fields of events, the log and recordings, and of all dialects."""
    return _OWN | vocabulary()


class _Mode(Enum):
    """What the keys and strings of an object are."""

    PROTOCOL = auto()  # fields of an API
    SCHEMA = auto()  # a JSON schema
    NAMED = auto()  # names of properties, and their schemas
    FREE = auto()  # arguments of a call, and other JSON of a client


class _Level(Struct):
    """An object or array that is open."""

    mode: _Mode
    is_object: bool
    key: str = ""  # the last one; of an array: the key of the array
    before_key: bool = True
    parts: dict[str, bytes] = {}  # values of `Vocabulary.parts`
    size: int = 0  # of an array: elements so far


class Slot(Struct):
    """A string."""

    start: int  # of its inside
    end: int
    path: tuple[str, ...]
    parts: tuple[dict[str, bytes], ...]  # of all objects around it


class Document:
    """JSON, or any other text, that can be masked; without names, every string is content."""

    def __init__(self, data: bytes, names: Names | None, *, streamed: bool = False) -> None:
        self._data = data
        self._names = names
        self._streamed = streamed  # one of many: its strings may be pieces
        self._fields = fields()
        self._edits: list[tuple[int, int, bytes]] = []
        self.content: list[Slot] = []
        self._stack: list[_Level] = []
        self._read()

    def text(self, slot: Slot) -> str:
        """Return the text of a string."""
        return _decoded(self._data[slot.start : slot.end])

    def group(self, slot: Slot) -> object:
        """Return what the pieces of one text have in common."""
        if not self._streamed:
            return id(slot)
        return slot.path, tuple(tuple(sorted(one.items())) for one in slot.parts)

    def write(self, slot: Slot, text: str) -> None:
        """Replace a string."""
        raw = self._data[slot.start : slot.end]
        self._edits.append((slot.start, slot.end, _encoded(raw, text)))

    def masked(self) -> bytes:
        """Return the document with all replacements."""
        out: list[bytes] = []
        at = 0
        for start, end, data in sorted(self._edits):
            out += (self._data[at:start], data)
            at = end
        return b"".join((*out, self._data[at:]))

    # --- reading -----------------------------------------------------------------------------------

    def _read(self) -> None:
        stack = self._stack
        for match in _TOKEN.finditer(self._data):
            token = match[0]
            first = token[:1]
            if first in b"{[":
                stack.append(self._open(is_object=first == b"{"))
            elif first in b"}]":
                if stack:
                    stack.pop()
            elif first == b",":
                if stack:
                    stack[-1].before_key = True
                    stack[-1].size += 1
            elif first == b":":
                if stack:
                    stack[-1].before_key = False
            elif first == b'"':
                self._string(
                    match.start() + 1, match.end() - (len(token) > 1 and token[-1:] == b'"')
                )
            elif _BARE.fullmatch(token) is None:
                self._content(match.start(), match.end())
            else:
                self._note_part(token)

    def _open(self, *, is_object: bool) -> _Level:
        if not self._stack:
            return _Level(_Mode.PROTOCOL, is_object)
        above = self._stack[-1]
        within = is_object and above.is_object
        mode = _mode_below(above.mode, above.key, self._fields) if within else above.mode
        if above.key == "response" and len(self._stack) > 1:
            mode = _Mode.FREE if self._stack[-2].key in self._fields.results else mode
        if not is_object and above.mode is _Mode.SCHEMA and above.key in _SCHEMA_VALUES:
            mode = _Mode.FREE
        return _Level(mode, is_object, "" if is_object else above.key)

    def _note_part(self, token: bytes) -> None:
        if self._stack and self._stack[-1].key in self._fields.parts:
            self._stack[-1].parts[self._stack[-1].key] = token

    def _string(self, start: int, end: int) -> None:
        level = self._stack[-1] if self._stack else _Level(_Mode.PROTOCOL, is_object=False)
        raw = self._data[start:end]
        if level.is_object and level.before_key:
            level.key = _decoded(raw)
            if self._names is not None and not _keeps_key(level.mode, level.key):
                self._name(start, end, self._names)
            return
        text = _decoded(raw)
        self._note_part(raw)
        if self._names is None or level.mode is _Mode.FREE or level.mode is _Mode.NAMED:
            self._content(start, end)
        elif level.key in _OURS or (level.key in self._fields.words and SYMBOL.fullmatch(text)):
            pass
        elif level.key in self._fields.names or (
            level.mode is _Mode.SCHEMA and level.key in _SCHEMA_NAMES
        ):
            self._name(start, end, self._names)
        elif level.key in ("path", "url") and text.startswith(("/", "http://", "https://")):
            self.write(self._slot(start, end), mask_url(text, self._names))
        else:
            self._content(start, end)

    def _slot(self, start: int, end: int) -> Slot:
        path = [level.key if level.is_object else str(level.size) for level in self._stack]
        parts = tuple(level.parts for level in self._stack if level.is_object)
        return Slot(start, end, tuple(path), parts)

    def _content(self, start: int, end: int) -> None:
        self.content.append(self._slot(start, end))

    def _name(self, start: int, end: int, names: Names) -> None:
        slot = self._slot(start, end)
        self.write(slot, mask_name(self.text(slot), names))


def _mode_below(mode: _Mode, key: str, known: Vocabulary) -> _Mode:
    match mode:
        case _Mode.PROTOCOL if key in known.schemas:
            return _Mode.SCHEMA
        case _Mode.PROTOCOL if key in known.free:
            return _Mode.FREE
        case _Mode.SCHEMA if key in _NAMED:
            return _Mode.NAMED
        case _Mode.SCHEMA if key in _SCHEMA_VALUES:
            return _Mode.FREE
        case _Mode.NAMED:
            return _Mode.SCHEMA
        case _:
            return mode


def _keeps_key(mode: _Mode, key: str) -> bool:
    return mode is _Mode.PROTOCOL or (mode is _Mode.SCHEMA and key in _SCHEMA_WORDS)


_URL_PART: Final = re.compile(r"[^\W\d]\w*|\d+|.", re.DOTALL)


def mask_url(url: str, names: Names) -> str:
    """Return an address: the words of APIs stay, the host and all others do not."""
    kept = fields().path_words
    return _URL_PART.sub(
        lambda match: match[0] if match[0] in kept else mask_text(match[0], names),
        url,
    )


# --- the inside of a JSON string ---------------------------------------------------------------------------


def _characters(raw: bytes) -> Iterator[tuple[bytes, str]]:
    for piece in _CHARACTER.findall(raw):
        if piece[:2] == b"\\u" and len(piece) >= 6:
            code = int(piece[2:6], 16)
            if len(piece) > 6:
                code = 0x10000 + ((code - 0xD800) << 10) + int(piece[8:12], 16) - 0xDC00
            yield piece, chr(code)
        elif piece in _ESCAPES:
            yield piece, _ESCAPES[piece]
        else:
            try:
                yield piece, piece.decode()
            except UnicodeDecodeError:
                yield piece, "\ufffd"


def _decoded(raw: bytes) -> str:
    if b"\\" not in raw:
        try:
            return raw.decode()
        except UnicodeDecodeError:
            pass
    # An escape that JSON does not know is two characters of the text, but must be one here.
    return "".join(char if len(char) == 1 else "\ufffd" for _, char in _characters(raw))


def _encoded(raw: bytes, text: str) -> bytes:
    """Return a text in the way in which another one of the same length is written."""
    if b"\\" not in raw and "\ufffd" not in text:
        return text.encode("utf-8", "surrogatepass")
    return b"".join(
        piece if char == new or len(char) != 1 or new == "\ufffd" else _written_like(piece, new)
        for (piece, char), new in zip(_characters(raw), text, strict=True)
    )


def _written_like(piece: bytes, char: str) -> bytes:
    if piece[:2] != b"\\u":
        return char.encode("utf-8", "surrogatepass")
    code = ord(char)
    if len(piece) == 6:
        return b"\\u%04x" % code
    code -= 0x10000
    return b"\\u%04x\\u%04x" % (0xD800 + (code >> 10), 0xDC00 + (code & 0x3FF))
