"""MiniMax M1 (JSON lines), M2 (invokes) and M3 (nested elements)."""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    ANYWHERE,
    BLANKS,
    ElementsSpec,
    Format,
    Pattern,
    Run,
    Where,
    call,
    closes,
    empty_pair,
    one_of,
    opens_section,
)
from dragoman.toolcalls.formats.invokes import invokes
from dragoman.toolcalls.formats.json_rules import tagged_objects

# --- minimax_m1 ---------------------------------------------------------------------------------------
#
#     <tool_calls>
#     {"name": "f", "arguments": {"a": 1}}
#     {"name": "g", "arguments": {}}
#     </tool_calls>
#
# One JSON object per line.  Calls inside reasoning are examples.
# Cases: tests/corpus/toolcalls/minimax_m1.

MINIMAX_M1: Final = Format(
    key="minimax_m1",
    opens=("<tool_calls>",),
    description="MiniMax-M1",
    models=("minimax-m1*",),
    # Calls inside reasoning are examples.  Case: minimax_m1/call_inside_think_is_reasoning.
    rules=tagged_objects("<tool_calls>", "</tool_calls>", at=ANYWHERE - {Where.THINK}),
)

# --- minimax_m2 ---------------------------------------------------------------------------------------
#
#     <minimax:tool_call>
#     <invoke name="f">
#     <parameter name="q">a b</parameter>
#     </invoke>
#     </minimax:tool_call>
#
# Values are typed by the schema.  Some hosts close a parameter with `</content>`.
# Cases: tests/corpus/toolcalls/minimax_m2.

MINIMAX_M2: Final = Format(
    key="minimax_m2",
    opens=("<minimax:tool_call>",),
    description="MiniMax-M2, M2.1, M2.5, M2.7",
    models=("minimax-m2*",),
    rules=invokes(
        (),
        section=(("<minimax:tool_call>",), ("</minimax:tool_call>",)),
        closers=("parameter", "content"),
    ),
    starts_thinking=True,
)

# --- minimax_m3 ---------------------------------------------------------------------------------------
#
#     ]<]minimax[>[<tool_call>]<]minimax[>[<invoke name="f">
#     ]<]minimax[>[<a>x]<]minimax[>[</a>]<]minimax[>[</invoke>]<]minimax[>[</tool_call>
#
# Every tag follows a special mark.  Elements nest: objects and arrays are elements inside elements.
# Cases: tests/corpus/toolcalls/minimax_m3.

_MARK: Final = "]<]minimax[>["
_INVOKE: Final[Pattern] = (_MARK, BLANKS, "<invoke name=", Run(r"[\"']", 0, 1))
_END: Final[Pattern] = (Run(r"[\"']", 0, 1), ">")

MINIMAX_M3: Final = Format(
    key="minimax_m3",
    opens=("]<]minimax[>[<tool_call>",),
    description="MiniMax-M3",
    models=("minimax-m3*",),
    rules=(
        *call((*_INVOKE, Run(r"[^\"'<>\s]", 1, 128, name="name"), *_END), body=ElementsSpec(_MARK)),
        *empty_pair((_MARK, BLANKS, "<tool_call>"), (_MARK, BLANKS, "</tool_call>"), special=True),
        *opens_section((_MARK, BLANKS, "<tool_call>", BLANKS, AHEAD, *_INVOKE)),
        *closes((_MARK, BLANKS, "</tool_call>"), section=True),
        *closes((_MARK, BLANKS, "</invoke>")),
    ),
    think=(("<mm:think>", "</mm:think>"), ("<think>", "</think>")),
    starts_thinking=True,
    special=((_MARK, BLANKS, one_of("</tool_call>", "</invoke>")),),
    special_openers=(_MARK,),
)
