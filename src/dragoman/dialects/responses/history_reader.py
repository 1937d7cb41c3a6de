"""Decodes a client's input items into turns."""

import re
from collections.abc import Sequence
from typing import Final, assert_never

import msgspec
from msgspec import Raw, Struct, structs

from dragoman.dialects.decoding import check_messages, decode_at
from dragoman.dialects.history_policy import check_call_name
from dragoman.dialects.paths import entry_paths
from dragoman.dialects.responses.block_reader import read_server_item
from dragoman.dialects.responses.schema import (
    EASY_MESSAGE,
    HEAD,
    HOSTED_ITEM,
    HOSTED_ITEMS,
    INPUT_ITEM,
    INPUT_ITEMS,
    ITEM_LIST,
    NULL,
    REFERENCE,
    AdditionalToolsItem,
    CustomCallItem,
    CustomOutputItem,
    FunctionCallItem,
    FunctionOutputItem,
    InputItem,
    ItemReference,
    LocalShellCallItem,
    LocalShellOutputItem,
    MessageItem,
    Part,
    PatchCallItem,
    PatchOutputItem,
    ReasoningItem,
    ShellCallItem,
    ShellOutput,
    ShellOutputItem,
)
from dragoman.dialects.responses.tools_reader import arguments_of, decode_tools
from dragoman.dialects.sealing import unseal
from dragoman.dialects.server_tools import is_minted, server_parts
from dragoman.envelopes import Sealer
from dragoman.errors import MalformedError
from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.turn.events import Channel, Flavor, OpaqueKind
from dragoman.turn.losses import Loss
from dragoman.turn.request import (
    ASSISTANT,
    USER,
    AudioPart,
    Base64Source,
    CacheHint,
    DocumentPart,
    FileSource,
    ImagePart,
    OpaquePart,
    OpaqueState,
    ReasoningPart,
    ReasoningSegment,
    RefusalPart,
    Role,
    ServerToolPart,
    TextPart,
    Tool,
    ToolCallPart,
    ToolResultPart,
    Turn,
    UrlSource,
)
from dragoman.turn.request import Part as TurnPart
from dragoman.turn.server_tools import summary_of

# --- content parts --------------------------------------------------------------------------------


_DATA_URL: Final = re.compile(r"data:([^;,]*)(?:;[^,]*)?;base64,(.*)", re.DOTALL)

# The first characters of base64 show an image's type if its sender does not give it.
_MAGIC: Final = {
    "iVBOR": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}


def content_parts(content: str | list[Part] | None, path: str) -> Sequence[TurnPart]:
    """Read the content of a user's message."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextPart(content),)
    return [_content_part(part, f"{path}.content[{index}]") for index, part in enumerate(content)]


def result_parts(
    output: str | list[Part] | None, path: str
) -> Sequence[TextPart | ImagePart | DocumentPart]:
    """Read the output of a tool."""
    if output is None:
        return ()
    if isinstance(output, str):
        return (TextPart(output),)
    parts: list[TextPart | ImagePart | DocumentPart] = []
    for index, given in enumerate(output):
        at = f"{path}.output[{index}]"
        part = _content_part(given, at)
        if not isinstance(part, TextPart | ImagePart | DocumentPart):
            raise _unsupported(given.type, at)
        parts.append(part)
    return parts


def _content_part(part: Part, path: str) -> TurnPart:
    cache = None
    if part.prompt_cache_breakpoint is not None:
        cache = CacheHint(long=part.prompt_cache_breakpoint.ttl == "12h")
    match part.type:
        case "input_text" | "output_text" | "text":
            return TextPart(part.text or "", cache)
        case "input_image":
            return ImagePart(_image_source(part, path), part.detail or "", cache)
        case "input_file":
            return _document(part, path, cache)
        case "input_audio" if part.input_audio is not None:
            return AudioPart(part.input_audio.data, part.input_audio.format)
        case "refusal":
            return RefusalPart(part.refusal or "")
        case _:
            raise _unsupported(part.type, path)


def _unsupported(kind: str, path: str) -> MalformedError:
    reason = f"a content part of type `{kind}` is not supported here"
    return MalformedError(reason, path=path, code="unsupported_content_block")


def _image_source(part: Part, path: str) -> Base64Source | UrlSource | FileSource:
    if part.image_url:
        return _data_source(part.image_url) or UrlSource(part.image_url)
    if part.file_id:
        return FileSource(part.file_id, _VENDOR)
    raise MalformedError("an image needs `image_url` or `file_id`", path=path)


def _document(part: Part, path: str, cache: CacheHint | None) -> DocumentPart:
    source: Base64Source | UrlSource | FileSource
    if part.file_data:
        source = _data_source(part.file_data) or Base64Source("application/pdf", part.file_data)
    elif part.file_url:
        source = UrlSource(part.file_url)
    elif part.file_id:
        source = FileSource(part.file_id, _VENDOR)
    else:
        raise MalformedError("a file needs `file_data`, `file_url` or `file_id`", path=path)
    return DocumentPart(source, part.filename or "", cache=cache)


def _data_source(url: str) -> Base64Source | None:
    match = _DATA_URL.match(url)
    if match is None:
        return None
    kind, data = match.groups()
    if not kind:
        kind = next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), "image/png")
    return Base64Source(kind, data)


def instructions(content: str | list[Part] | None, path: str) -> Sequence[TextPart]:
    parts = content_parts(content, path)
    for index, part in enumerate(parts):
        if not isinstance(part, TextPart):
            raise MalformedError("instructions are text", path=f"{path}.content[{index}]")
    return [part for part in parts if isinstance(part, TextPart) and part.text]


def spoken_parts(
    content: str | list[Part] | None, path: str, losses: list[Loss]
) -> Sequence[TurnPart]:
    """Read the content of the assistant's message; unknown parts are dropped and reported."""
    if content is None or isinstance(content, str):
        return (TextPart(content),) if content else ()
    parts: list[TurnPart] = []
    for index, part in enumerate(content):
        match part.type:
            case "output_text" | "input_text" | "text" if not part.annotations:
                parts.append(TextPart(part.text or ""))
            case "output_text" | "input_text" | "text":
                notes = tuple(part.annotations or ())
                parts.append(TextPart(part.text or "", citations=notes, vendor=_VENDOR))
            case "refusal":
                parts.append(RefusalPart(part.refusal or ""))
            case _:
                losses.append(Loss("part_unknown", f"{path}.content[{index}]", part.type))
    return parts


# --- items ----------------------------------------------------------------------------------------
# Adjacent items that the model made are one assistant turn; adjacent results are one user turn; every
# other message is a separate turn.

_VENDOR: Final = "openai"

_FUNCTION: Final = Flavor.FUNCTION

_CUSTOM: Final = Flavor.CUSTOM

_REFERENCE_ADVICE: Final = (
    "items are not stored here, so `{id}` cannot be looked up; send the item itself"
    " (clients do so with `store` set to false)"
)


class _Turn(Struct, gc=False):
    """A turn that may still grow."""

    role: Role
    path: str
    parts: list[TurnPart]
    phase: str = ""
    seen: int = 0  # parts that `look` has looked at; no part is looked at twice
    kinds: set[type[TurnPart]] = set()  # of these
    calls: dict[str, int] = {}  # places of the calls among them, by id

    def look(self) -> "_Turn":
        """Return the turn, with `kinds` and `calls` of all its parts."""
        for at in range(self.seen, len(self.parts)):
            part = self.parts[at]
            self.kinds.add(type(part))
            if type(part) is ToolCallPart:
                self.calls.setdefault(part.id, at)
        self.seen = len(self.parts)
        return self


class HistoryReader:
    """Read the input of one request."""

    def __init__(self, sealer: Sealer | None, losses: list[Loss]) -> None:
        self.system: list[TextPart] = []  # instructions before the first turn
        self.tools: tuple[Tool, ...] = ()  # declared inside the conversation
        self._sealer = sealer
        self._losses = losses
        self._turns: list[_Turn] = []
        self._last: _Turn | None = None  # of them
        self._call_ids: dict[str, str] = {}  # by the ids of the calls' items
        self._signatures: dict[str, list[OpaqueState]] = {}  # of calls to come, by call id
        self._restored: set[str] = (
            set()
        )  # items of vendor-run tools whose own state came before them

    def turns(self) -> tuple[Turn, ...]:
        """Return what was read."""
        return tuple(
            [
                Turn(turn.role, tuple(turn.parts), "", turn.phase, turn.path)
                for turn in self._turns
                if turn.parts
            ]
        )

    def read(self, raw: Raw, limits: Limits = DEFAULT_LIMITS) -> None:
        """Read `input`: a string or a list of items.

        Raises:
            MalformedError: an item is not valid; carries its path.
            TooLargeError: there are more than `max_messages`.
        """
        if raw == NULL:
            return
        try:
            items = INPUT_ITEMS.decode(raw)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            self._read_one_by_one(raw, limits)
            return
        check_messages(len(items), limits)
        for path, item in zip(entry_paths("input", len(items)), items, strict=False):
            self._read_item(item, path)

    def _read_one_by_one(self, raw: Raw, limits: Limits) -> None:
        """Read an input that is not a list of declared items."""
        given = decode_at(ITEM_LIST, raw, "$.input")
        if isinstance(given, str):
            self._begin(USER, "$.input").parts.append(TextPart(given))
            return
        check_messages(len(given), limits)
        for index, one in enumerate(given):
            path = f"$.input[{index}]"
            item: InputItem | None
            try:
                item = INPUT_ITEM.decode(one)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
                item = self._odd_item(one, path)
            if item is not None:
                self._read_item(item, path)

    def _read_item(self, item: InputItem, path: str) -> None:
        # The frequent sorts first: a class that does not match costs a `match` more than a type.
        if type(item) is FunctionOutputItem:
            parts = tuple(result_parts(item.output, path))
            self._result(ToolResultPart(item.call_id, parts), path)
            return
        if type(item) is FunctionCallItem and item.name and not self._signatures:
            space = item.namespace or ""
            part = ToolCallPart(item.call_id, item.name, item.arguments, _FUNCTION, space)
            self._add_call(part, item.id, path)
            return
        if type(item) is MessageItem:
            self._message(item, path)
            return
        match item:
            case MessageItem():
                self._message(item, path)
            case FunctionCallItem() | CustomCallItem():
                self._call(item, path)
            case ReasoningItem():
                self._reasoning(item, path)
            case LocalShellCallItem() | ShellCallItem() | PatchCallItem():
                self._shell_call(item, path)
            case FunctionOutputItem() | CustomOutputItem():
                parts = tuple(result_parts(item.output, path))
                self._result(ToolResultPart(item.call_id, parts, flavor=_CUSTOM), path)
            case LocalShellOutputItem() | ShellOutputItem() | PatchOutputItem():
                self._shell_result(item, path)
            case ItemReference():
                self._reference(item, path)
            case AdditionalToolsItem(tools=tools):
                self.tools += decode_tools(tools, f"{path}.tools")
            case _:
                assert_never(item)

    def _odd_item(self, raw: Raw, path: str) -> InputItem | None:
        """Read an item that is not of a declared shape; None if it is kept whole."""
        head = decode_at(HEAD, raw, path)
        if head.type is None:
            if head.role is None and head.id is not None:
                return decode_at(REFERENCE, raw, path)
            return decode_at(EASY_MESSAGE, raw, path)
        if head.type in HOSTED_ITEMS:
            made_here = any(is_minted(head.id or "", prefix) for prefix in _MADE_HERE)
            if not made_here or head.id not in self._restored:
                vendor = "" if made_here else _VENDOR
                part = ServerToolPart(vendor, _summary(head.type, raw), raw)
                self._assistant(path).parts.append(part)
            return None
        if head.type in _KNOWN_TYPES:
            item: InputItem = decode_at(INPUT_ITEM, raw, path)
            return item
        role = Role.ASSISTANT if head.type.startswith("compaction") else Role.USER
        turn = self._assistant(path) if role is Role.ASSISTANT else self._begin(role, path)
        turn.parts.append(OpaquePart(_VENDOR, raw, path=path))
        return None

    # --- turns ----------------------------------------------------------------------------------

    def _begin(self, role: Role, path: str) -> _Turn:
        self._last = turn = _Turn(role, path, [])
        self._turns.append(turn)
        return turn

    def _assistant(self, path: str) -> _Turn:
        last = self._last
        if last is not None and last.role is ASSISTANT:
            return last
        return self._begin(ASSISTANT, path)

    def _result(self, result: ToolResultPart, path: str) -> None:
        last = self._last
        if (
            last is None
            or last.role is not USER
            or not last.parts
            or type(last.parts[-1]) is not ToolResultPart
        ):
            last = self._begin(USER, path)
        last.parts.append(result)

    # --- items ----------------------------------------------------------------------------------

    def _message(self, item: MessageItem, path: str) -> None:
        match item.role:
            case "assistant":
                self._assistant_message(item, path)
            case "user":
                parts = list(content_parts(item.content, path))
                self._begin(Role.USER, path).parts += parts
            case _:
                texts = list(instructions(item.content, path))
                if self._turns:
                    self._begin(Role.SYSTEM, path).parts += texts
                else:
                    self.system += texts

    def _assistant_message(self, item: MessageItem, path: str) -> None:
        turn = self._assistant(path)
        phase = item.phase or ""
        if phase != turn.phase and TextPart in turn.look().kinds:
            # Two phases are two turns; but results must follow the turn that made their calls.
            if ToolCallPart not in turn.kinds:
                turn = self._begin(Role.ASSISTANT, path)
                turn.phase = phase
        elif phase:
            turn.phase = phase
        turn.parts += spoken_parts(item.content, path, self._losses)

    def _reasoning(self, item: ReasoningItem, path: str) -> None:
        segments = tuple(
            ReasoningSegment(part.text, channel)
            for channel, parts in ((Channel.SUMMARY, item.summary), (Channel.FULL, item.content))
            for part in parts or ()
            if part.text
        )
        shown = "\n\n".join(segment.text for segment in segments)
        opened = unseal(
            item.encrypted_content or "",
            shown,
            sealer=self._sealer,
            native_kind=OpaqueKind.ENCRYPTED,
            native_origin=_VENDOR,
            losses=self._losses,
            path=f"{path}.encrypted_content",
        )
        state = opened.state
        if state is not None and state.kind is OpaqueKind.SERVER:
            self._restored.add(opened.call_id)
            self._assistant(path).parts += server_parts(state.data, state.origin) or ()
            return
        if state is not None and state.kind is OpaqueKind.TOOL_SIGNATURE and opened.call_id:
            self._sign(opened.call_id, state, path)
            return
        if opened.text != shown:
            segments = (ReasoningSegment(opened.text),) if opened.text else ()
        if segments or state is not None:
            opaque = () if state is None else (state,)
            self._assistant(path).parts.append(ReasoningPart(segments, opaque))

    def _sign(self, call_id: str, state: OpaqueState, path: str) -> None:
        """Give a call its signature, which comes before it or, if it came late, after it."""
        turn = self._assistant(path).look()
        at = turn.calls.get(call_id)
        part = turn.parts[at] if at is not None else None
        if at is None or not isinstance(part, ToolCallPart):
            self._signatures.setdefault(call_id, []).append(state)
        elif state not in part.opaque:  # a client may send one a thousand times
            turn.parts[at] = structs.replace(part, opaque=(*part.opaque, state))

    def _call(self, item: FunctionCallItem | CustomCallItem, path: str) -> None:
        check_call_name(item.name, f"{path}.name")
        custom = type(item) is CustomCallItem
        part = ToolCallPart(
            item.call_id,
            item.name,
            item.arguments if isinstance(item, FunctionCallItem) else item.input,
            _CUSTOM if custom else _FUNCTION,
            item.namespace or "",
            tuple(self._signatures.pop(item.call_id, ())),
        )
        self._add_call(part, item.id, path)

    def _shell_call(
        self, item: LocalShellCallItem | ShellCallItem | PatchCallItem, path: str
    ) -> None:
        match item:
            case LocalShellCallItem(action=content):
                flavor, name = Flavor.LOCAL_SHELL, "local_shell"
            case ShellCallItem(action=content):
                flavor, name = Flavor.SHELL, "shell"
            case PatchCallItem(operation=content):
                flavor, name = Flavor.APPLY_PATCH, "apply_patch"
        call_id = item.call_id or item.id or ""
        if not call_id:
            raise MalformedError("a call needs a `call_id`", path=path)
        part = ToolCallPart(
            call_id,
            name,
            arguments_of(flavor, content),
            flavor,
            opaque=tuple(self._signatures.pop(call_id, ())),
        )
        self._add_call(part, item.id, path)

    def _add_call(self, part: ToolCallPart, item_id: str | None, path: str) -> None:
        self._assistant(path).parts.append(part)
        self._call_ids[part.id] = part.id
        if item_id:
            self._call_ids.setdefault(item_id, part.id)

    def _shell_result(
        self, item: LocalShellOutputItem | ShellOutputItem | PatchOutputItem, path: str
    ) -> None:
        match item:
            case LocalShellOutputItem():
                # The declared shape has an `id` and no `call_id`; clients send either.
                known = [self._call_ids.get(one or "") for one in (item.call_id, item.id)]
                call_id = next(filter(None, known), item.call_id or item.id or "")
                parts = tuple(result_parts(item.output, path))
                result = ToolResultPart(call_id, parts, flavor=Flavor.LOCAL_SHELL)
            case ShellOutputItem(output=output):
                text = output if isinstance(output, str) else _shell_text(output or ())
                result = ToolResultPart(item.call_id, (TextPart(text),), flavor=Flavor.SHELL)
            case PatchOutputItem(status=status, output=output):
                text = output or ("failed" if status == "failed" else "done")
                result = ToolResultPart(
                    item.call_id, (TextPart(text),), status == "failed", Flavor.APPLY_PATCH
                )
        self._result(result, path)

    def _reference(self, item: ItemReference, path: str) -> None:
        if not item.id.startswith("rs_"):
            reason = _REFERENCE_ADVICE.format(id=item.id)
            raise MalformedError(reason, path=f"{path}.id", code="item_not_found")
        self._losses.append(Loss("reasoning_dropped", path, f"{item.id} is a reference"))


_KNOWN_TYPES: Final = frozenset(one.__struct_config__.tag for one in InputItem.__args__)


def _shell_text(outputs: Sequence[ShellOutput]) -> str:
    texts: list[str] = []
    for output in outputs:
        pieces = [output.stdout.rstrip("\n"), output.stderr.rstrip("\n")]
        outcome = output.outcome
        if outcome is not None and outcome.type == "timeout":
            pieces.append("[timed out]")
        elif outcome is not None and outcome.exit_code is not None:
            pieces.append(f"[exit code {outcome.exit_code}]")
        texts.append("\n".join(piece for piece in pieces if piece))
    return "\n".join(texts)


# The beginnings of ids that items of other vendors' tools get here.
_MADE_HERE: Final = ("ws_", "ci_", "mcp_", "ig_")


def _summary(kind: str, raw: Raw) -> str:
    """Return what a vendor-run tool did, for a model whose API has no place for it."""
    name = kind.removesuffix("_call")
    if name == "mcp" and (read := read_server_item(raw)) is not None:
        found = () if read.result is None else (summary_of(read.result),)
        return "\n".join((summary_of(read.call), *found))
    try:
        hosted = HOSTED_ITEM.decode(raw)
    except msgspec.MsgspecError:
        return f"[{name}]"
    about = ", ".join(hosted.queries or ()) or hosted.name or ""
    if hosted.action is not None:
        about = hosted.action.query or hosted.action.url or about
    return f"[{name}: {about}]" if about else f"[{name}]"
