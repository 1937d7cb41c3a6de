"""Encodes turns as the messages of a Messages upstream."""

import base64
import binascii
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import Final, TypeAlias, assert_never

from msgspec import Raw, Struct

from dragoman.context import Target
from dragoman.dialects.anthropic import schema
from dragoman.dialects.encoding import utf8
from dragoman.dialects.history_policy import (
    CONTINUED,
    GO_ON,
    ReplayPolicy,
    as_reminder,
    check_documents,
    check_image,
    continues,
    file_of_assistant,
    foreign_text,
    go_on_loss,
    own_origins,
    place_instructions,
    reasoning_loss,
    report_detail,
    split_leading,
    stored_file,
    takes_instructions,
)
from dragoman.dialects.paths import path_of
from dragoman.dialects.tool_policy import object_arguments
from dragoman.errors import UntranslatableError
from dragoman.ids import UpstreamIds
from dragoman.profiles.profile import Profile
from dragoman.turn.events import OpaqueKind
from dragoman.turn.history import normalize_history
from dragoman.turn.losses import Loss
from dragoman.turn.request import (
    ASSISTANT,
    SYSTEM,
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
    Request,
    Role,
    SearchResultPart,
    ServerToolPart,
    TextPart,
    TextSource,
    Tool,
    ToolCallPart,
    ToolResultPart,
    Turn,
    UrlSource,
)
from dragoman.turn.tools import made_once, wire_name

# --- cache marks ----------------------------------------------------------------------------------

MOST: Final = 4

_SHORT: Final = schema.CacheControl()

_LONG: Final = schema.CacheControl("1h")


class CacheMarks:
    """Hand out a request's marks in the order tools, system, messages; the first ones may be too many.

    They are counted when the first one is handed out: most requests have none.
    """

    def __init__(self, skipped: int | Callable[[], int]) -> None:
        self._skipped = skipped

    @property
    def skipped(self) -> int:
        """How many of the next ones are left out."""
        if not isinstance(self._skipped, int):
            self._skipped = self._skipped()
        return self._skipped

    @skipped.setter
    def skipped(self, skipped: int) -> None:
        self._skipped = skipped

    def take(self, hint: CacheHint | None) -> schema.CacheControl | None:
        """Return the mark for a hint, unless it is one too many."""
        if hint is None:
            return None
        if self.skipped:
            self.skipped -= 1
            return None
        return _LONG if hint.long else _SHORT


def marks_of(request: Request, losses: list[Loss]) -> CacheMarks:
    """Return the marks of a request; if there are too many, that is the first loss."""

    def too_many() -> int:
        total = marked_tools(request.tools, None)
        total += sum(text.cache is not None for text in request.system)
        total += sum(_marked(turn.parts) for turn in request.turns)
        skipped = max(0, total - (MOST - (request.cache_all is not None)))
        if skipped:
            detail = f"the first {skipped} of {total}"
            losses.insert(0, Loss("cache_hint_dropped", "$.cache_control", detail))
        return skipped

    return CacheMarks(too_many)


def mark_of(hint: CacheHint | None) -> schema.CacheControl | None:
    """Return the mark for a hint on the whole prefix."""
    return None if hint is None else _LONG if hint.long else _SHORT


@made_once
def marked_tools(tools: tuple[Tool, ...], _target: None) -> int:
    """Return how many of the tools have a mark."""
    return sum(tool.cache is not None for tool in tools)


def _marked(parts: Iterable[Part]) -> int:
    """Return how many of the parts, and of those inside them, have a mark."""
    count = 0
    for part in parts:
        if isinstance(part, ToolResultPart):
            count += _marked(part.parts) + (part.cache is not None)
        elif isinstance(part, TextPart | ImagePart | DocumentPart | SearchResultPart):
            count += part.cache is not None
    return count


# --- images, documents, search results ------------------------------------------------------------

FilePart: TypeAlias = ImagePart | DocumentPart | SearchResultPart

FileBlock: TypeAlias = schema.ImageBlock | schema.DocumentBlock | schema.SearchResultBlock

DocumentSource: TypeAlias = (
    schema.Base64Source
    | schema.UrlSource
    | schema.FileSource
    | schema.TextSource
    | schema.ContentSource
)

_PDF: Final = "application/pdf"
_PDFS: Final = frozenset({"", _PDF})

_IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})

# What an image begins with: those that the vendor takes, and those that it refuses.
_SIGNATURES: Final[tuple[tuple[bytes, str], ...]] = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"II*\x00", "image/tiff"),
    (b"MM\x00*", "image/tiff"),
)


class Files:
    """Encode the files of one request."""

    def __init__(self, profile: Profile, marks: CacheMarks, losses: list[Loss]) -> None:
        self._profile = profile
        self._marks = marks
        self._losses = losses

    def encode(self, part: FilePart, path: str) -> FileBlock:
        """Return the block for a file.

        Raises:
            UntranslatableError: the upstream does not take it; a file is never dropped silently.
        """
        match part:
            case ImagePart():
                return self._image(part, path)
            case DocumentPart():
                return self._document(part, path)
            case SearchResultPart():
                texts = [schema.TextBlock(one.text) for one in part.parts if one.text.strip()]
                flag, mark = _citations(cite=part.cite), self._marks.take(part.cache)
                return schema.SearchResultBlock(part.source, part.title, texts, flag, mark)
            case _:
                assert_never(part)

    def _image(self, part: ImagePart, path: str) -> schema.ImageBlock:
        check_image(part, self._profile, path)
        report_detail(part, path, self._losses)
        source: schema.Base64Source | schema.UrlSource | schema.FileSource
        match part.source:
            case Base64Source(media_type=media_type, data=data):
                source = schema.Base64Source(_image_type(media_type, data, path), data)
            case UrlSource(url=url):
                source = schema.UrlSource(url)
            case FileSource():
                source = schema.FileSource(stored_file(part.source, schema.VENDOR, path))
            case _:
                assert_never(part.source)
        return schema.ImageBlock(source, self._marks.take(part.cache))

    def _document(self, part: DocumentPart, path: str) -> schema.DocumentBlock:
        return schema.DocumentBlock(
            self._document_source(part, path),
            part.title or None,
            part.context or None,
            _citations(cite=part.cite),
            self._marks.take(part.cache),
        )

    def _document_source(self, part: DocumentPart, path: str) -> DocumentSource:
        match part.source:
            case None:
                return schema.ContentSource(
                    [
                        schema.TextBlock(inner.text)
                        if isinstance(inner, TextPart)
                        else self._image(inner, path)
                        for inner in part.parts
                    ]
                )
            case TextSource(text=text):
                return schema.TextSource(text)
            case Base64Source(media_type=media_type, data=data) if media_type.startswith("text/"):
                return schema.TextSource(_plain_text(data, path))
            case FileSource():
                return schema.FileSource(stored_file(part.source, schema.VENDOR, path))
            case Base64Source(media_type=kind) | UrlSource(media_type=kind) if kind not in _PDFS:
                taken = "PDF" if isinstance(part.source, UrlSource) else "PDF and plain text"
                reason = f"this model accepts {taken}, not `{kind}`"
                raise UntranslatableError(reason, path=path, code="unsupported_document")
            case Base64Source(data=data):
                check_documents(self._profile, path)
                return schema.Base64Source(_PDF, data)
            case UrlSource(url=url):
                check_documents(self._profile, path)
                return schema.UrlSource(url)
            case _:
                assert_never(part.source)


def _citations(*, cite: bool) -> schema.CitationsFlag | None:
    return schema.CitationsFlag(enabled=True) if cite else None


def _image_type(media_type: str, data: str, path: str) -> str:
    """Return an image's type by its first bytes; the declared type is used only if these are not known."""
    try:
        head = base64.b64decode(data[:32])
    except (binascii.Error, ValueError):
        head = b""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        found = "image/webp"
    else:
        declared = "image/jpeg" if media_type == "image/jpg" else media_type
        found = next((kind for mark, kind in _SIGNATURES if head.startswith(mark)), declared)
    if found not in _IMAGE_TYPES:
        reason = f"this model accepts JPEG, PNG, GIF and WebP images, not `{found}`"
        raise UntranslatableError(reason, path=path, code="invalid_image_format")
    return found


def _plain_text(data: str, path: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        raise UntranslatableError("a document's data is not base64", path=path) from None


# --- messages -------------------------------------------------------------------------------------
# The upstream demands: roles take turns, a user comes first, results come first in their turn and in the
# order of their calls, no empty text; and Anthropic itself, no thinking that it did not sign.

OutBlock: TypeAlias = schema.Block | Raw

_THINKING: Final = frozenset({schema.ThinkingBlock, schema.RedactedBlock})

_role_of: Final = attrgetter("role")


class OutMessage(Struct):
    """A message being put together."""

    role: Role
    content: list[OutBlock]


class HistoryWriter:
    """The conversation, for one upstream."""

    def __init__(
        self, request: Request, target: Target, marks: CacheMarks, losses: list[Loss]
    ) -> None:
        self._request = request
        self._target = target
        self._profile = target.profile
        self._marks = marks
        self._losses = losses
        self._files = Files(target.profile, marks, losses)
        self._ids = UpstreamIds(target.profile.id_style, target.known_ids)
        self.leading: tuple[Turn, ...]  # instructions that are part of the system prompt
        self.leading, turns = split_leading(request.turns)
        self._turns = normalize_history(
            turns, losses, strict=target.strict, repair=target.repair_history
        )
        self._thought = False  # thinking was written
        relayed = request.dialect == "anthropic"
        self._own_origins = own_origins(target.profile, schema.VENDOR, relayed=relayed)
        self._takes_unsigned = not target.profile.signed_reasoning
        self._unsigned = False  # the present turn gets unsigned thinking back
        self._messages: list[OutMessage] = []

    def encode(self) -> list[OutMessage]:
        """Return the messages.

        Raises:
            UntranslatableError: a part has no form that the upstream takes.
        """
        messages: list[OutMessage] = []
        last: OutMessage | None = None
        instructed = SYSTEM in map(_role_of, self._turns)
        turns = self._place_instructions() if instructed else self._turns
        replay = ReplayPolicy(turns, self._profile)
        for at, turn in enumerate(turns):
            calls = any(type(part) is ToolCallPart for part in turn.parts)
            self._unsigned = self._takes_unsigned and replay.wants(at, calls=calls)
            blocks = self._blocks(turn)
            if calls and self._unsigned and self._profile.reasoning_filler:
                self._fill_thinking(blocks, turn)
            if not blocks:
                continue
            if last is not None and last.role is turn.role:
                last.content += blocks
            else:
                last = OutMessage(turn.role, blocks)
                messages.append(last)
        if self._thought:
            messages = self._end_assistant_turns(messages)
        if not messages or messages[0].role is ASSISTANT:
            self._losses.append(Loss("turn_added", path_of(self._request, "messages"), CONTINUED))
            messages.insert(0, OutMessage(USER, [schema.TextBlock(CONTINUED)]))
        if messages[-1].role is ASSISTANT:
            self._prefill(messages)
        self._messages = messages
        return messages

    # --- instructions between turns -------------------------------------------------------------

    def _place_instructions(self) -> Sequence[Turn]:
        """Put each instruction behind a user turn, where Messages takes one, or make it marked user text."""
        if not takes_instructions(self._profile):
            return place_instructions(self._turns, self._profile, self._losses)
        placed: list[Turn] = []
        waiting: list[Turn] = []  # instructions after an assistant turn
        for turn in self._turns:
            if turn.role is not SYSTEM:
                placed.append(turn)
                if turn.role is USER:
                    placed += waiting
                    waiting.clear()
            elif placed and placed[-1].role is not ASSISTANT:
                placed.append(turn)
            else:
                waiting.append(turn)
        return placed + [as_reminder(turn, self._losses) for turn in waiting]

    # --- the last turn ----------------------------------------------------------------------------

    def _end_assistant_turns(self, messages: Sequence[OutMessage]) -> list[OutMessage]:
        """Remove thinking blocks from the end of assistant turns, and turns that are then empty: the API refuses both."""
        for message in messages:
            content = message.content
            while content and type(content[-1]) in _THINKING:
                content.pop()
                path = path_of(self._request, "messages")
                detail = "an assistant's turn cannot end with thinking"
                self._losses.append(Loss("reasoning_dropped", path, detail))
        return _merged(message for message in messages if message.content)

    def _prefill(self, messages: list[OutMessage]) -> None:
        """Let the upstream continue an assistant message at the end, or append a user message."""
        content = messages[-1].content
        last = content[-1]
        if not isinstance(last, schema.TextBlock):
            return  # a turn of the vendor's own tools that goes on
        if continues(self._request, self._profile):
            # A text to be continued may not end in white space.
            content[-1] = schema.TextBlock(last.text.rstrip(), last.citations, last.cache_control)
            return
        self._losses.append(go_on_loss(self._request, self._target))
        messages.append(OutMessage(USER, [schema.TextBlock(GO_ON)]))

    def lacks_thinking(self) -> bool:
        """Return whether the tool loop that was written last begins without signed thinking."""
        first: OutMessage | None = None
        for message in reversed(self._messages):
            if message.role is ASSISTANT:
                first = message
            elif message.role is USER and type(message.content[0]) is not schema.ToolResultBlock:
                break  # results come first in their turn
        if first is None or self._messages[-1].role is ASSISTANT:
            return False
        return type(first.content[0]) not in _THINKING

    # --- parts ------------------------------------------------------------------------------------

    def _blocks(self, turn: Turn) -> list[OutBlock]:
        blocks: list[OutBlock] = []
        for part in turn.parts:
            if type(part) is TextPart and part.cache is None and not part.citations:
                if part.text and not part.text.isspace():  # blank text is refused like no text
                    blocks.append(schema.TextBlock(part.text))
            elif type(part) is ToolCallPart:
                blocks.append(self._call(part, turn))
            elif type(part) is ToolResultPart:
                blocks.append(self._result(part, turn))
            elif (block := self._block(part, turn)) is not None:
                blocks.append(block)
        return blocks

    def _block(self, part: Part, turn: Turn) -> OutBlock | None:
        match part:
            case TextPart():
                return self._text(part, turn)
            case RefusalPart(text=text):
                return schema.TextBlock(text) if text.strip() else None
            case ToolCallPart():
                return self._call(part, turn)
            case ToolResultPart():
                return self._result(part, turn)
            case ReasoningPart():
                return self._reasoning(part, turn)
            case ServerToolPart(vendor=vendor, summary=summary, raw=raw, origin=origin):
                if vendor == schema.VENDOR and origin in ("", self._target.profile.origin):
                    return raw
                self._losses.append(Loss("content_flattened", turn.path, summary))
                return schema.TextBlock(summary) if summary.strip() else None
            case OpaquePart():
                return self._opaque(part, turn)
            case ImagePart() | DocumentPart() | SearchResultPart():
                if turn.role is ASSISTANT:
                    self._losses.append(file_of_assistant(turn.path))
                    return None
                return self._files.encode(part, turn.path)
            case AudioPart():
                raise UntranslatableError("this model does not accept audio", path=turn.path)
            case _:
                assert_never(part)

    def _text(self, part: TextPart, turn: Turn) -> schema.TextBlock | None:
        if not part.text or part.text.isspace():
            return None
        citations: list[Raw] | None = None
        if part.citations:
            if part.vendor == schema.VENDOR:
                citations = list(part.citations)
            else:
                self._losses.append(Loss("citations_dropped", turn.path))
        return schema.TextBlock(part.text, citations, self._marks.take(part.cache))

    def _opaque(self, part: OpaquePart, turn: Turn) -> OutBlock | None:
        if part.vendor == schema.VENDOR:
            return part.raw
        text = foreign_text(part, turn.path, self._losses)
        return schema.TextBlock(text) if text else None

    def _reasoning(
        self, part: ReasoningPart, turn: Turn
    ) -> schema.ThinkingBlock | schema.RedactedBlock | None:
        """Give thinking back to the upstream that signed it, and unsigned text where it is taken."""
        for state in part.opaque:
            if state.origin not in self._own_origins:
                continue
            self._thought = True
            if state.kind is OpaqueKind.SIGNATURE:
                return schema.ThinkingBlock(part.text, state.data)
            if state.kind is OpaqueKind.REDACTED:
                return schema.RedactedBlock(state.data)
        plain = all(state.kind is OpaqueKind.PLAIN for state in part.opaque)
        if self._unsigned and plain and part.text:
            self._thought = True
            return schema.ThinkingBlock(part.text, "")
        self._losses.append(reasoning_loss(part, turn.path))
        return None

    def _fill_thinking(self, blocks: list[OutBlock], turn: Turn) -> None:
        """Put a placeholder before calls whose thinking the upstream demands and the history lacks."""
        if self._request.reasoning.mode == "off" or any(type(one) in _THINKING for one in blocks):
            return
        self._losses.append(Loss("reasoning_filled", turn.path))
        blocks.insert(0, schema.ThinkingBlock(self._profile.reasoning_filler, ""))

    def _call(self, part: ToolCallPart, turn: Turn) -> schema.ToolUseBlock:
        name = wire_name(part.name, part.namespace)
        if part.opaque:
            self._losses.append(Loss("opaque_dropped", turn.path, f"signature of call {part.id}"))
        arguments = object_arguments(part, self._target.limits, self._losses, turn.path)
        given = Raw(utf8(arguments))
        return schema.ToolUseBlock(self._ids.of(part.id, name), name, given)

    def _result(self, part: ToolResultPart, turn: Turn) -> schema.ToolResultBlock:
        only = part.parts[0] if len(part.parts) == 1 else None
        content: str | list[schema.ResultBlock] | None
        if type(only) is TextPart and only.cache is None and not only.citations:
            content = only.text if only.text and not only.text.isspace() else None
        else:
            content = self._result_content(part, turn)
        mark = None if part.cache is None else self._marks.take(part.cache)
        failed = True if part.is_error else None
        return schema.ToolResultBlock(self._ids.of(part.call_id), content, failed, mark)

    def _result_content(
        self, part: ToolResultPart, turn: Turn
    ) -> str | list[schema.ResultBlock] | None:
        blocks: list[schema.ResultBlock] = []
        for inner in part.parts:
            if isinstance(inner, TextPart):
                text = self._text(inner, turn)
                if text is not None:
                    blocks.append(text)
            else:
                path = turn.path or path_of(self._request, "messages")
                blocks.append(self._files.encode(inner, path))
        if len(blocks) == 1 and isinstance(blocks[0], schema.TextBlock):
            only = blocks[0]
            if only.cache_control is None and only.citations is None:
                return only.text
        return blocks or None


def _merged(messages: Iterable[OutMessage]) -> list[OutMessage]:
    out: list[OutMessage] = []
    for message in messages:
        if out and out[-1].role == message.role:
            out[-1].content += message.content
        else:
            out.append(message)
    return out
