"""Families whose answers are messages with headers: Inkling, Muse Glimmer, Solar Open.  See also `gpt_oss.py`."""

from typing import Final

from msgspec.structs import replace

from dragoman.toolcalls.format import (
    AHEAD,
    BLANKS,
    FIRST,
    Action,
    Format,
    JsonSpec,
    ObjectsSpec,
    Pattern,
    Run,
    Where,
    call,
    closes,
    empty_pair,
    markers,
    one_of,
    opens_section,
)
from dragoman.toolcalls.formats.invokes import invokes
from dragoman.toolcalls.formats.json_rules import objects_after

# --- inkling ------------------------------------------------------------------------------------------
#
#     <|message_model|><|content_invoke_tool_json|>{"name": "f", "args": {"a": 1}}<|end_message|>
#
# A special token names the kind of each message: thinking, text or a call.
# Cases: tests/corpus/toolcalls/inkling.

_MODEL: Final[Pattern] = (one_of(("<|message_model|>", Run("[^<]", 0, 64)), ""),)
# The prompt ends with `<|message_model|>`: the answer begins with the recipient.  Case: inkling/n7_1_recipient_first.
_NAME: Final = Run(r"[\w.\-]", 1, 64)
_RECIPIENT: Final = Run(r"[\w.\-]", 1, 64, name="recipient")
_CALL: Final = "<|content_invoke_tool_json|>"
_THINKING: Final = "<|content_thinking|>"
# Neither text for tools nor errors are calls.  Case: inkling/n7_2_tool_text.
_TEXT: Final = one_of("<|content_text|>", "<|content_invoke_tool_text|>", "<|content_tool_error|>")
_INKLING_OBJECTS: Final = ObjectsSpec(argument_keys=("args", "arguments"))
_END: Final[Pattern] = (one_of("<|end_message|>", "<|content_model_end_sampling|>"),)

INKLING: Final = Format(
    key="inkling",
    opens=("<|content_invoke_tool_json|>",),
    description="Inkling",
    models=("inkling*",),
    rules=(
        *empty_pair((*_MODEL, _CALL), _END, special=True),
        *objects_after((*_MODEL, _CALL), body=_INKLING_OBJECTS),
        *objects_after((_RECIPIENT, _CALL), body=_INKLING_OBJECTS, at=FIRST),
        *markers((*_MODEL, _THINKING), action=Action.START_REASONING, then=Where.THINK),
        *markers((_NAME, _THINKING), action=Action.START_REASONING, at=FIRST, then=Where.THINK),
        *markers((*_MODEL, _TEXT), action=Action.START_TEXT, then=Where.MESSAGE),
        *markers((_NAME, _TEXT), action=Action.START_TEXT, at=FIRST, then=Where.MESSAGE),
        *markers(_END, action=Action.START_TEXT, at={Where.THINK}, then=Where.ANSWER),
        *markers(_END, action=Action.SKIP, at={Where.MESSAGE, Where.ANSWER}, then=Where.ANSWER),
        *closes(_END),
    ),
    think=(),
    special=(_END,),
    special_openers=(
        "<|message_model|>",
        _CALL,
        _THINKING,
        (_TEXT,),
    ),
)

# --- muse_glimmer -------------------------------------------------------------------------------------
#
#      to=f<|message|><atem:function_calls><atem:invoke name="f">
#     <atem:parameter name="a">x</atem:parameter></atem:invoke></atem:function_calls><|eom|>
#
# Messages have recipients: `self` (reasoning), `user`, or a tool.  Invokes count only in messages to tools.
# Cases: tests/corpus/toolcalls/muse_glimmer.

_START: Final[Pattern] = (one_of(("<|start|>assistant", Run(" ", 0, 2)), ""),)
_MUSE_GLIMMER_END: Final[Pattern] = (one_of("<|eom|>", "<|eot|>"),)
# A header counts although the answer begins inside reasoning.  Case: muse_glimmer/n8_header_in_reasoning.
_BETWEEN: Final = FIRST | {Where.ANSWER, Where.AFTER}
_IN_CALLS: Final = frozenset({Where.TAIL, Where.AFTER})

MUSE_GLIMMER: Final = Format(
    key="muse_glimmer",
    opens=('to=TOOL<|message|><atem:invoke name="',),
    description="Muse Glimmer",
    models=("muse*glimmer*",),
    rules=(
        *markers(
            (*_START, "to=self<|message|>"),
            action=Action.START_REASONING,
            at=_BETWEEN,
            then=Where.THINK,
        ),
        *markers(
            (*_START, one_of("to=user<|message|>", "<|message|>")),
            action=Action.START_TEXT,
            at=_BETWEEN,
            then=Where.MESSAGE,
        ),
        *(
            rule
            if rule.section or rule.action is Action.DROP
            else replace(rule, at=rule.at & _IN_CALLS)
            for rule in invokes(
                ("atem:",),
                section=(
                    (
                        *_START,
                        "to=",
                        Run(r"[^<\s]", 1, 128),
                        "<|message|>",
                        BLANKS,
                        "<atem:function_calls>",
                    ),
                    ("</atem:function_calls>",),
                ),
            )
        ),
        *markers(_MUSE_GLIMMER_END, action=Action.START_TEXT, at={Where.THINK}, then=Where.ANSWER),
        *markers(_MUSE_GLIMMER_END, action=Action.SKIP, at={Where.MESSAGE}, then=Where.ANSWER),
        *closes(_MUSE_GLIMMER_END),
    ),
    think=(),
    special=(
        "<|eom|>",
        "<|eot|>",
    ),
    special_openers=("<|start|>assistant", "<|start|>"),
)

# --- solar_open ---------------------------------------------------------------------------------------
#
#     <|tool_call:begin|>c1<|tool_call:name|>f<|tool_call:args|>{"a": 1}<|tool_call:end|>
#
# Id, name and arguments between special tokens; other tokens begin reasoning and text.
# Cases: tests/corpus/toolcalls/solar_open.

_BEGIN: Final[Pattern] = (one_of("<|begin|>assistant", ""),)
_SOLAR_OPEN_END: Final[Pattern] = (one_of("<|end|>", "<|flush|>"),)
_SOLAR_OPEN_BETWEEN: Final = frozenset({Where.START, Where.ANSWER, Where.AFTER})

SOLAR_OPEN: Final = Format(
    key="solar_open",
    opens=("<|tool_call:begin|>",),
    description="Solar Open",
    models=("solar-open*",),
    rules=(
        *call(
            (
                "<|tool_call:begin|>",
                BLANKS,
                one_of((Run(r"[^<\s]", 1, 128, name="id"), BLANKS), ""),
                "<|tool_call:name|>",
                BLANKS,
                Run(r"[^<\s]", 1, 128, name="name"),
                BLANKS,
                "<|tool_call:args|>",
            ),
            body=JsonSpec(),
        ),
        *empty_pair((*_BEGIN, "<|tool_calls|>"), (one_of("<|calls|>", "<|end|>"),), special=True),
        *opens_section((*_BEGIN, "<|tool_calls|>", BLANKS, AHEAD, "<|tool_call:begin|>")),
        *closes(("<|tool_call:end|>",)),
        *closes(("<|calls|>",), _SOLAR_OPEN_END, section=True),
        *markers(
            (*_BEGIN, "<|think|>"),
            action=Action.START_REASONING,
            at=_SOLAR_OPEN_BETWEEN,
            then=Where.THINK,
        ),
        *markers(
            (*_BEGIN, "<|content|>"),
            action=Action.START_TEXT,
            at=_SOLAR_OPEN_BETWEEN,
            then=Where.MESSAGE,
        ),
        *markers(_SOLAR_OPEN_END, action=Action.START_TEXT, at={Where.THINK}, then=Where.ANSWER),
        *markers(_SOLAR_OPEN_END, action=Action.SKIP, at={Where.MESSAGE}, then=Where.ANSWER),
    ),
    think=(),
    starts_thinking=True,
    special=(
        "<|tool_call:end|>",
        "<|calls|>",
        "<|end|>",
        "<|flush|>",
    ),
    special_openers=(
        "<|tool_calls|>",
        "<|tool_call:begin|>",
        "<|tool_call:name|>",
        "<|tool_call:args|>",
        "<|begin|>assistant",
        "<|think|>",
        "<|content|>",
    ),
)
