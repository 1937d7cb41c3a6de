"""Turns a request's bytes into the response's bytes; pure: equal requests get equal answers."""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import msgspec
from msgspec import Struct, structs

from dragoman.dialects import dialect as find_dialect
from dragoman.dialects import encoding
from dragoman.dialects.decoding import decode
from dragoman.errors import DragomanError, MalformedError
from dragoman.limits import DEFAULT_LIMITS
from dragoman.simulator import answer_writers, quirks, truncation
from dragoman.simulator.behaviour import compose
from dragoman.simulator.model_names import parse_model
from dragoman.simulator.native import render
from dragoman.simulator.paused_answers import pause, sent_back, token_sent
from dragoman.simulator.play import (
    EVERYTHING,
    Delivery,
    Fields,
    Json,
    Play,
    ReceivedRequest,
    Reply,
)
from dragoman.simulator.searches import marked
from dragoman.turn.request import DialectName, Request

SSE: Final = "text/event-stream; charset=utf-8"
JSON: Final = "application/json"
_FIELDS: Final = msgspec.json.Decoder(dict[str, Any])
_PAGE: Final = b"<html><body><h1>Error %d</h1>The simulator's proxy.</body></html>\n"
_MOST_SINGLE: Final = 1_000_000  # bytes up to which `chunk:byte` writes each byte separately


class SimulatedAnswer(Struct, frozen=True, kw_only=True):
    """The response to send, and its timing and ending."""

    status: int = 200
    headers: dict[str, str]
    writes: Sequence[bytes]  # one write each
    length: int | None = None  # for the Content-Length header; None: it is not sent
    pace: float = 0.0
    slow: float = 0.0
    ending: Literal["end", "cut", "reset", "stall"] = "end"

    @property
    def size(self) -> int:
        """The number of bytes of all writes."""
        return sum(map(len, self.writes))


def read(dialect: DialectName, body: bytes, *, as_list: bool = False) -> ReceivedRequest:
    """Read a request, strictly.

    Raises:
        MalformedError: it does not fit the dialect; the error carries the path.
        TooLargeError: it exceeds `max_request_bytes`.
    """
    request = _decode(dialect, body)
    _refuse_what_is_not_played(request)
    try:
        fields: Fields = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):  # a broken character: U+FFFD, as servers do
        fields = encoding.cleaned(decode(_FIELDS, body))
        request = _decode(dialect, msgspec.json.encode(fields))
    back: list[Json] = []
    if size := sent_back(dialect, fields):
        # The model answers the request that began the answer.
        messages = fields["messages"]
        assert isinstance(messages, list)  # noqa: S101 -- they have a size
        back = messages[-size:]
        began = msgspec.json.encode(fields | {"messages": messages[:-size]})
        request = _decode(dialect, began)
    elif dialect == "gemini" and (token := token_sent(fields)) is not None:
        back = [token]
    name = parse_model(request.model)
    return ReceivedRequest(
        request=request,
        fields=fields,
        seed=seed_of(dialect, body),
        family=name.family,
        as_list=as_list,
        sent_back=tuple(back),
    )


def _decode(dialect: DialectName, body: bytes) -> Request:
    """Read a request; one that asks Google for images is read without that, and `wants_image` looks for it.

    The dialect's reader refuses images, because it reads for models of other vendors.

    Raises:
        MalformedError: it does not fit the dialect; the error carries the path.
        TooLargeError: it exceeds `max_request_bytes`.
    """
    decode_request = find_dialect(dialect).decode_request
    try:
        return decode_request(body, sealer=None, limits=DEFAULT_LIMITS)
    except MalformedError as error:
        if error.path != "$.generationConfig.responseModalities":
            raise
        fields: Fields = msgspec.json.decode(body)
        config = fields.get("generationConfig")
        wanted = config.get("responseModalities") if isinstance(config, dict) else None
        if not isinstance(config, dict) or not isinstance(wanted, list):
            raise
        config["responseModalities"] = [one for one in wanted if str(one).upper() != "IMAGE"]
        return decode_request(msgspec.json.encode(fields), sealer=None, limits=DEFAULT_LIMITS)


def seed_of(dialect: str, body: bytes) -> str:
    return hashlib.sha256(dialect.encode() + b"\0" + body).hexdigest()


def answer(
    asked: ReceivedRequest,
    attempt: int,
    *,
    reply: Reply | None = None,
    more: quirks.QuirkValues = (),
) -> SimulatedAnswer:
    """Answer a request; `attempt` counts requests of the same bytes, from 1.

    A `reply` replaces the model's own; the quirks `more` are added to those of the model's name.

    Raises:
        MalformedError: the model's name or a directive is invalid, or a quirk refuses the request.
    """
    wanted = (*parse_model(asked.request.model).quirks, *more)
    quirks.check(wanted)
    chosen = compose(asked) if reply is None else reply
    play = Play(asked=asked, reply=chosen, delivery=Delivery(stream=asked.request.stream))
    dialect, continues = asked.request.dialect, bool(asked.sent_back)
    return send(finished(play, quirks.due(wanted, dialect, attempt, continues=continues)))


def finished(play: Play, wanted: quirks.QuirkValues) -> Play:
    """Apply quirks, stop sequences, the model's grammar and the token limit, in that order.

    Raises:
        MalformedError: a quirk refuses the request, or does not fit the model.
    """
    play = pause(marked(quirks.apply(play, wanted, "said")))
    request = play.asked.request
    play = structs.replace(play, reply=truncation.at_stop(play.reply, request.stop))
    play = quirks.apply(render(play), wanted, "written")
    return structs.replace(play, reply=truncation.to_tokens(play.reply, request.max_output))


def send(play: Play) -> SimulatedAnswer:
    """Return the response to send for an answer."""
    how = play.delivery
    headers = request_ids(play.asked.id)
    if how.retry_after and how.error:
        headers["retry-after"] = how.retry_after
    if how.empty:
        return SimulatedAnswer(
            headers={**headers, "content-type": SSE if how.stream else JSON}, writes=()
        )
    if how.error:
        body = answer_writers.error(play.asked.request.dialect, how.error, request_id=play.asked.id)
        body = _PAGE % how.error if how.error_page else body
        status = 200 if how.error_in_ok else how.error
        headers["content-type"] = "text/html" if how.error_page else JSON
        return _stopped(
            SimulatedAnswer(status=status, headers=headers, writes=[body], length=len(body)), how
        )
    if not how.stream:
        body = answer_writers.body(play)
        headers["content-type"] = JSON
        return _stopped(SimulatedAnswer(headers=headers, writes=[body], length=len(body)), how)
    kind = JSON if play.asked.as_list else SSE
    headers |= {"content-type": kind, "cache-control": "no-cache", "x-accel-buffering": "no"}
    return _stopped(SimulatedAnswer(headers=headers, writes=answer_writers.stream(play)), how)


def refusal(dialect: DialectName, error: DragomanError, seed: str) -> SimulatedAnswer:
    """Return the error response for a request that is malformed or refused."""
    path, code = "", ""
    if isinstance(error, MalformedError):
        path, code = error.path.removeprefix("$").removeprefix("."), error.code
    status = error.http_status
    body = answer_writers.error(
        dialect, status, request_id=seed[:24], message=str(error), code=code, param=path
    )
    headers = {**request_ids(seed[:24]), "content-type": JSON}
    return SimulatedAnswer(status=status, headers=headers, writes=[body], length=len(body))


def plain_refusal(error: DragomanError) -> SimulatedAnswer:
    """Return the same error as a plain 500, like a server that did not expect it."""
    body = f"Internal Server Error: {error}".encode()
    headers = {"content-type": "text/plain; charset=utf-8"}
    return SimulatedAnswer(status=500, headers=headers, writes=[body], length=len(body))


def request_ids(seed: str) -> dict[str, str]:
    return {"request-id": f"req_{seed}", "x-request-id": f"req_{seed}"}


def _stopped(whole: SimulatedAnswer, how: Delivery) -> SimulatedAnswer:
    """Split the writes and end them early, as the delivery requires."""
    writes = list(whole.writes)
    total = whole.size
    at = how.stop_at if how.stop_at >= 0 else total // 2
    ending: Literal["end", "cut", "reset", "stall"] = "end"
    if how.stop and (at < total or at == EVERYTHING):
        ending = how.stop
        writes = list(_first(writes, at))
    match how.writes:
        case "all":
            writes = [b"".join(writes)]
        case "byte":
            joined = b"".join(writes)
            single = range(min(len(joined), _MOST_SINGLE))
            rest = [joined[_MOST_SINGLE:]] if len(joined) > _MOST_SINGLE else []
            writes = [*(joined[at : at + 1] for at in single), *rest]
        case "event" if how.batch > 1:
            starts = range(0, len(writes), how.batch)
            writes = [b"".join(writes[at : at + how.batch]) for at in starts]
    return structs.replace(whole, writes=writes, pace=how.pace, slow=how.slow, ending=ending)


def _first(writes: Sequence[bytes], left: int) -> Iterator[bytes]:
    for one in writes:
        if left <= 0:
            return
        yield one[:left]
        left -= len(one)


def _refuse_what_is_not_played(request: Request) -> None:
    if request.count != 1:
        raise MalformedError("the simulator writes one answer for each request", path="$.n")
    if request.previous_id:
        reason = f"no response `{request.previous_id}`: the simulator keeps none"
        code = "previous_response_not_found"
        raise MalformedError(reason, path="$.previous_response_id", code=code)
