"""GLM and Poolside Laguna: keys and values in tags, `<arg_key>k</arg_key><arg_value>v</arg_value>`."""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    AHEAD_OR_END,
    BLANKS,
    FEW_BLANKS,
    Format,
    OneOf,
    Part,
    Pattern,
    Rule,
    Run,
    TagsSpec,
    Where,
    call,
    one_of,
)
from dragoman.toolcalls.formats.json_rules import tagged_objects

# --- shared rules: keys and values in tags ------------------------------------------------------------
#
# Hunyuan 3 uses them too (`hunyuan.py`).

_NAME: Final = Run(r"[^<>{}\[\]()\"'=\\\s]", 1, 128, name="name")
_ANY_NAME: Final = Run(_NAME.chars, 1, 128)
# A line feed that was escaped twice.  Case: glm45/literal_backslash_n.
_ESCAPED: Final = one_of("\\n", "")


def keyed_values(
    opener: Pattern,
    closer: Pattern,
    *,
    suffix: Part = "",
    separator: Pattern = (),
    section_end: Pattern = (),
) -> tuple[Rule, ...]:
    """Return rules for keys and values in tags: `<arg_key>k</arg_key><arg_value>v</arg_value>`.

    `suffix`: an optional end of each tag's name.  `separator`: the marker between name and first key, if any.
    `section_end`: the closer of the section around the calls, if any.
    """
    key: Pattern = ("<arg_key", suffix, ">")
    key_end: Pattern = ("</arg_key", suffix, ">")
    value: Pattern = ("<arg_value", suffix, ">")
    value_end: Pattern = ("</arg_value", suffix, ">")
    named: Pattern = (*key, Run(r"[^<>]", 1, 256, name="key"), *key_end)
    param: Pattern = (*named, BLANKS, _ESCAPED, *value)
    body = TagsSpec(
        param=(param,),
        nameless=((*key, Run(r"[ \t\r\n]", 0, 16), *key_end, BLANKS, _ESCAPED, *value),),
        value_end=(
            (*value_end, BLANKS, _ESCAPED, AHEAD_OR_END, one_of(key, value, closer, opener)),
        ),
        value_cut=(
            (AHEAD, *param),
            # The value's closer is missing: the call's closer ends it, at the end or before another call.
            # Case: glm47/n2_1_value_not_closed.
            (
                Run(r"\n", 0, 1),
                AHEAD,
                *closer,
                BLANKS,
                AHEAD_OR_END,
                OneOf(((*opener, BLANKS, _ANY_NAME), *((section_end,) if section_end else ()))),
            ),
        ),
        next_call=(
            (
                *(*opener, FEW_BLANKS, _ANY_NAME, FEW_BLANKS, *separator, FEW_BLANKS),
                *(*key, Run(r"[^<>]", 1, 128, name="key"), *key_end, FEW_BLANKS, *value),
            ),
        ),
        # Without the tag before the key.  Case: glm45/n0_4_key_tag_missing_after_a_value.
        tokens=((*key_end, FEW_BLANKS, *value),),
        call_end=(closer,),
        # A key without a value, or a value without a key.
        # Cases: glm45/key_without_value, glm45/value_without_key.
        skip=(
            (*key, Run(r"[^<>]", 0, 256), *key_end, AHEAD, BLANKS, one_of(key, closer)),
            (*value, Run(r"[^<]", 0, 256), *value_end),
            value_end,
        ),
    )
    if separator:
        return call((*opener, BLANKS, _NAME, BLANKS, *separator), body=body)
    any_key: Pattern = (*key, Run(r"[^<>]", 1, 256), *key_end, BLANKS, *value)
    return (
        *call((*opener, BLANKS, _NAME, BLANKS, _ESCAPED, AHEAD, one_of(key, value)), body=body),
        # The opener is missing.  Only at the start of an answer can a name wait for a key.
        # Case: glm45/opener_missing.
        *call(
            (_NAME, BLANKS, AHEAD, *any_key),
            body=body,
            at={Where.START, Where.ANSWER},
            declared=True,
        ),
        # Without arguments only a declared name distinguishes a call from prose.
        # Case: glm45/undeclared_name_alone_is_text.
        *call((*opener, BLANKS, _NAME, BLANKS, *closer), body=body, declared=True, empty=True),
    )


_RULES: Final[tuple[Rule, ...]] = (
    *keyed_values(("<tool_call>",), ("</tool_call>",)),
    # Some quantized models write a JSON object into the tag.  Case: glm47/object_in_the_tag.
    *tagged_objects("<tool_call>", "</tool_call>"),
)

# --- glm45 --------------------------------------------------------------------------------------------
#
#     <tool_call>f
#     <arg_key>city</arg_key>
#     <arg_value>Oslo</arg_value>
#     </tool_call>
#
# Keys and values in tags, on separate lines; values are typed by the schema.
# Cases: tests/corpus/toolcalls/glm45.

GLM45: Final = Format(
    key="glm45",
    opens=("<tool_call>NAME",),
    description="GLM-4.5, GLM-4.6",
    models=("glm-4.5*", "glm-4.6*", "z-ai/*", "zai-org/*"),
    rules=_RULES,
    starts_thinking=True,
)

# --- glm47 --------------------------------------------------------------------------------------------
#
#     <tool_call>f<arg_key>city</arg_key><arg_value>Oslo</arg_value></tool_call>
#
# As GLM-4.5, without line feeds; `<tool_call>now</tool_call>` is a call without arguments.
# Cases: tests/corpus/toolcalls/glm47.

GLM47: Final = Format(
    key="glm47",
    opens=("<tool_call>NAME",),
    description="GLM-4.7, GLM-5, Ling 3",
    models=("glm-4.7*", "glm-5*", "ling-3*"),
    rules=_RULES,
    starts_thinking=True,
)

# --- poolside_v1 --------------------------------------------------------------------------------------
#
#     <tool_call>f
#     <arg_key>city</arg_key>
#     <arg_value>Oslo</arg_value>
#     </tool_call>
#
# As GLM-4.5; the answer never starts inside reasoning.
# Cases: tests/corpus/toolcalls/poolside_v1.

POOLSIDE_V1: Final = Format(
    key="poolside_v1",
    opens=("<tool_call>NAME",),
    description="Poolside Laguna",
    models=("laguna*", "poolside/*"),
    rules=_RULES,
)
