"""Encodes turns as the input items of a Responses upstream."""

from collections.abc import Sequence
from typing import Final, TypeAlias

from msgspec import Raw

from dragoman.context import Target
from dragoman.dialects.encoding import encode
from dragoman.dialects.history_policy import (
    ERROR,
    ReplayPolicy,
    check_documents,
    check_image,
    document_text,
    error_text,
    file_name,
    file_of_assistant,
    foreign_text,
    own_origins,
    reasoning_loss,
    search_result_text,
    stored_file,
)
from dragoman.dialects.responses.schema import FunctionCallOut, FunctionOutputOut
from dragoman.dialects.responses.tools_reader import BY_FLAVOR, content_of
from dragoman.ids import UpstreamIds
from dragoman.turn.events import Flavor, OpaqueKind
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
    Part,
    ReasoningPart,
    RefusalPart,
    SearchResultPart,
    ServerToolPart,
    TextPart,
    TextSource,
    ToolCallPart,
    ToolResultPart,
    Turn,
    UrlSource,
)
from dragoman.turn.tools import wire_name

# --- items ----------------------------------------------------------------------------------------
# Items are sent without ids: nothing is kept there that an id could name.  Reasoning goes back in its
# encrypted form if that is the upstream's own, and as text if the profile allows it.


_Item: TypeAlias = dict[str, object] | Raw | FunctionCallOut | FunctionOutputOut

_VENDOR: Final = "openai"

_FUNCTION: Final = Flavor.FUNCTION

_CUSTOM: Final = Flavor.CUSTOM


class HistoryWriter:
    """Write the history of one request."""

    def __init__(
        self, target: Target, losses: list[Loss], *, native: bool, relayed: bool = False
    ) -> None:
        profile = target.profile
        self._profile = profile
        self._losses = losses
        self._native = native  # the upstream has the dialect's own tools and namespaces
        style = "responses64" if profile.id_style == "any" else profile.id_style
        self._ids = UpstreamIds(style, target.known_ids)
        self._calls: dict[str, ToolCallPart] = {}
        self._items: list[_Item] = []
        self._spoken: list[_Item] | None = (
            None  # content of the assistant's message, while it grows
        )
        self._path = ""  # of the turn
        self._own_origins = own_origins(profile, _VENDOR, relayed=relayed)
        self._unsigned = False  # the present turn gets unsigned reasoning back

    def encode(self, turns: Sequence[Turn]) -> list[_Item]:
        """Return the items of all turns."""
        replay = ReplayPolicy(turns, self._profile)
        for at, turn in enumerate(turns):
            self._path = turn.path
            if turn.role is ASSISTANT:
                calls = any(type(part) is ToolCallPart for part in turn.parts)
                signed = self._profile.signed_reasoning
                self._unsigned = not signed and replay.wants(at, calls=calls)
                self._assistant(turn, calls=calls)
            elif turn.role is USER:
                self._user(turn)
            else:
                self._system(turn)
        return self._items

    def instructions(self, system: Sequence[TextPart]) -> _Item:
        """Return leading instructions as a message, which can carry cache marks."""
        role = "developer" if self._profile.developer_role else "system"
        return _message(role, [self._text(part) for part in system if part.text])

    # --- turns ----------------------------------------------------------------------------------

    def _user(self, turn: Turn) -> None:
        rest: list[Part] = []
        for part in turn.parts:
            if type(part) is ToolResultPart:
                self._items.append(self._result(part))
            else:
                rest.append(part)
        if not rest:
            return
        content: list[_Item] = []
        for part in rest:
            if type(part) is OpaquePart:
                self._opaque(part)
            else:
                content += self._content(part)
        if content:
            self._items.append(_message("user", content))

    def _assistant(self, turn: Turn, *, calls: bool) -> None:
        first = len(self._items)
        for part in turn.parts:
            # The frequent sorts first: a class that does not match costs a `match` more than a type.
            if type(part) is ToolCallPart:
                self._call(part)
            elif type(part) is TextPart:
                if part.text:
                    self._add_text(turn, self._output_text(part))
            else:
                self._beside(turn, part)
        self._spoken = None
        if calls and self._unsigned and self._profile.reasoning_filler:
            self._fill_reasoning(first)

    def _beside(self, turn: Turn, part: Part) -> None:
        """Add what the assistant made beside text and calls."""
        match part:
            case ReasoningPart():
                self._reasoning(part)
            case RefusalPart(text=text):
                self._add_text(turn, {"type": "refusal", "refusal": text})
            case ServerToolPart():
                self._server_tool(turn, part)
            case OpaquePart():
                self._spoken = None
                self._opaque(part)
            case _:
                self._losses.append(file_of_assistant(turn.path))

    def _system(self, turn: Turn) -> None:
        texts = [part for part in turn.parts if isinstance(part, TextPart) and part.text]
        if texts:
            self._items.append(self.instructions(texts))

    # --- the assistant --------------------------------------------------------------------------

    def _add_text(self, turn: Turn, part: _Item) -> None:
        """Add to the assistant's message, beginning one if something else came before."""
        if self._spoken is None:
            self._spoken = []
            message = _message("assistant", self._spoken)
            if turn.phase and self._native:
                message["phase"] = turn.phase
            self._items.append(message)
        self._spoken.append(part)

    def _output_text(self, part: TextPart) -> _Item:
        text: dict[str, object] = {"type": "output_text", "text": part.text}
        if not part.citations:
            return text
        if part.vendor == _VENDOR and self._native:
            text["annotations"] = list(part.citations)
        else:
            self._losses.append(Loss("citations_dropped", self._path))
        return text

    def _reasoning(self, part: ReasoningPart) -> None:
        self._spoken = None
        for state in part.opaque:
            if state.kind is OpaqueKind.ENCRYPTED and state.origin in self._own_origins:
                summary = [
                    {"type": "summary_text", "text": segment.text} for segment in part.segments
                ]
                self._items.append(
                    {"type": "reasoning", "summary": summary, "encrypted_content": state.data}
                )
                return
        plain = all(state.kind is OpaqueKind.PLAIN for state in part.opaque)
        if self._unsigned and plain and part.text:
            self._items.append(_reasoning_text(part.text))
            return
        self._losses.append(reasoning_loss(part, self._path))

    def _fill_reasoning(self, first: int) -> None:
        """Put a placeholder before calls whose reasoning the upstream demands and the history lacks."""
        written = self._items[first:]
        if any(isinstance(one, dict) and one["type"] == "reasoning" for one in written):
            return
        self._losses.append(Loss("reasoning_filled", self._path))
        self._items.insert(first, _reasoning_text(self._profile.reasoning_filler))

    def _call(self, part: ToolCallPart) -> None:
        self._spoken = None
        self._calls[part.id] = part
        if part.flavor is _FUNCTION and not part.namespace and not part.opaque:
            name = wire_name(part.name)
            call_id = self._ids.of(part.id, name)
            self._items.append(FunctionCallOut(call_id, name, part.arguments or "{}"))
            return
        if part.opaque:
            self._losses.append(Loss("opaque_dropped", self._path, f"of call {part.id}"))
        name, namespace = self._name(part)
        item: dict[str, object] = {
            "type": "function_call",
            "call_id": self._ids.of(part.id, name),
        }
        content = content_of(part.flavor, part.arguments) if self._is_shell(part.flavor) else None
        if content is not None:
            item["type"] = BY_FLAVOR[part.flavor].call_type
            item["status"] = "completed"
            item["operation" if part.flavor is Flavor.APPLY_PATCH else "action"] = content
        else:
            custom = part.flavor is _CUSTOM
            item["name"] = name
            if namespace:
                item["namespace"] = namespace
            if custom and self._native:
                item["type"] = "custom_tool_call"
                item["input"] = part.arguments
            elif custom:
                item["arguments"] = encode({"input": part.arguments}).decode()
            else:
                item["arguments"] = part.arguments or "{}"
        self._items.append(item)

    def _name(self, part: ToolCallPart) -> tuple[str, str]:
        if part.namespace and self._native:
            return part.name, part.namespace
        return wire_name(part.name, part.namespace), ""

    def _is_shell(self, flavor: Flavor) -> bool:
        return self._native and flavor in BY_FLAVOR

    def _server_tool(self, turn: Turn, part: ServerToolPart) -> None:
        own = part.vendor == _VENDOR and (part.origin or _VENDOR) == self._profile.origin
        # The vendor refuses a call without the reasoning that came before it.
        if own and not (part.reasoned and not self._after_reasoning()):
            self._spoken = None
            self._items.append(part.raw)
            return
        self._losses.append(Loss("content_flattened", turn.path, part.summary))
        if part.summary:
            self._add_text(turn, {"type": "output_text", "text": part.summary})

    def _after_reasoning(self) -> bool:
        last = self._items[-1] if self._items else None
        return isinstance(last, dict) and last.get("type") == "reasoning"

    def _opaque(self, part: OpaquePart) -> None:
        if part.vendor == _VENDOR == self._profile.origin:
            self._items.append(part.raw)
            return
        text = foreign_text(part, self._path, self._losses)
        if text:
            self._items.append(self.instructions([TextPart(text)]))

    # --- the user -------------------------------------------------------------------------------

    def _result(self, part: ToolResultPart) -> _Item:
        call = self._calls.get(part.call_id)
        only = part.parts[0] if len(part.parts) == 1 else None
        function = call is not None and call.flavor is _FUNCTION
        if function and type(only) is TextPart and only.cache is None and not part.is_error:
            return FunctionOutputOut(self._ids.of(part.call_id), only.text)
        flavor = call.flavor if call is not None else part.flavor
        name = self._name(call)[0] if call is not None else ""
        call_id = self._ids.of(part.call_id, name)
        parts = self._result_parts(part)
        text = _only_text(parts)
        if call is not None and self._is_shell(flavor) and content_of(flavor, call.arguments):
            return _shell_output(flavor, call_id, text or "", failed=part.is_error)
        kind = "function_call_output"
        if flavor is _CUSTOM and self._native:
            kind = "custom_tool_call_output"
        return {"type": kind, "call_id": call_id, "output": parts if text is None else text}

    def _result_parts(self, part: ToolResultPart) -> list[_Item]:
        given: list[Part] = list(part.parts)
        if part.is_error:
            first = given[0] if given else TextPart("")
            if isinstance(first, TextPart):
                given[:1] = [TextPart(error_text(first.text), first.cache)]
            else:
                given.insert(0, TextPart(ERROR))
        content: list[_Item] = []
        for one in given:
            content += self._content(one)
        return content

    def _content(self, part: Part) -> list[_Item]:
        match part:
            case TextPart():
                return [self._text(part)] if part.text else []
            case RefusalPart(text=text):
                return [{"type": "input_text", "text": text}]
            case ImagePart():
                return [self._image(part)]
            case DocumentPart():
                return self._document(part)
            case AudioPart(data=data, format=form):
                return [{"type": "input_audio", "input_audio": {"data": data, "format": form}}]
            case SearchResultPart():
                text = search_result_text(part, self._path, self._losses)
                return [{"type": "input_text", "text": text}]
            case _:
                self._losses.append(Loss("content_dropped", self._path, type(part).__name__))
                return []

    def _text(self, part: TextPart) -> _Item:
        return self._marked({"type": "input_text", "text": part.text}, part.cache)

    def _marked(self, item: dict[str, object], cache: CacheHint | None) -> _Item:
        if cache is not None and self._profile.cache_breakpoints:
            ttl = "12h" if cache.long else "30m"
            item["prompt_cache_breakpoint"] = {"mode": "explicit", "ttl": ttl}
        return item

    def _image(self, part: ImagePart) -> _Item:
        check_image(part, self._profile, self._path)
        item: dict[str, object] = {"type": "input_image"}
        match part.source:
            case Base64Source(media_type=kind, data=data):
                item["image_url"] = f"data:{kind};base64,{data}"
            case UrlSource(url=url):
                item["image_url"] = url
            case FileSource():
                item["file_id"] = stored_file(part.source, self._profile.origin, self._path)
        item["detail"] = part.detail or "auto"
        return self._marked(item, part.cache)

    def _document(self, part: DocumentPart) -> list[_Item]:
        if part.cite:
            self._losses.append(Loss("citations_dropped", self._path, part.title))
        content: list[_Item] = []
        if part.context:
            content.append({"type": "input_text", "text": part.context})
        item: dict[str, object] = {"type": "input_file"}
        match part.source:
            case Base64Source(media_type=kind, data=data):
                item["filename"] = file_name(part, kind)
                item["file_data"] = f"data:{kind};base64,{data}"
            case UrlSource(url=url):
                item["file_url"] = url
            case FileSource():
                item["file_id"] = stored_file(part.source, self._profile.origin, self._path)
            case TextSource() | None:
                loss = Loss("content_flattened", self._path, "a document became text")
                self._losses.append(loss)
                item = {"type": "input_text", "text": document_text(part)}
                images = [self._image(one) for one in part.parts if isinstance(one, ImagePart)]
                return [*content, self._marked(item, part.cache), *images]
        check_documents(self._profile, self._path)
        return [*content, self._marked(item, part.cache)]


def _reasoning_text(text: str) -> dict[str, object]:
    content = [{"type": "reasoning_text", "text": text}]
    return {"type": "reasoning", "summary": [], "content": content}


def _message(role: str, content: list[_Item]) -> dict[str, object]:
    return {"type": "message", "role": role, "content": content}


def _only_text(parts: Sequence[_Item]) -> str | None:
    """Return plain text parts as one string, or None if there is anything else."""
    texts: list[str] = []
    for part in parts:
        if not isinstance(part, dict) or part.keys() != {"type", "text"}:
            return None
        texts.append(str(part["text"]))
    return "\n".join(texts)


def _shell_output(flavor: Flavor, call_id: str, text: str, *, failed: bool) -> _Item:
    item: dict[str, object] = {"type": BY_FLAVOR[flavor].output_type}
    match flavor:
        case Flavor.LOCAL_SHELL:
            # The declared shape names the call by `id`.
            item |= {"id": call_id, "call_id": call_id, "output": text}
        case Flavor.SHELL:
            outcome = {"type": "exit", "exit_code": int(failed)}
            output = [{"stdout": text, "stderr": "", "outcome": outcome}]
            item |= {"call_id": call_id, "output": output}
        case _:
            status = "failed" if failed else "completed"
            item |= {"call_id": call_id, "status": status, "output": text}
    return item
