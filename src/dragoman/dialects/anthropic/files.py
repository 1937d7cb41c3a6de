"""Images, documents and search results for an upstream that speaks Messages."""

import base64
import binascii
from typing import Final, TypeAlias, assert_never

from dragoman.dialects.anthropic import schema
from dragoman.dialects.anthropic.marks import CacheMarks
from dragoman.errors import Untranslatable
from dragoman.profiles.profile import Profile
from dragoman.turn.loss import Loss
from dragoman.turn.request import (
    Base64Source,
    DocumentPart,
    FileSource,
    ImagePart,
    SearchResultPart,
    TextPart,
    TextSource,
    UrlSource,
)

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
            Untranslatable: the upstream does not take it; never is a file left out in silence.
        """
        match part:
            case ImagePart():
                return self._image(part, path)
            case DocumentPart():
                return self._document(part, path)
            case SearchResultPart():
                texts = [schema.TextBlock(one.text) for one in part.parts if one.text.strip()]
                mark = self._marks.take(part.cache)
                return schema.SearchResultBlock(part.source, part.title, texts, mark)
            case _:
                assert_never(part)

    def _image(self, part: ImagePart, path: str) -> schema.ImageBlock:
        if self._profile.images == "none":
            raise Untranslatable("this model takes no images", path=path, code="unsupported_image")
        if part.detail not in ("", "auto"):
            self._losses.append(Loss("field_dropped", path, f"image detail {part.detail}"))
        source: schema.Base64Source | schema.UrlSource | schema.FileSource
        match part.source:
            case Base64Source(media_type=media_type, data=data):
                source = schema.Base64Source(_image_type(media_type, data, path), data)
            case UrlSource(url=url):
                if self._profile.images == "base64_only":
                    reason = "this model takes images only as data, not as addresses"
                    raise Untranslatable(reason, path=path, code="unsupported_image")
                source = schema.UrlSource(url)
            case FileSource():
                source = self._stored(part.source, path)
            case _:
                assert_never(part.source)
        return schema.ImageBlock(source, self._marks.take(part.cache))

    def _document(self, part: DocumentPart, path: str) -> schema.DocumentBlock:
        return schema.DocumentBlock(
            self._document_source(part, path),
            part.title or None,
            part.context or None,
            schema.CitationsFlag(enabled=True) if part.cite else None,
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
                return self._stored(part.source, path)
            case Base64Source(media_type=media_type) if media_type not in ("", _PDF):
                reason = f"this model takes PDF and plain text, not `{media_type}`"
                raise Untranslatable(reason, path=path, code="unsupported_document")
            case _ if not self._profile.documents:
                reason = "this model takes no documents"
                raise Untranslatable(reason, path=path, code="unsupported_document")
            case Base64Source(data=data):
                return schema.Base64Source(_PDF, data)
            case UrlSource(url=url):
                return schema.UrlSource(url)
            case _:
                assert_never(part.source)

    def _stored(self, source: FileSource, path: str) -> schema.FileSource:
        if source.vendor != schema.VENDOR:
            reason = f"the file `{source.file_id}` is stored at another vendor"
            raise Untranslatable(reason, path=path, code="unsupported_file")
        return schema.FileSource(source.file_id)


def _image_type(media_type: str, data: str, path: str) -> str:
    """Return what an image is by its first bytes; what was said of it counts only if they say nothing."""
    try:
        head = base64.b64decode(data[:32])
    except (binascii.Error, ValueError):
        head = b""
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        found = "image/webp"
    else:
        said = "image/jpeg" if media_type == "image/jpg" else media_type
        found = next((kind for mark, kind in _SIGNATURES if head.startswith(mark)), said)
    if found not in _IMAGE_TYPES:
        reason = f"this model takes JPEG, PNG, GIF and WebP images, not `{found}`"
        raise Untranslatable(reason, path=path, code="invalid_image_format")
    return found


def _plain_text(data: str, path: str) -> str:
    try:
        return base64.b64decode(data, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        raise Untranslatable("a document's data is not base64", path=path) from None
