"""Writes answers in each dialect, one file each.

They are written by hand and know nothing of the writers in `dragoman.dialects`: a peer that shared their
code would share their faults.
"""

from dragoman.simulator.answer_writers import anthropic, chat, gemini, responses
from dragoman.simulator.answer_writers.errors import words
from dragoman.simulator.answer_writers.frames import encode, encode_body, encode_list
from dragoman.simulator.play import Fields, Frame, Play
from dragoman.turn.request import DialectName


def stream(play: Play) -> list[bytes]:
    """Return the bytes of each event of a streamed answer."""
    match play.asked.request.dialect:
        case "chat":
            frames = chat.frames(play)
        case "anthropic":
            frames = anthropic.frames(play)
        case "responses":
            frames = responses.frames(play)
        case "gemini":
            frames = gemini.frames(play)
    for edit in play.style.edits:
        frames = edit(frames, play)
    if play.asked.request.dialect == "responses":
        responses.number(frames)
    if play.asked.as_list:
        return encode_list(frames)
    return encode(frames, play.style)


def body(play: Play) -> bytes:
    """Return a complete answer."""
    match play.asked.request.dialect:
        case "chat":
            fields = chat.body(play)
        case "anthropic":
            fields = anthropic.body(play)
        case "responses":
            fields = responses.body(play)
        case "gemini":
            fields = gemini.body(play)
    return encode_body(fields)


def failure(play: Play, status: int) -> list[Frame]:
    """Return the events that report a failure in a stream."""
    wording = words(status)
    match play.asked.request.dialect:
        case "chat":
            return chat.failure(wording.code, wording.chat, wording.message)
        case "anthropic":
            return anthropic.failure(play, status, wording.message)
        case "gemini":
            return gemini.failure(status, wording.message)
        case _:
            return responses.failure(play, status, wording.message)


def error(  # noqa: PLR0913 -- all that an error body holds
    dialect: DialectName,
    status: int,
    *,
    request_id: str,
    message: str = "",
    code: str = "",
    param: str = "",
) -> bytes:
    """Return the body of an error answer."""
    wording = words(status)
    if dialect == "anthropic":
        fields: Fields = anthropic.error(status, message or wording.message, request_id)
    elif dialect == "gemini":
        fields = gemini.error(status, message or wording.message, param)
    else:
        fields = chat.error(
            message or wording.message, wording.chat, code or wording.code, param or None
        )
    return encode_body(fields)
