"""Which call a tool-call delta belongs to.

In the dialect a delta names its call by `index`, and the first one brings id and name.  Compatible
servers leave the index out, use 0 for every call, repeat id and name on each delta, send the name in
pieces, or late.  The rule: a new id makes a new call; a name after whole arguments makes a new call; the
index decides otherwise; and evidence that contradicts itself makes a new call rather than a mixture.
"""

from collections.abc import Callable
from typing import Final

import msgspec

from dragoman.dialects.chat.schema import CallDelta, FunctionDelta, is_given
from dragoman.dialects.surrogates import mended
from dragoman.errors import TooLarge
from dragoman.exchange import Exchange
from dragoman.ids import derived_id
from dragoman.turn.assembly import Assembler
from dragoman.turn.events import Flavor, OpaqueKind

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
        self.extra = ""  # vendor state that was last told
        self.again = False  # its name came once more after whole arguments, without any of its own


class Calls:
    """The calls of one answer."""

    def __init__(
        self, exchange: Exchange, assembler: Assembler, join: Callable[[object, str], str]
    ) -> None:
        self._assembler = assembler
        self._tools = exchange.tools
        self._limits = exchange.limits
        self._join = join  # mends what was cut inside a character; told the call's key
        self.seed = exchange.seed
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self._unopened = 0
        self._held_size = 0
        self._misnumbered = False  # it was said that the peer numbers its calls wrongly

    @property
    def pending(self) -> bool:
        """A call has begun that the assembler has not been told of."""
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
            if index is None and several:
                index = position
            self._take(delta, index)

    def read_legacy(self, delta: FunctionDelta) -> None:
        """Take a `function_call`."""
        self._take(CallDelta(function=delta), _LEGACY)

    def open_all(self) -> bool:
        """Open what waited for more of its name; say whether every call got one."""
        for call in self._calls:
            if call.name:
                self._open(call)
        return not self.pending

    def _take(self, delta: CallDelta, index: int | None) -> None:
        name, fragment = _name_and_input(delta)
        call_id = "" if delta.id is None else mended(str(delta.id))
        extra = bytes(delta.extra_content).decode() if is_given(delta.extra_content) else ""
        if not (name or fragment or call_id or extra):
            return
        call = self._route(call_id, index, name, fragment)
        if delta.custom is not None:
            call.custom = True
        if index is not None:
            self._by_index[index] = call
        if (index or 0) != call.key and index != _LEGACY:
            self._note_misnumbered(call, index)
        if name and not call.opened and name != call.name:
            call.name += name
            if len(call.name) > self._limits.max_tool_name_chars:
                raise TooLarge("max_tool_name_chars", self._limits.max_tool_name_chars)
        if call.name and (fragment or self._tools.settles(call.name)):
            self._open(call)
        if extra and extra != call.extra:
            call.extra = extra
            if call.opened:
                self._assembler.call_opaque(call.key, OpaqueKind.TOOL_SIGNATURE, extra)
        if fragment:
            self._add(call, fragment)
        if delta.function is not None and isinstance(delta.function.arguments, dict):
            self._assembler.loss("args_as_object", f"call {call.key}")

    def _add(self, call: _Call, fragment: str) -> None:
        fragment = self._join(call.key, fragment)
        if call.opened:
            self._assembler.args(call.key, fragment)
            return
        call.held.append(fragment)
        self._held_size += len(fragment)
        if self._held_size > self._limits.max_waiting_bytes:
            raise TooLarge("max_waiting_bytes", self._limits.max_waiting_bytes)

    # --- routing --------------------------------------------------------------------------------

    def _route(self, call_id: str, index: int | None, name: str, fragment: str) -> _Call:
        if call_id:
            return self._route_by_id(call_id, index, name, fragment)
        known = self._by_index.get(index) if index is not None else self._last
        if known is None:
            return self._route_unknown(index, name)
        if name:
            return self._new() if self._begins_anew(known, name, fragment) else known
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
            if unnamed is None or unnamed.id or self._begins_anew(unnamed, name, fragment):
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
        return self._duplicate(call_id)

    def _route_unknown(self, index: int | None, name: str) -> _Call:
        """Route a delta without an id whose index is new."""
        last = self._last
        if not name and last is not None and index is not None and not self._is_whole(last):
            return last  # the rest of the last call, under another index
        return self._new()

    def _begins_anew(self, known: _Call, name: str, fragment: str) -> bool:
        """Say whether a name, without a known id, on a known place begins another call."""
        if not name:
            return False
        if not known.opened:
            # A piece of the name; but two declared names in a row are two calls without arguments.
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
            if last.custom:
                self._assembler.end_call(last.key)  # free text does not tell where it ends
        call = _Call(len(self._calls), call_id)
        self._calls.append(call)
        self._unopened += 1
        if call_id:
            self._by_id[call_id] = call
        return call

    def _note_misnumbered(self, call: _Call, index: int | None) -> None:
        """Say once that a client which goes by the peer's numbers would mix calls up."""
        if not self._misnumbered:
            self._misnumbered = True
            given = "none" if index is None else str(index)
            self._assembler.loss("block_index_fixed", f"call {call.key}", f"its index is {given}")

    def _duplicate(self, call_id: str) -> _Call:
        self._assembler.loss("call_id_duplicate", f"call {call_id}")
        return self._new(call_id)

    def _is_whole(self, call: _Call) -> bool:
        return call.opened and self._assembler.call_is_whole(call.key)

    # --- telling --------------------------------------------------------------------------------

    def _open(self, call: _Call) -> None:
        """Tell the assembler of a call, and what waited for its name."""
        if call.opened:
            return
        call.opened = True
        self._unopened -= 1
        self._assembler.open_call(
            call.key,
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


def _name_and_input(delta: CallDelta) -> tuple[str, str]:
    """Return the name and the piece of input that a delta brings."""
    if delta.custom is not None:
        return mended(delta.custom.name or ""), delta.custom.input or ""
    if delta.function is None:
        return "", ""
    arguments = delta.function.arguments
    if isinstance(arguments, dict):
        arguments = msgspec.json.encode(arguments).decode()
    return mended(delta.function.name or ""), arguments or ""
