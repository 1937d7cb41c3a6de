"""Quirks of how an answer is written."""

from collections.abc import Callable
from typing import Final

from msgspec import structs

from dragoman.simulator import truncation
from dragoman.simulator.play import Edit, Frame, Play, Style
from dragoman.simulator.quirks.quirk import Act, Quirk

_MIB: Final = 1024 * 1024
_PLACES: Final = {
    "first": truncation.inside_first,
    "text": truncation.inside_text,
    "call": truncation.inside_call,
}


def _styled(change: Callable[[Style], Style]) -> Act:
    return lambda play, _value: structs.replace(play, style=change(play.style))


def _flag(**change: bool) -> Act:
    return _styled(lambda style: structs.replace(style, **change))


def with_edit(play: Play, edit: Edit) -> Play:
    """Add a change to the list of events."""
    style = structs.replace(play.style, edits=(*play.style.edits, edit))
    return structs.replace(play, style=style)


def _edited(edit: Edit) -> Act:
    return lambda play, _value: with_edit(play, edit)


def _chunk(play: Play, value: str) -> Play:
    style, delivery = play.style, play.delivery
    match value:
        case "token":
            pass
        case "all":
            style = structs.replace(style, piece=0)
            delivery = structs.replace(delivery, writes="all")
        case "byte":
            delivery = structs.replace(delivery, writes="byte")
        case _:
            style = structs.replace(style, piece=int(value))
    return structs.replace(play, style=style, delivery=delivery)


def _batch(play: Play, value: str) -> Play:
    many = int(value)
    return structs.replace(play, delivery=structs.replace(play.delivery, batch=many))


def _finish(play: Play, value: str) -> Play:
    return structs.replace(play, style=structs.replace(play.style, finish=value))


def _reasoning_field(play: Play, value: str) -> Play:
    style = structs.replace(play.style, reasoning_fields=(value,))
    return structs.replace(play, style=style)


def _no_done(frames: list[Frame], _play: Play) -> list[Frame]:
    return [frame for frame in frames if frame.kind != "done"]


def _no_finish(frames: list[Frame], _play: Play) -> list[Frame]:
    return [frame for frame in frames if frame.kind not in ("finish", "usage", "done")]


def middle(frames: list[Frame]) -> int:
    """Return a place in the middle of what the answer says."""
    deltas = [at for at, frame in enumerate(frames) if frame.kind == "delta"]
    return deltas[len(deltas) // 2] if deltas else len(frames) // 2


def _garbage(frames: list[Frame], _play: Play) -> list[Frame]:
    at = middle(frames)
    return [*frames[:at], Frame(kind="other", raw=b"data: {not json\n\n"), *frames[at:]]


def _giant(play: Play, value: str) -> Play:
    size = int(value) * _MIB

    def edit(frames: list[Frame], _play: Play) -> list[Frame]:
        at = middle(frames)
        frames[at].data["obfuscation"] = "x" * size
        return frames

    return with_edit(play, edit)


def _ends_in(play: Play, value: str) -> Play:
    """End the connection, cleanly, inside a part of the answer."""

    def edit(frames: list[Frame], _play: Play) -> list[Frame]:
        last = max((at for at, one in enumerate(frames) if one.kind == "delta"), default=0)
        return frames[: last + 1]

    return with_edit(structs.replace(play, reply=_PLACES[value](play.reply)), edit)


PROMPT_CACHE: Final = "+prompt-cache"  # in a name; the server keeps the cache

ROWS: Final = (
    Quirk(
        "chunk",
        "HOW",
        "`token`: about 4 characters per event (the default); `N`: N characters; `all`: everything "
        "at once; `byte`: each byte in a separate write",
        _chunk,
        bounds=(1, 1_000_000),
        words=("token", "all", "byte"),
    ),
    Quirk("batch", "N", "N events in one write", _batch, bounds=(1, 100_000)),
    Quirk("no-usage", "", "it reports no token counts", _flag(usage=False)),
    Quirk(
        "prompt-cache",
        "",
        "it reports how many tokens of the prompt's beginning this server has read before; in a model's name only",
        _flag(),
    ),
    Quirk(
        "usage-unasked",
        "",
        "Chat's last chunk with a choice has the token counts, also if they were not requested",
        _flag(usage_unasked=True),
    ),
    Quirk(
        "cumulative", "", "each of Chat's deltas repeats the text so far", _flag(cumulative=True)
    ),
    Quirk(
        "reasoning-field",
        "NAME",
        "the field of Chat's reasoning: `reasoning_content`, `reasoning`, `reasoning_details`",
        _reasoning_field,
        words=("reasoning_content", "reasoning", "reasoning_details"),
    ),
    Quirk("finish", "X", "the finish reason is X", _finish),
    Quirk("no-done", "", "`[DONE]` or `message_stop` is missing", _edited(_no_done)),
    Quirk(
        "no-finish",
        "",
        "the stream ends cleanly, but has no finish reason",
        _edited(_no_finish),
        fault=True,
    ),
    Quirk("crlf", "", "lines end with CR and LF", _flag(crlf=True)),
    Quirk("comments", "", "a comment comes before every event", _flag(comments=True)),
    Quirk("whole-args", "", "arguments are sent in one piece", _flag(whole_arguments=True)),
    Quirk(
        "object-args",
        "",
        "arguments are sent as an object, not as a string",
        _flag(object_arguments=True),
    ),
    Quirk("interleave", "", "events of parallel calls alternate", _flag(interleave=True)),
    Quirk("index-zero", "", "every call or block has the index 0", _flag(index_zero=True)),
    Quirk(
        "null-content", "", "Chat's `content` is null where it is empty", _flag(null_content=True)
    ),
    Quirk(
        "no-event-lines",
        "",
        "Messages and Responses without `event:` lines",
        _flag(event_lines=False),
    ),
    Quirk("no-ids", "", "Gemini's calls have no ids", _flag(call_ids=False)),
    Quirk(
        "signature-apart",
        "",
        "Gemini signs a call with the last chunk, not with the call",
        _flag(signature_apart=True),
    ),
    Quirk("garbage", "", "one event in the middle is not JSON", _edited(_garbage), fault=True),
    Quirk(
        "giant", "MB", "one event in the middle has that size", _giant, fault=True, bounds=(0, 256)
    ),
    Quirk(
        "half-call",
        "",
        "the stream ends cleanly inside the arguments of a call",
        lambda play, _value: _ends_in(play, "call"),
        "written",
        fault=True,
    ),
    Quirk(
        "ends-in",
        "PLACE",
        "the stream ends cleanly inside its `first` block, its `text`, or the arguments of its "
        "last `call`",
        _ends_in,
        "written",
        fault=True,
        words=tuple(_PLACES),
    ),
)
