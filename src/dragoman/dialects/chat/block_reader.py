"""Decides which block of the answer each part of a Chat Completions stream belongs to."""

import json
from collections.abc import Callable
from typing import Any, Final

import msgspec
from msgspec import Raw

from dragoman.context import Exchange
from dragoman.dialects.chat.schema import (
    KIMI_SEARCH,
    PARTS,
    CallDelta,
    ContentPart,
    Delta,
    FunctionDelta,
    Logprobs,
    SearchCall,
    SearchFunction,
    is_given,
)
from dragoman.dialects.decoding import decode
from dragoman.dialects.encoding import encode
from dragoman.errors import MalformedError, TooLargeError
from dragoman.ids import derived_id
from dragoman.turn.answer import Block
from dragoman.turn.assembler import Assembler
from dragoman.turn.events import Channel, FinishReason, Flavor, OpaqueKind
from dragoman.turn.server_tools import ServerCall, ServerKind
from dragoman.wire.json_values import decode_any, read_float
from dragoman.wire.surrogates import Halves, join_surrogates

# --- reasoning details ----------------------------------------------------------------------------

_LIST: Final[msgspec.json.Decoder[list[dict[str, Any]] | None]] = msgspec.json.Decoder(
    list[dict[str, Any]] | None, float_hook=read_float
)

# Which field of an entry is reasoning to be shown, by its type.
_READABLE: Final = {
    "reasoning.text": ("text", Channel.FULL),
    "reasoning.summary": ("summary", Channel.SUMMARY),
}


class Details:
    """Gather the entries of a stream: readable text as it comes, the merged list at the end."""

    def __init__(self) -> None:
        self._entries: list[dict[str, Any]] = []
        self._by_place: dict[tuple[str, int], dict[str, Any]] = {}  # by type and index
        self._summaries = 0  # summary entries so far

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(self, raw: Raw) -> list[tuple[str, Channel, int]]:
        """Take a delta's list and return its readable text: text, channel and part.

        Raises:
            MalformedError: it is not a list of objects.
        """
        readable: list[tuple[str, Channel, int]] = []
        for entry in decode(_LIST, bytes(raw)) or ():
            self._merge(entry)
            kind = entry.get("type")
            field, channel = _READABLE.get(
                kind if isinstance(kind, str) else "", ("", Channel.FULL)
            )
            text = entry.get(field)
            if isinstance(text, str) and text:
                part = self._summaries - 1 if channel is Channel.SUMMARY else 0
                readable.append((text, channel, part))
        return readable

    def take(self) -> str:
        """Return the merged list as JSON, and begin an empty one."""
        try:
            text = msgspec.json.encode(self._entries).decode()
        except UnicodeEncodeError:  # halves of surrogate pairs
            text = join_surrogates(json.dumps(self._entries, ensure_ascii=False))
        self._entries = []
        self._by_place = {}
        self._summaries = 0
        return text

    def _merge(self, delta: dict[str, Any]) -> None:
        entry = self._entry_for(delta)
        if entry is None:
            entry = dict(delta)
            self._entries.append(entry)
            self._summaries += delta.get("type") == "reasoning.summary"
            if isinstance(delta.get("index"), int):
                self._by_place[str(delta.get("type")), delta["index"]] = entry
            return
        for key, value in delta.items():
            known = entry.get(key)
            if key in ("text", "summary") and isinstance(known, str) and isinstance(value, str):
                entry[key] = known + value
            elif value is not None or key not in entry:
                entry[key] = value

    def _entry_for(self, delta: dict[str, Any]) -> dict[str, Any] | None:
        """Return the entry that a delta continues."""
        kind, index = str(delta.get("type")), delta.get("index")
        if isinstance(index, int):
            return self._by_place.get((kind, index))
        # Without an index only running text is continued; anything else is a separate entry.
        last = self._entries[-1] if self._entries else {}
        return last if kind in _READABLE and last.get("type") == kind else None


def joined(block: Block) -> str:
    """Return the readable reasoning of a block; parts are set apart by a blank line."""
    return "\n\n".join(segment.text for segment in block.segments)


# --- tool calls -----------------------------------------------------------------------------------
# In the dialect a delta names its call by `index`, and the first one brings id and name.  Compatible
# servers leave the index out, use 0 for every call, repeat id and name on each delta, send the name in
# pieces, or late.  The rule: a new id makes a new call; a name after whole arguments makes a new call; the
# index decides otherwise; and evidence that contradicts itself makes a new call rather than a mixture.

# The place of a legacy `function_call`, which has no index.
_LEGACY: Final = -1


class _Call:
    """A call of the stream, from its first delta."""

    def __init__(self, key: int, call_id: str) -> None:
        self.key = key  # order of arrival; its name in the assembler
        self.id = call_id  # empty: none was given
        self.name = ""  # as far as it has come
        self.custom = False  # its input is free text
        self.opened = False  # the assembler knows it
        self.held: list[str] = []  # arguments that wait for the name
        self.extra = ""  # vendor state that was last emitted
        self.again = False  # its name came again after whole arguments, alone
        self.search = False  # Moonshot runs it: the client sends it back and never sees it


class Calls:
    """The calls of one answer."""

    def __init__(
        self, exchange: Exchange, assembler: Assembler, join: Callable[[object, str], str]
    ) -> None:
        self._assembler = assembler
        self._tools = exchange.tools
        self._limits = exchange.limits
        self._join = join  # joins halves of a character, by the call's key
        self.seed: str = exchange.seed
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._unopened = 0
        self._held_size = 0
        self._misnumbered = False  # it was reported that the peer numbers its calls wrongly
        # The call that was added to last: its index in the stream, and its key.
        self._hot: tuple[int | None, int] = (None, -1)
        self._kimi = _echoes(exchange)
        self.searches: list[_Call] = []  # of Moonshot's own tool

    @property
    def pending(self) -> bool:
        """A call has begun that the assembler does not know yet."""
        return self._unopened > 0

    @property
    def whole(self) -> bool:
        """Every call has a name and complete arguments."""
        return all(call.opened and self._is_whole(call) for call in self._calls)

    def __len__(self) -> int:
        return len(self._calls)

    def read(self, deltas: list[CallDelta]) -> None:
        """Take the tool calls of one chunk."""
        several = len(deltas) > 1
        for position, delta in enumerate(deltas):
            index = delta.index
            # No index at all.  Case: chat/t1_no_index.
            if index is None and several:
                index = position
            self._take(delta, index)

    def read_legacy(self, delta: FunctionDelta) -> None:
        """Take a `function_call`."""
        self._take(CallDelta(function=delta), _LEGACY)

    def open_all(self) -> bool:
        """Open the calls that waited for the rest of their names; return whether every call has a name."""
        for call in self._calls:
            if call.name:
                self._open(call)
        return not self.pending

    def _take(self, delta: CallDelta, index: int | None) -> None:
        name, fragment = _name_and_input(delta)
        call_id = "" if delta.id is None else join_surrogates(str(delta.id))
        extra = bytes(delta.extra_content).decode() if is_given(delta.extra_content) else ""
        # An entry without content.  Case: chat/t17_empty_tool_calls.
        if not (name or fragment or call_id or extra):
            return
        call = self._route(call_id, index, name, fragment)
        if delta.custom is not None:
            call.custom = True
        if index is not None:
            self._by_index[index] = call
        # Case: chat/b2_index_always_zero.
        if (index or 0) != call.key and index != _LEGACY:
            self._note_misnumbered(call, index)
        # The name repeats, or arrives in pieces.  Cases: chat/t4_id_and_name_on_every_chunk, chat/t5_name_in_pieces.
        if name and not call.opened and name != call.name:
            call.name += name
            if len(call.name) > self._limits.max_tool_name_chars:
                raise TooLargeError("max_tool_name_chars", self._limits.max_tool_name_chars)
        if call.name and (fragment or self._tools.is_complete_name(call.name)):
            self._open(call)
        if extra and extra != call.extra:
            call.extra = extra
            if call.opened:
                self._assembler.call_opaque(call.key, OpaqueKind.TOOL_SIGNATURE, extra)
        if fragment:
            known = None if index is None or call.again or call.search else index
            self._hot = (known, call.key)
            self._add(call, fragment)
        # Case: chat/t8_arguments_as_object.
        if delta.function is not None and isinstance(delta.function.arguments, dict):
            self._assembler.loss("args_as_object", f"call {call.key}")

    @property
    def takes_args(self) -> bool:
        """Arguments can just be added to the last call."""
        return self._assembler.takes_args(self._hot[1])

    def is_last(self, index: int) -> bool:
        """Return whether the last call has this index in the stream."""
        return index == self._hot[0]

    def add_more(self, text: str) -> None:
        """Add to the arguments of the last call."""
        self._assembler.args(self._hot[1], text)

    def _add(self, call: _Call, fragment: str) -> None:
        fragment = self._join(call.key, fragment)
        if call.opened and not call.search:
            self._assembler.args(call.key, fragment)
            return
        # Arguments before the name.  Case: chat/a7_name_comes_late.
        call.held.append(fragment)
        self._held_size += len(fragment)
        if self._held_size > self._limits.max_waiting_bytes:
            raise TooLargeError("max_waiting_bytes", self._limits.max_waiting_bytes)

    # --- routing --------------------------------------------------------------------------------

    def _route(self, call_id: str, index: int | None, name: str, fragment: str) -> _Call:
        if call_id:
            return self._route_by_id(call_id, index, name, fragment)
        known = self._by_index.get(index) if index is not None else self._last
        if known is None:
            return self._route_unknown(index, name)
        if name:
            return self._new() if self._begins_another(known, name, fragment) else known
        if known.again and fragment.strip():
            fresh = self._new()
            fresh.name = known.name
            known.again = False
            return fresh
        return known

    def _route_by_id(self, call_id: str, index: int | None, name: str, fragment: str) -> _Call:
        known = self._by_id.get(call_id)
        if known is None:
            unnamed = self._by_index.get(index) if index is not None else self._last
            if unnamed is None or unnamed.id or self._begins_another(unnamed, name, fragment):
                return self._new(call_id)
            # The id comes late: the call began without one.
            if not unnamed.opened:
                unnamed.id = call_id
            self._by_id[call_id] = unnamed
            return unnamed
        same = not name or name == known.name or not known.opened
        if index is None or index in self._by_index:
            return known if same or not self._is_whole(known) else self._duplicate(call_id)
        # A known id on a new index: the rest of that call, or a second call with the same id.
        if not name or (same and not self._is_whole(known)):
            return known
        # Case: chat/t7_duplicate_ids.
        return self._duplicate(call_id)

    def _route_unknown(self, index: int | None, name: str) -> _Call:
        """Route a delta without an id whose index is new."""
        last = self._last
        if not name and last is not None and index is not None and not self._is_whole(last):
            # Case: chat/b1_head_and_tail_with_different_indexes.
            return last  # the rest of the last call, under another index
        return self._new()

    def _begins_another(self, known: _Call, name: str, fragment: str) -> bool:
        """Return whether a name, without a known id, on a known place begins another call."""
        if not name:
            return False
        if not known.opened:
            # A piece of the name; but two declared names in a row are two calls without arguments.
            # Case: chat/t5_declared_name_begins_another.
            return name != known.name and known.name in self._tools and name in self._tools
        if not self._is_whole(known):
            return name != known.name
        if name == known.name and not fragment:
            known.again = True
            return False
        return True

    @property
    def _last(self) -> _Call | None:
        return self._calls[-1] if self._calls else None

    def _new(self, call_id: str = "") -> _Call:
        last = self._last
        if last is not None and last.name:
            self._open(last)
            # Case: chat/t16_custom_call.
            if last.custom:
                self._assembler.end_call(last.key)  # free text does not show where it ends
        call = _Call(len(self._calls), call_id)
        self._calls.append(call)
        self._unopened += 1
        if call_id:
            self._by_id[call_id] = call
        return call

    def _note_misnumbered(self, call: _Call, index: int | None) -> None:
        """Report once that the peer's indexes do not distinguish its calls: they are written with other indexes."""
        if not self._misnumbered:
            self._misnumbered = True
            given = "none" if index is None else str(index)
            self._assembler.loss("block_index_fixed", f"call {call.key}", f"its index is {given}")

    def _duplicate(self, call_id: str) -> _Call:
        self._assembler.loss("call_id_duplicate", f"call {call_id}")
        return self._new(call_id)

    def _is_whole(self, call: _Call) -> bool:
        if call.search:
            return _is_json("".join(call.held))
        return call.opened and self._assembler.call_is_whole(call.key)

    def end_searches(self, reason: FinishReason | None) -> FinishReason | None:
        """Emit the calls of Moonshot's search, and return the finish reason of the answer.

        The search runs when the call comes back with its arguments as they are: an answer of such calls alone
        is paused.  Calls of the client's tools go to the client; the last of them keeps the calls of the search,
        which return to Moonshot with its result.
        """
        called = reason is FinishReason.TOOL_CALLS
        alone = called and len(self.searches) == len(self._calls)
        sent = [
            SearchCall(call.id, function=SearchFunction(arguments="".join(call.held)))
            for call in self.searches
        ]
        kept = called and not alone and self._keep_searches(sent)
        for call in sent:
            self._assembler.server_call(
                ServerCall(ServerKind.WEB_SEARCH),
                call_id=call.id,
                vendor="" if kept else "kimi",
                raw=Raw(b"null") if kept else Raw(msgspec.json.encode(call)),
                ran=kept,
            )
        return FinishReason.PAUSE if alone else reason

    def _keep_searches(self, sent: list[SearchCall]) -> bool:
        """Attach the calls of the search to the last call of the client's tools; return whether that is possible."""
        self.open_all()
        last = next((call for call in reversed(self._calls) if not call.search), None)
        if last is None or not last.opened or not self._assembler.takes_opaque(last.key):
            return False
        data = msgspec.json.encode({KIMI_SEARCH: sent}).decode()
        self._assembler.call_opaque(last.key, OpaqueKind.TOOL_SIGNATURE, data)
        return True

    # --- emitting -------------------------------------------------------------------------------

    def _open(self, call: _Call) -> None:
        """Open a call in the assembler, and add what waited for its name."""
        if call.opened:
            return
        call.opened = True
        self._unopened -= 1
        if self._kimi and call.name == KIMI_SEARCH:
            call.search = True
            self.searches.append(call)
            return
        self._assembler.open_call(
            call.key,
            # Case: chat/t6_no_id.
            call_id=call.id or derived_id("call_", self.seed, f"call {call.key}"),
            name=call.name,
            flavor=Flavor.CUSTOM if call.custom else None,
            raw_input=call.custom,
        )
        if call.extra:
            self._assembler.call_opaque(call.key, OpaqueKind.TOOL_SIGNATURE, call.extra)
        for fragment in call.held:
            self._assembler.args(call.key, fragment)
        call.held.clear()


def _echoes(exchange: Exchange) -> bool:
    """Return whether calls of Moonshot's search are sent back here: a client that declares it does that itself."""
    if exchange.profile.chat_search != "kimi":
        return False
    request = exchange.request
    return request is None or all(tool.name != KIMI_SEARCH for tool in request.tools)


def _is_json(text: str) -> bool:
    try:
        decode_any(text)
    except (ValueError, RecursionError):
        return False
    return True


def _name_and_input(delta: CallDelta) -> tuple[str, str]:
    """Return the name and the piece of input that a delta brings."""
    if delta.custom is not None:
        return join_surrogates(delta.custom.name or ""), delta.custom.input or ""
    if delta.function is None:
        return "", ""
    arguments = delta.function.arguments
    # Case: chat/t8_arguments_as_object.
    if isinstance(arguments, dict):
        arguments = encode(arguments).decode()
    return join_surrogates(delta.function.name or ""), arguments or ""


# --- content, reasoning, refusal ------------------------------------------------------------------
# Each character is emitted once, whole, and in the channel it came in, whichever of a server's fields
# has it.  Knows deltas; must not know how a stream ends.

_CHANNELS: Final = ("content", "reasoning", "refusal")


class Channels:
    """The channels of one answer."""

    def __init__(self, assembler: Assembler, *, cumulative: bool) -> None:
        self._assembler = assembler
        self._lost: dict[str, None] = {}  # what was reported as lost already
        self._cumulative = cumulative  # each delta repeats what came before it
        # Text needs more than to be passed on: something waits before it, or it repeats itself.
        self.careful: bool = cumulative
        self.halves: Halves = Halves(lambda: assembler.loss("surrogate_replaced"))
        self._details = Details()
        self._seen: dict[str, int] = {}  # characters so far, of a peer that repeats them
        self.chars: int = 0  # of text so far
        # All of the text, if the sources that it marks are looked for.
        self.kept: list[str] | None = None
        self.text_base: int = 0  # characters before the text block that is open or comes next
        self._refused_at = -1  # `chars` when a refusal was the last content
        self.finished = False  # the finish reason has come
        self.reasoning_field: str = ""  # which field of the server's carried reasoning, if any did

    def keep_text(self) -> None:
        """Keep all text from now on."""
        self.kept = []
        self.careful = True

    @property
    def refused(self) -> bool:
        """The last content was a refusal."""
        return self._refused_at == self.chars

    def lose_once(self, code: str, path: str = "", detail: str = "") -> None:
        """Report a loss, unless the same one was reported before."""
        if code + detail not in self._lost:
            self._lost[code + detail] = None
            self._assembler.loss(code, path, join_surrogates(detail))

    def content(self, content: str | list[ContentPart], logprobs: Logprobs | None) -> None:
        """Read content that is more than a string."""
        records = None if logprobs is None else self.token_records(logprobs, has_text=True)
        if isinstance(content, str):
            self._text(content, records)
            return
        for part in content:
            # Case: chat/r7_content_list_with_thinking.
            if part.type == "thinking" and is_given(part.thinking):
                self._thinking(part.thinking)
            elif part.text is not None and part.type in ("text", "output_text", ""):
                self._text(part.text, records)
                records = None
            elif part.refusal is not None:
                self.refusal(part.refusal)
            else:
                # Case: chat/s18_unknown_parts.
                self.lose_once("part_unknown", "", part.type)

    def reasoning(self, delta: Delta) -> None:
        """Emit the reasoning of a delta once, even if several fields repeat it."""
        readable = []
        self._note_field(delta)
        if is_given(delta.reasoning_details):
            try:
                readable = self._details.add(delta.reasoning_details)
            except MalformedError:
                self.lose_once("part_unknown", "", "reasoning_details")
            self.careful = True
        for text, channel, part in readable:
            self.enter("reasoning")
            fresh = self._fresh("reasoning", text)
            if fresh:
                self._assembler.reasoning(fresh, channel, part)
        # Both fields may repeat the same text.  Case: chat/r3_both_fields.
        if not readable:
            self._think(delta.reasoning_content or delta.reasoning or "")

    def _note_field(self, delta: Delta) -> None:
        """Remember the field to give reasoning back in: the list, which may hold signatures, first."""
        if is_given(delta.reasoning_details):
            self.reasoning_field = "reasoning_details"
        elif not self.reasoning_field:
            if delta.reasoning_content:
                self.reasoning_field = "reasoning_content"
            elif delta.reasoning:
                self.reasoning_field = "reasoning"

    def refusal(self, text: str) -> None:
        self.enter("refusal")
        text = self._fresh("refusal", text)
        if text:
            self._assembler.refusal(text)
            self._refused_at = self.chars

    def token_records(self, logprobs: Logprobs, *, has_text: bool) -> Raw | None:
        """Return the token records for a text delta."""
        records = logprobs.content or ()
        # Case: chat/s20_old_logprobs.
        if is_given(logprobs.tokens) or logprobs.refusal or (records and not has_text):
            self.lose_once("logprobs_dropped")
        if not records or not has_text:
            return None
        return Raw(msgspec.json.encode(records))

    def enter(self, channel: str) -> None:
        """Emit what waits for other channels, because content of `channel` follows."""
        if channel != "content":
            self.text_base = self.chars
            self._refused_at = -1
        # Test: test_s6_content_after_the_finish_reason_is_added_and_reported.
        if self.finished:
            self.lose_once("content_after_finish")
        self._release(channel)

    def end(self) -> None:
        """Emit everything that waited."""
        self._release()
        self.give_up()

    def give_up(self) -> None:
        """Stop waiting for the other halves of characters."""
        self._release_halves()

    def _text(self, text: str, logprobs: Raw | None) -> None:
        self.enter("content")
        text = self._fresh("content", text)
        if text:
            self.chars += len(text)
            self._assembler.text(text, logprobs)
            if self.kept is not None:
                self.kept.append(text)

    def _thinking(self, raw: Raw) -> None:
        """Read the reasoning of a content part: a string, or parts again."""
        try:
            parts = decode(PARTS, bytes(raw))
        except MalformedError:
            self.lose_once("part_unknown", "", "thinking")
            return
        for text in [parts] if isinstance(parts, str) else [part.text or "" for part in parts]:
            self._think(text)

    def _think(self, text: str) -> None:
        if not text:
            return
        self.enter("reasoning")
        text = self._fresh("reasoning", text)
        if text:
            self._assembler.reasoning(text)

    def _fresh(self, channel: str, text: str) -> str:
        """Return the new part of `text`, without half a character at its end."""
        if self._cumulative:
            seen = self._seen.get(channel, 0)
            self._seen[channel] = max(seen, len(text))
            text = text[seen:]
        return self.halves.join(channel, text)

    def _release(self, channel: str = "") -> None:
        """Emit what waited in channels other than `channel`."""
        if self.halves:
            self._release_halves(*(one for one in _CHANNELS if one != channel))
        if self._details and channel != "reasoning":
            self._assembler.opaque(OpaqueKind.DETAILS, self._details.take())

    def _release_halves(self, *channels: str) -> None:
        for channel, text in self.halves.release(*channels):
            match channel:
                case "content":
                    self._assembler.text(text)
                    if self.kept is not None:
                        self.kept.append(text)
                case "reasoning":
                    self._assembler.reasoning(text)
                case "refusal":
                    self._assembler.refusal(text)
                case _ if self._assembler.knows_call(channel):
                    self._assembler.args(channel, text)
