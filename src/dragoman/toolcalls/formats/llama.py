"""Llama 3 and models trained from it: Functionary, FireFunction, Llama-Nemotron."""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    AT_START,
    BLANKS,
    Action,
    Format,
    JsonSpec,
    ObjectsSpec,
    Run,
    Where,
    call,
    closes,
    markers,
    one_of,
)
from dragoman.toolcalls.formats.json_rules import (
    bare_array,
    functools_array,
    further_objects,
    objects_after,
    objects_in_prose,
    python_objects,
    tagged_objects,
)

# --- llama3_json --------------------------------------------------------------------------------------
#
#     {"name": "f", "parameters": {"a": 1}}
#     <|python_tag|>{"name": "f", "parameters": {"a": 1}}
#
# Without the special token, an object is a call only if it names a declared tool.
# Cases: tests/corpus/toolcalls/llama3_json.

_OBJECTS: Final = ObjectsSpec(argument_keys=("parameters", "arguments"))
_IN_TAIL: Final = frozenset({Where.TAIL})
_BARE: Final = ObjectsSpec(argument_keys=("parameters", "arguments"), declared=True)

LLAMA3_JSON: Final = Format(
    key="llama3_json",
    opens=("<|python_tag|>", "{"),
    description="Llama 3.1, 3.2, 3.3",
    models=("llama-3.1*", "llama-3.2*", "llama-3.3*", "llama3.*"),
    rules=(
        *objects_after(("<|python_tag|>",), body=_OBJECTS),
        # A Python dict as the whole answer.  Case: llama3_json/n6_2_python_dict.
        *python_objects((), at=AT_START - {Where.TAIL}, declared=True),
        # Without the token: only declared tools.  Case: llama3_json/undeclared_is_text.
        *call((AHEAD, "{"), (AHEAD, "[", BLANKS, "{"), body=_BARE, at=AT_START - {Where.TAIL}),
        *objects_in_prose(("{",), ("[", BLANKS, "{"), body=_BARE),
        *further_objects(body=_BARE, separator=";,"),
        *objects_after((";", BLANKS, "<|python_tag|>"), body=_OBJECTS, at=_IN_TAIL),
        # Custom tools of Llama 3.1.  Case: llama3_json/custom_tool_in_text.
        *call(
            ("<function=", Run(r"[^<>\s]", 1, 128, name="name"), ">", BLANKS, AHEAD, "{"),
            body=JsonSpec(),
        ),
        *closes(("</function>",), stray=False),
        *closes((one_of("<|eom_id|>", "<|eot_id|>"),)),
    ),
    bare=True,
    special=(
        "<|eom_id|>",
        "<|eot_id|>",
    ),
    special_openers=("<|python_tag|>",),
)

# --- functionary --------------------------------------------------------------------------------------
#
#     <function=f>{"a": 1}</function>
#     >>>f\n{"a": 1}
#
# v3.1 uses tags, v3.2 a line with the recipient; `>>>all` begins text for the user.
# Cases: tests/corpus/toolcalls/functionary.

_NAME: Final = Run(r"[A-Za-z0-9_.\-]", 1, 128, name="name")

FUNCTIONARY: Final = Format(
    key="functionary",
    opens=("<function=", ">>>NAME"),
    description="Functionary v3.1, v3.2",
    models=("functionary*",),
    rules=(
        *call(("<function=", _NAME, ">", BLANKS, AHEAD, "{"), body=JsonSpec()),
        *closes(("</function>",), stray=False),
        *closes(("<|eom_id|>",), ("<|eot_id|>",)),
        *markers((">>>all\n",), action=Action.START_TEXT, then=Where.MESSAGE),
        *call((">>>", _NAME, "\n", BLANKS, AHEAD, "{"), body=JsonSpec()),
        # The first `>>>` is part of the prompt.  Case: functionary/first_marker_in_the_stream.
        *markers(("all\n",), action=Action.START_TEXT, at={Where.START}, then=Where.MESSAGE),
        *call((_NAME, "\n", BLANKS, AHEAD, "{"), body=JsonSpec(), at={Where.START}, declared=True),
    ),
    think=(),
    bare=True,
    special=(
        "<|eom_id|>",
        "<|eot_id|>",
    ),
)

# --- firefunction -------------------------------------------------------------------------------------
#
#      functools[{"name": "f", "arguments": {"a": 1}}]
#
# A JSON array after a plain word.
# Cases: tests/corpus/toolcalls/firefunction.

FIREFUNCTION: Final = Format(
    key="firefunction",
    opens=("functools[",),
    description="FireFunction v2",
    models=("firefunction*",),
    rules=functools_array(),
    bare=True,
)

# --- nemotron_deci ------------------------------------------------------------------------------------
#
#     <TOOLCALL>[{"name": "f", "arguments": {"a": 1}}]</TOOLCALL>
#
# A JSON array between tags.
# Cases: tests/corpus/toolcalls/nemotron_deci.

NEMOTRON_DECI: Final = Format(
    key="nemotron_deci",
    opens=("<TOOLCALL>[",),
    description="Llama-Nemotron Super and Ultra, Nemotron Nano v2",
    models=("*nemotron-super*v1*", "nemotron-nano-9b-v2", "nemotron-nano-12b-v2"),
    rules=(
        *tagged_objects("<TOOLCALL>", "</TOOLCALL>"),
        *bare_array(),
    ),
)
