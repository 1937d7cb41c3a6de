"""Quirks of how an answer is sent: time, status, and connections that end."""

from collections.abc import Callable
from typing import Final, Literal

from msgspec import structs

from dragoman.simulator import answer_writers
from dragoman.simulator.play import EVERYTHING, Delivery, Frame, Play
from dragoman.simulator.quirks.quirk import Act, Quirk
from dragoman.simulator.quirks.wire_format import middle, with_edit

_MS: Final = (0, 600_000)
_STATUS: Final = (400, 599)
_BYTES: Final = (0, 2**40)
_END: Final = "end"


def _sent(play: Play, change: Callable[[Delivery], Delivery]) -> Play:
    return structs.replace(play, delivery=change(play.delivery))


def _error(play: Play, value: str) -> Play:
    status = int(value)
    return _sent(play, lambda one: structs.replace(one, error=status))


def _error_200(play: Play, _value: str) -> Play:
    return _sent(play, lambda one: structs.replace(one, error=one.error or 500, error_in_ok=True))


def _error_page(play: Play, value: str) -> Play:
    return _sent(play, lambda one: structs.replace(one, error=int(value), error_page=True))


def _error_first(play: Play, value: str) -> Play:
    status = int(value or 500)
    return with_edit(play, lambda _frames, play: answer_writers.failure(play, status))


def _empty(play: Play, _value: str) -> Play:
    return _sent(play, lambda one: structs.replace(one, empty=True))


def _error_in(play: Play, value: str) -> Play:
    status = int(value or 500)

    def edit(frames: list[Frame], play: Play) -> list[Frame]:
        return frames[: middle(frames) + 1] + answer_writers.failure(play, status)

    return with_edit(play, edit)


def _error_end(play: Play, value: str) -> Play:
    status = int(value or 500)

    def edit(frames: list[Frame], play: Play) -> list[Frame]:
        content = [frame for frame in frames if frame.kind not in ("finish", "usage", "done")]
        return content + answer_writers.failure(play, status)

    return with_edit(play, edit)


def _retry_after(play: Play, value: str) -> Play:
    return _sent(play, lambda one: structs.replace(one, retry_after=value))


def _fail(play: Play, _value: str) -> Play:
    """Change nothing: other code checks for the name."""
    return play


def _pace(play: Play, value: str) -> Play:
    seconds = int(value) / 1000
    return _sent(play, lambda one: structs.replace(one, pace=seconds))


def _slow(play: Play, value: str) -> Play:
    seconds = int(value) / 1000
    return _sent(play, lambda one: structs.replace(one, slow=seconds))


def _streamed(*, stream: bool) -> Act:
    return lambda play, _value: _sent(play, lambda one: structs.replace(one, stream=stream))


def _stopped(how: Literal["cut", "reset", "stall"]) -> Act:
    def act(play: Play, value: str) -> Play:
        at = EVERYTHING if value == _END else int(value or -1)
        return _sent(play, lambda one: structs.replace(one, stop=how, stop_at=at))

    return act


PLAIN_ERRORS: Final = "+plain-errors"  # in a name; the server finds it in the raw body

ROWS: Final = (
    Quirk(
        "plain-errors",
        "",
        "a refused request gets status 500 and a line of text",
        _fail,
    ),
    Quirk("pace", "MS", "milliseconds between two writes, and before a reset", _pace, bounds=_MS),
    Quirk("slow", "MS", "milliseconds before the first byte", _slow, bounds=_MS),
    Quirk(
        "json-instead", "", "a JSON body, although a stream was requested", _streamed(stream=False)
    ),
    Quirk("sse-instead", "", "a stream, although none was requested", _streamed(stream=True)),
    Quirk("retry-after", "SECONDS", "an error response has this header", _retry_after, bounds=_MS),
    Quirk(
        "error",
        "STATUS",
        "an error with this HTTP status, before the stream",
        _error,
        fault=True,
        bounds=_STATUS,
    ),
    Quirk(
        "error-page",
        "STATUS",
        "the same, but the body is a page of HTML",
        _error_page,
        fault=True,
        bounds=_STATUS,
    ),
    Quirk("empty", "", "HTTP status 200 and no body", _empty, fault=True),
    Quirk("error-200", "", "an error body with HTTP status 200", _error_200, fault=True),
    Quirk(
        "error-first",
        "[STATUS]",
        "the stream contains only an error",
        _error_first,
        fault=True,
        bounds=_STATUS,
    ),
    Quirk(
        "error-in",
        "[STATUS]",
        "an error in the middle of the stream, with the message of that status",
        _error_in,
        fault=True,
        bounds=_STATUS,
    ),
    Quirk(
        "error-end",
        "[STATUS]",
        "an error instead of the end of the stream, with the message of that status",
        _error_end,
        "written",  # after the quirks that end the stream early
        fault=True,
        bounds=_STATUS,
    ),
    Quirk(
        "cut",
        "[BYTES]",
        "the connection is closed after that many bytes, after half of them, or at the `end`",
        _stopped("cut"),
        fault=True,
        bounds=_BYTES,
        words=(_END,),
    ),
    Quirk(
        "reset",
        "[BYTES]",
        "the connection is reset after that many bytes, after half of them, or at the `end`",
        _stopped("reset"),
        fault=True,
        bounds=_BYTES,
        words=(_END,),
    ),
    Quirk(
        "stall",
        "[BYTES]",
        "after that many bytes, after half of them, or at the `end` nothing more is sent, until the client disconnects",
        _stopped("stall"),
        fault=True,
        bounds=_BYTES,
        words=(_END,),
    ),
    Quirk(
        "fail",
        "N",
        "the faults of this name happen to the first N requests with the same body; without another fault, "
        "the response reports that the server is overloaded",
        _fail,
        fault=True,
        bounds=(0, 1_000),
    ),
)
