"""Google's SDK for Python reads from a stream what was written into it, whatever the answer holds."""

import pytest
from google.genai.errors import APIError
from hypothesis import given

from dragoman.turn.answer import fold
from dragoman.turn.events import Event
from tests.properties.strategies import streams
from tests.support.gemini_content import content, unsigned, written
from tests.support.sdks import accumulate


@given(streams("gemini"))
def test_google_sdk_reads_the_content_that_was_written(events: list[Event]) -> None:
    answer = fold(events)
    stream = written(events)
    if answer.fault is not None:
        with pytest.raises(APIError, match=answer.fault.message):
            accumulate("gemini", stream)
        return

    read = accumulate("gemini", stream)["candidates"][0]["content"]["parts"]

    assert content(answer) == unsigned(read)
