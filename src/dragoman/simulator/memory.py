"""The little that the simulator remembers: how often a request came, and answers it made before."""

from collections import OrderedDict
from typing import Final

from dragoman.simulator.answer import Answer

_MOST_REQUESTS: Final = 4_096
_MOST_BYTES: Final = 64 * 1024 * 1024  # of all answers that are kept
_PER_WRITE: Final = 64  # bytes that each piece costs beside its own


class Memory:
    """Counts and answers by the seed of a request: both are only for speed and for `fail:N`."""

    def __init__(self) -> None:
        self._attempts: OrderedDict[str, int] = OrderedDict()
        self._answers: OrderedDict[str, Answer] = OrderedDict()
        self._held = 0  # bytes of the answers kept

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
        """Remember an answer; the ones that were not used for longest make room."""
        self._answers[seed] = answer
        self._held += _cost(answer)
        while self._held > _MOST_BYTES:
            _, oldest = self._answers.popitem(last=False)
            self._held -= _cost(oldest)

    def clear(self) -> None:
        self._attempts.clear()
        self._answers.clear()
        self._held = 0


def _cost(answer: Answer) -> int:
    """Return about how much memory an answer takes."""
    return answer.size + _PER_WRITE * len(answer.writes)
