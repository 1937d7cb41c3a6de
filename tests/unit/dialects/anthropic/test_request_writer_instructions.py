"""Instructions between messages, in requests that pass in their own dialect."""

import json
from typing import Any

import pytest
from msgspec import Raw

from dragoman.dialects.anthropic.request_writer import without_instructions
from dragoman.errors import MalformedError

USER = {"role": "user", "content": "a"}
SAID = {"role": "assistant", "content": "b"}
INSTRUCTION = {"role": "system", "content": "c"}
MARKED = {"type": "text", "text": "<system-reminder>\nc\n</system-reminder>"}
RESULT = {"type": "tool_result", "tool_use_id": "t", "content": "d"}
TEXT = {"type": "text", "text": "a"}


def mended(*messages: Any) -> tuple[Any, list[str]]:
    out, losses = without_instructions(Raw(json.dumps(messages).encode()))
    assert {"system_midturn_emulated"} >= {loss.code for loss in losses}
    return json.loads(bytes(out)), [loss.path for loss in losses]


def user(*blocks: Any) -> Any:
    return {"role": "user", "content": list(blocks)}


@pytest.mark.parametrize(
    ("messages", "expected", "paths"),
    [
        ((USER, INSTRUCTION), [user(TEXT, MARKED)], ["$.messages[1]"]),
        ((INSTRUCTION, USER), [user(MARKED, TEXT)], ["$.messages[0]"]),
        ((USER, SAID, INSTRUCTION), [USER, SAID, user(MARKED)], ["$.messages[2]"]),
        (
            (USER, INSTRUCTION, INSTRUCTION, SAID),
            [user(TEXT, MARKED, MARKED), SAID],
            ["$.messages[1]", "$.messages[2]"],
        ),
        # The result of a call must be the first thing after it.
        (
            (USER, SAID, INSTRUCTION, user(RESULT)),
            [USER, SAID, user(RESULT, MARKED)],
            ["$.messages[2]"],
        ),
        ((USER, SAID, USER, USER), [USER, SAID, USER, USER], []),
    ],
)
def test_instructions_join_the_users_words(messages: Any, expected: Any, paths: Any) -> None:
    assert (expected, paths) == mended(*messages)


def test_cache_marks_and_foreign_blocks_of_an_instruction_stay() -> None:
    cache = {"type": "ephemeral"}
    image = {"type": "image", "source": {"type": "url", "url": "https://x"}}
    instruction = {
        "role": "system",
        "content": [{"type": "text", "text": "c", "cache_control": cache}, image],
    }

    assert [user(TEXT, {**MARKED, "cache_control": cache}, image)] == mended(USER, instruction)[0]


def test_untouched_messages_keep_their_bytes() -> None:
    first, last = b'{"content": "a",  "role":"assistant"}', b'{ "role" : "user", "content":"b"}'

    out, _ = without_instructions(
        Raw(b"[%b, %b, %b, %b]" % (last, first, json.dumps(INSTRUCTION).encode(), first))
    )

    assert bytes(out).startswith(b"[%b,%b," % (last, first))
    assert bytes(out).endswith(b",%b]" % first)


def test_an_invalid_message_is_reported_with_its_place() -> None:
    with pytest.raises(MalformedError) as caught:
        mended(USER, {"role": "system", "content": 1})

    assert "$.messages[1].content" == caught.value.path
