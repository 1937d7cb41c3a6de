"""Which strings of a body or a stream are content; the number of bytes stays the same."""

import pytest

from dragoman.recorder.masked_json import mask_url
from dragoman.recorder.masked_stream import mask_bytes
from dragoman.recorder.masked_text import Names


@pytest.mark.parametrize(
    ("data", "masked"),
    [
        (b'{"role": "user", "content": "Oslo"}', b'{"role": "user", "content": "Xxxx"}'),
        (b'{"model": "gpt-4.1", "type": "text"}', b'{"model": "gpt-4.1", "type": "text"}'),
        (b'{"type": "two words of content"}', b'{"type": "xxx xxxxx xx xxxxxxx"}'),
        (b'{"n": 5, "ok": true, "content": null}', b'{"n": 5, "ok": true, "content": null}'),
        (b'{"content": "\\ud83d\\ude00 a\\n"}', b'{"content": "\\ud840\\udc00 x\\n"}'),
        (b'{"content": "Os', b'{"content": "Xx'),  # cut
    ],
)
def test_content_is_masked_and_the_protocol_stays(data: bytes, masked: bytes) -> None:
    found = mask_bytes(data, Names())

    assert masked == found
    assert len(data) == len(found)


def test_an_address_keeps_the_words_of_the_api_alone() -> None:
    assert "https://api.xxxxxxx/v1/chat/completions?xxx=xxxxxx" == mask_url(
        "https://api.example/v1/chat/completions?key=secret", Names()
    )
