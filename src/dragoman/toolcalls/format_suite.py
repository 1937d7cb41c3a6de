"""Checks of a format that are generated from its table: the same for built-in families and for formats of users.

    for outcome in check_format(my_format): ...

An answer of two calls is written (by the format's rules, or by `write`) and parsed whole, split and cut at every
character, and with single markers, brackets and quotes deleted.  Other texts must stay as they are, and the work
that scanners do must grow with the text and no faster.  Work is counted in characters, not timed.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec

from dragoman.toolcalls.bodies.json_objects import MAX_HEADER_CHARS
from dragoman.toolcalls.format import Action, CallWriter, Format, SampleCall, Where
from dragoman.toolcalls.format_damage import (
    Traits,
    WrittenFormat,
    answers_without_a_marker,
    cut_answers,
)
from dragoman.toolcalls.format_samples import (
    CALLS,
    HONEST,
    TOOLS,
    hostile,
    mentions,
    writers,
)
from dragoman.toolcalls.grammar import scanners
from dragoman.toolcalls.parser import Parsed, ToolCallParser, parse
from dragoman.toolcalls.scanner import FoundMarker, Scanner
from dragoman.wire.json_values import decode_any

_BLANKS: Final = " \t\r\n"
# How often a character may be looked at, besides once with every piece that arrives while it is held.
_LOOKS: Final = 12
# How many ways an expression may share the characters after one position between its runs.
MAX_WAYS: Final = 256
_HOSTILE_CHARS: Final = 400
_EXCERPT_CHARS: Final = 160


class Outcome(NamedTuple):
    """The result of one check of a format on one text.

    Attributes:
        check: The check's name.
        passed: The format behaves as it must.
        detail: What is wrong, in one sentence.
        text: The text that shows it.
    """

    check: str
    passed: bool
    detail: str = ""
    text: str = ""


def traits_of(format_: Format) -> Traits:
    """Return what the rules of a format allow."""
    openers = [one for one in format_.rules if one.action is Action.CALL or one.section]
    return Traits(before=any(Where.TEXT in one.at for one in openers))


def find_writer(format_: Format) -> CallWriter | None:
    """Return a function that writes calls as the format's rules describe them, or None if none can be derived.

    One that can write several calls comes first.
    """
    for calls in (CALLS, CALLS[:1]):
        for writer in writers(format_):
            found = parse(writer(calls), format=format_, tools=TOOLS)
            if _values(found) == list(calls) and not found.content.strip():
                return writer
    return None


def check_format(
    format_: Format, *, write: CallWriter | None = None, traits: Traits | None = None
) -> Iterator[Outcome]:
    """Run all checks; yield one outcome per parsed text.

    Args:
        format_: The format.
        write: Writes calls as models do; None derives it from the rules.
        traits: What the grammar allows; None derives it from the rules.
    """
    write = write or format_.write or find_writer(format_)
    if write is None:
        yield Outcome(
            "write",
            passed=False,
            detail="no rule's text is read back as its call; check the rules, or give `write`",
            text=next(writers(format_), _nothing)(CALLS[:1]),
        )
        return
    answer = SampleAnswer(format_, write, traits or traits_of(format_))
    for check in CHECKS:
        yield from check(answer)


def _nothing(_calls: Sequence[SampleCall]) -> str:
    return ""


class SampleAnswer:
    """An answer of two calls (or one, if the format allows no more) in a format."""

    def __init__(self, format_: Format, write: CallWriter, traits: Traits) -> None:
        self.format = format_
        self.traits = traits
        self.calls: tuple[SampleCall, ...] = CALLS[: traits.most]
        self.write = write
        self.text: str = write(self.calls)

    def parse(self, *pieces: str, cut: bool = False) -> Parsed:
        parser = ToolCallParser(format=self.format, tools=TOOLS, seed="check")
        for piece in pieces:
            parser.feed(piece)
        parser.close(cut=cut)
        return parser.result


# --- the checks -----------------------------------------------------------------------------------------


def whole(answer: SampleAnswer) -> Iterator[Outcome]:
    """Check that calls are read as they were written, one and two of them."""
    for count in range(1, len(answer.calls) + 1):
        text = answer.write(answer.calls[:count])
        found = answer.parse(text)
        expected = list(answer.calls[:count])
        yield _outcome("whole", text, _differs(expected, found) or _shown(found))


def split(answer: SampleAnswer) -> Iterator[Outcome]:
    """Check that the result does not depend on how the text is split."""
    for text in (answer.text, f"{answer.text}\nDone."):
        expected = answer.parse(text)
        for at in range(1, len(text)):
            found = answer.parse(text[:at], text[at:])
            problem = "" if found == expected else f"split at {at}, the result is another one"
            yield _outcome("split", text, problem)
        found = answer.parse(*text)
        problem = "" if found == expected else "fed one character at a time, the result changes"
        yield _outcome("split", text, problem)


def surrounded(answer: SampleAnswer) -> Iterator[Outcome]:
    """Check that text before, after and between calls is kept."""
    first, last = answer.write(answer.calls[:1]), answer.write(answer.calls[-1:])
    texts: list[tuple[str, str, int]] = []
    if answer.traits.before:
        texts.append((f"One moment.\n{answer.text}", "One moment.", len(answer.calls)))
    if answer.traits.after:
        texts.append((f"{answer.text}\nThat is all.", "That is all.", len(answer.calls)))
    if answer.traits.before and answer.traits.after and len(answer.calls) > 1:
        both = f"First.\n{first}\nThen.\n{last}\nLast."
        texts.append((both, "First. Then. Last.", 2))
    for text, prose, count in texts:
        found = answer.parse(text)
        problem = _differs(list(answer.calls[:count]), found)
        if not problem and found.content.split() != prose.split():
            problem = f"the text should be {prose!r}, and is {found.content!r}"
        yield _outcome("text around calls", text, problem)


def reasoning(answer: SampleAnswer) -> Iterator[Outcome]:
    """Check that reasoning tags are recognized, and that calls in the reasoning channel are found."""
    for opener, closer in answer.format.think:
        if not isinstance(opener, str) or not isinstance(closer, str):
            continue
        text = f"{opener}Let me see.{closer}Yes."
        found = answer.parse(text)
        problem = ""
        if (found.reasoning.strip(), found.content.strip()) != ("Let me see.", "Yes."):
            problem = f"reasoning is {found.reasoning!r} and text {found.content!r}"
        yield _outcome("reasoning", text, problem)
    found = parse(answer.text, format=answer.format, tools=TOOLS, channel="reasoning", seed="check")
    problem = _differs(list(answer.calls), found)
    yield _outcome("reasoning", answer.text, problem and f"in the reasoning channel, {problem}")


def cut(answer: SampleAnswer) -> Iterator[Outcome]:
    """Check that no call looks complete in an answer that ends before it, at any character."""
    for text, problem in cut_answers(_written(answer)):
        yield _outcome("cut", text, problem)


def deleted(answer: SampleAnswer) -> Iterator[Outcome]:
    """Check answers without one marker, bracket or quote: no call has another's words, and no word is lost."""
    for text, problem in answers_without_a_marker(_written(answer)):
        yield _outcome("deletion", text, problem)


def _written(answer: SampleAnswer) -> WrittenFormat:
    return WrittenFormat(answer.format, answer.write, answer.traits)


def honest(answer: SampleAnswer) -> Iterator[Outcome]:
    """Check that text that is not a call is unchanged, whole and in pieces."""
    for text in (*HONEST, *mentions(answer.format)):
        for pieces in ([text], list(text)):
            found = answer.parse(*pieces)
            problem = ""
            if found.tool_calls:
                problem = f"a call `{found.tool_calls[0].name}` was found in prose"
            elif found.content != text:
                problem = f"the text changed to {found.content!r}"
            yield _outcome("honest text", text, problem)


def linear(answer: SampleAnswer) -> Iterator[Outcome]:
    """Check that twice the text takes twice the work, also for text that is made to be expensive."""
    for scanner in scanners(answer.format):
        problem = f"a marker can be matched in {scanner.ways} ways, more than {MAX_WAYS}"
        yield _outcome("linear", "", problem if scanner.ways > MAX_WAYS else "")
    reach = max(one.reach for one in scanners(answer.format))
    with _counting(answer.format) as work:
        for head, unit in hostile(answer.format):
            once = head + unit * (_HOSTILE_CHARS // len(unit) + 1)
            twice = once + once.removeprefix(head)
            for size in (4096, 4):
                few, many = (_work(answer, text, size, work) for text in (once, twice))
                bound = min(
                    3 * few + reach + MAX_HEADER_CHARS, len(twice) * (_LOOKS + reach / size)
                )
                problem = f"{len(once)} characters take {few} looks, {len(twice)} take {many}"
                yield _outcome("linear", head + unit, problem if many > bound else "")


CHECKS: Final[tuple[Callable[[SampleAnswer], Iterator[Outcome]], ...]] = (
    whole,
    split,
    surrounded,
    reasoning,
    cut,
    deleted,
    honest,
    linear,
)


# --- what is compared -----------------------------------------------------------------------------------


def _outcome(check: str, text: str, problem: str) -> Outcome:
    return Outcome(check, not problem, problem, text if problem else "")


def _values(found: Parsed) -> list[tuple[str, Any]]:
    return [(one.name, _decoded(one.arguments)) for one in found.tool_calls if one.complete]


def _decoded(arguments: str) -> Any:
    try:
        return decode_any(arguments)
    except msgspec.DecodeError:
        return None


def _differs(expected: list[tuple[str, Any]], found: Parsed) -> str:
    calls = [(one.name, _decoded(one.arguments)) for one in found.tool_calls]
    if any(not one.complete for one in found.tool_calls):
        return f"a call is incomplete: {_listed(calls)}"
    return "" if calls == expected else f"expected {_listed(expected)}, found {_listed(calls)}"


def _listed(calls: list[tuple[str, Any]]) -> str:
    return ", ".join(f"{name} {arguments}" for name, arguments in calls) or "no call"


def _shown(found: Parsed) -> str:
    shown = found.content.strip(_BLANKS)
    return f"markup is shown as text: {shown[:_EXCERPT_CHARS]!r}" if shown else ""


# --- counting work --------------------------------------------------------------------------------------


class _Work:
    """Counts the characters that scanners look at."""

    def __init__(self) -> None:
        self.looks = 0


@contextmanager
def _counting(format_: Format) -> Iterator[_Work]:
    """Count the work of a format's scanners, which the parsers of this process share, for a while."""
    work = _Work()
    counted = list({id(one): one for one in scanners(format_)}.values())
    for one in counted:
        for name in ("scan", "scan_at", "begins", "find_last"):
            vars(one)[name] = _counted(one, name, work)
    try:
        yield work
    finally:
        for one in counted:
            for name in ("scan", "scan_at", "begins", "find_last"):
                del vars(one)[name]


def _counted(scanner: Scanner, name: str, work: _Work) -> Callable[..., Any]:
    method = getattr(Scanner, name)
    searches = name in ("scan", "find_last")

    def counted(text: str, at: int = 0) -> object:
        found = method(scanner, text, at)
        if isinstance(found, FoundMarker):
            work.looks += 1 + found.end - at
        else:
            rest = len(text) - at
            work.looks += 1 + (rest if searches else _looked_at(scanner, text, at))
        return found

    return counted


def _looked_at(scanner: Scanner, text: str, at: int) -> int:
    """Return how far a text looks like a marker from one position on."""
    least, most = 0, min(len(text) - at, scanner.reach)
    while least < most:
        middle = (least + most + 1) // 2
        if Scanner.begins(scanner, text[at : at + middle]):
            least = middle
        else:
            most = middle - 1
    return least


def _work(answer: SampleAnswer, text: str, size: int, work: _Work) -> int:
    before = work.looks
    answer.parse(*(text[at : at + size] for at in range(0, len(text), size)))
    return work.looks - before
