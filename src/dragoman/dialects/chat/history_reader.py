"""Decodes a client's messages into turns."""

from collections.abc import Sequence
from typing import Any, Final, assert_never

import msgspec
from msgspec import Raw

from dragoman.dialects.chat.schema import (
    TEXTS,
    AssistantIn,
    AssistantPart,
    AudioIn,
    Breakpoint,
    CacheControl,
    CallIn,
    DeveloperIn,
    FileIn,
    FunctionCallIn,
    FunctionIn,
    ImageIn,
    MessageIn,
    RefusalIn,
    ResultPart,
    SystemIn,
    TextIn,
    ThinkingIn,
    ToolIn,
    UserIn,
    UserPart,
    is_given,
)
from dragoman.dialects.decoding import decode
from dragoman.dialects.encoding import encode
from dragoman.dialects.history_policy import check_call_name
from dragoman.dialects.paths import entry_paths
from dragoman.dialects.sealing import unseal
from dragoman.dialects.server_tools import MARK
from dragoman.envelopes import Sealer, is_envelope
from dragoman.errors import MalformedError
from dragoman.ids import derived_id
from dragoman.turn.events import Channel, Flavor, OpaqueKind
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
    OpaqueState,
    Part,
    ReasoningPart,
    ReasoningSegment,
    RefusalPart,
    Role,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Turn,
    UrlSource,
)
from dragoman.wire.json_values import read_float

# State from a client of this dialect, which does not name its vendor.
CHAT_ORIGIN: Final = "chat"
# Beside the state of a call that another dialect's upstream wrote: only that upstream takes it back.  Requests that
# hold it are rewritten before they are forwarded, because it begins as ids that were made here do.
ORIGIN_FIELD: Final = f"{MARK}origin"
_EXTRA: Final = msgspec.json.Decoder(dict[str, Raw])
_NAME: Final = msgspec.json.Decoder(str)

_FUNCTION: Final = Flavor.FUNCTION

_LONG_TTLS: Final = frozenset({"1h", "12h", "24h"})

_ENTRIES: Final[msgspec.json.Decoder[list[dict[str, Any]]]] = msgspec.json.Decoder(
    list[dict[str, Any]], float_hook=read_float
)


class HistoryReader:
    """The messages of one request as turns; leading instructions apart."""

    def __init__(self, sealer: Sealer | None, losses: list[Loss]) -> None:
        self.system: list[TextPart] = []
        self.turns: list[Turn] = []
        self._sealer = sealer
        self._losses = losses
        self._flavors: dict[str, Flavor] = {}  # of the calls so far, by id
        self._legacy: dict[str, str] = {}  # ids given to calls that had none, by name

    def read(self, messages: Sequence[MessageIn]) -> None:
        """Take the messages in order.

        Raises:
            MalformedError: one of them does not hold together; carries its path.
        """
        for path, message in zip(entry_paths("messages", len(messages)), messages, strict=False):
            # The frequent sorts first: a class that does not match costs a `match` more than an `if`.
            if isinstance(message, ToolIn):
                output = message.content
                if type(output) is str and output and not self._flavors:
                    result = ToolResultPart(message.tool_call_id, (TextPart(output),))
                    self.turns.append(Turn(USER, (result,), "", "", path))
                else:
                    self._result(message, path)
                continue
            if isinstance(message, AssistantIn):
                if parts := self._assistant(message, path):
                    self.turns.append(Turn(ASSISTANT, tuple(parts), "", "", path))
                continue
            match message:
                case SystemIn(content=content) | DeveloperIn(content=content):
                    self._instruct(_texts(content), path)
                case UserIn(content=content, name=name):
                    self._add(USER, _user_parts(content, path), path, name or "")
                case FunctionIn(name=name, content=text):
                    call_id = self._legacy.get(name or "", name or "")
                    part = TextPart(text or "")
                    self._add(USER, [ToolResultPart(call_id, (part,))], path)
                case _:
                    assert_never(message)

    def _result(self, message: ToolIn, path: str) -> None:
        flavor = self._flavors.get(message.tool_call_id, _FUNCTION)
        parts = _result_parts(message.content, path)
        part = ToolResultPart(message.tool_call_id, parts, flavor=flavor)
        self.turns.append(Turn(USER, (part,), path=path))

    def _instruct(self, texts: list[TextPart], path: str) -> None:
        if self.turns:
            self._add(SYSTEM, texts, path)
        else:
            self.system += texts

    def _add(self, role: Role, parts: Sequence[Part], path: str, name: str = "") -> None:
        if parts:
            self.turns.append(Turn(role, tuple(parts), name=name, path=path))

    # --- the assistant's messages -------------------------------------------------------------------

    def _assistant(self, message: AssistantIn, path: str) -> list[Part]:
        parts: list[Part] = []
        if message.reasoning_content or message.reasoning or message.reasoning_details:
            parts += self._reasoning(message, path)
        content = message.content
        if isinstance(content, str):
            if content:
                parts.append(TextPart(content))
        elif content:
            for part in content:
                parts += _assistant_parts(part, path)
        if message.refusal:
            parts.append(RefusalPart(message.refusal))
        if message.tool_calls:
            for at, call in enumerate(message.tool_calls):
                function = call.function
                if (
                    function is not None
                    and function.name
                    and call.custom is None
                    and not call.extra_content
                ):
                    arguments = function.arguments
                    text = arguments if type(arguments) is str else _arguments(function)
                    parts.append(ToolCallPart(call.id, function.name, text))
                else:
                    parts.append(self._call(call, path, at))
        if message.function_call is not None and not message.tool_calls:
            parts.append(self._legacy_call(message.function_call, path))
        return parts

    def _call(self, call: CallIn, path: str, at: int) -> ToolCallPart:
        function = call.function
        where = f"{path}.tool_calls[{at}]"
        state: tuple[OpaqueState, ...] = ()
        if is_given(call.extra_content):
            state = (_call_state(call.extra_content),)
        if call.custom is not None:
            self._flavors[call.id] = Flavor.CUSTOM
            name, text = call.custom.name, call.custom.input
            check_call_name(name, f"{where}.custom.name")
            return ToolCallPart(call.id, name, text, Flavor.CUSTOM, opaque=state)
        if function is None:
            reason = "a tool call needs its `function`"
            raise MalformedError(reason, path=where)
        check_call_name(function.name, f"{where}.function.name")
        return ToolCallPart(call.id, function.name, _arguments(function), opaque=state)

    def _legacy_call(self, call: FunctionCallIn, path: str) -> ToolCallPart:
        check_call_name(call.name, f"{path}.function_call.name")
        call_id = derived_id("call_", "function_call", path)
        self._legacy[call.name] = call_id
        return ToolCallPart(call_id, call.name, _arguments(call))

    # --- reasoning ----------------------------------------------------------------------------------

    def _reasoning(self, message: AssistantIn, path: str) -> list[ReasoningPart]:
        text = message.reasoning_content or message.reasoning or ""
        if not is_given(message.reasoning_details):
            return [ReasoningPart((ReasoningSegment(text),))] if text else []
        try:
            entries = decode(_ENTRIES, bytes(message.reasoning_details))
        except MalformedError as error:
            raise MalformedError(
                error.reason, path=f"{path}.reasoning_details{error.path.removeprefix('$')}"
            ) from None
        if any(_envelope(entry) for entry in entries):
            return self._unsealed(entries, path)
        segments = [segment for entry in entries for segment in _segments(entry)]
        if not segments and text:
            segments = [ReasoningSegment(text)]
        details = bytes(message.reasoning_details).decode()
        state = OpaqueState(OpaqueKind.DETAILS, details, CHAT_ORIGIN)
        return [ReasoningPart(tuple(segments), (state,))]

    def _unsealed(self, entries: list[dict[str, Any]], path: str) -> list[ReasoningPart]:
        """Read entries that Dragoman wrote: an envelope ends the block it belongs to."""
        parts: list[ReasoningPart] = []
        segments: list[ReasoningSegment] = []
        for entry in entries:
            segments += _segments(entry)
            sealed = _envelope(entry)
            if not sealed:
                continue
            opened = unseal(
                sealed,
                "\n\n".join(segment.text for segment in segments),
                sealer=self._sealer,
                native_kind=OpaqueKind.DETAILS,
                native_origin=CHAT_ORIGIN,
                losses=self._losses,
                path=f"{path}.reasoning_details",
            )
            state = () if opened.state is None else (opened.state,)
            parts.append(ReasoningPart(tuple(segments), state))
            segments = []
        if segments:
            parts.append(ReasoningPart(tuple(segments)))
        return parts


def _call_state(extra: Raw) -> OpaqueState:
    """Return the state of a call; what was written here names its origin, and what a server wrote does not."""
    data, origin = bytes(extra), CHAT_ORIGIN
    if ORIGIN_FIELD.encode() in data:
        fields = decode(_EXTRA, data)
        origin = decode(_NAME, bytes(fields.pop(ORIGIN_FIELD, Raw(b'""')))) or CHAT_ORIGIN
        data = encode(fields)
    return OpaqueState(OpaqueKind.TOOL_SIGNATURE, data.decode(), origin)


def _segments(entry: dict[str, Any]) -> list[ReasoningSegment]:
    """Return what is readable of a reasoning detail."""
    for field, channel in (("text", Channel.FULL), ("summary", Channel.SUMMARY)):
        text = entry.get(field)
        if isinstance(text, str) and text:
            return [ReasoningSegment(text, channel)]
    return []


def _envelope(entry: dict[str, Any]) -> str:
    for field in ("signature", "data"):
        value = entry.get(field)
        if isinstance(value, str) and is_envelope(value):
            return value
    return ""


def _assistant_parts(part: AssistantPart, path: str) -> Sequence[Part]:
    match part:
        case TextIn():
            return _texts([part])
        case RefusalIn(refusal=text):
            return [RefusalPart(text)]
        case ThinkingIn(thinking=thinking):
            return _thinking(thinking, path)
        case _:
            assert_never(part)


def _thinking(raw: Raw, path: str) -> list[ReasoningPart]:
    try:
        parts = decode(TEXTS, bytes(raw))
    except MalformedError as error:
        raise MalformedError(error.reason, path=f"{path}.content") from None
    texts = [parts] if isinstance(parts, str) else [part.text for part in parts]
    segments = tuple(ReasoningSegment(text) for text in texts if text)
    return [ReasoningPart(segments)] if segments else []


# --- content ----------------------------------------------------------------------------------------


def _texts(content: str | Sequence[TextIn]) -> list[TextPart]:
    if isinstance(content, str):
        return [TextPart(content)] if content else []
    return [TextPart(part.text, _hint(part)) for part in content if part.text]


def _user_parts(content: str | Sequence[UserPart], path: str) -> list[Part]:
    if isinstance(content, str):
        return list(_texts(content))
    parts: list[Part] = []
    for at, part in enumerate(content):
        where = f"{path}.content[{at}]"
        match part:
            case TextIn():
                parts += _texts([part])
            case ImageIn():
                parts.append(_image(part, where))
            case FileIn():
                parts.append(_file(part, where))
            case AudioIn(input_audio=audio):
                parts.append(AudioPart(audio.data, audio.format))
            case _:
                assert_never(part)
    return parts


def _result_parts(
    content: str | Sequence[ResultPart] | None, path: str
) -> tuple[TextPart | ImagePart | DocumentPart, ...]:
    if content is None or isinstance(content, str):
        return tuple(_texts(content or ""))
    parts: list[TextPart | ImagePart | DocumentPart] = []
    for at, part in enumerate(content):
        where = f"{path}.content[{at}]"
        match part:
            case TextIn():
                parts += _texts([part])
            case ImageIn():
                parts.append(_image(part, where))
            case FileIn():
                parts.append(_file(part, where))
            case _:
                assert_never(part)
    return tuple(parts)


def _image(part: ImageIn, path: str) -> ImagePart:
    given = part.image_url
    url, detail = (given, "") if isinstance(given, str) else (given.url, given.detail or "")
    source: Base64Source | UrlSource = UrlSource(url)
    if url.startswith("data:"):
        source = _data_url(url, f"{path}.image_url.url")
    return ImagePart(source, detail, _hint(part))


def _file(part: FileIn, path: str) -> DocumentPart:
    given = part.file
    title = given.filename or ""
    if given.file_data:
        data = given.file_data
        source = (
            _data_url(data, f"{path}.file.file_data")
            if data.startswith("data:")
            else Base64Source("application/pdf", data)
        )
        return DocumentPart(source, title, cache=_hint(part))
    if given.file_id:
        return DocumentPart(FileSource(given.file_id, "openai"), title, cache=_hint(part))
    raise MalformedError("a file needs `file_data` or `file_id`", path=f"{path}.file")


def _data_url(url: str, path: str) -> Base64Source:
    head, comma, data = url.removeprefix("data:").partition(",")
    media_type, *options = head.split(";")
    if not comma or "base64" not in options:
        raise MalformedError("a data URL must hold base64", path=path)
    return Base64Source(media_type, data)


def _hint(part: TextIn | ImageIn | FileIn) -> CacheHint | None:
    mark: CacheControl | Breakpoint | None = part.cache_control or part.prompt_cache_breakpoint
    return None if mark is None else CacheHint(long=mark.ttl in _LONG_TTLS)


def _arguments(call: FunctionCallIn) -> str:
    if isinstance(call.arguments, dict):
        return encode(call.arguments).decode()
    return call.arguments or ""
