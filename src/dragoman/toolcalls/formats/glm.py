"""GLM and families that write keys and values in tags."""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    AHEAD_OR_END,
    BLANKS,
    Format,
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

# --- keyed --------------------------------------------------------------------------------------------
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


def keyed_values(
    opener: Pattern,
    closer: Pattern,
    *,
    suffix: Part = "",
    separator: Pattern = (),
) -> tuple[Rule, ...]:
    """Return the rules of keys and values in tags: `<arg_key>k</arg_key><arg_value>v</arg_value>`.

    Each tag may end with `suffix`; `separator` stands between the name and the first key, if the
    format has such a thing.
    """
    key: Pattern = ("<arg_key", suffix, ">")
    key_end: Pattern = ("</arg_key", suffix, ">")
    value: Pattern = ("<arg_value", suffix, ">")
    value_end: Pattern = ("</arg_value", suffix, ">")
    named: Pattern = (*key, Run(r"[^<>]", 1, 256, name="key"), *key_end)
    param: Pattern = (*named, BLANKS, _ESCAPED, *value)
    body = TagsSpec(
        param=(param,),
        value_end=(
            (*value_end, BLANKS, _ESCAPED, AHEAD_OR_END, one_of(key, value, closer, opener)),
        ),
        value_cut=((AHEAD, *param),),
        call_end=(closer,),
        # A key without its value, a value without its key.
        skip=(
            (*key, Run(r"[^<>]", 0, 256), *key_end, AHEAD, BLANKS, one_of(key, closer)),
            (*value, Run(r"[^<]", 0, 256), *value_end),
            value_end,
        ),
    )
    if separator:
        return call((*opener, BLANKS, NAME, BLANKS, *separator), body=body)
    any_key: Pattern = (*key, Run(r"[^<>]", 1, 256), *key_end, BLANKS, *value)
    return (
        *call((*opener, BLANKS, NAME, BLANKS, _ESCAPED, AHEAD, *key), body=body),
        # The opener left out: only where nothing else was said can a name be held for that.
        *call(
            (NAME, BLANKS, AHEAD, *any_key),
            body=body,
            at={Where.START, Where.ANSWER},
            declared=True,
        ),
        # Without arguments nothing but the name tells a call from prose.
        *call((*opener, BLANKS, NAME, BLANKS, *closer), body=body, declared=True, empty=True),
    )


# --- glm ----------------------------------------------------------------------------------------------
#
# What GLM and its kin share: keys and values in tags.

GLM: Final[tuple[Rule, ...]] = (
    *keyed_values(("<tool_call>",), ("</tool_call>",)),
    # Some quantised models write an object into the tag.
    *tagged_objects("<tool_call>", "</tool_call>"),
)

# --- glm45 --------------------------------------------------------------------------------------------
#
# GLM-4.5 and 4.6: keys and values in tags, a line each.

GLM45: Final = Format(
    key="glm45",
    opens=("<tool_call>NAME",),
    description="GLM-4.5, GLM-4.6",
    models=("glm-4.5*", "glm-4.6*", "z-ai/*", "zai-org/*"),
    rules=GLM,
    starts_thinking=True,
)

# --- glm47 --------------------------------------------------------------------------------------------
#
# GLM-4.7, GLM-5 and Ling 3: keys and values in tags, without line feeds.

GLM47: Final = Format(
    key="glm47",
    opens=("<tool_call>NAME",),
    description="GLM-4.7, GLM-5, Ling 3",
    models=("glm-4.7*", "glm-5*", "ling-3*"),
    rules=GLM,
    starts_thinking=True,
)

# --- poolside_v1 --------------------------------------------------------------------------------------
#
# Poolside Laguna: keys and values in tags.

POOLSIDE_V1: Final = Format(
    key="poolside_v1",
    opens=("<tool_call>NAME",),
    description="Poolside Laguna",
    models=("laguna*", "poolside/*"),
    rules=GLM,
)
