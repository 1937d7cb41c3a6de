"""Instructions between the messages of a request that passes in its own dialect.

`user` and `assistant` are the roles that every server of Messages knows; `system` came later, and few take it.
Messages that hold or touch no such instruction keep their bytes.
"""

from itertools import groupby
from typing import Final

import msgspec
from msgspec import Raw, Struct

from dragoman.dialects.decoding import decode, decode_at
from dragoman.dialects.encoding import encode
from dragoman.turn.loss import Loss

REMINDER: Final = "<system-reminder>\n{}\n</system-reminder>"


class _Message(Struct):
    role: str
    content: str | list[Raw]


class _Block(Struct):
    type: str | None = None
    text: str | None = None


_MESSAGES: Final = msgspec.json.Decoder(list[Raw])
_MESSAGE: Final = msgspec.json.Decoder(_Message)
_BLOCK: Final = msgspec.json.Decoder(_Block)
_FIELDS: Final = msgspec.json.Decoder(dict[str, Raw])
_INSTRUCTION: Final = b'"system"'


def without_instructions(messages: Raw) -> tuple[Raw, tuple[Loss, ...]]:
    """Make each instruction marked text of the user's; return the messages and what was done."""
    raws = decode(_MESSAGES, messages)
    read = [decode_at(_MESSAGE, raw, f"$.messages[{at}]") for at, raw in enumerate(raws)]
    losses = tuple(
        Loss("system_midturn_emulated", f"$.messages[{at}]")
        for at, message in enumerate(read)
        if message.role == "system"
    )
    out: list[bytes] = []
    for is_users, run in groupby(range(len(raws)), lambda at: read[at].role != "assistant"):
        places = list(run)
        if is_users and any(read[at].role == "system" for at in places):
            out.append(_joined([read[at] for at in places]))
        else:
            out += (bytes(raws[at]) for at in places)
    return Raw(b"[" + b",".join(out) + b"]"), losses


def _joined(messages: list[_Message]) -> bytes:
    """Return one message of the user's that says all of them; results of tools must come first."""
    blocks = [block for message in messages for block in _blocks(message)]
    blocks.sort(key=lambda block: decode(_BLOCK, block).type != "tool_result")
    return encode({"role": "user", "content": blocks})


def _blocks(message: _Message) -> list[Raw]:
    content = message.content
    if isinstance(content, str):
        content = [Raw(encode({"type": "text", "text": content}))]
    if message.role != "system":
        return content
    return [_marked(block) for block in content]


def _marked(block: Raw) -> Raw:
    text = decode(_BLOCK, block).text
    if text is None:
        return block
    fields = decode(_FIELDS, block)
    fields["text"] = Raw(encode(REMINDER.format(text)))
    return Raw(encode(fields))
