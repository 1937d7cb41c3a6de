"""Encodes turns as the contents of a request to a Gemini upstream.

Google demands: a user first and last, all calls of a step in one content and exactly one response for each in
the next, and, with Gemini 3, in the current turn a signature on the first call of each step.
"""

from collections.abc import Iterable
from typing import Final, assert_never

from msgspec import Raw, Struct, structs

from dragoman.context import Target
from dragoman.dialects.encoding import encode, utf8
from dragoman.dialects.gemini.answer_writer import own_signature
from dragoman.dialects.gemini.block_reader import TEXT_SIGNATURE
from dragoman.dialects.gemini.schema import (
    PLACEHOLDER,
    VENDOR,
    Blob,
    FileData,
    FunctionCall,
    FunctionResponse,
    Part,
    ResponsePart,
    family_of,
)
from dragoman.dialects.gemini.tools_writer import google_name
from dragoman.dialects.history_policy import (
    CONTINUED,
    GO_ON,
    PDF,
    check_documents,
    check_image,
    document_text,
    file_of_assistant,
    foreign_text,
    go_on_loss,
    media_type_of,
    own_origins,
    place_instructions,
    reasoning_loss,
    report_detail,
    search_result_text,
    split_leading,
    stored_file,
)
from dragoman.dialects.paths import path_of
from dragoman.dialects.tool_policy import object_arguments
from dragoman.ids import UpstreamIds
from dragoman.turn.events import OpaqueKind
from dragoman.turn.history import normalize_history
from dragoman.turn.losses import Loss
from dragoman.turn.request import (
    ASSISTANT,
    USER,
    AudioPart,
    Base64Source,
    DocumentPart,
    FileSource,
    ImagePart,
    OpaquePart,
    OpaqueState,
    ReasoningPart,
    RefusalPart,
    Request,
    SearchResultPart,
    ServerToolPart,
    TextPart,
    TextSource,
    ToolCallPart,
    ToolResultPart,
    Turn,
    UrlSource,
)
from dragoman.turn.request import Part as TurnPart

_ROLES: Final = {USER: "user", ASSISTANT: "model"}
_AUDIO: Final = {"mp3": "audio/mpeg", "wav": "audio/wav"}
# The origin of signatures that a Chat client sends back in `extra_content`: whose they are is inside.
_FROM_CHAT: Final = "chat"


class OutContent(Struct):
    """A content being put together."""

    role: str
    parts: list[Part | Raw]


class HistoryWriter:
    """The conversation, for one upstream."""

    def __init__(self, request: Request, target: Target, losses: list[Loss]) -> None:
        self._request = request
        self._target = target
        # The dialect has no role for instructions between the turns.
        self._profile = structs.replace(target.profile, midturn_system=False)
        self._losses = losses
        self._ids = UpstreamIds(target.profile.id_style, target.known_ids)
        self._names: dict[str, str] = {}  # of the calls so far, by the client's id
        self._native = request.dialect == "gemini"
        self._own_origins = own_origins(target.profile, VENDOR, relayed=self._native)
        self._family = family_of(target.model or request.model)
        self.leading: tuple[Turn, ...]  # instructions that are part of the system prompt
        self.leading, turns = split_leading(request.turns)
        self._turns = normalize_history(
            turns, losses, strict=target.strict, repair=target.repair_history
        )

    def encode(self) -> list[OutContent]:
        """Return the contents.

        Raises:
            UntranslatableError: a part has no form that the upstream takes.
        """
        contents: list[OutContent] = []
        for turn in place_instructions(self._turns, self._profile, self._losses):
            parts = self._parts(turn)
            role = _ROLES[turn.role]
            if not parts:
                continue
            if contents and contents[-1].role == role:
                contents[-1].parts += parts
            else:
                contents.append(OutContent(role, parts))
        messages = path_of(self._request, "messages")
        if not contents or contents[0].role == "model":
            self._losses.append(Loss("turn_added", messages, CONTINUED))
            contents.insert(0, OutContent("user", [Part(text=CONTINUED)]))
        if contents[-1].role == "model":
            self._losses.append(go_on_loss(self._request, self._target))
            contents.append(OutContent("user", [Part(text=GO_ON)]))
        if self._profile.requires_call_signatures:
            self._fill_signatures(contents)
        return contents

    # --- signatures -------------------------------------------------------------------------------

    def _fill_signatures(self, contents: list[OutContent]) -> None:
        """Put a placeholder on the first call of each step of the current turn that has no signature."""
        for content in reversed(contents):
            if content.role == "user":
                if not any(_is_response(part) for part in content.parts):
                    break
                continue
            at = next((at for at, part in enumerate(content.parts) if _is_call(part)), None)
            if at is None:
                continue
            part = content.parts[at]
            if isinstance(part, Part) and not part.thought_signature:
                content.parts[at] = structs.replace(part, thought_signature=PLACEHOLDER)
                path = path_of(self._request, "messages")
                self._losses.append(Loss("reasoning_filled", path))

    def _is_own(self, origin: str) -> bool:
        """Return whether the upstream wrote some state, with a model of the same family as the one that gets it."""
        front, _, family = origin.partition("/")
        return front in self._own_origins and self._family in ("", family or self._family)

    def _signature(self, states: Iterable[OpaqueState], turn: Turn) -> str | None:
        """Return the signature of a call, if this upstream gave it."""
        for state in states:
            if self._is_own(state.origin) or state.origin == _FROM_CHAT:
                found = own_signature(state.data)
                if found:
                    return found
            self._losses.append(Loss("opaque_dropped", turn.path, "the signature of a call"))
        return None

    # --- parts ------------------------------------------------------------------------------------

    def _parts(self, turn: Turn) -> list[Part | Raw]:
        parts: list[Part | Raw] = []
        moved: list[Part | Raw] = []  # files of results: behind all responses
        for part in turn.parts:
            if type(part) is TextPart:
                if part.text:
                    if part.citations:
                        self._losses.append(Loss("citations_dropped", turn.path))
                    parts.append(Part(text=part.text))
            elif type(part) is ToolResultPart:
                parts.append(self._result(part, turn, moved))
            elif type(part) is ReasoningPart:
                self._reasoning(part, turn, parts)
            else:
                parts += self._part(part, turn)
        if moved:
            last = max(at for at, part in enumerate(parts) if _is_response(part))
            parts[last + 1 : last + 1] = moved
        return parts

    def _part(self, part: TurnPart, turn: Turn) -> list[Part | Raw]:
        path = turn.path or path_of(self._request, "messages")
        match part:
            case TextPart(text=text) | RefusalPart(text=text):
                return [Part(text=text)] if text else []
            case ToolCallPart():
                return [self._call(part, turn)]
            case ServerToolPart(vendor=vendor, summary=summary, raw=raw, origin=origin):
                if vendor == VENDOR and origin in ("", self._profile.origin):
                    return [raw]
                self._losses.append(Loss("content_flattened", turn.path, summary))
                return [Part(text=summary)] if summary else []
            case OpaquePart():
                return self._opaque(part, turn)
            case AudioPart(data=data, format=form):
                kind = _AUDIO.get(form, f"audio/{form}")
                return [Part(inline_data=Blob(kind, data))]
            case ImagePart() | DocumentPart() | SearchResultPart():
                if turn.role is ASSISTANT:
                    self._losses.append(file_of_assistant(turn.path))
                    return []
                return list(self._file(part, path))
            case ReasoningPart() | ToolResultPart():
                return []  # written by the caller
            case _:
                assert_never(part)

    def _opaque(self, part: OpaquePart, turn: Turn) -> list[Part | Raw]:
        if part.vendor == VENDOR:
            return [part.raw]
        text = foreign_text(part, turn.path, self._losses)
        return [Part(text=text)] if text else []

    def _reasoning(self, part: ReasoningPart, turn: Turn, parts: list[Part | Raw]) -> None:
        """Give signed thoughts back to the upstream that signed them; all others are left out."""
        for state in part.opaque:
            if not self._is_own(state.origin):
                continue
            if state.kind is OpaqueKind.SIGNATURE:
                signed = Part(text=part.text, thought=True, thought_signature=state.data)
                parts.append(signed)
                return
            if state.kind is OpaqueKind.ENCRYPTED and state.item_id == TEXT_SIGNATURE:
                last = parts[-1] if parts else None
                if isinstance(last, Part) and last.text is not None and not last.thought_signature:
                    parts[-1] = structs.replace(last, thought_signature=state.data)
                else:
                    parts.append(Part(text="", thought_signature=state.data))
                return
        if self._native and part.text and not part.opaque:
            parts.append(Part(text=part.text, thought=True))
            return
        self._losses.append(reasoning_loss(part, turn.path))

    # --- calls and results ------------------------------------------------------------------------

    def _call(self, part: ToolCallPart, turn: Turn) -> Part:
        name = google_name(part.name, part.namespace)
        self._names[part.id] = name
        arguments = object_arguments(part, self._target.limits, self._losses, turn.path)
        call_id = self._ids.of(part.id, name) if self._profile.send_ids else None
        call = FunctionCall(name, Raw(utf8(arguments)), call_id)
        return Part(function_call=call, thought_signature=self._signature(part.opaque, turn))

    def _result(self, part: ToolResultPart, turn: Turn, moved: list[Part | Raw]) -> Part:
        path = turn.path or path_of(self._request, "messages")
        texts: list[str] = []
        files: list[Part] = []
        for inner in part.parts:
            if isinstance(inner, TextPart):
                texts.append(inner.text)
                continue
            for one in self._file(inner, path):
                if one.text is not None:
                    texts.append(one.text)
                else:
                    files.append(one)
        call_id = self._ids.of(part.call_id)
        inside: list[ResponsePart] = []
        if files and self._profile.tool_images == "native":
            inside = [ResponsePart(one.inline_data, one.file_data) for one in files]
        elif files:
            self._losses.append(Loss("tool_image_moved", turn.path, f"of call {part.call_id}"))
            texts += [f"[file {at} of call {call_id} follows]" for at in range(1, len(files) + 1)]
            moved += [Part(text=f"[files of call {call_id}]"), *files]
        key = "error" if part.is_error else "output"
        response = FunctionResponse(
            self._names.get(part.call_id, ""),
            Raw(encode({key: "\n".join(text for text in texts if text)})),
            call_id if self._profile.send_ids else None,
            inside or None,
        )
        return Part(function_response=response)

    # --- files ------------------------------------------------------------------------------------

    def _file(self, part: ImagePart | DocumentPart | SearchResultPart, path: str) -> list[Part]:
        """Return a file, or a document that is text as text.

        Raises:
            UntranslatableError: the upstream does not take it; a file is never dropped silently.
        """
        match part:
            case SearchResultPart():
                return [Part(text=search_result_text(part, path, self._losses))]
            case ImagePart():
                return [self._image(part, path)]
            case DocumentPart():
                return self._document(part, path)
            case _:
                assert_never(part)

    def _image(self, part: ImagePart, path: str) -> Part:
        check_image(part, self._profile, path, refused=())
        report_detail(part, path, self._losses)
        match part.source:
            case Base64Source(media_type=media_type, data=data):
                return Part(inline_data=Blob(media_type, data))
            case UrlSource() | FileSource():
                return _stored(part.source, "image/jpeg", path)
            case _:
                assert_never(part.source)

    def _document(self, part: DocumentPart, path: str) -> list[Part]:
        before = [Part(text=part.context)] if part.context else []
        if part.cite:
            self._losses.append(Loss("citations_dropped", path))
        match part.source:
            case None | TextSource():
                self._losses.append(Loss("content_flattened", path, "a document became text"))
                images = [one for one in part.parts if isinstance(one, ImagePart)]
                document = Part(text=document_text(part))
                return [*before, document, *(self._image(one, path) for one in images)]
            case Base64Source(media_type=media_type, data=data):
                check_documents(self._profile, path)
                kind = media_type or PDF
                return [*before, Part(inline_data=Blob(kind, data, part.title or None))]
            case UrlSource() | FileSource():
                check_documents(self._profile, path)
                return [*before, _stored(part.source, PDF, path, part.title)]
            case _:
                assert_never(part.source)


def _stored(source: UrlSource | FileSource, usual: str, path: str, title: str = "") -> Part:
    """Return a file at a URI; Google demands its type, and knows that of a file which it stores."""
    if isinstance(source, UrlSource):
        uri = source.url
        media_type = source.media_type or media_type_of(uri) or usual
    else:
        uri, media_type = stored_file(source, VENDOR, path), source.media_type
    return Part(file_data=FileData(uri, media_type or None, title or None))


def _is_call(part: Part | Raw) -> bool:
    return isinstance(part, Part) and part.function_call is not None


def _is_response(part: Part | Raw) -> bool:
    return isinstance(part, Part) and part.function_response is not None
