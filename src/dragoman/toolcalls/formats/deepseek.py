"""DeepSeek V3 to V4: special tokens around JSON, and later DSML tags.

The markers of the versions do not clash, so every version accepts all of them: hosts mix templates.
"""

# ruff: noqa: RUF001, RUF002, RUF003 -- full-width characters are what the models write

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    BLANKS,
    Action,
    Format,
    JsonSpec,
    OneOf,
    Pattern,
    Rule,
    Run,
    Where,
    call,
    closes,
    empty_pair,
    markers,
    one_of,
    opens_section,
)
from dragoman.toolcalls.formats.invokes import invokes

# --- shared rules -------------------------------------------------------------------------------------

# Full-width bars and blocks.  Hosts that normalize text turn them into ASCII.  Case: deepseek_v3/ascii_bars.
_BAR: Final = Run("[｜|]", 1, 1)
_LOW: Final = Run("[▁_]", 1, 1)


def _token(*words: str) -> Pattern:
    """Return the special token made of these words: `<｜tool▁sep｜>`."""
    parts: list[str | Run] = ["<", _BAR]
    for place, word in enumerate(words):
        parts += [_LOW, word] if place else [word]
    return (*parts, _BAR, ">")


_SECTION_BEGIN: Final = _token("tool", "calls", "begin")
_SECTION_END: Final = _token("tool", "calls", "end")
_BEGIN: Final = _token("tool", "call", "begin")
_END: Final = _token("tool", "call", "end")
_SEP: Final = _token("tool", "sep")
_NAME_CHARS: Final = r"[^<>{}`\s]"


def _headers(name: Run) -> tuple[Pattern, ...]:
    typed: Pattern = (*_BEGIN, BLANKS, "function", BLANKS, *_SEP, BLANKS, name)
    return (
        (*typed, BLANKS, "```json"),
        (*typed, BLANKS, "```", AHEAD, BLANKS, "{"),
        (*typed, BLANKS, AHEAD, "{"),
        (*typed, BLANKS, AHEAD, *_END),
        (*_BEGIN, BLANKS, name, BLANKS, *_SEP),
    )


_HEADERS: Final = _headers(Run(_NAME_CHARS, 1, 128, name="name"))
_AHEAD_CALL: Final = OneOf(
    tuple(
        tuple(part for part in header if part != AHEAD)
        for header in _headers(Run(_NAME_CHARS, 1, 128))
    )
)

_JSON_RULES: Final[tuple[Rule, ...]] = (
    *empty_pair(_SECTION_BEGIN, _SECTION_END, special=True),
    *call(*_HEADERS[:3], body=JsonSpec()),
    # `function` before the separator is the call's type, never the tool: without a tool after it, this is not a call.
    # Cases: deepseek_v3/n3_1_no_arguments, deepseek_v3/n3_1_no_name, deepseek_v31/n3_1_type_for_a_name.
    *call(_HEADERS[3], body=JsonSpec(), declared=True, empty=True),
    *markers((*_BEGIN, BLANKS, "function", BLANKS, *_SEP), action=Action.NOT_A_CALL),
    *call(_HEADERS[4], body=JsonSpec()),
    *opens_section((*_SECTION_BEGIN, BLANKS, AHEAD, _AHEAD_CALL)),
    *opens_section(
        (*_SECTION_BEGIN, Run("[^<]", 1, 128, name="noise"), AHEAD, _AHEAD_CALL),
        noisy=True,
    ),
    *markers(("```",), action=Action.SKIP, at={Where.TAIL}),
    *closes(_END),
    *markers(
        (Run("[^<`]", 1, 64, name="noise"), *_END),
        action=Action.DROP,
        at={Where.TAIL},
        then=Where.AFTER,
    ),
    *closes(_SECTION_END, section=True),
    *closes((one_of("<｜end▁of▁sentence｜>", "<|end_of_sentence|>"),)),
)

_DSML: Final = (Run("[｜|]", 1, 2), "DSML", Run("[｜|]", 1, 2))
_KIND: Final = one_of("function_calls", "tool_calls")
_DSML_RULES: Final = invokes(
    _DSML,
    section=(("<", *_DSML, _KIND, Run(" ", 0, 4), ">"), ("</", *_DSML, _KIND, Run(" ", 0, 4), ">")),
    flagged=True,
    special=True,
)

_CLOSERS: Final[tuple[str | Pattern, ...]] = (
    _END,
    _SECTION_END,
    "<｜end▁of▁sentence｜>",
    "<|end_of_sentence|>",
    ("</", *_DSML, one_of("invoke", "parameter", (_KIND,)), ">"),
)
_OPENERS: Final[tuple[str | Pattern, ...]] = (
    _BEGIN,
    _SECTION_BEGIN,
    _SEP,
    ("<", *_DSML),
)

JSON_FIRST: Final = (*_JSON_RULES, *_DSML_RULES)
DSML_FIRST: Final = (*_DSML_RULES, *_JSON_RULES)

# --- deepseek_v3 --------------------------------------------------------------------------------------
#
#     <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f
#     ```json
#     {"a": 1}
#     ```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
#
# Special tokens; the arguments are in a code fence, which is sometimes missing.
# Cases: tests/corpus/toolcalls/deepseek_v3.

DEEPSEEK_V3: Final = Format(
    key="deepseek_v3",
    opens=("<｜tool▁calls▁begin｜>",),
    description="DeepSeek V3-0324, R1-0528",
    models=("deepseek-v3", "deepseek-chat-v3-0324", "deepseek-r1*"),
    rules=JSON_FIRST,
    starts_thinking=True,
    special=_CLOSERS,
    special_openers=_OPENERS,
)

# --- deepseek_v31 -------------------------------------------------------------------------------------
#
#     <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>
#
# Special tokens, without the word `function` and without a fence.
# Cases: tests/corpus/toolcalls/deepseek_v31.

DEEPSEEK_V31: Final = Format(
    key="deepseek_v31",
    opens=("<｜tool▁calls▁begin｜>",),
    description="DeepSeek V3.1, V3.1-Terminus, V3.2-Exp",
    models=("deepseek-v3.1*", "deepseek-chat-v3.1", "*terminus*", "deepseek-v3.2-exp"),
    rules=JSON_FIRST,
    starts_thinking=True,
    special=_CLOSERS,
    special_openers=_OPENERS,
)

# --- deepseek_v32 -------------------------------------------------------------------------------------
#
#     <｜DSML｜function_calls><｜DSML｜invoke name="f">
#     <｜DSML｜parameter name="n" string="false">5</｜DSML｜parameter>
#     </｜DSML｜invoke></｜DSML｜function_calls>
#
# Each parameter states whether it is a string; any other value is JSON.
# Cases: tests/corpus/toolcalls/deepseek_v32.

DEEPSEEK_V32: Final = Format(
    key="deepseek_v32",
    opens=("<｜DSML｜function_calls>",),
    description="DeepSeek V3.2",
    models=("deepseek-v3.2*",),
    rules=DSML_FIRST,
    starts_thinking=True,
    special=_CLOSERS,
    special_openers=_OPENERS,
)

# --- deepseek_v4 --------------------------------------------------------------------------------------
#
#     <｜DSML｜tool_calls><｜DSML｜invoke name="f">
#     <｜DSML｜parameter name="n" string="false">5</｜DSML｜parameter>
#     </｜DSML｜invoke></｜DSML｜tool_calls>
#
# As V3.2, in a section called `tool_calls`.
# Cases: tests/corpus/toolcalls/deepseek_v4.

DEEPSEEK_V4: Final = Format(
    key="deepseek_v4",
    opens=("<｜DSML｜tool_calls>",),
    description="DeepSeek V4",
    models=("deepseek-v4*",),
    rules=DSML_FIRST,
    starts_thinking=True,
    special=_CLOSERS,
    special_openers=_OPENERS,
)
