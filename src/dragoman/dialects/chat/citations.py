"""Sources of the text: `annotations` of a message, and plain lists of addresses.

Offsets count from the start of the message in the dialect, and from the start of the text block in the
turn; `base` is the number of characters of text before the block.
"""

from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.chat.schema import UrlCitation, is_given
from dragoman.dialects.decoding import decode
from dragoman.dialects.surrogates import mended
from dragoman.turn.events import Citation


class _Annotation(Struct, gc=False):
    type: str = ""
    url_citation: UrlCitation | None = None


_LIST: Final[msgspec.json.Decoder[list[Raw]]] = msgspec.json.Decoder(list[Raw])
_ANNOTATION: Final = msgspec.json.Decoder(_Annotation)
_URLS: Final[msgspec.json.Decoder[list[str | UrlCitation]]] = msgspec.json.Decoder(
    list[str | UrlCitation]
)


def read_annotations(raw: Raw, base: int) -> list[Citation | None]:
    """Read a message's annotations; None stands for one that is no address.

    Raises:
        Malformed: they are no list of objects.
    """
    citations: list[Citation | None] = []
    for one in decode(_LIST, bytes(raw)) if is_given(raw) else ():
        cited = decode(_ANNOTATION, bytes(one)).url_citation
        citations.append(None if cited is None else _citation(cited, base, one))
    return citations


def read_addresses(raw: Raw) -> list[Citation]:
    """Read a list of addresses that stand for the whole answer.

    Raises:
        Malformed: it is no such list.
    """
    citations: list[Citation] = []
    for one in decode(_URLS, bytes(raw)):
        cited = UrlCitation(one) if isinstance(one, str) else UrlCitation(one.url, one.title)
        url = {"type": "url_citation", "url_citation": {"url": mended(cited.url)}}
        citations.append(_citation(cited, 0, Raw(msgspec.json.encode(url))))
    return citations


def _citation(cited: UrlCitation, base: int, raw: Raw) -> Citation:
    return Citation(
        -1,
        mended(cited.url),
        mended(cited.title or ""),
        mended(cited.content or ""),
        None if cited.start_index is None else max(0, cited.start_index - base),
        None if cited.end_index is None else max(0, cited.end_index - base),
        "openai",
        raw,
    )


class _Cited(Struct, omit_defaults=True):
    url: str
    title: str = ""
    start_index: int | None = None
    end_index: int | None = None


class AnnotationOut(Struct):
    """One annotation, as the dialect writes it."""

    url_citation: _Cited
    type: str = "url_citation"


def write_annotation(citation: Citation, base: int) -> AnnotationOut | None:
    """Return the annotation for a client, or None if the source has no address."""
    if not citation.url:
        return None
    start = None if citation.start is None else citation.start + base
    end = None if citation.end is None else citation.end + base
    return AnnotationOut(_Cited(citation.url, citation.title, start, end))
