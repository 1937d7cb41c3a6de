"""FunctionGemma and Gemma 4: `call:NAME{key:value}`."""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    ANYWHERE,
    BLANKS,
    FEW_BLANKS,
    FIRST,
    Action,
    Format,
    LiteralsSpec,
    Pattern,
    Rule,
    Run,
    Where,
    call,
    closes,
    empty_pair,
    markers,
    one_of,
)


def _next_call(closer: str, opener: str) -> tuple[Pattern, ...]:
    """Return the end of a call before the header of another one."""
    header: Pattern = (FEW_BLANKS, opener, Run(r"[^<>{}\s]", 1, 128, name="next"), FEW_BLANKS, "{")
    return (("}", FEW_BLANKS, closer, *header), (closer, *header))


# --- functiongemma ------------------------------------------------------------------------------------
#
#     <start_function_call>call:f{city:<escape>Oslo<escape>}<end_function_call>
#
# Bare keys; values between `<escape>` are typed by the schema.
# Cases: tests/corpus/toolcalls/functiongemma.

FUNCTIONGEMMA: Final = Format(
    key="functiongemma",
    opens=("<start_function_call>call:",),
    description="FunctionGemma",
    models=("functiongemma*",),
    rules=(
        *empty_pair(("<start_function_call>",), ("<end_function_call>",), special=True),
        *call(
            (
                "<start_function_call>",
                BLANKS,
                "call:",
                Run(r"[^<>{}:\s]", 1, 128, name="name"),
                BLANKS,
                "{",
            ),
            body=LiteralsSpec(
                style="gemma",
                closer="}",
                quote="<escape>",
                typed=True,
                next_call=_next_call("<end_function_call>", "<start_function_call>call:"),
            ),
        ),
        # The second marker asks for the tool's result; a model that stops there has finished its call.
        *closes(("<end_function_call>",), ("<start_function_response>",)),
    ),
    think=(),
    special=(
        "<end_function_call>",
        "<start_function_response>",
    ),
    special_openers=("<start_function_call>",),
)

# --- gemma4 -------------------------------------------------------------------------------------------
#
#     <|tool_call>call:f{city:<|"|>Oslo<|"|>,n:3}<tool_call|>
#
# Bare keys; `<|"|>` is the quotation mark of strings.  Reasoning is the channel `thought`.
# Cases: tests/corpus/toolcalls/gemma4.

# The channel's opener without its line feed.  Case: gemma4/n4_1_empty_channel_without_line_feed.
_UNLINED: Final[Pattern] = (
    "<|channel>thought",
    AHEAD,
    one_of("<channel|>", "<|channel>", "<|tool_call>"),
)

GEMMA4: Final = Format(
    key="gemma4",
    opens=("<|tool_call>call:",),
    description="Gemma 4",
    models=("gemma-4*", "gemma4*"),
    rules=(
        *empty_pair(("<|tool_call>",), ("<tool_call|>",), special=True),
        *call(
            # Without a colon, which follows a key.  Case: gemma4/brace_missing_after_the_name.
            ("<|tool_call>call:", Run(r"[^<>{}:\s]", 1, 128, name="name"), BLANKS, "{"),
            body=LiteralsSpec(
                style="gemma",
                closer="}",
                quote='<|"|>',
                next_call=_next_call("<tool_call|>", "<|tool_call>call:"),
            ),
        ),
        # The second marker asks for the tool's result; a model that stops there has finished its call.
        *closes(("<tool_call|>",), ("<|tool_response>",)),
        # The closer of other families.  Case: gemma4/n4_4_other_closer.
        *closes(("</tool_call>",), stray=False),
        # Some hosts strip the opener of the reasoning channel.  Case: gemma4/channel_opener_stripped.
        # In an answer that begins inside reasoning, it is the channel's name.  Case: gemma4/n4_2_channel_name.
        *markers(("thought\n",), action=Action.START_REASONING, at=FIRST, then=Where.THINK),
        # The channel after text or calls.  Case: gemma4/n4_1_channel_after_text.
        *(
            Rule(
                pattern=pattern,
                action=Action.START_REASONING,
                at=ANYWHERE - {Where.THINK, Where.OPENED},
                then=Where.THINK,
                unquoted=True,
            )
            for pattern in (("<|channel>thought\n",), _UNLINED)
        ),
        # A doubled opener.
        *markers(_UNLINED, action=Action.DROP, at={Where.THINK}),
    ),
    think=(("<|channel>thought\n", "<channel|>"),),
    special=(
        "<tool_call|>",
        "<channel|>",
        "<|tool_response>",
    ),
    special_openers=(
        "<|tool_call>",
        "<|channel>thought",
        "<|channel>",
    ),
)
