"""Content parts of a client's messages and tool results, read into parts of a turn."""

import re
from collections.abc import Sequence
from typing import Final

from dragoman.dialects.responses.schema import Part
from dragoman.errors import Malformed
from dragoman.turn.loss import Loss
from dragoman.turn.request import (
    AudioPart,
    Base64Source,
    CacheHint,
    DocumentPart,
    FileSource,
    ImagePart,
    RefusalPart,
    TextPart,
    UrlSource,
)
from dragoman.turn.request import Part as TurnPart

_VENDOR: Final = "openai"
_DATA_URL: Final = re.compile(r"data:([^;,]*)(?:;[^,]*)?;base64,(.*)", re.DOTALL)
# The first characters of base64 tell an image's type where its sender does not.
_MAGIC: Final = {
    "iVBOR": "image/png",
    "/9j/": "image/jpeg",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}


def content_parts(content: str | list[Part] | None, path: str) -> Sequence[TurnPart]:
    """Read the content of a user's message."""
    if content is None:
        return ()
    if isinstance(content, str):
        return (TextPart(content),)
    return [_content_part(part, f"{path}.content[{index}]") for index, part in enumerate(content)]


def result_parts(
    output: str | list[Part] | None, path: str
) -> Sequence[TextPart | ImagePart | DocumentPart]:
    """Read the output of a tool."""
    if output is None:
        return ()
    if isinstance(output, str):
        return (TextPart(output),)
    parts: list[TextPart | ImagePart | DocumentPart] = []
    for index, given in enumerate(output):
        at = f"{path}.output[{index}]"
        part = _content_part(given, at)
        if not isinstance(part, TextPart | ImagePart | DocumentPart):
            raise _unsupported(given.type, at)
        parts.append(part)
    return parts


def _content_part(part: Part, path: str) -> TurnPart:
    cache = None
    if part.prompt_cache_breakpoint is not None:
        cache = CacheHint(long=part.prompt_cache_breakpoint.ttl == "12h")
    match part.type:
        case "input_text" | "output_text" | "text":
            return TextPart(part.text or "", cache)
        case "input_image":
            return ImagePart(_image_source(part, path), part.detail or "", cache)
        case "input_file":
            return _document(part, path, cache)
        case "input_audio" if part.input_audio is not None:
            return AudioPart(part.input_audio.data, part.input_audio.format)
        case "refusal":
            return RefusalPart(part.refusal or "")
        case _:
            raise _unsupported(part.type, path)


def _unsupported(kind: str, path: str) -> Malformed:
    reason = f"a content part of type `{kind}` has no meaning here"
    return Malformed(reason, path=path, code="unsupported_content_block")


def _image_source(part: Part, path: str) -> Base64Source | UrlSource | FileSource:
    if part.image_url:
        return _data_source(part.image_url) or UrlSource(part.image_url)
    if part.file_id:
        return FileSource(part.file_id, _VENDOR)
    raise Malformed("an image needs `image_url` or `file_id`", path=path)


def _document(part: Part, path: str, cache: CacheHint | None) -> DocumentPart:
    source: Base64Source | UrlSource | FileSource
    if part.file_data:
        source = _data_source(part.file_data) or Base64Source("application/pdf", part.file_data)
    elif part.file_url:
        source = UrlSource(part.file_url)
    elif part.file_id:
        source = FileSource(part.file_id, _VENDOR)
    else:
        raise Malformed("a file needs `file_data`, `file_url` or `file_id`", path=path)
    return DocumentPart(source, part.filename or "", cache=cache)


def _data_source(url: str) -> Base64Source | None:
    match = _DATA_URL.match(url)
    if match is None:
        return None
    kind, data = match.groups()
    if not kind:
        kind = next((kind for magic, kind in _MAGIC.items() if data.startswith(magic)), "image/png")
    return Base64Source(kind, data)


def instructions(content: str | list[Part] | None, path: str) -> Sequence[TextPart]:
    parts = content_parts(content, path)
    for index, part in enumerate(parts):
        if not isinstance(part, TextPart):
            raise Malformed("instructions are text", path=f"{path}.content[{index}]")
    return [part for part in parts if isinstance(part, TextPart) and part.text]


def spoken_parts(
    content: str | list[Part] | None, path: str, losses: list[Loss]
) -> Sequence[TurnPart]:
    """Read the content of the assistant's message; what is not known of it is passed over and told."""
    if content is None or isinstance(content, str):
        return (TextPart(content),) if content else ()
    parts: list[TurnPart] = []
    for index, part in enumerate(content):
        match part.type:
            case "output_text" | "input_text" | "text" if not part.annotations:
                parts.append(TextPart(part.text or ""))
            case "output_text" | "input_text" | "text":
                notes = tuple(part.annotations or ())
                parts.append(TextPart(part.text or "", citations=notes, vendor=_VENDOR))
            case "refusal":
                parts.append(RefusalPart(part.refusal or ""))
            case _:
                losses.append(Loss("part_unknown", f"{path}.content[{index}]", part.type))
    return parts
