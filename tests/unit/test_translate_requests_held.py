"""What upstreams hold: the bytes that a conversation began with, and conversations themselves."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw, structs

from dragoman.dialects import DIALECT_NAMES
from dragoman.errors import UntranslatableError
from dragoman.translate_requests import (
    error_response,
    read_request,
    translate_request,
    write_request,
)
from dragoman.turn.request import TextPart

INSTRUCTION = {"role": "developer", "content": "Be  brief."}
ALSO = {
    "type": "message",
    "role": "system",
    "content": [{"type": "input_text", "text": "Be kind."}],
}
ASKED = {"role": "user", "content": [{"text": "Hello", "type": "input_text"}]}
NATIVE = "functions.bash:0"
MINTED = "gx-functions-2ebash-3a0"
CALL = {"type": "function_call", "call_id": MINTED, "name": "bash", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": MINTED, "output": "x"}


class Body(msgspec.Struct):
    input: list[Raw]
    instructions: str | None = None


def sent(*items: dict[str, Any], **more: Any) -> Body:
    body = json.dumps({"model": "m", "input": items, **more}).encode()
    out = translate_request(body, source="responses", target="responses", model="other")
    return msgspec.json.decode(out.body, type=Body)


@pytest.mark.parametrize(
    "leading", [(), (INSTRUCTION,), (INSTRUCTION, ALSO)], ids=["none", "one", "two"]
)
@pytest.mark.parametrize("more", [{}, {"instructions": "Be there."}], ids=["without", "with"])
def test_leading_instructions_stay_where_the_client_put_them(
    leading: tuple[dict[str, Any], ...], more: dict[str, str]
) -> None:
    first = sent(*leading, ASKED, **more)
    second = sent(*leading, ASKED, CALL, RESULT, **more)

    assert more.get("instructions") == first.instructions == second.instructions
    assert first.input == second.input[: len(first.input)]
    assert MINTED.encode() not in b"".join(map(bytes, second.input))
    assert len(leading) + 3 == len(second.input)


def test_instructions_that_were_changed_are_reported_again() -> None:
    body = json.dumps({"model": "m", "input": [INSTRUCTION, ASKED, CALL, RESULT]}).encode()
    client = read_request(body, source="responses")
    changed = structs.replace(client.request, system=(TextPart("Be long."),))

    out = write_request(client, target="responses", changed=changed)

    assert "Be long." == msgspec.json.decode(out.body, type=Body).instructions
    assert b"brief" not in out.body


THREADED = {
    "model": "m",
    "max_tokens": 10,
    "messages": [{"role": "user", "content": "Hello"}],
    "thread": {"type": "create"},
}


@pytest.mark.parametrize("target", DIALECT_NAMES)
def test_a_conversation_that_the_upstream_would_not_hold_is_refused(target: str) -> None:
    with pytest.raises(UntranslatableError) as caught:
        translate_request(json.dumps(THREADED).encode(), source="anthropic", target=target)
    status, body = error_response(caught.value, target="anthropic")

    assert 400 == status
    details = json.loads(body)["error"]["details"]
    assert "thread_unsupported_request" == details["error_code"]


@pytest.mark.parametrize(
    ("thread", "profile"),
    [(None, "generic"), (False, "generic"), ({"type": "create"}, "anthropic")],
)
def test_a_conversation_that_is_held_where_it_can_be_passes(thread: Any, profile: str) -> None:
    body = json.dumps({**THREADED, "thread": thread}).encode()

    out = translate_request(body, source="anthropic", target="anthropic", profile=profile)

    assert body == out.body
