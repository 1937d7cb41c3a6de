"""gpt-oss: harmony messages."""

from typing import Final

from dragoman.toolcalls.format import (
    Action,
    Format,
    JsonSpec,
    Pattern,
    Run,
    Where,
    call,
    closes,
    markers,
    one_of,
)

# --- gpt_oss ------------------------------------------------------------------------------------------
#
#     <|channel|>analysis<|message|>hm<|end|>
#     <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>
#
# Harmony: an answer is a sequence of messages.  A recipient in the header (`to=functions.f`) makes a message
# a call; the channel decides between reasoning (`analysis`) and text (`final`, `commentary`).
# Cases: tests/corpus/toolcalls/gpt_oss.

_WORD: Final = Run("[a-z]", 1, 32)
_REST: Final = Run("[^<]", 0, 64)
_AFTER_NAME: Final = one_of((Run(r"\s", 1, 1), _REST), "")
_TO: Final[Pattern] = (Run(" ", 1, 4), "to=", Run(r"[^<\s]", 1, 128, name="name"))
_START: Final[Pattern] = (one_of("<|start|>assistant", ""),)
_TYPE: Final[Pattern] = (one_of(("<|constrain|>", Run("[^<]", 0, 32)), ""),)
_CHANNEL: Final[Pattern] = (one_of(("<|channel|>", Run("[^<]", 0, 64)), ""),)
# A channel header that the model abandons for another one.  Case: gpt_oss/turned_to_call.
_TURNED: Final[Pattern] = (one_of(("<|channel|>", Run("[a-z]", 1, 32)), ""),)
_END: Final[Pattern] = (one_of("<|end|>", "<|call|>", "<|return|>"),)

GPT_OSS: Final = Format(
    key="gpt_oss",
    opens=("<|channel|>commentary to=functions.",),
    description="gpt-oss-20b, gpt-oss-120b",
    models=("gpt-oss*",),
    rules=(
        *call(
            (*_START, *_TURNED, "<|channel|>", _WORD, *_TO, _AFTER_NAME, *_TYPE, "<|message|>"),
            ("<|start|>assistant", *_TO, *_CHANNEL, *_TYPE, "<|message|>"),
            # A second channel follows the name directly.  Case: gpt_oss/c16_control_token_in_name.
            (*_START, "<|channel|>", _WORD, *_TO, "<|channel|>", _REST, *_TYPE, "<|message|>"),
            body=JsonSpec(),
        ),
        *markers(
            (*_START, *_TURNED, "<|channel|>analysis", _REST, "<|message|>"),
            action=Action.START_REASONING,
            then=Where.THINK,
        ),
        *markers(
            (
                *_START,
                *_TURNED,
                "<|channel|>",
                one_of("final", "commentary"),
                _REST,
                *_TYPE,
                "<|message|>",
            ),
            ("<|start|>assistant<|message|>",),
            action=Action.START_TEXT,
            then=Where.MESSAGE,
        ),
        *markers(_END, action=Action.START_TEXT, at={Where.THINK}, then=Where.ANSWER),
        *markers(_END, action=Action.SKIP, at={Where.MESSAGE}, then=Where.ANSWER),
        *closes(_END),
    ),
    think=(),
)
