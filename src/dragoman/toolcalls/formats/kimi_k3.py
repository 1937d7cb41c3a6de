"""Kimi K3 (XTML): channels and typed arguments between special tokens."""

from typing import Final

from dragoman.toolcalls.format import (
    AHEAD,
    AHEAD_OR_END,
    BLANKS,
    Do,
    Format,
    Run,
    Tags,
    Where,
    call,
    closes,
    marks,
    one_of,
    opens_section,
)

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

FORMAT: Final = Format(
    key="kimi_k3",
    opens=("<|open|>tools<|sep|>",),
    says="Kimi K3",
    models=("kimi-k3*", "kimi_k3*"),
    rules=(
        *call(
            (*_CALL, Run(r"[^\"<>]", 1, 128, name="name"), *_INDEX),
            body=Tags(
                param=(_ARGUMENT,),
                value_end=(
                    (
                        "<|close|>argument<|sep|>",
                        BLANKS,
                        AHEAD_OR_END,
                        one_of("<|open|>argument", "<|open|>call", "<|close|>"),
                    ),
                ),
                value_cut=((AHEAD, *_ARGUMENT), (AHEAD, "<|close|>call<|sep|>")),
                call_end=(("<|close|>call<|sep|>",),),
                entities=True,
            ),
        ),
        *opens_section(("<|open|>tools<|sep|>", BLANKS, AHEAD, *_CALL)),
        *marks(("<|open|>response<|sep|>",), do=Do.SAY, then=Where.MESSAGE),
        *marks(("<|close|>response<|sep|>",), do=Do.SKIP, at={Where.MESSAGE}, then=Where.ANSWER),
        *marks(("<|open|>message<|sep|>",), do=Do.SKIP, at={Where.START, Where.ANSWER}),
        *closes(("<|close|>tools<|sep|>",), section=True),
        *closes((one_of("<|close|>message<|sep|>", "<|end_of_msg|>"),)),
        *marks(
            (one_of("<|close|>message<|sep|>", "<|end_of_msg|>"),),
            do=Do.SKIP,
            at={Where.MESSAGE, Where.ANSWER},
        ),
        # A channel's token that was cut off at the end.
        *marks(
            (_TOKEN, Run(r"[a-z<|]", 0, 16), AHEAD_OR_END, _TOKEN),
            do=Do.NOISE,
            at={Where.START, Where.THINK, Where.ANSWER, Where.MESSAGE},
        ),
    ),
    think=(("<|open|>think<|sep|>", "<|close|>think<|sep|>"),),
    starts_thinking=True,
)
