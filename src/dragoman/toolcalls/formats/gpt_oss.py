"""gpt-oss: harmony messages."""

from typing import Final

from dragoman.toolcalls.format import (
    FIRST,
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
_RECIPIENT: Final[Pattern] = ("to=", Run(r"[^<\s]", 1, 128, name="name"))
# `to=` is sometimes missing; the namespace shows that a tool follows.  Case: gpt_oss/to_missing.
_TO: Final[Pattern] = (
    Run(" ", 1, 4),
    one_of(_RECIPIENT, ("functions.", Run(r"[^<\s]", 1, 128, name="name"))),
)
# The role is sometimes missing.  Case: gpt_oss/n1_3_role_missing.
_ROLE: Final[Pattern] = (one_of("<|start|>assistant", "<|start|>"),)
_START: Final[Pattern] = (one_of("<|start|>assistant", "<|start|>", ""),)
_TYPE: Final[Pattern] = (one_of(("<|constrain|>", Run("[^<]", 0, 32)), ""),)
_CHANNEL: Final[Pattern] = (one_of(("<|channel|>", Run("[^<]", 0, 64)), ""),)
# A channel header that the model abandons for another one.  Case: gpt_oss/turned_to_call.
_TURNED: Final[Pattern] = (one_of(("<|channel|>", Run("[a-z]", 1, 32)), ""),)
_END: Final[Pattern] = (one_of("<|end|>", "<|call|>", "<|return|>"),)

# Headers with a recipient that is not a tool, up to the last channel.
_TO_WHOM: Final[Pattern] = ("to=", one_of("assistant", "user", "system"), Run(" ", 0, 4))
_PERSON: Final[Pattern] = (Run(" ", 1, 4), *_TO_WHOM)
_TO_PERSON: Final[tuple[Pattern, ...]] = (
    (*_START, "<|channel|>", _WORD, *_PERSON),
    (*_ROLE, *_PERSON),
)


def _to_person(channel: str) -> tuple[Pattern, ...]:
    """Return the headers of a message to a person whose last channel is `channel`."""
    named: Pattern = ("<|channel|>", channel, _REST, *_TYPE, "<|message|>")
    return (
        *((*header, *named) for header in _TO_PERSON),
        (*_START, "<|channel|>", channel, *_PERSON, *_TYPE, "<|message|>"),
    )


GPT_OSS: Final = Format(
    key="gpt_oss",
    opens=("<|channel|>commentary to=functions.",),
    description="gpt-oss-20b, gpt-oss-120b",
    models=("gpt-oss*",),
    rules=(
        # Recipients that are not tools: the last channel of the header counts.  Case: gpt_oss/n1_2_to_assistant.
        *markers(*_to_person("analysis"), action=Action.START_REASONING, then=Where.THINK),
        *markers(
            *_to_person("final"),
            *_to_person("commentary"),
            *((*header, *_TYPE, "<|message|>") for header in _TO_PERSON),
            action=Action.START_TEXT,
            then=Where.MESSAGE,
        ),
        *markers(
            (Run(" ", 0, 4), *_TO_WHOM, "<|channel|>analysis", _REST, *_TYPE, "<|message|>"),
            action=Action.START_REASONING,
            at=FIRST,
            then=Where.THINK,
        ),
        *markers(
            (Run(" ", 0, 4), *_TO_WHOM, *_CHANNEL, *_TYPE, "<|message|>"),
            action=Action.START_TEXT,
            at=FIRST,
            then=Where.MESSAGE,
        ),
        # The prompt ends with `<|start|>assistant`: the answer begins with the recipient.
        # Case: gpt_oss/n1_1_recipient_first.
        *call(
            (Run(" ", 0, 4), *_RECIPIENT, *_CHANNEL, *_TYPE, "<|message|>"),
            body=JsonSpec(),
            at=FIRST,
        ),
        *call(
            (*_START, *_TURNED, "<|channel|>", _WORD, *_TO, _AFTER_NAME, *_TYPE, "<|message|>"),
            (*_ROLE, *_TO, *_CHANNEL, *_TYPE, "<|message|>"),
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
            (*_ROLE, "<|message|>"),
            action=Action.START_TEXT,
            then=Where.MESSAGE,
        ),
        *markers(_END, action=Action.START_TEXT, at={Where.THINK}, then=Where.ANSWER),
        *markers(_END, action=Action.SKIP, at={Where.MESSAGE}, then=Where.ANSWER),
        *closes(_END),
    ),
    think=(),
    joint="\n",  # case: gpt_oss/n1_3_two_texts
    special=(
        "<|end|>",
        "<|call|>",
        "<|return|>",
    ),
    special_openers=(
        "<|start|>assistant",
        "<|start|>",
        "<|channel|>",
        "<|message|>",
        "<|constrain|>",
    ),
)
