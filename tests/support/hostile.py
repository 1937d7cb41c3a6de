"""Texts made to cost a parser much: a family's own markers, cut at any place and repeated, with blanks."""

import re
from collections.abc import Iterator
from functools import cache

from dragoman.toolcalls.bodies import elements, tags
from dragoman.toolcalls.format import (
    Action,
    Ahead,
    ElementsSpec,
    Format,
    JsonSpec,
    LiteralsSpec,
    ObjectsSpec,
    OneOf,
    Part,
    Pattern,
    Rule,
    Run,
    TagsSpec,
)
from dragoman.toolcalls.formats import AUTO
from dragoman.toolcalls.grammar import format_grammar
from dragoman.toolcalls.scanner import Scanner

# What a run may be filled with, best first: a blank may go on into the next run.
_FILLERS = ' a0:\n<x,|｜"[/▁_]'
PLAIN = (" ", "\n", "<", "{", '"', "'", "\\", "[", "]", "`", "<|", "</", "< ", '{"', '\\"', "</p> ")


def written(pattern: Pattern, *, most: int = 1) -> str:
    """Return a text that a pattern fits, its runs filled up to `most` characters."""
    return "".join(_part(part, most) for part in pattern)


def _part(part: Part, most: int) -> str:
    match part:
        case str():
            return part
        case Run():
            size = max(part.least, min(part.most, most))
            return _filler(part.chars) * size
        case OneOf():
            return written(max(part.choices, key=len), most=most)
        case Ahead():
            return ""


@cache
def _filler(chars: str) -> str:
    return next((char for char in _FILLERS if re.fullmatch(chars, char)), "a")


def _patterns(rule: Rule) -> Iterator[Pattern]:
    yield rule.pattern
    match rule.body:
        case TagsSpec(param=param, value_end=ends, value_cut=cuts, call_end=call_end, skip=skip):
            yield from (*param, *ends, *cuts, *call_end, *skip)
        case ElementsSpec(mark=mark):
            yield (mark, "<", "a", ">")
        case JsonSpec() | ObjectsSpec() | LiteralsSpec() | None:
            pass


def rules(form: Format) -> list[Rule]:
    if form is not AUTO:
        return list(form.rules)
    return [rule for one in form.rules for family in one.families for rule in family.rules]


def units(form: Format) -> list[str]:
    """Return what hostile texts repeat: markers whole and cut, with short runs and with long ones."""
    found: dict[str, None] = dict.fromkeys(PLAIN)
    for part in (tag for pair in form.think for tag in pair):
        tag = written((part,), most=40)
        found |= dict.fromkeys((tag, tag[:-1]))
    for rule in rules(form):
        for pattern in _patterns(rule):
            for most in (1, 40, 300):
                text = written(pattern, most=most)
                cuts = (len(text), len(text) - 1, len(text) * 2 // 3, len(text) // 3)
                for at in cuts:
                    found |= dict.fromkeys((text[:at], text[:at] + " ", text[:at] + " " * 70))
    found.pop("", None)
    return list(found)


def openings(form: Format) -> list[str]:
    """Return what may stand before: nothing, or the beginning of a call, into its first value."""
    found = {"": None, "x": None}
    for rule in rules(form):
        if rule.action is not Action.CALL:
            continue
        head = written(tuple(part for part in rule.pattern), most=1).replace(" ", "a")
        found[head] = None
        found[head + '{"name": "f", "arguments": {"a": "'] = None
        found[head + 'a="'] = None
        if isinstance(rule.body, TagsSpec):
            for pattern in rule.body.param:
                cut = _until_ahead(rule.pattern)
                found[written(cut, most=1) + written(pattern, most=1)] = None
    return list(found)


def _until_ahead(pattern: Pattern) -> Pattern:
    for place, part in enumerate(pattern):
        if isinstance(part, Ahead):
            return pattern[:place]
    return pattern


def hostile(form: Format, count: int = 12) -> Iterator[tuple[str, str]]:
    """Yield beginnings and what may follow them again and again, spread over all that there are."""
    heads, repeated = openings(form), units(form)
    step = len(repeated) // count + 1
    for number in range(count):
        yield heads[number % len(heads)], repeated[(number * step) % len(repeated)]


def scanners(form: Format) -> Iterator[Scanner]:
    """Yield all that look for a family's markers."""
    for family in {one.key: one for rule in form.rules for one in rule.families}.values() or (
        form,
    ):
        table = format_grammar(family)
        yield from (state.scanner for state in table.states.values())
        yield from (table.ends, table.closers)
        if table.breaks is not None:
            yield table.breaks
        for rule in family.rules:
            if isinstance(rule.body, TagsSpec):
                yield from tags.scanners(rule.body)
            elif isinstance(rule.body, ElementsSpec):
                yield elements.scanner_of(rule.body)
    if form.key == AUTO.key:
        yield from (state.scanner for state in format_grammar(form).states.values())
