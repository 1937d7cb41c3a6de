"""Requests from a dialect into itself: what passes, byte by byte."""

import msgspec
from msgspec import Raw, structs

from dragoman.ids import encode_id
from dragoman.requests import read_request, translate_request, write_request
from dragoman.turn.request import TextPart

FIRST = [
    b'{"content": [{"text":"Hello","type":"text"}], "role": "user"}',
    b'{"role":"system","content":"Be brief."}',
]


class _Body(msgspec.Struct):
    messages: list[Raw]


def body(*messages: bytes) -> bytes:
    return b'{"model":"a","max_tokens":9,"messages":[' + b",".join(messages) + b"]}"


def sent(request: bytes) -> list[bytes]:
    out = translate_request(request, source="anthropic", target="anthropic", model="b").body
    return [bytes(one) for one in msgspec.json.decode(out, type=_Body).messages]


def test_messages_before_the_first_call_keep_their_bytes_once_ids_were_made_here() -> None:
    made = encode_id("functions.Bash:0").encode()
    call = (
        b'{"role":"assistant","content":[{"type":"tool_use","id":"%b","name":"Bash","input":{}}]}'
    )
    result = (
        b'{"role":"user","content":[{"tool_use_id":"%b","type":"tool_result","content":"done"}]}'
    )

    before = sent(body(*FIRST))
    after = sent(body(*FIRST, call % made, result % made))

    assert FIRST == before
    assert FIRST == after[:2]
    assert b'"functions.Bash:0"' in after[2]
    assert b'"functions.Bash:0"' in after[3]
    assert made not in b"".join(after)


def test_messages_that_nobody_changed_keep_their_bytes() -> None:
    said = b'{"role":"assistant","content": [{"type":"text","text":"Yes."}]}'
    client = read_request(body(*FIRST, said, FIRST[0]), source="anthropic")
    turns = list(client.request.turns)
    turns[2] = structs.replace(turns[2], parts=(TextPart("No."),))
    changed = structs.replace(client.request, turns=tuple(turns))

    out = write_request(client, target="anthropic", changed=changed, model="b").body
    after = [bytes(one) for one in msgspec.json.decode(out, type=_Body).messages]

    assert [*FIRST, FIRST[0]] == [after[0], after[1], after[3]]
    assert b'"No."' in after[2]
