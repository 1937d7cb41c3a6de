"""Decides which block of the answer each part of a Responses stream belongs to."""

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from operator import attrgetter
from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.cost import read_cost
from dragoman.dialects.decoding import decode_or_none
from dragoman.dialects.encoding import encode, utf8
from dragoman.dialects.framing import nameless_call
from dragoman.dialects.responses.schema import (
    ANNOTATION,
    HOSTED_ITEM,
    HOSTED_ITEMS,
    HostedAction,
    HostedItem,
    OutputItem,
    Part,
    PartEvent,
    TextDeltaEvent,
    UsageObject,
)
from dragoman.dialects.responses.tools_reader import NAME_BY_CALL, SHELLS, arguments_of
from dragoman.turn.assembler import Assembler
from dragoman.turn.events import (
    BlockKind,
    Channel,
    Citation,
    Flavor,
    OpaqueKind,
    Usage,
)
from dragoman.turn.server_tools import (
    UNAVAILABLE,
    MadeImage,
    ServerCall,
    ServerKind,
    ServerResult,
    SourceRef,
)
from dragoman.turn.tools import ToolTable, wire_name
from dragoman.wire.surrogates import Halves, join_surrogates

# --- items that are open --------------------------------------------------------------------------

_CALLS: Final = frozenset({"function_call", "custom_tool_call"})
_MOST_UNNAMED: Final = (
    64  # items that are searched for one without an id: real peers have one open at a time
)


class StreamItem:
    """The state of one item of the answer, from its first event to the finished response."""

    def __init__(self, key: int, kind: str) -> None:
        self.key = key  # its number in the order of arrival
        self.type = kind
        self.id = ""
        self.call_id = ""
        self.given: set[tuple[str, int]] = set()  # which parts of it were emitted
        self.opened = False  # a call: the assembler knows it
        self.held: list[str] = []  # a call without a name yet: its arguments
        self.done = False  # emitted in full
        self.claimed = False  # found in the finished response


class Items:
    """All items of one answer, found by id, call id or index: peers differ in which of these they keep constant."""

    def __init__(self) -> None:
        self._all: list[StreamItem] = []
        self._by_id: dict[str, StreamItem] = {}
        self._by_call_id: dict[str, StreamItem] = {}
        self._by_index: dict[int, StreamItem] = {}
        self._last: StreamItem | None = None
        # In the order of arrival; those that are done, or claimed, leave when they are the first.
        self._not_done: deque[StreamItem] = deque()
        self._not_claimed: deque[StreamItem] = deque()

    def __iter__(self) -> Iterator[StreamItem]:
        return iter(self._all)

    def __len__(self) -> int:
        return len(self._all)

    def of(self, event: PartEvent, kind: str) -> StreamItem:
        """Return the item of an event about a part of it; one never announced is begun."""
        item_id, index = event.item_id, event.output_index
        item = self._by_id.get(item_id) if item_id else None
        if item is None and index is not None:
            # Some peers give each event of an item another id.
            item = self._by_index.get(index)
        if item is None and item_id is None and index is None:
            item = self._last
        # Cases: responses/b7_text_without_item, responses/b7_arguments_without_item.
        if item is None or item.type not in (kind, ""):
            item = self._begin(kind, item_id or "", "", index)
        return item

    def added(self, out: OutputItem, index: int | None) -> StreamItem:
        """Return the item that is announced."""
        item = self._known(out, _is_done)
        if item is None:
            item = self._begin(out.type, out.id or "", out.call_id or "", index)
        return item

    def done(self, out: OutputItem, index: int | None) -> StreamItem:
        """Return the item that an event contains whole."""
        item = self._known(out, _is_done) or self._at(out, index)
        if item is None and (not out.id or index is None):
            item = _unnamed(out, self._not_done, _is_done)
        return item or self._begin(out.type, out.id or "", out.call_id or "", index)

    def final(self, out: OutputItem, index: int) -> StreamItem:
        """Return the item at `index` of the finished response."""
        item = self._known(out, _is_claimed) or self._at(out, index)
        if item is None:
            item = _unnamed(out, self._not_claimed, _is_claimed)
        item = item or self._begin(out.type, out.id or "", out.call_id or "", index)
        item.claimed = True
        return item

    def _at(self, out: OutputItem, index: int | None) -> StreamItem | None:
        item = None if index is None else self._by_index.get(index)
        return item if item is not None and _same(item, out) else None

    def _known(self, out: OutputItem, taken: Callable[[StreamItem], bool]) -> StreamItem | None:
        """Return the item of the same id, or of the same call: some peers give each event another id.

        A call that is `taken` and comes under another id is another call: its peer reuses call ids.
        """
        item = self._by_id.get(out.id) if out.id else None
        if item is not None and _same(item, out):
            return item
        item = self._by_call_id.get(out.call_id) if out.call_id and out.type in _CALLS else None
        if item is None or not _same(item, out) or (taken(item) and item.id and out.id):
            return None
        return item

    def _begin(self, kind: str, item_id: str, call_id: str, index: int | None) -> StreamItem:
        item = StreamItem(len(self._all), kind)
        item.id = item_id
        item.call_id = call_id
        for items in (self._all, self._not_done, self._not_claimed):
            items.append(item)
        self._last = item
        if item_id:
            self._by_id[item_id] = item
        if call_id:
            self._by_call_id[call_id] = item
        if index is not None:
            self._by_index[index] = item
        return item


_is_done: Final = attrgetter("done")
_is_claimed: Final = attrgetter("claimed")


def _unnamed(
    out: OutputItem, items: deque[StreamItem], taken: Callable[[StreamItem], bool]
) -> StreamItem | None:
    """Return the first item that is not taken and may be `out`, for peers without ids or indexes."""
    while items and taken(items[0]):
        items.popleft()
    for item in islice(items, _MOST_UNNAMED):
        if not taken(item) and _same(item, out) and not (item.id and out.id):
            return item
    return None


def _same(item: StreamItem, out: OutputItem) -> bool:
    """Return whether a complete item can be the one that is known."""
    if out.type and out.type != item.type:
        return False
    return not (item.call_id and out.call_id and item.call_id != out.call_id)


def usage_of(usage: UsageObject) -> Usage:
    """Return the counts: cached input is part of `input_tokens` here and not in the turn."""
    into, out = usage.input_tokens_details, usage.output_tokens_details
    ran = usage.server_side_tool_usage_details
    cached = (into.cached_tokens if into else 0) or 0
    written = (into.cache_write_tokens if into else 0) or 0
    details = into.cache_write_tokens_details if into else None
    long = min(written, (details.ttl_12h_tokens if details else 0) or 0)
    reasoning = (out.reasoning_tokens if out else 0) or 0
    prompt, output = usage.input_tokens or 0, usage.output_tokens or 0
    # Test: test_reasoning_counted_beside_the_output_is_added.
    if reasoning and (usage.total_tokens or 0) == prompt + output + reasoning:
        output += reasoning  # a peer that counts reasoning beside the output
    return Usage(
        input_tokens=max(0, prompt - cached - written),
        output_tokens=output,
        cache_read_tokens=cached,
        cache_write_5m_tokens=written - long,
        cache_write_1h_tokens=long,
        reasoning_tokens=reasoning,
        cost=read_cost(usage.cost, usage.cost_in_usd_ticks),
        searches=(ran.web_search_calls if ran else 0) or 0,
        code_runs=(ran.code_interpreter_calls if ran else 0) or 0,
        mcp_calls=(ran.mcp_calls if ran else 0) or 0,
    )


# --- items to events ------------------------------------------------------------------------------
# Repeated content counts once: text and arguments are taken from the first place that has them, of the
# deltas, the `.done` events, the finished item and the finished response.  Peers leave out any of these.

_VENDOR: Final = "openai"


class Pieces:
    """Read the items of one answer, piece by piece or whole."""

    def __init__(self, assembler: Assembler, tools: ToolTable) -> None:
        self.assembler = assembler
        self.items: Items = Items()
        self.halves: Halves = Halves(lambda: assembler.loss("surrogate_replaced"))
        self.nameless: int = 0  # calls whose arguments wait for the name
        self._tools = tools
        self.hot: TextDeltaEvent | None = None  # an event of the text part that is in focus
        self._focus: tuple[object, ...] = ()  # which part the open text or reasoning block holds
        self._has_text = False  # there was text
        self._refusing = False  # the last content was a refusal
        # Searches by the keys of their items: the id of the call, and the addresses it found if the item has them.
        self._searches: dict[object, tuple[str, set[str] | None]] = {}

    @property
    def only_refused(self) -> bool:
        """The answer is a refusal and nothing else."""
        return self._refusing and not self._has_text and not self.assembler.has_calls

    def finish(self, item: StreamItem, out: OutputItem, raw: Raw) -> None:
        """Add the content of a finished item that its events did not contain."""
        item.done = True
        kind = out.type or item.type
        match kind:
            case "message":
                for index, part in enumerate(out.content or ()):
                    self.message_part(item, index, part)
                self.split()
            case "reasoning":
                self._finish_reasoning(item, out)
            case "function_call" | "custom_tool_call":
                self._finish_call(item, out)
            case "local_shell_call" | "shell_call" | "apply_patch_call" if _client_runs(out):
                self._shell_call(item, out, SHELLS[NAME_BY_CALL[kind]].flavor)
            case _:
                self._refusing = False
                self._hosted(item, kind, out, raw)

    def take_late(self, item: StreamItem, out: OutputItem, raw: Raw) -> None:
        """Take sources that the finished response lists and the finished item did not; xAI's lists differ.

        Cases: responses/search_sources_last, responses/search_two_at_once.
        """
        if item.type == "message":
            listed = {index for index, part in enumerate(out.content or ()) if part.annotations}
            if any(("cited", index) not in item.given for index in listed):
                detail = "listed at the end of the answer only"
                self.assembler.loss("citations_dropped", f"item {item.id}", detail)
            return
        search = self._searches.get(item.key)
        read = None if search is None else read_server_item(raw)
        if search is None or read is None or read.result is None:
            return
        call_id, known = search
        if known is None:
            self.assembler.server_result(read.result, call_id=call_id, vendor=_VENDOR)
            return
        late = {one.url for one in read.result.sources} - known
        if late:
            detail = f"sources of a search: {len(late)} more at the end of the answer"
            self.assembler.loss("late_delta_dropped", f"item {item.id}", detail)

    def _hosted(self, item: StreamItem, kind: str, out: OutputItem, raw: Raw) -> None:
        """Emit the item of a vendor-run tool: its call, and its result if the item has it."""
        read = read_server_item(raw)
        if read is None:
            self.assembler.whole_block(_block_kind(kind), _VENDOR, raw)
            return
        call_id = self.assembler.server_call(
            read.call, call_id=out.id or "", vendor=_VENDOR, raw=raw, ran=True
        )
        if read.result is not None:
            self.assembler.server_result(read.result, call_id=call_id, vendor=_VENDOR)
        if read.call.does is ServerKind.WEB_SEARCH:
            sources = None if read.result is None else {one.url for one in read.result.sources}
            self._searches[item.key] = call_id, sources

    def message_part(self, item: StreamItem, index: int, part: Part) -> None:
        if part.type == "refusal" or (part.text is None and part.refusal):
            if ("refusal", index) not in item.given:
                self.refusal(item, index, part.refusal or "")
            return
        if ("text", index) not in item.given:
            self.text(item, index, part.text or "")
        if ("cited", index) not in item.given:
            for annotation in part.annotations or ():
                self.cite(item, index, annotation)

    def _finish_reasoning(self, item: StreamItem, out: OutputItem) -> None:
        for index, part in enumerate(out.summary or ()):
            if ("summary", index) not in item.given:
                self.reasoning(item, Channel.SUMMARY, index, part.text or "")
        for index, part in enumerate(out.content or ()):
            if ("full", index) not in item.given:
                self.reasoning(item, Channel.FULL, index, part.text or "")
        if out.encrypted_content:
            self._turn_to("reasoning", item.key)
            self.assembler.opaque(OpaqueKind.ENCRYPTED, out.encrypted_content, out.id or item.id)
        self.split()

    def _finish_call(self, item: StreamItem, out: OutputItem) -> None:
        if not item.opened:
            self.open_call(item, out)
        if not item.opened:
            self.end_nameless(item, cut=out.status == "incomplete")
            return
        text = out.input if item.type == "custom_tool_call" else out.arguments
        if isinstance(text, dict):
            text = encode(text).decode()
        if isinstance(text, str):
            self.whole_args(item, text)
        self.assembler.end_call(item.key, cut=out.status == "incomplete")

    def _shell_call(self, item: StreamItem, out: OutputItem, flavor: Flavor) -> None:
        self._refusing = False
        self.assembler.open_call(
            item.key,
            call_id=out.call_id or out.id or "",
            name=NAME_BY_CALL[out.type or item.type],
            flavor=flavor,
        )
        item.opened = True
        content = out.operation if flavor is Flavor.APPLY_PATCH else out.action
        self.assembler.args(item.key, arguments_of(flavor, content))
        self.assembler.end_call(item.key, cut=out.status == "incomplete")

    def open_call(self, item: StreamItem, out: OutputItem) -> None:
        """Open a call, if its name is known by now."""
        if not out.name:
            return
        self._refusing = False
        name, namespace = join_surrogates(out.name), join_surrogates(out.namespace or "")
        wire = wire_name(name, namespace)
        known = wire in self._tools
        custom = item.type == "custom_tool_call"
        flavor = Flavor.CUSTOM if custom else None
        if namespace and not known:
            flavor = flavor or Flavor.FUNCTION
        self.assembler.open_call(
            item.key,
            call_id=out.call_id or out.id or item.id,
            name=wire if known else name,
            namespace=namespace,
            flavor=flavor,
            raw_input=custom,
        )
        item.opened = True
        held, item.held = item.held, []
        self.nameless -= bool(held)
        for fragment in held:
            self.assembler.args(item.key, fragment)

    def end_nameless(self, item: StreamItem, *, cut: bool) -> None:
        """Drop a call that never got a name if the answer was truncated; otherwise the answer fails."""
        if cut:
            self.assembler.loss("call_without_name", f"item {item.id}")
            self.nameless -= bool(item.held)
            item.held = []
        else:
            self.assembler.fault(nameless_call())

    # --- pieces ---------------------------------------------------------------------------------

    def _turn_to(self, *part: object) -> None:
        """End the open block unless it holds this part."""
        if self._focus != part:
            self.split()
            self._focus = part

    def split(self) -> None:
        if self.halves:
            self._release_half()
        self._focus = ()
        self.hot = None
        self.assembler.split()

    def text(
        self, item: StreamItem, index: int, text: str, logprobs: list[Raw] | None = None
    ) -> None:
        if not text:
            return
        if self._focus != ("text", item.key, index):
            self._turn_to("text", item.key, index)
            item.given.add(("text", index))
            self._has_text = True
            self._refusing = False
        text = self.halves.join("", text)
        if not text:
            return
        self.assembler.text(text, Raw(msgspec.json.encode(logprobs)) if logprobs else None)

    def refusal(self, item: StreamItem, index: int, text: str) -> None:
        if not text:
            return
        self._turn_to("refusal", item.key, index)
        item.given.add(("refusal", index))
        self._refusing = True
        text = self.halves.join("", text)
        if text:
            self.assembler.refusal(text)

    def reasoning(self, item: StreamItem, channel: Channel, part: int, text: str) -> None:
        if not text:
            return
        self._turn_to("reasoning", item.key)
        item.given.add((str(channel), part))
        self._refusing = False
        text = self.halves.join("", text)
        if text:
            self.assembler.reasoning(text, channel, part)

    def args(self, item: StreamItem, fragment: str) -> None:
        fragment = self.halves.join("", fragment)
        if not fragment:
            return
        item.given.add(("args", 0))
        if item.opened:
            self.assembler.args(item.key, fragment)
        else:
            self.nameless += not item.held
            item.held.append(fragment)

    def whole_args(self, item: StreamItem, text: str) -> None:
        """Add the complete arguments of a call, unless its deltas have brought them."""
        if self.halves:
            self.args(item, self._replacement())
        # Case: responses/b6_arguments_in_item_only.
        if ("args", 0) not in item.given:
            self.args(item, text)

    def cite(self, item: StreamItem, index: int, raw: Raw) -> None:
        try:
            note = ANNOTATION.decode(raw)
        except msgspec.MsgspecError:
            self.assembler.loss("citations_dropped", f"item {item.id}", "of unknown shape")
            return
        item.given.add(("cited", index))
        self._turn_to("text", item.key, index)
        self.assembler.citation(
            Citation(
                0,
                note.url or "",
                note.title or "",
                start=note.start_index if note.end_index else None,  # 0 and 0 name no place
                end=note.end_index or None,
                vendor=_VENDOR,
                raw=raw,
            )
        )

    def _replacement(self) -> str:
        """Return a replacement for the half of a character that is held."""
        return "".join(text for _, text in self.halves.release())

    def _release_half(self) -> None:
        """Emit a replacement for the half of a character whose other half never came."""
        text = self._replacement()
        match self._focus[:1]:
            case ("text",):
                self.assembler.text(text)
            case ("refusal",):
                self.assembler.refusal(text)
            case _:
                pass


def _client_runs(out: OutputItem) -> bool:
    """Return whether a shell call is for the client: one in a container was run by the vendor."""
    return out.environment is None or not out.environment.type.startswith("container")


def _block_kind(kind: str) -> BlockKind:
    if kind.endswith("_output"):
        return BlockKind.SERVER_RESULT
    if kind in HOSTED_ITEMS or kind.endswith("_call"):
        return BlockKind.SERVER_CALL
    return BlockKind.OPAQUE


# --- vendor-run tools -----------------------------------------------------------------------------


class ReadTool(Struct, frozen=True):
    """The call and the result in an item of a vendor-run tool."""

    call: ServerCall
    result: ServerResult | None = None  # None: the item does not say what was found


def read_server_item(raw: Raw) -> ReadTool | None:
    """Return the call and the result of a vendor-run tool; None if only the vendor can read its item."""
    item = decode_or_none(HOSTED_ITEM, raw)
    if item is None:
        return None
    failed = UNAVAILABLE if item.status == "failed" or item.error not in (None, "") else ""
    match item.type:
        case "web_search_call" | "openrouter:web_search":
            return _read_search(item, failed)
        case "code_interpreter_call":
            call = ServerCall(ServerKind.CODE, arguments=Raw(encode({"code": item.code or ""})))
            logs = "".join(one.logs or "" for one in item.outputs or ())
            code = 1 if failed else 0
            return ReadTool(call, ServerResult(ServerKind.CODE, output=logs, return_code=code))
        case "web_extractor_call":
            return _read_fetch(item, failed)
        case "image_generation_call" | "openrouter:image_generation":
            return _read_image(item, failed)
        case "mcp_call":
            return _read_mcp(item, failed)
        case _:
            return None


def _read_image(item: HostedItem, failed: str) -> ReadTool:
    call = ServerCall(ServerKind.IMAGE, (item.revised_prompt,) if item.revised_prompt else ())
    found, image = item.result or "", None
    if found.startswith(("https://", "http://")):
        image = MadeImage(url=found)
    elif found:
        image = MadeImage(found, f"image/{item.output_format or 'png'}")
    error = failed or ("" if image else UNAVAILABLE)
    return ReadTool(call, ServerResult(ServerKind.IMAGE, error=error, image=image))


_OBJECT: Final[msgspec.json.Decoder[dict[str, Raw]]] = msgspec.json.Decoder(dict[str, Raw])


def _read_mcp(item: HostedItem, failed: str) -> ReadTool:
    """Return the call of an MCP server's tool; arguments that are not an object are left out."""
    asked = utf8(item.arguments or "")
    try:
        _OBJECT.decode(asked)
    except msgspec.DecodeError:
        asked = b"{}"
    name, server = item.name or "", item.server_label or ""
    call = ServerCall(ServerKind.MCP, (), Raw(asked), name, server)
    output = item.output if isinstance(item.output, str) else ""
    if failed and not output:
        output = _error_text(item.error)
    return ReadTool(call, ServerResult(ServerKind.MCP, output=output, error=failed))


def _error_text(error: object) -> str:
    """Return why a call failed: a text, or an object with a message or the content of the failure."""
    if isinstance(error, dict):
        error = error.get("message") or error.get("content")
    if error is None or isinstance(error, str):
        return error or ""
    return encode(error).decode()


def _read_fetch(item: HostedItem, failed: str) -> ReadTool:
    """Return the pages that Qwen read."""
    goal = item.goal or ""
    urls = tuple(item.urls or ()) or ((goal,) if goal.startswith(("http://", "https://")) else ())
    call = ServerCall(ServerKind.WEB_FETCH, urls)
    output = item.output if isinstance(item.output, str) else ""
    sources = () if failed else tuple(map(SourceRef, urls))
    return ReadTool(call, ServerResult(ServerKind.WEB_FETCH, sources, output, failed))


def _read_search(item: HostedItem, failed: str) -> ReadTool | None:
    """Return a search; the pages that a model opens while it searches are not searches."""
    action = item.action or HostedAction()
    if action.type not in ("", "search"):
        return None
    query = (action.query,) if action.query else ()
    call = ServerCall(ServerKind.WEB_SEARCH, tuple(action.queries or ()) or query)
    if failed:
        return ReadTool(call, ServerResult(ServerKind.WEB_SEARCH, error=failed))
    if action.sources is None:
        return ReadTool(call)
    found = {one.url: SourceRef(one.url, one.title or "") for one in action.sources if one.url}
    return ReadTool(call, ServerResult(ServerKind.WEB_SEARCH, tuple(found.values())))
