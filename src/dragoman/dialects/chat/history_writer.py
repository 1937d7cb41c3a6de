"""Encodes turns as the messages of a Chat Completions upstream."""

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Final, TypeAlias, assert_never

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, structs

from dragoman.context import Target
from dragoman.dialects.chat.history_reader import CHAT_ORIGIN
from dragoman.dialects.chat.schema import (
    KIMI_SEARCH,
    AnyMessageOut,
    AssistantOut,
    Audio,
    AudioOut,
    BreakpointOut,
    CacheControlOut,
    CallOut,
    ContentOut,
    CustomCallOut,
    FileContentOut,
    FileOut,
    FunctionCallOut,
    ImageOut,
    MessageOut,
    PartOut,
    SearchCall,
    TextOut,
    ToolMessageOut,
    UrlOut,
)
from dragoman.dialects.decoding import decode
from dragoman.dialects.encoding import encode
from dragoman.dialects.history_policy import (
    CONTINUED,
    ERROR,
    GO_ON,
    ReplayPolicy,
    check_documents,
    check_image,
    continues,
    document_text,
    error_text,
    file_name,
    file_of_assistant,
    foreign_text,
    go_on_loss,
    is_question,
    place_instructions,
    search_result_text,
    stored_file,
)
from dragoman.dialects.paths import path_of
from dragoman.dialects.tool_policy import object_arguments
from dragoman.errors import UntranslatableError
from dragoman.ids import UpstreamIds
from dragoman.profiles.profile import Profile
from dragoman.turn.events import Flavor, OpaqueKind
from dragoman.turn.history import normalize_history
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
    Part,
    ReasoningPart,
    RefusalPart,
    Request,
    SearchResultPart,
    ServerToolPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Turn,
    UrlSource,
)
from dragoman.turn.server_tools import ServerKind
from dragoman.turn.tools import wire_name

# --- content parts --------------------------------------------------------------------------------

_MAX_MARKS: Final = 4  # of a prefix worth caching; vendors take no more


Attachment: TypeAlias = ImagePart | DocumentPart | SearchResultPart


def takes_marks(profile: Profile) -> bool:
    """Return whether the upstream takes marks of prefixes worth caching."""
    return profile.cache_control or profile.cache_breakpoints


class Marks:
    """Hand out the marks of prefixes worth caching: the last few, where there are too many."""

    def __init__(self, request: Request, profile: Profile, losses: list[Loss]) -> None:
        self._profile = profile
        self._active = takes_marks(profile)
        self._skip = 0
        if self._active:
            count = sum(hint is not None for hint in _hints(request))
            self._skip = max(0, count - _MAX_MARKS)
            if self._skip:
                losses.append(Loss("cache_hint_dropped", "", f"{self._skip} of {count}"))

    def text(self, text: str, hint: CacheHint | None) -> TextOut:
        """Return a text part with its mark."""
        if hint is None or not self._active:
            return TextOut(text)
        if self._skip:
            self._skip -= 1
            return TextOut(text)
        if self._profile.cache_control:
            return TextOut(text, CacheControlOut("ephemeral", "1h" if hint.long else ""))
        ttl = "12h" if hint.long else "30m"
        return TextOut(text, prompt_cache_breakpoint=BreakpointOut("explicit", ttl))


def _hints(request: Request) -> list[CacheHint | None]:
    hints = [part.cache for part in request.system]
    for turn in request.turns:
        for part in turn.parts:
            if isinstance(part, TextPart):
                hints.append(part.cache)
            elif isinstance(part, ToolResultPart):
                hints.append(part.cache)
                hints += [one.cache for one in part.parts if isinstance(one, TextPart)]
    return hints


class Parts:
    """Write the parts of one request."""

    def __init__(self, request: Request, profile: Profile, losses: list[Loss]) -> None:
        self._request = request
        self._profile = profile
        self._losses = losses
        self.marks: Marks = Marks(request, profile, losses)

    def user(self, part: TextPart | AudioPart | Attachment, path: str) -> list[PartOut]:
        """Return a part of a user's message.

        Raises:
            UntranslatableError: the upstream cannot take it.
        """
        match part:
            case TextPart():
                return [self.marks.text(part.text, part.cache)] if part.text else []
            case AudioPart(data=data, format=kind):
                self._need_parts("audio", path)
                return [AudioOut(Audio(data, kind))]
            case ImagePart():
                return [self._image(part, path)]
            case DocumentPart():
                return self._document(part, path)
            case SearchResultPart():
                return [TextOut(search_result_text(part, path, self._losses))]
            case _:
                assert_never(part)

    def content(self, parts: list[PartOut]) -> ContentOut:
        """Return parts as a message's content: a string where nothing else is needed."""
        if len(parts) == 1:
            only = parts[0]
            if type(only) is TextOut and _is_bare(only):
                return only.text
        if self._profile.content_parts == "string":
            return "\n".join(part.text for part in parts if isinstance(part, TextOut))
        return parts

    def document_text(self, part: DocumentPart, path: str) -> str | None:
        """Return a document as text, or None if it is a file."""
        text = document_text(part)
        if text is None:
            return None
        if part.cite:
            self._losses.append(Loss("citations_dropped", path))
        self._losses.append(Loss("content_flattened", path, "a document became text"))
        return f"{part.context}\n{text}" if part.context else text

    def _need_parts(self, what: str, path: str) -> None:
        if self._profile.content_parts == "string":
            raise UntranslatableError(
                f"the target accepts text only, not {what}", path=self._place(path)
            )

    def _place(self, path: str) -> str:
        """Return the path of a turn; that of all messages if the turn has none."""
        return path or path_of(self._request, "messages")

    def _image(self, part: ImagePart, path: str) -> ImageOut:
        self._need_parts("images", path)
        path = self._place(path)
        check_image(part, self._profile, path)
        match part.source:
            case Base64Source(media_type=media_type, data=data):
                return ImageOut(UrlOut(f"data:{media_type};base64,{data}", part.detail))
            case UrlSource(url=url):
                return ImageOut(UrlOut(url, part.detail))
            case FileSource():  # the dialect has no field for images that are stored
                return ImageOut(UrlOut(stored_file(part.source, "", path), part.detail))
            case _:
                assert_never(part.source)

    def _document(self, part: DocumentPart, path: str) -> list[PartOut]:
        text = self.document_text(part, path)
        if text is not None:
            images = [one for one in part.parts if isinstance(one, ImagePart)]
            return [self.marks.text(text, None), *(self._image(one, path) for one in images)]
        self._need_parts("documents", path)
        path = self._place(path)
        if part.cite:
            self._losses.append(Loss("citations_dropped", path))
        before: list[PartOut] = [TextOut(part.context)] if part.context else []
        check_documents(self._profile, path)
        match part.source:
            case Base64Source(media_type=media_type, data=data):
                name = file_name(part, media_type)
                return [*before, FileOut(FileContentOut(name, f"data:{media_type};base64,{data}"))]
            case FileSource(file_id=file_id, vendor="openai"):
                return [*before, FileOut(FileContentOut(part.title, file_id=file_id))]
            case _:
                reason = "the target accepts documents as data, not as URLs"
                raise UntranslatableError(reason, path=path)


def _is_bare(part: TextOut) -> bool:
    return part.cache_control is None and part.prompt_cache_breakpoint is None


# --- tool results ---------------------------------------------------------------------------------
# A tool's message is text in this dialect.  Pictures and files go into the user's message that follows,
# unless the upstream takes them where they are, or not at all.

_NO_OUTPUT = "(no output)"


class Results:
    """Write the results of one request."""

    def __init__(self, profile: Profile, parts: Parts, losses: list[Loss]) -> None:
        self._profile = profile
        self._parts = parts
        self._losses = losses
        self._policy = profile.tool_images
        if self._policy == "follow_up" and profile.images == "none":
            self._policy = "placeholder"

    def encode(
        self, part: ToolResultPart, call_id: str, path: str
    ) -> tuple[ToolMessageOut, list[PartOut]]:
        """Return the tool's message, and what must follow it in a user's message.

        Raises:
            UntranslatableError: the upstream cannot take what is in the result.
        """
        inside: list[PartOut] = []
        follow: list[PartOut] = []
        moved = 0
        for at, one in enumerate(part.parts, 1):
            if isinstance(one, TextPart):
                hint = one.cache or (part.cache if at == len(part.parts) else None)
                if one.text:
                    inside.append(self._parts.marks.text(one.text, hint))
                continue
            text = self._text_of(one, path)
            if text is not None:
                inside.append(TextOut(text))
            elif self._policy == "native":
                inside += self._parts.user(one, path)
            elif self._policy == "placeholder":
                kind = "image" if isinstance(one, ImagePart) else "document"
                self._losses.append(
                    Loss("tool_content_flattened", path, f"the {kind} was left out")
                )
                inside.append(TextOut(f"[{kind} omitted]"))
            else:
                moved += 1
                kind = "image" if isinstance(one, ImagePart) else "document"
                inside.append(TextOut(f"[{kind} {moved} of call {call_id} follows]"))
                follow += self._parts.user(one, path)
        if moved:
            self._losses.append(Loss("tool_image_moved", path, f"of call {call_id}"))
        if part.is_error:
            _mark_error(inside)
        return ToolMessageOut("tool", call_id, self._content(inside, path)), follow

    def _text_of(self, part: Attachment, path: str) -> str | None:
        """Return an attachment that can be written as text."""
        match part:
            case SearchResultPart():
                return search_result_text(part, path, self._losses)
            case DocumentPart():
                return self._parts.document_text(part, path)
            case ImagePart():
                return None

    def _content(self, inside: list[PartOut], path: str) -> ContentOut:
        plain = all(isinstance(part, TextOut) for part in inside)
        bare = all(part == TextOut(part.text) for part in inside if isinstance(part, TextOut))
        if plain and bare and (self._profile.tool_content == "string" or len(inside) < 2):
            text = "\n".join(part.text for part in inside if isinstance(part, TextOut))
            if not text and self._profile.refuses_empty_tool_content:
                self._losses.append(Loss("empty_content_filled", path))
                return _NO_OUTPUT
            return text
        return inside


def _mark_error(inside: list[PartOut]) -> None:
    """Mark the text of a failed call: the dialect has no other place for it."""
    first = inside[0] if inside else None
    if not isinstance(first, TextOut):
        inside.insert(0, TextOut(ERROR))
    else:
        first.text = error_text(first.text)


# --- reasoning ------------------------------------------------------------------------------------

_LIST: Final[msgspec.json.Decoder[list[Raw]]] = msgspec.json.Decoder(list[Raw])


class Replayed(Struct, frozen=True, gc=False):
    """The reasoning fields of one message."""

    content: str = ""  # `reasoning_content`
    text: str = ""  # `reasoning`
    details: list[Raw] | None = None  # `reasoning_details`


NONE: Final = Replayed()


class Replay:
    """Decide for every assistant turn of one history."""

    def __init__(
        self, turns: Sequence[Turn], profile: Profile, losses: list[Loss], *, thinks: bool
    ) -> None:
        self._turns = turns
        self._profile = profile
        self._losses = losses
        self._thinks = thinks  # the upstream is not asked to leave reasoning out
        self._carried = ""  # the last reasoning of the tool chain
        self._dropped = False  # reported already
        # A turn without reasoning may get some all the same.
        self._fills = profile.carry_reasoning or profile.reasoning_filler != ""
        self._policy = ReplayPolicy(turns, profile)

    def of(self, at: int, parts: Sequence[ReasoningPart], *, calls: bool) -> Replayed:
        """Return the reasoning that goes with turn `at`; turns are asked for in order.

        `parts` are the turn's own reasoning; `calls`: it calls tools.
        """
        if not parts and not self._fills:
            return NONE
        turn = self._turns[at]
        if at and is_question(self._turns[at - 1]):
            self._carried = ""
        if not self._policy.wants(at, calls=calls):
            if parts and not self._dropped:
                self._dropped = True
                self._losses.append(Loss("reasoning_dropped", turn.path))
            return NONE
        text = "\n\n".join(part.text for part in parts if part.text)
        if self._profile.reasoning_field == "reasoning_details":
            return self._details(parts, turn, calls=calls)
        self._note_state(parts, turn)
        text = self._filled(text, turn) if calls else text
        if self._profile.reasoning_field == "reasoning":
            return Replayed(text=text)
        return Replayed(content=text)

    def _filled(self, text: str, turn: Turn) -> str:
        """Return reasoning for a turn with calls, which some upstreams demand."""
        if text:
            self._carried = text
            return text
        if self._profile.carry_reasoning and self._carried:
            return self._carried
        if self._profile.reasoning_filler and self._thinks:
            self._losses.append(Loss("reasoning_filled", turn.path))
            return self._profile.reasoning_filler
        return ""

    def _details(self, parts: Sequence[ReasoningPart], turn: Turn, *, calls: bool) -> Replayed:
        """Send details back to the upstream they came from; text alone goes into the plain field.

        An upstream that demands the list itself gets text as an entry of it.
        """
        details: list[Raw] = []
        texts: list[str] = []
        for part in parts:
            own = next((state for state in part.opaque if self._is_own(state)), None)
            if own is not None:
                entries = decode(_LIST, own.data.encode())
                details += entries
            elif any(_is_signed(state) for state in part.opaque):
                self._losses.append(Loss("opaque_dropped", turn.path))
            elif part.text:
                texts.append(part.text)
        text = "\n\n".join(texts)
        if self._profile.reasoning_filler and calls and not details:
            text = self._filled(text, turn)
            if text:
                return Replayed(details=[Raw(encode({"type": "reasoning.text", "text": text}))])
        return Replayed(text=text, details=details or None)

    def _is_own(self, state: OpaqueState) -> bool:
        return state.kind is OpaqueKind.DETAILS and state.origin in (
            self._profile.origin,
            CHAT_ORIGIN,
        )

    def _note_state(self, parts: Sequence[ReasoningPart], turn: Turn) -> None:
        """Report signatures that are dropped: their text goes into a field that has none."""
        if any(
            _is_signed(state) and state.origin not in (self._profile.origin, CHAT_ORIGIN)
            for part in parts
            for state in part.opaque
        ):
            self._losses.append(Loss("opaque_dropped", turn.path))


def _is_signed(state: OpaqueState) -> bool:
    return state.kind is not OpaqueKind.PLAIN


# --- messages -------------------------------------------------------------------------------------


_CUSTOM: Final = Flavor.CUSTOM

# State of a call that keeps calls of Moonshot's search.
_KEPT_SEARCHES: Final = f'"{KIMI_SEARCH}"'
_SEARCHES: Final = msgspec.json.Decoder(dict[str, list[SearchCall]])

# The content of a message that only calls tools.
EMPTY_CONTENT: Final[dict[str, str | UnsetType | None]] = {"null": None, "empty": "", "omit": UNSET}


class HistoryWriter:
    """Write the messages of one request for one upstream.

    One loop over the turns writes what every upstream takes.  What a profile asks for beside that is a step
    before the loop (`place_instructions`) or after it (`_alternating`, `_prefill`, `_mark_end`).
    """

    def __init__(
        self, request: Request, target: Target, losses: list[Loss], *, thinks: bool = True
    ) -> None:
        profile = target.profile
        self._request = request
        self._target = target
        self._profile = profile
        self._losses = losses
        self._thinks = thinks  # the upstream may think
        self._plain = not takes_marks(profile)  # texts have no cache marks
        self._ids = UpstreamIds(profile.id_style, target.known_ids)
        # A turn without reasoning may get some all the same.
        self._fills = profile.carry_reasoning or profile.reasoning_filler != ""
        self._turns: Sequence[Turn] = ()
        # Moonshot: calls of its search that the answer before kept with a call of the client, and their results.
        self._searches = profile.chat_search == "kimi" and any(
            tool.does is ServerKind.WEB_SEARCH for tool in request.tools
        )
        self._echoes: Sequence[tuple[CallOut, ToolMessageOut]] = ()

    def encode(self, instructions: Sequence[str]) -> list[AnyMessageOut]:
        """Return the messages; `instructions` are added to the client's.

        Raises:
            MalformedError: calls and results of the history do not fit.
            UntranslatableError: something has no form that the upstream takes.
        """
        target, losses = self._target, self._losses
        turns: Sequence[Turn] = normalize_history(
            self._request.turns, losses, strict=target.strict, repair=target.repair_history
        )
        self._turns = turns = place_instructions(turns, self._profile, losses)
        messages = self._system(instructions)
        for at, turn in enumerate(turns):
            if turn.role is ASSISTANT:
                message = self._assistant(turn, at)
                if message is not None:
                    messages.append(message)
                    messages += [result for _, result in self._echoes]
            elif turn.role is USER:
                self._user(turn, messages)
            else:
                messages += self._message(self._instructor, turn)
        if self._profile.alternate_roles:
            messages = self._alternating(messages)
        self._prefill(messages)
        if self._request.cache_all is not None:
            self._mark_end(messages, self._request.cache_all)
        return messages

    @cached_property
    def _parts(self) -> Parts:
        """The writer of messages with more than plain text."""
        return Parts(self._request, self._profile, self._losses)

    @cached_property
    def _results(self) -> "Results":
        return Results(self._profile, self._parts, self._losses)

    @cached_property
    def _replay(self) -> "Replay":
        return Replay(self._turns, self._profile, self._losses, thinks=self._thinks)

    # --- instructions -------------------------------------------------------------------------------

    @property
    def _instructor(self) -> str:
        return "developer" if self._profile.developer_role else "system"

    def _system(self, instructions: Sequence[str]) -> list[AnyMessageOut]:
        if self._plain:
            lines = [part.text for part in self._request.system if part.text]
            lines += instructions
            return [MessageOut(self._instructor, "\n\n".join(lines))] if lines else []
        marks = self._parts.marks
        texts = [part for part in self._request.system if part.text]
        parts = [marks.text(part.text, part.cache) for part in texts]
        parts += [TextOut(text) for text in instructions]
        if not parts:
            return []
        marked = any(part != TextOut(part.text) for part in parts)
        if marked:
            return [MessageOut(self._instructor, list(parts))]
        return [MessageOut(self._instructor, "\n\n".join(part.text for part in parts))]

    # --- the user ---------------------------------------------------------------------------------

    def _message(
        self, role: str, turn: Turn, before: Sequence[PartOut] = ()
    ) -> list[AnyMessageOut]:
        name = turn.name if self._request.dialect == "chat" and role == "user" else ""
        only = turn.parts[0] if len(turn.parts) == 1 and not before else None
        if type(only) is TextPart and only.text and self._plain:
            return [MessageOut(role, only.text, name)]
        parts = list(before)
        for part in turn.parts:
            if type(part) is TextPart:
                if part.text:
                    parts.append(self._parts.marks.text(part.text, part.cache))
            else:
                parts += self._beside_text(part, turn)
        return [MessageOut(role, self._parts.content(parts), name)] if parts else []

    def _beside_text(self, part: Part, turn: Turn) -> Sequence[PartOut]:
        match part:
            case TextPart() | ImagePart() | DocumentPart() | AudioPart() | SearchResultPart():
                return self._parts.user(part, turn.path)
            case OpaquePart():
                text = foreign_text(part, turn.path, self._losses)
                return [TextOut(text)] if text else []
            case RefusalPart(text=text) | ServerToolPart(summary=text):
                return [TextOut(text)]
            case ToolResultPart() | ToolCallPart() | ReasoningPart():
                return []  # results are written before; the others are not in a user's turn
            case _:
                assert_never(part)

    def _user(self, turn: Turn, messages: list[AnyMessageOut]) -> None:
        """Add the results of tools, and the user's text after them."""
        results = 0
        attached: list[PartOut] = []
        for part in turn.parts:
            if type(part) is not ToolResultPart:
                continue
            results += 1
            call_id = self._ids.of(part.call_id)  # known: no result is without its call
            only = part.parts[0] if len(part.parts) == 1 else None
            if type(only) is TextPart and only.text and self._plain and not part.is_error:
                messages.append(ToolMessageOut("tool", call_id, only.text))
                continue
            message, follow = self._results.encode(part, call_id, turn.path)
            messages.append(message)
            attached += follow
        if results == len(turn.parts) and not attached:
            return
        user = self._message("user", turn, attached)
        if results and user and not self._profile.user_after_tool:
            self._losses.append(Loss("turn_added", turn.path, "after a tool's result"))
            messages.append(AssistantOut("assistant", CONTINUED))
        messages += user

    # --- the assistant ------------------------------------------------------------------------------

    def _assistant(self, turn: Turn, at: int) -> AssistantOut | None:
        """Return the message of an assistant turn; None if nothing of it can be sent."""
        texts: list[str | TextOut] = []  # a part for itself only with a cache mark
        calls: list[CallOut] = []
        thoughts: list[ReasoningPart] = []
        self._echoes = self._kept_searches(turn) if self._searches else ()
        calls += [call for call, _ in self._echoes]
        refusal = ""
        after_call = False  # a call came after the last text
        for part in turn.parts:
            if type(part) is ToolCallPart:
                calls.append(self._call(part, turn))
                after_call = bool(texts)
                continue
            if type(part) is ReasoningPart:
                thoughts.append(part)
                continue
            if type(part) is ServerToolPart and self._echoes:
                continue  # the search itself goes back
            if type(part) is TextPart and self._plain and not part.citations:
                text: str | TextOut = part.text
            elif type(part) is RefusalPart and self._profile.supports_store:
                refusal += part.text
                continue
            else:
                text = self._text(part, turn)
            if text:
                if after_call:
                    texts.append("\n\n")
                    after_call = False
                texts.append(text)
        reasoning = NONE
        if thoughts or self._fills:
            reasoning = self._replay.of(at, thoughts, calls=bool(calls))
        if not texts and not calls and not refusal:
            if reasoning != NONE:
                detail = "no text or call follows it"
                self._losses.append(Loss("reasoning_dropped", turn.path, detail))
            return None
        only = texts[0] if len(texts) == 1 else None
        content = only if type(only) is str else self._content(texts)
        message = AssistantOut("assistant", content, tool_calls=calls or None)
        if reasoning is not NONE:
            message.reasoning_content = reasoning.content
            message.reasoning = reasoning.text
            message.reasoning_details = reasoning.details
        if refusal:
            message.refusal = refusal
        return message

    def _content(self, texts: list[str | TextOut]) -> ContentOut | UnsetType | None:
        plain = [text for text in texts if isinstance(text, str)]
        if len(plain) < len(texts):
            return [TextOut(text) if isinstance(text, str) else text for text in texts]
        if plain:
            return "".join(plain)
        return EMPTY_CONTENT[self._profile.empty_assistant_content]

    def _text(self, part: Part, turn: Turn) -> str | TextOut:
        """Return a part of the assistant's turn as text."""
        match part:
            case TextPart(text=text):
                if part.citations:
                    self._losses.append(Loss("citations_dropped", turn.path))
                if self._plain:
                    return text
                marked = self._parts.marks.text(text, part.cache)
                return text if marked == TextOut(text) else marked
            case RefusalPart(text=text):
                self._losses.append(Loss("refusal_as_text", turn.path))
                return text
            case ServerToolPart(summary=summary):
                self._losses.append(Loss("content_flattened", turn.path, summary))
                return f"{summary}\n"
            case OpaquePart():
                return foreign_text(part, turn.path, self._losses)
            case _:
                self._losses.append(file_of_assistant(turn.path))
                return ""

    def _call(self, part: ToolCallPart, turn: Turn) -> CallOut:
        name = wire_name(part.name, part.namespace)
        call_id = self._ids.of(part.id, name)
        if part.flavor is _CUSTOM and self._profile.supports_custom_tools:
            call = CallOut(call_id, "custom", custom=CustomCallOut(name, part.arguments))
        else:
            arguments = object_arguments(part, self._target.limits, self._losses, turn.path)
            call = CallOut(call_id, "function", FunctionCallOut(name, arguments))
        for state in part.opaque:
            own = self._is_own(state)
            searches = _KEPT_SEARCHES in state.data
            if own and not searches:
                call.extra_content = Raw(state.data.encode())
            elif not (own and self._searches):
                self._losses.append(Loss("opaque_dropped", turn.path, f"of call {part.id}"))
        return call

    def _is_own(self, state: OpaqueState) -> bool:
        return state.kind is OpaqueKind.TOOL_SIGNATURE and state.origin in (
            self._profile.origin,
            CHAT_ORIGIN,
        )

    def _kept_searches(self, turn: Turn) -> list[tuple[CallOut, ToolMessageOut]]:
        """Return the searches that run when their calls come back, with the arguments as the results, to the byte."""
        found: list[tuple[CallOut, ToolMessageOut]] = []
        for part in turn.parts:
            for state in part.opaque if type(part) is ToolCallPart else ():
                if not self._is_own(state) or _KEPT_SEARCHES not in state.data:
                    continue
                for kept in decode(_SEARCHES, state.data.encode()).get(KIMI_SEARCH, ()):
                    name, arguments = kept.function.name, kept.function.arguments
                    call = CallOut(kept.id, kept.type, FunctionCallOut(name, arguments))
                    found.append((call, ToolMessageOut("tool", kept.id, arguments, name)))
        return found

    # --- the order of messages ----------------------------------------------------------------------

    def _alternating(self, messages: list[AnyMessageOut]) -> list[AnyMessageOut]:
        """Join messages of the same role, and begin with a user's."""
        runs: list[list[AnyMessageOut]] = []
        for message in messages:
            if runs and _joins(runs[-1][-1], message):
                runs[-1].append(message)
            else:
                runs.append([message])
        out = [_joined(run) for run in runs]
        if any(len({getattr(message, "name", "") for message in run}) > 1 for run in runs):
            detail = "names of users whose turns were joined"
            self._losses.append(Loss("field_dropped", path_of(self._request, "messages"), detail))
        first = next((one for one in out if one.role not in ("system", "developer")), None)
        if isinstance(first, AssistantOut):
            self._losses.append(Loss("turn_added", path_of(self._request, "messages")))
            out.insert(out.index(first), MessageOut("user", CONTINUED))
        return out

    def _mark_end(self, messages: list[AnyMessageOut], hint: CacheHint) -> None:
        """Mark the whole prefix as worth caching."""
        last = messages[-1] if messages else None
        if not isinstance(last, MessageOut) or not isinstance(last.content, str):
            return
        marked = self._parts.marks.text(last.content, hint)
        if marked != TextOut(last.content):
            last.content = [marked]

    def _prefill(self, messages: list[AnyMessageOut]) -> None:
        """Let the upstream continue an assistant message at the end, or append a user message."""
        last = messages[-1] if messages else None
        if not isinstance(last, AssistantOut) or last.tool_calls:
            return
        own = self._request.dialect == "chat"  # it knows how its upstream takes this
        if not own and not continues(self._request, self._profile):
            self._losses.append(go_on_loss(self._request, self._target))
            messages.append(MessageOut("user", GO_ON))
        elif self._profile.prefill == "prefix":
            last.prefix = True
        elif self._profile.prefill == "partial":
            last.partial = True


def _joins(last: AnyMessageOut, message: AnyMessageOut) -> bool:
    """Return whether an upstream that wants alternating roles gets both as one message."""
    if isinstance(last, AssistantOut):
        return isinstance(message, AssistantOut) and not last.tool_calls
    same = isinstance(last, MessageOut) and isinstance(message, MessageOut)
    return same and last.role == message.role


def _joined(run: list[AnyMessageOut]) -> AnyMessageOut:
    last = run[-1]
    if len(run) == 1 or not isinstance(last, MessageOut | AssistantOut):
        return last
    texts: list[str] = []
    parts: list[PartOut] = []
    for message in run:
        content = message.content or ""
        if isinstance(content, str) and not parts:
            texts.append(content)
        else:
            parts += _listed(content)
    text = _paragraphs(texts)
    content = [*_listed(text), *parts] if parts else text
    if isinstance(last, MessageOut):
        names = {message.name for message in run if isinstance(message, MessageOut)}
        return MessageOut(last.role, content, names.pop() if len(names) == 1 else "")
    answers = [message for message in run if isinstance(message, AssistantOut)]
    details = [one for answer in answers for one in answer.reasoning_details or ()]
    return structs.replace(
        last,
        content=content,
        reasoning_content=_paragraphs(answer.reasoning_content for answer in answers),
        reasoning=_paragraphs(answer.reasoning for answer in answers),
        reasoning_details=details or None,
        refusal=_paragraphs(answer.refusal for answer in answers),
    )


def _paragraphs(texts: Iterable[str]) -> str:
    return "\n\n".join(filter(None, texts))


def _listed(content: ContentOut | UnsetType) -> Iterable[PartOut]:
    if isinstance(content, list):
        return content
    return [TextOut(content)] if isinstance(content, str) and content else []
