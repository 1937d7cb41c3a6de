"""Messages of clients whose parts are rare."""

import pytest

from dragoman.errors import MalformedError
from dragoman.turn.request import (
    Base64Source,
    DocumentPart,
    ImagePart,
    ReasoningPart,
    ReasoningSegment,
    TextPart,
    ToolResultPart,
    UrlSource,
)
from tests.unit.dialects.chat.support import decode


def parts_of(message: dict) -> tuple:
    return decode({"messages": [{"role": "user", "content": "hi"}, message]}).turns[1].parts


def test_f8_results_with_pictures_and_files() -> None:
    content = [
        {"type": "text", "text": "see"},
        {"type": "image_url", "image_url": {"url": "https://x/y.png"}},
        {"type": "file", "file": {"file_data": "QQ=="}},
    ]
    result = parts_of({"role": "tool", "tool_call_id": "a", "content": content})

    parts = (
        TextPart("see"),
        ImagePart(UrlSource("https://x/y.png")),
        DocumentPart(Base64Source("application/pdf", "QQ==")),
    )
    assert (ToolResultPart("a", parts),) == result


@pytest.mark.parametrize("thinking", ["hm", [{"type": "text", "text": "hm"}]])
def test_r7_thinking_parts_sent_back(thinking: object) -> None:
    content = [{"type": "thinking", "thinking": thinking}, {"type": "text", "text": "a"}]

    reasoning = ReasoningPart((ReasoningSegment("hm"),))
    assert (reasoning, TextPart("a")) == parts_of({"role": "assistant", "content": content})


def test_r7_thinking_that_is_none_is_refused() -> None:
    with pytest.raises(MalformedError) as caught:
        parts_of({"role": "assistant", "content": [{"type": "thinking", "thinking": 5}]})

    assert "$.messages[1].content" == caught.value.path


def test_r4_details_without_text_beside_plain_reasoning() -> None:
    message = {
        "role": "assistant",
        "content": "a",
        "reasoning": "why",
        "reasoning_details": [{"type": "reasoning.encrypted", "data": "E"}],
    }

    reasoning = parts_of(message)[0]

    assert "why" == reasoning.text
    assert '[{"type":"reasoning.encrypted","data":"E"}]' == reasoning.opaque[0].data


def test_r8_signature_of_a_call_is_kept_as_it_was_written() -> None:
    call = {
        "id": "a",
        "function": {"name": "f"},
        "extra_content": {"google": {"thought_signature": "S"}},
    }

    part = parts_of({"role": "assistant", "tool_calls": [call]})[0]

    assert '{"google":{"thought_signature":"S"}}' == part.opaque[0].data
    assert "" == part.arguments
