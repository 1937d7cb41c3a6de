"""Short ways to ask the Messages dialect, and to read what it wrote."""

from typing import Any

import msgspec
from msgspec import structs

from dragoman.context import EncodedRequest, Exchange, Target
from dragoman.dialects.anthropic import DIALECT
from dragoman.dialects.framing import StreamReader
from dragoman.envelopes import Sealer
from dragoman.limits import DEFAULT_LIMITS
from dragoman.profiles import profile as find_profile
from dragoman.profiles.profile import Profile
from dragoman.turn.events import Event
from dragoman.turn.request import Request, Role, TextPart, Turn

SEALER = Sealer(b"a key for tests")
USER = {"role": "user", "content": "Hi."}
TOOL = {
    "name": "ls",
    "description": "List files.",
    "input_schema": {"type": "object", "properties": {}},
}


def decode(*messages: dict[str, Any], **fields: Any) -> Request:
    """Decode a client's request of these messages (or one greeting) and fields."""
    body = {"model": "m", "max_tokens": 1000, "messages": list(messages) or [USER], **fields}
    return DIALECT.decode_request(msgspec.json.encode(body), sealer=SEALER, limits=DEFAULT_LIMITS)


def parts(
    *blocks: Any, role: str = "assistant", before: tuple[Any, ...] = (USER,)
) -> tuple[Any, ...]:
    """Return the parts of one message's blocks."""
    return decode(*before, {"role": role, "content": list(blocks)}).turns[-1].parts


def ask(*turns: Turn, **fields: Any) -> Request:
    """Return a Chat client's request, which has none of its dialect's fields left."""
    given = turns or (Turn(Role.USER, (TextPart("Hi."),), path="$.messages[0]"),)
    return Request(**{"dialect": "chat", "model": "m", "max_output": 1000, "turns": given} | fields)


def encoded(
    request: Request, profile: Profile | str = "anthropic", **target: Any
) -> EncodedRequest:
    """Encode a request for an upstream."""
    known = find_profile(profile) if isinstance(profile, str) else profile
    return DIALECT.encode_request(request, Target(profile=known, **target))


def encode(request: Request, profile: Profile | str = "anthropic", **target: Any) -> Any:
    """Return the body for an upstream as plain values."""
    return msgspec.json.decode(encoded(request, profile, **target).body)


def codes(request: Request, profile: Profile | str = "anthropic", **target: Any) -> list[str]:
    """Return the codes of what is lost on the way to an upstream."""
    return [loss.code for loss in encoded(request, profile, **target).losses]


def exchange(**fields: Any) -> Exchange:
    """Return an exchange with an upstream of the vendor, unless said otherwise."""
    given = {
        "profile": structs.replace(find_profile("anthropic"), signs_calls=True),
        "seed": "s",
        "sealer": SEALER,
        "input_estimate": 20,
    }
    return Exchange(**given | fields)


def written(events: list[Event], **fields: Any) -> list[dict[str, Any]]:
    """Return the data of the events that the writer writes, each checked for its name."""
    writer = DIALECT.writer(exchange(**fields))
    out: list[dict[str, Any]] = []
    for frame in b"".join(writer.send(event) for event in events).decode().split("\n\n")[:-1]:
        name, data = frame.split("\n")
        out.append(msgspec.json.decode(data.removeprefix("data: ")))
        assert name == f"event: {out[-1]['type']}"
    return out


def read(*data: dict[str, Any], **fields: Any) -> list[Event]:
    """Return the events that a stream of these data leads to."""
    known = exchange(**fields)
    reader = StreamReader(DIALECT.frame_reader(known), known)
    stream = b"".join(
        b"event: %b\ndata: %b\n\n" % (str(one.get("type", "")).encode(), msgspec.json.encode(one))
        for one in data
    )
    return reader.feed(stream) + reader.close()
