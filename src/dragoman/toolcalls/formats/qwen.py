"""Qwen3-Coder and families that write functions and parameters as XML-like tags."""

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
    one_of,
    opens_section,
)
from dragoman.toolcalls.formats.json_rules import tagged_objects

# --- xml ----------------------------------------------------------------------------------------------
#
# What stands between `<tool_call>` and `</tool_call>`: one grammar for all who share the tag.
#
# What follows the tag decides: `{` is a JSON object, `<function=` a function with parameters in tags, a
# name one with keys and values in tags.

NAME: Final = Run(r"[^<>{}\[\]()\"'=\\\s]", 1, 128, name="name")
_ANY_NAME: Final = Run(r"[^<>{}\[\]()\"'=\\\s]", 1, 128)
_LINE: Final = Run(r"\n", 0, 1)
# Blanks inside a tag, as some quantised models write them.
_GAP: Final = Run(" ", 0, 4)
# A line feed that was escaped once too often.
_ESCAPED: Final = one_of("\\n", "")
_KEY: Final = Run(r"[^<>\n]", 1, 256, name="key")


def xml_functions(opener: str, closer: str) -> tuple[Rule, ...]:
    """Return the rules of functions in tags: `<function=f><parameter=k>v</parameter></function>`."""
    body = TagsSpec(
        param=(
            ("<", _GAP, "parameter", _GAP, "=", _GAP, _KEY, ">"),
            ('<parameter name="', Run(r'[^<>\n"]', 1, 256, name="key"), '">'),
        ),
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
        call_end=(("</function>",),),
        skip=(("</parameter>",),),
        trim="line",
        json=True,
    )
    continues = one_of("<parameter", "< parameter", "</function>", "{")
    ahead = one_of(
        ("<function", _after_function(_ANY_NAME), BLANKS, continues),
        ("<function=", _ANY_NAME, "</function>"),
    )
    return (
        *opens_section(
            (opener, BLANKS, AHEAD, ahead), (opener, BLANKS, opener, BLANKS, AHEAD, ahead)
        ),
        *call(
            ("<function", _after_function(NAME), BLANKS, AHEAD, continues),
            ("<function=", NAME, AHEAD, "</function>"),
            body=body,
        ),
        *closes((closer,), section=True, stray=False),
        *closes(("</function>",), stray=False),
    )


def _after_function(name: Run) -> OneOf:
    """Return the ways in which a function's name is written."""
    return one_of(("=", name, _GAP, ">"), (' name="', name, '">'), (" ", name, ">"), (name, ">"))


# --- qwen3_coder --------------------------------------------------------------------------------------
#
# Qwen3-Coder, Qwen3.5 and later, Nemotron-3, MiMo, Step-3.5: functions and parameters in tags.

QWEN3_CODER: Final = Format(
    key="qwen3_coder",
    opens=("<tool_call><function=", "<function="),
    description="Qwen3-Coder, Qwen3.5+, Nemotron-3, MiMo, Step-3.5",
    models=("qwen3-coder*", "qwen3.5*", "nemotron-3*", "mimo-v2*", "step-3.5*"),
    rules=(
        *xml_functions("<tool_call>", "</tool_call>"),
        # Where templates are mixed up, an object stands in the tag.
        *tagged_objects("<tool_call>", "</tool_call>"),
    ),
    trim_think=True,
    starts_thinking=True,
)

# --- seed_oss -----------------------------------------------------------------------------------------
#
# Seed-OSS: functions and parameters in tags, inside tags of its own.

SEED_OSS: Final = Format(
    key="seed_oss",
    opens=("<seed:tool_call>",),
    description="Seed-OSS",
    models=("seed-oss*", "bytedance-seed/*"),
    rules=xml_functions("<seed:tool_call>", "</seed:tool_call>"),
    think=(("<seed:think>", "</seed:think>"),),
    starts_thinking=True,
)
