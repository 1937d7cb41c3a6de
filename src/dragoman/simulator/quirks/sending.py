"""Quirks of how an answer is sent: time, status, and connections that end."""

from collections.abc import Callable
from typing import Final, Literal

from msgspec import structs

from dragoman.simulator import voices
from dragoman.simulator.play import Delivery, Frame, Play
from dragoman.simulator.quirks.quirk import Act, Quirk, number
from dragoman.simulator.quirks.writing import middle, with_edit

_MAX_MS: Final = 600_000
_MAX_BYTES: Final = 2**40


def _sent(play: Play, change: Callable[[Delivery], Delivery]) -> Play:
    return structs.replace(play, delivery=change(play.delivery))


def _error(play: Play, value: str) -> Play:
    status = number(value, "error", least=400, most=599)
    return _sent(play, lambda one: structs.replace(one, error=status))


def _error_200(play: Play, _value: str) -> Play:
    return _sent(play, lambda one: structs.replace(one, error=one.error or 500, error_in_ok=True))


def _error_in(play: Play, value: str) -> Play:
    status = number(value, "error-in", least=400, most=599, default=500)

    def edit(frames: list[Frame], play: Play) -> list[Frame]:
        return frames[: middle(frames) + 1] + voices.failure(play, status)

    return with_edit(play, edit)


def _retry_after(play: Play, value: str) -> Play:
    return _sent(play, lambda one: structs.replace(one, retry_after=value))


def _fail(play: Play, _value: str) -> Play:
    """Change nothing: the other faults act, as long as requests are to fail."""
    return play


def _pace(play: Play, value: str) -> Play:
    seconds = number(value, "pace", most=_MAX_MS) / 1000
    return _sent(play, lambda one: structs.replace(one, pace=seconds))


def _slow(play: Play, value: str) -> Play:
    seconds = number(value, "slow", most=_MAX_MS) / 1000
    return _sent(play, lambda one: structs.replace(one, slow=seconds))


def _streamed(*, stream: bool) -> Act:
    return lambda play, _value: _sent(play, lambda one: structs.replace(one, stream=stream))


def _stopped(how: Literal["cut", "reset", "stall"]) -> Act:
    def act(play: Play, value: str) -> Play:
        at = number(value, how, most=_MAX_BYTES, default=-1)
        return _sent(play, lambda one: structs.replace(one, stop=how, stop_at=at))

    return act


ROWS: Final = (
    Quirk("pace", "MS", "milliseconds between two writes", _pace),
    Quirk("slow", "MS", "milliseconds before the first byte", _slow),
    Quirk(
        "json-instead", "", "a JSON body, although a stream was asked for", _streamed(stream=False)
    ),
    Quirk("sse-instead", "", "a stream, although none was asked for", _streamed(stream=True)),
    Quirk("retry-after", "SECONDS", "an error carries this header", _retry_after),
    Quirk(
        "error", "STATUS", "an error with this HTTP status, before the stream", _error, fault=True
    ),
    Quirk("error-200", "", "an error body with HTTP status 200", _error_200, fault=True),
    Quirk(
        "error-in",
        "[STATUS]",
        "an error in the middle of the stream, with the words for that status",
        _error_in,
        fault=True,
    ),
    Quirk(
        "cut",
        "[BYTES]",
        "the connection closes after so many bytes, or half",
        _stopped("cut"),
        fault=True,
    ),
    Quirk(
        "reset",
        "[BYTES]",
        "the connection is reset after so many bytes",
        _stopped("reset"),
        fault=True,
    ),
    Quirk(
        "stall",
        "[BYTES]",
        "after so many bytes nothing more comes, until the client leaves",
        _stopped("stall"),
        fault=True,
    ),
    Quirk(
        "fail",
        "N",
        "the faults of this name happen to the first N requests of the same body; without another "
        "fault they are told that the server is overloaded",
        _fail,
        fault=True,
    ),
)
