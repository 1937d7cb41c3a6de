"""The order in which the targets of a route are asked, without regard to cool-downs.

| `choose` | The target that is asked first |
|---|---|
| `in_order` | the first of the list; such a route has no `TargetOrder` |
| `weighted` | each in turn, as often as its weight says |
| `least_busy` | the one with the fewest requests of this process for its weight; among equals as `weighted` |
| `sticky` | the same one for all requests of a conversation, so that its prompt cache stays warm |

A sticky order is a ranking of the targets by a hash of each target's name and the beginning of the conversation
(rendezvous hashing).  It needs no state: all workers and machines with the same targets choose the same one, and a
conversation whose target rests or is full goes to the next of its ranking, and returns later.
"""

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import Final, Literal, Protocol, TypeAlias, TypeVar

from dragoman.turn.request import USER, Request, TextPart

Choose: TypeAlias = Literal["weighted", "least_busy", "sticky"]

_MAX_CHARS: Final = 16_384  # of the system text, and of the user's: the rest changes no choice


class Target(Protocol):
    @property
    def upstream_name(self) -> str: ...
    @property
    def model(self) -> str: ...


T = TypeVar("T", bound=Target)


class TargetOrder:
    """The order of one route's targets; it remembers whose turn it is."""

    __slots__ = ("_choose", "_credits", "_total", "_weights")

    def __init__(self, choose: Choose, weights: Sequence[int]) -> None:
        """`weights` has one number for each target; a target of weight 0 is only a fallback."""
        self._choose = choose
        self._weights = tuple(weights)
        self._total = sum(weights)
        self._credits = [0] * len(self._weights)

    def arrange(
        self, targets: Sequence[T], request: Request, running: Callable[[str], int]
    ) -> tuple[T, ...]:
        """Return the targets in the order to ask them; `running` returns the requests of an upstream."""
        if self._choose == "sticky":
            scores = _ranking(targets, self._weights, conversation_key(request))
        else:
            scores = self._take_turns()
        order = sorted(range(len(targets)), key=lambda at: -scores[at])
        if self._choose == "least_busy":
            order.sort(key=lambda at: _load(running(targets[at].upstream_name), self._weights[at]))
        return tuple(targets[at] for at in order)

    def _take_turns(self) -> list[float]:
        """Return how much each target is due; the one that is chosen by it pays for that.

        This is nginx's smooth weighted round-robin: weights 2 and 1 give a, b, a and not a, a, b.
        """
        due = [credit + weight for credit, weight in zip(self._credits, self._weights, strict=True)]
        # A target of weight 0 must not precede one that has just had its turn.
        ranked = [value if self._weights[at] else -math.inf for at, value in enumerate(due)]
        self._credits = due
        self._credits[ranked.index(max(ranked))] -= self._total
        return ranked


def conversation_key(request: Request) -> bytes:
    """Return a digest of the beginning of a conversation: its system text and its first user message.

    Later turns do not count, so the key stays the same while the conversation grows; neither does the dialect.
    """
    first = next((turn for turn in request.turns if turn.role is USER), None)
    system = "".join(part.text for part in request.system)
    user = "" if first is None else _text(first.parts)
    found = hashlib.blake2b(digest_size=16, person=b"dragoman sticky")
    for text in (system, user):
        encoded = text[:_MAX_CHARS].encode("utf-8", "surrogatepass")
        found.update(b"%d:%b" % (len(encoded), encoded))
    return found.digest()


def _text(parts: Sequence[object]) -> str:
    return "".join(part.text for part in parts if isinstance(part, TextPart))


def _ranking(targets: Sequence[Target], weights: Sequence[int], key: bytes) -> list[float]:
    """Return a score for each target: with equal weights each is as often the highest."""
    scores = []
    for target, weight in zip(targets, weights, strict=True):
        name = f"{target.upstream_name}/{target.model}".encode("utf-8", "surrogatepass")
        digest = hashlib.blake2b(name, key=key, digest_size=8).digest()
        # 52 bits and a half lie between 0 and 1, and never on either.
        fraction = ((int.from_bytes(digest) >> 12) + 0.5) / 2**52
        scores.append(-weight / math.log(fraction))
    return scores


def _load(running: int, weight: int) -> float:
    return running / weight if weight else math.inf
