"""Checks whether the upstream can be reached, and how it handles errors."""

from typing import Final
from urllib.parse import urlsplit

from dragoman.probe.finding import Check, Finding, fails, ok, quirk, unknown
from dragoman.probe.probe import Probe
from dragoman.probe.questions import (
    AFTER_LEAVING,
    LONG,
    MALFORMED,
    NO_MODEL,
    TEXT,
    TEXT_BODY,
    TEXT_BODY_NEWER,
    TEXT_UNASKED,
)
from dragoman.probe.response import Response, printable
from dragoman.probe.trace import decoded

_SLOWER: Final = 5.0  # times the duration of the first response
_SLOW_SECONDS: Final = 2.0  # shorter is noise
_REFUSALS: Final = range(400, 500)


async def reach(probe: Probe) -> Finding:
    """Get a first answer, and learn the fields that every other question depends on."""
    body = await probe.ask(TEXT_BODY)
    if body.refused and probe.dialect == "chat":
        newer = await probe.ask(TEXT_BODY_NEWER)
        if not newer.trouble:
            probe.learn(limit_field="max_completion_tokens")
            body = newer
    if body.failure is not None and body.failure.stage in ("connect", "tls"):
        return fails(body.failure.reason)
    stream = await probe.ask(TEXT)
    if stream.refused and probe.dialect == "chat":
        unasked = await probe.ask(TEXT_UNASKED)
        if not unasked.trouble:
            probe.learn(stream_options=False)
            stream = unasked
    if body.trouble and stream.trouble:
        return fails(body.trouble)
    if probe.repeated:
        return quirk("it was busy, and answered on a retry")
    return ok(_road(probe))


def _road(probe: Probe) -> str:
    if urlsplit(probe.peer.url).scheme == "http":
        return "answers, without TLS"
    return "answers; its certificate is good" if probe.peer.tls is True else "answers over TLS"


async def models(probe: Probe) -> Finding:
    listing = await probe.list_models()
    if listing.trouble:
        return quirk(f"no list: {listing.trouble}")
    names = listing.names
    many = f"{len(names)} model{'' if len(names) == 1 else 's'}"
    if probe.peer.model in names:
        return ok(f"lists {many}, this one among them")
    return ok(f"lists {many}; this one is not among them")


async def error_shape(probe: Probe) -> Finding:
    response = await probe.ask(MALFORMED)
    if response.failure is not None:
        return quirk(f"a malformed request gets no answer: {response.failure.reason}")
    if response.status < 400:
        return quirk("a malformed request is answered as if it were valid")
    shape = _shape(response)
    if response.status in _REFUSALS and not shape:
        return ok(f"status {response.status}, with the dialect's error body")
    return quirk(f"a malformed request gets status {response.status}{shape and f', {shape}'}")


def _shape(response: Response) -> str:
    """Return how an error's body deviates from the dialect; empty if it does not."""
    body = decoded(response.body)
    if body is None:
        return f"not JSON but {response.content_type.partition(';')[0] or 'something else'}"
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("message"), str):
        return "JSON that is not an error of the dialect"
    if response.dialect == "anthropic" and (
        not isinstance(body, dict) or body.get("type") != "error" or "type" not in error
    ):
        return "JSON that is an error of another dialect"
    return ""


async def unknown_model(probe: Probe) -> Finding:
    response = await probe.ask(NO_MODEL)
    if response.failure is not None or response.passing:
        return unknown(response.trouble)
    if response.status in _REFUSALS:
        return ok(f"refused with status {response.status}")
    if response.status >= 500:
        return quirk(f"refused with status {response.status}, which looks like a failure")
    return ok("answered anyway: a misspelled name will not be noticed")


async def disconnect(probe: Probe) -> Finding:
    before = await probe.ask(TEXT_BODY)
    failure = await probe.leave(LONG)
    if failure is not None:
        return unknown(failure.reason)
    after = await probe.ask(AFTER_LEAVING)
    if after.trouble:
        return quirk(f"after a disconnect, the next request failed: {printable(after.trouble)}")
    if after.seconds > max(_SLOW_SECONDS, before.seconds * _SLOWER):
        return quirk("after a disconnect, the next answer was slow: the first may still be running")
    return ok("after a disconnect, the next request was answered as usual")


REACH: Final = Check(
    name="reach",
    asks="Can it be reached, is its TLS certificate valid, does it answer in its dialect?",
    run=reach,
    questions=(TEXT_BODY, TEXT_BODY_NEWER, TEXT, TEXT_UNASKED),
)
MODELS: Final = Check(name="models", asks="Does it list its models?", run=models)
ROWS: Final = (
    Check(
        name="error-shape",
        asks="Is a malformed request refused with the dialect's error body?",
        run=error_shape,
        questions=(MALFORMED,),
    ),
    Check(
        name="unknown-model",
        asks="What happens with a model that does not exist?",
        run=unknown_model,
        questions=(NO_MODEL,),
    ),
    Check(
        name="disconnect",
        asks="Does it keep working after a client disconnects?",
        run=disconnect,
        questions=(LONG, AFTER_LEAVING, TEXT_BODY),
    ),
)
