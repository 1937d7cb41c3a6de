"""Hunyuan A13B (a JSON array) and Hunyuan 3 (keys and values in tags)."""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    ANYWHERE,
    BLANKS,
    Format,
    Pattern,
    Run,
    Where,
    closes,
    empty_pair,
    one_of,
    opens_section,
)
from dragoman.toolcalls.formats.glm import keyed_values
from dragoman.toolcalls.formats.json_rules import answer_tags, bare_array, tagged_objects

# --- hunyuan_a13b -------------------------------------------------------------------------------------
#
#     <tool_calls>[{"name": "f", "arguments": {"a": 1}}]</tool_calls>
#
# A JSON array between tags.  The answer may be wrapped in `<answer>`.  Calls inside reasoning are examples.
# Cases: tests/corpus/toolcalls/hunyuan_a13b.

HUNYUAN_A13B: Final = Format(
    key="hunyuan_a13b",
    opens=("<tool_calls>[",),
    description="Hunyuan A13B",
    models=("hunyuan-a13b*",),
    rules=(
        # Calls inside reasoning are examples.  Case: hunyuan_a13b/call_inside_think_is_reasoning.
        *tagged_objects("<tool_calls>", "</tool_calls>", at=ANYWHERE - {Where.THINK}),
        *bare_array(),
        *answer_tags("answer"),
    ),
)

# --- hy_v3 --------------------------------------------------------------------------------------------
#
#     <tool_calls><tool_call>f<tool_sep>
#     <arg_key>a</arg_key>
#     <arg_value>x</arg_value>
#     </tool_call></tool_calls>
#
# GLM's keys and values after a separator; all tags may share one suffix.
# Cases: tests/corpus/toolcalls/hy_v3.

# Every tag may have one common suffix, such as `:opensource`.  Case: hy_v3/common_suffix.
_SUFFIX: Final = one_of((":", Run(r"[^<>\s]", 1, 32)), "")
_HY_OPENER: Final[Pattern] = ("<tool_call", _SUFFIX, ">")
_HY_CLOSER: Final[Pattern] = ("</tool_call", _SUFFIX, ">")
_HY_SEPARATOR: Final[Pattern] = ("<tool_sep", _SUFFIX, ">")

HY_V3: Final = Format(
    key="hy_v3",
    opens=("<tool_calls>", "<tool_call>"),
    description="Hunyuan 3 (Hy3)",
    models=("hy3*", "hunyuan-3*", "tencent/hy*"),
    rules=(
        *keyed_values(
            _HY_OPENER,
            _HY_CLOSER,
            suffix=_SUFFIX,
            separator=_HY_SEPARATOR,
            section_end=("</tool_calls", _SUFFIX, ">"),
        ),
        *opens_section(
            (
                "<tool_calls",
                _SUFFIX,
                ">",
                BLANKS,
                AHEAD,
                *_HY_OPENER,
                BLANKS,
                Run(r"[^<>\s]", 1, 128),
                BLANKS,
                *_HY_SEPARATOR,
            )
        ),
        *empty_pair(("<tool_calls", _SUFFIX, ">"), ("</tool_calls", _SUFFIX, ">")),
        *empty_pair(_HY_OPENER, _HY_CLOSER),
        *closes(_HY_CLOSER, stray=False),
        *closes(("</tool_calls", _SUFFIX, ">"), section=True, stray=False),
    ),
    think=((one_of(("<think", _SUFFIX, ">")), one_of(("</think", _SUFFIX, ">"))),),
)
