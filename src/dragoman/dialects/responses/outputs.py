"""Items of an answer while they stream: which event belongs to which, and what was given of them."""

from collections.abc import Callable, Iterator
from typing import Final

from dragoman.dialects.responses.events import OutputItem, PartEvent, UsageObject
from dragoman.turn.events import Usage

_CALLS: Final = frozenset({"function_call", "custom_tool_call"})


class Item:
    """One item, from its first word to its last."""

    def __init__(self, key: int, kind: str) -> None:
        self.key = key  # its number in the order of arrival
        self.type = kind
        self.id = ""
        self.call_id = ""
        self.given: set[tuple[str, int]] = set()  # which parts of it were told
        self.opened = False  # a call: told to the assembler
        self.held: list[str] = []  # a call without a name yet: its arguments
        self.done = False  # told in full
        self.claimed = False  # found in the finished response


class Items:
    """All items of one answer, found by id, call id or index, whichever their peer keeps to."""

    def __init__(self) -> None:
        self._all: list[Item] = []
        self._by_id: dict[str, Item] = {}
        self._by_call_id: dict[str, Item] = {}
        self._by_index: dict[int, Item] = {}
        self._last: Item | None = None

    def __iter__(self) -> Iterator[Item]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def of(self, event: PartEvent, kind: str) -> Item:
        """Return the item of an event about a part of it; one never announced is begun."""
        item_id, index = event.item_id, event.output_index
        item = self._by_id.get(item_id) if item_id else None
        if item is None and index is not None:
            # Some peers give each event of an item another id.
            item = self._by_index.get(index)
        if item is None and item_id is None and index is None:
            item = self._last
        if item is None or item.type not in (kind, ""):
            item = self._begin(kind, item_id or "", "", index)
        return item

    def added(self, out: OutputItem, index: int | None) -> Item:
        """Return the item that is announced."""
        item = self._known(out, lambda one: one.done)
        if item is None:
            item = self._begin(out.type, out.id or "", out.call_id or "", index)
        return item

    def done(self, out: OutputItem, index: int | None) -> Item:
        """Return the item that an event tells whole."""
        item = self._known(out, lambda one: one.done) or self._at(out, index)
        if item is None and (not out.id or index is None):
            item = self._unnamed(out, [one for one in self._all if not one.done])
        return item or self._begin(out.type, out.id or "", out.call_id or "", index)

    def final(self, out: OutputItem, index: int) -> Item:
        """Return the item that stands at `index` of the finished response."""
        item = self._known(out, lambda one: one.claimed) or self._at(out, index)
        if item is None:
            item = self._unnamed(out, [one for one in self._all if not one.claimed])
        item = item or self._begin(out.type, out.id or "", out.call_id or "", index)
        item.claimed = True
        return item

    def _at(self, out: OutputItem, index: int | None) -> Item | None:
        item = None if index is None else self._by_index.get(index)
        return item if item is not None and _same(item, out) else None

    def _unnamed(self, out: OutputItem, items: list[Item]) -> Item | None:
        """Return the first of these that may be `out`, for peers without ids or indexes."""
        for item in items:
            if _same(item, out) and not (item.id and out.id):
                return item
        return None

    def _known(self, out: OutputItem, told: Callable[[Item], bool]) -> Item | None:
        """Return the item of the same id, or of the same call: some peers give each event another id.

        A call that was `told` and comes under another id is another call, whose peer numbers badly.
        """
        item = self._by_id.get(out.id) if out.id else None
        if item is not None and _same(item, out):
            return item
        item = self._by_call_id.get(out.call_id) if out.call_id and out.type in _CALLS else None
        if item is None or not _same(item, out) or (told(item) and item.id and out.id):
            return None
        return item

    def _begin(self, kind: str, item_id: str, call_id: str, index: int | None) -> Item:
        item = Item(len(self._all), kind)
        item.id = item_id
        item.call_id = call_id
        self._all.append(item)
        self._last = item
        if item_id:
            self._by_id[item_id] = item
        if call_id:
            self._by_call_id[call_id] = item
        if index is not None:
            self._by_index[index] = item
        return item


def _same(item: Item, out: OutputItem) -> bool:
    """Say whether an item told whole can be the one that is known."""
    if out.type and out.type != item.type:
        return False
    return not (item.call_id and out.call_id and item.call_id != out.call_id)


def usage_of(usage: UsageObject) -> Usage:
    """Return the counts: cached input is part of `input_tokens` here and not in the turn."""
    into, out = usage.input_tokens_details, usage.output_tokens_details
    cached = (into.cached_tokens if into else 0) or 0
    written = (into.cache_write_tokens if into else 0) or 0
    details = into.cache_write_tokens_details if into else None
    long = min(written, (details.ttl_12h_tokens if details else 0) or 0)
    reasoning = (out.reasoning_tokens if out else 0) or 0
    prompt, output = usage.input_tokens or 0, usage.output_tokens or 0
    if reasoning and (usage.total_tokens or 0) == prompt + output + reasoning:
        output += reasoning  # a peer that counts reasoning beside the output
    return Usage(
        input=max(0, prompt - cached - written),
        output=output,
        cache_read=cached,
        cache_write_5m=written - long,
        cache_write_1h=long,
        reasoning=reasoning,
    )
