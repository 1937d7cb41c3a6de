"""Checks whether a stream is legal in its dialect, and reports where it is not.

The entry point to the grammars of the dialects.  Knows framing and JSON, not the meaning of events.
"""

import json
import re
from collections.abc import Iterable, Mapping
from importlib import import_module
from types import ModuleType
from typing import Final

import msgspec

from dragoman.checker.findings import (
    LIST_RULES,
    MAX_VIOLATIONS,
    DialectGrammar,
    Ending,
    Findings,
    Json,
    JudgeFrame,
    Position,
    Violation,
    shown,
)
from dragoman.dialects import dialect as find_dialect
from dragoman.errors import MisuseError, TooLargeError
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.wire.json_scanner import JsonScanner
from dragoman.wire.json_values import read_float
from dragoman.wire.sse import Frame, SSEReader

__all__ = [
    "MAX_VIOLATIONS", "Checker", "Ending", "Verdict", "Violation", "check", "rules", "takes_lists",
]  # fmt: skip

_BOM: Final = b"\xef\xbb\xbf"
_LINE_END: Final = re.compile(rb"\r\n|\r|\n")
_FIELDS: Final = frozenset({b"data", b"event", b"id", b"retry"})
_SURROGATE: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_DONE: Final = b"[DONE]"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking a whole stream.

    Attributes:
        legal: The stream breaks no rule.  One that reports a failure in its dialect's form is legal too.
        ended: How it ended.
        frames: Its events; comments are not counted.
        blocks: Blocks (Messages), items (Responses), channels and calls (Chat),
            or other parts and runs of text or thoughts (Gemini).
        calls: Tool calls for the client to run.
        violations: The first 100, in the order of the stream.
        unlisted: How many more there were.
    """

    legal: bool
    ended: Ending
    frames: int
    blocks: int
    calls: int
    violations: tuple[Violation, ...]
    unlisted: int


def rules(dialect: str) -> Mapping[str, str]:
    """Return the rules of a dialect: name to one line of prose.

    Raises:
        ConfigError: there is no such dialect.
    """
    table: Mapping[str, str] = _rules_of(dialect).RULES
    return table


def takes_lists(dialect: str) -> bool:
    """Return whether a stream of the dialect may be one JSON list in place of events.

    Raises:
        ConfigError: there is no such dialect.
    """
    return rules(dialect).keys() >= LIST_RULES.keys()


def check(dialect: str, stream: bytes, *, limits: Limits = DEFAULT_LIMITS) -> Verdict:
    """Judge a whole stream.

    Raises:
        ConfigError: there is no such dialect.
        TooLargeError: the stream passes a limit.
    """
    checker = Checker(dialect, limits=limits)
    checker.feed(stream)
    checker.close()
    return checker.verdict


class Checker:
    """Check whether one stream is legal in its dialect; its chunks may have any size.

    Continues after a violation, so that a user sees several at once.  Raises `TooLargeError` when the stream
    exceeds a limit, and no other error for any bytes; it cannot be used after that.

    Args:
        dialect: The dialect of the stream: `chat`, `anthropic`, `responses` or `gemini`.
        limits: How much the stream may hold.
    """

    def __init__(self, dialect: str, *, limits: Limits = DEFAULT_LIMITS) -> None:
        module = _rules_of(dialect)
        self._findings = Findings()
        self._grammar: DialectGrammar = module.GRAMMAR(self._findings, limits)
        self._judge_frame: JudgeFrame | None = getattr(module, "judge_frame", None)
        self._limits = limits
        self._sse = SSEReader(limits=limits)
        self._head = b""  # the first bytes, until they are known to be a byte-order mark or not
        self._begun = False
        self._offset = 0  # where the next frame begins
        self._frames = 0
        # A failure may follow its event once more, alone.
        self._may_repeat = find_dialect(dialect).fault_again is not None
        self._last = b""  # the data of the last event
        self._id_seen = False  # from then on, some SDKs pass on even a comment as an event
        # Whether the stream is one JSON list; None while only white space came, which `_list` keeps too.
        self._is_list = None if takes_lists(dialect) else False
        self._list: list[bytes] = []
        self._list_size = 0
        self._kept: list[Violation] = []
        self._ending: Ending | None = None
        self._dead = False

    def feed(self, data: bytes, /) -> list[Violation]:
        """Return the violations that `data` shows.

        Raises:
            TooLargeError: the stream passes a limit.
        """
        if self._dead or self._ending is not None:
            raise MisuseError("feed after the end or after an error")
        if not self._begun:
            self._look_for_mark(data)
        try:
            if self._is_list is not False:
                data = self._keep_list(data)
            for frame in self._sse.feed(data):
                self._judge(frame)
        except TooLargeError:
            self._dead = True
            raise
        return self._take()

    def close(self) -> list[Violation]:
        """End the input: return the violations that only the end shows."""
        if self._dead or self._ending is not None:
            raise MisuseError("close after the end or after an error")
        self._dead = True
        kept = b"".join(self._list)
        if self._is_list:
            self._ending = self._judge_list(kept)
            return self._take()
        cut = False
        for frame in (*self._sse.feed(kept), *self._sse.close()):
            cut = self._judge(frame)
        if not cut:
            self._findings.here = Position(self._frames + 1, self._offset)
        before = self._findings.total
        self._ending = self._grammar.end()
        if cut and self._findings.total == before:
            self._findings.add("nothing-after-end", "half an event follows the end")
        return self._take()

    @property
    def verdict(self) -> Verdict:
        """The result for the whole stream, once it is closed."""
        if self._ending is None:
            raise MisuseError("no verdict before the end")
        return Verdict(
            legal=not self._findings.total,
            ended=self._ending,
            frames=self._frames,
            blocks=self._grammar.blocks,
            calls=self._grammar.calls,
            violations=tuple(sorted(self._kept, key=lambda one: one.frame)),
            unlisted=max(0, self._findings.total - MAX_VIOLATIONS),
        )

    def _take(self) -> list[Violation]:
        new = self._findings.take()
        self._kept.extend(new)
        return new

    def _look_for_mark(self, data: bytes) -> None:
        self._head = (self._head + data[: len(_BOM)])[: len(_BOM)]
        if self._head == _BOM:
            self._offset = len(_BOM)
            self._findings.here = Position(1, 0)
            self._findings.add("byte-order-mark", "the stream begins with a byte-order mark")
        self._begun = len(self._head) == len(_BOM)

    # --- a stream that is one JSON list -----------------------------------------------------------

    def _keep_list(self, data: bytes) -> bytes:
        """Keep the bytes of a list, which is judged as a whole; return those of an event stream."""
        self._list.append(data)
        self._list_size += len(data)
        if self._list_size > self._limits.max_response_bytes:
            raise TooLargeError("max_response_bytes", self._limits.max_response_bytes)
        if self._is_list or not data.strip():
            return b""
        begin = b"".join(self._list)
        self._is_list = begin.lstrip()[:1] == b"["
        if self._is_list:
            return b""
        self._list.clear()
        return begin

    def _judge_list(self, body: bytes) -> Ending:
        """Judge the elements like the data of events, and then the list itself."""
        text = body.decode("latin-1")  # one character for each byte, and the same structure
        at = _next_token(text, text.index("[") + 1)
        closed, comma_missing = text.startswith("]", at), False
        while not closed and (end := _end_of_value(text, at)) is not None:
            self._frames += 1
            self._findings.here = Position(self._frames, at)
            self._check_utf8(body[at:end])
            self._read("", body[at:end])
            at = _next_token(text, end)
            closed = text.startswith("]", at)
            comma_missing = not closed and not text.startswith(",", at)
            if closed or comma_missing:
                break
            at = _next_token(text, at + 1)
        self._findings.here = Position(self._frames + 1, at)
        before = self._findings.total
        if closed and text[at + 1 :].strip():
            self._findings.add("nothing-after-end", "more follows the end of the list")
        elif not closed and at < len(text) and (comma_missing or not _is_cut(text[at:])):
            self._findings.add("one-list", f"the list goes on with {shown(text[at : at + 20])}")
        ending = self._grammar.end()
        if closed:
            return ending
        if self._findings.total == before:
            self._findings.add("truncated", "the list is not closed")
        return Ending.TRUNCATED

    # --- events -----------------------------------------------------------------------------------

    def _judge(self, frame: Frame) -> bool:
        """Judge one frame; return whether the input ended inside an event."""
        # The line feed of a cut CRLF may open a frame; it must not move the frame's beginning.
        begins = self._offset + len(frame.raw) - len(frame.raw.lstrip(b"\r\n"))
        self._offset += len(frame.raw)
        if self._may_repeat and self._is_repeated(frame):
            return False
        lines = [line for line in _LINE_END.split(frame.raw) if line]
        if self._judge_frame is not None and lines and frame.whole:
            self._findings.here = Position(self._frames + 1, begins)
            self._judge_frame(frame.raw, lines, self._findings)
        names = {line.partition(b":")[0] for line in lines}
        names.discard(b"")
        if not names and not (self._id_seen and frame.raw.strip(b"\r\n") and frame.whole):
            return False  # a comment, or nothing
        self._frames += 1
        self._findings.here = Position(self._frames, begins)
        if not frame.whole:
            return True
        self._id_seen = self._id_seen or b"id" in names
        self._check_utf8(frame.raw)
        for name in sorted(names - _FIELDS):
            line = shown(name.decode("utf-8", "replace"))
            self._findings.add("unknown-line", f"a line begins with {line}")
        if not frame.data:
            self._judge_empty(names)
        elif frame.data == _DONE:
            self._grammar.read_done()
        else:
            self._read(frame.event, frame.data)
        return False

    def _read(self, name: str, data: bytes) -> None:
        """Judge the data of an event, or an element of a list."""
        event = self._decode(data)
        if event is not None:
            self._grammar.read(name, event)

    def _is_repeated(self, frame: Frame) -> bool:
        """Return whether a frame is the last failure again."""
        before, self._last = self._last, frame.data
        repeated = before.startswith(b'{"error"') and frame.raw.strip() == before
        if repeated:
            self._last = b""  # once is enough
        return repeated

    def _judge_empty(self, names: Iterable[bytes]) -> None:
        if not names:
            self._findings.add(
                "empty-frame", "a comment with a blank line, after an `id` was given"
            )
        elif _FIELDS.intersection(names):
            self._findings.add("empty-frame", "the event has no data")

    def _check_utf8(self, data: bytes) -> None:
        if not _is_utf8(data):
            self._findings.add("utf-8", "the event is not UTF-8")

    def _decode(self, data: bytes) -> Json | None:
        """Return the event, repaired if possible, or None."""
        try:
            event = _JSON.decode(data)
        except UnicodeDecodeError:
            event = _decode_anyhow(data)
        except (msgspec.DecodeError, RecursionError) as error:
            event = _decode_anyhow(data) if _SURROGATE.search(data) else None
            if event is None:
                self._findings.add("json", f"the data cannot be read as JSON: {error}")
                return None
            self._findings.add("surrogate-pair", "an escape is half a surrogate pair")
        if not isinstance(event, dict):
            self._findings.add("json", f"the data is {shown(event)}, not an object")
            return None
        return event


_JSON: Final = msgspec.json.Decoder(object, float_hook=read_float)


def _decode_anyhow(data: bytes) -> object:
    """Decode what the strict decoder refuses; None if that fails too."""
    try:
        return json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _rules_of(name: str) -> ModuleType:
    """Return the module with the rules of a dialect."""
    return import_module(find_dialect(name).checker)


_SPACE: Final = re.compile(r"[ \t\r\n]*")
# Numbers stay texts: only the places of values are needed.
_VALUES: Final = json.JSONDecoder(parse_int=str, parse_float=str)


def _next_token(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return at if found is None else found.end()


def _end_of_value(text: str, at: int) -> int | None:
    """Return where a JSON value ends, None if it is none or is cut."""
    try:
        return _VALUES.raw_decode(text, at)[1]
    except (ValueError, RecursionError):
        return None


def _is_cut(text: str) -> bool:
    """Return whether a text is the beginning of a JSON value."""
    scanner = JsonScanner()
    try:
        return scanner.feed(text) == len(text)
    except TooLargeError:
        return False
