"""How much text a family may hold back: the bounds, by name, as the documents tell them."""

from collections.abc import Iterator
from functools import cache

from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.toolcalls import grammar
from dragoman.toolcalls.bodies.json_objects import MAX_HEADER_CHARS, MAX_LITERAL_CHARS
from dragoman.toolcalls.bodies.literals import MAX_KEY_CHARS
from dragoman.toolcalls.format import (
    Action,
    Format,
    JsonSpec,
    LiteralsSpec,
    ObjectsSpec,
    groups_of,
)
from dragoman.toolcalls.format_samples import all_rules
from dragoman.toolcalls.machine import MAX_BLANKS
from dragoman.toolcalls.scanner import Scanner

_LITERAL_LEADS = "'TFN"  # where Python is written and JSON is not


def scanners(form: Format) -> Iterator[Scanner]:
    """Yield all that look for a format's markers, and for those of the families that it tries."""
    yield from grammar.scanners(form)
    for family in {one.key: one for rule in form.rules for one in rule.families}.values():
        yield from grammar.scanners(family)


@cache
def longest_marker(form: Format) -> int:
    """Return how much of a marker that is not whole yet may be held back."""
    most = max(scanner.reach for scanner in scanners(form))
    if any(isinstance(rule.body, LiteralsSpec) for rule in all_rules(form)):
        most = max(most, MAX_KEY_CHARS)
    return most


@cache
def header(form: Format) -> int:
    """Return how much of an object may be held back until it shows whether it is a call."""
    return (
        MAX_HEADER_CHARS if any(isinstance(one.body, ObjectsSpec) for one in all_rules(form)) else 0
    )


@cache
def nameless(form: Format) -> bool:
    """Say whether calls may have a header without a name, so that their arguments wait for one."""
    return any(
        rule.action is Action.CALL
        and isinstance(rule.body, JsonSpec)
        and "name" not in groups_of(rule.pattern)
        for rule in all_rules(form)
    )


def bound(form: Format, text: str, *, limits: Limits = DEFAULT_LIMITS, piece: int = 1) -> int:
    """Return how much of a text a family may hold back, fed in pieces of some size.

    Arguments that precede the name of their call wait for it as well; no text here has them.
    """
    marker, look_ahead = longest_marker(form), header(form)
    most = marker + MAX_BLANKS
    if look_ahead:
        most += look_ahead
        if any(lead in text for lead in _LITERAL_LEADS):
            most = max(most, MAX_LITERAL_CHARS)
    if nameless(form):
        most = max(most, min(len(text), limits.max_tool_args_bytes + piece))
    return most
