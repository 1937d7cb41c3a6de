"""Families that write JSON objects after a marker or between two, with few peculiarities."""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    AT_START,
    BLANKS,
    CALLED,
    Action,
    Format,
    ObjectsSpec,
    Pattern,
    Run,
    Where,
    call,
    closes,
    markers,
    one_of,
)
from dragoman.toolcalls.formats.json_rules import (
    answer_tags,
    functools_array,
    objects_after,
    python_objects,
    tagged_objects,
)

# --- internlm2 ----------------------------------------------------------------------------------------
#
# InternLM 2 to 3, Intern-S1: an object between special tokens.

INTERNLM2: Final = Format(
    key="internlm2",
    opens=("<|action_start|><|plugin|>",),
    description="InternLM2, 2.5, 3, Intern-S1",
    models=("internlm*", "intern-s1*"),
    rules=(
        *objects_after(("<|action_start|>", BLANKS, "<|plugin|>")),
        *closes(("<|action_end|>",)),
    ),
)

# --- jamba --------------------------------------------------------------------------------------------
#
# Jamba 1.5 to 1.7: an array of objects between tags.

JAMBA: Final = Format(
    key="jamba",
    opens=("<tool_calls>[",),
    description="Jamba 1.5 to 1.7",
    models=("jamba*",),
    rules=tagged_objects("<tool_calls>", "</tool_calls>"),
)

# --- phi4_mini ----------------------------------------------------------------------------------------
#
# Phi-4-mini: an array of objects after a plain word or a special token.

PHI4_MINI: Final = Format(
    key="phi4_mini",
    opens=("functools[", "<|tool_call|>["),
    description="Phi-4-mini",
    models=("phi-4-mini*", "phi4-mini"),
    rules=(
        *functools_array(),
        *objects_after(("<|tool_call|>",)),
        *closes(("<|/tool_call|>",)),
    ),
    bare=True,
)

# --- ernie45 ------------------------------------------------------------------------------------------
#
# ERNIE 4.5: an object between tags, the answer between others.

ERNIE45: Final = Format(
    key="ernie45",
    opens=("<tool_call>",),
    description="ERNIE 4.5 thinking, ERNIE X1",
    models=("ernie-4.5*thinking*", "ernie-x1*"),
    rules=(*tagged_objects("<tool_call>", "</tool_call>"), *answer_tags("response")),
    starts_thinking=True,
)

# --- xlam ---------------------------------------------------------------------------------------------
#
# xLAM 2: an array of objects, bare, in a fence or between tags.

XLAM: Final = Format(
    key="xlam",
    opens=("[",),
    description="Salesforce xLAM 2",
    models=("xlam*",),
    rules=(
        *tagged_objects("<tool_call>", "</tool_call>"),
        *objects_after(("[TOOL_CALLS]",)),
        *call(
            (one_of("```json", "```"), BLANKS, AHEAD, "[", BLANKS, "{"),
            body=ObjectsSpec(declared=True),
        ),
        *python_objects((), at=AT_START - {Where.TAIL}, declared=True),
        *call((AHEAD, "[", BLANKS, "{"), body=ObjectsSpec(declared=True), at=AT_START),
        # Reasoning that nobody told of: its closer is all that shows, and an array may follow it.
        *markers(
            ("</think>", BLANKS, AHEAD, "[", BLANKS, "{"),
            action=Action.DROP,
            at={Where.START, Where.TEXT},
            then=Where.ANSWER,
        ),
        *markers(("```",), action=Action.SKIP, at={Where.TAIL}, then=Where.AFTER),
    ),
    bare=True,
)

# --- longcat ------------------------------------------------------------------------------------------
#
# LongCat-Flash: an object between tags.

LONGCAT: Final = Format(
    key="longcat",
    opens=("<longcat_tool_call>",),
    description="LongCat-Flash",
    models=("longcat*",),
    rules=tagged_objects("<longcat_tool_call>", "</longcat_tool_call>"),
    think=(("<longcat_think>", "</longcat_think>"), ("<think>", "</think>")),
)

# --- apertus ------------------------------------------------------------------------------------------
#
# Apertus: an array of objects whose one key is the tool.

APERTUS: Final = Format(
    key="apertus",
    opens=("<|tools_prefix|>[",),
    description="Apertus 2509",
    models=("apertus*", "swiss-ai/*"),
    rules=tagged_objects(
        "<|tools_prefix|>", "<|tools_suffix|>", body=ObjectsSpec(single_key=True), special=True
    ),
    think=(("<|inner_prefix|>", "<|inner_suffix|>"),),
    reasoning_continues=True,
)

# --- gigachat3 ----------------------------------------------------------------------------------------
#
# GigaChat 3: one object after a marker.

_OLD: Final = "function call<|role_sep|>"

GIGACHAT3: Final = Format(
    key="gigachat3",
    opens=("<|function_call|>", "function call<|role_sep|>"),
    description="GigaChat 3, 3.1",
    models=("gigachat3*", "gigachat-3*"),
    rules=(
        *objects_after(("<|function_call|>",)),
        *objects_after((_OLD,)),
        *objects_after(("<|message_sep|>", BLANKS, _OLD)),
        # What stands between a separator and the call is no text.
        *markers(
            (
                "<|message_sep|>",
                Run("[^<]", 0, 64, name="noise"),
                AHEAD,
                one_of("<|function_call|>", _OLD),
                BLANKS,
                "{",
            ),
            action=Action.DROP,
        ),
        *markers(
            ("<|message_sep|>", BLANKS, one_of("</s>", "")),
            action=Action.DROP,
            at=CALLED | {Where.TEXT},
        ),
        *closes(("</s>",)),
    ),
)

# --- sarashina ----------------------------------------------------------------------------------------
#
# Sarashina 2: a list in the syntax of Python after a marker, or as the whole answer.

SARASHINA: Final = Format(
    key="sarashina",
    opens=("<|tool_calls|>",),
    description="Sarashina 2.x",
    models=("sarashina*",),
    rules=(
        *python_objects(("<|tool_calls|>",)),
        *objects_after(("<|tool_calls|>",)),
        # Without the marker only the answer's very beginning counts, and only declared tools.
        *python_objects((), at=AT_START - {Where.TAIL}, declared=True),
    ),
)

# --- apriel -------------------------------------------------------------------------------------------
#
# Apriel: an array of objects with ids, between tags; reasoning in free words, then the answer.

_ANSWER_END: Final[Pattern] = (
    Run(r"\n", 0, 1),
    "[END FINAL RESPONSE]",
    BLANKS,
    one_of("<|end|>", ""),
)

APRIEL: Final = Format(
    key="apriel",
    opens=("<tool_calls>[",),
    description="Apriel 1.5, 1.6",
    models=("apriel*",),
    rules=(
        *tagged_objects("<tool_calls>", "</tool_calls>", body=ObjectsSpec(id_keys=("id",))),
        *markers(
            ("Here are my reasoning steps:",),
            action=Action.START_REASONING,
            at={Where.START},
            then=Where.THINK,
        ),
        *markers(
            ("[BEGIN FINAL RESPONSE]", BLANKS),
            action=Action.START_TEXT,
            at={Where.START, Where.THINK, Where.ANSWER, Where.AFTER},
            then=Where.MESSAGE,
        ),
        *markers(_ANSWER_END, action=Action.SKIP, at={Where.MESSAGE}, then=Where.ANSWER),
        # A call inside the answer hides that it was opened.
        *markers(_ANSWER_END, action=Action.DROP, at=CALLED),
    ),
    think=(("<thinking>", "</thinking>"), ("<think>", "</think>")),
    starts_thinking=True,
)
