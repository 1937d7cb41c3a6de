"""A format prepared for the machine: the markers that count at each position of an answer."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, cached_property
from typing import Final

from dragoman.toolcalls.bodies import elements, literals, tags
from dragoman.toolcalls.format import (
    AHEAD,
    AHEAD_OR_END,
    BLANKS,
    FEW_BLANKS,
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
    Where,
    before_lookahead,
    length,
    markers,
    may_be_empty,
    one_of,
)
from dragoman.toolcalls.scanner import Scanner, scanner
from dragoman.toolcalls.schema_types import text_without

_WIDE_BAR: Final = "\uff5c"
# Prefixes of special tokens, which people do not type or quote.
SPECIAL_PREFIXES: Final = ("<|", f"<{_WIDE_BAR}", "[TOOL_CALLS]", "]<]")
_NOT_A_QUOTE: Final = Run("[^`'\"]", 1, 1)
_FRAMED: Final = frozenset({Where.MESSAGE, Where.ANSWER})
_OPENERS: Final = frozenset({Action.CALL, Action.SKIP})
_OPENED: Final = frozenset({Where.OPENED, Where.THINK})
_QUOTABLE: Final = frozenset({Action.CALL, Action.END_REASONING})


class MarkerState:
    """The rules of one position, and a scanner for their markers."""

    def __init__(self, rules: Sequence[Rule]) -> None:
        self.rules: tuple[Rule, ...] = tuple(rules)
        # By rule: the marker is ordinary text, which an answer may quote in a code fence.
        self.quotable: tuple[bool, ...] = tuple(is_quotable(rule) for rule in self.rules)
        # Code fences matter here, or once a family is recognized.
        self.fences: bool = any(self.quotable) or any(rule.families for rule in self.rules)

    @cached_property
    def leads(self) -> str | None:
        """Text without any of these characters needs no search; None: all text needs one."""
        leads = self.scanner.leads
        return leads + "`" if self.fences and leads is not None and "`" not in leads else leads

    @cached_property
    def scanner(self) -> Scanner:
        return scanner(tuple(rule.pattern for rule in self.rules))


def is_quotable(rule: Rule) -> bool:
    """Return whether a rule's marker does not count in a code fence: ordinary text, or `Rule.unquoted`."""
    if rule.action not in _QUOTABLE and not rule.section:
        return rule.unquoted
    parts = [part for part in rule.pattern if part not in ("", AHEAD, BLANKS)]
    match parts:
        case ["<", Run(chars=chars), *_] if _WIDE_BAR in chars:
            return False
        case [str(first), *_]:
            return not first.startswith(SPECIAL_PREFIXES)
        case [OneOf(choices=choices), *_]:
            return not all(_is_special(choice) for choice in choices)
        case _:
            return True


def _is_special(choice: Pattern) -> bool:
    return bool(choice) and isinstance(choice[0], str) and choice[0].startswith(SPECIAL_PREFIXES)


class FormatGrammar:
    """A format's rules by position.  Built once and shared: it holds no state of an answer."""

    def __init__(  # noqa: PLR0913 -- what is known of a format
        self,
        rules: Sequence[Rule],
        *,
        family: str = "",
        think: bool = False,
        reasoning_continues: bool = False,
        joint: str = "",
        closers: Sequence[Rule] = (),
        special: Scanner | None = None,
    ) -> None:
        self.family = family  # the format's key
        self.think = think  # reasoning tags count
        self.reasoning_continues = reasoning_continues  # see `Format`
        self.states: dict[Where, MarkerState] = {
            where: MarkerState([rule for rule in rules if where in rule.at]) for where in Where
        }
        self.states[Where.OPENED] = MarkerState(
            [rule for rule in rules if not rule.at.isdisjoint(_OPENED)]
        )
        self.joint: str = joint  # see `Format`
        # Twice the length of the longest marker that is an echo: so much text is kept to find one.
        self.echo_chars: int = 2 * max(
            (length(rule.pattern) for rule in rules if rule.echo), default=0
        )
        self.special: Scanner | None = special  # special tokens
        self._closers = closers  # count once reasoning has ended
        # Where an answer that begins inside reasoning begins.
        self.opened: Where = (
            Where.OPENED
            if any(Where.OPENED in rule.at and Where.THINK not in rule.at for rule in rules)
            else Where.THINK
        )

    @cached_property
    def _leads(self) -> str | None:
        """The characters with which the first marker of a text can begin; None: with any."""
        first, later = self.states[Where.START].leads, self.states[Where.TEXT].leads
        return None if first is None or later is None else "".join(dict.fromkeys(first + later))

    def is_plain(self, text: str) -> bool:
        """Return whether a whole text cannot hold a marker, because no character of it can begin one."""
        leads = self._leads
        if leads is None:
            return False
        for lead in leads:  # noqa: SIM110 -- `all` costs a generator for every text
            if lead in text:
                return False
        return True

    @cached_property
    def reasoned(self) -> dict[Where, MarkerState]:
        """The rules by position after reasoning: another closing tag is noise."""
        return {
            where: MarkerState(
                [*(rule for rule in self._closers if where in rule.at), *state.rules]
            )
            for where, state in self.states.items()
        }

    @cached_property
    def ends(self) -> Scanner:
        """Markers that may follow a call's arguments: they end arguments that are not JSON."""
        return scanner(
            tuple(
                rule.pattern
                for rule in self.states[Where.TAIL].rules
                if rule.action is Action.SKIP
                or (rule.action is Action.CALL and Where.AFTER in rule.at)
            )
        )

    @cached_property
    def literal_ends(self) -> Scanner:
        """Those of `ends` that are not brackets, which Python literals contain.  Case: lfm2/n6_2_python_dicts."""
        return scanner(tuple(one for one in self.ends.patterns if one[-1] != "]"))

    @cached_property
    def closers(self) -> Scanner:
        """Markers that close calls and sections, or open one.  A partial one at the end of the text is dropped.

        The header after an opener is not part of it: qwen3_coder/n0_4_second_header_cut.
        """
        return scanner(
            tuple(
                before_lookahead(rule.pattern) if rule.section else rule.pattern
                for rule in self.states[Where.AFTER].rules
                if rule.action is Action.SKIP
            )
        )

    @cached_property
    def breaks(self) -> Scanner | None:
        """Markers that end a JSON string that was never closed; None: the format has none.

        * The closer of a call before the header of another call, or before the closer of the section and the end of
          the text, if these are special tokens.  A closer before anything else is part of the string.
          Case: kimi_k2/n0_5_string_not_closed.
        * A header whose arguments begin with an unescaped quotation mark: no JSON string contains that.  Tags of
          plain text count here too.  Cases: hermes/n0_5_string_not_closed, mistral/n0_5_string_not_closed.
        """
        rules = [rule for rule in self.states[Where.AFTER].rules if _begins_special(rule.pattern)]
        skipped = [rule for rule in rules if rule.action is Action.SKIP]
        ends = [_tight(rule.pattern) for rule in skipped if rule.section is None]
        outer = [_tight(rule.pattern) for rule in skipped if rule.section is False]
        headers = [_tight(rule.pattern) for rule in rules if rule.action is Action.CALL]
        headers += [_tight(rule.pattern) for rule in skipped if rule.section]
        patterns: list[Pattern] = []
        if ends and headers:
            calls = OneOf(tuple(headers))
            patterns += [(AHEAD, *end, FEW_BLANKS, calls) for end in ends]
            patterns += [
                (AHEAD, *end, FEW_BLANKS, *close, FEW_BLANKS, AHEAD_OR_END, calls)
                for end in ends
                for close in outer
            ]
        patterns += self._quoted_headers()
        return scanner(tuple(patterns)) if patterns else None

    @cached_property
    def plain(self) -> Callable[[str], re.Match[str] | None]:
        """Match text inside a JSON string that needs no escapes and begins none of `breaks`."""
        return text_without("" if self.breaks is None else self.breaks.leads, json=True)

    def _quoted_headers(self) -> Iterator[Pattern]:
        """Yield headers up to the first key of a JSON object, also after a closer of the previous call."""
        rules = self.states[Where.AFTER].rules
        closers = [
            _tight(rule.pattern)
            for rule in rules
            if rule.action is Action.SKIP and rule.section is None and rule.pattern
        ]
        headers = [header for rule in rules for header in _up_to_key(rule)]
        if headers:
            choice = OneOf(tuple(headers))
            yield from ((AHEAD, *closer, FEW_BLANKS, choice) for closer in closers)
            yield (AHEAD, choice)
        # Another object of the same array.  Case: jamba/n0_5_string_not_closed_in_an_array.
        for body in dict.fromkeys(rule.body for rule in rules):
            if isinstance(body, ObjectsSpec):
                first = '"' if body.single_key else one_of(*(f'"{key}"' for key in body.name_keys))
                yield (AHEAD, "}", FEW_BLANKS, ",", FEW_BLANKS, "{", FEW_BLANKS, first)


def _up_to_key(rule: Rule) -> Iterator[Pattern]:
    """Yield the pattern of a call's header and of the first key of its JSON object."""
    if rule.action is not Action.CALL or rule.prose or rule.empty:
        return
    lookahead = [place for place, part in enumerate(rule.pattern) if isinstance(part, Ahead)]
    opener = _tight(rule.pattern[: lookahead[0]] if lookahead else rule.pattern)
    if not opener or not isinstance(opener[0], str | OneOf) or may_be_empty(opener):
        return  # the format writes nothing before the object
    key: Pattern = (FEW_BLANKS, '"', Run("[A-Za-z_]", 1, 1))
    match rule.body:
        case JsonSpec():
            yield (*opener, FEW_BLANKS, "{", *key)
        case ObjectsSpec():
            yield (*opener, FEW_BLANKS, one_of("[", ""), FEW_BLANKS, "{", *key)
        case _:
            pass


def _begins_special(pattern: Pattern) -> bool:
    """Return whether every text that matches begins with a special token."""
    match [part for part in pattern if not isinstance(part, Ahead)]:
        case ["<", Run(chars=chars), *_]:
            return _WIDE_BAR in chars
        case ["", *rest]:
            return _begins_special(tuple(rest))
        case [str(first), *_]:
            return first.startswith(SPECIAL_PREFIXES)
        case [OneOf(choices=choices), *rest]:
            return all(_begins_special((*choice, *rest)) for choice in choices)
        case _:
            return False


def _without_groups(pattern: Pattern) -> Pattern:
    return tuple(_anonymous(part) for part in pattern if not isinstance(part, Ahead))


def _tight(pattern: Pattern) -> Pattern:
    """Return a pattern without groups and with few blanks, so that little text is held for it."""
    parts = _without_groups(pattern)
    return tuple(FEW_BLANKS if part == BLANKS else part for part in parts)


def think_rules(format_: Format) -> tuple[Rule, ...]:
    """Return rules for a format's reasoning tags."""
    rules: list[Rule] = []
    trim: Pattern = (Run(r"\n", 0, 1),) if format_.trim_think else ()
    for opener, closer in format_.think:
        before_text = frozenset({Where.START, Where.ANSWER})
        thinking = frozenset({Where.THINK})
        rules += [
            Rule(
                pattern=(opener,), action=Action.START_REASONING, at=before_text, then=Where.THINK
            ),
            Rule(pattern=(*trim, closer), action=Action.START_TEXT, at=thinking, then=Where.ANSWER),
            # Doubled tags, written by some templates.  Case: kimi_k2/think_leak_doubled.
            Rule(pattern=(opener,), action=Action.DROP, at=thinking),
            Rule(pattern=(closer,), action=Action.DROP, at=frozenset({Where.ANSWER})),
        ]
        if not _is_sentence(closer):
            # The opener was in the prompt, or thinking is off.  Case: hermes/n0_1_closer_first.
            rules.append(
                Rule(
                    pattern=(closer,),
                    action=Action.DROP,
                    at=frozenset({Where.START}),
                    then=Where.ANSWER,
                )
            )
    return tuple(rules)


def late_closer_rules(format_: Format) -> tuple[Rule, ...]:
    """Return rules that drop another closing tag of reasoning after reasoning has ended.

    A tag before a quotation mark is a mention.  Cases: hermes/n0_1_second_closer, hermes/n0_1_second_closer_quoted.
    """
    rules: list[Rule] = []
    for _, closer in format_.think:
        rules += markers((closer,), action=Action.END_REASONING, at={Where.TAIL, Where.AFTER})
        rules += markers(
            (closer, AHEAD_OR_END, _NOT_A_QUOTE),
            action=Action.END_REASONING,
            at={Where.TEXT, Where.LATER, Where.MESSAGE},
        )
    return tuple(rules)


def stray_rules(format_: Format) -> tuple[Rule, ...]:
    """Return rules for special tokens outside of calls and messages: see `Machine._resolve_strays`."""
    return tuple(
        Rule(pattern=(one_of(*tokens),), action=action, stray=True)
        for tokens, action in (
            (format_.special, Action.DROP),
            (format_.special_openers, Action.SHOW),
        )
        if tokens
    )


def _is_sentence(closer: Part) -> bool:
    """Return whether a closer of reasoning is a sentence, which an answer may begin with."""
    return isinstance(closer, str) and closer[0].isalpha()


def leak_rules(format_: Format) -> tuple[Rule, ...]:
    """Return rules that drop a closing tag of reasoning directly before a call.

    Case: kimi_k2/think_leak_before_section.
    """
    openers = tuple(
        tuple(part for part in rule.pattern if part != AHEAD)
        for rule in format_.rules
        if rule.action in _OPENERS
        and (rule.action is Action.CALL or rule.section)
        and Where.TEXT in rule.at
        and not rule.prose
    )
    anonymous = tuple(tuple(_anonymous(part) for part in opener) for opener in openers)
    if not anonymous:
        return ()
    return tuple(
        Rule(
            pattern=(closer, BLANKS, AHEAD, OneOf(anonymous)),
            action=Action.DROP,
            at=frozenset({Where.TEXT}),
        )
        for _, closer in format_.think
    )


def _anonymous(part: Part) -> Part:
    match part:
        case Run():
            return Run(part.chars, part.least, part.most)
        case OneOf():
            return OneOf(tuple(_without_groups(choice) for choice in part.choices))
        case _:
            return part


@cache
def format_grammar(format_: Format, *, calls: bool = True, think: bool = True) -> FormatGrammar:
    """Return the shared grammar of a format: its calls, its reasoning tags, or both."""
    rules: tuple[Rule, ...] = ()
    if think:
        rules += think_rules(format_)
    if calls:
        rules += format_.rules + leak_rules(format_) + stray_rules(format_)
    elif think:
        framing = tuple(filter(_is_framing, format_.rules))
        rules += framing
        if any(rule.then is Where.MESSAGE for rule in framing):
            rules += stray_rules(format_)
    return FormatGrammar(
        rules,
        family=format_.key,
        think=think,
        reasoning_continues=format_.reasoning_continues,
        joint=format_.joint,
        closers=late_closer_rules(format_) if think else (),
        special=_special(format_, calls=calls, think=think),
    )


def _special(format_: Format, *, calls: bool, think: bool) -> Scanner | None:
    """Return a scanner for the special tokens whose beginning is dropped at the end of the text."""
    tokens: list[Pattern] = []
    if calls:
        listed = (*format_.special, *format_.special_openers)
        tokens += ((one,) if isinstance(one, str) else one for one in listed)
    if think:
        tags = ((tag,) for pair in format_.think for tag in pair)
        tokens += filter(_begins_special, tags)
    return scanner(tuple(tokens)) if tokens else None


def _is_framing(rule: Rule) -> bool:
    """Return whether a rule separates reasoning from text, which is needed without calls too."""
    if rule.action is Action.SKIP:
        return rule.section is None and not rule.at.isdisjoint(_FRAMED)
    return rule.action is Action.START_REASONING or rule.action is Action.START_TEXT


# --- before the first answer ------------------------------------------------------------------------------
#
# A family's expressions are compiled when a text first contains the beginning of one of its markers.  That takes
# tens to hundreds of milliseconds, once per process; a server does it before it accepts requests.


def warm(formats: Iterable[Format]) -> None:
    """Compile all expressions of these families.  `AUTO` does not include the families it recognizes."""
    for format_ in formats:
        for one in scanners(format_):
            one.warm()


def scanners(format_: Format) -> Iterator[Scanner]:
    """Yield all scanners of a family, for text and for reasoning."""
    for table in (format_grammar(format_, think=True), format_grammar(format_, think=False)):
        yield from (state.scanner for state in table.states.values())
        yield from (state.scanner for state in table.reasoned.values())
        yield from (table.ends, table.literal_ends, table.closers)
        if table.special is not None:
            yield table.special
        if table.breaks is not None:
            yield table.breaks
    for rule in format_.rules:
        if isinstance(rule.body, TagsSpec):
            yield from tags.scanners(rule.body)
        elif isinstance(rule.body, ElementsSpec):
            yield elements.scanner_of(rule.body)
        elif isinstance(rule.body, LiteralsSpec) and rule.body.next_call:
            yield literals.scanner_of(rule.body)
