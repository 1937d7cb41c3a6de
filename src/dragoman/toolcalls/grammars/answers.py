"""Answers that stand between tags of their own: `<answer>` and `</answer>`."""

from dragoman.toolcalls.format import Do, Rule, Run, Where, marks


def answer_tags(tag: str) -> tuple[Rule, ...]:
    """Return the rules of the tags around an answer; the line feeds inside of them are theirs."""
    opener, closer = f"<{tag}>", (Run(r"\n", 0, 1), f"</{tag}>")
    return (
        *marks(
            (f"{opener}\n",),
            (opener,),
            do=Do.SAY,
            at={Where.START, Where.ANSWER, Where.AFTER},
            then=Where.MESSAGE,
        ),
        *marks(closer, do=Do.SKIP, at={Where.MESSAGE}, then=Where.ANSWER),
        # A call inside the answer hides that the tag was opened.
        *marks(closer, do=Do.NOISE, at={Where.TAIL, Where.AFTER, Where.LATER}),
    )
