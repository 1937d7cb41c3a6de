"""Kimi K2 and K3 (Moonshot): special tokens."""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    AHEAD_OR_END,
    ANYWHERE,
    BLANKS,
    Action,
    Format,
    JsonSpec,
    Pattern,
    Rule,
    Run,
    TagsSpec,
    Where,
    call,
    closes,
    empty_pair,
    markers,
    one_of,
    opens_section,
)

# --- kimi_k2 ------------------------------------------------------------------------------------------
#
#     <|tool_calls_section_begin|><|tool_call_begin|>functions.bash:0<|tool_call_argument_begin|>
#     {"cmd": "ls"}<|tool_call_end|><|tool_calls_section_end|>
#
# The tool's name is part of the call's id (`functions.NAME:COUNTER`).  If the id has no name, the arguments
# decide which declared tool is meant: `DeclaredTools.resolve_by_arguments`.
# Cases: tests/corpus/toolcalls/kimi_k2.

# Some hosts of K2-Thinking write the section's markers in the singular.  Case: kimi_k2/c4_singular_section.
_SECTION_BEGIN: Final = one_of("<|tool_calls_section_begin|>", "<|tool_call_section_begin|>")
_SECTION_END: Final = one_of("<|tool_calls_section_end|>", "<|tool_call_section_end|>")
_BEGIN: Final = "<|tool_call_begin|>"
_ARGUMENTS: Final = "<|tool_call_argument_begin|>"
_END: Final = "<|tool_call_end|>"

_ID: Final = Run(r"[^<{\s]", 1, 256, name="id")
_ANY_ID: Final = Run(r"[^<{\s]", 1, 256)
# The id is sometimes empty, and the marker before the arguments is sometimes missing.
# Cases: kimi_k2/c5_empty_id_only_tool, kimi_k2/arguments_marker_missing.
_HEADERS: Final = (
    (_BEGIN, BLANKS, _ID, BLANKS, _ARGUMENTS),
    (_BEGIN, BLANKS, _ARGUMENTS),
    (_BEGIN, BLANKS, _ID, BLANKS, AHEAD, "{"),
)
_AHEAD_CALL: Final[Pattern] = (
    _BEGIN,
    BLANKS,
    one_of((_ANY_ID, BLANKS, one_of(_ARGUMENTS, "{")), _ARGUMENTS),
)

KIMI_K2: Final = Format(
    key="kimi_k2",
    opens=("<|tool_calls_section_begin|>", "<|tool_call_begin|>"),
    description="Kimi K2, K2-Thinking, K2.5 to K2.7, Kimi-VL, Kimi-Dev",
    models=("kimi-k2*", "moonshotai/kimi-k2*", "kimi-k2.5", "kimi-k2-thinking"),
    rules=(
        *empty_pair((_SECTION_BEGIN,), (_SECTION_END,), special=True),
        *call(*_HEADERS, body=JsonSpec()),
        *opens_section((_SECTION_BEGIN, BLANKS, AHEAD, *_AHEAD_CALL)),
        # Text between the opener and the first call is dropped.  Case: kimi_k2/c2_noise_after_opener.
        *opens_section(
            (_SECTION_BEGIN, Run("[^<]", 1, 128, name="noise"), AHEAD, *_AHEAD_CALL),
            noisy=True,
        ),
        *closes((_END,)),
        # So is text between complete arguments and the end of the call.  Case: kimi_k2/stray_after_arguments.
        Rule(
            pattern=(Run("[^<]", 1, 64, name="noise"), _END),
            action=Action.DROP,
            at=frozenset({Where.TAIL}),
            then=Where.AFTER,
        ),
        *closes((_SECTION_END,), section=True),
        # And text between the calls of a section.  Case: kimi_k2/noise_between_calls.
        Rule(
            pattern=(
                Run("[^<]", 1, 128, name="noise"),
                AHEAD,
                one_of(_AHEAD_CALL, (_SECTION_END,)),
            ),
            action=Action.DROP,
            at=frozenset({Where.AFTER}),
            inside=True,
        ),
    ),
    # The second pair is of Kimi-VL and Kimi-Dev.  Case: kimi_k2/n0_7_think.
    think=(("<think>", "</think>"), ("◁think▷", "◁/think▷")),
    special=(
        (_SECTION_END,),
        _END,
    ),
    special_openers=(
        (_SECTION_BEGIN,),
        _BEGIN,
        _ARGUMENTS,
    ),
)

# --- kimi_k3 ------------------------------------------------------------------------------------------
#
#     <|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|>
#     <|open|>argument key="n" type="number"<|sep|>3<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>
#
# Each argument states its type.  Text and reasoning are channels too (`response`, `think`).  Names and keys
# escape quotation marks as `&quot;`.
# Cases: tests/corpus/toolcalls/kimi_k3.

_TOKEN: Final = one_of("<|open|>", "<|close|>")
_CALL: Final = ('<|open|>call tool="',)
_INDEX: Final = ('"', Run(r"[^<]", 0, 64), "<|sep|>")
_ARGUMENT: Final = (
    '<|open|>argument key="',
    Run(r"[^\"<>]", 1, 256, name="key"),
    '" type="',
    Run("[a-z]", 1, 16, name="type"),
    '"<|sep|>',
)

KIMI_K3: Final = Format(
    key="kimi_k3",
    opens=("<|open|>tools<|sep|>",),
    description="Kimi K3",
    models=("kimi-k3*", "kimi_k3*"),
    rules=(
        *call(
            (*_CALL, Run(r"[^\"<>=\s]", 1, 128, name="name"), *_INDEX),
            body=TagsSpec(
                param=(_ARGUMENT,),
                nameless=(("<|open|>argument", Run("[^<]", 0, 128, name="attributes"), "<|sep|>"),),
                value_end=(
                    (
                        "<|close|>argument<|sep|>",
                        BLANKS,
                        AHEAD_OR_END,
                        one_of("<|open|>argument", "<|open|>call", "<|close|>"),
                    ),
                ),
                value_cut=(
                    (AHEAD, *_ARGUMENT),
                    (AHEAD, "<|close|>call<|sep|>"),
                    # The closer's last token is missing.  Case: kimi_k3/n0_5_separator_missing.
                    ("<|close|>argument", AHEAD, one_of("<|open|>argument", "<|close|>call")),
                ),
                tokens=(("<|open|>",), ("<|close|>",), ("<|sep|>",)),
                next_call=((*_CALL, Run(r"[^\"<>]", 1, 128), *_INDEX, BLANKS, *_ARGUMENT),),
                call_end=(("<|close|>call<|sep|>",),),
                special=True,
                entities=True,
            ),
        ),
        *empty_pair(("<|open|>tools<|sep|>",), ("<|close|>tools<|sep|>",), special=True),
        *opens_section(("<|open|>tools<|sep|>", BLANKS, AHEAD, *_CALL)),
        *markers(("<|open|>response<|sep|>",), action=Action.START_TEXT, then=Where.MESSAGE),
        *markers(
            ("<|close|>response<|sep|>",), action=Action.SKIP, at={Where.MESSAGE}, then=Where.ANSWER
        ),
        *markers(("<|open|>message<|sep|>",), action=Action.SKIP, at={Where.START, Where.ANSWER}),
        *closes(("<|close|>tools<|sep|>",), section=True),
        *closes((one_of("<|close|>message<|sep|>", "<|end_of_msg|>"),)),
        *markers(
            (one_of("<|close|>message<|sep|>", "<|end_of_msg|>"),),
            action=Action.SKIP,
            at={Where.MESSAGE, Where.ANSWER},
        ),
        # A channel's token, truncated by the end of the text.  Case: kimi_k3/stump_of_a_channel.
        *markers(
            (_TOKEN, Run(r"[a-z<|]", 0, 16), AHEAD_OR_END, _TOKEN),
            action=Action.DROP,
            at=ANYWHERE - {Where.TAIL, Where.AFTER},
        ),
    ),
    think=(("<|open|>think<|sep|>", "<|close|>think<|sep|>"),),
    starts_thinking=True,
    special=(
        "<|close|>tools<|sep|>",
        "<|close|>call<|sep|>",
        "<|close|>argument<|sep|>",
        "<|close|>response<|sep|>",
        "<|close|>message<|sep|>",
        "<|end_of_msg|>",
    ),
    special_openers=(
        "<|open|>tools<|sep|>",
        "<|open|>response<|sep|>",
        "<|open|>message<|sep|>",
        "<|open|>",
        "<|close|>",
        "<|sep|>",
    ),
)
