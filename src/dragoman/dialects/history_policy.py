"""Decisions about the conversation that every dialect makes in the same way.

* a history that ends with the assistant: continued, extended by a user turn, or refused
* instructions before all turns, and between them for upstreams that take none there
* which assistant turns get their reasoning back, and whose state an upstream takes for its own
* parts that only another vendor can read
* how a failed tool call is marked in text
* a call without a name
* images and documents that the upstream does not accept, and those that become text
* the media type and the name of a file that lacks them
"""

from collections.abc import Collection, Sequence
from operator import attrgetter
from typing import Final

from msgspec import structs

from dragoman.context import Target
from dragoman.dialects.paths import path_of
from dragoman.dialects.request_policy import is_off
from dragoman.errors import MalformedError, UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.turn.losses import Loss
from dragoman.turn.request import (
    SYSTEM,
    USER,
    Base64Source,
    DocumentPart,
    FileSource,
    ImagePart,
    OpaquePart,
    Part,
    ReasoningPart,
    Request,
    SearchResultPart,
    TextPart,
    TextSource,
    ToolResultPart,
    Turn,
    UrlSource,
)

# --- a history that ends with the assistant ---------------------------------------------------------

GO_ON: Final = (
    "Continue."  # the user turn after an assistant turn that the upstream cannot continue
)


# The text of a turn that is there only because the upstream demands one.
CONTINUED: Final = "(continued)"


def continues(request: Request, profile: Profile) -> bool:
    """Return whether the upstream continues the assistant turn at the end of a translated request.

    A turn that is continued has no room for new reasoning, and upstreams refuse to do both.  A Messages
    client that asks for both gets the upstream's own refusal.
    """
    if profile.prefill == "no":
        return False
    thinking = request.reasoning
    thinks = thinking.mode != "default" and not is_off(thinking)
    return _defines_prefill(request) or not thinks


def _defines_prefill(request: Request) -> bool:
    """Return whether the client's dialect defines that an assistant message at the end is continued.

    Only Messages does.  The name decides, because a request that a program built has no dialect whose facts
    could be looked up.
    """
    return request.dialect == "anthropic"


def go_on_loss(request: Request, target: Target) -> Loss:
    """Return the loss for a user turn `GO_ON` after an assistant turn that the upstream cannot continue.

    In Messages a last assistant turn is a prefill: the client expects the rest of that very text, so the
    route's `prefill` setting decides.  Chat and Responses define no prefill: there the model adds a new
    message, and Codex ends its history so when it repeats a request after a broken stream.  opencode does
    the same in Messages, and a client that declares tools is an agent, which joins no text.

    Raises:
        UntranslatableError: the turn is a prefill and the route rejects those.
    """
    path = path_of(request, "messages")
    if not _defines_prefill(request) or request.tools:
        return Loss("user_turn_appended", path)
    if target.prefill == "reject":
        reason = "the target does not continue an assistant turn (prefill)"
        raise UntranslatableError(reason, path=path, code="prefill_not_supported")
    return Loss("prefill_emulated", path)


# --- instructions -----------------------------------------------------------------------------------

_role_of: Final = attrgetter("role")
REMINDER: Final = "<system-reminder>\n{}\n</system-reminder>"


def split_leading(turns: tuple[Turn, ...]) -> tuple[tuple[Turn, ...], tuple[Turn, ...]]:
    """Return the instructions before any other turn, which are part of the system prompt, and the rest."""
    count = 0
    while count < len(turns) and turns[count].role is SYSTEM:
        count += 1
    return turns[:count], turns[count:]


def takes_instructions(profile: Profile) -> bool:
    """Return whether the upstream takes instructions between the turns."""
    return profile.midturn_system and not profile.merge_system


def place_instructions(
    turns: Sequence[Turn], profile: Profile, losses: list[Loss]
) -> Sequence[Turn]:
    """Make instructions between the turns marked text of the nearest user turn, unless the upstream takes them.

    An instruction is added to the user turn before it, or put in front of the next one.
    """
    if takes_instructions(profile) or SYSTEM not in map(_role_of, turns):
        return turns
    placed: list[tuple[Turn, list[Part]]] = []  # with all parts of a turn that has instructions
    waiting: list[Turn] = []  # for the user turn that comes next
    for turn in turns:
        if turn.role is SYSTEM:
            reminder = as_reminder(turn, losses)
            if placed and placed[-1][0].role is USER and not waiting:
                last, parts = placed[-1]
                parts += (*(() if parts else last.parts), *reminder.parts)
            else:
                waiting.append(reminder)
            continue
        if waiting and turn.role is USER:
            placed.append((turn, [part for one in (*waiting, turn) for part in one.parts]))
        else:
            placed += ((one, []) for one in (*waiting, turn))
        waiting.clear()
    whole = [structs.replace(turn, parts=tuple(parts)) if parts else turn for turn, parts in placed]
    return whole + waiting


def as_reminder(turn: Turn, losses: list[Loss]) -> Turn:
    """Return an instruction as marked text of the user."""
    losses.append(Loss("system_midturn_emulated", turn.path))
    parts = tuple(
        structs.replace(part, text=REMINDER.format(part.text))
        if isinstance(part, TextPart)
        else part
        for part in turn.parts
    )
    return Turn(USER, parts, path=turn.path)


# --- reasoning of earlier turns ---------------------------------------------------------------------


class ReplayPolicy:
    """Decide which assistant turns of one history get their reasoning back."""

    def __init__(self, turns: Sequence[Turn], profile: Profile) -> None:
        self._replay = profile.replay_reasoning
        self._current = -1  # the last turn that began a new question
        if self._replay == "current_turn":
            questions = (at for at, turn in enumerate(turns) if is_question(turn))
            self._current = max(questions, default=-1)

    def wants(self, at: int, *, calls: bool) -> bool:
        """Return whether turn `at` gets its reasoning back; `calls`: the turn calls tools."""
        match self._replay:
            case "never" | "auto":  # `translate_requests` has replaced `auto` if it knew the model
                return False
            case "tool_turns":
                return calls
            case "current_turn":
                return at > self._current
            case "always":
                return True


def is_question(turn: Turn) -> bool:
    """Return whether a turn asks something new; a turn that begins with tool results does not."""
    first = turn.parts[0] if turn.parts else None
    return turn.role is USER and not isinstance(first, ToolResultPart)


def own_origins(profile: Profile, vendor: str, *, relayed: bool) -> frozenset[str]:
    """Return the origins of the state that an upstream takes back as its own.

    `relayed`: the client speaks the upstream's dialect, whose `vendor` its state seems to come from; it was
    relayed, and is the upstream's.
    """
    return frozenset({profile.origin, vendor} if relayed else {profile.origin})


def reasoning_loss(part: ReasoningPart, path: str) -> Loss:
    """Return the loss for reasoning that an upstream does not get back."""
    return Loss("opaque_dropped" if part.opaque else "reasoning_dropped", path)


# --- parts that only another vendor can read --------------------------------------------------------


def foreign_text(part: OpaquePart, path: str, losses: list[Loss]) -> str:
    """Return what is readable of a part that only another vendor can read; empty: it is dropped.

    `path` is that of its turn; the part has one if a request without it would mean something else.

    Raises:
        UntranslatableError: such a part has no text.
    """
    if part.text.strip():
        losses.append(Loss("content_flattened", path))
        return part.text
    if part.path:
        reason = "the target cannot read this part of the history"
        raise UntranslatableError(reason, path=part.path, code="unsupported_content_block")
    losses.append(Loss("content_dropped", path))
    return ""


# --- calls without a name ---------------------------------------------------------------------------


def check_call_name(name: str, path: str) -> None:
    """Refuse a call in a client's history whose name is empty, as the vendors do.

    `path` is that of the name.

    Raises:
        MalformedError: it is empty.
    """
    if not name:
        raise MalformedError("a tool call needs a name", path=path)


# --- failed tool calls ------------------------------------------------------------------------------

ERROR: Final = "Error"  # a result without text


def error_text(text: str) -> str:
    """Return the text of a failed call's result, marked as an error unless it begins like one.

    Chat and Responses have no field for it.
    """
    return text if text.lower().startswith("error") else f"{ERROR}: {text}"


# --- images, documents and search results -----------------------------------------------------------


_APPLE_TYPES: Final = frozenset({"image/heic", "image/heif"})  # read by Google alone
PDF: Final = "application/pdf"
_OFFICE: Final = "application/vnd.openxmlformats-officedocument"
# By the end of a file's name.
_MEDIA_TYPES: Final = {
    "pdf": PDF,
    "png": "image/png",
    "jpg": "image/jpeg",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "heic": "image/heic",
    "heif": "image/heif",
    "txt": "text/plain",
    "md": "text/markdown",
    "html": "text/html",
    "csv": "text/csv",
    "json": "application/json",
    "xml": "application/xml",
    "docx": f"{_OFFICE}.wordprocessingml.document",
    "xlsx": f"{_OFFICE}.spreadsheetml.sheet",
    "pptx": f"{_OFFICE}.presentationml.presentation",
    "zip": "application/zip",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "mp4": "video/mp4",
    "mov": "video/quicktime",
    "webm": "video/webm",
}
_ENDS: Final = {media_type: end for end, media_type in _MEDIA_TYPES.items()}


def media_type_of(url: str) -> str:
    """Return the media type that the name of a file in a URL shows; empty: it shows none."""
    name = url.partition("?")[0].partition("#")[0].rpartition("/")[2]
    return _MEDIA_TYPES.get(name.rpartition(".")[2].lower(), "")


def file_name(part: DocumentPart, media_type: str) -> str:
    """Return the name of a document, for dialects that demand one."""
    if part.title:
        return part.title
    end = _ENDS.get(media_type or PDF)
    return f"document.{end}" if end else "document"


def check_image(
    part: ImagePart, profile: Profile, path: str, *, refused: Collection[str] = _APPLE_TYPES
) -> None:
    """Refuse an image that the upstream does not accept; none is ever dropped silently.

    Raises:
        UntranslatableError: the upstream accepts no images, none by their address, or none of this type.
    """
    if profile.images == "none":
        reason = "the upstream does not accept images"
    elif isinstance(part.source, Base64Source) and part.source.media_type in refused:
        reason = f"the upstream does not accept images of the type {part.source.media_type}"
    elif profile.images == "base64_only" and isinstance(part.source, UrlSource):
        reason = "the upstream accepts images as data, not as URLs"
    else:
        return
    raise UntranslatableError(reason, path=path, code="unsupported_image")


def report_detail(part: ImagePart, path: str, losses: list[Loss]) -> None:
    """Report the detail in which an image is to be seen, for dialects without such a setting."""
    if part.detail not in ("", "auto"):
        losses.append(Loss("field_dropped", path, f"image detail {part.detail}"))


def file_of_assistant(path: str) -> Loss:
    """Return the loss for a file in an assistant's turn, where no dialect has a place for one."""
    return Loss("content_dropped", path, "only user messages may contain files")


def check_documents(profile: Profile, path: str) -> None:
    """Refuse a document if the upstream accepts none.

    Raises:
        UntranslatableError: it accepts none.
    """
    if not profile.documents:
        reason = "the upstream does not accept documents"
        raise UntranslatableError(reason, path=path, code="unsupported_document")


def stored_file(source: FileSource, vendor: str, path: str) -> str:
    """Return the id of a file that the upstream's vendor stores.

    Raises:
        UntranslatableError: another vendor stores it.
    """
    if source.vendor != vendor:
        reason = f"the file `{source.file_id}` is stored at another vendor"
        raise UntranslatableError(reason, path=path, code="unsupported_file")
    return source.file_id


def document_text(part: DocumentPart) -> str | None:
    """Return a document that is text, with its title; None if it is a file."""
    if part.source is not None and not isinstance(part.source, TextSource):
        return None
    inner = [one.text for one in part.parts if isinstance(one, TextPart)]
    text = "\n".join(inner) if part.source is None else part.source.text
    title = f' title="{part.title}"' if part.title else ""
    return f"<document{title}>\n{text}\n</document>"


def search_result_text(part: SearchResultPart, path: str, losses: list[Loss]) -> str:
    """Return a search result as text with its source; citations that were asked for are reported as lost."""
    losses.append(Loss("content_flattened", path, "a search result became text"))
    if part.cite:
        losses.append(Loss("citations_dropped", path))
    text = "\n".join(one.text for one in part.parts)
    return f'<search_result source="{part.source}" title="{part.title}">\n{text}\n</search_result>'
