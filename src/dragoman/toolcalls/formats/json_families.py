"""Small families that write JSON after a marker or between two markers."""

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
    empty_pair,
    markers,
    one_of,
)
from dragoman.toolcalls.formats.json_rules import (
    answer_tags,
    bare_array,
    functools_array,
    objects_after,
    objects_in_prose,
    python_objects,
    tagged_objects,
)

# --- internlm2 ----------------------------------------------------------------------------------------
#
#     <|action_start|><|plugin|>{"name": "f", "parameters": {"a": 1}}<|action_end|>
#
# A JSON object between special tokens.
# Cases: tests/corpus/toolcalls/internlm2.

INTERNLM2: Final = Format(
    key="internlm2",
    opens=("<|action_start|><|plugin|>",),
    description="InternLM2, 2.5, 3, Intern-S1",
    models=("internlm*", "intern-s1*"),
    rules=(
        *empty_pair(("<|action_start|>", BLANKS, "<|plugin|>"), ("<|action_end|>",), special=True),
        *objects_after(("<|action_start|>", BLANKS, "<|plugin|>")),
        *closes(("<|action_end|>",)),
    ),
    special=("<|action_end|>",),
    special_openers=(
        "<|action_start|>",
        "<|plugin|>",
    ),
)

# --- jamba --------------------------------------------------------------------------------------------
#
#     <tool_calls>[{"name": "f", "arguments": {"a": 1}}]</tool_calls>
#
# A JSON array between tags.
# Cases: tests/corpus/toolcalls/jamba.

JAMBA: Final = Format(
    key="jamba",
    opens=("<tool_calls>[",),
    description="Jamba 1.5 to 1.7",
    models=("jamba*",),
    rules=(*tagged_objects("<tool_calls>", "</tool_calls>"), *bare_array()),
)

# --- phi4_mini ----------------------------------------------------------------------------------------
#
#     functools[{"name": "f", "arguments": {"a": 1}}]
#
# A JSON array after a plain word or after `<|tool_call|>`.
# Cases: tests/corpus/toolcalls/phi4_mini.

PHI4_MINI: Final = Format(
    key="phi4_mini",
    opens=("functools[", "<|tool_call|>["),
    description="Phi-4-mini",
    models=("phi-4-mini*", "phi4-mini"),
    rules=(
        *functools_array(),
        *empty_pair(("<|tool_call|>",), ("<|/tool_call|>",), special=True),
        *objects_after(("<|tool_call|>",)),
        *closes(("<|/tool_call|>",)),
    ),
    bare=True,
    special=("<|/tool_call|>",),
    special_openers=("<|tool_call|>",),
)

# --- ernie45 ------------------------------------------------------------------------------------------
#
#     <tool_call>
#     {"name": "f", "arguments": {"a": 1}}
#     </tool_call>
#
# As Hermes; the answer may be wrapped in `<response>`.
# Cases: tests/corpus/toolcalls/ernie45.

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
#     [{"name": "f", "arguments": {"a": 1}}]
#
# A JSON array: bare, in a code fence, between tags or after `[TOOL_CALLS]`.
# Cases: tests/corpus/toolcalls/xlam.

XLAM: Final = Format(
    key="xlam",
    opens=("[",),
    description="Salesforce xLAM 2",
    models=("xlam*",),
    rules=(
        # Before the rules for JSON.  Case: xlam/n6_2_several_python_dicts.
        *python_objects((), at=AT_START - {Where.TAIL}, declared=True),
        *tagged_objects("<tool_call>", "</tool_call>"),
        *objects_after(("[TOOL_CALLS]",)),
        *call(
            (one_of("```json", "```"), BLANKS, AHEAD, "[", BLANKS, "{"),
            body=ObjectsSpec(declared=True),
        ),
        *call((AHEAD, "[", BLANKS, "{"), body=ObjectsSpec(declared=True), at=AT_START),
        *objects_in_prose(("[", BLANKS, "{"), body=ObjectsSpec()),
        # Reasoning whose opener was in the prompt: only its closer is visible.  Case: xlam/after_a_bare_think_closer.
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
#     <longcat_tool_call>{"name": "f", "arguments": {"a": 1}}</longcat_tool_call>
#
# A JSON object between tags; `<longcat_think>` around reasoning.
# Cases: tests/corpus/toolcalls/longcat.

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
#     <|tools_prefix|>[{"f": {"a": 1}}]<|tools_suffix|>
#
# Each object has one key, the tool's name.  Reasoning may continue after calls inside it.
# Cases: tests/corpus/toolcalls/apertus.

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
    special=(
        "<|tools_suffix|>",
        "<|inner_suffix|>",
    ),
    special_openers=(
        "<|tools_prefix|>",
        "<|inner_prefix|>",
    ),
)

# --- gigachat3 ----------------------------------------------------------------------------------------
#
#     <|function_call|>{"name": "f", "arguments": {"a": 1}}
#     function call<|role_sep|>{"name": "f", "arguments": {"a": 1}}
#
# One JSON object after a marker (3.1), or after the words `function call` (3.0).
# Cases: tests/corpus/toolcalls/gigachat3.

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
        # Words between a separator and the call are dropped.  Case: gigachat3/words_after_the_separator.
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
    special=("<|message_sep|>",),
    special_openers=("<|function_call|>",),
)

# --- sarashina ----------------------------------------------------------------------------------------
#
#     <|tool_calls|>[{'name': 'f', 'arguments': {'a': True}}]
#
# A list of Python dicts after a marker, or as the whole answer.
# Cases: tests/corpus/toolcalls/sarashina.

SARASHINA: Final = Format(
    key="sarashina",
    opens=("<|tool_calls|>",),
    description="Sarashina 2.x",
    models=("sarashina*",),
    rules=(
        *python_objects(("<|tool_calls|>",)),
        *objects_after(("<|tool_calls|>",)),
        # Without the marker: only at the start of the answer, and only declared tools.
        # Case: sarashina/bare_list_of_something_else.
        *python_objects((), at=AT_START - {Where.TAIL}, declared=True),
    ),
    special_openers=("<|tool_calls|>",),
)

# --- apriel -------------------------------------------------------------------------------------------
#
#     <tool_calls>[{"name": "f", "arguments": {"a": 1}, "id": "c7"}]</tool_calls>
#
# A JSON array with ids.  Reasoning begins with a fixed sentence; `[BEGIN FINAL RESPONSE]` begins the answer.
# Cases: tests/corpus/toolcalls/apriel.

_ANSWER_END: Final[Pattern] = (
    Run(r"\n", 0, 1),
    "[END FINAL RESPONSE]",
    BLANKS,
    one_of("<|end|>", ""),
)

_APRIEL: Final = ObjectsSpec(id_keys=("id",))

APRIEL: Final = Format(
    key="apriel",
    opens=("<tool_calls>[",),
    description="Apriel 1.5, 1.6",
    models=("apriel*",),
    rules=(
        *tagged_objects("<tool_calls>", "</tool_calls>", body=_APRIEL),
        *bare_array(_APRIEL),
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
        # After a call inside the answer, the machine no longer knows that the answer was opened.
        # Case: apriel/call_inside_the_answer.
        *markers(_ANSWER_END, action=Action.DROP, at=CALLED),
    ),
    think=(("<thinking>", "</thinking>"), ("<think>", "</think>")),
    starts_thinking=True,
)
