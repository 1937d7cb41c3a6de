"""Formats of users: two builders for the common shapes, and the check that a table is legal.

    json_format("acme", open="<call>", close="</call>")                    a marker pair around JSON
    tags_format("acme", open='<call name="{name}">', close="</call>",      a tag with parameters
                parameter='<arg key="{key}">', parameter_close="</arg>")

Other shapes are a `Format` with rules, as the built-in families are (`format.py`).
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, Literal, TypeAlias

from dragoman.errors import ConfigError
from dragoman.toolcalls.format import (
    AHEAD,
    AHEAD_OR_END,
    BLANKS,
    Action,
    Ahead,
    ElementsSpec,
    Format,
    JsonSpec,
    LiteralsSpec,
    ObjectsSpec,
    OneOf,
    Pattern,
    Rule,
    Run,
    TagsSpec,
    Where,
    call,
    chars_of,
    closes,
    groups_of,
    length,
    may_be_empty,
    opens_section,
)
from dragoman.toolcalls.formats.json_rules import further_objects, objects_after, tagged_objects
from dragoman.toolcalls.grammar import SPECIAL_PREFIXES

Trim: TypeAlias = Literal["none", "line", "blank"]

MAX_LITERAL_CHARS: Final = (
    100  # of a marker in a declaration; those of real models have less than 40
)
MAX_MARKER_CHARS: Final = 700  # that a rule may match, names and blanks included
_THINK: Final = ("<think>", "</think>")
_KEY: Final = re.compile(r"[a-z0-9][a-z0-9_.\-]{0,63}", re.IGNORECASE)
_PLACEHOLDER: Final = re.compile(r"\{(\w+)\}")
_WORD: Final = re.compile(r"\w+")
_GAP: Final = Run(r"\n", 0, 1)


class FormatError(ConfigError):
    """A format's table is not legal; `field` is the argument or field that is wrong."""

    def __init__(self, field: str, reason: str) -> None:
        self.field: str = field
        self.reason: str = reason
        super().__init__(f"`{field}`: {reason}")


# --- the common shapes ----------------------------------------------------------------------------------


def json_format(  # noqa: PLR0913 -- the keys of a declaration
    key: str,
    *,
    open: str,  # noqa: A002 -- the word of the settings
    close: str = "",
    name_key: str = "name",
    arguments_key: str = "arguments",
    id_key: str = "",
    models: Sequence[str] = (),
    description: str = "",
    think: Sequence[str] = _THINK,
) -> Format:
    """Return a format with JSON between two markers, as Hermes has: `<call>{"name": "f", "arguments": {}}</call>`.

    One object, several objects or an array may be between the markers.  If `open` contains `{name}`, the JSON is the
    arguments alone: `open="<call:{name}>"` reads `<call:f>{"a": 1}</call>`.

    Args:
        key: The format's name, as `--format` and settings have it.
        open: The marker before the JSON.
        close: The marker after it; empty if the format has none.
        name_key: The key of the tool's name.
        arguments_key: The key of the arguments.
        id_key: The key of the call's id; empty if there is none.
        models: Globs of model ids that write this format, such as `acme-*`.
        description: Which models write it, in one line.
        think: The two tags around reasoning; empty if the models have none.

    Raises:
        FormatError: a marker is empty, too long or ambiguous, or a key is empty; names the argument.
    """
    named = "{name}" in open
    _check_markers(
        {"open": open, "close": close}, think, placeholders={"open": "name"} if named else {}
    )
    for field, value in (("name_key", name_key), ("arguments_key", arguments_key)):
        if not value:
            raise FormatError(field, "is empty")
    special = open.startswith(SPECIAL_PREFIXES)
    if named:
        rules = call((*_pattern(open), BLANKS, AHEAD, "{"), body=JsonSpec())
        rules += closes((close,), stray=special) if close else ()
    else:
        body = ObjectsSpec(
            name_keys=(name_key,),
            argument_keys=(arguments_key,),
            id_keys=(id_key,) if id_key else (),
        )
        rules = (
            tagged_objects(open, close, body=body, special=special)
            if close
            else (*objects_after((open,), body=body), *further_objects(body=body))
        )
    return _built(key, open, rules, models=models, description=description, think=think)


def tags_format(  # noqa: PLR0913 -- the keys of a declaration
    key: str,
    *,
    open: str,  # noqa: A002 -- the word of the settings
    close: str,
    parameter: str,
    parameter_close: str,
    section: Sequence[str] = (),
    trim: Trim = "line",
    models: Sequence[str] = (),
    description: str = "",
    think: Sequence[str] = _THINK,
) -> Format:
    """Return a format with parameters in tags, as Qwen3-Coder has: `<call f><arg k>v</arg></call>`.

    Values have no types, so the schemas of the declared tools decide between texts, numbers and objects.

    Args:
        key: The format's name, as `--format` and settings have it.
        open: The tag that begins a call, with `{name}` for the tool's name: `<call name="{name}">`.
        close: The tag that ends a call.
        parameter: The tag before a value, with `{key}` for the parameter's name: `<arg name="{key}">`.
        parameter_close: The tag after a value.
        section: The two markers around all calls of an answer; empty if there are none.
        trim: What is removed around a value: `none`, one line feed (`line`), or all blanks (`blank`).
        models: Globs of model ids that write this format, such as `acme-*`.
        description: Which models write it, in one line.
        think: The two tags around reasoning; empty if the models have none.

    Raises:
        FormatError: a marker is empty, too long or ambiguous, or lacks its placeholder; names the argument.
    """
    if len(section) not in (0, 2):
        raise FormatError(
            "section", "has two markers: before the first call and after the last one"
        )
    markers = {"open": open, "close": close, "parameter": parameter}
    markers["parameter_close"] = parameter_close
    markers |= {f"section[{at}]": marker for at, marker in enumerate(section, start=1)}
    for field, marker in markers.items():
        if not marker:
            raise FormatError(field, "is empty")
    _check_markers(markers, think, placeholders={"open": "name", "parameter": "key"})
    special = open.startswith(SPECIAL_PREFIXES)
    begin, param = _pattern(open), _pattern(parameter)
    leads = [(_lead(open),), (_lead(parameter),), (close,), *((marker,) for marker in section)]
    outer = OneOf((leads[0], *leads[3:]))
    header = _pattern(open, named=False)
    before_calls: tuple[Pattern, ...] = ((section[0], BLANKS), ()) if section else ((),)
    before: Pattern = {"none": (), "line": (_GAP,), "blank": (BLANKS,)}[trim]
    body = TagsSpec(
        param=(param,),
        value_end=((*before, parameter_close, BLANKS, AHEAD_OR_END, OneOf(tuple(leads))),),
        value_cut=(
            (*before, AHEAD, *param),
            (*before, AHEAD, close, BLANKS, AHEAD_OR_END, outer),
        ),
        next_call=tuple((*before, *lead, *header, BLANKS, *param) for lead in before_calls),
        call_end=((close,),),
        # A value that contains the header of another call is cut there: a call that was never closed must not run
        # with the next call's text as its value.
        special=True,
        skip=((parameter_close,),),
        trim=trim,
    )
    rules = call((*begin, BLANKS, AHEAD_OR_END, OneOf((leads[1], (close,)))), body=body)
    if section:
        rules = (
            *opens_section((section[0], BLANKS, AHEAD, *header)),
            *rules,
            *closes((section[1],), section=True, stray=special),
        )
    rules += closes((close,), stray=special)
    opener = section[0] if section else _lead(open)
    return _built(key, opener, rules, models=models, description=description, think=think)


def _built(  # noqa: PLR0913 -- what every shape has
    key: str,
    opener: str,
    rules: tuple[Rule, ...],
    *,
    models: Sequence[str],
    description: str,
    think: Sequence[str],
) -> Format:
    return validated(
        Format(
            key=key,
            description=description or "a format of the user",
            models=tuple(models),
            opens=(opener,),
            rules=rules,
            think=((think[0], think[1]),) if think else (),
        )
    )


def _pattern(marker: str, *, named: bool = True) -> Pattern:
    """Return the pattern of a marker with a placeholder."""
    match = _PLACEHOLDER.search(marker)
    if match is None:
        return (marker,)
    before, after = marker[: match.start()], marker[match.end() :]
    # A name ends where the text after it begins, and never contains brackets, quotes or line feeds.
    end = re.escape(after[0])
    chars = rf"[^<>\"'\n{end}]" if match[1] == "key" else rf"[^<>\"'\s{end}]"
    most = 256 if match[1] == "key" else 128
    return (before, Run(chars, 1, most, name=match[1] if named else ""), after)


def _lead(marker: str) -> str:
    """Return the text of a marker before its placeholder."""
    return _PLACEHOLDER.split(marker, maxsplit=1)[0]


def _check_markers(
    markers: dict[str, str], think: Sequence[str], *, placeholders: dict[str, str]
) -> None:
    """Raise for a marker that could not be recognized, or not be distinguished from another one."""
    if len(think) not in (0, 2):
        raise FormatError("think", "has two tags: before and after reasoning")
    if not markers["open"]:
        raise FormatError("open", "is empty")
    for field, marker in markers.items():
        _check_placeholder(field, marker, placeholders.get(field, ""))
    every = markers | {f"think[{at}]": tag for at, tag in enumerate(think, start=1)}
    for field, marker in every.items():
        if marker or field.startswith("think"):
            _check_literal(field, marker)
    leads = [(field, _lead(marker)) for field, marker in every.items() if marker]
    for at, (field, lead) in enumerate(leads):
        for other, text in leads[at + 1 :]:
            if lead.startswith(text) or text.startswith(lead):
                raise FormatError(
                    other, f"begins like `{field}`, so the two cannot be distinguished"
                )


def _check_placeholder(field: str, marker: str, wanted: str) -> None:
    found = _PLACEHOLDER.findall(marker)
    if not wanted and found:
        raise FormatError(field, f"has no placeholder, so `{{{found[0]}}}` is not expected")
    if wanted and found != [wanted]:
        raise FormatError(field, f"needs the placeholder `{{{wanted}}}` exactly once")
    if wanted and (marker.startswith("{") or marker.endswith(f"{{{wanted}}}")):
        raise FormatError(field, f"needs a text before and after `{{{wanted}}}`")


def _check_literal(field: str, marker: str) -> None:
    if not marker:
        raise FormatError(field, "is empty")
    if marker != marker.strip():
        raise FormatError(field, "begins or ends with blanks, which are optional around markers")
    if len(marker) > MAX_LITERAL_CHARS:
        raise FormatError(field, f"has {len(marker)} characters; the limit is {MAX_LITERAL_CHARS}")
    lead = _lead(marker)
    if len(lead) < 2 or _WORD.fullmatch(lead):
        raise FormatError(
            field,
            f"begins with `{lead}`, which prose contains too; use at least two characters, one of them not a letter",
        )


# --- any table ------------------------------------------------------------------------------------------

_NAMED: Final = (TagsSpec, LiteralsSpec, ElementsSpec)  # bodies whose calls are named by the marker


def validated(format_: Format) -> Format:
    """Return a format whose table is legal.  The result is remembered.

    Raises:
        FormatError: it is not; names the field.
    """
    try:
        return _validated(format_)
    except TypeError as error:  # only a value that cannot be hashed
        raise FormatError("rules", f"are not tuples of rules all the way down: {error}") from error


@cache
def _validated(format_: Format) -> Format:
    if not isinstance(format_.key, str) or not _KEY.fullmatch(format_.key):
        raise FormatError("key", f"`{format_.key}` is not a name: letters, digits, `_`, `-`, `.`")
    if not all(isinstance(glob, str) and glob for glob in format_.models):
        raise FormatError("models", "has a glob that is empty or not a string")
    for at, pair in enumerate(format_.think, start=1):
        if len(pair) != 2:
            raise FormatError(f"think[{at}]", "has two tags: before and after reasoning")
        for tag in pair:
            _check_pattern((tag,), f"think[{at}]")
    for number, rule in enumerate(format_.rules, start=1):
        _check_rule(rule, f"rules[{number}]")
    begins = {rule.action for rule in format_.rules} & {Action.CALL, Action.TRY_FAMILIES}
    if format_.rules and not begins:
        raise FormatError("rules", "have no rule that begins a call")
    _check_ambiguity(format_)
    return format_


def _check_ambiguity(format_: Format) -> None:
    """Raise if a marker has two meanings at one position."""
    openers = [opener for opener, _ in format_.think if isinstance(opener, str)]
    seen: dict[tuple[Pattern, Where], int] = {}
    for number, rule in enumerate(format_.rules, start=1):
        first = rule.pattern[0]
        if (
            rule.action is Action.CALL
            and isinstance(first, str)
            and first.startswith(tuple(openers))
        ):
            raise FormatError(f"rules[{number}].pattern", "begins like a tag of `think`")
        for where in rule.at:
            before = format_.rules[seen.setdefault((rule.pattern, where), number) - 1]
            if (before.action, before.body, before.inside) != (rule.action, rule.body, rule.inside):
                raise FormatError(
                    f"rules[{number}]",
                    f"has the pattern of rules[{seen[rule.pattern, where]}], which counts at `{where}` too",
                )


def _check_rule(rule: Rule, path: str) -> None:
    if not isinstance(rule, Rule):
        raise FormatError(
            path, "is not a `Rule`; `call`, `closes` and `markers` return tuples of rules"
        )
    _check_pattern(rule.pattern, f"{path}.pattern")
    if not rule.at:
        raise FormatError(f"{path}.at", "is empty, so the marker counts nowhere")
    if rule.action is Action.TRY_FAMILIES and not rule.families:
        raise FormatError(f"{path}.families", "is empty")
    if (rule.action is Action.CALL) != (rule.body is not None):
        expected = "needs" if rule.action is Action.CALL else "has no"
        raise FormatError(f"{path}.body", f"a rule that does `{rule.action.name}` {expected} body")
    groups = set(groups_of(rule.pattern))
    if isinstance(rule.body, _NAMED) and not groups & {"name", "id"}:
        raise FormatError(f"{path}.pattern", "needs a run with the name `name` or `id`")
    if isinstance(rule.body, TagsSpec):
        _check_tags(rule.body, f"{path}.body")


def _check_tags(body: TagsSpec, path: str) -> None:
    for field in (
        *("param", "nameless", "value_end", "value_cut", "next_call"),
        *("verbatim_end", "tokens", "call_end", "skip"),
    ):
        patterns: tuple[Pattern, ...] = getattr(body, field)
        if not patterns and field in ("param", "value_end", "call_end"):
            raise FormatError(f"{path}.{field}", "is empty")
        for at, pattern in enumerate(patterns, start=1):
            _check_pattern(pattern, f"{path}.{field}[{at}]")
    for at, pattern in enumerate(body.param, start=1):
        if "key" not in set(groups_of(pattern)):
            raise FormatError(f"{path}.param[{at}]", "needs a run with the name `key`")


def _check_pattern(pattern: Pattern, path: str) -> None:
    if not isinstance(pattern, tuple):
        raise FormatError(path, "is not a tuple of texts, runs and choices")
    for part in _parts(pattern, path):
        if isinstance(part, Run):
            _check_run(part, path)
    if may_be_empty(pattern):
        raise FormatError(path, "matches the empty text")
    if (most := length(pattern)) > MAX_MARKER_CHARS:
        raise FormatError(path, f"may match {most} characters; the limit is {MAX_MARKER_CHARS}")


def _parts(pattern: Pattern, path: str) -> Iterator[object]:
    for part in pattern:
        if isinstance(part, OneOf):
            if not part.choices:
                raise FormatError(path, "has a choice without any alternative")
            for choice in part.choices:
                yield from _parts(choice, path)
        elif isinstance(part, str | Run | Ahead):
            yield part
        else:
            raise FormatError(
                path, f"has a `{type(part).__name__}`; expected a string, `Run`, `OneOf` or `Ahead`"
            )


def _check_run(run: Run, path: str) -> None:
    if run.least not in (0, 1) or run.most < max(run.least, 1):
        raise FormatError(
            path,
            f"has a run of {run.least} to {run.most} characters; `least` is 0 or 1, `most` larger",
        )
    try:
        chars = chars_of(run.chars)
    except re.error as error:
        raise FormatError(
            path, f"has the run `{run.chars}`, which is not a class of characters: {error}"
        ) from error
    if any(len(char) != 1 for char in chars):
        raise FormatError(path, f"has the run `{run.chars}`, which matches more than one character")
