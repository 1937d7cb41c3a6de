"""Make families ready before their first answer.

A family's expressions are compiled when a text first may hold one of its markers; all of them together
take tens to hundreds of milliseconds, once in a process.  A server can spend them before it serves.
"""

from collections.abc import Iterable, Iterator

from dragoman.toolcalls.arguments import elements, tags
from dragoman.toolcalls.format import Elements, Format, Tags
from dragoman.toolcalls.formats import find_format
from dragoman.toolcalls.grammar import grammar
from dragoman.toolcalls.scanner import Scanner


def warm(keys: Iterable[str]) -> None:
    """Compile all that the families of these keys need; `auto` does not stand for all of them.

    Raises:
        ConfigError: there is no family of that name.
    """
    for key in keys:
        for scanner in scanners(find_format(key)):
            scanner.warm()


def scanners(format_: Format) -> Iterator[Scanner]:
    """Give all that look for a family's markers, in text and in reasoning."""
    for table in (grammar(format_, think=True), grammar(format_, think=False)):
        yield from (state.scanner for state in table.states.values())
        yield from (table.ends, table.closers)
    for rule in format_.rules:
        if isinstance(rule.body, Tags):
            yield from tags.scanners(rule.body)
        elif isinstance(rule.body, Elements):
            yield elements.scanner_of(rule.body)
