"""The strict rules of toy streams, for the checker."""

from dragoman.checker.findings import FRAMING_RULES, Ending, Findings, Json
from dragoman.limits import Limits

RULES = {**FRAMING_RULES, "one-word": "each event has exactly one known field"}
_WORDS = frozenset({"say", "do", "over", "broke"})


class ToyGrammar:
    def __init__(self, findings: Findings, limits: Limits, /) -> None:
        self._findings = findings
        self._ending = Ending.TRUNCATED
        self.blocks = 0
        self.calls = 0

    def read(self, name: str, event: Json, /) -> None:
        if len(event) != 1 or not event.keys() <= _WORDS:
            self._findings.add("one-word", f"the event has the fields {', '.join(event)}")
        if self._ending is not Ending.TRUNCATED:
            self._findings.add("nothing-after-end", "an event follows the end")
        self.calls += "do" in event
        if "over" in event:
            self._ending = Ending.FINISH
        if "broke" in event:
            self._ending = Ending.FAILURE

    def read_done(self) -> None:
        self._findings.add("one-word", "`[DONE]` is not an event of this dialect")

    def end(self) -> Ending:
        if self._ending is Ending.TRUNCATED:
            self._findings.add("truncated", "the stream just stops")
        return self._ending


GRAMMAR = ToyGrammar
