"""Decodes the content blocks of a client's history into parts.

Knows each block type; must not know what a target can take.  Blocks that only their vendor understands
keep their bytes.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias, TypeVar, assert_never

import msgspec
from msgspec import Raw, structs

from dragoman.dialects.anthropic import schema
from dragoman.dialects.anthropic.schema import TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.dialects.decoding import decode_at
from dragoman.dialects.history_policy import check_call_name
from dragoman.dialects.paths import entry_paths
from dragoman.dialects.sealing import unseal
from dragoman.dialects.server_tools import is_minted, open_server
from dragoman.envelopes import Sealer
from dragoman.errors import MalformedError
from dragoman.turn.events import Channel, OpaqueKind
from dragoman.turn.losses import Loss
from dragoman.turn.request import (
    ASSISTANT,
    SYSTEM,
    Base64Source,
    CacheHint,
    DocumentPart,
    FileSource,
    ImagePart,
    OpaquePart,
    OpaqueState,
    Part,
    ReasoningPart,
    ReasoningSegment,
    Role,
    SearchResultPart,
    ServerToolPart,
    TextPart,
    TextSource,
    ToolCallPart,
    ToolResultPart,
    Turn,
    UrlSource,
)
from dragoman.wire.json_values import decode_any

_BLOCK: Final[msgspec.json.Decoder[schema.Block]] = msgspec.json.Decoder(schema.Block)

_HEAD: Final = msgspec.json.Decoder(schema.BlockHead)

# Blocks of a user that no other vendor has a place for.
_USER_OPAQUE: Final = frozenset({"container_upload"})

# Reasoning that its upstream showed in full; all other state goes with a summary.
_FULL_KINDS: Final = frozenset({OpaqueKind.PLAIN, OpaqueKind.DETAILS})

_CITATION: Final = msgspec.json.Decoder(schema.WireCitation)
_HITS: Final[msgspec.json.Decoder[list[schema.SearchHit]]] = msgspec.json.Decoder(
    list[schema.SearchHit]
)

_SUMMARY_CHARS: Final = 500  # of what a vendor-run tool did, for readers without its blocks

T = TypeVar("T")

ResultPart: TypeAlias = TextPart | ImagePart | DocumentPart | SearchResultPart


def cache_hint(mark: schema.CacheControl | None) -> CacheHint | None:
    """Return the hint behind a cache mark."""
    return None if mark is None else CacheHint(long=mark.ttl == "1h")


def decode_messages(
    messages: Sequence[schema.Message | schema.RawMessage],
    sealer: Sealer | None,
    losses: list[Loss],
) -> tuple[tuple[Turn, ...], tuple[str, ...]]:
    """Return the turns of a conversation, and the tools that a search of the client's own has found.

    Raises:
        MalformedError: a block is not of the dialect, or no target could take it.
    """
    turns: list[Turn] = []
    decoder: _PartDecoder | None = None  # made when there is something for it to do
    for path, message in zip(entry_paths("messages", len(messages)), messages, strict=False):
        content = message.content
        if isinstance(content, str):
            text_parts = (TextPart(content),) if content else ()
            turns.append(Turn(message.role, text_parts, "", "", path))
            continue
        parts: list[Part] = []
        # Plain blocks of the most frequent sorts are read here: each step less counts.
        for block in content:
            if type(block) is ToolUseBlock:
                arguments = str(block.input, "utf-8")
                if arguments[:1] == "{" and block.name:
                    parts.append(ToolCallPart(block.id, block.name, arguments))
                    continue
            elif type(block) is ToolResultBlock:
                text = block.content
                if type(text) is str and text and not block.is_error and not block.cache_control:
                    parts.append(ToolResultPart(block.tool_use_id, (TextPart(text),)))
                    continue
            elif type(block) is TextBlock and not block.cache_control and not block.citations:
                parts.append(TextPart(block.text))
                continue
            decoder = decoder or _PartDecoder(sealer, losses)
            parts = decoder.decode(content, message.role, path)
            break
        turns.append(Turn(message.role, tuple(parts), "", "", path))
    return tuple(turns), () if decoder is None else tuple(decoder.references)


class _PartDecoder:
    """Decode messages that hold something else than plain blocks."""

    def __init__(self, sealer: Sealer | None, losses: list[Loss]) -> None:
        self._sealer = sealer
        self._losses = losses
        self._path = ""  # of the block that is decoded
        # Signatures of calls, which travel in separate blocks, by the call's id.
        self._signatures: list[tuple[str, OpaqueState]] = []
        # Calls and results of vendor-run tools that were made here: the parts that replace them, by identity.
        self._calls: dict[str, ServerToolPart] = {}
        self._restored: dict[int, list[ServerToolPart]] = {}
        self.references: list[str] = []  # tools that a search of the client's own has found

    def decode(self, blocks: Sequence[schema.Block | Raw], role: Role, path: str) -> list[Part]:
        """Return the parts of one message."""
        parts: list[Part] = []
        for at, block in enumerate(blocks):
            self._path = f"{path}.content[{at}]"
            part = self._raw(block, role) if isinstance(block, Raw) else self._block(block)
            if part is not None:
                parts.append(part)
        if self._restored:
            parts = self._restore(parts)
        if self._signatures:
            self._sign(parts, path)
        return parts

    def _block(self, block: schema.Block) -> Part | None:
        match block:
            case schema.TextBlock():
                return text_part(block)
            case schema.ToolUseBlock():
                return self._call(block)
            case schema.ToolResultBlock():
                return self._result(block)
            case schema.ThinkingBlock():
                return self._thinking(block)
            case schema.RedactedBlock():
                return self._redacted(block)
            case schema.ImageBlock():
                return image_part(block)
            case schema.DocumentBlock():
                return document_part(block)
            case schema.SearchResultBlock():
                return search_part(block)
            case _:
                assert_never(block)

    def _raw(self, raw: Raw, role: Role) -> Part | None:
        """Decode a block of which only the bytes are known."""
        path = self._path
        head = _at(path, _HEAD, raw)
        if head.type in schema.BLOCK_TYPES:
            return self._block(_at(path, _BLOCK, raw))
        if head.type in _USER_OPAQUE or role is SYSTEM:
            return OpaquePart(schema.VENDOR, raw, path=path)
        if role is not ASSISTANT:
            reason = f"content blocks of type `{head.type}` are not supported here"
            raise MalformedError(reason, path=path, code="unsupported_content_block")
        if head.type.endswith(("_tool_use", "_tool_result")):
            return self._server_part(head, raw)
        if head.type == "compaction":
            text = _readable(head.content)
            return OpaquePart(schema.VENDOR, raw, text, "" if text else path)
        return OpaquePart(schema.VENDOR, raw)

    def _server_part(self, head: schema.BlockHead, raw: Raw) -> ServerToolPart:
        """Decode the call or the result of a vendor-run tool.

        Those that were made here for another vendor's tool are replaced by that vendor's own, if the envelope
        opens; otherwise no vendor takes them.
        """
        call_id = head.id or head.tool_use_id or ""
        if not any(is_minted(call_id, prefix) for prefix in ("srvtoolu_", "mcptoolu_")):
            return ServerToolPart(schema.VENDOR, _summary(head), raw)
        part = ServerToolPart("", _summary(head), raw)
        if head.id:
            self._calls[call_id] = part
            return part
        hits = _hits(head.content)
        sealed = hits[0].encrypted_content or "" if hits else ""
        own = open_server(sealed, self._sealer, call_id, self._losses, self._path)
        if own is not None:
            self._restored[id(part)] = own
            if call_id in self._calls:
                self._restored[id(self._calls[call_id])] = []
        return part

    def _restore(self, parts: list[Part]) -> list[Part]:
        restored: list[Part] = []
        for part in parts:
            own = self._restored.get(id(part)) if type(part) is ServerToolPart else None
            restored += [part] if own is None else own
        self._restored.clear()
        return restored

    def _call(self, block: schema.ToolUseBlock) -> ToolCallPart:
        arguments = bytes(block.input).decode() or "{}"
        if not arguments.startswith("{"):
            raise MalformedError(
                "the input of a tool call must be an object", path=f"{self._path}.input"
            )
        check_call_name(block.name, f"{self._path}.name")
        return ToolCallPart(block.id, block.name, arguments)

    def _result(self, block: schema.ToolResultBlock) -> ToolResultPart:
        content = block.content
        parts: tuple[ResultPart, ...] = ()
        if isinstance(content, str):
            parts = (TextPart(content),) if content else ()
        elif content:
            parts = tuple(self._result_part(inner, at) for at, inner in enumerate(content))
        mark = block.cache_control
        cache = None if mark is None else cache_hint(mark)
        return ToolResultPart(block.tool_use_id, parts, bool(block.is_error), cache=cache)

    def _result_part(self, block: schema.ResultBlock, at: int) -> ResultPart:
        match block:
            case schema.TextBlock():
                return text_part(block)
            case schema.ImageBlock():
                return image_part(block)
            case schema.DocumentBlock():
                return document_part(block)
            case schema.SearchResultBlock():
                return search_part(block)
            case schema.ToolReference(tool_name=name):
                self.references.append(name)
                path = f"{self._path}.content[{at}]"
                self._losses.append(Loss("tool_content_flattened", path, f"reference to {name}"))
                return TextPart(f"The tool {name} is now available.")
            case _:
                assert_never(block)

    def _thinking(self, block: schema.ThinkingBlock) -> ReasoningPart | None:
        opened = unseal(
            block.signature,
            block.thinking,
            sealer=self._sealer,
            native_kind=OpaqueKind.SIGNATURE,
            native_origin=schema.VENDOR,
            losses=self._losses,
            path=f"{self._path}.signature",
        )
        full = opened.state is not None and opened.state.kind in _FULL_KINDS
        channel = Channel.FULL if full else Channel.SUMMARY
        segments = (ReasoningSegment(opened.text, channel),) if opened.text else ()
        opaque = () if opened.state is None else (opened.state,)
        return ReasoningPart(segments, opaque) if segments or opaque else None

    def _redacted(self, block: schema.RedactedBlock) -> ReasoningPart | None:
        opened = unseal(
            block.data,
            "",
            sealer=self._sealer,
            native_kind=OpaqueKind.REDACTED,
            native_origin=schema.VENDOR,
            losses=self._losses,
            path=f"{self._path}.data",
        )
        if opened.state is None:
            return None
        if opened.state.kind is OpaqueKind.TOOL_SIGNATURE:
            self._signatures.append((opened.call_id, opened.state))
            return None
        segments = (ReasoningSegment(opened.text),) if opened.text else ()
        return ReasoningPart(segments, (opened.state,))

    def _sign(self, parts: list[Part], path: str) -> None:
        """Give each call the signature that was sent beside it."""
        for call_id, state in self._signatures:
            for at, part in enumerate(parts):
                if isinstance(part, ToolCallPart) and part.id == call_id:
                    parts[at] = structs.replace(part, opaque=(*part.opaque, state))
                    break
            else:
                detail = f"the call {call_id} that it signs is not in this message"
                self._losses.append(Loss("opaque_invalid", path, detail))
        self._signatures.clear()


def text_part(block: schema.TextBlock) -> TextPart:
    """Return a text with its citations."""
    if block.citations is None and block.cache_control is None:
        return TextPart(block.text)
    cache = cache_hint(block.cache_control)
    if not block.citations:
        return TextPart(block.text, cache)
    # One without an index was made here; its vendor refuses it.
    own = tuple(raw for raw in block.citations if _is_genuine(raw))
    return TextPart(block.text, cache, own, schema.VENDOR if own else "")


def _is_genuine(raw: Raw) -> bool:
    try:
        citation = _CITATION.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return True
    return citation.type != "web_search_result_location" or bool(citation.encrypted_index)


def _hits(content: Raw) -> list[schema.SearchHit]:
    try:
        return _HITS.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return []


def image_part(block: schema.ImageBlock) -> ImagePart:
    """Return an image."""
    return ImagePart(_file_source(block.source), cache=cache_hint(block.cache_control))


def document_part(block: schema.DocumentBlock) -> DocumentPart:
    """Return a document, whose content may itself be parts."""
    source: Base64Source | UrlSource | FileSource | TextSource | None = None
    parts: tuple[TextPart | ImagePart, ...] = ()
    match block.source:
        case schema.TextSource(data=data):
            source = TextSource(data)
        case schema.ContentSource(content=content):
            inner = [schema.TextBlock(content)] if isinstance(content, str) else content
            parts = tuple(
                text_part(one) if isinstance(one, schema.TextBlock) else image_part(one)
                for one in inner
            )
        case other:
            source = _file_source(other)
    return DocumentPart(
        source,
        block.title or "",
        block.context or "",
        _cites(block.citations),
        parts,
        cache_hint(block.cache_control),
    )


def search_part(block: schema.SearchResultBlock) -> SearchResultPart:
    """Return a search result that the client found itself."""
    parts = tuple(text_part(inner) for inner in block.content)
    cache, cite = cache_hint(block.cache_control), _cites(block.citations)
    return SearchResultPart(block.source, block.title, parts, cache, cite)


def _cites(flag: schema.CitationsFlag | None) -> bool:
    return flag is not None and flag.enabled


def _file_source(
    source: schema.Base64Source | schema.UrlSource | schema.FileSource,
) -> Base64Source | UrlSource | FileSource:
    match source:
        case schema.Base64Source(media_type=media_type, data=data):
            return Base64Source(media_type, data)
        case schema.UrlSource(url=url):
            return UrlSource(url)
        case schema.FileSource(file_id=file_id):
            return FileSource(file_id, schema.VENDOR)
        case _:
            assert_never(source)


def _at(path: str, decoder: msgspec.json.Decoder[T], raw: Raw) -> T:
    """Decode a block; errors name its place in the whole request."""
    try:
        return decode_at(decoder, raw, path)
    except MalformedError as error:
        if error.path.endswith(".type") and error.reason.startswith("invalid value"):
            code = "unsupported_content_block"
            raise MalformedError(error.reason, path=error.path, code=code) from None
        raise


def _summary(head: schema.BlockHead) -> str:
    """Return one line about what a vendor-run tool was asked, or what it found."""
    if head.type.endswith("_tool_use"):
        asked = _free(head.input)
        query = asked.get("query", asked.get("url", "")) if isinstance(asked, dict) else ""
        detail = query if isinstance(query, str) and query else bytes(head.input).decode()
        return f"[{head.name or head.type}: {detail}]"[:_SUMMARY_CHARS]
    found = _free(head.content)
    lines = [
        " ".join(str(entry[key]) for key in ("title", "url", "text") if entry.get(key))
        for entry in (found if isinstance(found, list) else [found])
        if isinstance(entry, dict)
    ]
    listed = "; ".join(line for line in lines if line)
    kind = head.type.removesuffix("_tool_result")
    return f"[{kind} result: {listed or 'not shown'}]"[:_SUMMARY_CHARS]


def _readable(content: Raw) -> str:
    value = _free(content)
    return value if isinstance(value, str) else ""


def _free(raw: Raw) -> object:
    try:
        return decode_any(raw) if raw else None
    except msgspec.DecodeError:
        return None
