"""The little that the simulator remembers: how often a request came, and answers it made before."""

from collections import OrderedDict
from typing import Final

from dragoman.simulator.answer import Answer

_MOST_REQUESTS: Final = 4_096
_MOST_ANSWERS: Final = 64
_MOST_BYTES: Final = 512 * 1024  # of one answer that is kept


class Memory:
    """Counts and answers by the seed of a request: both are only for speed and for `fail:N`."""

    def __init__(self) -> None:
        self._attempts: OrderedDict[str, int] = OrderedDict()
        self._answers: OrderedDict[str, Answer] = OrderedDict()

    def count(self, seed: str) -> int:
        """Count a request among those of the same bytes, from 1."""
        attempt = self._attempts.pop(seed, 0) + 1
        self._attempts[seed] = attempt
        if len(self._attempts) > _MOST_REQUESTS:
            self._attempts.popitem(last=False)
        return attempt

    def answer(self, seed: str) -> Answer | None:
        """Return the answer that the same request got before."""
        found = self._answers.get(seed)
        if found is not None:
            self._answers.move_to_end(seed)
        return found

    def keep(self, seed: str, answer: Answer) -> None:
        """Remember an answer, if it is small."""
        if sum(map(len, answer.writes)) <= _MOST_BYTES:
            self._answers[seed] = answer
            if len(self._answers) > _MOST_ANSWERS:
                self._answers.popitem(last=False)

    def clear(self) -> None:
        self._attempts.clear()
        self._answers.clear()
