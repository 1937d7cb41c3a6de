"""Short ways to say what these tests say often."""

from typing import Any

import msgspec

from dragoman.context import EncodedRequest, Exchange, Target
from dragoman.dialects.chat import DIALECT
from dragoman.dialects.framing import StreamReader, read_answer
from dragoman.envelopes import Sealer
from dragoman.limits import DEFAULT_LIMITS
from dragoman.profiles.profile import Profile
from dragoman.turn.answer import merged
from dragoman.turn.events import Event
from dragoman.turn.request import Request, Role, TextPart, Turn

SEALER = Sealer(b"a key")
PLAIN = Profile(name="plain")


def exchange(profile: Profile = PLAIN, **known: Any) -> Exchange:
    return Exchange(profile=profile, **{"seed": "s", "created": 1, "sealer": SEALER, **known})


def sse(*payloads: object) -> bytes:
    """Return a stream of events; strings are unchanged."""
    lines = [p.encode() if isinstance(p, str) else msgspec.json.encode(p) for p in payloads]
    return b"".join(b"data: %b\n\n" % line for line in lines)


def chunk(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> dict:
    return {"choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}], **more}


def calls(*deltas: dict[str, Any]) -> dict:
    return chunk({"tool_calls": list(deltas)})


def call(name: str | None = None, arguments: object = None, **more: Any) -> dict:
    return {**more, "function": {"name": name, "arguments": arguments}}


def read(*payloads: object, exchange: Exchange = exchange()) -> list[Event]:  # noqa: B008 -- frozen
    """Return the events of a stream, deltas merged."""
    reader = StreamReader(DIALECT.frame_reader(exchange), exchange)
    return merged(reader.feed(sse(*payloads)) + reader.close())


def read_body(body: object, exchange: Exchange = exchange()) -> list[Event]:  # noqa: B008 -- frozen
    frames = DIALECT.frame_reader(exchange)
    read_answer(frames, body if isinstance(body, bytes) else msgspec.json.encode(body))
    return frames.assembler.take()


def of_type(events: list[Event], kind: type) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def codes(losses: Any) -> list[str]:
    return [loss.code for loss in losses]


def write(events: list[Event], exchange: Exchange) -> list[Any]:
    """Return the payloads that a writer sends; `[DONE]` and comments as strings."""
    writer = DIALECT.writer(exchange)
    out = b"".join(writer.send(event) for event in events).decode()
    payloads: list[Any] = []
    for line in filter(None, out.split("\n")):
        data = line.removeprefix("data: ")
        payloads.append(msgspec.json.decode(data) if data.startswith("{") else data)
    return payloads


def deltas(payloads: list[Any]) -> list[Any]:
    """Return the deltas of chunks, without the first, which has the role."""
    return [p["choices"][0]["delta"] for p in payloads if isinstance(p, dict) and p.get("choices")][
        1:
    ]


def decode(body: dict[str, Any]) -> Request:
    whole = {"model": "m", "messages": [], **body}
    return DIALECT.decode_request(msgspec.json.encode(whole), sealer=SEALER, limits=DEFAULT_LIMITS)


def encode(
    request: Request, profile: Profile = PLAIN, **target: Any
) -> tuple[dict, EncodedRequest]:
    """Return the body as values, and the whole result."""
    encoded = DIALECT.encode_request(request, Target(profile=profile, **target))
    return msgspec.json.decode(encoded.body), encoded


def foreign(*turns: Turn, **fields: Any) -> Request:
    """Return a request of a Messages client."""
    return Request(dialect="anthropic", model="m", turns=turns, **fields)


def user(text: str = "hi", path: str = "$.messages[0]") -> Turn:
    return Turn(Role.USER, (TextPart(text),), path=path)
