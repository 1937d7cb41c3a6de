"""Results of tool calls as messages for a Chat Completions upstream.

A tool's message is text in this dialect.  Pictures and files go into the user's message that follows,
unless the upstream takes them where they are, or not at all.
"""

from msgspec import Struct

from dragoman.dialects.chat.parts import Attachment, Content, OutPart, Parts, TextOut
from dragoman.profiles.profile import Profile
from dragoman.turn.loss import Loss
from dragoman.turn.request import (
    DocumentPart,
    ImagePart,
    SearchResultPart,
    TextPart,
    ToolResultPart,
)

_NO_OUTPUT = "(no output)"


class ToolMessage(Struct, gc=False):
    role: str
    tool_call_id: str
    content: Content


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
    ) -> tuple[ToolMessage, list[OutPart]]:
        """Return the tool's message, and what must follow it in a user's message.

        Raises:
            Untranslatable: the upstream cannot take what is in the result.
        """
        inside: list[OutPart] = []
        follow: list[OutPart] = []
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
                self._losses.append(Loss("tool_content_flattened", path, f"an {kind} was left out"))
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
        return ToolMessage("tool", call_id, self._content(inside, path)), follow

    def _text_of(self, part: Attachment, path: str) -> str | None:
        """Return an attachment that can be written as text."""
        match part:
            case SearchResultPart():
                return self._parts.search_result(part, path)
            case DocumentPart():
                return self._parts.document_text(part, path)
            case ImagePart():
                return None

    def _content(self, inside: list[OutPart], path: str) -> Content:
        plain = all(isinstance(part, TextOut) for part in inside)
        bare = all(part == TextOut(part.text) for part in inside if isinstance(part, TextOut))
        if plain and bare and (self._profile.tool_content == "string" or len(inside) < 2):
            text = "\n".join(part.text for part in inside if isinstance(part, TextOut))
            if not text and self._profile.refuses_empty_tool_content:
                self._losses.append(Loss("empty_content_filled", path))
                return _NO_OUTPUT
            return text
        return inside


def _mark_error(inside: list[OutPart]) -> None:
    """Say in words that a call failed: the dialect has no other place for it."""
    first = inside[0] if inside else None
    if not isinstance(first, TextOut):
        inside.insert(0, TextOut("Error"))
    else:
        first.text = error_text(first.text)


def error_text(text: str) -> str:
    """Return the text of a result with a word that the call failed, unless it says so itself."""
    return text if text.lower().startswith("error") else f"Error: {text}"
