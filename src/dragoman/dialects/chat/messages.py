"""The history of any client as messages for a Chat Completions upstream."""

from collections.abc import Iterable, Sequence
from typing import Final, TypeAlias, assert_never

from msgspec import UNSET, Raw, Struct, UnsetType, structs

from dragoman.dialects.chat.parts import Content, OutPart, Parts, TextOut
from dragoman.dialects.chat.replay import NONE, Replay
from dragoman.dialects.chat.results import Results, ToolMessage
from dragoman.dialects.functions import object_arguments
from dragoman.dialects.paths import path_of
from dragoman.dialects.request_policy import GO_ON, continues, go_on_loss
from dragoman.errors import Untranslatable
from dragoman.exchange import Target
from dragoman.ids import UpstreamIds
from dragoman.profiles.profile import Profile
from dragoman.turn.events import Flavor, OpaqueKind
from dragoman.turn.history import settle
from dragoman.turn.loss import Loss
from dragoman.turn.request import (
    ASSISTANT,
    SYSTEM,
    USER,
    AudioPart,
    CacheHint,
    DocumentPart,
    ImagePart,
    OpaquePart,
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
)
from dragoman.turn.tools import wire_name

_BETWEEN: Final = "(continued)"  # a turn that is there only because the upstream demands one
_CUSTOM: Final = Flavor.CUSTOM
# What stands for the text of a message that only calls tools.
EMPTY_CONTENT: Final[dict[str, str | UnsetType | None]] = {"null": None, "empty": "", "omit": UNSET}


class Message(Struct, gc=False, omit_defaults=True):
    """A message of the user, or an instruction."""

    role: str
    content: Content
    name: str = ""


class Function(Struct, gc=False):
    name: str
    arguments: str


class _Custom(Struct, gc=False):
    name: str
    input: str


class Call(Struct, gc=False, omit_defaults=True):
    id: str
    type: str
    function: Function | None = None
    custom: _Custom | None = None
    extra_content: Raw | None = None


class AssistantMessage(Struct, gc=False, omit_defaults=True):
    role: str
    content: Content | UnsetType | None = UNSET
    reasoning_content: str = ""
    reasoning: str = ""
    reasoning_details: list[Raw] | None = None
    refusal: str = ""
    tool_calls: list[Call] | None = None
    prefix: bool = False
    partial: bool = False


OutMessage: TypeAlias = Message | AssistantMessage | ToolMessage


class Messages:
    """The messages of one request, for one upstream."""

    def __init__(self, request: Request, target: Target, losses: list[Loss]) -> None:
        self._request = request
        self._target = target
        self._profile = target.profile
        self._losses = losses
        self._parts = Parts(request, target.profile, losses)
        self._plain = not self._parts.marks.active  # texts are never marked
        self._ids = UpstreamIds(target.profile.id_style, target.known_ids)
        self._results = Results(target.profile, self._parts, losses)

    def encode(self, instructions: Sequence[str], *, thinks: bool) -> list[OutMessage]:
        """Return the messages; `instructions` are ours, to be added to the client's.

        Raises:
            Malformed: calls and results of the history do not fit.
            Untranslatable: something has no form that the upstream takes.
        """
        settled = settle(
            self._request.turns,
            self._losses,
            strict=self._target.strict,
            repair=self._target.repair_history,
        )
        turns = place_instructions(settled, self._profile, self._losses)
        replay = Replay(turns, self._profile, self._losses, thinks=thinks)
        messages = self._system(instructions)
        for at, turn in enumerate(turns):
            if turn.role is ASSISTANT:
                said = self._assistant(turn, replay, at)
                if said is not None:
                    messages.append(said)
            elif turn.role is USER:
                messages += self._user(turn)
            else:
                messages += self._message(self._instructor, turn)
        if self._profile.alternate_roles:
            messages = self._alternating(messages)
        self._prefill(messages)
        if self._request.cache_all is not None:
            self._mark_end(messages, self._request.cache_all)
        return messages

    # --- instructions -------------------------------------------------------------------------------

    @property
    def _instructor(self) -> str:
        return "developer" if self._profile.developer_role else "system"

    def _system(self, instructions: Sequence[str]) -> list[OutMessage]:
        if self._plain:
            said = [part.text for part in self._request.system if part.text]
            said += instructions
            return [Message(self._instructor, "\n\n".join(said))] if said else []
        marks = self._parts.marks
        texts = [part for part in self._request.system if part.text]
        parts = [marks.text(part.text, part.cache) for part in texts]
        parts += [TextOut(text) for text in instructions]
        if not parts:
            return []
        marked = any(part != TextOut(part.text) for part in parts)
        if marked:
            return [Message(self._instructor, list(parts))]
        return [Message(self._instructor, "\n\n".join(part.text for part in parts))]

    # --- the user ---------------------------------------------------------------------------------

    def _message(self, role: str, turn: Turn, before: Sequence[OutPart] = ()) -> list[OutMessage]:
        name = turn.name if self._request.dialect == "chat" and role == "user" else ""
        only = turn.parts[0] if len(turn.parts) == 1 and not before else None
        if type(only) is TextPart and only.text and self._plain:
            return [Message(role, only.text, name)]
        parts = list(before)
        for part in turn.parts:
            if type(part) is TextPart:
                if part.text:
                    parts.append(self._parts.marks.text(part.text, part.cache))
            else:
                parts += self._beside_text(part, turn)
        return [Message(role, self._parts.content(parts), name)] if parts else []

    def _beside_text(self, part: Part, turn: Turn) -> Sequence[OutPart]:
        match part:
            case TextPart() | ImagePart() | DocumentPart() | AudioPart() | SearchResultPart():
                return self._parts.user(part, turn.path)
            case OpaquePart():
                return [TextOut(self._opaque(part, turn))]
            case RefusalPart(text=text) | ServerToolPart(summary=text):
                return [TextOut(text)]
            case ToolResultPart() | ToolCallPart() | ReasoningPart():
                return []  # results are written before, the others are no user's
            case _:
                assert_never(part)

    def _user(self, turn: Turn) -> list[OutMessage]:
        messages: list[OutMessage] = []
        attached: list[OutPart] = []
        for part in turn.parts:
            if type(part) is not ToolResultPart:
                continue
            call_id = self._ids.of(part.call_id)  # known: no result is without its call
            only = part.parts[0] if len(part.parts) == 1 else None
            if type(only) is TextPart and only.text and self._plain and not part.is_error:
                messages.append(ToolMessage("tool", call_id, only.text))
                continue
            message, follow = self._results.encode(part, call_id, turn.path)
            messages.append(message)
            attached += follow
        if not attached and len(messages) == len(turn.parts):
            return messages
        said = self._message("user", turn, attached)
        if messages and said and not self._profile.user_after_tool:
            self._losses.append(Loss("turn_added", turn.path, "after a tool's result"))
            messages.append(AssistantMessage("assistant", _BETWEEN))
        return messages + said

    # --- the assistant ------------------------------------------------------------------------------

    def _assistant(self, turn: Turn, replay: Replay, at: int) -> AssistantMessage | None:
        texts: list[str | TextOut] = []  # a part of its own only where it is marked
        calls: list[Call] = []
        thoughts: list[ReasoningPart] = []
        refusal = ""
        apart = False  # a call stood between the last text and this place
        for part in turn.parts:
            if type(part) is ToolCallPart:
                calls.append(self._call(part, turn))
                apart = bool(texts)
            elif type(part) is ReasoningPart:
                thoughts.append(part)
            elif type(part) is RefusalPart and self._profile.supports_store:
                refusal += part.text
            elif text := self._said(part, turn):
                if apart:
                    texts.append("\n\n")
                texts.append(text)
                apart = False
        reasoning = replay.of(at, thoughts, calls=bool(calls)) if thoughts or replay.fills else NONE
        if not texts and not calls and not refusal:
            if reasoning != NONE:
                detail = "no text or call follows it"
                self._losses.append(Loss("reasoning_dropped", turn.path, detail))
            return None
        only = texts[0] if len(texts) == 1 else None
        return AssistantMessage(
            "assistant",
            only if type(only) is str else self._content(texts),
            reasoning.content,
            reasoning.text,
            reasoning.details,
            refusal,
            calls or None,
        )

    def _content(self, texts: list[str | TextOut]) -> Content | UnsetType | None:
        plain = [text for text in texts if isinstance(text, str)]
        if len(plain) < len(texts):
            return [TextOut(text) if isinstance(text, str) else text for text in texts]
        if plain:
            return "".join(plain)
        return EMPTY_CONTENT[self._profile.empty_assistant_content]

    def _said(self, part: Part, turn: Turn) -> str | TextOut:
        """Return what the assistant said as text."""
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
                return summary
            case OpaquePart():
                return self._opaque(part, turn)
            case _:
                self._losses.append(Loss("content_dropped", turn.path, type(part).__name__))
                return ""

    def _opaque(self, part: OpaquePart, turn: Turn) -> str:
        if part.text:
            self._losses.append(Loss("content_flattened", turn.path))
        elif part.path:
            reason = "this part of the history means nothing to the target"
            raise Untranslatable(reason, path=part.path, code="unsupported_content_block")
        else:
            self._losses.append(Loss("content_dropped", turn.path))
        return part.text

    def _call(self, part: ToolCallPart, turn: Turn) -> Call:
        name = wire_name(part.name, part.namespace)
        call_id = self._ids.of(part.id, name)
        if part.flavor is _CUSTOM and self._profile.supports_custom_tools:
            call = Call(call_id, "custom", custom=_Custom(name, part.arguments))
        else:
            arguments = object_arguments(part, self._target.limits, self._losses, turn.path)
            call = Call(call_id, "function", Function(name, arguments))
        for state in part.opaque:
            if state.kind is OpaqueKind.TOOL_SIGNATURE and state.origin in (
                self._profile.origin,
                "chat",
            ):
                call.extra_content = Raw(state.data.encode())
            else:
                self._losses.append(Loss("opaque_dropped", turn.path, f"of call {part.id}"))
        return call

    # --- the order of messages ----------------------------------------------------------------------

    def _alternating(self, messages: list[OutMessage]) -> list[OutMessage]:
        """Join messages of the same role, and begin with a user's."""
        out: list[OutMessage] = []
        for message in messages:
            last = out[-1] if out else None
            if isinstance(last, Message) and isinstance(message, Message):
                if last.role == message.role:
                    out[-1] = Message(last.role, _joined(last.content, message.content))
                    continue
            elif (
                isinstance(last, AssistantMessage)
                and isinstance(message, AssistantMessage)
                and not last.tool_calls
            ):
                content = _joined(last.content or "", message.content or "")
                out[-1] = structs.replace(message, content=content)
                continue
            out.append(message)
        first = next((one for one in out if one.role not in ("system", "developer")), None)
        if isinstance(first, AssistantMessage):
            self._losses.append(Loss("turn_added", path_of(self._request, "messages")))
            out.insert(out.index(first), Message("user", _BETWEEN))
        return out

    def _mark_end(self, messages: list[OutMessage], hint: CacheHint) -> None:
        """Mark the whole prefix as worth caching."""
        last = messages[-1] if messages else None
        if not isinstance(last, Message) or not isinstance(last.content, str):
            return
        marked = self._parts.marks.text(last.content, hint)
        if marked != TextOut(last.content):
            last.content = [marked]

    def _prefill(self, messages: list[OutMessage]) -> None:
        """Let the upstream continue an assistant message at the end, or append a user message."""
        last = messages[-1] if messages else None
        if not isinstance(last, AssistantMessage) or last.tool_calls:
            return
        own = self._request.dialect == "chat"  # it knows how its upstream takes this
        if not own and not continues(self._request, self._profile):
            self._losses.append(go_on_loss(self._request, self._target))
            messages.append(Message("user", GO_ON))
        elif self._profile.prefill == "prefix":
            last.prefix = True
        elif self._profile.prefill == "partial":
            last.partial = True


def place_instructions(
    turns: Sequence[Turn], profile: Profile, losses: list[Loss]
) -> Sequence[Turn]:
    """Put instructions inside the conversation into user turns, where the upstream wants that."""
    if profile.midturn_system and not profile.merge_system:
        return turns
    placed: list[Turn] = []
    waiting: list[Turn] = []  # reminders for the user's turn that comes next
    for turn in turns:
        if turn.role is SYSTEM:
            losses.append(Loss("system_midturn_emulated", turn.path))
            if placed and placed[-1].role is USER and not waiting:
                placed[-1] = _appended(placed[-1], _reminder(turn))
            else:
                waiting.append(_reminder(turn))
            continue
        for reminder in waiting:
            if turn.role is USER:
                turn = structs.replace(turn, parts=reminder.parts + turn.parts)  # noqa: PLW2901
            else:
                placed.append(reminder)
        waiting.clear()
        placed.append(turn)
    return placed + waiting


def _appended(turn: Turn, other: Turn) -> Turn:
    return structs.replace(turn, parts=turn.parts + other.parts)


def _reminder(turn: Turn) -> Turn:
    parts = tuple(
        structs.replace(part, text=f"<system-reminder>\n{part.text}\n</system-reminder>")
        if isinstance(part, TextPart)
        else part
        for part in turn.parts
    )
    return Turn(USER, parts, path=turn.path)


def _joined(one: Content | UnsetType, other: Content | UnsetType) -> Content:
    if isinstance(one, str) and isinstance(other, str):
        return f"{one}\n\n{other}" if one and other else one or other
    return [*_listed(one), *_listed(other)]


def _listed(content: Content | UnsetType) -> Iterable[OutPart]:
    if isinstance(content, list):
        return content
    return [TextOut(content)] if isinstance(content, str) and content else []
