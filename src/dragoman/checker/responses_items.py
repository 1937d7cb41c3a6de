"""The items of a Responses stream, one open at a time: which event may come where inside them."""

from enum import StrEnum
from typing import Final

from msgspec import Struct

from dragoman.checker.findings import (
    TEXT_ID,
    Arguments,
    Digest,
    Findings,
    Json,
    Position,
    UsedIds,
    check_call_id,
    check_fields,
    count_block,
    list_at,
    number_at,
    object_at,
    shown,
    text_at,
)
from dragoman.checker.responses_fields import (
    ADDED,
    CALLS,
    DONE,
    DONE_PARTS,
    ESSENCE,
    IDENTITY,
    PARTS,
)
from dragoman.limits import Limits


class Inside(StrEnum):
    NOTHING = "no item is open"
    MESSAGE = "a message is open"
    TEXT = "a text part is open"
    TEXT_DONE = "a text is done and its part is open"
    REFUSAL = "a refusal part is open"
    REFUSAL_DONE = "a refusal is done and its part is open"
    REASONING = "a reasoning item is open"
    SUMMARY = "a summary part is open"
    SUMMARY_DONE = "a summary is done and its part is open"
    THOUGHT = "a reasoning part is open"
    THOUGHT_DONE = "a reasoning text is done and its part is open"
    BARE_THOUGHT = "a reasoning text is open"  # a separate part is optional for it
    CALL = "a function call is open"
    ARGUMENTS = "arguments are open"
    ARGUMENTS_DONE = "arguments are done and their call is open"
    CUSTOM = "a custom call is open"
    INPUT = "a custom call's input is open"
    INPUT_DONE = "a custom call's input is done and its call is open"
    HOSTED = "a vendor's own item is open"


ITEM: Final[dict[Inside, dict[str, Inside]]] = {
    Inside.NOTHING: {
        "output_item.added/message": Inside.MESSAGE,
        "output_item.added/reasoning": Inside.REASONING,
        "output_item.added/function_call": Inside.CALL,
        "output_item.added/custom_tool_call": Inside.CUSTOM,
        "output_item.added/hosted": Inside.HOSTED,
    },
    Inside.MESSAGE: {
        "content_part.added/output_text": Inside.TEXT,
        "content_part.added/refusal": Inside.REFUSAL,
        "output_item.done": Inside.NOTHING,
    },
    Inside.TEXT: {
        "output_text.delta": Inside.TEXT,
        "output_text.annotation.added": Inside.TEXT,
        "output_text.done": Inside.TEXT_DONE,
    },
    Inside.TEXT_DONE: {"content_part.done": Inside.MESSAGE},
    Inside.REFUSAL: {"refusal.delta": Inside.REFUSAL, "refusal.done": Inside.REFUSAL_DONE},
    Inside.REFUSAL_DONE: {"content_part.done": Inside.MESSAGE},
    Inside.REASONING: {
        "reasoning_summary_part.added": Inside.SUMMARY,
        "content_part.added/reasoning_text": Inside.THOUGHT,
        "reasoning_text.delta": Inside.BARE_THOUGHT,
        "output_item.done": Inside.NOTHING,
    },
    Inside.SUMMARY: {
        "reasoning_summary_text.delta": Inside.SUMMARY,
        "reasoning_summary_text.done": Inside.SUMMARY_DONE,
    },
    Inside.SUMMARY_DONE: {"reasoning_summary_part.done": Inside.REASONING},
    Inside.THOUGHT: {
        "reasoning_text.delta": Inside.THOUGHT,
        "reasoning_text.done": Inside.THOUGHT_DONE,
    },
    Inside.THOUGHT_DONE: {"content_part.done": Inside.REASONING},
    Inside.BARE_THOUGHT: {
        "reasoning_text.delta": Inside.BARE_THOUGHT,
        "reasoning_text.done": Inside.REASONING,
    },
    Inside.CALL: {
        "function_call_arguments.delta": Inside.ARGUMENTS,
        "function_call_arguments.done": Inside.ARGUMENTS_DONE,
        "output_item.done": Inside.NOTHING,
    },
    Inside.ARGUMENTS: {
        "function_call_arguments.delta": Inside.ARGUMENTS,
        "function_call_arguments.done": Inside.ARGUMENTS_DONE,
    },
    Inside.ARGUMENTS_DONE: {"output_item.done": Inside.NOTHING},
    Inside.CUSTOM: {
        "custom_tool_call_input.delta": Inside.INPUT,
        "custom_tool_call_input.done": Inside.INPUT_DONE,
        "output_item.done": Inside.NOTHING,
    },
    Inside.INPUT: {
        "custom_tool_call_input.delta": Inside.INPUT,
        "custom_tool_call_input.done": Inside.INPUT_DONE,
    },
    Inside.INPUT_DONE: {"output_item.done": Inside.NOTHING},
    Inside.HOSTED: {"hosted": Inside.HOSTED, "output_item.done": Inside.NOTHING},
}
# The state in which the checker continues after a misplaced event; other events change nothing.
RESUME_INSIDE: Final[dict[str, Inside]] = {
    "content_part.added/output_text": Inside.TEXT,
    "content_part.added/refusal": Inside.REFUSAL,
    "content_part.added/reasoning_text": Inside.THOUGHT,
    "reasoning_summary_part.added": Inside.SUMMARY,
    "output_item.done": Inside.NOTHING,
}

# Where a `done` event has the text that its deltas gave.
DONE_TEXT: Final[dict[str, str]] = {
    "output_text.done": "text",
    "refusal.done": "refusal",
    "reasoning_summary_text.done": "text",
    "reasoning_text.done": "text",
    "function_call_arguments.done": "arguments",
    "custom_tool_call_input.done": "input",
}
_PART_DONE: Final = frozenset({"content_part.done", "reasoning_summary_part.done"})


class OpenItem:
    """The item that is open: what it was added as, and what its deltas said."""

    def __init__(self, kind: str, item: Json, index: int | None, limits: Limits) -> None:
        self.kind = kind  # a key of `ADDED`
        self.identity: dict[str, object] = {key: item.get(key) for key in IDENTITY}
        self.index = index
        self.arguments: Arguments = Arguments(limits)
        self.text: Digest = Digest()  # of the open part, or of the call
        self.part: int | None = None  # index of the open part
        self.parts: dict[str, list[bytes]] = {"content": [], "summary": []}  # digests of done parts


class Cut(Struct, frozen=True):
    """A call that was done although its arguments are not whole."""

    where: Position
    reported: bool  # the status of the item is incomplete


class ItemGrammar:
    """Judge the items of one stream."""

    def __init__(self, findings: Findings, limits: Limits, /) -> None:
        self.blocks: int = 0
        self.calls: int = 0
        self.inside: Inside = Inside.NOTHING
        self._findings = findings
        self._limits = limits
        self._next_index = 0
        self._item: OpenItem | None = None
        self._done: list[bytes] = []  # what each done item says, as a digest
        self._item_ids = UsedIds("item-id-once", "item")
        self._call_ids = UsedIds("call-id-once", "call")
        self._cut: list[Cut] = []  # calls done half

    @property
    def open(self) -> bool:
        return self._item is not None

    def read(self, symbol: str, kind: str, event: Json) -> None:
        """Judge one event, by its key in the table of demands and its type."""
        if symbol == "output_item.added":
            self._add_item(event)
            return
        step = symbol
        if symbol == "content_part.added":
            step = f"{symbol}/{text_at(event, 'part.type')}"
        before = self.inside
        if not self._step_inside(step, kind) or self._item is None:
            return
        if symbol == "output_item.done":
            self._finish_item(self._item, event)
            return
        self._check_open(self._item, symbol, kind, event)
        if symbol.endswith("part.added") or (
            before is Inside.REASONING and self.inside is Inside.BARE_THOUGHT
        ):
            self._open_part(self._item, event)
        elif symbol != "hosted":
            self._check_part(self._item, event)
        if symbol.endswith(".delta") and symbol != "hosted":
            self._read_delta(self._item, symbol, text_at(event, "delta"))
        elif symbol in DONE_TEXT:
            self._finish_text(self._item, symbol, event)
        elif symbol in _PART_DONE:
            part = object_at(event, "part")
            self._check_done_part(part, "$.part")
            self._compare(self._item.text, _text_of(part), "$.part")

    def cut_open_input(self, output: list[object]) -> None:
        """End an open custom call whose item in the output is incomplete: its input has no `done` event."""
        item = self._item
        if item is None or item.kind != "custom_tool_call":
            return
        last = output[-1] if output else None
        if not isinstance(last, dict) or text_at(last, "status") != "incomplete":
            return
        self._item = None
        self.inside = Inside.NOTHING
        self._compare(item.text, text_at(last, "input"), "$.response.output")
        self._done.append(_essence(last))

    def check_output(self, output: list[object]) -> None:
        """Compare the output of the terminal event with the items that were done."""
        written = [_essence(item) if isinstance(item, dict) else b"" for item in output]
        if written == self._done:
            return
        path = "$.response.output"
        if len(written) != len(self._done):
            reason = f"the output has {len(written)} items where {len(self._done)} were done"
        else:
            pairs = enumerate(zip(written, self._done, strict=True))
            at = next(index for index, (one, other) in pairs if one != other)
            path = f"{path}[{at}]"
            reason = f"item {at} of the output is not the one that was done"
        self._findings.add("output-equals-items", reason, path)

    def judge_cut_calls(self, *, completed: bool) -> None:
        """Report calls with incomplete arguments, unless both they and the response are marked incomplete."""
        for cut in self._cut:
            if completed or not cut.reported:
                reason = "the call is done although its arguments are not a whole object"
                self._findings.add("arguments-whole", reason, "$.item.arguments", at=cut.where)
        self._cut.clear()

    def _step_inside(self, step: str, kind: str) -> bool:
        """Follow the item's table; return whether the event is worth a closer look."""
        following = ITEM[self.inside].get(step)
        if following is None:
            reason = f"{shown(kind)} is not allowed while {self.inside}"
            if step.startswith("output_item.added") and self._item is not None:
                self._findings.add("one-item-open", reason)
            else:
                self._findings.add("event-order", reason)
            following = RESUME_INSIDE.get(step)
            if following is None or (self._item is None and following is not Inside.NOTHING):
                return step.startswith("output_item.added")
        self.inside = following
        return True

    def _add_item(self, event: Json) -> None:
        item = object_at(event, "item")
        kind = text_at(item, "type")
        # Vendors add types of items, and clients ignore those they do not know.
        group = kind if kind in ADDED else "hosted"
        step = f"output_item.added/{group}"
        self._step_inside(step, "response.output_item.added")
        self.inside = ITEM[Inside.NOTHING][step]
        self.blocks = count_block(self.blocks, self._limits)
        index = number_at(event, "output_index")
        if index is not None and index != self._next_index:
            reason = f"item {index} is added where {self._next_index} is next"
            self._findings.add("output-index-contiguous", reason, "$.output_index")
        self._next_index = (self._next_index if index is None else index) + 1
        check_fields(ADDED[group], item, self._findings, root="$.item")
        self._item = OpenItem(group, item, index, self._limits)
        self._check_new_ids(item, kind)

    def _check_new_ids(self, item: Json, kind: str) -> None:
        self._item_ids.add(text_at(item, "id"), self._findings, "$.item.id")
        if kind not in CALLS:
            return
        self.calls += 1
        call_id = text_at(item, "call_id")
        check_call_id(call_id, self._findings, "$.item.call_id", TEXT_ID)
        self._call_ids.add(call_id, self._findings, "$.item.call_id")

    def _check_open(self, item: OpenItem, symbol: str, kind: str, event: Json) -> None:
        """Note an event that names another item than the open one, by index or by id."""
        self._check_index(item, event)
        item_id = text_at(event, "item_id")
        if item_id and item_id != item.identity["id"]:
            reason = f"item {shown(item_id)} is not open, {shown(item.identity['id'])} is"
            self._findings.add("item-open", reason, "$.item_id")
        if symbol == "hosted" and not kind.startswith(f"response.{item.identity['type']}"):
            reason = f"{shown(kind)} does not belong to a {shown(item.identity['type'])} item"
            self._findings.add("item-open", reason, "$.type")

    def _check_index(self, item: OpenItem, event: Json) -> None:
        index = number_at(event, "output_index")
        if index is not None and item.index is not None and index != item.index:
            reason = f"item {index} is not open, {item.index} is"
            self._findings.add("item-open", reason, "$.output_index")

    def _open_part(self, item: OpenItem, event: Json) -> None:
        key = "summary" if self.inside is Inside.SUMMARY else "content"
        due = len(item.parts[key])
        count_block(due, self._limits)
        index = number_at(event, f"{key}_index")
        if index is not None and index != due:
            reason = f"part {index} is added where {due} is next"
            self._findings.add("part-index-contiguous", reason, f"$.{key}_index")
        item.part = index
        item.text = Digest()
        part = object_at(event, "part")
        fields = PARTS.get(text_at(part, "type"), ())
        check_fields(fields, part, self._findings, root="$.part")

    def _check_part(self, item: OpenItem, event: Json) -> None:
        for key in ("content_index", "summary_index"):
            index = number_at(event, key)
            if index is not None and item.part is not None and index != item.part:
                reason = f"part {index} is not open, {item.part} is"
                self._findings.add("item-open", reason, f"$.{key}")

    def _read_delta(self, item: OpenItem, symbol: str, delta: str) -> None:
        item.text.feed(delta)
        if symbol == "function_call_arguments.delta":
            item.arguments.feed(delta, self._findings, "$.delta")

    def _finish_text(self, item: OpenItem, symbol: str, event: Json) -> None:
        key = DONE_TEXT[symbol]
        self._compare(item.text, text_at(event, key), f"$.{key}")
        if symbol.startswith("reasoning_summary"):
            item.parts["summary"].append(item.text.value)
        elif item.kind in ("message", "reasoning"):
            item.parts["content"].append(item.text.value)

    def _compare(self, text: Digest, written: str, path: str) -> None:
        if not text.matches(written):
            reason = f"{shown(written)} differs from its deltas"
            self._findings.add("done-equals-deltas", reason, path)

    def _finish_item(self, item: OpenItem, event: Json) -> None:
        self._item = None
        done = object_at(event, "item")
        self._check_index(item, event)
        check_fields(DONE[item.kind], done, self._findings, root="$.item")
        for key, value in item.identity.items():
            if key in done and done[key] != value:
                reason = f"`{key}` was {shown(value)} and is {shown(done[key])} now"
                self._findings.add("item-done-matches-added", reason, f"$.item.{key}")
        self._done.append(_essence(done))
        match item.kind:
            case "function_call":
                self._finish_call(item, done)
            case "custom_tool_call":
                self._compare(item.text, text_at(done, "input"), "$.item.input")
            case "message" | "reasoning":
                self._compare_parts(item, done)
            case _:
                pass

    def _finish_call(self, item: OpenItem, done: Json) -> None:
        arguments = text_at(done, "arguments")
        self._compare(item.text, arguments, "$.item.arguments")
        if item.arguments.empty:
            item.arguments.feed(arguments, self._findings, "$.item.arguments")
        if not (item.arguments.broken or item.arguments.whole):
            reported = text_at(done, "status") == "incomplete"
            self._cut.append(Cut(self._findings.here, reported))

    def _compare_parts(self, item: OpenItem, done: Json) -> None:
        for key, digests in item.parts.items():
            parts = [part for part in list_at(done, key) if isinstance(part, dict)]
            for at, part in enumerate(parts):
                self._check_done_part(part, f"$.item.{key}[{at}]")
            if digests != [Digest(_text_of(part)).value for part in parts]:
                reason = f"`{key}` of the done item differs from its deltas"
                self._findings.add("done-equals-deltas", reason, f"$.item.{key}")

    def _check_done_part(self, part: Json, path: str) -> None:
        kind = text_at(part, "type")
        if kind not in DONE_PARTS:
            reason = f"there is no part of type {shown(part.get('type'))}"
            self._findings.add("required-field", reason, f"{path}.type")
            return
        check_fields(DONE_PARTS[kind], part, self._findings, root=path)


def _text_of(part: Json) -> str:
    return text_at(part, "text") or text_at(part, "refusal")


def _essence(item: Json) -> bytes:
    """Return a digest of what an item says; details that clients do not read are left out."""
    written: list[object] = [item.get(key) for key in ESSENCE]
    for key in ("content", "summary"):
        parts = [part for part in list_at(item, key) if isinstance(part, dict)]
        written.append([(part.get("type"), _text_of(part)) for part in parts])
    return Digest(repr(written)).value
