"""Decodes the contents of a client's history into turns.

Clients replay what they streamed: one content for each chunk, texts in pieces, thoughts or none.  Neighbours of
one role are joined first.  Calls may have no ids, results may name no call: they are paired here, so that the
turn always has ids.
"""

import base64
import binascii
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from operator import itemgetter
from typing import Final, NamedTuple, TypeAlias, TypeVar

import msgspec
from msgspec import Raw, Struct, structs

from dragoman.dialects.decoding import decode, decode_at, decode_fields, valid_utf8
from dragoman.dialects.encoding import compact, encode
from dragoman.dialects.gemini.block_reader import (
    TEXT_SIGNATURE,
    PartialCall,
    read_mcp,
    signature_data,
)
from dragoman.dialects.gemini.schema import (
    MCP_ID,
    NO_RAW,
    PLACEHOLDERS,
    SERVER_CALLS,
    SERVER_RESULTS,
    VENDOR,
    Blob,
    ClientContent,
    ClientPart,
    FileData,
    FunctionCall,
    FunctionResponse,
    Part,
    RawContent,
    detail_of,
    fields_of,
    given,
)
from dragoman.dialects.history_policy import check_call_name, media_type_of
from dragoman.dialects.paths import entry_paths
from dragoman.dialects.server_tools import is_minted
from dragoman.envelopes import BASE64_PREFIX, Envelope, Sealer, is_envelope
from dragoman.errors import MalformedError
from dragoman.limits import DEFAULT_LIMITS
from dragoman.turn.events import Channel, OpaqueKind
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
    ReasoningSegment,
    Role,
    ServerToolPart,
    TextPart,
    TextSource,
    ToolCallPart,
    ToolResultPart,
    Turn,
    UrlSource,
)
from dragoman.turn.request import Part as TurnPart
from dragoman.turn.server_tools import summary_of

_CONTENT: Final = msgspec.json.Decoder(ClientContent)
_ANY_CONTENT: Final = msgspec.json.Decoder(RawContent)
_PART: Final = msgspec.json.Decoder(ClientPart)
_ANY_PART: Final = msgspec.json.Decoder(Part)
# `function` and `tool` are old names of the role `user`.
_ROLES: Final[dict[str, Role]] = {
    "": USER,
    "user": USER,
    "function": USER,
    "tool": USER,
    "model": ASSISTANT,
}
_FIELDS: Final = frozenset(
    {*ClientContent.__struct_encode_fields__, *ClientPart.__struct_encode_fields__}
)
_PAYLOADS: Final[dict[str, type[Struct]]] = {
    "inlineData": Blob,
    "fileData": FileData,
    "functionCall": FunctionCall,
    "functionResponse": FunctionResponse,
}
# Fields of a result that hold nothing but the output; SDKs choose different ones.
_OUTPUTS: Final = ("output", "result", "return_value", "content")
_TEXT: Final = msgspec.json.Decoder(str)
_AUDIO: Final = {"mpeg": "mp3", "mp3": "mp3", "x-wav": "wav", "wav": "wav", "wave": "wav"}
_OWN_FILES: Final = ("gs://", "https://generativelanguage.googleapis.com/")
_VIDEO_HOSTS: Final = ("https://www.youtube.com/", "https://youtube.com/", "https://youtu.be/")
# Reasoning that its upstream showed in full; all other state goes with a summary.
_FULL_KINDS: Final = frozenset({OpaqueKind.PLAIN, OpaqueKind.DETAILS})
_SUMMARY_CHARS: Final = 500

_FileResult: TypeAlias = ImagePart | DocumentPart
S = TypeVar("S")
T = TypeVar("T")


def decode_system(raw: Raw, losses: list[Loss]) -> tuple[TextPart, ...]:
    """Return the instructions before the conversation.

    Raises:
        MalformedError: they are not text.
    """
    if not given(raw):
        return ()
    path = "$.systemInstruction"
    if bytes(raw)[:1] == b'"':
        text = decode_at(_TEXT, raw, path)
        return (TextPart(text),) if text else ()
    texts: list[str] = []
    for at, one in enumerate(_known(_CONTENT, _ANY_CONTENT, raw, path, losses).parts or ()):
        part = _decode_part(one, f"{path}.parts[{at}]", losses)
        if part.text is None:
            raise MalformedError("instructions are text", path=f"{path}.parts[{at}]")
        texts.append(part.text)
    return tuple(TextPart(text) for text in texts if text)


def decode_contents(
    contents: Sequence[Raw], sealer: Sealer | None, losses: list[Loss], *, detail: str = ""
) -> tuple[Turn, ...]:
    """Return the turns of a conversation; `detail` is that of its images.

    Raises:
        MalformedError: a content or a part is not of the dialect, or no target could take it.
    """
    reader = _HistoryReader(sealer, losses, detail)
    joined: list[tuple[Role, str, list[tuple[Raw, str]]]] = []
    for path, raw in zip(entry_paths("contents", len(contents)), contents, strict=False):
        content = _known(_CONTENT, _ANY_CONTENT, raw, path, losses)
        role = _ROLES.get(content.role or "")
        if role is None:
            reason = f"there is no role `{(content.role or '')[:40]}`; use `user` or `model`"
            raise MalformedError(reason, path=f"{path}.role")
        parts = [(one, f"{path}.parts[{at}]") for at, one in enumerate(content.parts or ())]
        if joined and joined[-1][0] is role:
            joined[-1][2].extend(parts)
        else:
            joined.append((role, path, parts))
    return tuple(
        Turn(role, tuple(reader.read(role, parts)), "", "", path) for role, path, parts in joined
    )


class _Unit(Struct):
    """A text or a call of a model's turn, or reasoning between them."""

    part: TurnPart
    number: int  # counts texts and calls; reasoning has that of what follows it
    thought: bool = False
    texts: list[str] = []  # more text of the part: a client may replay one chunk at a time
    states: list[OpaqueState] = []  # more state of it

    def whole(self) -> TurnPart:
        """Return the part with everything that belongs to it."""
        part = self.part
        if isinstance(part, TextPart) and self.texts:
            return TextPart("".join((part.text, *self.texts)))
        if isinstance(part, ReasoningPart) and (self.texts or self.states):
            if self.texts:
                text = "".join((*(one.text for one in part.segments), *self.texts))
                part = _summary(text)
            return ReasoningPart(part.segments, (*part.opaque, *self.states))
        return part


class _HistoryReader:
    """Read one content after the other."""

    def __init__(self, sealer: Sealer | None, losses: list[Loss], detail: str) -> None:
        self._sealer = sealer
        self._losses = losses
        self._detail = detail
        self._calls = 0  # calls so far, with ids and without
        self._given: set[str] = set()  # ids that the last model content has
        self._open: list[_OpenCall] = []  # calls of the last model content

    def read(self, role: Role, parts: Sequence[tuple[Raw, str]]) -> list[TurnPart]:
        decoded = [(_decode_part(raw, path, self._losses), raw, path) for raw, path in parts]
        if role is USER:
            return self._user(decoded)
        return _ModelTurn(self, self._sealer, self._losses).read(decoded)

    # --- the user ---------------------------------------------------------------------------------

    def _user(self, decoded: Sequence[tuple[Part, Raw, str]]) -> list[TurnPart]:
        parts: list[TurnPart] = []
        files: list[_FileResult] | None = None  # of the result directly before
        results: list[tuple[FunctionResponse, list[_FileResult], str]] = []
        for part, raw, path in decoded:
            if part.function_response is not None:
                files = []
                for one in part.function_response.parts or ():
                    if _is_media(one.inline_data, one.file_data):
                        parts.append(OpaquePart(VENDOR, Raw(encode(one)), path=path))
                    elif (found := _file(one.inline_data, one.file_data, path)) is not None:
                        files.append(found)
                results.append((part.function_response, files, path))
                continue
            own = _user_part(part, raw, path)
            if own is None:
                continue
            if isinstance(own, ImagePart):
                detail = _detail(part) or self._detail
                own = structs.replace(own, detail=detail) if detail else own
            if files is not None and isinstance(own, ImagePart | DocumentPart):
                files.append(own)
                continue
            files = None
            parts.append(own)
        return [*self._results(results), *parts]

    def _results(
        self, results: Sequence[tuple[FunctionResponse, list[_FileResult], str]]
    ) -> list[TurnPart]:
        """Pair the results with the calls before them, by id, by name or in order; return them in call order."""
        waiting = _WaitingCalls(self._open)
        found = [waiting.named(response) for response, _, _ in results]
        paired: list[tuple[int, ToolResultPart]] = []
        for at, (response, files, path) in zip(found, results, strict=True):
            place = at if at is not None else waiting.next(response.name or "")
            if place is None:
                place = len(self._open)  # answers no call
                call_id = response.id or f"{response.name or 'call'}_{path}"
            else:
                call_id = self._open[place].id
            paired.append((place, _result(response, files, call_id, path)))
        self._open = []
        return [result for _, result in sorted(paired, key=itemgetter(0))]

    # --- the model --------------------------------------------------------------------------------

    def begin_turn(self, parts: Sequence[tuple[Part, Raw, str]]) -> None:
        self._open = []
        calls = (part.function_call for part, _, _ in parts)
        self._given = {call.id for call in calls if call is not None and call.id}

    def call(self, call: FunctionCall, opaque: tuple[OpaqueState, ...], path: str) -> ToolCallPart:
        name = call.name or ""
        check_call_name(name, f"{path}.functionCall.name")
        self._calls += 1
        arguments = "{}"
        if given(call.args):
            if bytes(call.args)[:1] != b"{":
                reason = "the arguments of a function call are an object"
                raise MalformedError(reason, path=f"{path}.functionCall.args")
            arguments = str(call.args, "utf-8")
        call_id = call.id or f"call_g{self._calls}"
        if not call.id and call_id in self._given:
            call_id = self._unused(call_id)
        self._open.append(_OpenCall(call_id, call.id or "", name))
        return ToolCallPart(call_id, name, arguments, opaque=opaque)

    def _unused(self, call_id: str) -> str:
        """Return an id that no call of the content has; models imitate the ids that they see."""
        number = 1
        while f"{call_id}_{number}" in self._given:
            number += 1
        return f"{call_id}_{number}"


class _ModelTurn:
    """Read the parts of a model's content; reasoning returns to its place from envelopes."""

    def __init__(self, history: _HistoryReader, sealer: Sealer | None, losses: list[Loss]) -> None:
        self._history = history
        self._sealer = sealer
        self._losses = losses
        self._out: list[TurnPart] = []
        self._units: list[_Unit] = []  # since the last part that carried an envelope
        self._number = 0  # of the next text or call among them
        self._in_text = False

    def read(self, decoded: Sequence[tuple[Part, Raw, str]]) -> list[TurnPart]:
        self._history.begin_turn(decoded)
        for part, raw, path in _whole_calls(decoded):
            self._part(part, raw, path)
        self._out += [unit.whole() for unit in self._units]
        return self._out

    def _part(self, part: Part, raw: Raw, path: str) -> None:
        signature = part.thought_signature or ""
        entries: tuple[Envelope, ...] | None = None
        if signature in PLACEHOLDERS:
            signature = ""
        elif signature and (sealed := unwrapped(signature)):
            entries, signature = self._opened(sealed, path), ""
        if part.function_call is not None:
            self._call(part.function_call, signature, entries, path)
            return
        if part.text:
            self._text(part.text, thought=part.is_thought)
        elif part.text is None:
            self._other(part, raw, path)
            if part.payloads:
                signature = ""  # `raw` has it
        if entries is not None:
            self._place(entries)
        elif signature:
            self._sign(signature, thought=part.is_thought)

    def _opened(self, sealed: str, path: str) -> tuple[Envelope, ...]:
        envelope = self._sealer.open(sealed) if self._sealer is not None else None
        if envelope is None:
            path = f"{path}.thoughtSignature"
            self._losses.append(Loss("opaque_invalid", path, "the envelope does not open"))
            return ()
        return (envelope, *envelope.more)

    def _text(self, text: str, *, thought: bool) -> None:
        last = self._units[-1] if self._units else None
        if last is not None and last.thought is thought:
            if isinstance(last.part, TextPart):
                last.texts.append(text)
                return
            unsigned = isinstance(last.part, ReasoningPart) and not (
                last.part.opaque or last.states
            )
            if unsigned and thought:
                last.texts.append(text)
                return
        if thought:
            self._units.append(_Unit(_summary(text), self._number, thought=True))
            return
        if not self._in_text:
            self._in_text = True
            self._number += 1
        self._units.append(_Unit(TextPart(text), self._number - 1))

    def _call(
        self, call: FunctionCall, signature: str, entries: tuple[Envelope, ...] | None, path: str
    ) -> None:
        opaque: tuple[OpaqueState, ...] = ()
        if signature:
            data = signature_data(signature)
            opaque = (OpaqueState(OpaqueKind.TOOL_SIGNATURE, data, VENDOR),)
        if entries is not None:
            self._place([one for one in entries if one.kind is not OpaqueKind.TOOL_SIGNATURE])
            opaque = tuple(
                OpaqueState(one.kind, one.data, one.origin, one.item_id)
                for one in entries
                if one.kind is OpaqueKind.TOOL_SIGNATURE
            )
        part = self._history.call(call, opaque, path)
        self._in_text = False
        if entries is not None:
            self._out.append(part)  # the next envelope counts from here
            return
        self._units.append(_Unit(part, self._number))
        self._number += 1

    def _place(self, entries: Sequence[Envelope]) -> None:
        """Put reasoning where it was, and end the part of the turn that its envelope covers.

        The envelope holds more than the thoughts that the client may have kept, so these are left out.
        """
        units = [one for one in self._units if not (entries and one.thought)]
        waiting = sorted(entries, key=lambda one: one.place or 0)
        for unit in units:
            while waiting and (waiting[0].place or 0) <= unit.number:
                self._out.append(_reasoning(waiting.pop(0)))
            self._out.append(unit.whole())
        self._out += map(_reasoning, waiting)
        self._units = []
        self._number = 0
        self._in_text = False

    def _sign(self, signature: str, *, thought: bool) -> None:
        """Keep a signature of Google's own that is not on a call."""
        last = self._units[-1] if self._units else None
        if thought and last is not None and isinstance(last.part, ReasoningPart):
            last.states.append(OpaqueState(OpaqueKind.SIGNATURE, signature, VENDOR))
            return
        state = OpaqueState(OpaqueKind.ENCRYPTED, signature, VENDOR, TEXT_SIGNATURE)
        self._units.append(_Unit(ReasoningPart((), (state,)), self._number, thought=True))

    def _other(self, part: Part, raw: Raw, path: str) -> None:
        if any(given(getattr(part, name)) for name in (*SERVER_CALLS, *SERVER_RESULTS)):
            self._units.append(_Unit(_server_part(part, raw), self._number))
        elif part.inline_data is not None and _is_image(part.inline_data) and not part.is_thought:
            shown = f"[an image of type {part.inline_data.mime_type}]"
            self._units.append(_Unit(ServerToolPart(VENDOR, shown, raw), self._number))
        elif part.inline_data is not None or part.file_data is not None:
            self._units.append(_Unit(OpaquePart(VENDOR, raw), self._number))
        elif part.function_response is not None:
            raise MalformedError("a function response is the user's", path=path)


def _whole_calls(
    decoded: Sequence[tuple[Part, Raw, str]],
) -> Iterator[tuple[Part, Raw, str]]:
    """Yield the parts of a content, with the calls whole that a client replays in pieces, as it received them.

    Raises:
        MalformedError: the pieces are no arguments.
    """
    joined: _JoinedCall | None = None
    for part, raw, path in decoded:
        call = part.function_call
        if joined is not None and not (call is not None and joined.partial.goes_on(call)):
            yield joined.whole()
            joined = None
        if call is None or (joined is None and not (call.name and PartialCall.begins(call))):
            yield part, raw, path
            continue
        joined = joined or _JoinedCall(call, path)
        joined.add(part, call)
        if not call.will_continue:
            yield joined.whole()
            joined = None
    if joined is not None:
        yield joined.whole()


class _JoinedCall:
    """A call whose pieces are in several parts."""

    def __init__(self, call: FunctionCall, path: str) -> None:
        self.partial = PartialCall(call, DEFAULT_LIMITS)
        self._path = path
        self._pieces: list[FunctionCall] = []
        self._signature = ""

    def add(self, part: Part, call: FunctionCall) -> None:
        self._signature = self._signature or part.thought_signature or ""
        self._pieces.append(call)

    def whole(self) -> tuple[Part, Raw, str]:
        partial = self.partial
        try:
            texts = [partial.read(piece) for piece in self._pieces]
            text = "".join((*texts, partial.writer.end()))
        except MalformedError as error:
            path = f"{self._path}.functionCall.partialArgs"
            raise MalformedError(error.reason, path=path) from error
        call = FunctionCall(partial.name, Raw(text.encode()), partial.id or None)
        part = Part(function_call=call, thought_signature=self._signature or None)
        return part, NO_RAW, self._path


def _is_image(blob: Blob) -> bool:
    return (blob.mime_type or "").lower().startswith("image/")


def _server_part(part: Part, raw: Raw) -> ServerToolPart:
    """Return the call or the result of a tool that Google ran, or that another vendor ran for this client."""
    mcp = read_mcp(part)
    if mcp is None:
        text = bytes(raw).decode("utf-8", "replace")
        return ServerToolPart(VENDOR, f"[{text}]"[:_SUMMARY_CHARS], raw)
    call_id, server = mcp
    made_here = is_minted(call_id, MCP_ID)
    return ServerToolPart("" if made_here else VENDOR, summary_of(server), raw)


def unwrapped(signature: str) -> str:
    """Return the envelope in a signature; empty if the signature is Google's own.

    SDKs change the alphabet of base64 and its padding.
    """
    if not signature.startswith(BASE64_PREFIX):
        return ""
    try:
        sealed = base64.b64decode(_standard(signature), validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        return ""
    return sealed if is_envelope(sealed) else ""


def _standard(data: str) -> str:
    """Return base64 in the standard alphabet, with its padding."""
    if not data.isascii():
        return data
    folded = data.replace("-", "+").replace("_", "/").rstrip("=")
    return folded + "=" * (-len(folded) % 4)


def _summary(text: str) -> ReasoningPart:
    return ReasoningPart((ReasoningSegment(text, Channel.SUMMARY),))


def _reasoning(entry: Envelope) -> ReasoningPart:
    channel = Channel.FULL if entry.kind in _FULL_KINDS else Channel.SUMMARY
    segments = (ReasoningSegment(entry.text, channel),) if entry.text else ()
    state = OpaqueState(entry.kind, entry.data, entry.origin, entry.item_id)
    return ReasoningPart(segments, (state,))


# --- parts ------------------------------------------------------------------------------------------


def _known(
    strict: msgspec.json.Decoder[S],
    lenient: msgspec.json.Decoder[T],
    raw: Raw,
    path: str,
    losses: list[Loss],
) -> S | T:
    """Read an object; fields that Google does not have are reported and left out."""
    try:
        return strict.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        found = decode_at(lenient, raw, path)
    report_unknown(raw, _FIELDS, path, losses)
    for name, one in fields_of(raw).items():
        payload = _PAYLOADS.get(name)
        if payload is not None and given(one):
            report_unknown(one, payload.__struct_encode_fields__, f"{path}.{name}", losses)
    return found


def report_unknown(raw: Raw, known: Collection[str], path: str, losses: list[Loss]) -> None:
    """Report fields of an object that Google does not have."""
    unknown = (name for name, one in fields_of(raw).items() if name not in known and given(one))
    losses += [Loss("field_dropped", f"{path}.{name[:40]}") for name in sorted(unknown)]


def _decode_part(raw: Raw, path: str, losses: list[Loss]) -> Part:
    unknown: list[Loss] = []
    part = _known(_PART, _ANY_PART, raw, path, unknown)
    payloads = part.payloads
    if payloads > 1:
        raise MalformedError("a part has one payload", path=path)
    if unknown and not payloads and not part.thought_signature:
        reason = f"parts with `{unknown[0].path.rpartition('.')[2]}` are not supported here"
        raise MalformedError(reason, path=path, code="unsupported_content_block")
    losses += unknown
    return part


def _detail(part: Part) -> str:
    """Return the detail of an image that its part asks for."""
    resolution = part.media_resolution if isinstance(part, ClientPart) else None
    return detail_of(resolution.level) if resolution is not None else ""


def _user_part(part: Part, raw: Raw, path: str) -> TurnPart | None:
    """Return a part of a user's turn that is not a result; None if it says nothing."""
    if part.text is not None:
        return TextPart(part.text) if part.text else None
    if part.function_call is not None:
        raise MalformedError("a function call is the model's", path=path)
    blob, file = part.inline_data, part.file_data
    if blob is not None:
        media_type = (blob.mime_type or "").lower()
        if media_type.startswith("audio/"):
            kind = media_type.removeprefix("audio/")
            form = _AUDIO.get(kind.partition(";")[0].rstrip(), kind)
            return AudioPart(_standard(blob.data or ""), form)
    if _is_media(blob, file):
        return OpaquePart(VENDOR, raw, path=path)
    if blob is None and file is None:
        if any(given(getattr(part, name)) for name in (*SERVER_CALLS, *SERVER_RESULTS)):
            return OpaquePart(VENDOR, raw, path=path)
        return None
    return _file(blob, file, path)


def _is_media(blob: Blob | None, file: FileData | None) -> bool:
    """Return whether a file is a video or sound, which only Google takes as a file."""
    if file is not None and (file.file_uri or "").startswith(_VIDEO_HOSTS):
        return True
    media_type = _type_of(file) if blob is None else (blob.mime_type or "").lower()
    return media_type.startswith(("audio/", "video/"))


def _type_of(file: FileData | None) -> str:
    """Return the media type of a file at a URI; empty: it is not known."""
    if file is None:
        return ""
    return (file.mime_type or "").lower() or media_type_of(file.file_uri or "")


def _file(blob: Blob | None, file: FileData | None, path: str) -> _FileResult | None:
    """Return an image or a document."""
    if blob is not None:
        media_type, data = (blob.mime_type or "").lower(), _standard(blob.data or "")
        if not media_type:
            raise MalformedError("inline data needs a MIME type", path=path)
        if media_type.startswith("image/"):
            return ImagePart(Base64Source(media_type, data))
        title = blob.display_name or ""
        if media_type.startswith("text/"):
            return DocumentPart(TextSource(_plain_text(blob.data or "")), title)
        return DocumentPart(Base64Source(media_type, data), title)
    if file is None:
        return None
    uri = file.file_uri or ""
    if not uri:
        raise MalformedError("a file needs a URI", path=path)
    media_type = _type_of(file)
    source: FileSource | UrlSource = UrlSource(uri, media_type)
    if uri.startswith(_OWN_FILES) or "://" not in uri:
        source = FileSource(uri, VENDOR, media_type)
    if media_type.startswith("image/"):
        return ImagePart(source)
    return DocumentPart(source, file.display_name or "")


def _plain_text(data: str) -> str:
    """Return the text in base64; what is not base64 is the text itself."""
    try:
        return base64.b64decode(_standard(data), validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return data


# --- results ----------------------------------------------------------------------------------------


class _OpenCall(NamedTuple):
    """A call that the next content answers."""

    id: str
    given: str  # the id that the client gave; empty: none
    name: str


class _WaitingCalls:
    """Calls without a result.  Ten thousands may have one name or one id, so none is looked at twice in a row."""

    def __init__(self, calls: Sequence[_OpenCall]) -> None:
        self._taken: set[int] = set()
        self._all: deque[int] = deque(range(len(calls)))
        self._by_id: dict[str, deque[int]] = {}
        self._by_name: dict[str, deque[int]] = {}
        for at, call in enumerate(calls):
            if call.given:
                self._by_id.setdefault(call.given, deque()).append(at)
            self._by_name.setdefault(call.name, deque()).append(at)

    def named(self, response: FunctionResponse) -> int | None:
        """Take the call whose id a result has."""
        if not response.id:
            return None
        found = self._take(self._by_id.get(response.id))
        if found is not None:
            return found
        # Gemini CLI's own form, which reaches `countTokens`.  Test: test_the_id_with_its_tools_name_is_known.
        return self._take(self._by_id.get(response.id.removeprefix(f"{response.name or ''}__")))

    def next(self, name: str) -> int | None:
        """Take the next call of a function, or of any."""
        found = self._take(self._by_name.get(name))
        return self._take(self._all) if found is None else found

    def _take(self, queue: deque[int] | None) -> int | None:
        while queue:
            at = queue.popleft()
            if at not in self._taken:
                self._taken.add(at)
                return at
        return None


def _result(
    response: FunctionResponse, files: Sequence[_FileResult], call_id: str, path: str
) -> ToolResultPart:
    text, failed = "", False
    if given(response.response):
        raw = bytes(response.response)
        if raw[:1] != b"{":
            reason = "the response of a function is an object"
            raise MalformedError(reason, path=f"{path}.functionResponse.response")
        text, failed = _output(raw, response.name)
    parts = (TextPart(text), *files) if text else tuple(files)
    return ToolResultPart(call_id, parts, failed)


def _output(raw: bytes, function: str | None) -> tuple[str, bool]:
    """Return the text of a result, and whether the tool failed."""
    fields = decode_fields(raw)
    # The AI SDK repeats the function's name beside the content.  Any other name belongs to the output.
    # Case: requests/gemini_ai_sdk_1.
    if fields.keys() == {"name", "content"} and _shown(fields["name"]) == function:
        del fields["name"]
    match list(fields.items()):
        case []:
            return "", False
        case [("error", error)]:
            return _shown(error), True
        case [(name, output)] if name in _OUTPUTS:
            return _shown(output), False
    return _shown(Raw(raw)), False


def _shown(raw: Raw) -> str:
    """Return a string as it is, and any other JSON compact."""
    if bytes(raw)[:1] == b'"':
        return decode(_TEXT, bytes(raw))
    if bytes(raw) == b"null":
        return ""
    return compact(valid_utf8(bytes(raw))).decode()
