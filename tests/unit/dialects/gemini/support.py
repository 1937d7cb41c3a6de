"""Requests and answers of the dialect, made short."""

import json
from typing import Any

from dragoman.context import Exchange, Target
from dragoman.dialects import dialect
from dragoman.dialects.framing import StreamReader
from dragoman.limits import DEFAULT_LIMITS
from dragoman.profiles import for_model, profile
from dragoman.turn.events import Event
from dragoman.turn.request import Request
from tests.support.corpus import SEALER, drive

GEMINI = dialect("gemini")


def asked(*contents: dict[str, Any], **more: Any) -> Request:
    """Read a request with these contents."""
    body = {"model": "gemini-3-pro", "contents": list(contents), **more}
    return GEMINI.decode_request(json.dumps(body).encode(), sealer=SEALER, limits=DEFAULT_LIMITS)


def user(*parts: Any) -> dict[str, Any]:
    return {"role": "user", "parts": [{"text": p} if isinstance(p, str) else p for p in parts]}


def model(*parts: Any) -> dict[str, Any]:
    return {"role": "model", "parts": [{"text": p} if isinstance(p, str) else p for p in parts]}


def call(name: str = "look", call_id: str = "", signature: str = "", **args: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "args": args}
    part: dict[str, Any] = {"functionCall": made | ({"id": call_id} if call_id else {})}
    return part | ({"thoughtSignature": signature} if signature else {})


def result(name: str = "look", call_id: str = "", **response: Any) -> dict[str, Any]:
    made: dict[str, Any] = {"name": name, "response": response}
    return {"functionResponse": made | ({"id": call_id} if call_id else {})}


def target(name: str = "gemini-3-pro", upstream: str = "gemini-api", **more: Any) -> Target:
    return Target(profile=for_model(profile(upstream), name, None, "gemini"), model=name, **more)


def written(request: Request, to: Target | None = None) -> tuple[dict[str, Any], list[str]]:
    """Return the body for a Gemini upstream, and the codes of what is lost."""
    encoded = GEMINI.encode_request(request, to or target())
    return json.loads(encoded.body), [loss.code for loss in encoded.losses]


def exchange(upstream: str = "generic", **more: Any) -> Exchange:
    known: dict[str, Any] = {"seed": "s", "created": 1, "sealer": SEALER}
    return Exchange(profile=profile(upstream), **(known | more))


def chunks_of(events: list[Event], of: Exchange | None = None) -> list[dict[str, Any]]:
    """Write events and return the chunks."""
    writer = GEMINI.writer(of or exchange())
    out = b"".join(writer.send(event) for event in events)
    return [json.loads(line[6:]) for line in out.split(b"\n") if line.strip()]


def parts_of(chunks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [part for one in chunks for part in one["candidates"][0]["content"]["parts"]]


def read(*chunks: dict[str, Any], upstream: str = "gemini-api", **more: Any) -> list[Event]:
    """Read chunks of a stream."""
    of = exchange(upstream, **more)
    stream = b"".join(b"data: %b\r\n\r\n" % json.dumps(one).encode() for one in chunks)
    return drive(StreamReader(GEMINI.frame_reader(of), of), [stream])
