"""Answers that lack their end or one of their markers, and what must hold for the calls that are found in them.

    for text, problem in cut_answers(family): ...

A well-formed answer of two calls, with text around them, is cut after every character, and each of its markers,
brackets and quotation marks is deleted in turn.  Three things must hold, whatever is missing:

* a call is complete only if its text was, and then its arguments are those that were written;
* no call contains the markup of another one;
* nothing is lost: every word of the text, the names and the values appears as text, name or argument.

The checks compare renderings to find out what a piece of text can mean.  Two answers that differ only in the end of
a value have the same beginning; a text that ends inside it could become either, so no call in it is complete.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from dragoman.toolcalls.format import (
    Arguments,
    CallWriter,
    ElementsSpec,
    Format,
    LiteralsSpec,
    SampleCall,
    TagsSpec,
    before_lookahead,
    strings_of,
)
from dragoman.toolcalls.parser import Parsed, parsed
from dragoman.toolcalls.scanner import scanner
from dragoman.toolcalls.schema_check import misfit
from dragoman.toolcalls.stage import NativeCalls
from dragoman.turn.answer import ToolCall
from dragoman.turn.events import (
    BlockEnd,
    BlockKind,
    BlockStart,
    Event,
    Fault,
    FaultKind,
    Finish,
    FinishReason,
    Start,
    TextDelta,
    expand_runs,
)
from dragoman.turn.request import Tool
from dragoman.wire.json_values import decode_any


class Traits(NamedTuple):
    """Limits of a format's grammar that the checks must respect."""

    before: bool = True  # text may precede calls
    after: bool = True  # text may follow calls
    most: int = 2  # calls in one rendering


class WrittenFormat(NamedTuple):
    """A format and how its calls are written."""

    format: Format
    write: CallWriter
    traits: Traits


# --- well-formed answers -----------------------------------------------------------------------------

_BEFORE, _BETWEEN, _AFTER = "Preamble.", "Interlude.", "Epilogue."
_CALLS: Final[tuple[SampleCall, ...]] = (
    (
        "quill_note",
        {
            "kpath": 'alfa\'s "bravo", [charlie] {delta}',
            "koptions": {"kinner": ["echo", 3.25], "kflag": True},
            "klast": 2508,
        },
    ),
    (
        "rocket_run",
        {"kdeep": {"knumber": 4409}, "kbody": "kilo\n'lima', é漢😀 (mike) \\oscar"},
    ),
)
# Every word of these texts that is not a marker, and every key.
_KEYS: Final = frozenset(
    {"kpath", "koptions", "kinner", "kflag", "klast", "kdeep", "knumber", "kbody"}
)
_WORD: Final = re.compile(
    "|".join(
        (
            *("Preamble", "Interlude", "Epilogue", "quill_note", "rocket_run", *sorted(_KEYS)),
            *("alfa", "bravo", "charlie", "delta", "echo", r"3\.25", "2508"),
            *("4409", "kilo", "lima", "é漢😀", "mike", "oscar"),
        )
    )
)


_SPECIAL: Final = re.compile(r"<[|｜]|[|｜]>|\]<\]")  # noqa: RUF001 -- what the models write


class WrittenCall(NamedTuple):
    """A call of an answer, and where its text is."""

    name: str
    arguments: Arguments
    start: int  # its text, or that of the section around it, begins here
    value_end: int  # its last value ends here at the earliest
    last: int  # its last parameter has ended here at the earliest
    end: int  # all of its text is there


class WrittenAnswer(NamedTuple):
    """A well-formed answer."""

    text: str
    content: str
    apart: bool  # there is text between the calls
    listed: bool  # there is no special token between the calls
    calls: tuple[WrittenCall, ...]
    leaves: tuple[tuple[int, int], ...]  # where strings, numbers and words are

    def half(self, at: int) -> str:
        """Return the part of a word that a cut leaves, unless it is part of a key."""
        for word in _WORD.finditer(self.text):
            if word.start() < at < word.end() and word.group() not in _KEYS:
                return self.text[word.start() : at]
        return ""


def _common(one: str, other: str) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))


def _longer(value: Any) -> Any:
    """Return a value that begins as another does, and goes on."""
    match value:
        case str():
            return value + "z"
        case int():
            return value * 10 + 1
        case _:
            return value


def answers(family: WrittenFormat) -> Iterator[WrittenAnswer]:
    """Yield two calls in one rendering, and in two with text between them, as far as the family has both."""
    if family.traits.most > 1:
        yield _answer(family, _CALLS, apart=False)
    if family.traits.before and family.traits.after:
        yield _answer(family, _CALLS[::-1], apart=True)


def _answer(family: WrittenFormat, calls: Sequence[SampleCall], *, apart: bool) -> WrittenAnswer:
    before = _BEFORE if family.traits.before else ""
    after = _AFTER if family.traits.after else ""

    def written(calls: Sequence[SampleCall]) -> str:
        if apart:
            return before + _BETWEEN.join(family.write([one]) for one in calls) + after
        return before + family.write(calls) + after

    def instead(number: int, call: SampleCall) -> str:
        return written([call if place == number else one for place, one in enumerate(calls)])

    text = written(calls)
    found = []
    for number, (name, arguments) in enumerate(calls):
        last = next(reversed(arguments))
        longer = {**arguments, last: _longer(arguments[last])}
        more = {**arguments, "kmore": "zulu"}
        if apart:
            start = len(before) + number * len(family.write(calls[:1]) + _BETWEEN)
            end = start + len(family.write([(name, arguments)]))
        else:
            start = len(before)
            following = len(calls) > number + 1
            other = ("zz", arguments)
            end = _common(text, instead(number + 1, other)) if following else len(text) - len(after)
        found.append(
            WrittenCall(
                name,
                arguments,
                start,
                _common(text, instead(number, (name, longer))),
                _common(text, instead(number, (name, more))),
                end,
            )
        )
    content = before + (_BETWEEN if apart else "") + after
    border = text[found[0].last : found[0].end]
    listed = not apart and not _SPECIAL.search(border)
    return WrittenAnswer(
        text, content, apart, listed, tuple(found), tuple(_leaves(calls, text, instead))
    )


def _leaves(
    calls: Sequence[SampleCall],
    text: str,
    instead: Callable[[int, SampleCall], str],
) -> Iterator[tuple[int, int]]:
    """Yield where the characters of values are: a rendering with another value differs only there."""
    for number, (name, arguments) in enumerate(calls):
        for other in _variants(arguments):
            changed = instead(number, (name, other))
            start = _common(text, changed)
            yield start, len(text) - _common(text[start:][::-1], changed[start:][::-1])


def _variants(value: Any) -> Iterator[Any]:
    """Yield the value with one of its leaves replaced."""
    match value:
        case dict():
            for key, inner in value.items():
                yield from ({**value, key: one} for one in _variants(inner))
        case list():
            for place, inner in enumerate(value):
                yield from ([*value[:place], one, *value[place + 1 :]] for one in _variants(inner))
        case bool():
            yield not value
        case str():
            yield "\ue000"
        case _:
            yield 9.5 if isinstance(value, float) else 6666


def schema_of(value: Any, *, required: bool) -> dict[str, Any]:
    """Return the schema of arguments, with every parameter required or none."""
    match value:
        case bool():
            return {"type": "boolean"}
        case None:
            return {"type": "null"}
        case int():
            return {"type": "integer"}
        case float():
            return {"type": "number"}
        case str():
            return {"type": "string"}
        case list():
            items = [schema_of(one, required=required) for one in value]
            return {"type": "array", "items": {"anyOf": items}}
        case _:
            inner = {key: schema_of(one, required=required) for key, one in value.items()}
            wanted = list(value) if required else []
            return {"type": "object", "properties": inner, "required": wanted}


def _tools(*, required: bool) -> tuple[Tool, ...]:
    schemas = {name: schema_of(one, required=required) for name, one in _CALLS}
    return tuple(
        Tool(name=name, schema=msgspec.Raw(msgspec.json.encode(one)))
        for name, one in schemas.items()
    )


_REQUIRED: Final = _tools(required=True)
_OPTIONAL: Final = _tools(required=False)


# --- reading them --------------------------------------------------------------------------------------


_ENDINGS: Final[Mapping[str, Event]] = {
    "stop": Finish(FinishReason.STOP),
    "length": Finish(FinishReason.LENGTH),
    "none": Fault(FaultKind.UPSTREAM_BAD, "the stream broke"),
}


def read(format_: Format, text: str, ending: str, *, required: bool) -> Parsed:
    """Return what a client gets; a call that the answer broke off in is not complete."""
    stage = NativeCalls(format=format_, tools=_REQUIRED if required else _OPTIONAL)
    events = stage.feed(
        [Start(), BlockStart(0, BlockKind.TEXT), TextDelta(0, text), _ENDINGS[ending]]
    )
    last = next((one for one in reversed(events) if isinstance(one, BlockStart | BlockEnd)), None)
    if isinstance(last, BlockStart):
        events.append(BlockEnd(last.index, complete=False))
    return parsed(expand_runs(events))


def _shown(found: Parsed) -> str:
    """Return all that a client gets of an answer."""
    called = [part for call in found.tool_calls for part in (call.name, call.arguments)]
    return "\n".join((found.content, found.reasoning, *called))


def _count(text: str) -> Counter[str]:
    """Count the words of a text; a key counts once, because it may be written in an opener and in a closer."""
    counted = Counter(_WORD.findall(text))
    counted.update({key: 1 - counted[key] for key in _KEYS if counted[key] > 1})
    return counted


# --- cut texts -----------------------------------------------------------------------------------------


def cut_answers(family: WrittenFormat) -> Iterator[tuple[str, str]]:
    """Cut the answers after every character, with every ending; yield each text and what is wrong with it."""
    for place, answer in enumerate(answers(family)):
        whole = read(family.format, answer.text, "length", required=False)
        if len(whole.tool_calls) != len(answer.calls):
            yield (
                answer.text,
                f"{len(answer.calls)} calls were written, not {len(whole.tool_calls)}",
            )
            continue
        for at in range(len(answer.text) + 1):
            # The second answer differs from the first in what is around the calls: one ending at a time.
            for ending in _ENDINGS if not place else [list(_ENDINGS)[at % 3]]:
                found = read(family.format, answer.text[:at], ending, required=ending == "stop")
                failure = next(_cut_failures(answer, whole, found, at, ending), "")
                yield answer.text[:at], failure and f"ended by `{ending}`, {failure}"


def _cut_failures(
    answer: WrittenAnswer, whole: Parsed, found: Parsed, at: int, ending: str
) -> Iterator[str]:
    text = answer.text[:at]
    for number, call in enumerate(answer.calls):
        one = found.tool_calls[number] if number < len(found.tool_calls) else None
        yield from _call_failures(call, whole.tool_calls[number], one, at, ending)
    if len(found.tool_calls) > len(answer.calls):
        yield f"more calls are found than were written: {found.tool_calls}"
    yield from _word_failures(text, found, answer.half(at), broken=ending == "none")
    shared = _common(found.content, answer.content)
    if not text.endswith(found.content[shared:]):
        yield f"text is changed: `{found.content}`"


def _word_failures(text: str, found: Parsed, half: str = "", *, broken: bool) -> Iterator[str]:
    """Compare the words of a text with those of all channels.

    A key whose value has not begun is markup, and may be dropped with the rest of a half tag.
    `broken`: an answer that fails shows no more of a call that is open.
    """
    shown = _shown(found)
    missing, doubled = _count(text), _count(shown)
    missing, doubled = missing - doubled, doubled - missing
    if any(problem.code == "native_noise_dropped" for problem in found.problems):
        missing.clear()  # what is dropped is reported, as a parameter without a name: minicpm5/n8_param_without_name
    is_cut = bool(found.tool_calls) and not found.tool_calls[-1].complete
    if doubled:
        yield f"{sorted(doubled)} is doubled"
    if missing and is_cut:
        last = _WORD.findall(text)[-1]
        missing.subtract([last] if last in _KEYS else [])
        if broken:
            missing.subtract(_WORD.findall(text[text.rindex(found.tool_calls[-1].name) :]))
        missing = +missing
    if missing:
        yield f"{sorted(missing)} is lost"
    elif half and half not in shown and not (broken and is_cut):
        yield f"`{half}` is lost"


def _call_failures(
    call: WrittenCall, whole: ToolCall, found: ToolCall | None, at: int, ending: str
) -> Iterator[str]:
    if found is None:
        if at >= call.end:
            yield f"{call.name} is lost"
        return
    if found.name != call.name:
        yield f"{found.name} is called instead of {call.name}"
    if not found.complete:
        if at >= call.end:
            yield f"{call.name} is all there, but not complete"
        if (
            not whole.arguments.startswith(found.arguments.rstrip(", \n"))
            and found.arguments != "{"
        ):
            yield f"half of {call.name} has other arguments: `{found.arguments}`"
        return
    if found.arguments != whole.arguments and ending != "stop":
        yield f"{call.name} has other arguments: `{found.arguments}`"
    if decode_any(found.arguments) != call.arguments:
        yield f"{call.name} has other arguments: `{found.arguments}`"
    if at <= (call.value_end if ending == "stop" else call.last):
        yield f"{call.name} is complete, but its text is not"


# --- deleted markers -----------------------------------------------------------------------------------

_TAG: Final = re.compile(r"<[^<>\n\[\]]*>")
_SIGN: Final = re.compile(r"[\[\](){}\"'`]")


def deletions(family: WrittenFormat, answer: WrittenAnswer) -> list[tuple[int, int]]:
    """Return where the markers, brackets and quotation marks of an answer are, apart from those in values."""
    markers = {match.span() for match in _TAG.finditer(answer.text)}
    for literal in sorted(_literals(family.format), key=len, reverse=True):
        at = answer.text.find(literal)
        while at >= 0:
            end = at + len(literal)
            # Half of a marker is not a marker.
            if not any(start <= at and end <= to for start, to in markers):
                markers.add((at, end))
            at = answer.text.find(literal, end)
    signs = {
        match.span()
        for match in _SIGN.finditer(answer.text)
        if match.group() == '"'
        or not any(at <= match.start() < to and to - at > 1 for at, to in markers)
    }
    return sorted(
        (start, end)
        for start, end in markers | signs
        if not any(start < to and at < end for at, to in answer.leaves)
    )


def _literals(format_: Format) -> set[str]:
    """Return the parts of a family's markers, apart from blanks and single characters."""
    patterns = [rule.pattern for rule in format_.rules]
    for rule in format_.rules:
        if isinstance(rule.body, TagsSpec):
            spec = rule.body
            patterns += (*spec.param, *spec.value_end, *spec.call_end)
        elif isinstance(rule.body, ElementsSpec):
            patterns.append((rule.body.mark,))
        elif isinstance(rule.body, LiteralsSpec) and rule.body.quote:
            patterns.append((rule.body.quote,))
    return {one for pattern in patterns for one in strings_of(pattern) if len(one.strip()) > 1}


def answers_without_a_marker(family: WrittenFormat) -> Iterator[tuple[str, str]]:
    """Delete each marker, bracket and quotation mark; yield each text and what is wrong with it."""
    for answer in answers(family):
        for start, end in deletions(family, answer):
            text = answer.text[:start] + answer.text[end:]
            found = read(family.format, text, "stop", required=False)
            deleted = answer.text[start:end]
            failure = next(_deletion_failures(answer, text, found), "")
            if (
                failure
                and _is_in_opener(family.format, answer.text, start, end)
                and _quotes_closer(family.format, found)
            ):
                failure = ""
            yield text, failure and f"without `{deleted}` at {start}, {failure}"


# Without the opener of a parameter, the parameter before it goes on: its closer is followed by other text, and
# such a closer is data, because files quote it (qwen3_coder/c10_file_about_tool_calls).  Nothing in the text shows
# which of the two it is.


def _is_in_opener(format_: Format, text: str, start: int, end: int) -> bool:
    """Return whether a part of a text belongs to the opener of a parameter."""
    for spec in _tags(format_):
        openers = scanner(spec.param)
        found = openers.find_last(text, 0)
        while found is not None and found.end < end:
            found = openers.find_last(text, found.end)
        if found is not None and found.start <= start:
            return True
    return False


def _quotes_closer(format_: Format, found: Parsed) -> bool:
    """Return whether the arguments of a call contain the closer of a value."""
    return any(
        scanner(tuple(map(before_lookahead, spec.value_end))).find_last(call.arguments, 0)
        for spec in _tags(format_)
        for call in found.tool_calls
    )


def _tags(format_: Format) -> Iterator[TagsSpec]:
    yield from (rule.body for rule in format_.rules if isinstance(rule.body, TagsSpec))


def _is_wrong(found: Arguments, written: Arguments) -> bool:
    """Return whether a tool would run with other arguments than those that were written.

    Without the closer of a value, a line feed before the next tag may be the value's or the template's.
    """
    found = {key: one.rstrip("\n") if isinstance(one, str) else one for key, one in found.items()}
    return found != written and not misfit(found, schema_of(written, required=False))


def _deletion_failures(answer: WrittenAnswer, text: str, found: Parsed) -> Iterator[str]:
    """Yield what is wrong with a text that lacks a marker.

    The tool has no required parameters, so that none is missed.  Complete arguments that do not fit its schema cannot
    be mistaken for those that were written: a tool refuses a value that is not of its type.
    """
    arguments = {call.name: call.arguments for call in answer.calls}
    names = [call.name for call in found.tool_calls]
    for call in found.tool_calls:
        if call.name not in arguments:
            yield f"{call.name} is called, which is not a tool"
        elif call.complete and _is_wrong(decode_any(call.arguments), arguments[call.name]):
            yield f"{call.name} is complete with other arguments: `{call.arguments}`"
        others = [one for one in answer.calls if one.name != call.name]
        # In an open string, a closer before text is data (kimi_k2/n0_5_closer_in_a_string), and so is a closer that
        # people type; in a list, a broken object has no end.  The call is incomplete then.
        is_data = (answer.apart or answer.listed) and not call.complete
        if any(one.name in call.arguments for one in others) and not is_data:
            yield f"{call.name} contains the markup of another call: `{call.arguments}`"
    if len(set(names)) < len(names):
        yield f"a call is doubled: {names}"
    yield from _word_failures(text, found, broken=False)
