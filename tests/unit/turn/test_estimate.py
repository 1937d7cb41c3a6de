"""What is guessed of a request's size, and what is seen of its content at a glance."""

import pytest
from msgspec import Raw

from dragoman.turn.estimate import estimate_tokens
from dragoman.turn.request import (
    AudioPart,
    Base64Source,
    DocumentPart,
    ImagePart,
    Part,
    ReasoningPart,
    ReasoningSegment,
    RefusalPart,
    Request,
    Role,
    SearchResultPart,
    ServerToolPart,
    TextPart,
    TextSource,
    ToolCallPart,
    ToolResultPart,
    Turn,
    UrlSource,
)

IMAGE = ImagePart(UrlSource("https://example.org/a.png"))


def request(*parts: Part) -> Request:
    return Request(dialect="chat", model="m", turns=(Turn(Role.USER, parts),))


@pytest.mark.parametrize(
    ("parts", "tokens"),
    [
        ((), 4),
        ((TextPart("a" * 400),), 104),
        ((TextPart("字" * 300),), 204),
        ((TextPart("a" * 400 + "字" * 300),), 304),
        ((TextPart("\ud83d" * 3),), 6),
        ((ToolCallPart("1", "bash", "{}" * 20),), 19),
        ((ToolResultPart("1", (TextPart("a" * 40), IMAGE)),), 1618),
        ((IMAGE,), 1604),
        ((DocumentPart(Base64Source("application/pdf", "A" * 3000)),), 14),
        ((DocumentPart(TextSource("a" * 400)),), 104),
        ((DocumentPart(None, parts=(TextPart("a" * 400),)),), 104),
        ((SearchResultPart("s", "t", (TextPart("a" * 400),)),), 108),
        ((RefusalPart("a" * 400),), 104),
        ((ReasoningPart((ReasoningSegment("a" * 400),)),), 104),
        ((AudioPart("A" * 3000, "wav"),), 14),
        ((DocumentPart(UrlSource("https://example.org/a.pdf")),), 2004),
        ((ServerToolPart("openai", "a" * 400, Raw(b"{}")),), 104),
    ],
)
def test_tokens_are_guessed_from_what_each_part_holds(parts: tuple[Part, ...], tokens: int) -> None:
    assert tokens == estimate_tokens(request(*parts))


@pytest.mark.parametrize(
    ("part", "seen"),
    [
        (IMAGE, True),
        (ToolResultPart("1", (TextPart("a"), IMAGE)), True),
        (ToolResultPart("1", (TextPart("a"),)), False),
        (TextPart("a"), False),
    ],
)
def test_images_are_seen_in_messages_and_in_results(part: Part, seen: bool) -> None:
    assert seen is request(TextPart("x"), part).has_images
