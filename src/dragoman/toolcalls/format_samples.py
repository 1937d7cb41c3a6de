"""Sample texts of a format, made from its table: answers with calls, honest prose, and hostile repetitions.

`dragoman formats check` and the tests of the built-in families run these texts through the parser.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final

import msgspec
from msgspec import Raw

from dragoman.toolcalls.format import (
    Action,
    Ahead,
    Arguments,
    CallWriter,
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
    SampleCall,
    TagsSpec,
    Where,
    chars_of,
    groups_of,
    may_be_empty,
)
from dragoman.toolcalls.grammar import is_quotable
from dragoman.turn.request import Tool

# --- calls --------------------------------------------------------------------------------------------


# Two calls without a common word, so that a word shows which call it was written for.
CALLS: Final[tuple[SampleCall, ...]] = (
    ("save_note", {"path": "alpha/beta.txt", "count": 41}),
    ("find_word", {"query": "gamma delta", "exact": True}),
)
_TYPES: Final[dict[type, str]] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
    dict: "object",
    list: "array",
}


def tool_of(call: SampleCall) -> Tool:
    """Return the tool that a sample call calls; all of its parameters are required."""
    name, arguments = call
    schema = {
        "type": "object",
        "properties": {key: {"type": _TYPES[type(value)]} for key, value in arguments.items()},
        "required": list(arguments),
    }
    return Tool(name=name, schema=Raw(msgspec.json.encode(schema)))


TOOLS: Final = tuple(map(tool_of, CALLS))


def writers(format_: Format) -> Iterator[CallWriter]:
    """Yield functions that write calls as the rules of a format describe them, one per rule of a call.

    A rule may be a variant that no model writes alone, so a caller takes the first whose text the parser reads.
    """
    closers = [
        rule
        for rule in format_.rules
        if rule.action is Action.SKIP and Where.TAIL in rule.at and not rule.section
    ]
    closer = next((_least(one.pattern) for one in closers if one.section is None), "")
    section_end = next((_least(one.pattern) for one in closers if one.section is False), "")
    openers = [_least(one.pattern) for one in format_.rules if one.section]
    for rule in format_.rules:
        if rule.action is not Action.CALL or rule.body is None or rule.empty:
            continue
        consumed = isinstance(rule.body, TagsSpec | ElementsSpec)  # the body reads the closer
        for opener, end in ((openers[0], section_end), ("", "")) if openers else (("", ""),):
            yield _writer(rule, opener, "" if consumed else closer, end)
            if closer and not consumed:
                yield _writer(rule, opener, "", end)
            if isinstance(rule.body, ObjectsSpec):
                yield _array_writer(rule, opener, closer + end)


def _writer(rule: Rule, opener: str, closer: str, section_end: str) -> CallWriter:
    def write(calls: Sequence[SampleCall]) -> str:
        inner = "".join(
            _header(rule.pattern, name, number) + _body(rule, name, arguments) + closer
            for number, (name, arguments) in enumerate(calls)
        )
        return opener + inner + section_end

    return write


def _array_writer(rule: Rule, opener: str, closer: str) -> CallWriter:
    def write(calls: Sequence[SampleCall]) -> str:
        objects = ", ".join(_body(rule, *one) for one in calls)
        return f"{opener}{_least(rule.pattern)}[{objects}]{closer}"

    return write


def _header(pattern: Pattern, name: str, number: int) -> str:
    named = "name" in groups_of(pattern)
    groups = {"name": name, "id": f"c{number}" if named else f"functions.{name}:{number}"}
    return written(_until_ahead(pattern), groups=groups)


def _body(rule: Rule, name: str, arguments: Arguments) -> str:
    match rule.body:
        case ObjectsSpec(single_key=True):
            return _json({name: arguments})
        case ObjectsSpec(name_keys=names, argument_keys=keys):
            return _json({names[0]: name, keys[0]: arguments})
        case TagsSpec() as spec:
            return _tags(spec, arguments)
        case LiteralsSpec(style="python", closer="}", outer=outer):
            return repr(arguments)[1:] + outer
        case LiteralsSpec(style="python", closer=closer, outer=outer):
            pairs = ", ".join(f"{key}={value!r}" for key, value in arguments.items())
            return pairs + closer + outer
        case LiteralsSpec(closer=closer, outer=outer, quote=quote):
            return _gemma(arguments, quote)[1:-1] + closer + outer
        case ElementsSpec(mark=mark):
            return f"{_elements(arguments, mark)}{mark}</invoke>"
        case JsonSpec() | None:
            return _json(arguments)


def _tags(spec: TagsSpec, arguments: Arguments) -> str:
    param = next(one for one in spec.param if "verbatim" not in groups_of(one))
    parameters = "".join(
        written(param, groups=_parameter(key, value)) + _plain(value) + _least(spec.value_end[0])
        for key, value in arguments.items()
    )
    return parameters + _least(spec.call_end[0])


def _parameter(key: str, value: object) -> Mapping[str, str]:
    text = isinstance(value, str)
    return {"key": key, "string": str(text).lower(), "type": _TYPES[type(value)]}


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def _plain(value: object) -> str:
    return value if isinstance(value, str) else _json(value)


def _gemma(value: Any, quote: str) -> str:
    match value:
        case str():
            return f"{quote}{value}{quote}"
        case dict():
            return f"{{{','.join(f'{key}:{_gemma(one, quote)}' for key, one in value.items())}}}"
        case list():
            return f"[{','.join(_gemma(one, quote) for one in value)}]"
        case _:
            return _json(value)


def _elements(value: Any, mark: str) -> str:
    match value:
        case dict():
            items = list(value.items())
        case list():
            items = [("item", one) for one in value]
        case _:
            return _plain(value)
    return "".join(f"{mark}<{key}>{_elements(one, mark)}{mark}</{key}>" for key, one in items)


# --- texts that a pattern matches ---------------------------------------------------------------------

# Characters to fill a run with, best first.  A blank comes first because it may continue into the next run.
_FILLERS: Final = ' a0:\n<x,|\uff5c"[/\u2581_]'


def written(pattern: Pattern, *, most: int = 1, groups: Mapping[str, str] | None = None) -> str:
    """Return a text that a pattern matches, with runs of at most `most` characters.

    `groups`: the text of each named run; runs that may be empty and are not named are left empty then.
    """
    return "".join(_part(part, most, groups) for part in pattern)


def _part(part: Part, most: int, groups: Mapping[str, str] | None) -> str:
    match part:
        case str():
            return part
        case Run(name=name) if groups is not None and name in groups:
            return groups[name]
        case Run():
            least = part.least if groups is not None else max(part.least, min(part.most, most))
            return filler(part.chars) * least
        case OneOf() if groups is not None:
            optional = any(map(may_be_empty, part.choices))
            return "" if optional else written(part.choices[0], most=most, groups=groups)
        case OneOf():
            return written(max(part.choices, key=len), most=most)
        case Ahead():
            return ""


@cache
def filler(chars: str) -> str:
    """Return a character of a class."""
    return next((char for char in _FILLERS if char in chars_of(chars)), "a")


def _least(pattern: Pattern) -> str:
    """Return the shortest text of a marker, without its lookahead."""
    return written(_until_ahead(pattern), groups={})


def _until_ahead(pattern: Pattern) -> Pattern:
    for place, part in enumerate(pattern):
        if isinstance(part, Ahead):
            return pattern[:place]
    return pattern


# --- texts that must stay as they are -----------------------------------------------------------------

# What people and models write about calls, markup and code.  No format may take a call from these.
HONEST: Final = (
    "",
    "Good morning.",
    "  Two lines,\n\n  the second one indented.\n",
    "Is 3 < 4 and 5 > 2? Yes: {3, 4} is a set, [5] a list, and a | b a union.",
    'The server answers {"name": "Oslo", "arguments": 2} or [{"name": "x"}].',
    'A JSON file:\n\n{\n  "name": "demo",\n  "version": "1.0",\n  "scripts": {"test": "make"}\n}\n',
    "<html><body><p class='a'>A &lt;tag&gt;</p></body></html>",
    "<config>\n  <param name='size'>3</param>\n</config>\n",
    "def f(a, b=None):\n    return [a, {'b': b}]\n\nprint(f(1, b='x'))",
    "A tool call has a name and arguments; the model writes it between two markers.",
    "```\n<call>\n```\nand `<call>` in a line of prose, and <call without an end",
    "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old {\n+new [\n",
    "2026-01-01 12:00:00 INFO [main] started <worker-1> in 0.3 s | ok",
    "Emoji \U0001f600, \u6f22\u5b57 and a zero-width\u200bspace; a quote ' and a \" and a \\.",
)


def mentions(format_: Format) -> Iterator[str]:
    """Yield prose that names the markers of a format, as its manual would; special tokens are not typed in prose."""
    for rule in format_.rules:
        if (rule.action is Action.CALL or rule.section) and is_quotable(rule):
            first = next((part for part in rule.pattern if isinstance(part, str) and part), "")
            if len(first.strip()) > 1:
                yield f"The marker {first} begins a call."
                yield f"In prose, `{first}` is quoted like this."


# --- texts that are made to be expensive --------------------------------------------------------------

_PLAIN: Final = (" ", "\n", "<", "{", '"', "'", "\\", "[", "]", "`", "<|", "</", "< ", '{"', '\\"', "</p> ")  # fmt: skip
_SIZES: Final = (1, 40, 300)  # of runs


def all_rules(format_: Format) -> list[Rule]:
    """Return the rules of a format and of the families that it tries."""
    return [
        one
        for rule in format_.rules
        for one in (*(inner for family in rule.families for inner in family.rules), rule)
        if not one.families
    ]


def units(format_: Format) -> list[str]:
    """Return what hostile texts repeat: markers, whole and cut, with short runs and with long ones."""
    found: dict[str, None] = dict.fromkeys(_PLAIN)
    for part in (tag for pair in format_.think for tag in pair):
        tag = written((part,), most=40)
        found |= dict.fromkeys((tag, tag[:-1]))
    for rule in all_rules(format_):
        for pattern in _patterns(rule):
            for most in _SIZES:
                text = written(pattern, most=most)
                for at in (len(text), len(text) - 1, len(text) * 2 // 3, len(text) // 3):
                    found |= dict.fromkeys((text[:at], text[:at] + " ", text[:at] + " " * 70))
    found.pop("", None)
    return list(found)


def _patterns(rule: Rule) -> Iterator[Pattern]:
    yield rule.pattern
    match rule.body:
        case TagsSpec(param=param, value_end=ends, value_cut=cuts, call_end=call_end, skip=skip):
            yield from (*param, *ends, *cuts, *call_end, *skip)
        case ElementsSpec(mark=mark):
            yield (mark, "<", "a", ">")
        case JsonSpec() | ObjectsSpec() | LiteralsSpec() | None:
            pass


def openings(format_: Format) -> list[str]:
    """Return what may precede the repeated text: nothing, or the beginning of a call, into its first value."""
    found = {"": None, "x": None}
    for rule in all_rules(format_):
        if rule.action is not Action.CALL:
            continue
        head = written(rule.pattern).replace(" ", "a")
        found[head] = None
        found[head + '{"name": "f", "arguments": {"a": "'] = None
        found[head + 'a="'] = None
        if isinstance(rule.body, TagsSpec):
            for pattern in rule.body.param:
                found[written(_until_ahead(rule.pattern)) + written(pattern)] = None
    return list(found)


def hostile(format_: Format, count: int = 12) -> Iterator[tuple[str, str]]:
    """Yield beginnings and texts to repeat after them, spread over all that there are."""
    heads, repeated = openings(format_), units(format_)
    step = len(repeated) // count + 1
    for number in range(count):
        yield heads[number % len(heads)], repeated[(number * step) % len(repeated)]
