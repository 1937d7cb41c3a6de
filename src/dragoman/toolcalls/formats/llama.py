"""Llama 3 and models trained from it: Functionary, FireFunction, Nemotron."""

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
    functools_array,
    further_objects,
    objects_after,
    tagged_objects,
)

# --- llama3_json --------------------------------------------------------------------------------------
#
# Llama 3: an object as the whole answer, or after a special token.

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
        # Without the token only the answer's very beginning counts, and only declared tools.
        *call((AHEAD, "{"), body=_BARE, at=AT_START - {Where.TAIL}),
        *further_objects(body=_BARE, separator=";,"),
        *objects_after((";", BLANKS, "<|python_tag|>"), body=_OBJECTS, at=_IN_TAIL),
        # Custom tools of Llama 3.1.
        *call(
            ("<function=", Run(r"[^<>\s]", 1, 128, name="name"), ">", BLANKS, AHEAD, "{"),
            body=JsonSpec(),
        ),
        *closes(("</function>",), stray=False),
        *closes((one_of("<|eom_id|>", "<|eot_id|>"),)),
    ),
    bare=True,
)

# --- functionary --------------------------------------------------------------------------------------
#
# Functionary: JSON after a name in a tag, or after `>>>` and a name.

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
        # The first `>>>` stands in the prompt.
        *markers(("all\n",), action=Action.START_TEXT, at={Where.START}, then=Where.MESSAGE),
        *call((_NAME, "\n", BLANKS, AHEAD, "{"), body=JsonSpec(), at={Where.START}, declared=True),
    ),
    think=(),
    bare=True,
)

# --- firefunction -------------------------------------------------------------------------------------
#
# FireFunction v2: an array of objects after a plain word.

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
# Llama-Nemotron and Nemotron Nano v2: an array of objects between tags.

NEMOTRON_DECI: Final = Format(
    key="nemotron_deci",
    opens=("<TOOLCALL>[",),
    description="Llama-Nemotron Super and Ultra, Nemotron Nano v2",
    models=("*nemotron-super*v1*", "nemotron-nano-9b-v2", "nemotron-nano-12b-v2"),
    rules=tagged_objects("<TOOLCALL>", "</TOOLCALL>"),
)
