"""Mistral and its relatives: `[TOOL_CALLS]`."""

from typing import Final

from msgspec.structs import replace

from dragoman.toolcalls.format import (
    AHEAD,
    AHEAD_OR_END,
    AT_START,
    BLANKS,
    Action,
    Format,
    JsonSpec,
    ObjectsSpec,
    Pattern,
    Rule,
    Run,
    Where,
    call,
    closes,
    empty_pair,
    one_of,
    opens_section,
)
from dragoman.toolcalls.formats.json_rules import further_objects, objects_after

# --- mistral ------------------------------------------------------------------------------------------
#
#     [TOOL_CALLS] [{"name": "f", "arguments": {"a": 1}}]
#     [TOOL_CALLS]f[ARGS]{"a": 1}
#
# Older models write an array after one marker, newer ones a name and its arguments after each marker.
# Ids may follow the name (`[CALL_ID]`) or be a key of the object.
# Cases: tests/corpus/toolcalls/mistral.

_MARKER: Final = "[TOOL_CALLS]"
_CLOSER: Final = "[/TOOL_CALLS]"
_NAME: Final = Run(r"[^\[\]{}<>\s\"']", 1, 128, name="name")
_ID: Final = Run("[A-Za-z0-9]", 1, 64, name="id")
_NAME_FIRST: Final[tuple[Pattern, ...]] = (
    (_NAME, BLANKS, _MARKER, BLANKS, AHEAD, "{"),
    (_NAME, BLANKS, _MARKER, BLANKS, "[ARGS]"),
)
_OBJECTS: Final = ObjectsSpec(id_keys=("id",))

MISTRAL: Final = Format(
    key="mistral",
    opens=("[TOOL_CALLS]",),
    description="Mistral, Mixtral, Nemo, Codestral, Devstral, Magistral, Ministral, Pixtral",
    models=(
        "mistral*",
        "mixtral*",
        "ministral*",
        "codestral*",
        "devstral*",
        "magistral*",
        "pixtral*",
    ),
    rules=(
        *empty_pair((_MARKER,), (one_of(_CLOSER, "</s>"),), special=True),
        *objects_after((_MARKER,), body=_OBJECTS),
        # Noise between the marker and the array.  Case: mistral/junk_before_the_array.
        *opens_section(
            (_MARKER, Run(r"[^\[\]{}<]", 1, 64, name="noise"), AHEAD, "[", BLANKS, "{"), noisy=True
        ),
        Rule(
            pattern=(AHEAD, "[", BLANKS, "{"),
            action=Action.CALL,
            at=frozenset({Where.AFTER}),
            inside=True,
            body=_OBJECTS,
        ),
        # A second array after one marker.  Case: mistral/two_arrays_one_marker.
        *call(
            (Run(r"[,\s]", 0, 16), AHEAD, "[", BLANKS, "{"),
            body=replace(_OBJECTS, declared=True),
            at={Where.TAIL},
        ),
        *call(
            (_MARKER, BLANKS, _NAME, BLANKS, "[CALL_ID]", _ID, "[ARGS]"),
            (_MARKER, BLANKS, _NAME, BLANKS, "[CALL_ID]", _ID, AHEAD, "{"),
            (_MARKER, BLANKS, _NAME, BLANKS, "[ARGS]"),
            (_MARKER, BLANKS, _NAME, BLANKS, AHEAD, "{"),
            body=JsonSpec(),
        ),
        # Only a name, before the next call or the end.  Case: mistral/name_alone_before_the_next.
        *call(
            (_MARKER, BLANKS, _NAME, BLANKS, AHEAD_OR_END, one_of(_MARKER, _CLOSER)),
            body=JsonSpec(),
            empty=True,
            declared=True,
        ),
        # The name before the marker.  Only at the start of an answer can a word wait for the marker.
        # Case: mistral/name_before_the_marker.
        *call(*_NAME_FIRST, body=JsonSpec(), at=AT_START - {Where.TAIL}, declared=True),
        # A separate rule, so that `FormatGrammar.ends` leaves it out: a word must not end arguments that are not
        # JSON.  Case: mistral/second_name_before_the_marker.
        *call(*_NAME_FIRST, body=JsonSpec(), at={Where.TAIL}, declared=True),
        *further_objects(body=_OBJECTS),
        *closes((_CLOSER,)),
        *closes(("</s>",)),
    ),
    think=(("[THINK]", "[/THINK]"), ("<think>", "</think>")),
    special=(_CLOSER,),
    special_openers=(_MARKER,),
)
