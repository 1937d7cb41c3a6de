"""Images, documents and search results for an upstream."""

import base64
from typing import Any

import pytest
from msgspec import structs

from dragoman.errors import UntranslatableError
from dragoman.profiles.profile import Profile
from dragoman.turn.request import (
    Base64Source,
    CacheHint,
    DocumentPart,
    FileSource,
    ImagePart,
    Part,
    Role,
    SearchResultPart,
    TextPart,
    TextSource,
    Turn,
    UrlSource,
)
from tests.support.messages import ask, codes, encode

PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n" + b"\0" * 30).decode()
WEBP = base64.b64encode(b"RIFF\0\0\0\0WEBPVP8 ").decode()


def block(part: Part, **profile: Any) -> Any:
    request = ask(Turn(Role.USER, (part,), path="$.messages[0]"))
    return encode(request, Profile(name="p", **profile))["messages"][0]["content"][0]


@pytest.mark.parametrize(
    ("said", "data", "expected"),
    [
        ("image/png", PNG, "image/png"),
        ("image/jpeg", PNG, "image/png"),
        ("", PNG, "image/png"),
        ("image/jpg", "AAAA", "image/jpeg"),
        ("image/png", WEBP, "image/webp"),
        ("image/gif", "not base64!", "image/gif"),
    ],
    ids=["right", "wrong", "absent", "misspelt", "webp", "unreadable"],
)
def test_type_of_an_image_follows_from_its_bytes(said: str, data: str, expected: str) -> None:
    source = block(ImagePart(Base64Source(said, data)))["source"]

    assert {"type": "base64", "media_type": expected, "data": data} == source


@pytest.mark.parametrize(
    ("said", "data"),
    [("image/bmp", "AAAA"), ("image/png", base64.b64encode(b"BM" + b"\0" * 9).decode())],
)
def test_image_that_the_vendor_refuses_is_refused_here(said: str, data: str) -> None:
    with pytest.raises(UntranslatableError) as raised:
        block(ImagePart(Base64Source(said, data)))

    assert ("$.messages[0]", "invalid_image_format") == (raised.value.path, raised.value.code)


def test_image_may_be_an_address_where_the_model_fetches_it() -> None:
    image = ImagePart(UrlSource("https://x.example"))

    assert {"type": "url", "url": "https://x.example"} == block(image)["source"]
    for images in ("base64_only", "none"):
        with pytest.raises(UntranslatableError):
            block(image, images=images)


def test_stored_files_stay_with_their_vendor() -> None:
    assert {"type": "file", "file_id": "f"} == block(ImagePart(FileSource("f", "anthropic")))[
        "source"
    ]
    assert {"type": "file", "file_id": "f"} == block(DocumentPart(FileSource("f", "anthropic")))[
        "source"
    ]
    with pytest.raises(UntranslatableError):
        block(ImagePart(FileSource("f", "openai")))


def test_detail_of_an_image_is_reported() -> None:
    request = ask(Turn(Role.USER, (ImagePart(UrlSource("https://x.example"), "high"),)))

    assert ["field_dropped"] == codes(request)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (
            Base64Source("application/pdf", "JVBE"),
            {"type": "base64", "media_type": "application/pdf", "data": "JVBE"},
        ),
        (UrlSource("https://x.example"), {"type": "url", "url": "https://x.example"}),
        (TextSource("a"), {"type": "text", "data": "a", "media_type": "text/plain"}),
        (
            Base64Source("text/markdown", "YQ=="),
            {"type": "text", "data": "a", "media_type": "text/plain"},
        ),
    ],
    ids=["pdf", "url", "text", "text as base64"],
)
def test_document_is_native(source: Any, expected: dict[str, str]) -> None:
    document = DocumentPart(source, "T", "C", cite=True, cache=CacheHint())

    assert {
        "type": "document",
        "source": expected,
        "title": "T",
        "context": "C",
        "citations": {"enabled": True},
        "cache_control": {"type": "ephemeral"},
    } == block(document)


def test_document_of_parts_is_content() -> None:
    document = DocumentPart(None, parts=(TextPart("a"), ImagePart(UrlSource("https://x.example"))))

    assert ["text", "image"] == [one["type"] for one in block(document)["source"]["content"]]


@pytest.mark.parametrize(
    ("source", "profile"),
    [
        (Base64Source("application/msword", "AA=="), {}),
        (UrlSource("https://x.example/a.zip", "application/zip"), {}),
        (Base64Source("application/pdf", "AA=="), {"documents": False}),
        (Base64Source("text/plain", "!"), {}),
    ],
    ids=["word", "zip", "no documents", "no base64"],
)
def test_document_that_cannot_be_taken_is_refused(source: Any, profile: dict[str, Any]) -> None:
    with pytest.raises(UntranslatableError):
        block(DocumentPart(source), **profile)


def test_search_result_is_native() -> None:
    part = SearchResultPart("s", "t", (TextPart("x"), TextPart(" ")))

    assert {
        "type": "search_result",
        "source": "s",
        "title": "t",
        "content": [{"type": "text", "text": "x"}],
    } == block(part)
    assert {"enabled": True} == block(structs.replace(part, cite=True))["citations"]
