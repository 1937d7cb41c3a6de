"""Content parts of messages for a Chat Completions upstream: text, pictures, files, sound."""

from typing import Final, TypeAlias, assert_never

from msgspec import Struct

from dragoman.dialects.paths import path_of
from dragoman.errors import Untranslatable
from dragoman.profiles.profile import Profile
from dragoman.turn.loss import Loss
from dragoman.turn.request import (
    AudioPart,
    Base64Source,
    CacheHint,
    DocumentPart,
    FileSource,
    ImagePart,
    Request,
    SearchResultPart,
    TextPart,
    TextSource,
    ToolResultPart,
    UrlSource,
)

_MAX_MARKS: Final = 4  # of a prefix worth caching; vendors take no more


class CacheControl(Struct, gc=False, omit_defaults=True):
    type: str
    ttl: str = ""


class Breakpoint(Struct, gc=False):
    mode: str
    ttl: str


class TextOut(Struct, gc=False, omit_defaults=True, tag="text"):
    text: str
    cache_control: CacheControl | None = None
    prompt_cache_breakpoint: Breakpoint | None = None


class _Url(Struct, gc=False, omit_defaults=True):
    url: str
    detail: str = ""


class ImageOut(Struct, gc=False, tag="image_url"):
    image_url: _Url


class _File(Struct, gc=False, omit_defaults=True):
    filename: str = ""
    file_data: str = ""
    file_id: str = ""


class FileOut(Struct, gc=False, tag="file"):
    file: _File


class _Audio(Struct, gc=False):
    data: str
    format: str


class AudioOut(Struct, gc=False, tag="input_audio"):
    input_audio: _Audio


OutPart: TypeAlias = TextOut | ImageOut | FileOut | AudioOut
Content: TypeAlias = str | list[OutPart]
Attachment: TypeAlias = ImagePart | DocumentPart | SearchResultPart


class Marks:
    """Hand out the marks of prefixes worth caching: the last few, where there are too many."""

    def __init__(self, request: Request, profile: Profile, losses: list[Loss]) -> None:
        self._profile = profile
        self.active = profile.cache_control or profile.cache_breakpoints
        self._skip = 0
        if self.active:
            count = sum(hint is not None for hint in _hints(request))
            self._skip = max(0, count - _MAX_MARKS)
            if self._skip:
                losses.append(Loss("cache_hint_dropped", "", f"{self._skip} of {count}"))

    def text(self, text: str, hint: CacheHint | None) -> TextOut:
        """Return a text part with its mark."""
        if hint is None or not self.active:
            return TextOut(text)
        if self._skip:
            self._skip -= 1
            return TextOut(text)
        if self._profile.cache_control:
            return TextOut(text, CacheControl("ephemeral", "1h" if hint.long else ""))
        ttl = "12h" if hint.long else "30m"
        return TextOut(text, prompt_cache_breakpoint=Breakpoint("explicit", ttl))


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
        self._messages = path_of(request, "messages")
        self._profile = profile
        self._losses = losses
        self.marks = Marks(request, profile, losses)

    def user(self, part: TextPart | AudioPart | Attachment, path: str) -> list[OutPart]:
        """Return a part of a user's message.

        Raises:
            Untranslatable: the upstream cannot take it.
        """
        match part:
            case TextPart():
                return [self.marks.text(part.text, part.cache)] if part.text else []
            case AudioPart(data=data, format=kind):
                self._need_parts("audio", path)
                return [AudioOut(_Audio(data, kind))]
            case ImagePart():
                return [self._image(part, path)]
            case DocumentPart():
                return self._document(part, path)
            case SearchResultPart():
                return [TextOut(self.search_result(part, path))]
            case _:
                assert_never(part)

    def content(self, parts: list[OutPart]) -> Content:
        """Return parts as a message's content: a string where nothing else is needed."""
        if len(parts) == 1:
            only = parts[0]
            if type(only) is TextOut and _is_bare(only):
                return only.text
        if self._profile.content_parts == "string":
            return "\n".join(part.text for part in parts if isinstance(part, TextOut))
        return parts

    def search_result(self, part: SearchResultPart, path: str) -> str:
        """Return a search result as text; where it came from is kept, citing it is not."""
        self._losses.append(Loss("citations_dropped", path))
        text = "\n".join(one.text for one in part.parts)
        return (
            f'<search_result source="{part.source}" title="{part.title}">\n{text}\n</search_result>'
        )

    def document_text(self, part: DocumentPart, path: str) -> str | None:
        """Return a document as text, or None if it is a file."""
        if part.source is not None and not isinstance(part.source, TextSource):
            return None
        if part.cite:
            self._losses.append(Loss("citations_dropped", path))
        self._losses.append(Loss("content_flattened", path, "a document became text"))
        if isinstance(part.source, TextSource):
            text = part.source.text
        else:
            text = "\n".join(one.text for one in part.parts if isinstance(one, TextPart))
        context = f"{part.context}\n" if part.context else ""
        title = f' title="{part.title}"' if part.title else ""
        return f"{context}<document{title}>\n{text}\n</document>"

    def _need_parts(self, what: str, path: str) -> None:
        if self._profile.content_parts == "string":
            raise Untranslatable(
                f"the target takes text only, no {what}", path=path or self._messages
            )

    def _image(self, part: ImagePart, path: str) -> ImageOut:
        self._need_parts("images", path)
        path = path or self._messages
        match part.source:
            case _ if self._profile.images == "none":
                raise Untranslatable("the target takes no images", path=path)
            case Base64Source(media_type=media_type, data=data):
                return ImageOut(_Url(f"data:{media_type};base64,{data}", part.detail))
            case UrlSource(url=url):
                if self._profile.images == "base64_only":
                    reason = "the target takes images as data, not as addresses"
                    raise Untranslatable(reason, path=path)
                return ImageOut(_Url(url, part.detail))
            case FileSource():
                reason = "a file kept at one vendor means nothing to another"
                raise Untranslatable(reason, path=path)
            case _:
                assert_never(part.source)

    def _document(self, part: DocumentPart, path: str) -> list[OutPart]:
        text = self.document_text(part, path)
        if text is not None:
            images = [one for one in part.parts if isinstance(one, ImagePart)]
            return [self.marks.text(text, None), *(self._image(one, path) for one in images)]
        self._need_parts("documents", path)
        path = path or self._messages
        if part.cite:
            self._losses.append(Loss("citations_dropped", path))
        before: list[OutPart] = [TextOut(part.context)] if part.context else []
        match part.source:
            case _ if not self._profile.documents:
                raise Untranslatable("the target takes no documents", path=path)
            case Base64Source(media_type=media_type, data=data):
                name = part.title or "document.pdf"
                return [*before, FileOut(_File(name, f"data:{media_type};base64,{data}"))]
            case FileSource(file_id=file_id, vendor="openai"):
                return [*before, FileOut(_File(part.title, file_id=file_id))]
            case _:
                reason = "the target takes documents as data, not as addresses"
                raise Untranslatable(reason, path=path)


def _is_bare(part: TextOut) -> bool:
    return part.cache_control is None and part.prompt_cache_breakpoint is None
