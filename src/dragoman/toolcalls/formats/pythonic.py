"""Families that write calls in Python syntax: Llama 4, OLMo 3, LFM2."""

from collections.abc import Iterable
from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    ANYWHERE,
    AT_START,
    BLANKS,
    FEW_BLANKS,
    IN_PROSE,
    Action,
    Format,
    LiteralsSpec,
    ObjectsSpec,
    Pattern,
    Rule,
    Run,
    Where,
    call,
    closes,
    empty_pair,
    markers,
    one_of,
)

# --- shared rules: calls in Python syntax -------------------------------------------------------------
#
# `bodies/literals.py` converts the keyword arguments to JSON.

_KEYWORD: Final = Run(r"[\w\-]", 1, 128)
_NEXT: Final = Run(r"[\w.\-]", 1, 128, name="next")
_FIRST: Final[Pattern] = (
    *(_NEXT, "(", FEW_BLANKS, Run(_KEYWORD.chars, 1, 128, name="key"), FEW_BLANKS, "=", FEW_BLANKS),
    Run("[\"'{\\[\\w\\-]", 1, 1, name="quote"),
)
_NEXT_CALL: Final[Pattern] = (")", FEW_BLANKS, Run("[,;]", 0, 1), FEW_BLANKS, *_FIRST)


def _body(closer: str, opener: str, *, special: bool) -> LiteralsSpec:
    """Return the arguments of calls between two markers; `special`: they are special tokens."""
    end: Pattern = (")", FEW_BLANKS, one_of("]", ""), FEW_BLANKS, closer, FEW_BLANKS)
    begin: Pattern = (opener, FEW_BLANKS, one_of("[", ""), FEW_BLANKS, _NEXT, "(")
    # Without this call's closer.  Cases: lfm2/n0_5_string_not_closed_before_text,
    # olmo3/n0_5_string_not_closed_before_text.
    later = begin if special else (opener, FEW_BLANKS, one_of("[", ""), FEW_BLANKS, *_FIRST)
    return LiteralsSpec(style="python", closer=")", next_call=(_NEXT_CALL, (*end, *begin), later))


# A name is a call if a keyword argument or nothing follows the bracket.  Case: pythonic/positional_is_text.
_HEADER: Final[Pattern] = (
    Run(r"[\w.\-]", 1, 128, name="name"),
    BLANKS,
    "(",
    AHEAD,
    BLANKS,
    one_of(")", (_KEYWORD, BLANKS, "=")),
)


def python_calls(
    opener: Pattern,
    *,
    body: LiteralsSpec,
    at: Iterable[Where] = ANYWHERE,
    declared: bool = False,
    prose: bool = False,
) -> tuple[Rule, ...]:
    """Return the rule for the first call, after `opener`."""
    return call((*opener, *_HEADER), body=body, at=at, declared=declared, prose=prose)


def further_python_calls(separators: str = ",", *, body: LiteralsSpec) -> tuple[Rule, ...]:
    """Return the rule for the calls after the first."""
    return call((Run(rf"[{separators}\s]", 1, 16), *_HEADER), body=body, at={Where.TAIL})


# --- pythonic -----------------------------------------------------------------------------------------
#
#     [f(a="x", n=2), g()]
#
# A list of calls after `<|python_start|>`, as the whole answer, or in text if it names a declared tool.
# Cases: tests/corpus/toolcalls/pythonic.

_PYTHONIC: Final = _body("<|python_end|>", "<|python_start|>", special=True)

PYTHONIC: Final = Format(
    key="pythonic",
    opens=("[", "<|python_start|>"),
    description="Llama 4, Llama 3.2 (small), ToolACE",
    models=("llama-4*", "toolace*"),
    rules=(
        *empty_pair(("<|python_start|>",), ("<|python_end|>",), special=True),
        *python_calls(("<|python_start|>", BLANKS, one_of(("[", BLANKS), "")), body=_PYTHONIC),
        *python_calls(("[", BLANKS), body=_PYTHONIC, at=AT_START),
        # In the middle of text.  Cases: pythonic/n5_3_text_before, pythonic/n5_3_tools_unknown.
        *python_calls(
            (Run(r"\n", 1, 1, name="line"), Run(r"[ \t]", 0, 16), "[", BLANKS),
            body=_PYTHONIC,
            at=IN_PROSE,
            declared=True,
            prose=True,
        ),
        *python_calls(("[", BLANKS), body=_PYTHONIC, at=IN_PROSE, declared=True, prose=True),
        # One call without brackets: only a declared name distinguishes it from code.
        *python_calls((), body=_PYTHONIC, at={Where.START, Where.ANSWER}, declared=True),
        *further_python_calls(",;", body=_PYTHONIC),
        *markers(
            (Run(r"[,\s]", 0, 16), "]"), action=Action.SKIP, at={Where.TAIL}, then=Where.AFTER
        ),
        *closes((one_of("<|python_end|>", "<|eom_id|>", "<|eot_id|>", "<|eot|>"),)),
    ),
    bare=True,
    special=(
        "<|python_end|>",
        "<|eom_id|>",
        "<|eot_id|>",
        "<|eot|>",
    ),
    special_openers=("<|python_start|>",),
)

# --- olmo3 --------------------------------------------------------------------------------------------
#
#     <function_calls>
#     f(a="x", n=2)
#     g()
#     </function_calls>
#
# One call per line, between tags.
# Cases: tests/corpus/toolcalls/olmo3.

_OLMO3: Final = _body("</function_calls>", "<function_calls>", special=False)

OLMO3: Final = Format(
    key="olmo3",
    opens=("<function_calls>",),
    description="OLMo 3",
    models=("olmo-3*",),
    rules=(
        *empty_pair(("<function_calls>",), ("</function_calls>",)),
        *python_calls(("<function_calls>", BLANKS, one_of(("[", BLANKS), "")), body=_OLMO3),
        *further_python_calls(",;", body=_OLMO3),
        *markers(
            (Run(r"[,\s]", 0, 16), "]"), action=Action.SKIP, at={Where.TAIL}, then=Where.AFTER
        ),
        *closes(("</function_calls>",), stray=False),
    ),
    starts_thinking=True,
)

# --- lfm2 ---------------------------------------------------------------------------------------------
#
#     <|tool_call_start|>[f(a="x", n=2)]<|tool_call_end|>
#
# A list of Python calls, or JSON objects, between special tokens.
# Cases: tests/corpus/toolcalls/lfm2.

_OPENER: Final = "<|tool_call_start|>"
_LFM2: Final = _body("<|tool_call_end|>", _OPENER, special=True)

LFM2: Final = Format(
    key="lfm2",
    opens=("<|tool_call_start|>",),
    description="Liquid LFM2, LFM2.5",
    models=("lfm2*", "liquid/*"),
    rules=(
        *empty_pair((_OPENER,), ("<|tool_call_end|>",), special=True),
        *call(
            (_OPENER, BLANKS, AHEAD, one_of(("[", BLANKS, "{"), "{")),
            body=ObjectsSpec(),
        ),
        *python_calls((_OPENER, BLANKS, one_of(("[", BLANKS), "")), body=_LFM2),
        *further_python_calls(body=_LFM2),
        *markers(
            (Run(r"[,\s]", 0, 16), "]"), action=Action.SKIP, at={Where.TAIL}, then=Where.AFTER
        ),
        *closes(("<|tool_call_end|>",)),
        # The same body again.  Case: lfm2/n5_4_echo.
        Rule(
            pattern=("[", Run("[^<]", 1, 512), "<|tool_call_end|>"),
            action=Action.DROP,
            at=frozenset({Where.AFTER}),
            echo=True,
        ),
    ),
    special=("<|tool_call_end|>",),
    special_openers=(_OPENER,),
)
