"""Qwen3-Coder and others: functions and parameters as XML-like tags, `<function=f><parameter=k>v</parameter>`.

The rules here find the tags; `bodies/tags.py` converts parameters to JSON.
"""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    AHEAD_OR_END,
    BLANKS,
    Format,
    OneOf,
    Rule,
    Run,
    TagsSpec,
    call,
    closes,
    empty_pair,
    one_of,
    opens_section,
)
from dragoman.toolcalls.formats.json_rules import tagged_objects

# --- shared rules: functions and parameters in tags ---------------------------------------------------
#
# Hermes and Seed-OSS use them too.

_NAME: Final = Run(r"[^<>{}\[\]()\"'=\\\s]", 1, 128, name="name")
_ANY_NAME: Final = Run(r"[^<>{}\[\]()\"'=\\\s]", 1, 128)
_LINE: Final = Run(r"\n", 0, 1)
# Blanks inside a tag, written by some quantized models.  Case: qwen3_coder/blanks_in_tags.
_GAP: Final = Run(" ", 0, 4)
_KEY: Final = Run(r"[^<>\n]", 1, 256, name="key")


def xml_functions(opener: str, closer: str) -> tuple[Rule, ...]:
    """Return rules for functions in tags: `<function=f><parameter=k>v</parameter></function>`."""
    body = TagsSpec(
        param=(
            ("<", _GAP, "parameter", _GAP, "=", _GAP, _KEY, ">"),
            ('<parameter name="', Run(r'[^<>\n"]', 1, 256, name="key"), '">'),
        ),
        nameless=(("<", _GAP, "parameter", Run(r"[^<>\n]", 0, 128, name="attributes"), ">"),),
        value_end=(
            (
                _LINE,
                one_of("</parameter>", "</content>"),
                BLANKS,
                AHEAD_OR_END,
                one_of("<parameter", "< parameter", "</function>", closer, opener, "<function="),
            ),
        ),
        value_cut=(
            (_LINE, AHEAD, "<parameter=", _KEY, ">"),
            (
                _LINE,
                AHEAD,
                "</function>",
                BLANKS,
                AHEAD_OR_END,
                one_of(closer, opener, "<function=", "</function>"),
            ),
            (_LINE, AHEAD, closer, BLANKS, AHEAD_OR_END, one_of(opener, "<function=")),
        ),
        next_call=tuple(
            (*lead, "<function=", _ANY_NAME, _GAP, ">", BLANKS, "<parameter=", _KEY, ">")
            for lead in ((_LINE, opener, BLANKS), (_LINE,))
        ),
        call_end=(("</function>",),),
        skip=(("</parameter>",),),
        trim="line",
        json=True,
    )
    continues = one_of("<parameter", "< parameter", "</function>", "{")
    ahead = one_of(
        ("<function", _after_function(_ANY_NAME), BLANKS, AHEAD_OR_END, continues),
        ("<function=", _ANY_NAME, "</function>"),
    )
    return (
        *opens_section(
            (opener, BLANKS, AHEAD, ahead), (opener, BLANKS, opener, BLANKS, AHEAD, ahead)
        ),
        *call(
            ("<function", _after_function(_NAME), BLANKS, AHEAD_OR_END, continues),
            ("<function=", _NAME, AHEAD, "</function>"),
            body=body,
        ),
        *closes((closer,), section=True, stray=False),
        *closes(("</function>",), stray=False),
    )


def _after_function(name: Run) -> OneOf:
    """Return the spellings of a function's name: `=f>`, ` name="f">`, ` f>`, `f>`."""
    return one_of(("=", name, _GAP, ">"), (' name="', name, '">'), (" ", name, ">"), (name, ">"))


# --- qwen3_coder --------------------------------------------------------------------------------------
#
#     <tool_call>
#     <function=f>
#     <parameter=a>
#     1
#     </parameter>
#     </function>
#     </tool_call>
#
# Values are untyped text: the tool's schema decides between string, number, object and so on
# (`bodies/tags.py`, `schema_types.py`).  Mixed-up templates also produce a JSON object inside the tag.
# Cases: tests/corpus/toolcalls/qwen3_coder.

QWEN3_CODER: Final = Format(
    key="qwen3_coder",
    opens=("<tool_call><function=", "<function="),
    description="Qwen3-Coder, Qwen3.5+, Nemotron-3, MiMo, Step-3.5",
    models=("qwen3-coder*", "qwen3.5*", "nemotron-3*", "mimo-v2*", "step-3.5*"),
    rules=(
        *xml_functions("<tool_call>", "</tool_call>"),
        # Mixed-up templates put a JSON object into the tag.  Case: qwen3_coder/object_in_the_tag.
        *tagged_objects("<tool_call>", "</tool_call>"),
    ),
    trim_think=True,
    starts_thinking=True,
)

# --- seed_oss -----------------------------------------------------------------------------------------
#
#     <seed:tool_call><function=f><parameter=a>1</parameter></function></seed:tool_call>
#
# Qwen3-Coder's functions inside other tags; `<seed:think>` around reasoning.
# Cases: tests/corpus/toolcalls/seed_oss.

SEED_OSS: Final = Format(
    key="seed_oss",
    opens=("<seed:tool_call>",),
    description="Seed-OSS",
    models=("seed-oss*", "bytedance-seed/*"),
    rules=(
        *empty_pair(("<seed:tool_call>",), ("</seed:tool_call>",)),
        *xml_functions("<seed:tool_call>", "</seed:tool_call>"),
    ),
    think=(("<seed:think>", "</seed:think>"),),
    starts_thinking=True,
)
