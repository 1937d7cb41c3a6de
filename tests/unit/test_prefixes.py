"""A request that goes on from an earlier one begins with its bytes, though ids in it were made here."""

import json
from typing import Any

import msgspec
import pytest
from msgspec import Raw, structs

from dragoman.requests import read_request, translate_request, write_request
from dragoman.turn.request import TextPart

TOLD = {"role": "developer", "content": "Be  brief."}
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


@pytest.mark.parametrize("leading", [(), (TOLD,), (TOLD, ALSO)], ids=["none", "one", "two"])
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


def test_instructions_that_were_changed_are_told_anew() -> None:
    body = json.dumps({"model": "m", "input": [TOLD, ASKED, CALL, RESULT]}).encode()
    client = read_request(body, source="responses")
    changed = structs.replace(client.request, system=(TextPart("Be long."),))

    out = write_request(client, target="responses", changed=changed)

    assert "Be long." == msgspec.json.decode(out.body, type=Body).instructions
    assert b"brief" not in out.body
