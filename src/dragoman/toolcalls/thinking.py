"""Reasoning between tags within the text: a stage of its own, for answers without tools.

    ThinkTags(think_tags="auto", format=None, origin="", seal_plain=False, limits=DEFAULT_LIMITS)
    stage.feed(events) -> events; stage.pending

"auto" counts a tag only as the first thing said; "implicit_open" takes the text as reasoning up to the
closing tag.  Blanks between the closing tag and the answer are dropped.
"""

from typing import Final

from dragoman.limits import DEFAULT_LIMITS, Limits
from dragoman.toolcalls.format import Format
from dragoman.toolcalls.grammar import format_grammar
from dragoman.toolcalls.sequencer import Sequencer
from dragoman.toolcalls.stage import Splitter, ThinkTagsMode
from dragoman.toolcalls.tool_names import DeclaredTools

# What a model of no known family may write.
PLAIN: Final = Format(key="", description="reasoning tags alone", models=(), rules=())


class ThinkTags(Splitter):
    """Turn `<think>…</think>` in text into reasoning."""

    def __init__(
        self,
        *,
        think_tags: ThinkTagsMode = "auto",
        format: Format | None = None,  # noqa: A002 -- what users call it
        origin: str = "",
        seal_plain: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        super().__init__(
            Sequencer(origin=origin, seal_plain=seal_plain, limits=limits),
            DeclaredTools(()),
            text=format_grammar(format or PLAIN, calls=False, think=think_tags != "off"),
            reasoning=None,
            implicit_open=think_tags == "implicit_open",
            limits=limits,
        )
